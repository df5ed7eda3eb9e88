package contract_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// A table with slack in which some placements have no slots.
func idleTable(t *testing.T) (m *chash.Maglev[string], idle []string) {
	t.Helper()
	backends := chashtest.Numbered("b", 40)
	for i := range backends {
		backends[i].Weight = 1 + uint32(i%7)*5
	}
	m, err := chash.NewMaglev(backends, chash.WithTableSize(61), chash.WithSlack(math.Inf(1)))
	require.NoError(t, err)
	for _, share := range m.Shares() {
		if share.Size == 0 {
			require.Zero(t, share.Share)
			idle = append(idle, share.Name)
		}
	}
	require.GreaterOrEqual(t, len(idle), 3)
	return m, idle
}

func setAll(t *testing.T, m *chash.Maglev[string], state func(name string) chash.State) {
	t.Helper()
	for _, b := range m.Backends() {
		require.NoError(t, m.SetState(b.Name, state(b.Name)))
	}
}

// Placements without slots are last in the order of preference of every key.
func TestIdle_ComesLast(t *testing.T) {
	m, idle := idleTable(t)
	firsts := map[string]bool{}
	for _, key := range chashtest.ManyNames("key", 100) {
		all, err := m.GetN(key, 100)
		require.NoError(t, err)
		require.Len(t, all, 40)
		require.Equal(t, all, slices.Collect(m.Candidates(key)))
		last := all[40-len(idle):]
		require.ElementsMatch(t, idle, last, key)
		firsts[last[0]] = true
		got, err := m.GetFunc(key, func(name string) bool { return slices.Contains(idle, name) })
		require.NoError(t, err)
		require.Equal(t, last[0], got)
		owner, err := m.Owner(key)
		require.NoError(t, err)
		require.NotContains(t, idle, owner.Name)
	}
	require.Len(t, firsts, len(idle), "which of them is first is the key's")

	var turns []string
	for range 1000 {
		turns = append(turns, chashtest.Must(m.Next()))
	}
	require.Subset(t, turns, idle)
	require.Zero(t, m.Stats().MinShareRatio)
	for _, owner := range m.AppendTable(nil) {
		require.NotContains(t, idle, m.Backends()[owner].Name)
	}
}

// Where all others are down, lookups of every form find them.
func TestIdle_AreFound(t *testing.T) {
	m, idle := idleTable(t)
	whole := m.Clone()
	setAll(t, m, func(name string) chash.State {
		if slices.Contains(idle, name) && name != idle[0] {
			return chash.Healthy
		}
		return chash.Unhealthy
	})
	healthy := idle[1:]
	for _, key := range chashtest.ManyNames("key", 100) {
		got, err := m.Get(key)
		require.NoError(t, err)
		require.Contains(t, healthy, got)
		all, err := m.GetN(key, 100)
		require.NoError(t, err)
		require.ElementsMatch(t, healthy, all)
		require.Equal(t, got, all[0])
		require.Equal(t, got, chashtest.Must(m.GetFunc(key, nil)))

		e := m.Explain(key)
		require.NoError(t, e.Err)
		require.Equal(t, got, e.Backend)
		last := e.Probes[len(e.Probes)-1]
		require.Equal(t, -1, last.At)
		require.Equal(t, got, last.HashKey)
		require.GreaterOrEqual(t, e.Home, 0)
	}

	d, err := whole.Diff(m)
	require.NoError(t, err)
	require.InDelta(t, 1, d.Moved, 0)
	for _, flow := range d.Flows {
		require.Contains(t, healthy, flow.To)
	}
}

// Leases go to them when all others are full, and the search for room ends.
func TestIdle_AreAcquired(t *testing.T) {
	m, idle := idleTable(t)
	require.NoError(t, m.SetLoadFactor(1.0001))
	taken := map[string]int{}
	for i := range 4000 {
		lease, err := m.Acquire("one key")
		require.NoError(t, err, "lease %d", i)
		taken[lease.Value]++
	}
	require.Len(t, taken, 40)
	for _, name := range idle {
		require.Positive(t, taken[name])
	}

	setAll(t, m, func(name string) chash.State {
		if name == idle[0] {
			return chash.Healthy
		}
		return chash.Unhealthy
	})
	lease, err := m.Acquire("one key")
	require.NoError(t, err)
	require.Equal(t, idle[0], lease.Value)
}

// Fingerprints are equal where the mapping is, whoever has no slots.
func TestIdle_Fingerprint(t *testing.T) {
	m, idle := idleTable(t)
	full := m.Fingerprint()
	without := m.Clone()
	require.NoError(t, without.Remove(idle...))
	require.Equal(t, full, without.Fingerprint(), "those without slots do not count")

	only := func(names ...string) uint64 {
		live := m.Clone()
		setAll(t, live, func(name string) chash.State {
			if slices.Contains(names, name) {
				return chash.Healthy
			}
			return chash.Unhealthy
		})
		return live.LiveFingerprint()
	}
	owner := chashtest.Must(m.Owner("key")).Name
	alone, err := chash.NewMaglev(chash.Named(owner))
	require.NoError(t, err)
	require.Equal(t, alone.Fingerprint(), only(owner))
	require.Equal(t, alone.Fingerprint(), only(owner, idle[0]), "it has every key")
	require.Equal(t, alone.Fingerprint(), only(owner, idle[0], idle[1]))
	prints := []uint64{only(idle[0]), only(idle[1]), only(idle[0], idle[1]), only(idle[0], idle[2]), only(idle...), only()}
	for i, print := range prints {
		require.NotContains(t, prints[:i], print, fmt.Sprint(i))
	}
	require.Zero(t, only())
}

// TestOwners_WithoutSlots: placements that own no slot come last, in the order of GetN.
func TestOwners_WithoutSlots(t *testing.T) {
	m, idle := idleTable(t)
	before := map[string][]string{}
	keys := chashtest.ManyNames("key", 50)
	for _, key := range keys {
		before[key] = chashtest.Must(m.GetN(key, 100))
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
			for _, b := range chashtest.Must(m.Owners(key, n)) {
				got = append(got, b.Name)
			}
			require.Equal(t, before[key][:min(n, 40)], got)
		}
	}
}

// Where every placement with slots is full, a lease of a placement without slots does not
// take a look at each slot. Where it does, this test does not end.
func TestIdle_LeasesPassFullOwners(t *testing.T) {
	const size = 1<<20 + 7
	layout := chash.TableLayout{Name: "all to the first", Slots: func(placements []chash.Placement, size int) ([]uint32, error) {
		if len(placements) == 0 {
			return nil, nil
		}
		return make([]uint32, size), nil
	}}
	m, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(size), chash.WithTableLayout(layout))
	require.NoError(t, err)
	first, err := m.Acquire("key", chash.WithCost(chash.MaxCost))
	require.NoError(t, err)
	require.Equal(t, "a", first.Value)
	got := map[string]int{}
	for range 100_000 {
		lease, err := m.Acquire("key")
		require.NoError(t, err)
		got[lease.Value]++
		lease.Release()
	}
	idle, err := m.GetN("key", 3)
	require.NoError(t, err)
	require.Equal(t, map[string]int{idle[1]: 100_000}, got)
	first.Release()
	home, err := m.Acquire("key")
	require.NoError(t, err)
	require.Equal(t, "a", home.Value)
}
