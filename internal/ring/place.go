package ring

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// This file lays out rings. A change hashes only the points that come and go and
// merges them into the sorted rest.

// Place returns a ring of the same options for other placements. They are sorted by
// hash key and have fewer than 2^31 points together. It reuses the points of r that
// stay.
func (r *Points) Place(placements []probe.Placement) *Points {
	n := 0
	for i := range placements {
		n += int(r.PointsOf(placements[i].Weight))
	}
	next := r.empty(bucketBits(n, len(placements)))
	next.placements = placements
	next.N = uint32(n)
	next.Counts = make([]uint32, len(placements))
	for p := range placements {
		next.Counts[p] = uint32(r.PointsOf(placements[p].Weight))
	}
	if !next.update(r) {
		next.update(r.empty(1))
	}
	return next
}

// update takes over the points of old as far as they are points of r and adds the
// others. It reports whether it has: not where to find the points that go takes
// more hashes than to place those that stay, nor where they are not found, since
// the hash of the caller's has changed its mind. From a ring without points it
// always has.
func (r *Points) update(old *Points) bool {
	owners, added, dropped := old.compare(r.placements)
	if gone := size(dropped); gone > int(old.N)-gone {
		return false
	}
	var ties []uint64
	if old.N == 0 {
		ties = r.sow(added)
	} else {
		events, met, found := old.events(r.sown(added), old.sown(dropped))
		if !found {
			return false
		}
		r.merge(old, owners, events)
		ties = met
	}
	for _, position := range ties {
		r.untie(position)
	}
	r.closeCircle()
	return true
}

// closeCircle gives the first word after the points the owner of point 0, which
// closes the ring.
func (r *Points) closeCircle() {
	if r.N > 0 {
		r.Packed[r.N] = ^r.Mask | r.Packed[0]&r.Mask
	}
}

// bucketBits returns the bits of a bucket number for a number of points. Lookups are
// fastest with 3/4 to 3/2 buckets a point, until the index no longer fits the nearer
// caches of a processor; then with half of that. There are at least as many buckets
// as owners, since a word has as many bits for its owner as a bucket number has. So a
// point has at most 6 bytes of index beside its word of 8 bytes, or 8 if each owner
// has only one point.
func bucketBits(points, owners int) uint {
	n := bits.Len(uint(points*3/2)) - 1
	if n > 17 {
		n--
	}
	return uint(max(1, n, bits.Len(uint(max(owners, 1)-1))))
}

// PointsOf returns the number of points of a placement. Nothing overflows: replicas
// are at most 2^26.
func (r *Points) PointsOf(weight uint32) uint64 {
	return max(1, (r.Replicas*uint64(weight)+r.UnitWeight/2)/r.UnitWeight)
}

// compare returns how r differs from a ring of other placements: by owner of r
// the new owner or none, the points that come, by new owner, and the points that
// go, by old.
func (r *Points) compare(placements []probe.Placement) (owners []uint32, added, dropped []span) {
	owners = make([]uint32, len(r.placements))
	old, next := 0, 0
	for old < len(r.placements) || next < len(placements) {
		var before, after uint64 // points
		var hashKey string
		p, q := old, next
		if q == len(placements) || p < len(r.placements) && r.placements[p].HashKey <= placements[q].HashKey {
			hashKey, before = r.placements[p].HashKey, r.PointsOf(r.placements[p].Weight)
			owners[p] = probe.None
			old++
		}
		if old == p || q < len(placements) && placements[q].HashKey == hashKey {
			hashKey, after = placements[q].HashKey, r.PointsOf(placements[q].Weight)
			next++
		}
		if before > 0 && after > 0 {
			owners[p] = uint32(q)
		}
		if after > before {
			added = append(added, span{hashKey, uint32(q), before, after})
		}
		if before > after {
			dropped = append(dropped, span{hashKey, uint32(p), after, before})
		}
	}
	return owners, added, dropped
}

// An event is a point that comes or goes.
type event struct {
	position uint64
	owner    uint32
	at       uint32 // of the old points, the one that goes or before which it comes
	drop     bool
}

// merge makes the points of r those of old under their new owners, but for the
// events.
func (r *Points) merge(old *Points, owners []uint32, events []event) {
	if old.bits != r.bits {
		old, owners = old.rebucket(r.bits, owners), nil
	}
	r.Packed = make([]uint64, 0, r.N+window)
	from, bucket := uint32(0), uint64(0)
	for i := range events {
		e := &events[i]
		r.copyPoints(old, owners, from, e.at)
		from = e.at
		bucket = r.reindex(old, bucket, r.bucket(e.position)+1, from)
		if e.drop {
			from++
		} else {
			r.Packed = append(r.Packed, e.position<<r.bits|uint64(e.owner))
		}
	}
	r.copyPoints(old, owners, from, old.N)
	r.reindex(old, bucket, uint64(len(r.index)), old.N)
	r.Packed = append(r.Packed, padding[:]...)
}

