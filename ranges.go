package chash

import (
	"fmt"
	"iter"
	"slices"

	"github.com/chash-go/chash/internal/probe"
	"github.com/chash-go/chash/internal/ring"
)

// A Range is the positions from First to Last, both included. First is not above
// Last: a range that would pass position 2^64-1 is two ranges.
type Range struct {
	First uint64 `json:"first,string"`
	Last  uint64 `json:"last,string"`
}

// Contains reports whether the position of Position, or a hash for GetHash, is in the
// range. A store may sort its keys by position.
func (r Range) Contains(position uint64) bool {
	return r.First <= position && position <= r.Last
}

// Share returns the share of the ring, above 0 and up to 1.
func (r Range) Share() float64 { return r.size().share(positions) }

func (r Range) size() count {
	if n := r.Last - r.First + 1; n > 0 {
		return count{lo: n}
	}
	return positions
}

// String returns the range in hexadecimal, as a closed interval.
func (r Range) String() string { return fmt.Sprintf("[%#016x, %#016x]", r.First, r.Last) }

// Position returns the position of a key: the first 64 bits, big-endian, of the
// SHA-256 of the seed, if any, and the key; or the hash of WithHash. It does not
// depend on the backends and allocates nothing. The key belongs to the owner of its
// position. There is one exception: if a point has exactly that position, the other
// bits of SHA-256 may give the key to the next point. With n points, that happens to
// fewer than n of 2^64 keys.
func (r *Ring[T]) Position(key string) uint64 {
	return r.now().layout.PositionOf(key)
}

// Ranges returns the ranges of which the backend holds one of n copies, in order. No
// two of them adjoin. With an n of 1 these are the ranges that it owns, as Owner
// says. Health does not count: data stay on a backend that is down. While all
// backends are healthy, the holders of a key are those of GetN. To see where the keys
// of a backend would go, make it Draining on a Clone.
//
// There are no ranges for an n of 0 or below, and for a backend that is not there, is
// Draining, or shares its placement with one that outranks it. The sequence can be
// used again. Each use sees one state and takes time for each backend and each point.
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

// Holders returns the whole ring as ranges, in order, each with the names of its n
// holders, or of all backends if there are fewer: those of Owners, in that order.
// Successive ranges have different names. Health does not count. For an n of 0 or
// below, and without a placed backend, there is nothing. The sequence can be used
// again. Each use sees one state and takes time for each backend, point and copy. The
// slices are the caller's.
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
// requests, so that health counts. Its Changes are about data, whatever the health.
// If backends only come, data move only to those. If backends only go, data move only
// from those. A RingDiff keeps both states in memory. To move data without a loss:
//
//   - Make the change on a Clone of the ring, and Diff the ring with the Clone.
//   - For each Change, let each backend of Added fetch the range from one of Before.
//   - Make the same change on the ring with the same call, and no other change in
//     between. Do not Set the Backends of the Clone: that would undo what health
//     checks have found since.
//   - For each Change, let each backend of Removed delete the range.
//   - Meanwhile, send every write to the holders before and after: see the example of
//     Changes.
type RingDiff struct {
	Diff
	before, after *ringState // whatever the health
}

// Diff compares the ring with a next one: a Clone from before a change with the ring,
// or the ring with a Clone on which a change is tried. It compares names, not values.
// Every share is a number of positions divided by 2^64.
//
// The error is ErrIncomparable for nil, for different seeds, and for different hash
// functions, which a few keys tell apart. The numbers of replicas may differ. It
// takes time for each backend and each point.
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

// A Change is a range whose holders change.
type Change struct {
	Range
	Before []string `json:"before"` // names, as Holders has them; empty if there was no backend
	After  []string `json:"after"`  // likewise; never the same as Before
}

// Added returns the names in After that are not in Before: the backends that must
// fetch the range; nil if there are none.
func (c Change) Added() []string { return without(c.After, c.Before) }

// Removed returns the names in Before that are not in After: the backends that may
// delete the range later; nil if there are none.
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

// Changes returns the ranges whose n holders change, in order. A change of the order
// of the holders counts, since it changes the Owner. Two adjoining ranges have
// different names before or after. For an n of 0 or below there is nothing. Health
// does not count: a backend in Before may be down. Each use takes time for each point
// of both rings and each copy. The slices are the caller's.
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
