package chash

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"math/bits"
	"slices"
)

// A Diff says how much of the key space two states of a structure give to
// different backends. Nobody, where no backend is healthy, counts as one more
// backend, whose name is empty.
//
// The zero value is that of two states which do not differ. A Diff may be copied,
// but its copies share Flows; it is safe for concurrent use by multiple goroutines
// that do not write to it.
type Diff struct {
	// Moved is the share of the key space that changes its backend, from 0 to 1; of
	// data with several copies, what changes the first one's.
	Moved float64 `json:"moved"`

	// Least is the least share that any scheme would have moved, given how much each
	// backend has before and after: what the growing ones gain together. On
	// a ring of which backends only come, or only go, it is equal to Moved.
	Least float64 `json:"least"`

	// Flows has what moves, for each pair of backends between which anything
	// does, sorted by From and then by To.
	Flows []Flow `json:"flows"`
}

// A Flow is what one backend loses to another.
type Flow struct {
	From  string  `json:"from"`  // a name, empty for nobody
	To    string  `json:"to"`    // likewise, and never the same
	Count Count   `json:"count"` // slots of a table, positions on a ring; never 0
	Share float64 `json:"share"` // the same as a share of the key space
}

// A Count is an exact number of slots or of positions on a ring: Hi * 2^64 + Lo.
// Hi is 1 for all 2^64 positions of a ring, with a Lo of 0, and 0 for everything
// else. The zero value is 0; a Count may be copied and compared with ==.
type Count struct{ Hi, Lo uint64 }

// String returns the number in decimal.
func (c Count) String() string {
	n := new(big.Int).SetUint64(c.Hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(c.Lo)).String()
}

// MarshalText returns the number in decimal, which is how it appears in JSON.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes. Any other text is ErrCorrupt.
func (c *Count) UnmarshalText(text []byte) error {
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return fmt.Errorf("%w: %q is not a count", ErrCorrupt, text)
	}
	hi := new(big.Int).Rsh(n, 64)
	lo := n.Sub(n, new(big.Int).Lsh(hi, 64))
	*c = Count{hi.Uint64(), lo.Uint64()}
	return nil
}

func (c Count) add(d Count) Count {
	lo, carry := bits.Add64(c.Lo, d.Lo, 0)
	return Count{c.Hi + d.Hi + carry, lo}
}

// excess returns c - d, or 0 if that is negative.
func (c Count) excess(d Count) Count {
	lo, borrow := bits.Sub64(c.Lo, d.Lo, 0)
	hi, borrow := bits.Sub64(c.Hi, d.Hi, borrow)
	if borrow != 0 {
		return Count{}
	}
	return Count{hi, lo}
}

// share returns c as a share of the total, rounded once.
func (c Count) share(total Count) float64 { return c.float() / total.float() }

func (c Count) float() float64 { return float64(c.Hi)*(1<<64) + float64(c.Lo) }

// Diff compares the state of the table with that of another one, say a Clone from
// before a change with the table after it, or the table with a Clone on which the
// change is tried out. It sees names, not values.
//
// It counts slots. One whose placement is healthy counts for the backend to which
// all its keys lead. The keys of any other spread over the healthy backends, and
// the slot counts for the one to which the hash slot + m*q leads: q is the high
// word of the product of floor((2^64-1)/m) and the first output of SplitMix64
// seeded with the slot, so that over all slots these hashes are spread like those
// of keys; m is the table size.
//
// The error is ErrIncomparable for different table sizes or seeds, if one of the
// two has a hash function of the caller's and the other has not, or if they have
// such functions and these differ in any of a few keys, and for nil. It takes time
// for each slot, and the read lock of each table only while it copies its names.
func (m *Maglev[T]) Diff(next *Maglev[T]) (Diff, error) {
	if next == nil {
		return Diff{}, errNothingNext
	}
	before, names := m.named()
	after, nextNames := next.named()
	size := before.layout.slots.n
	if n := after.layout.slots.n; n != size {
		return Diff{}, fmt.Errorf("%w: table sizes %d and %d", ErrIncomparable, size, n)
	}
	if err := before.layout.hash.agrees(&after.layout.hash); err != nil {
		return Diff{}, err
	}
	a, from, to := newAccount(names, nextNames)
	if before.live > 0 || after.live > 0 {
		for slot := range size {
			a.move(from.of(slotOwner(before, slot)), to.of(slotOwner(after, slot)), Count{Lo: 1})
		}
	}
	return a.diff(Count{Lo: uint64(size)}), nil
}

