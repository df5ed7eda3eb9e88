package chash

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// This file fills Maglev tables. Placements claim slots in turn, each turn the
// most preferred slot of the placement that is still free; the j-th preference is
// slot (offset + j*skip) mod n. Claim k, from 0, of a placement of weight w has
// rank 0 for k = 0 and (2k+1)/(2w) after that; lower ranks go first, at equal
// rank the heavier placement, then the smaller hash key. So each placement owns
// a slot, equal weights give plain Maglev, and shares are rounded to the nearest
// slot (Webster's method).

func (t *table) lay(placements []placement) (*table, error) {
	if uint64(len(placements)) > uint64(t.slots.n) {
		return nil, fmt.Errorf("%w: %d placements, %d slots", ErrTooManyBackends, len(placements), t.slots.n)
	}
	next := &table{slots: t.slots, strides: t.strides, hash: t.hash}
	if len(placements) == 0 {
		return next, nil
	}
	f := newFiller(next, placements)
	switch n := len(placements); {
	case n <= 1<<8:
		next.narrow = fill[uint8](f)
	case n <= 1<<16:
		next.medium = fill[uint16](f)
	default:
		next.wide = fill[uint32](f)
	}
	next.n = t.slots.n
	next.counts = f.counts(len(placements))
	return next, nil
}

// A claimant is a placement on its way through its preferences.
type claimant struct {
	slot      uint32 // the next preference; those before it are taken
	skip      uint32
	placement uint32
}

// A class is the claimants of one weight. Their ranks are the same, so they make
// each round of claims together, in the order of their hash keys.
type class struct {
	weight    uint64
	round     uint64 // 2k+1 for its next claim k
	claimants []claimant
}

// before reports whether a's next round comes before b's. The products are
// exact: round is below 2^32, since k is below the table size, and so is weight.
func (a *class) before(b *class) bool {
	x, y := a.round*b.weight, b.round*a.weight
	return x < y || x == y && a.weight > b.weight
}

// A filler is a table being filled.
type filler struct {
	divisor
	classes []class // heaviest first; a heap by class.before after the first round
	taken   []uint64
	free    int      // slots
	few     int      // from as many free slots on they are searched, not walked to
	rest    []uint32 // those slots, in any order

	unserved []claimant // of the last round: those who found no slot free
}

func newFiller(t *table, placements []placement) *filler {
	claimants := make([]claimant, len(placements))
	var buf []byte
	for i := range placements {
		var offset, skip uint64
		offset, skip, buf = t.hash.placement(placements[i].hashKey, buf)
		_, rest := t.strides.divmod(skip)
		claimants[i] = claimant{
			slot:      t.home(offset),
			skip:      rest + 1,
			placement: uint32(i),
		}
	}
	n := int(t.slots.n)
	return &filler{
		divisor: t.slots,
		classes: classify(claimants, placements),
		taken:   make([]uint64, n/64+1), // n+63 may not fit 32 bits
		free:    n,
		few:     1 << (bits.Len(uint(n)) / 2), // about sqrt(n)
	}
}

// classify sorts the claimants into classes, the heaviest first.
func classify(claimants []claimant, placements []placement) []class {
	weight := func(c claimant) uint32 { return placements[c.placement].weight }
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
		if last := len(classes) - 1; last >= 0 && classes[last].weight == uint64(weight(c)) {
			classes[last].claimants = claimants[i-len(classes[last].claimants) : i+1]
			continue
		}
		classes = append(classes, class{uint64(weight(c)), 1, claimants[i : i+1]})
	}
	return classes
}

// fill lets the claimants claim every slot.
func fill[S uint8 | uint16 | uint32](f *filler) []S {
	slots := make([]S, f.n)
	for i := range f.classes { // rank 0
		claimRound(f, &f.classes[i], slots)
	}
	for f.free > 0 {
		claimRound(f, &f.classes[0], slots)
		f.sift()
	}
	return slots
}

// claimRound lets each claimant of a class claim a slot, as long as any is free.
// In the loop over walkers most of the time of a rebuild is spent, so it keeps
// in registers what it can.
func claimRound[S uint8 | uint16 | uint32](f *filler, c *class, slots []S) {
	c.round += 2
	turns := min(len(c.claimants), f.free)
	walks := max(0, min(turns, f.free-f.few))
	taken, n := f.taken, f.n
	for i := range c.claimants[:walks] {
		claimant := &c.claimants[i]
		slot, skip := claimant.slot, claimant.skip
		for taken[slot/64]>>(slot%64)&1 != 0 {
			slot = step(slot, skip, n)
		}
		taken[slot/64] |= 1 << (slot % 64)
		slots[slot] = S(claimant.placement)
		claimant.slot = step(slot, skip, n)
	}
	for i := range c.claimants[walks:turns] {
		claimant := &c.claimants[walks+i]
		slot := f.search(claimant)
		slots[slot] = S(claimant.placement)
		claimant.slot = step(slot, claimant.skip, n)
	}
	f.free -= turns
	f.unserved = c.claimants[turns:]
}

// counts returns how many slots each placement has claimed, from the rounds that
// its class has made.
func (f *filler) counts(placements int) []uint32 {
	counts := make([]uint32, placements)
	for i := range f.classes {
		c := &f.classes[i]
		for _, claimant := range c.claimants {
			counts[claimant.placement] = uint32(c.round / 2)
		}
	}
	for _, claimant := range f.unserved {
		counts[claimant.placement]--
	}
	return counts
}

// sift restores the heap after a round of its first class.
func (f *filler) sift() {
	h := f.classes
	moved := h[0]
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if moved.before(&h[child]) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = moved
}

// search finds the slot that claimRound would walk to, faster where few are
// free, by asking of each how many steps away it is: its distance divided by
// skip, modulo n. The last sqrt(n) claims would else be half of all the steps.
func (f *filler) search(c *claimant) uint32 {
	if f.rest == nil {
		f.rest = f.freeSlots()
	}
	inverse := uint64(invert(c.skip, f.n))
	nearest, at := f.n, 0
	for i, slot := range f.rest {
		distance := uint64(slot) + uint64(f.n) - uint64(c.slot) // not negative; the n drops out
		if _, steps := f.divmod(distance * inverse); steps < nearest {
			nearest, at = steps, i
		}
	}
	slot := f.rest[at]
	last := len(f.rest) - 1
	f.rest[at] = f.rest[last]
	f.rest = f.rest[:last]
	return slot
}

func (f *filler) freeSlots() []uint32 {
	slots := make([]uint32, 0, f.free)
	for word, taken := range f.taken {
		for free := ^taken; free != 0; free &= free - 1 {
			if slot := word*64 + bits.TrailingZeros64(free); slot < int(f.n) {
				slots = append(slots, uint32(slot))
			}
		}
	}
	return slots
}

// invert returns the x below the prime n for which a*x modulo n is 1, by the
// extended Euclidean algorithm; a is from 1 to n-1.
func invert(a, n uint32) uint32 {
	r, next := int64(n), int64(a)
	x, nextX := int64(0), int64(1) // r = x*a and next = nextX*a, modulo n
	for next != 0 {
		q := r / next
		r, next = next, r-q*next
		x, nextX = nextX, x-q*nextX
	}
	if x < 0 {
		x += int64(n)
	}
	return uint32(x)
}
