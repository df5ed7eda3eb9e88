package chash_test

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestOwner_IsTheHomeWhateverItsHealth(t *testing.T) {
	knowers(t, numbered("b", 5), func(t *testing.T, s knower) {
		homes := map[string]string{}
		for i := range 1000 {
			key := fmt.Sprint("key", i)
			home, err := s.Get(key)
			require.NoError(t, err)
			homes[key] = home
		}
		require.NoError(t, s.SetState("b1", chash.Unhealthy))
		require.NoError(t, s.SetState("b2", chash.Unhealthy))
		for key, home := range homes {
			owner, err := s.Owner(key)
			require.NoError(t, err)
			require.Equal(t, home, owner.Name)
			b, _ := s.Backend(home)
			require.Equal(t, b, owner)
		}
	})
}

func TestOwner_OutranksInItsPlacement(t *testing.T) {
	backends := []chash.Backend[string]{
		{Name: "b", HashKey: "x", Value: "b"}, {Name: "a", HashKey: "x", Weight: 1, Value: "a"}, {Name: "c", HashKey: "x", Weight: 2, Value: "c"},
	}
	knowers(t, backends, func(t *testing.T, s knower) {
		owner := func() string {
			b, err := s.Owner("key")
			require.NoError(t, err)
			return b.Name
		}
		require.Equal(t, "c", owner())
		require.NoError(t, s.SetState("c", chash.Unhealthy))
		require.Equal(t, "c", owner())
		require.NoError(t, s.SetState("c", chash.Draining))
		require.Equal(t, "a", owner())
	})
}

func TestOwner_WithoutBackends(t *testing.T) {
	knowers(t, nil, func(t *testing.T, s knower) {
		_, err := s.Owner("key")
		require.ErrorIs(t, err, chash.ErrNoBackends)
		require.NoError(t, s.Add(chash.Backend[string]{Name: "a", State: chash.Draining}))
		_, err = s.Owner("key")
		require.ErrorIs(t, err, chash.ErrNoHealthyBackends)
		require.NoError(t, s.SetState("a", chash.Unhealthy))
		owner, err := s.Owner("key")
		require.NoError(t, err)
		require.Equal(t, "a", owner.Name)
	})
}

// TestOwners_Twin: they are the twin's order of preference as if all were healthy.
func TestOwners_Twin(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
			n := 1 + rng.IntN(60)
			w, backends := randomTwin(rng, ring, n), randomBackends(rng, ring, n)
			randomStates(rng, backends)
			s := twins(t, w, backends).(knower)
			owning := w.clone()
			for name, b := range owning.backends {
				if b.State != chash.Draining {
					b.State = chash.Healthy
					owning.backends[name] = b
				}
			}
			owning.rebuild()
			for _, key := range randomKeys(rng, 10) {
				all := owning.prefer(w.metByKey(key), math.MaxInt)
				for i := range all { // with the states that there are
					all[i] = w.backends[all[i].Name]
				}
				for _, n := range []int{math.MinInt, -1, 0, 1, 2, len(all) - 1, len(all), len(all) + 1, math.MaxInt} {
					want, wantErr := all[:max(0, min(n, len(all)))], owning.err()
					if n <= 0 {
						wantErr = nil
					}
					got, err := s.Owners(key, n)
					require.Equal(t, wantErr, err)
					if !slices.Equal(got, want) {
						t.Fatalf("Owners(%q, %d) = %v, want %v", key, n, got, want)
					}
				}
			}
		})
	})
}

// TestOwners_AgreeWithGetN: without shared placements, GetN gives the healthy ones of
// them, in the same order.
func TestOwners_AgreeWithGetN(t *testing.T) {
	backends := numbered("b", 100)
	for i := range backends {
		backends[i].State = chash.State(min(i%4/2, 1))
	}
	knowers(t, backends, func(t *testing.T, s knower) {
		for k := range 200 {
			key := fmt.Sprint("key", k)
			owners, err := s.Owners(key, 1000)
			require.NoError(t, err)
			require.Len(t, owners, len(backends))
			require.Equal(t, must(s.Owner(key)), owners[0])
			owners = slices.DeleteFunc(owners, func(b chash.Backend[string]) bool { return b.State != chash.Healthy })
			var want []string
			for _, b := range owners {
				want = append(want, b.Value)
			}
			require.Equal(t, want, must(s.GetN(key, 1000)))
		}
	})
}

