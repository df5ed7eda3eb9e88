package maglev

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The times of claims are the sums that the mapping says, and what is before what
// follows from them, also where the times of a large table are close together.
func TestClock_Times(t *testing.T) {
	for _, n := range []uint32{2, 3, 251, 65537, 1000003, 1<<31 - 1} {
		last := min(n, 3000)
		times := make([]uint64, last)
		sum := uint64(0)
		for j := range last {
			wait := uint64(1<<40) / uint64(n-j)
			times[j] = sum + wait/2
			sum += wait
		}
		for j := uint32(0); j < last; j += 1 + j/40 {
			require.Equal(t, times[j], (&clock{n: n}).time(j), "T(%d) of %d slots", j, n)
		}
		for index := range min(last, 300) {
			for _, weights := range [][2]uint32{{1, 1}, {2, 1}, {3, 2}, {3, 4}, {7, 5}, {5, 7}, {1000, 999}} {
				limit, weight := weights[0], weights[1]
				before, orAt := uint32(0), uint32(0)
				for _, time := range times {
					switch a, b := time*uint64(limit), times[index]*uint64(weight); {
					case a < b:
						before++
						orAt++
					case a == b:
						orAt++
					}
				}
				if before == last {
					continue // there may be others
				}
				require.Equal(t, before, (&clock{n: n}).before(claim{limit, index}, weight, false))
				require.Equal(t, orAt, (&clock{n: n}).before(claim{limit, index}, weight, true))
			}
		}
	}
}