// copyPoints appends points from to to, exclusive, of old under their new owners: the
// bulk of a change, at about a nanosecond a point.
func (r *Points) copyPoints(old *Points, owners []uint32, from, to uint32) {
	if owners == nil {
		r.Packed = append(r.Packed, old.Packed[from:to]...)
		return
	}
	source := old.Packed[from:to]
	n := len(r.Packed)
	r.Packed = r.Packed[:n+len(source)]
	target, mask := r.Packed[n:][:len(source)], r.Mask // without a test of bounds for each
	for i, word := range source {
		target[i] = word&^mask | uint64(owners[word&mask])
	}
}

// reindex fills the index from bucket first to end, exclusive, and returns end. No point
// came or went there. So the points begin where they did on old, moved by the number of
// points that came and went before. taken is how many points of old are in r or gone.
func (r *Points) reindex(old *Points, first, end uint64, taken uint32) uint64 {
	if end <= first {
		return first
	}
	moved := uint32(len(r.Packed)) - taken // modulo 2^32: it may be negative
	index := r.index[first:end]
	for i, begin := range old.index[first:end][:len(index)] { // without a test of bounds for each
		index[i] = begin + moved
	}
	return end
}

// events returns where on r the points of two other rings come and go, in order,
// and the positions at which there is more than one point before or after. It
// reports whether the points that go are there.
func (r *Points) events(added, dropped *Points) (events []event, ties []uint64, ok bool) {
	events = make([]event, 0, added.N+dropped.N)
	for position, owner := range added.All() {
		at, _ := r.Find(position)
		again := len(events) > 0 && events[len(events)-1].position == position
		if again || len(r.run(at, position)) > 0 {
			ties = append(ties, position)
		}
		events = append(events, event{position, owner, at, false})
	}
	if dropped.N == 0 {
		return events, slices.Compact(ties), true
	}
	var run []uint64    // the points at a position
	var at uint64       // which is this
	var first, n uint32 // of them, and how many have been looked at
	for position, owner := range dropped.All() {
		if run == nil || position != at {
			at = position
			first, _ = r.Find(position)
			run, n = r.run(first, position), 0
			if len(run) > 1 {
				ties = append(ties, position)
			}
		}
		// Both are by owner, so that one look at each point is enough. Where digests had
		// to decide they are not, and if one is missed then all points are placed anew.
		for n < uint32(len(run)) && uint32(run[n]&r.Mask) != owner {
			n++
		}
		if n == uint32(len(run)) {
			return nil, nil, false
		}
		events = append(events, event{position, owner, first + n, true})
		n++
	}
	slices.SortFunc(events, func(a, b event) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.drop != b.drop: // what comes goes before the point at at
			if a.drop {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.position, b.position)
	})
	slices.Sort(ties)
	return events, slices.Compact(ties), true
}

// rebucket returns the points of r under other owners in another number of
// buckets. The owner of points that are about to go does not matter.
func (r *Points) rebucket(bits uint, owners []uint32) *Points {
	next := r.empty(bits)
	next.N = r.N
	next.Packed = make([]uint64, 0, r.N)
	for position, owner := range r.All() {
		to := owners[owner]
		if to == probe.None {
			to = 0
		}
		next.Packed = append(next.Packed, position<<bits|uint64(to))
		next.index[next.bucket(position)]++
	}
	next.openBuckets()
	return next
}

// untie puts the points at one position into their order: by the rest of their
// digests or, with a hash of the caller's, by hash key. Points of one placement
// are alike, so that their own order does not show.
func (r *Points) untie(position uint64) {
	first, _ := r.Find(position)
	run := r.run(first, position)
	if r.Hash.Fn != nil {
		slices.Sort(run) // by owner, and owners are numbered by hash key
		return
	}
	for i, t := range r.ranked(run, position) {
		run[i] = run[i]&^r.Mask | uint64(t.owner)
	}
}

// A tied is one of several points at a position.
type tied struct {
	hashing.Digest
	owner uint32
}

// ranked returns the points of a run in the order of their digests. These are not
// kept, for it takes some 2^32 points until two are expected at one position; they
// are found again among all points of the run's owners.
func (r *Points) ranked(run []uint64, position uint64) []tied {
	owners := make([]uint64, len(run))
	for i := range run {
		owners[i] = run[i] & r.Mask
	}
	slices.Sort(owners)
	ranked := make([]tied, 0, len(run))
	var buf []byte
	var sum hashing.Digest
	for _, owner := range slices.Compact(owners) {
		for i := range int(r.Counts[owner]) {
			sum, buf = r.Digests.Point(r.placements[owner].HashKey, i, buf)
			if r.Digests.Position(sum) == position {
				ranked = append(ranked, tied{sum, uint32(owner)})
			}
		}
	}
	slices.SortFunc(ranked, func(a, b tied) int { return a.CompareRest(&b.Digest) })
	return ranked
}
