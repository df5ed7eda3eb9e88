package chash

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// A Diff says how much of the key space has another backend in one state than in
// another. Where no backend is healthy, the backend counts as one with an empty name.
// Copies share Flows.
type Diff struct {
	// Moved is the share of the key space that moves, from 0 to 1. For data with
	// several copies, it is about the first copy.
	Moved float64 `json:"moved"`

	// Least is the least share that any scheme must move to give each backend as much
	// as it has after. It equals Moved on a ring where backends only come or only go.
	Least float64 `json:"least"`

	// Flows has what moves between each two backends, sorted by From and then by To.
	Flows []Flow `json:"flows"`
}

// A Flow is what moves from one backend to another.
type Flow struct {
	From  string  `json:"from"`  // a name, empty for nobody
	To    string  `json:"to"`    // likewise, and never the same
	Share float64 `json:"share"` // of the key space; never 0
}

// Diff compares the table with a next one: a Clone from before a change with the
// table, or the table with a Clone on which a change is tried. It compares names, not
// values. Every share is a number of slots divided by the table size. If the keys of
// a slot go to several backends, since its placement is not healthy, the slot counts
// for one of them: the package comment says which.
//
// The error is ErrIncomparable for nil, for different table sizes or seeds, and for
// different hash functions, which a few keys tell apart. It takes time for each slot.
func (m *Maglev[T]) Diff(next *Maglev[T]) (Diff, error) {
	if next == nil {
		return Diff{}, errNothingNext
	}
	before, names, _ := m.named()
	after, nextNames, _ := next.named()
	size := before.layout.Size()
	if n := after.layout.Size(); n != size {
		return Diff{}, fmt.Errorf("%w: table sizes %d and %d", ErrIncomparable, size, n)
	}
	if err := sameHash(&before.layout.Hash, &after.layout.Hash); err != nil {
		return Diff{}, err
	}
	a := newAccount(names, nextNames)
	if before.Live > 0 || after.Live > 0 {
		from, to := before.layout.Finder(&before.View), after.layout.Finder(&after.View)
		for slot := range size {
			a.move(from.PlacementOf(slot), to.PlacementOf(slot), count{lo: 1})
		}
	}
	return a.diff(count{lo: uint64(size)}), nil
}

var errNothingNext = fmt.Errorf("%w: there is no second one", ErrIncomparable)

// sameHash returns an error if two hashes are known to differ.
func sameHash(h, g *hashing.Hasher) error {
	switch {
	case (h.Fn == nil) != (g.Fn == nil):
		return fmt.Errorf("%w: only one has a hash function of the caller's", ErrIncomparable)
	case h.Seed != g.Seed:
		return fmt.Errorf("%w: seeds %d and %d", ErrIncomparable, h.Seed, g.Seed)
	case h.Fn == nil:
		return nil
	}
	for _, key := range hashing.TrialKeys {
		if a, b := h.Fn(key), g.Fn(key); a != b {
			return fmt.Errorf("%w: their hash functions give %#x and %#x for %q", ErrIncomparable, a, b, key)
		}
	}
	return nil
}

// named returns the current state and two names for each placement: that of the
// backend whose value lookups return, and that of its owner.
func (c *core[T, L]) named() (s *snapshot[T, L], answering, owning []string) {
	s = c.now()
	answering = make([]string, len(s.roster.placements))
	owning = make([]string, len(s.roster.placements))
	for p := range s.roster.placements {
		lead, _ := s.roster.leader(p)
		answering[p] = lead.Name
		owning[p] = s.roster.members[s.roster.owner(p)].Name
	}
	return s, answering, owning
}

// A numbering gives the names of two states numbers in their order, and the same
// number to the same name. Number 0 is nobody.
type numbering struct {
	names         []string
	before, after []uint32 // by placement
}

func newNumbering(before, after []string) numbering {
	names := slices.Concat([]string{""}, before, after)
	slices.Sort(names)
	names = slices.Compact(names)
	number := func(of []string) []uint32 {
		numbers := make([]uint32, len(of))
		for p, name := range of {
			at, _ := slices.BinarySearch(names, name)
			numbers[p] = uint32(at)
		}
		return numbers
	}
	return numbering{names, number(before), number(after)}
}

// An account counts what goes from name to name.
type account struct {
	numbering
	had   []count // by name
	has   []count
	flows map[uint64]count // by the numbers of two names
}

func newAccount(before, after []string) *account {
	n := newNumbering(before, after)
	return &account{n, make([]count, len(n.names)), make([]count, len(n.names)), make(map[uint64]count)}
}

// move enters a part of the key space with its placements before and after.
func (a *account) move(before, after uint32, n count) {
	var from, to uint32
	if before != probe.None {
		from = a.before[before]
	}
	if after != probe.None {
		to = a.after[after]
	}
	a.had[from] = a.had[from].plus(n)
	a.has[to] = a.has[to].plus(n)
	if from != to {
		flow := uint64(from)<<32 | uint64(to)
		a.flows[flow] = a.flows[flow].plus(n)
	}
}

// diff returns what was entered, as a part of the total.
func (a *account) diff(total count) Diff {
	var moved, least count
	for i := range a.names {
		least = least.plus(a.has[i].excess(a.had[i]))
	}
	flows := make([]Flow, 0, len(a.flows))
	for _, flow := range slices.Sorted(maps.Keys(a.flows)) {
		n := a.flows[flow]
		moved = moved.plus(n)
		flows = append(flows, Flow{a.names[flow>>32], a.names[uint32(flow)], n.share(total)})
	}
	return Diff{moved.share(total), least.share(total), flows}
}

// A count is an exact number of slots or positions, hi * 2^64 + lo. hi is 1 for all
// positions of a ring, else 0.
type count struct{ hi, lo uint64 }

// positions is how many a ring has.
var positions = count{hi: 1}

func (c count) plus(d count) count {
	lo, carry := bits.Add64(c.lo, d.lo, 0)
	return count{c.hi + d.hi + carry, lo}
}

// excess returns c - d, or 0 if that is negative.
func (c count) excess(d count) count {
	lo, borrow := bits.Sub64(c.lo, d.lo, 0)
	hi, borrow := bits.Sub64(c.hi, d.hi, borrow)
	if borrow != 0 {
		return count{}
	}
	return count{hi, lo}
}

// share returns c as a share of the total, rounded once.
func (c count) share(total count) float64 { return c.float() / total.float() }

func (c count) float() float64 { return float64(c.hi)*(1<<64) + float64(c.lo) }
