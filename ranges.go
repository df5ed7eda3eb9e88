package chash

import (
	"fmt"
	"iter"
	"slices"

	"github.com/chash-go/chash/internal/probe"
	"github.com/chash-go/chash/internal/ring"
)

// A Range is the positions of a ring from First to Last, both included. First is
// not above Last, so that a stretch of the ring that goes on past position 2^64-1
// is two ranges. The zero value is position 0 alone; the whole ring has a Last of
// math.MaxUint64. A Range may be copied and compared with ==.
type Range struct {
	First uint64 `json:"first,string"`
	Last  uint64 `json:"last,string"`
}

// Contains reports whether a position, of Position or given to GetHash, is in the
// range. A store that keeps its keys sorted by Position reads a range without a look
// at the others; positions do not depend on the backends.
func (r Range) Contains(position uint64) bool {
	return r.First <= position && position <= r.Last
}

// Share returns the share of the ring that the range is, above 0 and up to 1,
// rounded once. The number of its positions is Last - First + 1, which for the
// whole ring does not fit 64 bits.
func (r Range) Share() float64 { return r.size().share(positions) }

func (r Range) size() count {
	if n := r.Last - r.First + 1; n > 0 {
		return count{lo: n}
	}
	return positions
}

// String returns the range in hexadecimal and in the notation for closed
// intervals.
func (r Range) String() string { return fmt.Sprintf("[%#016x, %#016x]", r.First, r.Last) }

// Position returns where a key lies on the ring, whatever its backends are: at the
// first 64 bits, big-endian, of the SHA-256 of the seed, if there is one, and the
// key, or at its hash by the function of WithHash. It allocates nothing.
//
// The key belongs to whoever the position does. The one exception are keys whose
// position is exactly that of a point, which without WithHash the rest of the
// SHA-256 may send on to the next point: of n points, that is expected of fewer
// than n keys in 2^64.
func (r *Ring[T]) Position(key string) uint64 {
	return r.now().layout.PositionOf(key)
}

// Ranges returns the ranges of which the backend of that name holds one of the n
// copies, in order and apart from each other. With an n of 1 these are the ranges
// that the backend owns, as Owner says; each position is in the range of one backend.
//
// Health does not count: data stay with a backend that is down. While all are
// healthy, the holders of a key are those that GetN returns. To see where the keys
// of those that are down would go, make them Draining on a Clone.
//
// A backend has no range if it is not there, if it is draining or if it shares its
// placement with a backend that outranks it. For an n of 0 or below nobody has one.
//
// The sequence can be used again; each use sees the state of its beginning. It
// then takes time for each backend and each point.
func (r *Ring[T]) Ranges(name string, n int) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		_, state := r.states()
		p := slices.Index(state.names, name)
		if p < 0 || n <= 0 {
			return
		}
		s := state.sweep(n, false)
		held := func(yield func(Range, []uint32) bool) {
			ring.Together(func(first, last uint64) bool { return !s.Meets(uint32(p)) || yield(Range{first, last}, nil) }, s)
		}
		for r := range joined(held) {
			if !yield(r) {
				return
			}
		}
	}
}

// Holders returns the whole ring as ranges, in order, each with the names of the
// backends that hold its n copies: of all backends where there are fewer. The names
// are those of Owners, in that order. Ranges that follow each other have other names.
// Health does not count; see Ranges. There is
// nothing for an n of 0 or below, nor without a backend that is not draining.
//
// The sequence can be used again; each use sees the state of its beginning. It
// then takes time for each backend, and for each point and copy. The slices are the caller's.
func (r *Ring[T]) Holders(n int) iter.Seq2[Range, []string] {
	return func(yield func(Range, []string) bool) {
		_, state := r.states()
		if state.view.Live == 0 || n <= 0 {
			return
		}
		s := state.sweep(n, true)
		held := func(yield func(Range, []uint32) bool) {
			ring.Together(func(first, last uint64) bool { return yield(Range{first, last}, s.Met()) }, s)
		}
		for r, holders := range joined(held) {
			if !yield(r, list(state.names, holders)) {
				return
			}
		}
	}
}

// A ringState is one state of a ring with the names of its backends, immutable.
type ringState struct {
	*points
	view  probe.View // of those that count as healthy
	names []string   // by placement
}

// states returns the state as lookups see it, and that in which all are healthy.
func (r *Ring[T]) states() (lookups, holders *ringState) {
	s, answering, owning := r.named()
	return &ringState{s.layout, s.View, answering}, &ringState{s.layout, probe.AllHealthy(s.Owners), owning}
}

// sweep returns a sweep over the state at its first stretch.
func (s *ringState) sweep(n int, ordered bool) *ring.Sweep { return s.Sweep(s.view, n, ordered) }

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

