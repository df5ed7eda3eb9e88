package chash

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// A Range is the positions of a ring from Start on and below End, where an End of
// 0 stands for 2^64. Start is below End, so that a stretch of the ring that goes
// on past position 2^64-1 is two ranges. The zero value is the whole ring; a Range
// may be copied and compared with ==.
type Range struct {
	Start uint64 `json:"start,string"`
	End   uint64 `json:"end,string"`
}

// Contains reports whether a position, of Position or given to GetHash, is in the
// range. A store that keeps its keys sorted by Position reads a range without a look
// at the others; positions do not depend on the backends.
func (r Range) Contains(position uint64) bool {
	return r.Start <= position && position <= r.End-1
}

// Size returns the number of positions in the range.
func (r Range) Size() Count {
	if r == (Range{}) {
		return Count{Hi: 1}
	}
	return Count{Lo: r.End - r.Start}
}

// String returns the range in hexadecimal and in the notation for half-open
// intervals.
func (r Range) String() string {
	if r.End == 0 {
		return fmt.Sprintf("[%#016x, 0x10000000000000000)", r.Start)
	}
	return fmt.Sprintf("[%#016x, %#016x)", r.Start, r.End)
}

// A Move is a range that goes from one backend to another. An empty name is
// nobody: there is no healthy backend on that side. From and To are never the
// same.
type Move struct {
	Range
	From string `json:"from"`
	To   string `json:"to"`
}

// String returns the range and both names.
func (m Move) String() string { return fmt.Sprintf("%v from %q to %q", m.Range, m.From, m.To) }

// Position returns where a key lies on the ring, whatever its backends are: at the
// first 64 bits, big-endian, of the SHA-256 of the seed, if there is one, and the
// key, or at its hash by the function of WithHash. It allocates nothing.
//
// The key belongs to whoever the position does. The one exception are keys whose
// position is exactly that of a point, which without WithHash the rest of the
// SHA-256 may send on to the next point: of n points, that is expected of fewer
// than n keys in 2^64.
func (r *Ring[T]) Position(key string) uint64 {
	return r.current.Load().layout.position(key)
}

// Ranges returns the ranges of the positions whose keys lead to the backend of
// that name, those that the backend has instead of unhealthy ones included: a
// lookup of a position, by GetHash, returns its value exactly within them. They
// are in order and apart from each other. Each position is in a range of exactly
// one backend while any is healthy. A backend that is not there, that is not healthy or
// that shares its placement with a healthy one which outranks it has none.
//
// The sequence can be used again; each use sees the state of its beginning. It
// then takes the read lock while it copies the names, and time for each point.
func (r *Ring[T]) Ranges(name string) iter.Seq[Range] { return r.RangesN(name, 1) }

// RangesN is Ranges for data of which each key has n copies, on the backends that
// GetN returns: the ranges of which the backend holds one of the copies. For an n
// of 0 or below there are none.
func (r *Ring[T]) RangesN(name string, n int) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		state := r.state()
		p := state.find(name)
		if p == none || n <= 0 {
			return
		}
		s := state.sweep(n, false)
		held := func(yield func(Range, []uint32) bool) {
			together(func(r Range) bool { return !s.holds(p) || yield(r, nil) }, s)
		}
		for r := range joined(held) {
			if !yield(r) {
				return
			}
		}
	}
}

// Holders returns all ranges in order, each with the names of the backends that
// hold the n copies of its keys, in the order of GetN: fewer where there are fewer.
// Names that follow each other differ. Without a healthy backend, and for an n of
// 0 or below, there is nothing.
//
// The sequence can be used again; each use sees the state of its beginning. It
// then takes the read lock while it copies the names, and time for each point and
// copy. The slices are the caller's.
func (r *Ring[T]) Holders(n int) iter.Seq2[Range, []string] {
	return func(yield func(Range, []string) bool) {
		state := r.state()
		if state.live == 0 || n <= 0 {
			return
		}
		s := state.sweep(n, true)
		held := func(yield func(Range, []uint32) bool) {
			together(func(r Range) bool { return yield(r, s.holders) }, s)
		}
		for r, holders := range joined(held) {
			if !yield(r, state.list(holders)) {
				return
			}
		}
	}
}

