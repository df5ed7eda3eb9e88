package chash_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

func TestStats_Counts(t *testing.T) {
	backends := chashtest.Numbered("b", 6)
	backends[1].State = chash.Unhealthy
	backends[2].State = chash.Draining
	backends[4].HashKey = "b3" // shares the placement of b3
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		got := s.Stats()
		require.Equal(t, 6, got.Backends)
		require.Equal(t, 4, got.Healthy)
		require.Equal(t, 1, got.Unhealthy)
		require.Equal(t, 1, got.Draining)
		require.Equal(t, 4, got.Placements)
		require.Equal(t, uint64(1), got.Rebuilds)
		require.Positive(t, got.LastRebuild)

		require.NoError(t, s.SetState("b0", chash.Unhealthy))
		require.NoError(t, s.Remove("b5"))
		got = s.Stats()
		require.Equal(t, 2, got.Unhealthy)
		require.Equal(t, 3, got.Placements)
		require.Equal(t, uint64(2), got.Rebuilds)

		s.Clear()
		got = s.Stats()
		require.Equal(t, chash.Stats{Rebuilds: 3, LastRebuild: got.LastRebuild, LoadFactor: chash.DefaultLoadFactor, Loads: map[string]int64{}}, got)
	})
}

func TestStats_Size(t *testing.T) {
	m, err := chash.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(13))
	require.NoError(t, err)
	require.Equal(t, 13, m.Stats().Size)
	r, err := chash.NewRing(chash.Named("a", "b"), chash.WithReplicas(5))
	require.NoError(t, err)
	require.NoError(t, r.SetWeight("b", 3))
	require.Equal(t, 20, r.Stats().Size)
}

// The extremes are those of the shares by their ideals.
func TestStats_MinAndMaxShare(t *testing.T) {
	backends := chashtest.Numbered("b", 5)
	for i := range backends {
		backends[i].Weight = uint32(1 + i)
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		least, most := math.Inf(1), 0.0
		for i, share := range s.Shares() {
			ratio := share.Share * 15 / float64(1+i)
			least, most = min(least, ratio), max(most, ratio)
		}
		got := s.Stats()
		require.InDelta(t, least, got.MinShareRatio, 1e-12)
		require.InDelta(t, most, got.MaxShareRatio, 1e-12)
		require.Less(t, got.MinShareRatio, 1.0)
		require.Greater(t, got.MaxShareRatio, 1.0)
	})
}

func TestStats_JSON(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 6))
		require.NoError(t, s.SetState("b0", chash.Unhealthy))
		require.NoError(t, s.SetState("b1", chash.Draining))
		require.NoError(t, s.(bounded).SetLoadFloor(3))
		_, err := s.(bounded).Acquire("key")
		require.NoError(t, err)
		for i := range 1000 {
			_, err := s.Get(fmt.Sprint("key", i))
			require.NoError(t, err)
		}
		want := s.Stats()
		for i, fields := 0, reflect.ValueOf(want); i < fields.NumField(); i++ {
			name := fields.Type().Field(i).Name
			require.True(t, name == "Layout" || !fields.Field(i).IsZero(), "one that is left out would be 0 too: %s", name)
		}
		data, err := json.Marshal(want)
		require.NoError(t, err)
		var back chash.Stats
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, want, back)
	})
}

// isSampled says of which keys' hashes lookups are counted, as an independent way to
// write it: the top 6 bits of a product are 0.
func isSampled(hash uint64) bool { return hash*0x9e3779b97f4a7c15 < 1<<58 }

