package maglev

import (
	"cmp"
	"slices"

	"github.com/chash-go/chash/internal/modular"
)

// A claim looks at slots until one is free. With a hash that spreads, few are enough.
// With names that are made to collide, or a poor hash, many placements go the same
// way: along slots a skip apart which those before them have taken. This file keeps
// such a fill short: what a placement has found to be taken, no other one of its skip
// looks at again. The slots that are claimed stay the same.
//
// So the placements of one skip together look at each of n slots in vain once, and at
// n/trailPart more before that begins. Those of s skips take some s*n looks at most, and
// a hash of few values gives few skips. Of many skips, only few can lead far along slots
// that are taken: the worst hash that was found, of skips near simple fractions of n, took
// 1.5 s for 60,000 placements in 2^21 slots. Besides the slots, a fill needs some 40 bytes
// for each placement.

// trailPart: the placements of one skip get a trail once they have looked in vain at
// n/trailPart slots, beyond what patience allows.
const trailPart = 32

// trails are those of one filler. Without a trail, only taken is used.
type trails struct {
	taken  []uint64 // the slots, a bit each
	wasted map[uint32]int
	bySkip []uint32 // the claimants, by skip; nil while there is no trail
	on     []spot   // by claimant: where it is on a trail
}

// A spot is the place of a claimant on a trail. The zero spot is none.
type spot struct {
	trail *trail
	group uint32
}

// A trail has the claimants of one skip, in the order of the slots a skip apart. Each
// of them, if it goes on, comes to the slot where the next one began, and the last
// one to that of the first. From there on it need not look, since the other one has
// looked: both go on as one group from where the other one is. So each group knows
// one stretch of slots that are taken, and no two stretches overlap.
type trail struct {
	skip   uint32
	groups []group
}

// A group is a claimant and all those that have come to where it began.
type group struct {
	slot uint32 // the next to look at
	left uint32 // as many slots on the next group began
	into uint32 // the group that it has become a part of; itself if none
}

// blazed reports whether there is a trail.
func (t *trails) blazed() bool { return t.bySkip != nil }

// follow moves claimant i to the slot that it claims if it is on a trail. It reports
// whether it is.
func (f *filler) follow(i uint32) bool {
	at := f.on[i]
	if at.trail == nil {
		return false
	}
	f.claim(i, at.trail.free(at.group, f.taken, f.N))
	return true
}

func (f *filler) claim(i, slot uint32) {
	f.taken[slot/64] |= 1 << (slot % 64)
	f.claimants[i].slot = slot
}

// search moves claimant i to the slot that it claims, after it has looked at a number
// of slots.
func (f *filler) search(i uint32, looked int) {
	c := &f.claimants[i]
	if f.wasted == nil {
		f.wasted = make(map[uint32]int)
	}
	wasted := f.wasted[c.skip] + looked
	for ; wasted <= int(f.N)/trailPart; wasted++ {
		if f.taken[c.slot/64]>>(c.slot%64)&1 == 0 {
			f.wasted[c.skip] = wasted
			f.claim(i, c.slot)
			return
		}
		c.slot = modular.Step(c.slot, c.skip, f.N)
	}
	delete(f.wasted, c.skip)
	f.blaze(c.skip)
	f.follow(i)
}

// blaze begins the trail of a skip, with all claimants of that skip on it.
func (f *filler) blaze(skip uint32) {
	if !f.blazed() {
		f.on = make([]spot, len(f.claimants))
		f.bySkip = make([]uint32, len(f.claimants))
		for i := range f.bySkip {
			f.bySkip[i] = uint32(i)
		}
		slices.SortFunc(f.bySkip, func(a, b uint32) int { return cmp.Compare(f.claimants[a].skip, f.claimants[b].skip) })
	}
	first, _ := slices.BinarySearchFunc(f.bySkip, skip, func(i, skip uint32) int { return cmp.Compare(f.claimants[i].skip, skip) })
	those := f.bySkip[first:]
	for n, i := range those {
		if f.claimants[i].skip != skip {
			those = those[:n]
			break
		}
	}
	t := &trail{skip: skip, groups: make([]group, len(those))}
	numbers := f.along(skip, those)
	for g, i := range those {
		next := (g + 1) % len(those)
		left := numbers[next] - numbers[g]
		if next == 0 { // past the end, also where it is the only one
			left += f.N
		}
		t.groups[g] = group{slot: f.claimants[i].slot, left: left, into: uint32(g)}
		f.on[i] = spot{t, uint32(g)}
	}
}

// along sorts claimants of one skip by their slots, in the order of slots a skip apart,
// and returns the numbers of the slots in that order: number j is slot j*skip mod n.
func (f *filler) along(skip uint32, claimants []uint32) (numbers []uint32) {
	inverse := uint64(modular.Inverse(skip, f.N))
	number := func(i uint32) uint32 {
		_, number := f.Divmod(uint64(f.claimants[i].slot) * inverse)
		return number
	}
	slices.SortFunc(claimants, func(a, b uint32) int { return cmp.Compare(number(a), number(b)) })
	numbers = make([]uint32, len(claimants))
	for at, i := range claimants {
		numbers[at] = number(i)
	}
	return numbers
}

// free returns the first free slot from the place of a group on. There must be one.
func (t *trail) free(g uint32, taken []uint64, n uint32) uint32 {
	for {
		g = t.whole(g)
		group := &t.groups[g]
		for group.left > 0 {
			slot := group.slot
			group.slot = modular.Step(slot, t.skip, n)
			group.left--
			if taken[slot/64]>>(slot%64)&1 == 0 {
				return slot
			}
		}
		if group.into++; group.into == uint32(len(t.groups)) {
			group.into = 0
		}
	}
}

// whole returns the group that has taken in group g, and shortens the way to it.
func (t *trail) whole(g uint32) uint32 {
	for t.groups[g].into != g {
		next := t.groups[g].into
		t.groups[g].into = t.groups[next].into
		g = next
	}
	return g
}
