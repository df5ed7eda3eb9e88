package chash_test

import (
	"fmt"
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
	require.NoError(t, m.CheckTable(table))

	// It is appended, and health does not change it.
	for _, name := range []string{"b", "d", "e"} {
		require.NoError(t, m.SetState(name, chash.Unhealthy))
	}
	require.NoError(t, m.SetState("c", chash.Healthy))
	require.Equal(t, append([]uint32{7, 8}, table...), m.AppendTable([]uint32{7, 8}))
	require.NoError(t, m.CheckTable(table))

	require.NoError(t, m.Remove("a")) // moves no key, but indices
	require.Equal(t, table[0]-1, m.AppendTable(nil)[0])
	require.ErrorIs(t, m.CheckTable(table), chash.ErrExportDiffers)
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
	require.NoError(t, r.CheckPoints(points))

	for _, name := range []string{"b", "d", "e"} {
		require.NoError(t, r.SetState(name, chash.Unhealthy))
	}
	first := chash.Point{Position: 1, Backend: 2}
	require.Equal(t, append([]chash.Point{first}, points...), r.AppendPoints([]chash.Point{first}))
	require.NoError(t, r.CheckPoints(points))

	require.NoError(t, r.Remove("a"))
	require.ErrorIs(t, r.CheckPoints(points), chash.ErrExportDiffers)
}

// Points at one position come in the order in which lookups prefer them.
func TestAppendPoints_Ties(t *testing.T) {
	positions := map[string]uint64{"a#0": 5, "b#0": 5, "c#0": 9, "a#1": 9, "b#1": 1, "c#1": 5}
	r, err := chash.NewRing(chash.Named("c", "b", "a"), chash.WithReplicas(2),
		chash.WithHash(func(label string) uint64 { return positions[label] }))
	require.NoError(t, err)
	want := []chash.Point{{1, 1}, {5, 0}, {5, 1}, {5, 2}, {9, 0}, {9, 2}}
	require.Equal(t, want, r.AppendPoints(nil))
	require.NoError(t, r.CheckPoints(want))
	require.ErrorIs(t, r.CheckPoints([]chash.Point{{1, 1}, {5, 1}, {5, 0}, {5, 2}, {9, 0}, {9, 2}}), chash.ErrExportDiffers)
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

func TestCheckTable(t *testing.T) {
	m, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(13))
	require.NoError(t, err)
	right := m.AppendTable(nil)
	name := func(i uint32) string { return fmt.Sprintf("backend %d, %q", i, []string{"a", "b", "c"}[i]) }
	for slot := range right {
		wrong := slices.Clone(right)
		for i := slot; i < len(wrong); i++ { // it is the first of many
			wrong[i] = (wrong[i] + 1) % 3
		}
		checkError(t, "CheckTable", m.CheckTable(wrong), chash.ErrExportDiffers,
			fmt.Sprintf("slot %d is of %s, want %s", slot, name(wrong[slot]), name(right[slot])))
	}
	wrong := slices.Clone(right)
	wrong[4] = 3
	checkError(t, "CheckTable", m.CheckTable(wrong), chash.ErrExportDiffers, "slot 4 is of backend 3 of 3, want")
	wrong[4] = ^uint32(0)
	checkError(t, "CheckTable", m.CheckTable(wrong), chash.ErrExportDiffers, "slot 4 is of backend 4294967295 of 3, want")
	for _, table := range [][]uint32{nil, right[:12], append(right, 0)} {
		checkError(t, "CheckTable", m.CheckTable(table), chash.ErrExportDiffers, fmt.Sprintf("%d slots, want 13", len(table)))
	}
}

func TestCheckPoints(t *testing.T) {
	r, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(3))
	require.NoError(t, err)
	right := r.AppendPoints(nil)
	for i := range right {
		for _, change := range []func(p *chash.Point){
			func(p *chash.Point) { p.Position++ },
			func(p *chash.Point) { p.Position ^= 1 << 63 },
			func(p *chash.Point) { p.Backend = (p.Backend + 1) % 3 },
			func(p *chash.Point) { p.Backend = 1 << 31 },
		} {
			wrong := slices.Clone(right)
			for j := i; j < len(wrong); j++ {
				change(&wrong[j])
			}
			checkError(t, "CheckPoints", r.CheckPoints(wrong), chash.ErrExportDiffers,
				fmt.Sprintf("point %d is at 0x%016x of backend %d", i, wrong[i].Position, wrong[i].Backend),
				fmt.Sprintf("want 0x%016x of backend %d", right[i].Position, right[i].Backend))
		}
	}
	for _, points := range [][]chash.Point{nil, right[:8], append(right, chash.Point{})} {
		checkError(t, "CheckPoints", r.CheckPoints(points), chash.ErrExportDiffers, fmt.Sprintf("%d points, want 9", len(points)))
	}
}

func TestAppendTable_Empty(t *testing.T) {
	for _, backends := range [][]chash.Backend[string]{nil, {{Name: "a", State: chash.Draining}}} {
		m, err := chash.NewMaglev(backends)
		require.NoError(t, err)
		require.Empty(t, m.AppendTable(nil))
		require.Equal(t, []uint32{1}, m.AppendTable([]uint32{1}))
		require.NoError(t, m.CheckTable(nil))
		require.ErrorIs(t, m.CheckTable(make([]uint32, 65537)), chash.ErrExportDiffers)
		r, err := chash.NewRing(backends)
		require.NoError(t, err)
		require.Empty(t, r.AppendPoints(nil))
		require.Equal(t, []chash.Point{{}}, r.AppendPoints([]chash.Point{{}}))
		require.NoError(t, r.CheckPoints(nil))
		require.ErrorIs(t, r.CheckPoints([]chash.Point{{}}), chash.ErrExportDiffers)
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
		"CheckTable":   func() { _ = m.CheckTable(table) },
		"CheckPoints":  func() { _ = r.CheckPoints(points) },
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
		_ = m.CheckTable(few)
		_ = r.CheckPoints(some)
	}
	wait.Wait()
}
