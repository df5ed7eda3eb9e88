// Package turns says whose turn it is for requests without a key.
package turns

import (
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// A Rotation tells the turn of the n-th request without a key from n alone. So calls
// share one counter and need no lock. A Rotation is immutable.
//
// If the sum of the weights is small, the turns are in a list. Otherwise a circle
// computes them.
type Rotation struct {
	Order []uint32 // the healthy placements, by hash key

	turns  []uint32        // who has each turn of a period; nil for a circle
	period modular.Divisor // by the length of turns

	circle circle
}

// Turns are listed for periods up to listedTurns, or up to listedPerPlacement for each
// placement, so that a change of health takes little time.
const (
	listedTurns        = 4096
	listedPerPlacement = 4
)

// New returns the rotation of the healthy placements. The number of them is live; the
// weights are by placement.
func New(healthy probe.Flags, live int, weights []uint32) Rotation {
	r := Rotation{Order: make([]uint32, 0, live)}
	if live == 0 {
		return r
	}
	var total uint64 // cannot overflow: there are fewer than 2^31
	unit := uint32(0)
	for p, in := range healthy {
		if in != 0 {
			r.Order = append(r.Order, uint32(p))
			total += uint64(weights[p])
			if weights[p] != unit {
				unit = commonDivisor(weights[p], unit)
			}
		}
	}
	period := total / uint64(unit)
	switch {
	case period == uint64(live):
		r.turns = r.Order // the weights are equal
	case period <= uint64(max(listedTurns, listedPerPlacement*live)):
		r.turns = evenTurns(r.Order, weights, unit, int(period))
	default:
		r.circle = newCircle(r.Order, weights, total)
		return r
	}
	r.period = modular.NewDivisor(uint32(len(r.turns)))
	return r
}

// commonDivisor returns the greatest common divisor of a and b.
func commonDivisor(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// At returns the healthy placement with the turn of a count. There must be one.
func (r *Rotation) At(count uint64) uint32 {
	if r.turns != nil {
		_, turn := r.period.Divmod(count)
		return r.turns[turn]
	}
	return r.Order[r.circle.at(count)]
}

// evenTurns returns one period of turns. A placement has one turn for each unit of
// its weight, in the middle of each of as many equal parts of the period. Turns at
// the same time are in the order of the placements.
//
// The turns are sorted by counting: starts has, for each time, the number of turns
// before it.
func evenTurns(order, weights []uint32, unit uint32, period int) []uint32 {
	each := func(yield func(placement uint32, turn int)) {
		for _, p := range order {
			n := uint64(weights[p] / unit)
			part := uint64(period) << 32 / n // at least 2^32, and below 2^63
			at := part / 2
			for range n {
				yield(p, int(at>>32))
				at += part
			}
		}
	}
	starts := make([]uint32, period+1)
	each(func(_ uint32, turn int) { starts[turn+1]++ })
	for turn := range period {
		starts[turn+1] += starts[turn]
	}
	turns := make([]uint32, period)
	each(func(placement uint32, turn int) {
		turns[starts[turn]] = placement
		starts[turn]++
	})
	return turns
}

// A circle computes turns if they are too many for a list. Each placement has a part
// of the circle as long as its weight. Each turn moves on by the golden section of
// the circle, the stride that spreads turns most evenly: a part gets its share of n
// turns to within a few, which grow with the logarithm of n, and the gaps between its
// turns have at most three lengths (the three-distance theorem; Knuth, "The Art of
// Computer Programming", volume 3, section 6.4). The unit of positions is the circle
// divided by 2^64.
type circle struct {
	total uint64   // of the weights, at most 2^63
	ends  []uint64 // the sum of the weights up to and with each one's
	guide []uint32 // by the top bits of a position: the first part that it may be in
	shift uint     // what leaves these bits
}

func newCircle(order, weights []uint32, total uint64) circle {
	size := bits.Len(uint(len(order)))
	c := circle{
		total: total,
		ends:  make([]uint64, len(order)),
		guide: make([]uint32, 1<<size), // one or two for each part
		shift: 64 - uint(size),
	}
	end := uint64(0)
	for i, p := range order {
		end += uint64(weights[p])
		c.ends[i] = end
	}
	part := uint32(0)
	for i := range c.guide {
		for first := c.place(uint64(i) << c.shift); c.ends[part] <= first; {
			part++
		}
		c.guide[i] = part
	}
	return c
}

// place returns the position in units of weight, below total.
func (c *circle) place(position uint64) uint64 {
	place, _ := bits.Mul64(position, c.total)
	return place
}

// at returns the part with the turn of a count. The guide has a bucket for each part,
// so that on average fewer than two parts are looked at. If many light parts share a
// bucket, a binary search finds the part.
func (c *circle) at(count uint64) uint32 {
	position := count * hashing.Scatter
	place := c.place(position)
	part := c.guide[position>>(c.shift&63)]
	for range 8 {
		if place < c.ends[part] {
			return part
		}
		part++
	}
	more, _ := slices.BinarySearch(c.ends[part:], place+1)
	return part + uint32(more)
}
