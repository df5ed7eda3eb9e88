package chash_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// placed is a membership in which indices, placements and ranks all differ.
var placed = []chash.Backend[string]{
	{Name: "a", State: chash.Draining, Value: "1"}, // has an index, but no slot
	{Name: "b", HashKey: "z", Value: "2"},
	{Name: "c", HashKey: "y", Weight: 2, Value: "3"}, // behind d
	{Name: "d", HashKey: "y", Weight: 3, Value: "4"},
	{Name: "e", Value: "5"},
}

func TestAppendTable(t *testing.T) {
	m, err := chash.NewMaglev(placed, chash.WithTableSize(251), chash.WithSeed(3))
	require.NoError(t, err)
	backends := m.Backends()
	table := m.AppendTable(nil)
	require.Len(t, table, 251)
	met := map[string]bool{}
	for slot, i := range table {
		want, err := m.GetHash(uint64(slot))
		require.NoError(t, err)
		require.Equal(t, want, backends[i].Value, "slot %d", slot)
		met[backends[i].Name] = true
	}
	require.Equal(t, map[string]bool{"b": true, "d": true, "e": true}, met)

	// It is appended, and health does not change it.
	for _, name := range []string{"b", "d", "e"} {
		require.NoError(t, m.SetState(name, chash.Unhealthy))
	}
	require.NoError(t, m.SetState("c", chash.Healthy))
	require.Equal(t, append([]uint32{7, 8}, table...), m.AppendTable([]uint32{7, 8}))

	require.NoError(t, m.Remove("a")) // moves no key, but indices
	require.Equal(t, table[0]-1, m.AppendTable(nil)[0])
}

func TestAppendPoints(t *testing.T) {
	r, err := chash.NewRing(placed, chash.WithReplicas(20), chash.WithSeed(3))
	require.NoError(t, err)
	backends := r.Backends()
	points := r.AppendPoints(nil)
	require.Len(t, points, 100)
	met := map[string]bool{}
	for i, point := range points {
		want, err := r.GetHash(point.Position)
		require.NoError(t, err)
		require.Equal(t, want, backends[point.Backend].Value, "point %d", i)
		want, err = r.GetHash(point.Position + 1)
		require.NoError(t, err)
		next := points[(i+1)%len(points)]
		require.Equal(t, want, backends[next.Backend].Value, "after point %d", i)
		if i > 0 {
			require.Less(t, points[i-1].Position, point.Position)
		}
		met[backends[point.Backend].Name] = true
	}
	require.Equal(t, map[string]bool{"b": true, "d": true, "e": true}, met)

	for _, name := range []string{"b", "d", "e"} {
		require.NoError(t, r.SetState(name, chash.Unhealthy))
	}
	first := chash.Point{Position: 1, Backend: 2}
	require.Equal(t, append([]chash.Point{first}, points...), r.AppendPoints([]chash.Point{first}))

	require.NoError(t, r.Remove("a"))
}

// Points at one position come in the order in which lookups prefer them.
func TestAppendPoints_Ties(t *testing.T) {
	positions := map[string]uint64{"a#0": 5, "b#0": 5, "c#0": 9, "a#1": 9, "b#1": 1, "c#1": 5}
	r, err := chash.NewRing(chash.Named("c", "b", "a"), chash.WithReplicas(2),
		chash.WithHash(func(label string) uint64 { return positions[label] }))
	require.NoError(t, err)
	want := []chash.Point{{1, 1}, {5, 0}, {5, 1}, {5, 2}, {9, 0}, {9, 2}}
	require.Equal(t, want, r.AppendPoints(nil))
}

// A program that has only the exported table finds the owner of every key.
func TestAppendTable_LookupByHand(t *testing.T) {
	rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
		backends := randomBackends(rng, true, 1+rng.IntN(20))
		randomStates(rng, backends)
		backends[0].State = chash.Unhealthy // one at least is not draining
		m, err := chash.NewMaglev(backends, chash.WithTableSize(1021))
		require.NoError(t, err)
		r, err := chash.NewRing(backends, chash.WithReplicas(5), chash.WithHash(xxhash.Sum64String))
		require.NoError(t, err)
		table, points := m.AppendTable(nil), r.AppendPoints(nil)
		for _, key := range sampleKeys[:200] {
			hash := xxhash.Sum64String(key)
			owner, err := m.Owner(key)
			require.NoError(t, err)
			require.Equal(t, owner, m.Backends()[table[hash%uint64(len(table))]])

			owner, err = r.Owner(key)
			require.NoError(t, err)
			i := slices.IndexFunc(points, func(p chash.Point) bool { return p.Position >= hash })
			require.Equal(t, owner, r.Backends()[points[max(i, 0)].Backend])
		}
	})
}

func TestAppendTable_Empty(t *testing.T) {
	for _, backends := range [][]chash.Backend[string]{nil, {{Name: "a", State: chash.Draining}}} {
		m, err := chash.NewMaglev(backends)
		require.NoError(t, err)
		require.Empty(t, m.AppendTable(nil))
		require.Equal(t, []uint32{1}, m.AppendTable([]uint32{1}))
		r, err := chash.NewRing(backends)
		require.NoError(t, err)
		require.Empty(t, r.AppendPoints(nil))
		require.Equal(t, []chash.Point{{}}, r.AppendPoints([]chash.Point{{}}))
	}
}

func TestAppendTable_Allocs(t *testing.T) {
	m, err := chash.NewMaglev(placed, chash.WithTableSize(251))
	require.NoError(t, err)
	r, err := chash.NewRing(placed)
	require.NoError(t, err)
	table, points := m.AppendTable(nil), r.AppendPoints(nil)
	for name, call := range map[string]func(){
		"AppendTable":  func() { table = m.AppendTable(table[:0]) },
		"AppendPoints": func() { points = r.AppendPoints(points[:0]) },
	} {
		if got := testing.AllocsPerRun(10, call); got != 0 {
			t.Errorf("%s with room allocates %v times, want none", name, got)
		}
	}
}

// While others change the structure, a table is that of one state.
func TestAppendTable_WhileOthersChange(t *testing.T) {
	m, err := chash.NewMaglev(placed, chash.WithTableSize(251))
	require.NoError(t, err)
	r, err := chash.NewRing(placed, chash.WithReplicas(20))
	require.NoError(t, err)
	few, some := m.AppendTable(nil), r.AppendPoints(nil)
	last := chash.Backend[string]{Name: "last"} // so that no other index changes
	require.NoError(t, m.Add(last))
	require.NoError(t, r.Add(last))
	more, all := m.AppendTable(nil), r.AppendPoints(nil)
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		for i := range 200 {
			_ = m.SetState("e", chash.State(i%2))
			_ = r.SetState("e", chash.State(i%2))
			_, _ = m.SetValue("b", "new"), r.SetValue("b", "new")
			_, _ = m.Remove("last"), r.Remove("last")
			_, _ = m.Add(last), r.Add(last)
		}
	}()
	for range 200 {
		table, points := m.AppendTable(nil), r.AppendPoints(nil)
		require.True(t, slices.Equal(table, few) || slices.Equal(table, more))
		require.True(t, slices.Equal(points, some) || slices.Equal(points, all))
	}
	wait.Wait()
}
