package contract_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// TestProperty_Twin: any set, placed at once, in any state of health.
func TestProperty_Twin(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		chashtest.Rounds(t, 64, func(t *testing.T, rng *rand.Rand) { chashtest.CheckTwin(t, rng, kind.Ring) })
	})
}

// TestProperty_TwinDefaults: the sizes that users have.
func TestProperty_TwinDefaults(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		n, size := 150, chash.DefaultTableSize
		if ring {
			size = chash.DefaultReplicas
		}
		if testing.Short() {
			n = 20
		}
		rng := rand.New(rand.NewPCG(0, 0))
		w, backends := chashtest.NewTwin(ring, size, 0, nil), chash.Named()
		for i := range n {
			backends = append(backends, chash.Backend[string]{
				Name: fmt.Sprintf("10.0.0.%d:8080", i), Value: fmt.Sprint(i), Weight: 1 + rng.Uint32N(5),
			})
		}
		s := chashtest.Twins(t, w, backends)
		check := func() {
			t.Helper()
			var hashes []uint64
			for range 1000 {
				hashes = append(hashes, rng.Uint64())
			}
			require.NoError(t, w.Differ(s, chashtest.RandomKeys(rng, 20), hashes))
		}
		check()
		if !ring {
			for slot, owner := range w.Owners { // all are healthy: the owner answers
				if got, err := s.GetHash(uint64(slot)); err != nil || got != w.Backends[owner].Value {
					t.Fatalf("GetHash(%d) = %q, %v, want %q", slot, got, err, w.Backends[owner].Value)
				}
			}
		}
		for i, b := range backends { // half of them, then all but the last one
			if i%2 == 0 && i < n-1 {
				require.NoError(t, chashtest.Predicted(s.SetState(b.Name, chash.Unhealthy), w.SetStateOnly(b.Name, chash.Unhealthy)))
			}
		}
		check()
		for _, b := range backends[:n-1] {
			require.NoError(t, chashtest.Predicted(s.SetState(b.Name, chash.Unhealthy), w.SetStateOnly(b.Name, chash.Unhealthy)))
		}
		check()
	})
}

// TestProperty_Operations: any sequence of calls, right and wrong ones, leaves
// what the backends left alone decide: the twin lays its owners out anew each
// time, and a structure that is built anew answers alike.
func TestProperty_Operations(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		chashtest.Rounds(t, 28, func(t *testing.T, rng *rand.Rand) { chashtest.CheckCalls(t, rng, kind.Ring) })
	})
}

// TestProperty_AwkwardNames: all of them side by side, and keys equal to the
// labels of their points.
func TestProperty_AwkwardNames(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		for _, seed := range []uint64{0, 1} {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				w := chashtest.NewTwin(ring, 1021, seed, nil)
				if ring {
					w.Size = 3
				}
				s := chashtest.Twins(t, w, chash.Named(chashtest.AwkwardNames...))
				var keys []string
				for _, name := range chashtest.AwkwardNames {
					keys = append(keys, name, "\xba"+name, "\xbe"+name)
					for i := range 3 {
						label := fmt.Sprintf("%s#%d", name, i)
						keys = append(keys, label)
						if !ring || seed != 0 {
							continue
						}
						// A key lies on the very point that has the same label.
						if got, err := s.Get(label); err != nil || got != name {
							t.Errorf("Get(%q) = %q, %v, want %q", label, got, err, name)
						}
					}
				}
				for _, key := range keys {
					require.NoError(t, w.DifferInKey(s, key))
				}
				require.NoError(t, w.Differ(s, nil, w.Hashes()))
			})
		}
	})
}

