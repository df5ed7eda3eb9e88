package ring

import (
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// TestPoints_Bytes: with what the runtime rounds up, a ring takes at most 16 bytes a
// point, or 18 where each backend has a single one, from 7 points on.
func TestPoints_Bytes(t *testing.T) {
	allocated := func(bytes int) int { return cap(append([]byte(nil), make([]byte, bytes)...)) }
	check := func(nodes, replicas int, want float64) {
		t.Helper()
		placements := make([]probe.Placement, nodes)
		for i := range placements {
			placements[i] = probe.Placement{HashKey: fmt.Sprintf("n%06d", i), Weight: 1}
		}
		empty := New(uint64(replicas), 1, hashing.New(xxhash.Sum64String, 0), hashing.Digester{})
		r := empty.Place(placements)
		if got := float64(allocated(8*cap(r.Packed))+allocated(4*cap(r.index))) / float64(nodes*replicas); got > want {
			t.Errorf("bytes a point of %d nodes with %d replicas = %.2f, want %v at most", nodes, replicas, got, want)
		}
	}
	// Densely where rounding weighs most, and where a power of two is just passed.
	density, largest := 40, 17
	if testing.Short() {
		density, largest = 8, 13
	}
	for n := 7; n < 12000; n += 1 + n/density {
		check(1, n, 16)
		check((n+1)/2, 2, 16)
		check(n, 1, 18)
	}
	for bits := 3; bits <= largest; bits++ {
		for n := 1<<bits - 1; n <= 1<<bits+1; n++ {
			check(1, n, 16)
			check(n, 1, 18)
		}
	}
	for nodes := 1; nodes <= 1024; nodes *= 4 {
		check(nodes, 160, 16)
	}
}
