package maglev

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// This file fills Maglev tables. Placements take turns to claim slots. A claim takes the
// most preferred slot of the placement that is still free; preference j, from 0, is slot
// (offset + j*skip) mod n. Claim k, from 0, of a placement of weight w has rank 0 for
// k = 0, and rank (2k+1)/(2w) for others. The lowest rank goes first, at equal rank the
// heavier placement, then the smaller hash key. So each placement has a slot, equal
// weights give plain Maglev, and shares are rounded to slots by Webster's method.

// Fill returns a table of the same options for other placements. They are sorted by
// hash key and no more than the slots. It reuses what does not change.
func (t *Table) Fill(placements []probe.Placement) *Table {
	next := t.empty()
	if len(placements) == 0 {
		return next
	}
	if t.Slack != nil {
		next.fillWithSlack(placements, t)
		return next
	}
	if len(placements) == 1 { // every slot is of number 0
		next.N = t.slots.N
		next.Narrow = make([]uint8, next.N)
		next.SetCounts([]uint32{next.N})
		return next
	}
	f := newFiller(next, placements)
	switch n := len(placements); {
	case n <= 1<<8:
		next.Narrow = fill[uint8](f)
	case n <= 1<<16:
		next.Medium = fill[uint16](f)
	default:
		next.Wide = fill[uint32](f)
	}
	next.N = t.slots.N
	next.SetCounts(f.counts(len(placements)))
	return next
}

// A claimant is a placement that claims slots.
type claimant struct {
	slot      uint32 // the next preference; those before it are taken
	skip      uint32
	placement uint32
}

// A class is all claimants of one weight. Their ranks are the same, so they make each
// round of claims together, in the order of their hash keys.
//
// Nothing overflows: there are at most n rounds in all, of a table size n below 2^31.
// There may be as many classes as placements, so a class is small.
type class struct {
	weight     uint32
	round      uint32 // 2k+1 for its next claim k
	day        uint32 // of that round in the calendar
	next       int32  // the class after it on its page of the calendar, or -1
	first, end uint32 // where its claimants begin and end
}

// before reports whether the next round of a comes before that of b.
func (a *class) before(b *class) bool {
	x, y := uint64(a.round)*uint64(b.weight), uint64(b.round)*uint64(a.weight)
	return x < y || x == y && a.weight > b.weight
}

// A filler is a table being filled.
type filler struct {
	modular.Divisor
	claimants []claimant // heaviest first, then by hash key
	classes   []class    // heaviest first
	calendar
	trails
	free int      // slots
	few  int      // from as many free slots on they are searched, not walked to
	rest []uint32 // those slots, in any order

	unserved []claimant // of the last round: those who found no slot free
}

// A calendar schedules the rounds of classes after their first. The day of a round is
// its rank times the weight of all classes together, rounded down. So there is one
// round a day on average, and no class has two on one day. Scheduling a round costs
// O(1), plus sorting the rounds due on the same day.
type calendar struct {
	weight uint64  // of all classes
	pages  []int32 // by day modulo their number: the first class due then or a multiple later, or -1
	today  []int32 // the classes due on one day
}

func newFiller(t *Table, placements []probe.Placement) *filler {
	claimants := make([]claimant, len(placements))
	var buf []byte
	for i := range placements {
		var offset, skip uint64
		offset, skip, buf = t.Hash.Placement(placements[i].HashKey, buf)
		_, rest := t.strides.Divmod(skip)
		claimants[i] = claimant{
			slot:      t.Home(offset),
			skip:      rest + 1,
			placement: uint32(i),
		}
	}
	n := int(t.slots.N)
	return &filler{
		Divisor:   t.slots,
		claimants: claimants,
		classes:   classify(claimants, placements),
		trails:    trails{taken: make([]uint64, n/64+1)}, // n+63 may not fit 32 bits
		free:      n,
		few:       1 << (bits.Len(uint(n)) / 2), // about sqrt(n)
	}
}

