package maglev

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// An auction of every slot of a table, of which none was claimed before, gives the slots
// of a fill. It does so on contenders and on lines of them.
func TestContest_AuctionOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 2))
	for range 1000 {
		sizes := []uint32{2, 3, 5, 7, 11, 13, 31, 127, 251}
		size := sizes[random.IntN(len(sizes))]
		placements := make([]probe.Placement, 1+random.IntN(min(int(size), 25)))
		for i := range placements {
			placements[i].HashKey = strconv.Itoa(100+i) + "-" + strconv.Itoa(random.IntN(1000))
			placements[i].Weight = 1 + random.Uint32N(5)
		}
		values := random.Uint64N(60) + 2 // of the hash: few, so that lines are long
		hash := hashing.New(nil, random.Uint64())
		if random.IntN(2) == 0 {
			hash = hashing.New(func(key string) uint64 {
				sum := uint64(14695981039346656037)
				for _, b := range []byte(key) {
					sum = (sum ^ uint64(b)) * 1099511628211
				}
				return sum % values
			}, 0)
		}
		slack := []float64{0, 0.01, 0.2}[random.IntN(3)]
		table := New(size, hash, &slack)
		table.placements = placements
		filled := newContest[uint8](&table)
		filled.fill()
		slots := make([]uint32, size)
		for i := range slots {
			slots[i] = uint32(i)
		}
		for _, lines := range []bool{false, true} {
			c := newContest[uint8](&table)
			c.slots = make([]uint8, size)
			if lines {
				c.lineUp()
				c.lines.asked = true
			}
			c.auction(slots)
			if !slices.Equal(c.slots, filled.slots) {
				t.Fatalf("%d slots, slack %v, lines %t, of %v: an auction gives %v, a fill %v", size, slack, lines, placements, c.slots, filled.slots)
			}
		}
	}
}
