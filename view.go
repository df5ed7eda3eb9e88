package chash

import "slices"

// flags is a set of placements, 1 for each that is in it and 0 for the others: a
// byte takes lookups fewer instructions to read than a bit. It is immutable once
// published.
type flags []uint8

// has reports whether i is in the set; none never is.
func (f flags) has(i uint32) bool { return uint(i) < uint(len(f)) && f[i] != 0 }

// rare is the number of owners among which one healthy owner is so rare that the
// positions of the healthy ones are indexed.
const rare = 16

// view is what a walk needs to know: the owners and the health of their
// placements. It is immutable once published.
type view struct {
	owners  *owners
	healthy flags
	live    int // healthy placements
	alive   int // owners that are healthy placements
	spare   int // healthy placements that are no owner

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

// newView returns a view of owners among which nobody is healthy, not yet indexed.
func newView(o *owners, placements int) view {
	return view{owners: o, healthy: make(flags, placements)}
}

// setHealth sets whether placement p is healthy, in a view not yet published.
func (v *view) setHealth(p int, healthy bool) {
	v.healthy = slices.Clone(v.healthy)
	v.enter(p, healthy)
	v.index()
}

// enter changes whether placement p is healthy.
func (v *view) enter(p int, healthy bool) {
	change := 1
	v.healthy[p] = 1
	if !healthy {
		change = -1
		v.healthy[p] = 0
	}
	v.live += change
	v.alive += change * int(v.owners.counts[p])
	if v.owners.counts[p] == 0 {
		v.spare += change
	}
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

// nearest returns the first healthy owner from a position on, one at a time and
// wrapping, and how many unhealthy ones are passed on the way. Where no owner is
// healthy, it returns the first healthy placement that is no owner. There must be a
// healthy placement.
func (v *view) nearest(pos uint32) (placement uint32, passed int) {
	n := v.owners.n
	if v.alive == 0 {
		placement, _ = v.idleFrom(pos, 0)
		return placement, int(n)
	}
	if v.sparse != nil {
		at := v.sparse[v.rank(pos)]
		passed := int(at) - int(pos)
		if at < pos {
			passed += int(n)
		}
		return v.owners.at(at), passed
	}
	for {
		if p := v.owners.at(pos); v.healthy.has(p) {
			return p, passed
		}
		passed++
		if pos++; pos == n {
			pos = 0
		}
	}
}

// idleFrom returns the first healthy placement without an owner in a key's order of
// them, or none, and how many of them come up to it, itself counted; those that the
// key has met already are passed over. The order begins at the position where the
// last part of the key's walk does, modulo their number, and wraps.
func (v *view) idleFrom(pos uint32, met int) (placement uint32, passed int) {
	idle := v.owners.idle
	for ; met < len(idle); met++ {
		p := idle[(uint64(pos)+uint64(met))%uint64(len(idle))]
		if v.healthy.has(p) {
			return p, met + 1
		}
	}
	return none, met
}

// rank returns which of the indexed positions is the first from a position on,
// wrapping.
func (v *view) rank(pos uint32) uint32 {
	at, _ := slices.BinarySearch(v.sparse, pos)
	if at == len(v.sparse) {
		at = 0
	}
	return uint32(at)
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