// classify sorts the claimants into classes, the heaviest first.
func classify(claimants []claimant, placements []probe.Placement) []class {
	weight := func(c claimant) uint32 { return placements[c.placement].Weight }
	slices.SortFunc(claimants, func(a, b claimant) int {
		if c := cmp.Compare(weight(b), weight(a)); c != 0 {
			return c
		}
		return cmp.Compare(a.placement, b.placement) // placements are sorted by hash key
	})
	n := 1
	for i := 1; i < len(claimants); i++ {
		if weight(claimants[i]) != weight(claimants[i-1]) {
			n++
		}
	}
	classes := make([]class, 0, n)
	for i, c := range claimants {
		if i == 0 || weight(c) != weight(claimants[i-1]) {
			classes = append(classes, class{weight: weight(c), round: 1, first: uint32(i)})
		}
		classes[len(classes)-1].end = uint32(i + 1)
	}
	return classes
}

// fill lets the claimants claim every slot.
func fill[S uint8 | uint16 | uint32](f *filler) []S {
	slots := make([]S, f.N)
	for i := range f.classes { // rank 0
		claimRound(f, &f.classes[i], slots)
	}
	f.openCalendar()
	for day := uint32(0); f.free > 0; day++ {
		for _, i := range f.due(day) {
			claimRound(f, &f.classes[i], slots)
			f.enter(i)
		}
	}
	return slots
}

// openCalendar opens the calendar with the second round of each class.
func (f *filler) openCalendar() {
	f.pages = make([]int32, 1<<bits.Len(uint(len(f.classes))))
	for i := range f.pages {
		f.pages[i] = -1
	}
	f.today = make([]int32, 0, len(f.classes)) // nearly equal weights all come on one day
	for i := range f.classes {
		f.weight += uint64(f.classes[i].weight) // below 2^63: there are fewer than 2^31
	}
	for i := range f.classes {
		f.enter(int32(i))
	}
}

// page returns where the list of a day begins.
func (c *calendar) page(day uint32) *int32 { return &c.pages[day%uint32(len(c.pages))] }

// enter enters the next round of a class into the calendar.
func (f *filler) enter(i int32) {
	c := &f.classes[i]
	// The rank is round/(2*weight). The quotient fits: the round comes W/weight days
	// after the one before, of which the day is past, or 3/2 of that after the first.
	high, low := bits.Mul64(uint64(c.round), f.weight)
	day, _ := bits.Div64(high, low, 2*uint64(c.weight))
	// Up to the end of a day there were as many rounds as days, but for half a round
	// of each class at most. So the last is not beyond 3n/2, and what does not fit is
	// a day that never comes.
	c.day = uint32(min(day, math.MaxUint32))
	page := f.page(c.day)
	c.next, *page = *page, i
}

// due removes the classes that are due on a day from their page and returns them by
// rank.
func (f *filler) due(day uint32) []int32 {
	f.today = f.today[:0]
	for at := f.page(day); *at >= 0; {
		c := &f.classes[*at]
		if c.day != day {
			at = &c.next
			continue
		}
		f.today = append(f.today, *at)
		*at = c.next
	}
	if len(f.today) > 1 {
		slices.SortFunc(f.today, func(i, j int32) int {
			if f.classes[i].before(&f.classes[j]) {
				return -1
			}
			return 1 // they are never alike
		})
	}
	return f.today
}

// claimRound lets each claimant of a class claim a slot while there is a free one.
func claimRound[S uint8 | uint16 | uint32](f *filler, c *class, slots []S) {
	if f.free == 0 {
		return // so that unserved stays what it is
	}
	c.round += 2
	claimants := f.claimants[c.first:c.end]
	turns := min(len(claimants), f.free)
	walks := max(0, min(turns, f.free-f.few))
	f.walk(c.first, walks)
	for i := range claimants[:turns] {
		claimant := &claimants[i]
		if i >= walks {
			claimant.slot = f.nearest(claimant)
		}
		slots[claimant.slot] = S(claimant.placement)
		claimant.slot = modular.Step(claimant.slot, claimant.skip, f.N)
	}
	f.free -= turns
	f.unserved = claimants[turns:]
}

