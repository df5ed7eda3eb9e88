package probe

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNearest goes owner by owner from every position, for few and for many healthy
// placements.
func TestNearest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		placements := 1 + random.IntN(100)
		n := placements * (1 + random.IntN(4))
		o := &Owners{Medium: make([]uint16, n), N: uint32(n)}
		counts := make([]uint32, placements)
		for i := range o.Medium {
			o.Medium[i] = uint16(random.IntN(placements))
			counts[o.Medium[i]]++
		}
		o.SetCounts(counts)
		v := NewView(o, placements)
		healthy := o.Medium[random.IntN(n)]
		v.Mark(int(healthy), true)
		for p := range placements {
			if round%2 == 0 && p != int(healthy) && random.IntN(placements) < random.IntN(placements) {
				v.Mark(p, true)
			}
		}
		v.Index()
		for from := range uint32(n) {
			want, passed := from, 0
			for ; !v.Healthy.Has(o.At(want)); passed++ {
				want = (want + 1) % uint32(n)
			}
			p, got := v.Nearest(from)
			require.Equal(t, o.At(want), p, "from %d of %d", from, n)
			require.Equal(t, passed, got, "from %d of %d", from, n)
			p, after := v.Ahead(from, 1, n)
			require.Equal(t, o.At(want), p)
			require.Equal(t, passed, after)
		}
	}
}
