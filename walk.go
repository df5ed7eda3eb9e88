package chash

import (
	"iter"
	"math/bits"
	"slices"
)

// owners is an immutable array of placements, by index: the slots of a Maglev
// table or the points of a ring. Exactly one of its forms is in use, or none
// where there is no placement.
type owners struct {
	narrow []uint8  // up to 256 placements
	medium []uint16 // up to 65,536
	wide   []uint32
	packed []uint64 // an owner in the low bits under mask, the structure's own matter above
	mask   uint64

	n      uint32   // how many owners, below 2^31; 0 if there is no placement
	counts []uint32 // how many of the owners each placement is, at least 1
}

// none is an owner that is no placement.
const none = ^uint32(0)

// at returns the owner at position i. Past the end of slots it is none; past that
// of a ring's points it is what stands there, and nobody asks.
//
// The comparisons serve as bounds checks, as a test for the empty array and as
// the choice of the form, of which a processor soon predicts the outcome.
func (o *owners) at(i uint32) uint32 {
	n := uint(i)
	switch {
	case n < uint(len(o.narrow)):
		return uint32(o.narrow[n])
	case n < uint(len(o.medium)):
		return uint32(o.medium[n])
	case n < uint(len(o.packed)):
		return uint32(o.packed[n] & o.mask)
	case n < uint(len(o.wide)):
		return o.wide[n]
	}
	return none
}

// flags is a set of placements, 1 for each that is in it and 0 for the others: a
// byte takes lookups fewer instructions to read than a bit. It is immutable once
// published.
type flags []uint8

// has reports whether i is in the set; none never is.
func (f flags) has(i uint32) bool { return uint(i) < uint(len(f)) && f[i] != 0 }

// bitmap is a set of placements that can be counted through fast. It is immutable
// once published.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

// has reports whether i is in the set; none never is.
func (b bitmap) has(i uint32) bool {
	word := uint(i / 64)
	return word < uint(len(b)) && b[word]>>(i%64)&1 != 0
}

func (b bitmap) flip(i int) { b[i/64] ^= 1 << (i % 64) }

// nth returns the n-th member of the set, counted from 0, which it has.
func (b bitmap) nth(n int) int {
	word := 0
	for {
		size := bits.OnesCount64(b[word])
		if n < size {
			break
		}
		n -= size
		word++
	}
	rest := b[word]
	for range n {
		rest &= rest - 1 // drops the lowest member
	}
	return word*64 + bits.TrailingZeros64(rest)
}

// after returns the next member of the set after one of them, the first after the
// last.
func (b bitmap) after(i uint32) uint32 {
	word := int(i / 64)
	rest := b[word] &^ (2<<(i%64) - 1)
	for rest == 0 {
		if word++; word == len(b) {
			word = 0
		}
		rest = b[word]
	}
	return uint32(word*64 + bits.TrailingZeros64(rest))
}

// rare is the number of owners among which one healthy owner is so rare that the
// positions of the healthy ones are indexed.
const rare = 16

// view is what a walk needs to know: the owners and the health of their
// placements. It is immutable once published.
type view struct {
	owners  *owners
	healthy flags
	turns   bitmap // the same set
	live    int    // healthy placements
	alive   int    // owners that are healthy placements

	// patchy says that fewer than about three quarters of the owners are healthy, so
	// that it cannot be predicted whether one is: then looking at several at once,
	// without a branch for each, is faster. Results are the same. Rings do not ask.
	patchy bool

	// whole says that every owner is healthy, so that lookups need not ask.
	whole bool

	// sparse has the positions of the healthy owners in order, and is nil unless
	// they are rare. With it a walk is short whatever the outage.
	sparse []uint32
}

// setHealth sets whether placement p is healthy, in a view not yet published.
func (v *view) setHealth(p int, healthy bool) {
	if v.healthy.has(uint32(p)) == healthy {
		return
	}
	v.healthy, v.turns = slices.Clone(v.healthy), slices.Clone(v.turns)
	v.flip(p)
	change := 1
	if !healthy {
		change = -1
	}
	v.live += change
	v.alive += change * int(v.owners.counts[p])
	v.index()
}

func (v *view) flip(p int) {
	v.healthy[p] ^= 1
	v.turns.flip(p)
}

// index sets what follows from the number of healthy owners.
func (v *view) index() {
	n := int(v.owners.n)
	v.patchy = v.alive/3 < n/4 // 4*alive may not fit 32 bits
	v.whole = n > 0 && v.alive == n
	v.sparse = nil
	if v.alive == 0 || v.alive >= n/rare {
		return
	}
	v.sparse = make([]uint32, 0, v.alive)
	for i := range uint32(n) {
		if v.healthy.has(v.owners.at(i)) {
			v.sparse = append(v.sparse, i)
		}
	}
}

// gap returns how many unhealthy owners are met from a position on, one at a time
// and wrapping, before the first healthy one, of which there is one.
func (v *view) gap(pos uint32) int {
	n := v.owners.n
	if v.sparse != nil {
		at, _ := slices.BinarySearch(v.sparse, pos)
		next := v.sparse[at%len(v.sparse)]
		if next < pos {
			next += n // below 2^32
		}
		return int(next - pos)
	}
	gap := 0
	for !v.healthy.has(v.owners.at(pos)) {
		gap++
		if pos++; pos == n {
			pos = 0
		}
	}
	return gap
}