// A RingDiff is the Diff of two states of a ring and the ranges that make it up.
// Of a ring whose only change is that backends come, or only that they go, no
// range moves but to those that come, or from those that go.
//
// To move data without losing any, make the change on a Clone of the ring and Diff
// the ring with it; have each backend fetch what Gains names for it; make the same
// change on the ring, by the same call and with no other change of the membership in
// between; then have each backend delete what Losses names. (Not by Set with the
// Backends of the Clone: that would undo what health checks have found since.) Whatever
// is written meanwhile the caller must send to the old and to the new holders. The
// example of Gains shows it.
//
// States count. An Unhealthy backend holds nothing here, and others stand in for it,
// whether they have its data or not. Where data stay with a backend that is down, make
// it Healthy in both, which are then Clones, and leave it out where Gains names it.
//
// The zero value is that of two states which do not differ. A RingDiff may be
// copied; it is safe for concurrent use by multiple goroutines that do not write
// to its Flows. It keeps both states in memory.
type RingDiff struct {
	Diff
	before, after *ringState
}

// Diff compares the state of the ring with that of another one, say a Clone from
// before a change with the ring after it, or the ring with a Clone on which the
// change is tried out. It sees names, not values. Counts are of positions, of
// which there are 2^64.
//
// The error is ErrIncomparable for different seeds, if one of the two has a hash
// function of the caller's and the other has not, or if they have such functions
// and these differ in any of a few keys, and for nil. The numbers of replicas may
// differ. It takes time for each point, and the read lock of each ring only while it copies
// its names.
func (r *Ring[T]) Diff(next *Ring[T]) (RingDiff, error) {
	if next == nil {
		return RingDiff{}, errNothingNext
	}
	d := RingDiff{before: r.state(), after: next.state()}
	if err := d.before.ring.agrees(d.after.ring); err != nil {
		return RingDiff{}, err
	}
	a, from, to := newAccount(d.before.names, d.after.names)
	before, after := d.before.sweep(1, true), d.after.sweep(1, true)
	together(func(r Range) bool {
		a.move(from.of(before.holder()), to.of(after.holder()), r.Size())
		return true
	}, before, after)
	d.Diff = a.diff(Count{Hi: 1})
	return d, nil
}

// agrees returns an error if s is known to place keys differently.
func (r *ring) agrees(s *ring) error {
	if a, b := r.digests.seed, s.digests.seed; a != b {
		return fmt.Errorf("%w: seeds %d and %d", ErrIncomparable, a, b)
	}
	return r.hash.agrees(&s.hash)
}

// Moves returns the ranges whose backend changes, in order, with its name before
// and after. Ranges that adjoin and go the same way are one. It takes time for
// each point of both rings whenever it is used, and no lock.
func (d RingDiff) Moves() iter.Seq[Move] {
	return func(yield func(Move) bool) {
		if d.before == nil {
			return
		}
		before, after := d.before.sweep(1, true), d.after.sweep(1, true)
		sides := make([]uint32, 2)
		moved := func(yield func(Range, []uint32) bool) {
			together(func(r Range) bool {
				sides[0], sides[1] = before.holder(), after.holder()
				return d.before.name(sides[0]) == d.after.name(sides[1]) || yield(r, sides)
			}, before, after)
		}
		for r, sides := range joined(moved) {
			if !yield(Move{r, d.before.name(sides[0]), d.after.name(sides[1])}) {
				return
			}
		}
	}
}

// Gains returns, for data of which each key has n copies, the ranges of which the
// backend holds a copy after the change and did not before, in order, each with
// the names of those who held the copies before, in the order of GetN: where to
// get the data from. There are no names where no backend was healthy, and no ranges
// for a backend that is not healthy after the change or not there. Ranges that
// adjoin and have the same names are one. The slices are the caller's.
//
// For an n of 0 or below there is nothing. It takes time for each point of both
// rings and each copy whenever it is used, and no lock.
func (d RingDiff) Gains(name string, n int) iter.Seq2[Range, []string] {
	return exchange(d.after, d.before, name, n)
}

// Losses is the counterpart of Gains: the ranges of which the backend held a copy
// before the change and does not after it, each with the names of those who hold
// the copies now. Once they have the data, the backend may delete its own.
func (d RingDiff) Losses(name string, n int) iter.Seq2[Range, []string] {
	return exchange(d.before, d.after, name, n)
}

