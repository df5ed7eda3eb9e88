package contract_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// strays returns, over all stretches of a sequence of calls, by how many calls a
// backend's number strays the furthest from its share of the stretch.
//
// In a stretch it strays by the difference of how far it has strayed at the end and at
// the beginning. So the furthest is the most that it is ever ahead less the most that
// it is ever behind, counted from the first call.
func strays(calls []string, weights map[string]uint32) (furthest float64) {
	total := 0.0
	for _, weight := range weights {
		total += float64(weight)
	}
	for name, weight := range weights {
		ahead, behind, got := 0.0, 0.0, 0.0
		share := float64(weight) / total
		for i, call := range calls {
			behind = min(behind, got-float64(i)*share)
			if call == name {
				got++
				ahead = max(ahead, got-float64(i+1)*share)
			}
		}
		behind = min(behind, got-float64(len(calls))*share)
		furthest = max(furthest, ahead-behind)
	}
	return furthest
}

func TestStrays(t *testing.T) {
	weights := map[string]uint32{"a": 1, "b": 1}
	require.Equal(t, 0.5, strays([]string{"a", "b", "a", "b"}, weights), "of a single a, half belongs to b")
	require.Equal(t, 1.5, strays([]string{"b", "a", "a", "a", "b", "a"}, weights), "of three a in a row, one and a half")
}

// weighted returns backends a, b, ... of those weights, and the weights by name.
func weighted(list ...uint32) (backends []chash.Backend[string], weights map[string]uint32) {
	weights = map[string]uint32{}
	for i, weight := range list {
		b := chashtest.Backend(fmt.Sprintf("b%04d", i), "", weight, chash.Healthy)
		backends, weights[b.Name] = append(backends, b), weight
	}
	return backends, weights
}

// smallest makes a structure for tests of turns, to which placements do not matter: a
// table that has place for as many backends.
func smallest(t *testing.T, backends []chash.Backend[string]) chashtest.Structure {
	t.Helper()
	return chashtest.Must(chashtest.NewMaglev(backends, chash.WithTableSize(10007)))
}

// TestNext_Weights: every stretch of calls has each backend's share to within a few
// calls, whatever the weights. Measured over 20 random sets of each kind and 300,000
// calls, that is at most 2.4 calls where turns are listed, and 5.4 on the circle, where
// it grows with the logarithm of the calls.
func TestNext_Weights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int, most uint32) []uint32 {
		list := make([]uint32, n)
		for i := range list {
			list[i] = 1 + rng.Uint32N(most)
		}
		return list
	}
	huge := append(slices.Repeat([]uint32{1}, 1000), math.MaxUint32)
	for name, test := range map[string]struct {
		weights []uint32
		within  float64
	}{
		"99 and 1":             {[]uint32{99, 1}, 1},
		"3 and 1":              {[]uint32{3, 1}, 1},
		"5, 1 and 1":           {[]uint32{5, 1, 1}, 1.5},
		"equal":                {[]uint32{7, 7, 7, 7}, 1},
		"multiples":            {[]uint32{3000000000, 1000000000}, 1},
		"nearly equal":         {[]uint32{1000, 999}, 1},
		"1 to 10":              {[]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2.5},
		"ten up to 100":        {random(10, 100), 2.5},
		"fifty up to 20":       {random(50, 20), 2.5},
		"no end of weights":    {random(20, math.MaxUint32-1), 6},
		"five up to a million": {random(5, 1_000_000), 6},
		"many light, one huge": {huge, 2},
		"a huge and a light":   {[]uint32{1, math.MaxUint32}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			backends, weights := weighted(test.weights...)
			got := strays(chashtest.Nexts(t, smallest(t, backends), 100_000), weights)
			require.LessOrEqual(t, got, test.within, "calls by which a backend strays from its share")
		})
	}
}

