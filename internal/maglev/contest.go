package maglev

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// This file fills Maglev tables with slack. Claims have times (clock.go). Earlier claims
// go first, at equal times those of the heavier placement, then those of the smaller hash
// key. A claim wins its slot if the slot is free and the placement has fewer slots than
// its cap. The result is the stable matching of slots and placements: no slot and
// placement would both prefer each other to what they have. There is only one.
//
// Any order of claims finds this matching under two conditions: an earlier claim takes a
// slot from a later one, and whoever loses a slot goes on claiming (Gale and Shapley,
// "College Admissions and the Stability of Marriage", 1962). So the filler goes through
// stretches of time. In each of them, every placement in turn makes all its claims of
// that stretch. What was won in an earlier stretch cannot be lost. Once few slots are
// free, each free slot asks every placement for its claim instead.

// A contender is a placement that claims slots.
type contender struct {
	offset    uint32
	skip      uint32
	inverse   uint32 // skip*inverse is 1 modulo the number of slots
	placement uint32
	weight    uint32

	slot  uint32 // of the next claim
	tried uint32 // how many claims it has made, so the index of the next
	until uint32 // the first claim after the stretch
	room  uint32 // how many more slots it may win
}

// claim returns its claim of an index.
func (c *contender) claim(index uint32) claim { return claim{c.weight, index} }

// A contest is a table with slack being filled.
type contest[S uint8 | uint16 | uint32] struct {
	modular.Divisor
	clock      clock
	contenders []contender // heaviest first, then by hash key, so that the first wins a tie
	ranks      []uint32    // by placement: where its contender is
	classes    int         // different weights
	slots      []S
	caps       []uint32 // by placement; nil without a limit

	open    []uint32 // contenders with room, in their order
	weight  uint64   // of those
	settled []uint64 // the slots won before the stretch
	fresh   []uint64 // those won in it
	free    int      // the others
	losers  []uint32 // contenders that lost a slot and may go on

	latest claim // no slot was won later

	made  uint64 // claims
	lines lines
}

func newContest[S uint8 | uint16 | uint32](t *Table) *contest[S] {
	placements := t.placements
	n := t.slots.N
	c := &contest[S]{
		Divisor:    t.slots,
		clock:      clock{n: n},
		contenders: make([]contender, len(placements)),
		ranks:      make([]uint32, len(placements)),
		open:       make([]uint32, len(placements)),
		caps:       caps(n, *t.Slack, placements, &t.Hash),
	}
	var buf []byte
	for p := range placements {
		var offset, skip uint64
		offset, skip, buf = t.Hash.Placement(placements[p].HashKey, buf)
		_, rest := t.strides.Divmod(skip)
		c.contenders[p] = contender{
			offset:    t.Home(offset),
			skip:      rest + 1,
			placement: uint32(p),
			weight:    placements[p].Weight,
			slot:      t.Home(offset),
			room:      n,
		}
		if c.caps != nil {
			c.contenders[p].room = c.caps[p]
		}
	}
	slices.SortFunc(c.contenders, func(a, b contender) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.placement, b.placement)) // those are by hash key
	})
	for rank := range c.contenders {
		if rank == 0 || c.contenders[rank].weight != c.contenders[rank-1].weight {
			c.classes++
		}
		c.ranks[c.contenders[rank].placement] = uint32(rank)
		c.open[rank] = uint32(rank)
		c.weight += uint64(c.contenders[rank].weight)
	}
	c.invert()
	return c
}

// invert sets the inverses. It inverts only the product of all skips: that takes a
// few multiplications for each skip instead of a run of Euclid's algorithm.
func (c *contest[S]) invert() {
	product := uint32(1)
	for i := range c.contenders {
		c.contenders[i].inverse = product // of those before it
		product = c.times(product, c.contenders[i].skip)
	}
	inverse := modular.Inverse(product, c.N)
	for i := len(c.contenders) - 1; i >= 0; i-- {
		contender := &c.contenders[i]
		contender.inverse = c.times(contender.inverse, inverse)
		inverse = c.times(inverse, contender.skip)
	}
}

// times returns a*b modulo the number of slots.
func (c *contest[S]) times(a, b uint32) uint32 {
	_, product := c.Divmod(uint64(a) * uint64(b))
	return product
}

