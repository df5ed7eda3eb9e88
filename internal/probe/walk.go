package probe

import (
	"iter"

	"github.com/chash-go/chash/internal/modular"
)

// A Walk is the order in which a key meets the owners. First come Hops positions from
// Pos on, each a Stride after the one before, wrapping. Then come all positions from
// Then on, wrapping. So a walk meets each owner at least once. Last come the
// placements without an owner, each once. Next uses up the walk.
type Walk struct {
	Pos, Stride uint32
	Hops        int
	Then        uint32
	last        bool // the hops are done, and pos and left are set up for the rest
	left        uint32
	idle        uint32 // how many of the placements that are no owner are passed; with it a walk has 32 bytes
}

// Next returns the next healthy owner, which may have been met before, and whether
// there is one.
func (w *Walk) Next(v *View) (placement uint32, found bool) {
	if w.Hops > 0 {
		p, after := v.Ahead(w.Pos, w.Stride, w.Hops)
		if after < w.Hops {
			taken := after + 1
			w.Hops -= taken
			w.Pos = uint32((uint64(w.Pos) + uint64(taken)*uint64(w.Stride)) % uint64(v.Owners.N))
			return p, true
		}
		w.Hops = 0
	}
	if !w.last {
		w.turnLast(v)
	}
	if v.Sparse != nil {
		return w.nextIndexed(v)
	}
	for w.left > 0 {
		at := w.Pos
		w.advance(v.Owners.N)
		if p := v.Owners.At(at); v.Healthy.Has(p) {
			return p, true
		}
	}
	return w.nextIdle(v)
}

// PassOwners skips the owners: Next then returns the placements without an owner.
func (w *Walk) PassOwners() { w.Hops, w.last, w.left = 0, true, 0 }

// nextIdle is Next for the placements without an owner.
func (w *Walk) nextIdle(v *View) (placement uint32, found bool) {
	placement, passed := v.IdleFrom(w.Then, int(w.idle))
	w.idle = uint32(passed)
	return placement, placement != None
}

// nextIndexed is Next in the last part of a walk if the healthy owners are indexed.
func (w *Walk) nextIndexed(v *View) (placement uint32, found bool) {
	if w.left == 0 {
		return w.nextIdle(v)
	}
	at := w.Pos
	w.advance(uint32(len(v.Sparse)))
	return v.Owners.At(v.Sparse[at]), true
}

// advance moves to the next of n positions, wrapping.
func (w *Walk) advance(n uint32) {
	w.left--
	if w.Pos++; w.Pos == n {
		w.Pos = 0
	}
}

// turnLast begins the last part of the walk. From then on, Pos is an index in Sparse
// if there is one, else a position.
func (w *Walk) turnLast(v *View) {
	w.last = true
	w.Pos, w.left = w.Then, v.Owners.N
	switch {
	case v.Alive == 0:
		w.left = 0
	case v.Sparse != nil:
		w.Pos, w.left = v.rank(w.Then), uint32(len(v.Sparse))
	}
}

// Positions returns all positions of a walk that has not begun, among n owners,
// whatever their health.
func (w Walk) Positions(n uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		pos := w.Pos
		for range w.Hops {
			if !yield(pos) {
				return
			}
			pos = modular.Step(pos, w.Stride, n)
		}
		for i := range n {
			if !yield((w.Then + i) % n) {
				return
			}
		}
	}
}

// A Cursor is a walk that meets each placement once.
type Cursor struct {
	walk Walk
	seen seen
	left int // healthy placements not met, without those that are no owner
}

func (v *View) Cursor(w Walk) Cursor { return Cursor{walk: w, left: v.Live - v.Spare} }

// Next returns the next healthy placement and whether there was one.
func (c *Cursor) Next(v *View) (placement uint32, found bool) {
	for c.left > 0 {
		p, ok := c.walk.Next(v)
		if !ok {
			break
		}
		if c.seen.add(p, len(v.Healthy)) {
			c.left--
			return p, true
		}
	}
	return c.walk.nextIdle(v)
}

// Placements returns all placements in the order of a walk that has not begun, each
// once, whatever their health. Those without an owner come last.
func (v *View) Placements(w Walk) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		var seen seen
		idle := v.Owners.Idle
		left := len(v.Healthy) - len(idle)
		for at := range w.Positions(v.Owners.N) {
			if p := v.Owners.At(at); seen.add(p, len(v.Healthy)) {
				if !yield(p) {
					return
				}
				if left--; left == 0 {
					break
				}
			}
		}
		for met := range idle {
			if !yield(idle[(uint64(w.Then)+uint64(met))%uint64(len(idle))]) {
				return
			}
		}
	}
}
