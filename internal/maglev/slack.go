package maglev

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// fillWithSlack fills a table with slack.
func (t *Table) fillWithSlack(placements []probe.Placement, old *Table) {
	t.N = t.slots.N
	t.placements = placements
	switch n := len(placements); {
	case n <= 1<<8:
		t.Narrow = compete(t, old, old.Narrow)
	case n <= 1<<16:
		t.Medium = compete(t, old, old.Medium)
	default:
		t.Wide = compete(t, old, old.Wide)
	}
}

// compete has the slots of t won.
func compete[S uint8 | uint16 | uint32](t, old *Table, oldSlots []S) []S {
	c := newContest[S](t)
	if !c.amend(t, old, oldSlots) {
		c.fill()
	}
	t.SetCounts(c.counts())
	t.latest = c.latest
	return c.slots
}

// noLimit is the slack from which on there are no caps. A cap would be 2^31 times the
// fair share.
const noLimit = 1 << 31

// hasLimit reports whether a slack limits the slots of a placement.
func hasLimit(slack float64) bool { return slack < noLimit }

// caps returns how many slots each placement may win in a table of n slots with
// that slack, and nil without a limit. They add up to n at least.
//
// The cap is floor((1 + slack) * n * w / W + u) for the weight w of W in all, where
// u is below 1 and the placement's own: so that a change of W, which changes every
// quotient a little, changes few caps, and not all at once.
func caps(n uint32, slack float64, placements []probe.Placement, h *hashing.Hasher) []uint32 {
	if !hasLimit(slack) {
		return nil
	}
	units := uint64(math.Round(slack * (1 << 16))) // below 2^47
	total := uint64(0)                             // below 2^63: there are fewer than 2^31
	for i := range placements {
		total += uint64(placements[i].Weight)
	}
	caps := make([]uint32, len(placements))
	fractions := make([]uint32, len(placements)) // of 2^32
	sum := uint64(0)
	var buf []byte
	for i := range placements {
		high, low := bits.Mul64(uint64(n)*uint64(placements[i].Weight), (1<<16+units)<<16)
		caps[i] = n
		if high < total {
			var lot uint64
			lot, buf = h.Lot(placements[i].HashKey, buf)
			quotient, _ := bits.Div64(high, low, total)
			exact, carry := bits.Add64(quotient, lot>>32, 0)
			fractions[i] = uint32(exact)
			if carry == 0 {
				caps[i] = uint32(min(exact>>32, uint64(n)))
			}
		}
		sum += uint64(caps[i])
	}
	if units == 0 {
		level(caps, fractions, int64(sum)-int64(n))
	} else if sum < uint64(n) {
		for i := range caps {
			caps[i] = min(caps[i]+1, n)
		}
	}
	for i := range caps {
		caps[i] = max(caps[i], 1)
	}
	return caps
}

// level takes one slot each from the caps if they are too many together, or adds one
// each if they are too few.
func level(caps, fractions []uint32, tooMany int64) {
	if tooMany == 0 {
		return
	}
	order := make([]uint32, len(caps))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		c := cmp.Compare(fractions[a], fractions[b])
		if tooMany < 0 {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a, b))
	})
	for _, i := range order {
		switch {
		case tooMany < 0:
			caps[i]++
			tooMany++
		case tooMany > 0 && caps[i] > 0:
			caps[i]--
			tooMany--
		}
	}
}