// indexOf returns which claim of a contender is for a slot.
func (c *contest[S]) indexOf(of *contender, slot uint32) uint32 {
	distance := uint64(slot) + uint64(c.N) - uint64(of.offset) // below 2^32
	_, index := c.Divmod(distance * uint64(of.inverse))
	return index
}

// earlier reports whether claim i of contender a goes before claim j of b.
func (c *contest[S]) earlier(a, i, b, j uint32) bool {
	order := c.clock.compare(c.contenders[a].claim(i), c.contenders[b].claim(j))
	return order < 0 || order == 0 && a < b
}

// fill goes on until every slot is won.
func (c *contest[S]) fill() {
	c.slots = make([]S, c.N)
	words := c.N/64 + 1
	c.settled = make([]uint64, words)
	c.fresh = make([]uint64, words)
	c.free = int(c.N)
	for len(c.open) > 0 && c.free > c.few() && !c.poor() {
		c.stretch()
	}
	c.finish()
}

// price is what it takes to ask all contenders for their claims of one slot, in the
// time that it takes to make a claim. To compare times takes longer than the rest.
func (c *contest[S]) price() int { return len(c.open) + 8*min(c.classes-1, len(c.open)) }

// few returns the number of free slots from which on asking costs less than going on:
// to wait for one of f free slots takes n/f claims. With caps, the bids must also be
// sorted. The number is at most about 16 sqrt(n), to save memory.
func (c *contest[S]) few() int {
	price := 2 * c.price()
	if c.caps != nil {
		price += 100
	}
	return max(1, min(int(c.N)/price, 16<<(bits.Len32(c.N)/2)))
}

// stretch runs the next stretch of time. Stretches are longer while few slots are
// free. So few slots are won twice, and little time goes into many short stretches at
// the end.
//
// The heaviest contender has two claims left: it has room, there are two free slots,
// and it has tried neither of them.
func (c *contest[S]) stretch() {
	heaviest := &c.contenders[c.open[0]]
	left := uint64(c.N - heaviest.tried)
	lap := left * uint64(heaviest.weight) / c.weight // below 2^31; in it every slot would be won without competition
	shortened := bits.Len64(uint64(c.free)*64/uint64(c.N)) / 2
	claims := min(left-1, max(4, lap>>shortened))
	c.latest = heaviest.claim(heaviest.tried + uint32(claims))
	var last *contender
	for _, rank := range c.open {
		contender := &c.contenders[rank]
		if last != nil && last.weight == contender.weight {
			contender.until = last.until
		} else {
			contender.until = c.clock.before(c.latest, contender.weight, false)
		}
		last = contender
	}
	for _, rank := range c.open {
		c.run(rank)
	}
	for len(c.losers) > 0 {
		rank := c.losers[len(c.losers)-1]
		c.losers = c.losers[:len(c.losers)-1]
		c.run(rank)
	}
	for i := range c.fresh {
		c.settled[i] |= c.fresh[i]
		c.fresh[i] = 0
	}
	c.dropFull()
}

// dropFull removes the contenders without room from the open ones.
func (c *contest[S]) dropFull() {
	c.open = slices.DeleteFunc(c.open, func(rank uint32) bool {
		contender := &c.contenders[rank]
		if contender.room > 0 {
			return false
		}
		c.weight -= uint64(contender.weight)
		c.lines.leave(rank)
		return true
	})
}

// drop is dropFull where it is known who has no room.
func (c *contest[S]) drop(rank uint32) {
	if c.lines.asked {
		c.lines.leave(rank)
	} else {
		c.dropFull()
	}
}

// run lets a contender make its claims of this stretch.
func (c *contest[S]) run(rank uint32) {
	contender := &c.contenders[rank]
	tried := contender.tried
	for contender.room > 0 && contender.seek(c.settled, c.N) {
		slot := contender.slot
		word, bit := slot/64, uint64(1)<<(slot%64)
		if c.fresh[word]&bit == 0 {
			c.fresh[word] |= bit
			c.free--
			c.slots[slot] = S(contender.placement)
			contender.room--
		} else if owner := c.ranks[c.slots[slot]]; c.earlier(rank, contender.tried, owner, c.indexOf(&c.contenders[owner], slot)) {
			c.slots[slot] = S(contender.placement)
			contender.room--
			c.contenders[owner].room++
			if c.contenders[owner].tried < c.contenders[owner].until {
				c.losers = append(c.losers, owner)
			}
		}
		contender.slot = modular.Step(slot, contender.skip, c.N)
		contender.tried++
	}
	c.made += uint64(contender.tried - tried)
}

