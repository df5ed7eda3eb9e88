package chash

import (
	"bytes"
	"iter"
	"math"
	"slices"
)

// A ringState is one state of a ring with the names of its backends, immutable.
type ringState struct {
	*ring
	view           // of those that count as healthy
	names []string // by placement
}

// states returns the state as lookups see it, and that in which all are healthy.
func (r *Ring[T]) states() (lookups, holders *ringState) {
	s, answering, owning := r.named()
	all := view{owners: s.owners, healthy: bytes.Repeat([]byte{1}, len(owning)), live: len(owning), spare: len(s.owners.idle)}
	return &ringState{s.layout, s.view, answering}, &ringState{s.layout, all, owning}
}

// joined returns ranges, which are in order, such that those which adjoin and go
// with the same numbers are one. The numbers that it yields are overwritten.
func joined(ranges iter.Seq2[Range, []uint32]) iter.Seq2[Range, []uint32] {
	return func(yield func(Range, []uint32) bool) {
		var last Range
		var with []uint32
		found := false
		for r, numbers := range ranges {
			if found && r.First == last.Last+1 && slices.Equal(numbers, with) {
				last.Last = r.Last
				continue
			}
			if found && !yield(last, with) {
				return
			}
			last, with, found = r, append(with[:0], numbers...), true
		}
		if found {
			yield(last, with)
		}
	}
}

// A sweep goes over a ring in the order of positions, from one stretch of which
// all keys meet the same placements to the next. The keys up to a healthy point
// begin their walks there, whatever unhealthy ones are in between.
//
// It moves two points along: that where the walks begin, and that where they have
// met enough. So it costs time for each point, and in order for each copy too.
type sweep struct {
	*ringState
	n       int    // healthy placements to be met, at most all that have points
	spares  int    // healthy placements without points that come after those
	last    uint64 // the last position of the stretch
	ordered bool   // whether holders are wanted

	points     uint32   // to go over: the healthy ones if they are indexed, else all
	begin, end uint32   // of the walk; end counts on past the last point
	bucket     uint64   // of point begin
	met        []uint32 // by placement, how often between begin and end
	distinct   int      // how many of them were met
	holders    []uint32 // those, in the order in which they were
	idlers     []uint32 // the spares, in their order
}

// sweep returns a sweep at its first stretch.
func (s *ringState) sweep(n int, ordered bool) *sweep {
	w := &sweep{
		ringState: s,
		n:         min(n, s.live-s.spare),
		last:      math.MaxUint64,
		ordered:   ordered,
		points:    s.ring.n,
		met:       make([]uint32, len(s.names)),
	}
	if s.ring.n == 0 || min(n, s.live) <= 0 {
		return w
	}
	w.spares = min(n, s.live) - w.n
	if s.sparse != nil {
		w.points = uint32(len(s.sparse))
	}
	w.skip()
	w.end = w.begin
	w.extend()
	w.last = w.position()
	return w
}

// next goes on to the next stretch; there is one unless the last position of this
// one is the last of the ring. It passes over stretches without a position,
// between points which are at the same.
func (s *sweep) next() {
	for last := s.last; s.last == last; {
		s.step()
		s.last = s.position()
	}
}

// skip passes over unhealthy points, at which no stretch ends. With spares one does,
// since their order depends on the point at which a walk begins.
func (s *sweep) skip() {
	for s.spares == 0 && s.begin < s.points && s.owner(s.begin) == none {
		s.begin++
	}
}

// step goes on to the next point at which a stretch ends, or past the last one: from
// there on walks begin with the first.
func (s *sweep) step() {
	p := s.owner(s.begin)
	s.begin++
	s.skip()
	if p == none {
		return
	}
	if s.met[p]--; s.met[p] > 0 {
		s.reorder()
		return
	}
	s.distinct--
	if s.ordered {
		s.holders = append(s.holders[:0], s.holders[1:]...)
	}
	s.extend()
}

// extend moves the end on until enough placements are met.
func (s *sweep) extend() {
	for ; s.distinct < s.n; s.end++ {
		p := s.owner(s.end)
		if p == none {
			continue
		}
		if s.met[p]++; s.met[p] > 1 {
			continue
		}
		s.distinct++
		if s.ordered {
			s.holders = append(s.holders, p)
		}
	}
}

// reorder moves the first holder, which is met again before the end, behind those
// that are met before it.
//
// It looks at the points between two of one placement, which is a holder for all
// that time. So a point is looked at once for each holder at most. It stays ahead of
// the last holder, which is first met at the point before the end.
func (s *sweep) reorder() {
	if !s.ordered {
		return
	}
	h := s.holders
	first, behind := h[0], 0
	for i := s.begin; ; i++ {
		p := s.owner(i)
		if p == first {
			return
		}
		if p == h[behind+1] {
			h[behind], h[behind+1] = p, first
			behind++
		}
	}
}

// point returns which point the i-th to go over is, counting on past the last one.
func (s *sweep) point(i uint32) uint32 {
	if i >= s.points {
		i -= s.points
	}
	if s.sparse != nil {
		return s.sparse[i]
	}
	return i
}

// owner returns the placement of the i-th point to go over, or none if it is
// unhealthy.
func (s *sweep) owner(i uint32) uint32 {
	if p := s.ring.at(s.point(i)); s.healthy.has(p) {
		return p
	}
	return none
}

// position returns that of the point at which walks begin, or the last one of all
// past the last point.
func (s *sweep) position() uint64 {
	if s.begin >= s.points {
		return math.MaxUint64
	}
	point := s.point(s.begin)
	for s.ring.end(s.bucket) <= point {
		s.bucket++
	}
	return s.ring.unpack(s.bucket, s.ring.packed[point])
}

// spare returns the placements without points that are met, in their order.
func (s *sweep) spare() []uint32 {
	s.idlers = s.idlers[:0]
	from := s.begin % s.points // past the last point walks begin with the first
	for met := 0; len(s.idlers) < s.spares; {
		var p uint32
		p, met = s.idleFrom(from, met)
		s.idlers = append(s.idlers, p)
	}
	return s.idlers
}

// all returns the placements that are met, in their order, until the sweep goes on;
// the sweep is ordered.
func (s *sweep) all() []uint32 {
	if s.spares == 0 {
		return s.holders
	}
	return slices.Concat(s.holders, s.spare())
}

// holds reports whether a placement is met.
func (s *sweep) holds(p uint32) bool {
	return s.met[p] > 0 || s.spares > 0 && slices.Contains(s.spare(), p)
}

// holder returns the placement that is met first, or none; the sweep is ordered.
func (s *sweep) holder() uint32 {
	if met := s.all(); len(met) > 0 {
		return met[0]
	}
	return none
}

// together moves sweeps along side by side and yields each range in which none of
// them changes.
func together(yield func(Range) bool, sweeps ...*sweep) {
	first := uint64(0)
	for {
		last := uint64(math.MaxUint64)
		for _, s := range sweeps {
			last = min(last, s.last)
		}
		if !yield(Range{first, last}) || last == math.MaxUint64 {
			return
		}
		first = last + 1
		for _, s := range sweeps {
			if s.last == last {
				s.next()
			}
		}
	}
}
