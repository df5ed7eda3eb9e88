// Package probe is what a lookup does once its key is hashed: it goes through owners from
// a start until one is healthy. The owners are the slots of a Maglev table or the points
// of a ring.
package probe

import (
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/modular"
)

// Owners is an immutable array of placements, by index: the slots of a Maglev
// table or the points of a ring. Exactly one of its forms is in use, or none
// where there is no placement.
type Owners struct {
	Narrow []uint8  // up to 256 placements
	Medium []uint16 // up to 65,536
	Wide   []uint32
	Packed []uint64 // an owner in the low bits under mask, the structure's own matter above
	Mask   uint64

	N      uint32   // how many owners, below 2^31; 0 if there is no placement
	Counts []uint32 // how many of the owners each placement is
	Idle   []uint32 // the placements that are none, by hash key; nil as a rule
}

// SetCounts sets counts and what follows from them.
func (o *Owners) SetCounts(counts []uint32) {
	o.Counts, o.Idle = counts, nil
	for p, count := range counts {
		if count == 0 {
			o.Idle = append(o.Idle, uint32(p))
		}
	}
}

// None is an owner that is no placement.
const None = ^uint32(0)

// At returns the owner at position i. Past the end of slots it is none; past that
// of a ring's points it is what stands there, and nobody asks.
//
// The comparisons serve as bounds checks, as a test for the empty array and as
// the choice of the form, of which a processor soon predicts the outcome.
func (o *Owners) At(i uint32) uint32 {
	n := uint(i)
	switch {
	case n < uint(len(o.Narrow)):
		return uint32(o.Narrow[n])
	case n < uint(len(o.Medium)):
		return uint32(o.Medium[n])
	case n < uint(len(o.Packed)):
		return uint32(o.Packed[n] & o.Mask)
	case n < uint(len(o.Wide)):
		return o.Wide[n]
	}
	return None
}

// aheadIn is Ahead for one form of owners. It looks at four at a time, with one
// branch that depends on their health: where half are healthy, a mispredicted
// branch for each would cost more than all the rest.
func aheadIn[S uint8 | uint16 | uint32](slots []S, set Flags, pos, stride uint32, hops int) (placement uint32, after int) {
	n := uint32(len(slots))
	for after < hops {
		pos1 := modular.Step(pos, stride, n)
		pos2 := modular.Step(pos1, stride, n)
		pos3 := modular.Step(pos2, stride, n)
		met := [4]uint32{uint32(slots[pos]), uint32(slots[pos1]), uint32(slots[pos2]), uint32(slots[pos3])}
		healthy := uint(set[met[0]]) | uint(set[met[1]])<<1 | uint(set[met[2]])<<2 | uint(set[met[3]])<<3
		if healthy != 0 {
			i := bits.TrailingZeros(healthy)
			return met[i%4], min(after+i, hops)
		}
		after += 4
		pos = modular.Step(pos3, stride, n)
	}
	return None, hops
}

// A Placement is one place on a structure: that of all backends which share its
// hash key.
type Placement struct {
	HashKey string
	Weight  uint32 // of the heaviest of its backends, so at least 1
}

// SamePlacements reports whether a and b are laid out alike.
func SamePlacements(a, b []Placement) bool {
	return slices.EqualFunc(a, b, func(x, y Placement) bool {
		return x.Weight == y.Weight && x.HashKey == y.HashKey
	})
}
