package probe

import (
	"bytes"
	"slices"
)

// Flags is a set of placements: 1 for each one in the set, else 0. A byte takes fewer
// instructions to read than a bit. It is immutable once published.
type Flags []uint8

// Has reports whether i is in the set. None is in no set.
func (f Flags) Has(i uint32) bool { return uint(i) < uint(len(f)) && f[i] != 0 }

// rare decides when positions of healthy owners are indexed: if fewer than one in
// rare is healthy.
const rare = 16

// View has the owners and the health of their placements. It is immutable once
// published.
type View struct {
	Owners  *Owners
	Healthy Flags
	Live    int // healthy placements
	Alive   int // owners that are healthy placements
	Spare   int // healthy placements that are no owner

	// Patchy says that fewer than about three quarters of the owners are healthy.
	// Branches on health are then hard to predict, and lookups look at several owners
	// at once. The results are the same. Rings do not use it.
	Patchy bool

	// Whole says that every owner is healthy, so that lookups need not check.
	Whole bool

	// Sparse has the positions of the healthy owners in order, if they are rare, else
	// nil. With it, every walk is short.
	Sparse []uint32
}

// NewView returns a view without a healthy placement, not yet indexed.
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

// Index sets the fields that depend on the number of healthy owners.
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

// Nearest returns the first healthy owner at or after a position, wrapping, and the
// number of unhealthy owners before it. If no owner is healthy, it returns the first
// healthy placement without an owner. There must be a healthy placement.
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

// IdleFrom returns the next healthy placement without an owner in a key's order, or
// None. It skips the first met ones, and returns the number of those that are now
// met. The order begins at the position of the last part of the key's walk, modulo
// their number, and wraps.
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

// rank returns the index in Sparse of the first position at or after pos, wrapping.
func (v *View) rank(pos uint32) uint32 {
	at, _ := slices.BinarySearch(v.Sparse, pos)
	if at == len(v.Sparse) {
		at = 0
	}
	return uint32(at)
}

// Ahead looks at hops owners: the first at pos, each next one a stride further. It
// returns the first healthy one and the number of owners before it. If there is none,
// that number is hops. Only the walks of a Maglev have hops, so that rings have no
// form here.
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
