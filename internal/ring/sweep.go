package ring

import (
	"math"
	"slices"

	"github.com/chash-go/chash/internal/probe"
)

// A Sweep goes over a ring in the order of positions, one stretch after the other.
// All keys of a stretch meet the same placements. The walks of the keys up to a
// healthy point begin there, whatever unhealthy points are in between.
//
// It moves two points along: the point where the walks begin, and the point where
// they have met enough placements. So it takes time for each point and, if it is
// ordered, for each copy.
type Sweep struct {
	*Points
	probe.View
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

// Sweep returns a sweep at its first stretch. It meets n placements that are healthy
// in v, a view of r, or all if there are fewer.
func (r *Points) Sweep(v probe.View, n int, ordered bool) *Sweep {
	s := &Sweep{
		Points:  r,
		View:    v,
		n:       min(n, v.Live-v.Spare),
		last:    math.MaxUint64,
		ordered: ordered,
		points:  r.N,
		met:     make([]uint32, len(v.Healthy)),
	}
	if r.N == 0 || min(n, v.Live) <= 0 {
		return s
	}
	s.spares = min(n, v.Live) - s.n
	if v.Sparse != nil {
		s.points = uint32(len(v.Sparse))
	}
	s.skip()
	s.end = s.begin
	s.extend()
	s.last = s.until()
	return s
}

// Count returns the number of placements that a stretch meets.
func (s *Sweep) Count() int { return s.n + s.spares }

// Advance moves to the next stretch. The caller makes sure that the present stretch
// does not end at the last position. Advance skips empty stretches, between points at
// the same position.
func (s *Sweep) Advance() {
	for last := s.last; s.last == last; {
		s.stepOn()
		s.last = s.until()
	}
}

// skip skips unhealthy points, since no stretch ends there. If there are spares,
// stretches end there too: the order of the spares depends on the point where a walk
// begins.
func (s *Sweep) skip() {
	for s.spares == 0 && s.begin < s.points && s.healthyAt(s.begin) == probe.None {
		s.begin++
	}
}

// stepOn moves to the next point where a stretch ends, or past the last point. Past
// it, walks begin with the first point.
func (s *Sweep) stepOn() {
	p := s.healthyAt(s.begin)
	s.begin++
	s.skip()
	if p == probe.None {
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

// extend moves the end until enough placements are met.
func (s *Sweep) extend() {
	for ; s.distinct < s.n; s.end++ {
		p := s.healthyAt(s.end)
		if p == probe.None {
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

// reorder moves the first holder behind those that are met before it is met again.
//
// It looks at the points between two points of one placement, which is a holder all
// that time. So it looks at a point at most once for each holder. It ends before the
// last holder, which is first met at the point before the end.
func (s *Sweep) reorder() {
	if !s.ordered {
		return
	}
	h := s.holders
	first, behind := h[0], 0
	for i := s.begin; ; i++ {
		p := s.healthyAt(i)
		if p == first {
			return
		}
		if p == h[behind+1] {
			h[behind], h[behind+1] = p, first
			behind++
		}
	}
}

// number returns which point the i-th to go over is, counting on past the last one.
func (s *Sweep) number(i uint32) uint32 {
	if i >= s.points {
		i -= s.points
	}
	if s.Sparse != nil {
		return s.Sparse[i]
	}
	return i
}

// healthyAt returns the placement of the i-th point to go over, or None if it is
// unhealthy.
func (s *Sweep) healthyAt(i uint32) uint32 {
	if p := s.Points.At(s.number(i)); s.Healthy.Has(p) {
		return p
	}
	return probe.None
}

// until returns the position of the point at which walks begin, or the last one of all
// past the last point.
func (s *Sweep) until() uint64 {
	if s.begin >= s.points {
		return math.MaxUint64
	}
	point := s.number(s.begin)
	for s.Points.end(s.bucket) <= point {
		s.bucket++
	}
	return s.Points.unpack(s.bucket, s.Points.Packed[point])
}

// spare returns the placements without points that are met, in their order.
func (s *Sweep) spare() []uint32 {
	s.idlers = s.idlers[:0]
	from := s.begin % s.points // past the last point walks begin with the first
	for met := 0; len(s.idlers) < s.spares; {
		var p uint32
		p, met = s.IdleFrom(from, met)
		s.idlers = append(s.idlers, p)
	}
	return s.idlers
}

// Met returns the placements that are met, in their order, until the sweep goes on;
// the sweep is ordered.
func (s *Sweep) Met() []uint32 {
	if s.spares == 0 {
		return s.holders
	}
	return slices.Concat(s.holders, s.spare())
}

// Meets reports whether a placement is met.
func (s *Sweep) Meets(p uint32) bool {
	return s.met[p] > 0 || s.spares > 0 && slices.Contains(s.spare(), p)
}

// First returns the placement that is met first, or None; the sweep is ordered.
func (s *Sweep) First() uint32 {
	if met := s.Met(); len(met) > 0 {
		return met[0]
	}
	return probe.None
}

// Together moves sweeps along side by side and yields the first and the last position of
// each range in which none of them changes.
func Together(yield func(first, last uint64) bool, sweeps ...*Sweep) {
	first := uint64(0)
	for {
		last := uint64(math.MaxUint64)
		for _, s := range sweeps {
			last = min(last, s.last)
		}
		if !yield(first, last) || last == math.MaxUint64 {
			return
		}
		first = last + 1
		for _, s := range sweeps {
			if s.last == last {
				s.Advance()
			}
		}
	}
}