// TestOwners_AgreeWithHolders: on a ring they are the holders of the range that the key
// is in, whatever the health.
func TestOwners_AgreeWithHolders(t *testing.T) {
	backends := append(numbered("b", 20), chash.Backend[string]{Name: "stand-in", HashKey: "b3"})
	for i := range backends {
		backends[i].State = chash.State(i % 3 % 2)
	}
	ring, err := chash.NewRing(backends, chash.WithReplicas(10))
	require.NoError(t, err)
	for _, n := range []int{1, 3, 19, 20, 25} {
		met := 0
		for k := range 100 {
			key := fmt.Sprint("key", k)
			var got []string
			for _, b := range must(ring.Owners(key, n)) {
				got = append(got, b.Name)
			}
			for r, holders := range ring.Holders(n) {
				if r.Contains(ring.Position(key)) {
					require.Equal(t, holders, got, "key %q in %v", key, r)
					met++
				}
			}
		}
		require.Equal(t, 100, met)
	}
}

// TestFailover_IsEven: the keys of a dead backend are spread over the others to within
// 10 % of evenly, for hashes of the caller's of which few bits differ. Each of the nine
// others gets some 2,200 to 3,300 of its keys: 10 % is 4.7 standard deviations of 2,200,
// of which there are 900 here; and the hashes are the same each time.
func TestFailover_IsEven(t *testing.T) {
	const keys = 300_000
	s := must(newMaglev(numbered("b", 10)))
	hashes := map[string]func(i uint64) uint64{
		"crc32 in the lower half": func(i uint64) uint64 { return uint64(crc32.ChecksumIEEE(fmt.Appendf(nil, "key-%d", i))) },
		"crc32 in the upper half": func(i uint64) uint64 { return uint64(crc32.ChecksumIEEE(fmt.Appendf(nil, "key-%d", i))) << 32 },
		"integers":                func(i uint64) uint64 { return i },
		"integers << 10":          func(i uint64) uint64 { return i << 10 },
		"integers << 20":          func(i uint64) uint64 { return i << 20 },
		// Milliseconds, 10 bits of a machine, 12 of a sequence that mostly is 0.
		"Snowflake ids": func(i uint64) uint64 { return (1_700_000_000_000+7*i)<<22 | (i%5)<<12 | i%16/15 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			for dead := range 10 {
				down := fmt.Sprint("b", dead)
				homes := make([]bool, keys)
				for i := range homes {
					homes[i] = must(s.GetHash(hash(uint64(i)))) == down
				}
				require.NoError(t, s.SetState(down, chash.Unhealthy))
				got, total := map[string]int{}, 0
				for i, home := range homes {
					if home {
						got[must(s.GetHash(hash(uint64(i))))]++
						total++
					}
				}
				require.NoError(t, s.SetState(down, chash.Healthy))
				require.Greater(t, total, 20_000)
				for i := range 10 {
					if i != dead {
						require.InEpsilon(t, float64(total)/9, float64(got[fmt.Sprint("b", i)]), 0.1, "keys of b%d that went to b%d", dead, i)
					}
				}
			}
		})
	}
}

// TestZeroValue: every method of a structure that no constructor made says what is
// missing, other than those that print it.
func TestZeroValue(t *testing.T) {
	const want = "chash: the zero value of a Maglev or a Ring is not usable: make one with NewMaglev or NewRing"
	for _, zero := range []any{new(chash.Maglev[string]), new(chash.Ring[string])} {
		v := reflect.ValueOf(zero)
		for i := range v.NumMethod() {
			switch name := v.Type().Method(i).Name; name {
			case "String", "Format":
			case "SetWeight", "SetLoadFactor", "SetLoadFloor": // which refuse 0 first
				arg := reflect.ValueOf(2).Convert(v.Method(i).Type().In(v.Method(i).Type().NumIn() - 1))
				args := append([]reflect.Value{reflect.ValueOf("a")}, arg)[2-v.Method(i).Type().NumIn():]
				require.PanicsWithValue(t, want, func() { v.Method(i).Call(args) }, name)
			default:
				require.PanicsWithValue(t, want, func() { callWithZeros(v.Method(i), v) }, name)
			}
		}
	}
	require.Equal(t, "Maglev that is not made", fmt.Sprint(new(chash.Maglev[string])))
	require.Equal(t, "Ring that is not made", fmt.Sprintf("%+v", new(chash.Ring[string])))
	var none *chash.Maglev[string]
	require.Equal(t, "<nil>", fmt.Sprint(none))
}

// TestOwners_WithoutSlots: placements that own no slot come last, in the order of GetN.
func TestOwners_WithoutSlots(t *testing.T) {
	m, idle := idleTable(t)
	before := map[string][]string{}
	keys := manyNames("key", 50)
	for _, key := range keys {
		before[key] = must(m.GetN(key, 100))
	}
	setAll(t, m, func(name string) chash.State {
		if len(name)%2 == 0 || name == idle[0] {
			return chash.Unhealthy
		}
		return chash.Healthy
	})
	for _, key := range keys {
		for _, n := range []int{1, 39, 40, 41} {
			var got []string
			for _, b := range must(m.Owners(key, n)) {
				got = append(got, b.Name)
			}
			require.Equal(t, before[key][:min(n, 40)], got)
		}
	}
}