// TestProperty_ManyPlacements: numbers of placements on both sides of what a
// byte and what two bytes can number, up to as many as there are slots.
func TestProperty_ManyPlacements(t *testing.T) {
	for _, c := range []struct{ n, m int }{
		{255, 257}, {256, 257}, {257, 257}, {255, 2053}, {256, 2053}, {257, 2053},
		{65536, 65537}, {65537, 65537}, {65537, 131071},
	} {
		t.Run(fmt.Sprintf("n=%d/M=%d", c.n, c.m), func(t *testing.T) {
			if testing.Short() && c.n > 1000 {
				t.Skip("many slots to claim")
			}
			names := make([]string, c.n)
			for i := range names {
				names[i] = fmt.Sprintf("backend-%d", i)
			}
			s, err := chashtest.NewMaglev(chash.Named(names...), chash.WithTableSize(c.m))
			require.NoError(t, err)
			chashtest.SameAnswers(t, equalShares(names, c.m), chashtest.SlotOwners(t, s, c.m))
			var more []string
			for i := range c.m - c.n + 1 {
				more = append(more, fmt.Sprintf("more-%d", i))
			}
			require.ErrorIs(t, s.Add(chash.Named(more...)...), chash.ErrTooManyBackends)
			require.Equal(t, c.n, s.Len())

			s, err = chashtest.NewRing(chash.Named(names...), chash.WithReplicas(1))
			require.NoError(t, err)
			for _, name := range names { // each owns the point with its label
				if got, err := s.Get(name + "#0"); err != nil || got != name {
					t.Fatalf("Get(%q) = %q, %v, want %q", name+"#0", got, err, name)
				}
			}
		})
	}
}

// TestProperty_GetN: the first n are a prefix of the first n+1, distinct, begin
// with Get, and are complete when n is the number of healthy placements; the
// candidates and what GetFunc asks for come in the same order.
func TestProperty_GetN(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		chashtest.Rounds(t, 40, func(t *testing.T, rng *rand.Rand) {
			n := 1 + rng.IntN(40)
			w, backends := chashtest.RandomTwin(rng, ring, n), chashtest.RandomBackends(rng, ring, n)
			chashtest.RandomStates(rng, backends)
			backends[0].State = chash.Healthy
			s := chashtest.Twins(t, w, backends)
			healthy := len(w.Answering)
			for _, key := range chashtest.RandomKeys(rng, 20) {
				all, err := s.GetN(key, n)
				require.NoError(t, err)
				require.Len(t, all, healthy)
				first, err := s.Get(key)
				require.NoError(t, err)
				require.Equal(t, first, all[0])
				seen := map[string]bool{}
				for _, value := range all {
					require.False(t, seen[value], "%q twice in GetN(%q, %d)", value, key, n)
					seen[value] = true
				}
				for k := range healthy {
					prefix, err := s.GetN(key, k+1)
					require.NoError(t, err)
					require.Equal(t, all[:k+1], prefix)
				}
				require.Equal(t, all, slices.Collect(s.Candidates(key)))
				var asked []string
				_, err = s.GetFunc(key, func(value string) bool {
					asked = append(asked, value)
					return false
				})
				require.ErrorIs(t, err, chash.ErrNoneAccepted)
				require.Equal(t, all, asked)
			}
		})
	})
}

// TestProperty_Hash: GetHash of the documented hash is Get.
func TestProperty_Hash(t *testing.T) {
	rng := rand.New(rand.NewPCG(0, 0))
	m, err := chashtest.NewMaglev(chash.Named(chashtest.AwkwardNames...))
	require.NoError(t, err)
	ring, err := chashtest.NewRing(chash.Named(chashtest.AwkwardNames...), chash.WithHash(xxhash.Sum64String))
	require.NoError(t, err)
	for _, key := range chashtest.RandomKeys(rng, 2000) {
		for _, s := range []chashtest.Structure{m, ring} {
			want, err := s.Get(key)
			require.NoError(t, err)
			if got, err := s.GetHash(xxhash.Sum64String(key)); err != nil || got != want {
				t.Fatalf("GetHash of %q = %q, %v, want %q", key, got, err, want)
			}
		}
	}
}

