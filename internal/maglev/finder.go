package maglev

import (
	"math/bits"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// A Finder finds the healthy placement that each slot of a table counts for.
//
// It goes the way of a lookup. Where few slots are healthy it does not go over the
// slots, but asks a set of the healthy ones. That set is small enough to stay in a
// processor's cache, and the next member is at hand however far away it is. So a slot
// costs a bounded time whatever the outage.
type Finder struct {
	*Table
	view    *probe.View
	healthy slotSet // nil where every other slot or more is healthy, or none
}

// Finder returns a finder for a view of the table.
func (t *Table) Finder(v *probe.View) Finder {
	f := Finder{Table: t, view: v}
	if v.Alive > 0 && v.Alive < int(t.N)/2 {
		f.healthy = newSlotSet(t.N, func(slot uint32) bool { return v.Healthy.Has(t.At(slot)) })
	}
	return f
}

// PlacementOf returns the placement that a slot counts for, or None.
func (f *Finder) PlacementOf(slot uint32) uint32 {
	p := f.At(slot)
	if f.view.Healthy.Has(p) {
		return p
	}
	if f.view.Live == 0 {
		return probe.None
	}
	w := f.walkOf(f.sample(slot))
	switch {
	case f.view.Alive == 0: // only placements without a slot are healthy
		p, _ = f.view.Nearest(w.Then)
		return p
	case f.healthy == nil: // the next healthy slot is near
		p, _ = w.Next(f.view)
		return p
	}
	pos := w.Pos
	for range w.Hops {
		if f.healthy.has(pos) {
			return f.At(pos)
		}
		pos = modular.Step(pos, w.Stride, f.N)
	}
	return f.At(f.healthy.from(w.Then))
}

// A slotSet is a set of slots, not empty, in levels: the first has a bit for each
// slot, and each one above it a bit for each word of the one below.
type slotSet [][]uint64

func newSlotSet(n uint32, has func(slot uint32) bool) slotSet {
	level := make([]uint64, (n+63)/64)
	for slot := range n {
		if has(slot) {
			level[slot/64] |= 1 << (slot % 64)
		}
	}
	s := slotSet{level}
	for len(level) > 1 {
		above := make([]uint64, (len(level)+63)/64)
		for i, word := range level {
			if word != 0 {
				above[i/64] |= 1 << (i % 64)
			}
		}
		s, level = append(s, above), above
	}
	return s
}

// has reports whether a slot is a member. Where members are rare, the second level
// nearly always knows, which is so small that reading it costs little.
func (s slotSet) has(slot uint32) bool {
	if len(s) > 1 && s[1][slot/64/64]>>(slot/64%64)&1 == 0 {
		return false
	}
	return s[0][slot/64]>>(slot%64)&1 != 0
}

// from returns the first member at or after a slot, past the last one the first of
// all.
func (s slotSet) from(slot uint32) uint32 {
	at := slot
	for level := range s {
		if word := at / 64; word < uint32(len(s[level])) {
			if rest := s[level][word] >> (at % 64); rest != 0 {
				return s.down(level, at+uint32(bits.TrailingZeros64(rest)))
			}
		}
		at = at/64 + 1 // the words behind this one
	}
	return s.from(0)
}

// down returns the first member below a bit of a level.
func (s slotSet) down(level int, bit uint32) uint32 {
	for ; level > 0; level-- {
		bit = bit*64 + uint32(bits.TrailingZeros64(s[level-1][bit]))
	}
	return bit
}

// sample returns a hash that leads to a slot. It is below 2^64: the quotient is
// below floor((2^64-1)/n), and the slot below n.
func (t *Table) sample(slot uint32) uint64 {
	quotient, _ := bits.Mul64(hashing.Mix(uint64(slot)+hashing.Scatter), t.slots.Reciprocal)
	return uint64(slot) + quotient*uint64(t.slots.N)
}
