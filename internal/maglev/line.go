package maglev

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/probe"
)

// Contenders look at one slot after the other until few are free. With a hash that
// spreads, they make some n*log(n) claims up to there in a table of n slots. With names
// that are made to collide, or a poor hash, most claims are of slots that others have
// won, and each contender may make nearly n of them. This file keeps such a fill short.
// The slots that are won stay the same.
//
// It asks each free slot for its best claim, as at the end of every fill, but not of every
// contender. Those of one skip and one weight stand on a line: number j on it is slot
// j*skip mod n. The best claim of a slot among them is that of the last one which begins
// at the slot's number or before, and a search finds it. So a slot asks each line once.

// manyClaims is how many claims for each slot are so many that a hash that spreads does
// not need them: it needed 12.5 at most, of 60,000 placements in a million slots.
const manyClaims = 16

// A line has the contenders of one skip and one weight.
type line struct {
	weight  uint32
	inverse uint32   // of the skip
	numbers []uint32 // where they begin, in order
	ranks   []uint32 // the contenders there; at one number the first in order is the last
	before  []uint32 // the last one with room up to each, counting round; itself while it has room
	open    int      // how many have room
}

// lines are those of a contest, the heaviest first. There are none until poor makes
// them.
type lines struct {
	list  []line
	at    []place // by rank
	asked bool    // rather than the contenders
}

// A place is where a contender is.
type place struct{ line, member uint32 }

// poor reports whether it costs less to ask the lines than to go on with claims. By
// then as many claims are made as asking costs, so that the sum is at most about
// twice the cheaper way.
func (c *contest[S]) poor() bool {
	if c.made < manyClaims*uint64(c.N) {
		return false
	}
	if c.lines.list == nil {
		c.lineUp()
	}
	price := 0
	for i := range c.lines.list {
		price += 8 + 2*bits.Len(uint(len(c.lines.list[i].ranks)))
	}
	c.lines.asked = c.made >= uint64(c.free)*uint64(price)
	return c.lines.asked
}

// lineUp puts every contender on its line.
func (c *contest[S]) lineUp() {
	ranks := make([]uint32, len(c.contenders))
	numbers := make([]uint32, len(c.contenders)) // by rank
	for rank := range ranks {
		contender := &c.contenders[rank]
		ranks[rank], numbers[rank] = uint32(rank), c.times(contender.offset, contender.inverse)
	}
	slices.SortFunc(ranks, func(a, b uint32) int {
		x, y := &c.contenders[a], &c.contenders[b]
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.skip, y.skip),
			cmp.Compare(numbers[a], numbers[b]), cmp.Compare(b, a))
	})
	c.lines.at = make([]place, len(ranks))
	for i, rank := range ranks {
		contender := &c.contenders[rank]
		if i == 0 || contender.weight != c.contenders[ranks[i-1]].weight || contender.skip != c.contenders[ranks[i-1]].skip {
			c.lines.list = append(c.lines.list, line{weight: contender.weight, inverse: contender.inverse})
		}
		l := &c.lines.list[len(c.lines.list)-1]
		c.lines.at[rank] = place{uint32(len(c.lines.list) - 1), uint32(len(l.ranks))}
		l.before = append(l.before, uint32(len(l.ranks)))
		l.numbers = append(l.numbers, numbers[rank])
		l.ranks = append(l.ranks, rank)
		l.open++
	}
	for rank := range c.contenders {
		if c.contenders[rank].room == 0 {
			c.lines.leave(uint32(rank))
		}
	}
}

// leave removes a contender without room.
func (l *lines) leave(rank uint32) {
	if l.list == nil {
		return
	}
	at := l.at[rank]
	line := &l.list[at.line]
	line.open--
	line.before[at.member] = at.member - 1
	if at.member == 0 {
		line.before[0] = uint32(len(line.ranks)) - 1
	}
}

// last returns the last contender with room that begins at number or before it,
// wrapping. There must be one with room.
func (l *line) last(number uint32) (member uint32) {
	at, _ := slices.BinarySearch(l.numbers, number+1)
	if at == 0 {
		at = len(l.numbers)
	}
	for member = uint32(at - 1); l.before[member] != member; {
		l.before[member] = l.before[l.before[member]]
		member = l.before[member]
	}
	return member
}

// bestOnLines is best for contenders on lines.
func (c *contest[S]) bestOnLines(slot uint32) (rank, index uint32) {
	rank, index = probe.None, c.N
	for i := range c.lines.list {
		l := &c.lines.list[i]
		if l.open == 0 {
			continue
		}
		number := c.times(slot, l.inverse)
		member := l.last(number)
		_, least := c.Divmod(uint64(number) + uint64(c.N) - uint64(l.numbers[member]))
		first := l.ranks[member]
		if rank == probe.None || c.earlier(first, least, rank, index) {
			rank, index = first, least
		}
	}
	return rank, index
}
