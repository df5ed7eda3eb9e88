package chash

import "math/bits"

// owners is an immutable array of placements, by index: the slots of a Maglev
// table or the points of a ring. Exactly one of its forms is in use, or none
// where there is no placement.
type owners struct {
	narrow []uint8  // up to 256 placements
	medium []uint16 // up to 65,536
	wide   []uint32
	packed []uint64 // an owner in the low bits under mask, the structure's own matter above
	mask   uint64

	n      uint32   // how many owners, below 2^31; 0 if there is no placement
	counts []uint32 // how many of the owners each placement is
	idle   []uint32 // the placements that are none, by hash key; nil as a rule
}

// setCounts sets counts and what follows from them.
func (o *owners) setCounts(counts []uint32) {
	o.counts, o.idle = counts, nil
	for p, count := range counts {
		if count == 0 {
			o.idle = append(o.idle, uint32(p))
		}
	}
}

// none is an owner that is no placement.
const none = ^uint32(0)

// at returns the owner at position i. Past the end of slots it is none; past that
// of a ring's points it is what stands there, and nobody asks.
//
// The comparisons serve as bounds checks, as a test for the empty array and as
// the choice of the form, of which a processor soon predicts the outcome.
func (o *owners) at(i uint32) uint32 {
	n := uint(i)
	switch {
	case n < uint(len(o.narrow)):
		return uint32(o.narrow[n])
	case n < uint(len(o.medium)):
		return uint32(o.medium[n])
	case n < uint(len(o.packed)):
		return uint32(o.packed[n] & o.mask)
	case n < uint(len(o.wide)):
		return o.wide[n]
	}
	return none
}

// step returns (pos + stride) mod n, for pos and stride below n and n below 2^31.
// Whether it wraps is a toss-up that a processor cannot predict, so there is no
// branch: the sign of sum-n, which fits 32 bits, selects whether to add n again.
func step(pos, stride, n uint32) uint32 {
	past := pos + stride - n
	return past + n&uint32(int32(past)>>31)
}

// aheadIn is ahead for one form of owners. It looks at four at a time, with one
// branch that depends on their health: where half are healthy, a mispredicted
// branch for each would cost more than all the rest.
func aheadIn[S uint8 | uint16 | uint32](slots []S, set flags, pos, stride uint32, hops int) (placement uint32, after int) {
	n := uint32(len(slots))
	for after < hops {
		pos1 := step(pos, stride, n)
		pos2 := step(pos1, stride, n)
		pos3 := step(pos2, stride, n)
		met := [4]uint32{uint32(slots[pos]), uint32(slots[pos1]), uint32(slots[pos2]), uint32(slots[pos3])}
		healthy := uint(set[met[0]]) | uint(set[met[1]])<<1 | uint(set[met[2]])<<2 | uint(set[met[3]])<<3
		if healthy != 0 {
			i := bits.TrailingZeros(healthy)
			return met[i%4], min(after+i, hops)
		}
		after += 4
		pos = step(pos3, stride, n)
	}
	return none, hops
}