// step returns (pos + stride) mod n, for pos and stride below n and n below 2^31.
// Whether it wraps is a toss-up that a processor cannot predict, so there is no
// branch: the sign of sum-n, which fits 32 bits, selects whether to add n again.
func step(pos, stride, n uint32) uint32 {
	past := pos + stride - n
	return past + n&uint32(int32(past)>>31)
}

// ahead returns the first healthy one of hops owners, of which the first is at
// pos and each next a stride further, and how many it came after. That is hops if
// there is none; placement then means nothing. Only a Maglev's walks have hops, so
// that there is no form for rings.
func (v *view) ahead(pos, stride uint32, hops int) (placement uint32, after int) {
	switch o := v.owners; {
	case o.narrow != nil:
		return aheadIn(o.narrow, v.healthy, pos, stride, hops)
	case o.medium != nil:
		return aheadIn(o.medium, v.healthy, pos, stride, hops)
	default:
		return aheadIn(o.wide, v.healthy, pos, stride, hops)
	}
}

// aheadIn is ahead for one form of owners. It looks at four at a time, with one
// branch that depends on their health: where half are healthy, a mispredicted
// branch for each would cost more than all the rest.
func aheadIn[S uint8 | uint16 | uint32](slots []S, set flags, pos, stride uint32, hops int) (placement uint32, after int) {
	n := uint32(len(slots))
	for after < hops {
		pos1 := step(pos, stride, n)
		pos2 := step(pos1, stride, n)
		pos3 := step(pos2, stride, n)
		met := [4]uint32{uint32(slots[pos]), uint32(slots[pos1]), uint32(slots[pos2]), uint32(slots[pos3])}
		healthy := uint(set[met[0]]) | uint(set[met[1]])<<1 | uint(set[met[2]])<<2 | uint(set[met[3]])<<3
		if healthy != 0 {
			i := bits.TrailingZeros(healthy)
			return met[i%4], min(after+i, hops)
		}
		after += 4
		pos = step(pos3, stride, n)
	}
	return none, hops
}

// A walk is the order in which a key meets the owners: hops positions from pos
// on, each a stride after the one before and wrapping around, then every
// position from then on, wrapping around too. So it meets each owner at least
// once. It starts out as data and runs down as next is called.
type walk struct {
	pos, stride uint32
	hops        int
	then        uint32
	last        bool // the hops are done, and pos and left are set up for the rest
	left        uint32
}

// next returns the next owner that is a healthy placement and whether there was
// one; it may have been met before.
func (w *walk) next(v *view) (placement uint32, found bool) {
	n := v.owners.n
	if w.hops > 0 {
		p, after := v.ahead(w.pos, w.stride, w.hops)
		if after < w.hops {
			taken := after + 1
			w.hops -= taken
			w.pos = uint32((uint64(w.pos) + uint64(taken)*uint64(w.stride)) % uint64(n))
			return p, true
		}
		w.hops = 0
	}
	if !w.last {
		w.settle(v)
	}
	if v.sparse != nil {
		n = uint32(len(v.sparse))
	}
	for w.left > 0 {
		at := w.pos
		w.left--
		if w.pos++; w.pos == n {
			w.pos = 0
		}
		if v.sparse != nil {
			return v.owners.at(v.sparse[at]), true
		}
		if p := v.owners.at(at); v.healthy.has(p) {
			return p, true
		}
	}
	return none, false
}

// settle sets up the last part of the walk: pos is from now on a position among
// the healthy owners if those are indexed, else among all.
func (w *walk) settle(v *view) {
	w.last = true
	w.pos, w.left = w.then, v.owners.n
	if v.sparse == nil {
		return
	}
	w.left = uint32(len(v.sparse))
	at, _ := slices.BinarySearch(v.sparse, w.then)
	w.pos = uint32(at) % w.left
}

// home returns the first position of a walk that has not begun.
func (w *walk) home() uint32 {
	if w.hops > 0 {
		return w.pos
	}
	return w.then
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
	left int // healthy placements not met
}

func (v *view) cursor(w walk) cursor { return cursor{walk: w, left: v.live} }

// next returns the next healthy placement and whether there was one.
func (c *cursor) next(v *view) (placement uint32, found bool) {
	for c.left > 0 {
		p, ok := c.walk.next(v)
		if !ok {
			break
		}
		if c.seen.add(p, v) {
			c.left--
			return p, true
		}
	}
	return none, false
}

// seen is a set of placements: a list while it is short, so that the usual
// lookup allocates nothing, and a bitmap after that.
type seen struct {
	n    int
	list [32]uint32
	set  bitmap
}

// add adds p and reports whether it was not there.
func (s *seen) add(p uint32, v *view) bool {
	if s.set == nil {
		if slices.Contains(s.list[:s.n], p) {
			return false
		}
		if s.n < len(s.list) {
			s.list[s.n] = p
			s.n++
			return true
		}
		s.set = newBitmap(len(v.owners.counts))
		for _, q := range s.list {
			s.set.flip(int(q))
		}
	}
	if s.set.has(p) {
		return false
	}
	s.set.flip(int(p))
	return true
}
