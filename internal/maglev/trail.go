package maglev

import (
	"math"
	"math/bits"

	"github.com/chash-go/chash/internal/modular"
)

// A claim looks at slots until one is free. With a hash that spreads, few are enough.
// With names that are made to collide, or a poor hash, many placements go the same
// way: along slots a skip apart which those before them have taken. This file keeps
// such a fill short: what placements of one skip have found to be taken, none of them
// looks at again. The slots that are claimed stay the same.

const (
	// maxTrails bounds the memory: each takes some 3/16 of a byte for each slot.
	maxTrails = 32
	// Placements of one skip have a trail once they have looked in vain at one in
	// trailPart of the slots, beyond what patience allows.
	trailPart = 32
)

// trails are those of one filler. Without trails there is nothing to do but to keep
// taken.
type trails struct {
	taken  []uint64 // the slots, a bit each
	wasted map[uint32]int
	bySkip map[uint32]*trail
	clock  uint64
}

// A trail knows slots of one skip to be taken. Its order of slots is that of the
// placements' preferences: number i is slot i*skip mod n.
type trail struct {
	skip, inverse uint32
	known         []uint64 // by number, a bit each: the slot is known to be taken
	beyond        []uint32 // for each word of known that is full, a later one to go on with
	used          uint64   // when it was used last
}

// blazed reports whether there is a trail.
func (t *trails) blazed() bool { return len(t.bySkip) > 0 }

// follow takes a claimant to the slot that it claims if there is a trail for it, and
// reports whether there is.
func (t *trails) follow(c *claimant, slots *modular.Divisor) bool {
	trail := t.bySkip[c.skip]
	if trail == nil {
		return false
	}
	t.clock++
	trail.used = t.clock
	t.claim(c, trail.free(c.slot, t.taken, slots))
	return true
}

func (t *trails) claim(c *claimant, slot uint32) {
	t.taken[slot/64] |= 1 << (slot % 64)
	c.slot = slot
}

// search takes a claimant to the slot that it claims after it has looked at a number
// of slots.
func (t *trails) search(c *claimant, looked int, slots *modular.Divisor) {
	if t.wasted == nil {
		t.wasted, t.bySkip = make(map[uint32]int), make(map[uint32]*trail)
	}
	wasted := t.wasted[c.skip] + looked
	for slot := c.slot; wasted <= int(slots.N)/trailPart; wasted++ {
		if t.taken[slot/64]>>(slot%64)&1 == 0 {
			t.wasted[c.skip] = wasted
			t.claim(c, slot)
			return
		}
		slot = modular.Step(slot, c.skip, slots.N)
	}
	delete(t.wasted, c.skip)
	t.blaze(c.skip, slots)
	t.follow(c, slots)
}

// blaze begins a trail, in place of that which was used the longest time ago if there
// are as many as may be.
func (t *trails) blaze(skip uint32, slots *modular.Divisor) {
	next := new(trail)
	if len(t.bySkip) == maxTrails {
		next.used = math.MaxUint64
		for _, trail := range t.bySkip { // in any order: no two were used at one time
			if trail.used < next.used {
				next = trail
			}
		}
		delete(t.bySkip, next.skip)
	}
	next.begin(skip, slots)
	t.bySkip[skip] = next
}

// begin makes the trail one of a skip of which nothing is known.
func (t *trail) begin(skip uint32, slots *modular.Divisor) {
	t.skip, t.inverse = skip, modular.Inverse(skip, slots.N)
	words := slots.N/64 + 1
	if t.known == nil {
		t.known, t.beyond = make([]uint64, words), make([]uint32, words)
	}
	clear(t.known)
	t.known[words-1] = ^uint64(0) << (slots.N % 64) // there are no such slots
	for word := range t.beyond {
		t.beyond[word] = uint32(word) + 1
	}
	t.beyond[words-1] = 0
}

// free returns the first slot that is free, from one on; there is one. It looks at no
// slot that is known to be taken, so that each slot is looked at in vain once.
func (t *trail) free(slot uint32, taken []uint64, slots *modular.Divisor) uint32 {
	_, number := slots.Divmod(uint64(slot) * uint64(t.inverse))
	word, from := number/64, ^uint64(0)<<(number%64)
	for {
		for open := from &^ t.known[word]; open != 0; open &= open - 1 {
			bit := uint32(bits.TrailingZeros64(open))
			_, slot := slots.Divmod(uint64(word*64+bit) * uint64(t.skip))
			if taken[slot/64]>>(slot%64)&1 == 0 {
				return slot
			}
			t.known[word] |= 1 << bit
		}
		word, from = t.notFull(t.beyond[word]), ^uint64(0)
	}
}

// notFull returns the first word from one on that is not full, and leaves shorter ways
// to it behind.
func (t *trail) notFull(word uint32) uint32 {
	for t.known[word] == ^uint64(0) {
		next := t.beyond[word]
		if t.known[next] == ^uint64(0) {
			t.beyond[word] = t.beyond[next]
		}
		word = next
	}
	return word
}