// seek skips claims for settled slots. It reports whether another claim follows in
// this stretch. Most of the time of a build is spent here. It looks at four slots at
// a time, since a processor cannot predict how many are settled.
func (c *contender) seek(settled []uint64, n uint32) bool {
	slot, skip, tried := c.slot, c.skip, c.tried
	skip2 := modular.Step(skip, skip, n)
	for tried < c.until {
		slot1 := modular.Step(slot, skip, n)
		slot2 := modular.Step(slot, skip2, n)
		slot3 := modular.Step(slot1, skip2, n)
		met := settled[slot/64]>>(slot%64)&1 | settled[slot1/64]>>(slot1%64)&1<<1 |
			settled[slot2/64]>>(slot2%64)&1<<2 | settled[slot3/64]>>(slot3%64)&1<<3
		if met != 15 || c.until-tried < 4 {
			passed := min(uint32(bits.TrailingZeros64(^met)), c.until-tried)
			slot = [4]uint32{slot, slot1, slot2, slot3}[passed%4]
			tried += passed
			break
		}
		slot = modular.Step(slot2, skip2, n)
		tried += 4
	}
	c.slot, c.tried = slot, tried
	return tried < c.until
}

// finish gives each free slot to its best claim.
func (c *contest[S]) finish() {
	slots := freeIn(c.settled, c.N, c.free)
	if c.caps != nil {
		c.auction(slots)
		return
	}
	for _, slot := range slots {
		rank, index := c.best(slot)
		c.win(slot, rank, index)
	}
}

// win gives a slot to a claim.
func (c *contest[S]) win(slot, rank, index uint32) {
	contender := &c.contenders[rank]
	c.slots[slot] = S(contender.placement)
	contender.room--
	if claim := contender.claim(index); c.clock.compare(claim, c.latest) > 0 {
		c.latest = claim
	}
}

// best returns the contender with room whose claim for a slot goes first, and the
// index of that claim.
func (c *contest[S]) best(slot uint32) (rank, index uint32) {
	if c.lines.asked {
		return c.bestOnLines(slot)
	}
	rank, index = probe.None, c.N
	for i := 0; i < len(c.open); {
		// Among those of one weight the index decides, and at equal ones the rank.
		first, least := c.open[i], c.N
		weight := c.contenders[first].weight
		for ; i < len(c.open); i++ {
			contender := &c.contenders[c.open[i]]
			if contender.weight != weight {
				break
			}
			if of := c.indexOf(contender, slot); of < least {
				first, least = c.open[i], of
			}
		}
		if rank == probe.None || c.earlier(first, least, rank, index) {
			rank, index = first, least
		}
	}
	return rank, index
}

// counts returns the number of slots that each placement has won.
func (c *contest[S]) counts() []uint32 {
	counts := make([]uint32, len(c.contenders))
	for i := range c.contenders {
		contender := &c.contenders[i]
		limit := c.N
		if c.caps != nil {
			limit = c.caps[contender.placement]
		}
		counts[contender.placement] = limit - contender.room
	}
	return counts
}

// A bid is the best claim for a free slot.
type bid struct{ slot, rank, index uint32 }

// auction is finish with caps. The bids win in their order. If a contender has no
// room any more, the slot bids again.
func (c *contest[S]) auction(slots []uint32) {
	heap := make([]bid, len(slots))
	for i, slot := range slots {
		rank, index := c.best(slot)
		heap[i] = bid{slot, rank, index}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		c.sink(heap, i)
	}
	for len(heap) > 0 {
		first := &heap[0]
		if c.contenders[first.rank].room > 0 {
			c.win(first.slot, first.rank, first.index)
			if c.contenders[first.rank].room == 0 {
				c.drop(first.rank)
			}
			*first = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		} else {
			first.rank, first.index = c.best(first.slot)
		}
		c.sink(heap, 0)
	}
}

// sink moves the bid at i down the heap to its place.
func (c *contest[S]) sink(heap []bid, i int) {
	before := func(a, b *bid) bool { return c.earlier(a.rank, a.index, b.rank, b.index) }
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && before(&heap[child+1], &heap[child]) {
			child++
		}
		if !before(&heap[child], &heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