// TestNext_Period: as many calls as the weights add up to, divided by their greatest
// common divisor, give each backend exactly its share, wherever they begin.
func TestNext_Period(t *testing.T) {
	for name, list := range map[string][]uint32{
		"without a divisor": {5, 1, 3}, "with one": {600, 1000, 400}, "1,000 each": slices.Repeat([]uint32{1 << 31}, 1000),
		"4,096 turns": {4095, 1},
	} {
		t.Run(name, func(t *testing.T) {
			backends, weights := weighted(list...)
			s := smallest(t, backends)
			unit, total := uint64(0), uint64(0)
			for _, weight := range list {
				total += uint64(weight)
				for a := uint64(weight); a != 0; {
					unit, a = a, unit%a
				}
			}
			period := int(total / unit)
			calls := chashtest.Nexts(t, s, 2*period)
			for _, begin := range []int{0, 1, period / 3, period} {
				got := chashtest.CountOf(calls[begin : begin+period])
				for name, weight := range weights {
					require.Equal(t, int(uint64(weight)/unit), got[name], "calls of %s from call %d on", name, begin)
				}
			}
		})
	}
}

// TestNext_LongRun: of many calls each has its share, also the many light ones which
// share a bucket of the guide.
func TestNext_LongRun(t *testing.T) {
	list := append(slices.Repeat([]uint32{1}, 5000), 5000, 1_000_003, 2, 7)
	backends, weights := weighted(list...)
	const calls = 3_000_000
	got := chashtest.CountOf(chashtest.Nexts(t, smallest(t, backends), calls))
	total := 0.0
	for _, weight := range weights {
		total += float64(weight)
	}
	for name, weight := range weights {
		require.InDelta(t, calls*float64(weight)/total, float64(got[name]), 4, name)
	}
}

// TestNext_FollowsHealthAndWeight: turns are those of whoever answers now: by its own
// weight, not that of the heavier one for which it stands in.
func TestNext_FollowsHealthAndWeight(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, []chash.Backend[string]{
			chashtest.Backend("a", "", 3, 0), chashtest.Backend("b", "k", 6, 0), chashtest.Backend("c", "k", 1, 0), chashtest.Backend("d", "", 2, chash.Unhealthy),
		})
		check := func(want map[string]int) {
			t.Helper()
			period := 0
			for _, n := range want {
				period += n
			}
			require.Equal(t, want, chashtest.CountOf(chashtest.Nexts(t, s, period)))
		}
		check(map[string]int{"a": 1, "b": 2})
		require.NoError(t, s.SetState("b", chash.Unhealthy))
		check(map[string]int{"a": 3, "c": 1})
		require.NoError(t, s.SetState("d", chash.Healthy))
		check(map[string]int{"a": 3, "c": 1, "d": 2})
		require.NoError(t, s.SetWeight("d", 9))
		check(map[string]int{"a": 3, "c": 1, "d": 9})
		require.NoError(t, s.SetState("a", chash.Draining))
		check(map[string]int{"c": 1, "d": 9})
		require.NoError(t, s.SetState("b", chash.Healthy))
		check(map[string]int{"b": 2, "d": 3})
		require.NoError(t, s.SetWeight("b", 9))
		check(map[string]int{"b": 1, "d": 1})
	})
}

// TestNext_Together: calls of several goroutines share the turns, of which none is lost
// and none is given twice.
func TestNext_Together(t *testing.T) {
	chashtest.Threads(t)
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, []chash.Backend[string]{chashtest.Backend("a", "", 5, 0), chashtest.Backend("b", "", 1, 0), chashtest.Backend("c", "", 4, 0)})
		var mu sync.Mutex
		got := map[string]int{}
		chashtest.Together(4, func(int) int {
			for name, n := range chashtest.CountOf(chashtest.Nexts(t, s, 10*1000)) {
				mu.Lock()
				got[name] += n
				mu.Unlock()
			}
			return 0
		})
		require.Equal(t, map[string]int{"a": 20_000, "b": 4_000, "c": 16_000}, got)
	})
}