// walk takes so many claimants, from the first on, each to the slot that it claims.
func (f *filler) walk(first uint32, walks int) {
	// If the hash spreads, a walk looks at n/free slots on average, and seldom at 16
	// times as many: of the claims of 10 backends in 262,147 slots, 34 did, of those of
	// 100 backends, one.
	patience := 4*int(f.N)/(f.free-walks) + 8 // of four slots
	for i, end := first, first+uint32(walks); i < end; {
		most := end
		if f.blazed() {
			if f.follow(i) {
				i++
				continue
			}
			most = i + 1 // the next may be on a trail
		}
		i += uint32(walkRound(f.claimants[i:most], f.taken, f.N, patience))
		if i < most {
			f.search(i, 4*patience)
			i++
		}
	}
}

// walkRound moves each claimant to the slot that it claims, until one has looked at
// four times patience slots in vain. It returns how many have claimed. Most of the
// time of a rebuild is spent here. It looks at four slots at a time, since a
// processor cannot predict how many are taken.
func walkRound(claimants []claimant, taken []uint64, n uint32, patience int) int {
	for i := range claimants {
		slot, skip := claimants[i].slot, claimants[i].skip
		skip2 := modular.Step(skip, skip, n)
		for left := patience; ; left-- {
			if left == 0 {
				claimants[i].slot = slot
				return i
			}
			slot1 := modular.Step(slot, skip, n)
			slot2 := modular.Step(slot, skip2, n)
			slot3 := modular.Step(slot1, skip2, n)
			met := taken[slot/64]>>(slot%64)&1 | taken[slot1/64]>>(slot1%64)&1<<1 |
				taken[slot2/64]>>(slot2%64)&1<<2 | taken[slot3/64]>>(slot3%64)&1<<3
			if met != 15 {
				slot = [4]uint32{slot, slot1, slot2, slot3}[bits.TrailingZeros64(^met)%4]
				break
			}
			slot = modular.Step(slot2, skip2, n)
		}
		taken[slot/64] |= 1 << (slot % 64)
		claimants[i].slot = slot
	}
	return len(claimants)
}

// counts returns the number of slots of each placement, from the rounds of its class.
func (f *filler) counts(placements int) []uint32 {
	counts := make([]uint32, placements)
	for i := range f.classes {
		c := &f.classes[i]
		for _, claimant := range f.claimants[c.first:c.end] {
			counts[claimant.placement] = uint32(c.round / 2)
		}
	}
	for _, claimant := range f.unserved {
		counts[claimant.placement]--
	}
	return counts
}

// nearest finds the slot that a walk would find, faster if few slots are free: it
// computes how many steps away each free slot is, which is the distance divided by
// skip, modulo n. Otherwise the last sqrt(n) claims would be half of all steps.
func (f *filler) nearest(c *claimant) uint32 {
	if f.rest == nil {
		f.rest = freeIn(f.taken, f.N, f.free)
	}
	inverse := uint64(modular.Inverse(c.skip, f.N))
	nearest, at := f.N, 0
	for i, slot := range f.rest {
		distance := uint64(slot) + uint64(f.N) - uint64(c.slot) // not negative; the n drops out
		if _, steps := f.Divmod(distance * inverse); steps < nearest {
			nearest, at = steps, i
		}
	}
	slot := f.rest[at]
	last := len(f.rest) - 1
	f.rest[at] = f.rest[last]
	f.rest = f.rest[:last]
	return slot
}

// freeIn returns the slots of n that are not taken, of which there are that many.
func freeIn(taken []uint64, n uint32, free int) []uint32 {
	slots := make([]uint32, 0, free)
	for word, taken := range taken {
		for free := ^taken; free != 0; free &= free - 1 {
			if slot := word*64 + bits.TrailingZeros64(free); slot < int(n) {
				slots = append(slots, uint32(slot))
			}
		}
	}
	return slots
}
