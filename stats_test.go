package chash_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// knower is what a structure says of itself.
type knower interface {
	structure
	Stats() chash.Stats
	Shares() []chash.Share
	Owner(key string) (chash.Backend[string], error)
	Owners(key string, n int) ([]chash.Backend[string], error)
	Explain(key string) chash.Explanation
	Fingerprint() uint64
	LiveFingerprint() uint64
}

// knowers runs a test over both structures of a few backends.
func knowers(t *testing.T, backends []chash.Backend[string], test func(t *testing.T, s knower)) {
	for _, kind := range structures {
		t.Run(kind.name, func(t *testing.T) {
			s, err := kind.make(backends)
			require.NoError(t, err)
			test(t, s.(knower))
		})
	}
}

func numbered(prefix string, n int) []chash.Backend[string] {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return chash.Named(names...)
}

func TestStats_Counts(t *testing.T) {
	backends := numbered("b", 6)
	backends[1].State = chash.Unhealthy
	backends[2].State = chash.Draining
	backends[4].HashKey = "b3" // shares the placement of b3
	knowers(t, backends, func(t *testing.T, s knower) {
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
	backends := numbered("b", 5)
	for i := range backends {
		backends[i].Weight = uint32(1 + i)
	}
	knowers(t, backends, func(t *testing.T, s knower) {
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
	knowers(t, numbered("b", 6), func(t *testing.T, s knower) {
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
	backends := numbered("b", 400)
	knowers(t, backends, func(t *testing.T, s knower) {
		want, far := uint64(0), 0
		homes := s.Clone() // where all stay healthy
		look := func() {
			for k := range 2000 {
				hash := xxhash.Sum64String(fmt.Sprint("key", k))
				b, err := s.GetHash(hash)
				require.NoError(t, err)
				home := must(homes.GetHash(hash))
				if isSampled(hash) && b != home {
					want++
				}
				if b != home {
					far++
				}
				require.Equal(t, want, s.Stats().SampledFallbacks, "after GetHash(%#x) = %q, whose home is %q", hash, b, home)
			}
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
		require.Zero(t, clone.(knower).Stats().SampledFallbacks, "a clone counts its own")
		_, err := clone.GetHash(0) // which is sampled
		require.NoError(t, err)
		require.NoError(t, clone.SetState(must(homes.GetHash(0)), chash.Unhealthy))
		_, err = clone.GetHash(0)
		require.NoError(t, err)
		require.Equal(t, uint64(1), clone.(knower).Stats().SampledFallbacks)
		require.Equal(t, want, s.Stats().SampledFallbacks, "what a clone counts is not the original's")
	})
}

func TestStats_FallbackShare(t *testing.T) {
	knowers(t, numbered("b", 10), func(t *testing.T, s knower) {
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
	m, err := chash.NewMaglev(numbered("b", 7), chash.WithTableSize(251))
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
			backends := numbered("b", 1+random.IntN(min(size, 40)))
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
	knowers(t, backends, func(t *testing.T, s knower) {
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
	backends := append(numbered("b", 8), chash.Backend[string]{Name: "twin", HashKey: "b7", Value: "twin"})
	knowers(t, backends, func(t *testing.T, s knower) {
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
	knowers(t, numbered("b", 400), func(t *testing.T, s knower) {
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
	knowers(t, numbered("b", 1), func(t *testing.T, s knower) {
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
	knowers(t, numbered("b", 3), func(t *testing.T, s knower) {
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
		knower
		Indexed() int
	}
	backends := numbered("b", 60)
	for i := range backends {
		backends[i].Weight = uint32(1 + i%5)
	}
	knowers(t, backends, func(t *testing.T, s knower) {
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