// A lookup of a sampled key counts once if it leaves its home, however far, and no other
// does: neither by the index of healthy owners nor without it.
func TestStats_SampledFallbacks(t *testing.T) {
	backends := chashtest.Numbered("b", 400)
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		counted := s.(interface{ SampledFallbacks() uint64 }).SampledFallbacks // without all that Stats adds up
		want, far := uint64(0), 0
		homes := s.Clone() // where all stay healthy
		look := func() {
			for k := range 2000 {
				hash := xxhash.Sum64String(fmt.Sprint("key", k))
				b, err := s.GetHash(hash)
				require.NoError(t, err)
				home := chashtest.Must(homes.GetHash(hash))
				if isSampled(hash) && b != home {
					want++
				}
				if b != home {
					far++
				}
				if got := counted(); got != want {
					t.Fatalf("counted after GetHash(%#x) = %q, whose home is %q: %d, want %d", hash, b, home, got, want)
				}
			}
			require.Equal(t, want, s.Stats().SampledFallbacks)
		}
		look()
		require.Zero(t, far, "all are healthy")
		clone := s.Clone()
		for i := range 40 { // few
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
		}
		look()
		for i := range 300 { // so many that lookups look ahead
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
		}
		look()
		for i := range 399 { // all but one
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
		}
		look()
		require.Greater(t, want, uint64(50))
		require.Zero(t, clone.Stats().SampledFallbacks, "a clone counts its own")
		_, err := clone.GetHash(0) // which is sampled
		require.NoError(t, err)
		require.NoError(t, clone.SetState(chashtest.Must(homes.GetHash(0)), chash.Unhealthy))
		_, err = clone.GetHash(0)
		require.NoError(t, err)
		require.Equal(t, uint64(1), clone.Stats().SampledFallbacks)
		require.Equal(t, want, s.Stats().SampledFallbacks, "what a clone counts is not the original's")
	})
}

func TestStats_FallbackShare(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 10))
		require.Zero(t, s.Stats().FallbackShare)
		want := 0.0
		for _, i := range []int{3, 7} {
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
			want += s.Shares()[i].Share
			require.InDelta(t, want, s.Stats().FallbackShare, 1e-12)
		}
		require.NoError(t, s.SetState("b3", chash.Draining))
		require.InDelta(t, s.Shares()[7].Share, s.Stats().FallbackShare, 1e-12)
		s.Clear()
		require.Zero(t, s.Stats().FallbackShare)
	})
}

func TestShares_CountWhatLookupsSee(t *testing.T) {
	m, err := chash.NewMaglev(chashtest.Numbered("b", 7), chash.WithTableSize(251))
	require.NoError(t, err)
	require.NoError(t, m.SetWeight("b3", 5))
	want := map[string]int{}
	for slot := range uint64(251) {
		name, err := m.GetHash(slot)
		require.NoError(t, err)
		want[name]++
	}
	require.NoError(t, m.SetState("b2", chash.Unhealthy)) // changes no share
	sum := 0.0
	for _, share := range m.Shares() {
		require.Equal(t, want[share.Name], share.Size, share.Name)
		require.Equal(t, float64(share.Size)/251, share.Share)
		sum += share.Share
	}
	require.InDelta(t, 1, sum, 1e-12)
}

// Wherever the slots run out, in the middle of a round or of a day with rounds of
// several weights, each placement has the slots that are counted.
func TestShares_CountSlotsOfAnyTable(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{2, 3, 7, 31, 127, 251} {
		for range 50 {
			backends := chashtest.Numbered("b", 1+random.IntN(min(size, 40)))
			for i := range backends {
				backends[i].Weight = 1 + random.Uint32N(4)
			}
			m, err := chash.NewMaglev(backends, chash.WithTableSize(size))
			require.NoError(t, err)
			want := make([]int, len(backends))
			for _, backend := range m.AppendTable(nil) {
				want[backend]++
			}
			for i, share := range m.Shares() {
				require.Equal(t, want[i], share.Size, "%s in a table of %d slots for %v", share.Name, size, backends)
			}
		}
	}
}

