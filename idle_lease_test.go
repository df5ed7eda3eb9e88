package chash_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

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
