package probe

import (
	"bytes"
	"slices"
)

// Flags is a set of placements, 1 for each that is in it and 0 for the others: a
// byte takes lookups fewer instructions to read than a bit. It is immutable once
// published.
type Flags []uint8

// Has reports whether i is in the set; None never is.
func (f Flags) Has(i uint32) bool { return uint(i) < uint(len(f)) && f[i] != 0 }

// rare is the number of owners among which one healthy owner is so rare that the
// positions of the healthy ones are indexed.
const rare = 16

// View is what a walk needs to know: the owners and the health of their
// placements. It is immutable once published.
type View struct {
	Owners  *Owners
	Healthy Flags
	Live    int // healthy placements
	Alive   int // owners that are healthy placements
	Spare   int // healthy placements that are no owner

	// Patchy says that fewer than about three quarters of the owners are healthy, so
	// that it cannot be predicted whether one is: then looking at several at once,
	// without a branch for each, is faster. Results are the same. Rings do not ask.
	Patchy bool

	// Whole says that every owner is healthy, so that lookups need not ask.
	Whole bool

	// Sparse has the positions of the healthy owners in order, and is nil unless
	// they are rare. With it a walk is short whatever the outage.
	Sparse []uint32
}

// NewView returns a view of owners among which nobody is healthy, not yet indexed.
func NewView(o *Owners, placements int) View {
	return View{Owners: o, Healthy: make(Flags, placements)}
}

// AllHealthy returns a view of owners whose placements are all healthy.
func AllHealthy(o *Owners) View {
	n := len(o.Counts)
	return View{Owners: o, Healthy: bytes.Repeat([]byte{1}, n), Live: n, Spare: len(o.Idle)}
}

// SetHealth sets whether placement p is healthy, in a view not yet published.
func (v *View) SetHealth(p int, healthy bool) {
	v.Healthy = slices.Clone(v.Healthy)
	v.Mark(p, healthy)
	v.Index()
}

// Mark changes whether placement p is healthy.
func (v *View) Mark(p int, healthy bool) {
	change := 1
	v.Healthy[p] = 1
	if !healthy {
		change = -1
		v.Healthy[p] = 0
	}
	v.Live += change
	v.Alive += change * int(v.Owners.Counts[p])
	if v.Owners.Counts[p] == 0 {
		v.Spare += change
	}
}

// Index sets what follows from the number of healthy owners.
func (v *View) Index() {
	n := int(v.Owners.N)
	v.Patchy = v.Alive/3 < n/4 // 4*alive may not fit 32 bits
	v.Whole = n > 0 && v.Alive == n
	v.Sparse = nil
	if v.Alive == 0 || v.Alive >= n/rare {
		return
	}
	v.Sparse = make([]uint32, 0, v.Alive)
	for i := range uint32(n) {
		if v.Healthy.Has(v.Owners.At(i)) {
			v.Sparse = append(v.Sparse, i)
		}
	}
}

// Nearest returns the first healthy owner from a position on, one at a time and
// wrapping, and how many unhealthy ones are passed on the way. Where no owner is
// healthy, it returns the first healthy placement that is no owner. There must be a
// healthy placement.
func (v *View) Nearest(pos uint32) (placement uint32, passed int) {
	n := v.Owners.N
	if v.Alive == 0 {
		placement, _ = v.IdleFrom(pos, 0)
		return placement, int(n)
	}
	if v.Sparse != nil {
		at := v.Sparse[v.rank(pos)]
		passed := int(at) - int(pos)
		if at < pos {
			passed += int(n)
		}
		return v.Owners.At(at), passed
	}
	for {
		if p := v.Owners.At(pos); v.Healthy.Has(p) {
			return p, passed
		}
		passed++
		if pos++; pos == n {
			pos = 0
		}
	}
}

// IdleFrom returns the first healthy placement without an owner in a key's order of
// them, or None, and how many of them come up to it, itself counted; those that the
// key has met already are passed over. The order begins at the position where the
// last part of the key's walk does, modulo their number, and wraps.
func (v *View) IdleFrom(pos uint32, met int) (placement uint32, passed int) {
	idle := v.Owners.Idle
	for ; met < len(idle); met++ {
		p := idle[(uint64(pos)+uint64(met))%uint64(len(idle))]
		if v.Healthy.Has(p) {
			return p, met + 1
		}
	}
	return None, met
}

// rank returns which of the indexed positions is the first from a position on,
// wrapping.
func (v *View) rank(pos uint32) uint32 {
	at, _ := slices.BinarySearch(v.Sparse, pos)
	if at == len(v.Sparse) {
		at = 0
	}
	return uint32(at)
}

// Ahead returns the first healthy one of hops owners, of which the first is at
// pos and each next a stride further, and how many it came after. That is hops if
// there is none; placement then means nothing. Only a Maglev's walks have hops, so
// that there is no form for rings.
func (v *View) Ahead(pos, stride uint32, hops int) (placement uint32, after int) {
	switch o := v.Owners; {
	case o.Narrow != nil:
		return aheadIn(o.Narrow, v.Healthy, pos, stride, hops)
	case o.Medium != nil:
		return aheadIn(o.Medium, v.Healthy, pos, stride, hops)
	default:
		return aheadIn(o.Wide, v.Healthy, pos, stride, hops)
	}
}
