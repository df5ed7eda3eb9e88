// Package probe goes through the owners of a structure, from a start, to the first
// one that is healthy. The owners are the slots of a Maglev table or the points of a
// ring.
package probe

import (
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/modular"
)

// Owners is an immutable array: the index of a placement for each slot of a table or
// each point of a ring. Exactly one of its four forms is in use, or none without a
// placement.
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

// SetCounts sets Counts and Idle.
func (o *Owners) SetCounts(counts []uint32) {
	o.Counts, o.Idle = counts, nil
	for p, count := range counts {
		if count == 0 {
			o.Idle = append(o.Idle, uint32(p))
		}
	}
}

// None is the index of no placement.
const None = ^uint32(0)

// At returns the owner at position i, or None past the last slot of a table. Callers
// of a ring never read past the last point.
//
// The comparisons do three jobs: they are the bounds checks, the test for an empty
// array, and the choice of the form. A processor soon predicts them.
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

// aheadIn is Ahead for one form of owners. It looks at four owners at a time, with
// one branch for all four. Where half of the owners are healthy, a mispredicted
// branch for each would cost more than everything else.
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

// A Placement is one place on a structure. All backends with the same hash key share
// it.
type Placement struct {
	HashKey string
	Weight  uint32 // of the heaviest of its backends, so at least 1
}

// SamePlacements reports whether a and b have the same hash keys and weights.
func SamePlacements(a, b []Placement) bool {
	return slices.EqualFunc(a, b, func(x, y Placement) bool {
		return x.Weight == y.Weight && x.HashKey == y.HashKey
	})
}
