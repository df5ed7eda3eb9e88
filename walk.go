package chash

import (
	"iter"
	"slices"
)

// A walk is the order in which a key meets the owners: hops positions from pos
// on, each a stride after the one before and wrapping around, then every
// position from then on, wrapping around too. So it meets each owner at least
// once. After that it meets the placements that are no owner, each once. It starts
// out as data and runs down as next is called.
type walk struct {
	pos, stride uint32
	hops        int
	then        uint32
	last        bool // the hops are done, and pos and left are set up for the rest
	left        uint32
	idle        uint32 // how many of the placements that are no owner are passed; with it a walk has 32 bytes
}

// next returns the next owner that is a healthy placement and whether there was
// one; it may have been met before.
func (w *walk) next(v *view) (placement uint32, found bool) {
	if w.hops > 0 {
		p, after := v.ahead(w.pos, w.stride, w.hops)
		if after < w.hops {
			taken := after + 1
			w.hops -= taken
			w.pos = uint32((uint64(w.pos) + uint64(taken)*uint64(w.stride)) % uint64(v.owners.n))
			return p, true
		}
		w.hops = 0
	}
	if !w.last {
		w.turnLast(v)
	}
	if v.sparse != nil {
		return w.nextIndexed(v)
	}
	for w.left > 0 {
		at := w.pos
		w.advance(v.owners.n)
		if p := v.owners.at(at); v.healthy.has(p) {
			return p, true
		}
	}
	return w.nextIdle(v)
}

// nextIdle is next for the placements that are no owner.
func (w *walk) nextIdle(v *view) (placement uint32, found bool) {
	placement, passed := v.idleFrom(w.then, int(w.idle))
	w.idle = uint32(passed)
	return placement, placement != none
}

// nextIndexed is next in the last part of a walk where the healthy owners are indexed.
func (w *walk) nextIndexed(v *view) (placement uint32, found bool) {
	if w.left == 0 {
		return w.nextIdle(v)
	}
	at := w.pos
	w.advance(uint32(len(v.sparse)))
	return v.owners.at(v.sparse[at]), true
}

// advance goes one of n positions on.
func (w *walk) advance(n uint32) {
	w.left--
	if w.pos++; w.pos == n {
		w.pos = 0
	}
}

// turnLast sets up the last part of the walk: pos is from now on a position among
// the healthy owners if those are indexed, else among all.
func (w *walk) turnLast(v *view) {
	w.last = true
	w.pos, w.left = w.then, v.owners.n
	switch {
	case v.alive == 0:
		w.left = 0
	case v.sparse != nil:
		w.pos, w.left = v.rank(w.then), uint32(len(v.sparse))
	}
}

// positions returns the positions of a walk that has not begun, among n owners:
// what next goes through, without regard to health.
func (w walk) positions(n uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		pos := w.pos
		for range w.hops {
			if !yield(pos) {
				return
			}
			pos = step(pos, w.stride, n)
		}
		for i := range n {
			if !yield((w.then + i) % n) {
				return
			}
		}
	}
}

// A cursor is a walk that meets each placement once.
type cursor struct {
	walk walk
	seen seen
	left int // healthy placements not met, without those that are no owner
}

func (v *view) cursor(w walk) cursor { return cursor{walk: w, left: v.live - v.spare} }

// next returns the next healthy placement and whether there was one.
func (c *cursor) next(v *view) (placement uint32, found bool) {
	for c.left > 0 {
		p, ok := c.walk.next(v)
		if !ok {
			break
		}
		if c.seen.add(p, len(v.healthy)) {
			c.left--
			return p, true
		}
	}
	return c.walk.nextIdle(v)
}

// bitmap is a set of placements.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

// put adds i and reports whether it was not there.
func (b bitmap) put(i uint32) bool {
	word, bit := &b[i/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// seen is a set of placements: a list while it is short, so that the usual
// lookup allocates nothing, and a bitmap after that.
type seen struct {
	n    int
	list [32]uint32
	set  bitmap
}

// add adds p and reports whether it was not there.
func (s *seen) add(p uint32, placements int) bool {
	if s.set == nil {
		if slices.Contains(s.list[:s.n], p) {
			return false
		}
		if s.n < len(s.list) {
			s.list[s.n] = p
			s.n++
			return true
		}
		s.set = newBitmap(placements)
		for _, q := range s.list {
			s.set.put(q)
		}
	}
	return s.set.put(p)
}