func TestClumsyHash_Terminates(t *testing.T) {
	names := chashtest.ManyNames("b", 7)
	sorted := slices.Sorted(slices.Values(names))
	for name, hash := range chashtest.Clumsy {
		for kind, build := range map[string]func([]chash.Backend[string]) (chashtest.Structure, error){
			"maglev, table of 7": func(b []chash.Backend[string]) (chashtest.Structure, error) {
				return chashtest.NewMaglev(b, chash.WithHash(hash), chash.WithTableSize(7))
			},
			"maglev, table of 65537": func(b []chash.Backend[string]) (chashtest.Structure, error) {
				return chashtest.NewMaglev(b, chash.WithHash(hash))
			},
			"ring, 1 replica": func(b []chash.Backend[string]) (chashtest.Structure, error) {
				return chashtest.NewRing(b, chash.WithHash(hash), chash.WithReplicas(1))
			},
			"ring, 160 replicas": func(b []chash.Backend[string]) (chashtest.Structure, error) {
				return chashtest.NewRing(b, chash.WithHash(hash))
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := chashtest.Must(build(chash.Named(names...)))
				check := func(healthy []string) {
					t.Helper()
					for _, key := range chashtest.SampleKeys[:50] {
						got := chashtest.Must(s.GetN(key, len(names)+1))
						if all := slices.Sorted(slices.Values(got)); !slices.Equal(all, healthy) {
							t.Errorf("GetN(%q, 8) = %q, want each of %q", key, got, healthy)
						}
						if one := chashtest.Must(s.Get(key)); one != got[0] {
							t.Errorf("Get(%q) = %q, want %q", key, one, got[0])
						}
						if order := slices.Collect(s.Candidates(key)); !slices.Equal(order, got) {
							t.Errorf("Candidates(%q) = %q, want %q", key, order, got)
						}
						if value, err := s.GetFunc(key, func(string) bool { return false }); err != chash.ErrNoneAccepted {
							t.Errorf("GetFunc(%q, none) = %q, %v, want %v", key, value, err, chash.ErrNoneAccepted)
						}
					}
					chashtest.CheckRounds(t, s, healthy...)
				}
				check(sorted)
				for i := range sorted[1:] {
					require.NoError(t, s.SetState(sorted[i], chash.Unhealthy))
					check(sorted[i+1:])
				}
				require.NoError(t, s.SetState(sorted[6], chash.Unhealthy))
				chashtest.CheckLookupsFail(t, s, chash.ErrNoHealthyBackends)
				for i := range sorted {
					require.NoError(t, s.SetState(sorted[i], chash.Healthy))
				}

				// The order of calls has no say, and Remove undoes Add.
				before := chashtest.StateOf(s)
				require.NoError(t, s.Remove(names[3]))
				require.NoError(t, s.Remove(names[0], names[6]))
				require.NoError(t, s.Add(chash.Named(names[6], names[3], names[0])...))
				before.Rebuilds = s.Rebuilds()
				chashtest.CheckState(t, s, "Remove and Add", before)
				backwards := chashtest.Must(build(nil))
				for i := range names {
					require.NoError(t, backwards.Add(chash.Named(names[6-i])...))
				}
				before.Rebuilds = backwards.Rebuilds()
				chashtest.CheckState(t, backwards, "Add one by one, last first", before)
			})
		}
	}
}

// TestNamesOfEveryKind has names that a careless layout would mix up.
func TestNamesOfEveryKind(t *testing.T) {
	names := []string{
		"a", "a#", "a#1", "a#11", "#", "1", "11", "1host", "host", "host1", " ", " a", "a ", "with space", "host:80", "[2001:db8::1]:443",
		"ünïcode", "日本", "\x00", "a\x00", "\xff", "\xba", "\xbea", strings.Repeat("n", 5000),
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chash.Named(names...))
		want := chashtest.StateOf(s)
		if got := len(chashtest.Must(s.GetN("key", 99))); got != len(names) {
			t.Errorf("GetN(key, 99) = %d backends, want %d", got, len(names))
		}
		chashtest.CheckRounds(t, s, slices.Sorted(slices.Values(names))...)

		backwards := kind.Make(t, nil)
		for i := range names {
			require.NoError(t, backwards.Add(chash.Named(names[len(names)-1-i])...))
		}
		want.Rebuilds = backwards.Rebuilds()
		chashtest.CheckState(t, backwards, "Add one by one, last first", want)
		for _, name := range names {
			require.NoError(t, backwards.Remove(name))
			require.NoError(t, backwards.Add(chash.Named(name)...))
		}
		want.Rebuilds = backwards.Rebuilds()
		chashtest.CheckState(t, backwards, "Remove and Add of each", want)
		for _, name := range names {
			require.NoError(t, s.Remove(name))
			if _, ok := s.Backend(name); ok {
				t.Errorf("Backend(%q) after Remove = _, true, want false", name)
			}
		}
	})
}