// slotOwner returns the healthy placement that a slot counts for, or none.
func slotOwner[T any](s *snapshot[T, *table], slot uint32) uint32 {
	if p := s.layout.at(slot); s.healthy.has(p) {
		return p
	}
	if s.live == 0 { // which the walk would find out in time of the table size
		return none
	}
	w := s.layout.walkOf(s.layout.sample(slot))
	p, _ := w.next(&s.view)
	return p
}

// sample returns a hash that leads to a slot. It is below 2^64: the quotient is
// below floor((2^64-1)/n), and the slot below n.
func (t *table) sample(slot uint32) uint64 {
	quotient, _ := bits.Mul64(mix(uint64(slot)+scatter), t.slots.reciprocal)
	return uint64(slot) + quotient*uint64(t.slots.n)
}

var errNothingNext = fmt.Errorf("%w: there is no second one", ErrIncomparable)

// agrees returns an error if g is known to differ from h.
func (h *hasher) agrees(g *hasher) error {
	switch {
	case (h.fn == nil) != (g.fn == nil):
		return fmt.Errorf("%w: only one has a hash function of the caller's", ErrIncomparable)
	case h.seed != g.seed:
		return fmt.Errorf("%w: seeds %d and %d", ErrIncomparable, h.seed, g.seed)
	case h.fn == nil:
		return nil
	}
	for _, key := range trialKeys {
		if a, b := h.fn(key), g.fn(key); a != b {
			return fmt.Errorf("%w: their hash functions give %#x and %#x for %q", ErrIncomparable, a, b, key)
		}
	}
	return nil
}

// named returns the current state and, by placement, the name of the backend
// whose value lookups return.
func (c *core[T, L]) named() (*snapshot[T, L], []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := make([]string, len(c.roster.placements))
	for p := range names {
		lead, _ := c.roster.lead(p)
		names[p] = c.roster.members[lead].Name
	}
	return c.current.Load(), names
}

// An account counts what goes from name to name. Names go by number, in their
// order; number 0 is nobody.
type account struct {
	names  []string
	before []Count // by name: how much it has
	after  []Count
	flows  map[[2]uint32]Count
}

// A numbering has the number of each placement's name.
type numbering []uint32

func (n numbering) of(placement uint32) uint32 {
	if placement == none {
		return 0
	}
	return n[placement]
}

// newAccount returns an empty account and the numbers of the names by placement,
// before and after.
func newAccount(before, after []string) (a *account, from, to numbering) {
	names := slices.Concat([]string{""}, before, after)
	slices.Sort(names)
	names = slices.Compact(names)
	number := func(of []string) numbering {
		numbers := make(numbering, len(of))
		for p, name := range of {
			at, _ := slices.BinarySearch(names, name)
			numbers[p] = uint32(at)
		}
		return numbers
	}
	a = &account{
		names:  names,
		before: make([]Count, len(names)),
		after:  make([]Count, len(names)),
		flows:  make(map[[2]uint32]Count),
	}
	return a, number(before), number(after)
}

// move enters a part of the key space.
func (a *account) move(from, to uint32, n Count) {
	a.before[from] = a.before[from].add(n)
	a.after[to] = a.after[to].add(n)
	if from != to {
		pair := [2]uint32{from, to}
		a.flows[pair] = a.flows[pair].add(n)
	}
}

// diff returns what was entered, as a part of the total.
func (a *account) diff(total Count) Diff {
	var moved, least Count
	for i := range a.names {
		least = least.add(a.after[i].excess(a.before[i]))
	}
	flows := make([]Flow, 0, len(a.flows))
	for _, pair := range slices.SortedFunc(maps.Keys(a.flows), comparePairs) {
		n := a.flows[pair]
		moved = moved.add(n)
		flows = append(flows, Flow{a.names[pair[0]], a.names[pair[1]], n, n.share(total)})
	}
	return Diff{moved.share(total), least.share(total), flows}
}

func comparePairs(a, b [2]uint32) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}