// exchange returns the ranges of which a backend holds a copy in one state and not
// in the other, with the holders in that.
func exchange(in, notIn *ringState, name string, n int) iter.Seq2[Range, []string] {
	return func(yield func(Range, []string) bool) {
		if in == nil || n <= 0 {
			return
		}
		p, q := in.find(name), notIn.find(name)
		if p == none {
			return
		}
		with, without := in.sweep(n, false), notIn.sweep(n, true)
		changed := func(yield func(Range, []uint32) bool) {
			together(func(r Range) bool {
				return !with.holds(p) || without.holds(q) || yield(r, without.holders)
			}, with, without)
		}
		for r, holders := range joined(changed) {
			if !yield(r, notIn.list(holders)) {
				return
			}
		}
	}
}

// A ringState is one state of a ring with the names of its backends, immutable.
type ringState struct {
	*ring
	view
	names []string // by placement
}

func (r *Ring[T]) state() *ringState {
	s, names := r.named()
	return &ringState{s.layout, s.view, names}
}

// find returns the placement of which a name would be the holder, or none.
func (s *ringState) find(name string) uint32 {
	if p := slices.Index(s.names, name); p >= 0 {
		return uint32(p)
	}
	return none
}

func (s *ringState) name(placement uint32) string {
	if placement == none {
		return ""
	}
	return s.names[placement]
}

func (s *ringState) list(placements []uint32) []string {
	names := make([]string, len(placements))
	for i, p := range placements {
		names[i] = s.names[p]
	}
	return names
}

// joined returns ranges, which are in order, such that those which adjoin and go
// with the same numbers are one. The numbers that it yields are overwritten.
func joined(ranges iter.Seq2[Range, []uint32]) iter.Seq2[Range, []uint32] {
	return func(yield func(Range, []uint32) bool) {
		var last Range
		var with []uint32
		found := false
		for r, numbers := range ranges {
			if found && r.Start == last.End && slices.Equal(numbers, with) {
				last.End = r.End
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
	n       int    // healthy placements to be met, at most all
	last    uint64 // the last position of the stretch
	ordered bool   // whether holders are wanted

	points     uint32   // to go over: the healthy ones if they are indexed, else all
	begin, end uint32   // of the walk; end counts on past the last point
	bucket     uint64   // of point begin
	met        []uint32 // by placement, how often between begin and end
	distinct   int      // how many of them were met
	holders    []uint32 // those, in the order in which they were
}

// sweep returns a sweep at its first stretch.
func (s *ringState) sweep(n int, ordered bool) *sweep {
	w := &sweep{
		ringState: s,
		n:         min(n, s.live),
		last:      math.MaxUint64,
		ordered:   ordered,
		points:    s.ring.n,
		met:       make([]uint32, len(s.names)),
	}
	if s.live == 0 {
		return w
	}
	if s.sparse != nil {
		w.points = uint32(len(s.sparse))
	}
	for w.owner(w.begin) == none {
		w.begin++
	}
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

// step goes on to the next healthy point, or past the last one: from there on
// walks begin with the first.
func (s *sweep) step() {
	p := s.owner(s.begin)
	s.begin++
	for s.begin < s.points && s.owner(s.begin) == none {
		s.begin++
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
// that time. So a point is looked at once for each holder at most.
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
		if behind+1 < len(h) && p == h[behind+1] {
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

// holds reports whether a placement, or none, is met.
func (s *sweep) holds(p uint32) bool { return p != none && s.met[p] > 0 }

// holder returns the placement that is met first, or none; the sweep is ordered.
func (s *sweep) holder() uint32 {
	if len(s.holders) == 0 {
		return none
	}
	return s.holders[0]
}

// together moves sweeps along side by side and yields each range in which none of
// them changes.
func together(yield func(Range) bool, sweeps ...*sweep) {
	start := uint64(0)
	for {
		last := uint64(math.MaxUint64)
		for _, s := range sweeps {
			last = min(last, s.last)
		}
		if !yield(Range{start, last + 1}) || last == math.MaxUint64 {
			return
		}
		start = last + 1
		for _, s := range sweeps {
			if s.last == last {
				s.next()
			}
		}
	}
}