// A RingDiff is the difference between two states of a ring. Its Diff is about
// requests: it compares what Get returns, so that health counts. Its Changes are
// about data: they compare who holds what, whatever the health. If backends only
// come, data move only to those that come; if they only go, only from those that go.
//
// To move data without losing any:
//
//   - Make the change on a Clone of the ring, and Diff the ring with the Clone.
//   - For each of the Changes, have those that Added names fetch the range from one
//     of Before.
//   - Make the same change on the ring by the same call, with no other change of the
//     membership in between. Do not use Set with the Backends of the Clone: that
//     would undo what health checks have found since.
//   - For each of the Changes, have those that Removed names delete the range.
//
// Whatever is written meanwhile, the caller must send to the holders before and
// after. The example of Changes shows all of this.
//
// The zero value is that of two states which do not differ. A RingDiff may be
// copied; it is safe for concurrent use by multiple goroutines that do not write
// to its Flows. It keeps both states in memory.
type RingDiff struct {
	Diff
	before, after *ringState // whatever the health
}

// Diff compares the state of the ring with that of another one, say a Clone from
// before a change with the ring after it, or the ring with a Clone on which the
// change is tried out. It sees names, not values. Every share is an exact number of
// positions, divided by 2^64 and rounded once.
//
// The error is ErrIncomparable for different seeds, if one of the two has a hash
// function of the caller's and the other has not, or if they have such functions
// and these differ in any of a few keys, and for nil. The numbers of replicas may
// differ. It takes time for each backend and each point.
func (r *Ring[T]) Diff(next *Ring[T]) (RingDiff, error) {
	if next == nil {
		return RingDiff{}, errNothingNext
	}
	before, holdersBefore := r.states()
	after, holdersAfter := next.states()
	if err := before.points.agrees(after.points); err != nil {
		return RingDiff{}, err
	}
	a := newAccount(before.names, after.names)
	from, to := before.sweep(1, true), after.sweep(1, true)
	ring.Together(func(first, last uint64) bool {
		a.move(from.First(), to.First(), Range{first, last}.size())
		return true
	}, from, to)
	return RingDiff{a.diff(positions), holdersBefore, holdersAfter}, nil
}

// agrees returns an error if s is known to place keys differently.
func (r *points) agrees(s *points) error {
	if a, b := r.Digests.Seed, s.Digests.Seed; a != b {
		return fmt.Errorf("%w: seeds %d and %d", ErrIncomparable, a, b)
	}
	return sameHash(&r.Hash, &s.Hash)
}

// A Change is a range with other holders after a change of the ring than before.
type Change struct {
	Range
	Before []string `json:"before"` // names, as Holders has them; empty if there was no backend
	After  []string `json:"after"`  // likewise; never the same as Before
}

// Added returns the names in After that are not in Before, in that order: of those
// that have to fetch the range from one of Before. It returns nil if there are none,
// as where only the order changes.
func (c Change) Added() []string { return without(c.After, c.Before) }

// Removed returns the names in Before that are not in After, in that order: of those
// that may delete the range once the others have it. It returns nil if there are
// none.
func (c Change) Removed() []string { return without(c.Before, c.After) }

// without returns the names that are not among others, or nil.
func without(names, others []string) (rest []string) {
	for _, name := range names {
		if !slices.Contains(others, name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// String returns the range and the names before and after.
func (c Change) String() string { return fmt.Sprintf("%v from %q to %q", c.Range, c.Before, c.After) }

// Changes returns the ranges of which the holders of n copies change, in order, with
// the names of the holders before and after. A range is there too if only the order
// of its holders changes, since its keys then have another Owner. Ranges that adjoin
// and have the same names before and after are one. For an n of 0 or below there is
// nothing.
//
// Health does not count; see Ranges. So a name in Before may be that of an Unhealthy
// backend, from which nothing can be fetched.
//
// It takes time for each point of both rings and each copy whenever it is used, and
// no lock. The slices are the caller's.
func (d RingDiff) Changes(n int) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if d.before == nil || n <= 0 {
			return
		}
		numbers := newNumbering(d.before.names, d.after.names)
		before, after := d.before.sweep(n, true), d.after.sweep(n, true)
		split := before.Count()
		holders := make([]uint32, split+after.Count())
		had, has := holders[:split], holders[split:]
		changed := func(yield func(Range, []uint32) bool) {
			ring.Together(func(first, last uint64) bool {
				for i, p := range before.Met() {
					had[i] = numbers.before[p]
				}
				for i, p := range after.Met() {
					has[i] = numbers.after[p]
				}
				return slices.Equal(had, has) || yield(Range{first, last}, holders)
			}, before, after)
		}
		for r, holders := range joined(changed) {
			had, has := list(numbers.names, holders[:split]), list(numbers.names, holders[split:])
			if !yield(Change{r, had, has}) {
				return
			}
		}
	}
}

// list returns the names of those numbers.
func list(names []string, numbers []uint32) []string {
	listed := make([]string, len(numbers))
	for i, n := range numbers {
		listed[i] = names[n]
	}
	return listed
}