// On a ring whose points stand where the test puts them, the counts are known.
func TestShares_RingCountsPositions(t *testing.T) {
	at := map[string]uint64{"a#0": 10, "b#0": 30, "c#0": 30, "d#0": math.MaxUint64 - 4}
	place := func(label string) uint64 { return at[label] }
	r, err := chash.NewRing(chash.Named("a", "b", "c", "d"), chash.WithReplicas(1), chash.WithHash(place))
	require.NoError(t, err)
	shares := func() map[string]float64 {
		shares := map[string]float64{}
		for _, share := range r.Shares() {
			require.Equal(t, 1, share.Size)
			shares[share.Name] = share.Share
		}
		return shares
	}
	const rest = 1 // 2^64-35 positions, in 53 bits
	// a has (max-4, max] and [0, 10]; b is before c at the same position.
	require.Equal(t, map[string]float64{"a": 0xfp-64, "b": 0x14p-64, "c": 0, "d": rest}, shares())
	data, err := json.Marshal(r.Shares()[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"name": "a", "state": "healthy", "size": 1, "share": 8.131516293641283e-19}`, string(data))
	require.NoError(t, r.Remove("a"))
	require.Equal(t, map[string]float64{"b": 0x23p-64, "c": 0, "d": rest}, shares())
	require.NoError(t, r.Remove("d"))
	require.Equal(t, map[string]float64{"b": 1, "c": 0}, shares())
	require.NoError(t, r.Remove("b"))
	require.Equal(t, map[string]float64{"c": 1}, shares())
}

func TestShares_SharedPlacementAndDraining(t *testing.T) {
	backends := []chash.Backend[string]{
		{Name: "a", HashKey: "x"}, {Name: "b", HashKey: "x", Weight: 2}, {Name: "c"}, {Name: "d", State: chash.Draining},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		require.NoError(t, s.SetState("b", chash.Unhealthy))
		shares := s.Shares()
		require.Len(t, shares, 4)
		require.Equal(t, chash.Share{Name: "a"}, shares[0], "it stands behind b")
		require.InDelta(t, 1, shares[1].Share+shares[2].Share, 1e-12)
		require.Equal(t, s.Stats().Size, shares[1].Size+shares[2].Size)
		require.Equal(t, chash.Unhealthy, shares[1].State)
		require.Equal(t, chash.Share{Name: "d", State: chash.Draining}, shares[3])
	})
}

// The explanation ends where Get ends, begins at the owner, and every probe but
// the last is of a placement without a healthy backend.
func TestExplain_AgreesWithGet(t *testing.T) {
	backends := append(chashtest.Numbered("b", 8), chash.Backend[string]{Name: "twin", HashKey: "b7", Value: "twin"})
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		for i := range 8 {
			for k := range 50 {
				key := fmt.Sprint("key", k)
				e := s.Explain(key)
				got, err := s.Get(key)
				require.Equal(t, got, e.Backend)
				require.Equal(t, err, e.Err)
				require.Equal(t, key, e.Key)
				owner, err := s.Owner(key)
				require.NoError(t, err)
				require.Equal(t, e.Home, e.Probes[0].At)
				require.Equal(t, owner.Name, e.Probes[0].Backends[0].Name)
				for n, probe := range e.Probes {
					healthy := false
					for _, b := range probe.Backends {
						healthy = healthy || b.State == chash.Healthy
					}
					require.Equal(t, n == len(e.Probes)-1, healthy, "probe %d of %v", n, e)
				}
			}
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
		}
		require.NoError(t, s.SetState("twin", chash.Unhealthy))
		e := s.Explain("key")
		require.ErrorIs(t, e.Err, chash.ErrNoHealthyBackends)
		require.Empty(t, e.Backend)
		require.Len(t, e.Probes, 1)
		s.Clear()
		e = s.Explain("key")
		require.ErrorIs(t, e.Err, chash.ErrNoBackends)
		require.Equal(t, -1, e.Home)
		require.Empty(t, e.Probes)
	})
}

// With one healthy backend of many, the list is cut and the rest is counted.
func TestExplain_ListIsBounded(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 400))
		for i := range 399 {
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
		}
		cut := false
		for k := range 100 {
			e := s.Explain(fmt.Sprint("key", k))
			require.Equal(t, "b399", e.Backend)
			require.LessOrEqual(t, len(e.Probes), 100)
			if e.Unlisted > 0 {
				cut = true
				require.Len(t, e.Probes, 100)
				lines := strings.Split(e.String(), "\n")
				require.Len(t, lines, 1+100+1+1) // the key, the probes, the others, the result
				require.Equal(t, fmt.Sprintf("  %d more", e.Unlisted), lines[100], "before the one that answers")
			}
		}
		require.True(t, cut)
	})
}

func TestExplain_JSON(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 1))
		require.NoError(t, s.SetState("b0", chash.Unhealthy))
		data, err := json.Marshal(s.Explain("key"))
		require.NoError(t, err)
		var back struct {
			Key, Hash, Error, Backend string
			Home                      int
			Probes                    []chash.Probe
		}
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, "key", back.Key)
		require.Equal(t, chash.ErrNoHealthyBackends.Error(), back.Error)
		require.Equal(t, []chash.Probe{{At: back.Home, HashKey: "b0", Backends: []chash.Backend[struct{}]{{Name: "b0", Weight: 1, State: chash.Unhealthy}}}}, back.Probes)
		require.NotEmpty(t, back.Hash)
		require.Empty(t, back.Backend)
	})
}

func TestStats_Loads(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 3))
		require.Zero(t, s.Stats().InFlight)
		taker := s.(interface {
			Acquire(key string, opts ...chash.LeaseOption) (chash.Lease[string], error)
		})
		first, err := taker.Acquire("key")
		require.NoError(t, err)
		second, err := taker.Acquire("another key")
		require.NoError(t, err)
		got := s.Stats()
		require.Equal(t, int64(2), got.InFlight)
		require.Positive(t, got.Loads[first.Value])
		require.Positive(t, got.Loads[second.Value])
		require.NoError(t, s.Remove(first.Value))
		first.Release()
		require.Equal(t, int64(1), s.Stats().InFlight)
		second.Release()
		got = s.Stats()
		require.Zero(t, got.InFlight)
		require.Empty(t, got.Loads)
	})
}

// Healthy slots and points are indexed exactly while they are rare, and all of
// them: it is this that bounds a lookup whatever the outage, however the state
// came about.
func TestIndexed_WhileHealthyOwnersAreRare(t *testing.T) {
	type indexer interface {
		chashtest.Structure
		Indexed() int
	}
	backends := chashtest.Numbered("b", 60)
	for i := range backends {
		backends[i].Weight = uint32(1 + i%5)
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		counts := map[string]int{}
		for _, share := range s.Shares() {
			counts[share.Name] = share.Size
		}
		owners := s.Stats().Size
		rng := rand.New(rand.NewPCG(3, 4))
		seen := map[bool]int{}
		check := func() {
			healthy := 0
			for _, b := range s.Backends() {
				if b.State == chash.Healthy {
					healthy += counts[b.Name]
				}
			}
			want := 0
			if healthy < owners/16 {
				want = healthy
			}
			seen[want > 0]++
			require.Equal(t, want, s.(indexer).Indexed(), "%d of %d owners are healthy", healthy, owners)
		}
		for _, i := range rng.Perm(60) {
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Unhealthy))
			check()
		}
		for _, i := range rng.Perm(60) {
			require.NoError(t, s.SetState(fmt.Sprint("b", i), chash.Healthy))
			check()
		}
		require.NotZero(t, seen[true])
		require.NotZero(t, seen[false])
		for i := range 59 { // in one batch, by another way
			backends[i].State = chash.Unhealthy
		}
		require.NoError(t, s.Set(backends))
		check()
		for i := range backends {
			backends[i].State = chash.Healthy
		}
	})
}

func fingerprintOf(t *testing.T, s chashtest.Structure, err error) uint64 {
	t.Helper()
	require.NoError(t, err)
	return s.Fingerprint()
}

func TestFingerprint_SameMapping(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		backends := chashtest.Numbered("b", 20)
		s, err := kind.New(backends)
		want := fingerprintOf(t, s, err)
		require.NotZero(t, want)

		// The order of calls, values and health do not count.
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(backends), func(i, j int) {
			backends[i], backends[j] = backends[j], backends[i]
		})
		other, err := kind.New(nil)
		require.NoError(t, err)
		for i := range backends {
			backends[i].Value = "other"
			require.NoError(t, other.Add(backends[i]))
		}
		require.NoError(t, other.Add(chash.Backend[string]{Name: "gone"}, chash.Backend[string]{Name: "drains", State: chash.Draining}))
		require.NoError(t, other.Remove("gone"))
		require.NoError(t, other.SetState("b7", chash.Unhealthy))
		require.Equal(t, want, fingerprintOf(t, other, nil))

		// Any other mapping has another.
		seen := map[uint64]string{want: "at first", 0: "none"}
		differs := func(what string, s chashtest.Structure, err error) {
			got := fingerprintOf(t, s, err)
			require.NotContains(t, seen, got, what)
			seen[got] = what
		}
		require.NoError(t, other.SetWeight("b3", 2))
		differs("another weight", other, nil)
		require.NoError(t, other.Remove("b3"))
		differs("one removed", other, nil)
		require.NoError(t, other.SetState("b4", chash.Draining))
		differs("one draining", other, nil)
		s, err = kind.New(backends, chash.WithSeed(1))
		differs("a seed", s, err)
		s, err = kind.New(backends, chash.WithSeed(2))
		differs("another seed", s, err)
		s, err = kind.New(backends, chash.WithHash(func(key string) uint64 { return 3 * xxhash.Sum64String(key) }))
		differs("another hash", s, err)
		backends[0].Name, backends[0].HashKey = "renamed", backends[0].Name
		s, err = kind.New(backends)
		differs("one renamed in its place", s, err)
	})
}

// Weights in the same proportion make the same table, but not the same ring.
func TestFingerprint_Weights(t *testing.T) {
	light := []chash.Backend[string]{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}}
	heavy := []chash.Backend[string]{{Name: "a", Weight: 2}, {Name: "b", Weight: 4}}
	m1, err := chashtest.NewMaglev(light)
	require.NoError(t, err)
	m2, err := chashtest.NewMaglev(heavy)
	require.Equal(t, fingerprintOf(t, m1, nil), fingerprintOf(t, m2, err))
	r1, err := chashtest.NewRing(light)
	require.NoError(t, err)
	r2, err := chashtest.NewRing(heavy)
	require.NotEqual(t, fingerprintOf(t, r1, nil), fingerprintOf(t, r2, err))
}

func TestFingerprint_Sizes(t *testing.T) {
	seen := map[uint64]int{}
	for _, size := range []int{3, 5, 7, 251, 65537} {
		m, err := chashtest.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(size))
		seen[fingerprintOf(t, m, err)]++
		r, err := chashtest.NewRing(chash.Named("a", "b"), chash.WithReplicas(size%300))
		seen[fingerprintOf(t, r, err)]++
	}
	require.Len(t, seen, 10)
}

// One backend has every key, so that nothing else counts; none has none.
func TestFingerprint_OneOrNone(t *testing.T) {
	s, err := chashtest.NewMaglev(chash.Named("a"))
	want := fingerprintOf(t, s, err)
	require.NotZero(t, want)
	s, err = chashtest.NewMaglev(chash.Named("a"), chash.WithTableSize(13), chash.WithSeed(5))
	require.Equal(t, want, fingerprintOf(t, s, err))
	s, err = chashtest.NewRing(chash.Named("a"), chash.WithReplicas(3))
	require.Equal(t, want, fingerprintOf(t, s, err))
	s.Clear()
	require.Zero(t, fingerprintOf(t, s, nil))
	require.NoError(t, s.Add(chash.Backend[string]{Name: "a", State: chash.Draining}))
	require.Zero(t, fingerprintOf(t, s, nil))
}

func TestLiveFingerprint_FollowsHealth(t *testing.T) {
	backends := append(chashtest.Numbered("b", 4), chash.Backend[string]{Name: "spare", HashKey: "b0"})
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		all := s.LiveFingerprint()
		require.Equal(t, s.Fingerprint(), all, "all are healthy")
		seen := map[uint64]string{all: "all healthy"}
		for _, name := range []string{"b0", "b1", "b2"} { // b0 gives way to spare, the others to all
			require.NoError(t, s.SetState(name, chash.Unhealthy))
			got := s.LiveFingerprint()
			require.NotContains(t, seen, got, name)
			seen[got] = name
			require.Equal(t, all, s.Fingerprint())
		}
		require.NoError(t, s.SetState("spare", chash.Unhealthy))
		alone, err := chashtest.NewMaglev(chash.Named("b3"))
		require.Equal(t, fingerprintOf(t, alone, err), s.LiveFingerprint(), "only b3 is left")
		require.NoError(t, s.SetState("b3", chash.Unhealthy))
		require.Zero(t, s.LiveFingerprint())
		for _, name := range []string{"b0", "b1", "b2", "b3", "spare"} {
			require.NoError(t, s.SetState(name, chash.Healthy))
		}
		require.Equal(t, all, s.LiveFingerprint(), "all are back")
	})
}

// On a ring a lookup goes from an unhealthy node's points to the next, so that the
// mapping is that of a ring without the node, and the print says so.
func TestLiveFingerprint_UnhealthyOnARingIsAsRemoved(t *testing.T) {
	down, err := chashtest.NewRing(chashtest.Numbered("b", 6), chash.WithReplicas(7))
	require.NoError(t, err)
	require.NoError(t, down.SetState("b2", chash.Unhealthy))
	removed := down.Clone()
	require.NoError(t, removed.Remove("b2"))
	require.Equal(t, fingerprintOf(t, removed, nil), down.LiveFingerprint())
}

// A fleet may run releases and architectures side by side: these never change.
func TestFingerprint_Golden(t *testing.T) {
	data, err := os.ReadFile("testdata/fingerprints.json")
	require.NoError(t, err)
	var golden []struct {
		Structure   string `json:"structure"`
		Size        int    `json:"size"`
		Seed        uint64 `json:"seed"`
		Count       int    `json:"count"`
		Fingerprint string `json:"fingerprint"`
		Live        string `json:"live"` // with the first of several unhealthy
	}
	require.NoError(t, json.Unmarshal(data, &golden))
	require.NotEmpty(t, golden)
	for _, g := range golden {
		var s chashtest.Structure
		if g.Structure == "ring" {
			s, err = chashtest.NewRing(chashtest.Numbered("backend-", g.Count), chash.WithReplicas(g.Size), chash.WithSeed(g.Seed))
		} else {
			s, err = chashtest.NewMaglev(chashtest.Numbered("backend-", g.Count), chash.WithTableSize(g.Size), chash.WithSeed(g.Seed))
		}
		require.NoError(t, err)
		require.Equal(t, g.Fingerprint, fmt.Sprintf("%016x", s.Fingerprint()), "%+v", g)
		require.NoError(t, s.SetState("backend-0", chash.Unhealthy))
		require.Equal(t, g.Live, fmt.Sprintf("%016x", s.LiveFingerprint()), "%+v", g)
	}
}

// The print of a small table and ring, computed from the mapping and the form in
// which it is hashed: of a table the name in each slot, of a ring the last
// position and the name of each run of points.
func TestFingerprint_Form(t *testing.T) {
	be64 := func(x uint64) []byte { return binary.BigEndian.AppendUint64(nil, x) }
	m, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(7))
	require.NoError(t, err)
	form := be64(xxhash.Sum64String("chash"))
	for slot := range uint64(7) {
		owner, err := m.GetHash(slot)
		require.NoError(t, err)
		form = append(form, be64(xxhash.Sum64String(owner))...)
	}
	require.Equal(t, xxhash.Sum64(form), m.Fingerprint())

	type run struct {
		end  uint64
		name string
	}
	tests := []struct {
		name   string
		points map[string]uint64
		runs   []run
	}{
		{
			"runs",
			map[string]uint64{"c#1": 5, "a#0": 10, "a#1": 20, "b#0": 30, "c#0": 40, "b#1": 50},
			[]run{{5, "c"}, {20, "a"}, {30, "b"}, {40, "c"}, {50, "b"}},
		},
		{
			"across the wrap",
			map[string]uint64{"a#0": 10, "b#1": 25, "b#0": 30, "c#0": 40, "c#1": 45, "a#1": 55},
			[]run{{10, "a"}, {30, "b"}, {45, "c"}},
		},
	}
	for _, test := range tests {
		place := func(label string) uint64 { return test.points[label] }
		r, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(2), chash.WithHash(place))
		require.NoError(t, err)
		form := be64(0) // the hash of the key that tells hash functions apart
		for _, run := range test.runs {
			form = append(append(form, be64(run.end)...), be64(xxhash.Sum64String(run.name))...)
		}
		require.Equal(t, xxhash.Sum64(form), r.Fingerprint(), test.name)
	}
}

// Points behind another one at their position have no keys and do not count.
func TestFingerprint_HiddenPoints(t *testing.T) {
	at := map[string]uint64{"a#0": 10, "b#0": 10, "c#0": 10, "d#0": 20}
	ring := func(names ...string) *chash.Ring[string] {
		r, err := chash.NewRing(chash.Named(names...), chash.WithReplicas(1), chash.WithHash(func(s string) uint64 { return at[s] }))
		require.NoError(t, err)
		return r
	}
	require.Equal(t, ring("a", "d").Fingerprint(), ring("a", "b", "d").Fingerprint())
	require.Equal(t, ring("a", "b", "d").Fingerprint(), ring("a", "c", "d").Fingerprint())
	require.Equal(t, ring("a").Fingerprint(), ring("a", "b").Fingerprint(), "a has every key")
	require.NotEqual(t, ring("a", "d").Fingerprint(), ring("b", "d").Fingerprint())

	// So it is at position 0, where the first point of all is.
	at = map[string]uint64{"a#0": 0, "b#0": 0, "c#0": 5, "d#0": 7}
	require.Equal(t, ring("a", "c").Fingerprint(), ring("a", "b", "c").Fingerprint())
	require.NotEqual(t, ring("c", "d").Fingerprint(), ring("a", "c", "d").Fingerprint(), "a has the position 0")
	zero := ring("a", "c", "d").Fingerprint()
	at["a#0"] = 8 // owns 0 too, and more
	require.NotEqual(t, zero, ring("a", "c", "d").Fingerprint())
}

func TestString(t *testing.T) {
	backends := chashtest.Numbered("b", 3)
	backends[1].State = chash.Unhealthy
	table, err := chash.NewMaglev(backends, chash.WithTableSize(251))
	require.NoError(t, err)
	ring, err := chash.NewRing(backends, chash.WithReplicas(7))
	require.NoError(t, err)
	for want, s := range map[string]fmt.Stringer{
		"Maglev of 251 slots, 2 of 3 backends healthy": table,
		"Ring of 21 points, 2 of 3 backends healthy":   ring,
	} {
		require.Equal(t, want, s.String())
		for _, verb := range []string{"%v", "%+v", "%s"} {
			require.Equal(t, want, fmt.Sprintf(verb, s), verb)
		}
		require.Equal(t, `"`+want+`"`, fmt.Sprintf("%q", s))
		require.Equal(t, "  "+want, fmt.Sprintf("%*s", len(want)+2, s))
	}
}

// TestFormat_WhileItChanges: what fmt prints, with any verb, and what encoding/json
// writes is no race with changes.
func TestFormat_WhileItChanges(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 5))
		chashtest.ReadWhile(t, func(int) error {
			for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x"} {
				_ = fmt.Sprintf(verb, chashtest.StructureIn(s))
			}
			_, err := json.Marshal(chashtest.StructureIn(s))
			return err
		}, func(i int) {
			if err := s.SetState("b1", chash.State(i%3)); err != nil {
				t.Errorf("SetState: %v", err)
			}
			_, _ = s.Get("key")
		})
	})
}

func TestStructure_JSON(t *testing.T) {
	type conn = chan int // which cannot be marshalled
	backends := []chash.Backend[conn]{{Name: "b", State: chash.Draining}, {Name: "a", HashKey: "k", Weight: 3}}
	table, err := chash.NewMaglev(backends, chash.WithTableSize(7))
	require.NoError(t, err)
	data, err := json.Marshal(table)
	require.NoError(t, err)
	require.JSONEq(t, `{"structure": "Maglev", "size": 7, "backends": [
		{"name": "a", "hash_key": "k", "weight": 3, "state": "healthy"}, {"name": "b", "weight": 1, "state": "draining"}]}`, string(data))
	ring, err := chash.NewRing[conn](nil)
	require.NoError(t, err)
	data, err = json.Marshal(ring)
	require.NoError(t, err)
	require.JSONEq(t, `{"structure": "Ring", "size": 0, "backends": []}`, string(data))
}

func TestBackend_JSON(t *testing.T) {
	for want, b := range map[string]chash.Backend[string]{
		`{"name":"a","state":"healthy"}`: {Name: "a"},
		`{"name":"a","hash_key":"k","weight":2,"state":"unhealthy","value":"10.0.0.1:8080"}`: {Name: "a", HashKey: "k", Weight: 2, State: 1, Value: "10.0.0.1:8080"},
	} {
		data, err := json.Marshal(b)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		var back chash.Backend[string]
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, b, back)
	}
}
