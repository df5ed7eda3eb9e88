package chashtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// CheckTwin holds a random structure against its twin, in random states of health.
func CheckTwin(t *testing.T, rng *rand.Rand, ring bool) {
	n := rng.IntN([]int{4, 14, 60}[rng.IntN(3)])
	w, backends := RandomTwin(rng, ring, n), RandomBackends(rng, ring, n)
	if n > 0 {
		RandomStates(rng, backends)
	}
	s := Twins(t, w, backends)
	require.NoError(t, w.Differ(s, RandomKeys(rng, 10), w.RandomHashes(rng, 100)))
	if n == 0 {
		return
	}
	for range 3 { // other outages, one backend's state at a time
		RandomStates(rng, backends)
		for _, b := range backends {
			require.NoError(t, s.SetState(b.Name, b.State))
		}
		require.Empty(t, w.Set(backends))
		require.NoError(t, w.Differ(s, RandomKeys(rng, 4), w.RandomHashes(rng, 100)))
	}
}

// CheckCalls holds a structure against its twin through random calls, right and wrong ones.
func CheckCalls(t *testing.T, rng *rand.Rand, ring bool) {
	w := RandomTwin(rng, ring, 2+rng.IntN(100))
	s := Twins(t, w, nil)
	known := func() string { // mostly
		if list := w.List(); len(list) > 0 && rng.IntN(12) > 0 {
			return list[rng.IntN(len(list))].Name
		}
		return RandomName(rng)
	}
	batch := func(n int) []chash.Backend[string] {
		backends := RandomBackends(rng, ring, 1+rng.IntN(n))
		if rng.IntN(2) == 0 {
			RandomStates(rng, backends)
		}
		if rng.IntN(12) == 0 {
			backends = append(backends, backends[0])
		}
		if rng.IntN(20) == 0 {
			backends[0].Name = ""
		}
		if rng.IntN(20) == 0 {
			backends[0].State = 3
		}
		return backends
	}
	for step := range 30 {
		var call string
		var got error
		var want []error
		switch rng.IntN(12) {
		case 0, 1, 2:
			backends := batch(5)
			call, got, want = fmt.Sprintf("Add(%+v)", backends), s.Add(backends...), w.Add(backends...)
		case 3, 4:
			var names []string
			for range rng.IntN(4) {
				names = append(names, known())
			}
			call, got, want = fmt.Sprintf("Remove(%q)", names), s.Remove(names...), w.Remove(names...)
		case 5:
			backends := batch(30)
			call, got, want = fmt.Sprintf("Set(%+v)", backends), s.Set(backends), w.Set(backends)
		case 6, 7:
			name, state := known(), chash.State(rng.IntN(3))
			call, got, want = fmt.Sprintf("SetState(%q, %d)", name, state), s.SetState(name, state), w.SetState(name, state)
		case 8, 9:
			name, weight := known(), rng.Uint32N(8)
			call, got, want = fmt.Sprintf("SetWeight(%q, %d)", name, weight), s.SetWeight(name, weight), w.SetWeight(name, weight)
		case 10:
			name, value := known(), fmt.Sprint("value of step ", step)
			call, got, want = fmt.Sprintf("SetValue(%q, %q)", name, value), s.SetValue(name, value), w.SetValue(name, value)
		case 11:
			if rng.IntN(4) == 0 {
				call = "Clear()"
				s.Clear()
				w.Set(nil)
			}
		}
		require.NoError(t, Predicted(got, want), "step %d, %s", step, call)
		require.NoError(t, w.Differ(s, RandomKeys(rng, 1), w.RandomHashes(rng, 10)), "step %d, %s", step, call)
	}
	keys, hashes := RandomKeys(rng, 10), w.RandomHashes(rng, 100)
	require.NoError(t, w.Differ(s, keys, hashes))
	anew, err := w.Build(s.Backends())
	require.NoError(t, err)
	require.NoError(t, w.Differ(anew, keys, hashes))
}
