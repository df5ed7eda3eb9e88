package chash

import (
	"cmp"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// This file lays out rings. A change hashes only the points that come and go and
// merges them into the sorted rest.

// A span is points from to to, exclusive, of one placement.
type span struct {
	hashKey  string
	owner    uint32
	from, to uint64
}

func (r *ring) lay(placements []placement) (*ring, error) {
	if r.custom != nil && len(placements) > 0 {
		return r.layCustom(placements)
	}
	n, err := r.countPoints(placements)
	if err != nil {
		return nil, err
	}
	next := r.empty(bucketBits(n, len(placements)))
	next.placements = placements
	next.n = uint32(n)
	next.counts = make([]uint32, len(placements))
	for p := range placements {
		next.counts[p] = uint32(r.pointsOf(placements[p].weight))
	}
	if !next.update(r) {
		next.update(r.empty(1))
	}
	return next, nil
}

// update takes over the points of old as far as they are points of r and adds the
// others. It reports whether it has: not where to find the points that go takes
// more hashes than to place those that stay, nor where they are not found, since
// the hash of the caller's has changed its mind. From a ring without points it
// always has.
func (r *ring) update(old *ring) bool {
	owners, added, dropped := old.compare(r.placements)
	if gone := size(dropped); gone > int(old.n)-gone {
		return false
	}
	var ties []uint64
	if old.n == 0 {
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
		r.settle(position)
	}
	r.close()
	return true
}

// close gives the first word after the points the owner of point 0, where the ring
// closes.
func (r *ring) close() {
	if r.n > 0 {
		r.packed[r.n] = ^r.mask | r.packed[0]&r.mask
	}
}

// bucketBits returns the bits of a bucket number that suit a number of points. An
// index of 3/4 to 3/2 buckets a point makes the fastest lookups until it no longer
// fits a processor's nearer caches; from then on half of that does. There are at
// least as many buckets as owners, since the bits of a bucket number are what a word
// has for its owner. So a point has 6 bytes of index at most, or 8 where it is its
// owner's only one, beside its own 8.
func bucketBits(points, owners int) uint {
	n := bits.Len(uint(points*3/2)) - 1
	if n > 17 {
		n--
	}
	return uint(max(1, n, bits.Len(uint(max(owners, 1)-1))))
}

// empty returns a ring of the same options without points.
func (r *ring) empty(bits uint) *ring {
	empty := &ring{
		bits:       bits,
		index:      make([]uint32, 1<<bits),
		replicas:   r.replicas,
		unitWeight: r.unitWeight,
		maxSize:    r.maxSize,
		hash:       r.hash,
		digests:    r.digests,
		custom:     r.custom,
	}
	empty.mask = 1<<bits - 1
	empty.packed = padding[:]
	return empty
}

// padding follows the points.
var padding = [window]uint64{^uint64(0), ^uint64(0), ^uint64(0)}

// countPoints returns how many points the placements have.
func (r *ring) countPoints(placements []placement) (int, error) {
	var points, weight uint64 // cannot overflow: there are fewer than 2^32 placements
	for i := range placements {
		points += min(r.pointsOf(placements[i].weight), MaxRingPoints+1)
		weight += uint64(placements[i].weight)
	}
	options := r.config()
	if limit := options.sizeLimit(MaxRingPoints); points > uint64(limit) {
		return 0, fmt.Errorf("%w: %d replicas for each %d of a total weight of %d, the limit is %d points",
			ErrRingTooLarge, r.replicas, r.unitWeight, weight, limit)
	}
	return int(points), nil
}

// pointsOf returns how many points a placement of a weight has. Nothing overflows:
// replicas are at most MaxRingPoints.
func (r *ring) pointsOf(weight uint32) uint64 {
	return max(1, (r.replicas*uint64(weight)+r.unitWeight/2)/r.unitWeight)
}

// compare returns how r differs from a ring of other placements: by owner of r
// the new owner or none, the points that come, by new owner, and the points that
// go, by old.
func (r *ring) compare(placements []placement) (owners []uint32, added, dropped []span) {
	owners = make([]uint32, len(r.placements))
	old, next := 0, 0
	for old < len(r.placements) || next < len(placements) {
		var before, after uint64 // points
		var hashKey string
		p, q := old, next
		if q == len(placements) || p < len(r.placements) && r.placements[p].hashKey <= placements[q].hashKey {
			hashKey, before = r.placements[p].hashKey, r.pointsOf(r.placements[p].weight)
			owners[p] = none
			old++
		}
		if old == p || q < len(placements) && placements[q].hashKey == hashKey {
			hashKey, after = placements[q].hashKey, r.pointsOf(placements[q].weight)
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

// size returns the number of points in spans.
func size(spans []span) int {
	n := uint64(0)
	for i := range spans {
		n += spans[i].to - spans[i].from
	}
	return int(n)
}

// sown returns a ring of the points of spans, whose owners are placements of r.
func (r *ring) sown(spans []span) *ring {
	n := size(spans)
	sown := r.empty(bucketBits(n, len(r.placements)))
	sown.n = uint32(n)
	sown.sow(spans)
	return sown
}

// sow makes the points of r those of spans, sorted by position and then by owner,
// and returns the positions at which there are several. Positions are spread evenly
// unless the hash is a poor one, so they are dealt into their buckets, and each
// bucket is sorted.
func (r *ring) sow(spans []span) (ties []uint64) {
	positions := r.positions(spans)
	for _, position := range positions {
		r.index[r.bucket(position)]++
	}
	r.openBuckets()
	r.packed = make([]uint64, len(positions), len(positions)+window)
	i := 0
	for _, s := range spans {
		for range s.to - s.from {
			at := &r.index[r.bucket(positions[i])] // becomes where the bucket ends
			r.packed[*at] = positions[i]<<r.bits | uint64(s.owner)
			*at++
			i++
		}
	}
	begin := uint32(0)
	for b, end := range r.index {
		if end-begin > 1 {
			bucket := r.packed[begin:end]
			slices.Sort(bucket)
			ties = r.appendTies(ties, uint64(b), bucket)
		}
		r.index[b] = begin
		begin = end
	}
	r.packed = append(r.packed, padding[:]...)
	return ties
}

// openBuckets makes of an index with the number of points in each bucket one of where
// they begin.
func (r *ring) openBuckets() {
	begin := uint32(0)
	for b, n := range r.index {
		r.index[b] = begin
		begin += n
	}
}

// appendTies appends the positions at which there are several of a bucket's points.
func (r *ring) appendTies(ties []uint64, bucket uint64, points []uint64) []uint64 {
	for i, word := range points[1:] {
		if (word^points[i])&^r.mask != 0 {
			continue
		}
		position := r.unpack(bucket, word)
		if n := len(ties); n == 0 || ties[n-1] != position {
			ties = append(ties, position)
		}
	}
	return ties
}

// positions returns the positions of the points of spans, one after the other.
func (r *ring) positions(spans []span) []uint64 {
	positions := make([]uint64, size(spans))
	workers := 1
	if r.hash.fn == nil { // the caller's may be fast, and its panics must reach the caller
		workers = max(1, min(len(positions)/parallel, runtime.GOMAXPROCS(0)))
	}
	var wait sync.WaitGroup
	spans = slices.Clone(spans) // they will be cut up
	rest := positions
	for worker := range workers {
		share := len(rest) / (workers - worker)
		mine := cut(&spans, share)
		to := rest[:share]
		rest = rest[share:]
		if worker == workers-1 {
			r.hashSpans(mine, to)
			break
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			r.hashSpans(mine, to)
		}()
	}
	wait.Wait()
	return positions
}

// parallel is how many points are worth a goroutine for their SHA-256 sums, some
// 100 ns each.
const parallel = 1000

// cut takes n points off the front of spans.
func cut(spans *[]span, n int) []span {
	var front []span
	for n > 0 {
		s := &(*spans)[0]
		part := *s
		part.to = min(part.to, part.from+uint64(n))
		n -= int(part.to - part.from)
		front = append(front, part)
		if s.from = part.to; s.from == s.to {
			*spans = (*spans)[1:]
		}
	}
	return front
}

// hashSpans fills positions with those of the points of spans.
func (r *ring) hashSpans(spans []span, positions []uint64) {
	var buf []byte
	var sum digest
	n := 0
	for _, s := range spans {
		var long *pointer
		if r.hash.fn == nil && len(s.hashKey) >= longHashKey {
			long = r.digests.pointer(s.hashKey)
		}
		for i := s.from; i < s.to; i++ {
			if long != nil {
				positions[n] = r.digests.position(long.point(int(i)))
			} else if r.hash.fn != nil {
				positions[n], buf = r.hash.point(s.hashKey, int(i), buf)
			} else {
				sum, buf = r.digests.point(s.hashKey, int(i), buf)
				positions[n] = r.digests.position(sum)
			}
			n++
		}
	}
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
func (r *ring) merge(old *ring, owners []uint32, events []event) {
	if old.bits != r.bits {
		old, owners = old.rebucket(r.bits, owners), nil
	}
	r.packed = make([]uint64, 0, r.n+window)
	from, bucket := uint32(0), uint64(0)
	for i := range events {
		e := &events[i]
		r.take(old, owners, from, e.at)
		from = e.at
		bucket = r.reindex(old, bucket, r.bucket(e.position)+1, from)
		if e.drop {
			from++
		} else {
			r.packed = append(r.packed, e.position<<r.bits|uint64(e.owner))
		}
	}
	r.take(old, owners, from, old.n)
	r.reindex(old, bucket, uint64(len(r.index)), old.n)
	r.packed = append(r.packed, padding[:]...)
}

// take appends points from to to, exclusive, of old under their new owners: the
// bulk of a change, at about a nanosecond a point.
func (r *ring) take(old *ring, owners []uint32, from, to uint32) {
	if owners == nil {
		r.packed = append(r.packed, old.packed[from:to]...)
		return
	}
	source := old.packed[from:to]
	n := len(r.packed)
	r.packed = r.packed[:n+len(source)]
	target, mask := r.packed[n:][:len(source)], r.mask // without a test of bounds for each
	for i, word := range source {
		target[i] = word&^mask | uint64(owners[word&mask])
	}
}

// reindex fills the index from bucket first to end, exclusive, and returns end.
// No point came or went there, so the points begin where they did on old but for
// those that came and went before: taken is how many of old are in r or gone.
func (r *ring) reindex(old *ring, first, end uint64, taken uint32) uint64 {
	if end <= first {
		return first
	}
	moved := uint32(len(r.packed)) - taken // modulo 2^32: it may be negative
	index := r.index[first:end]
	for i, begin := range old.index[first:end][:len(index)] { // without a test of bounds for each
		index[i] = begin + moved
	}
	return end
}

// events returns where on r the points of two other rings come and go, in order,
// and the positions at which there is more than one point before or after. It
// reports whether the points that go are there.
func (r *ring) events(added, dropped *ring) (events []event, ties []uint64, ok bool) {
	events = make([]event, 0, added.n+dropped.n)
	for position, owner := range added.all() {
		at, _ := r.find(position)
		again := len(events) > 0 && events[len(events)-1].position == position
		if again || len(r.run(at, position)) > 0 {
			ties = append(ties, position)
		}
		events = append(events, event{position, owner, at, false})
	}
	if dropped.n == 0 {
		return events, slices.Compact(ties), true
	}
	var run []uint64    // the points at a position
	var at uint64       // which is this
	var first, n uint32 // of them, and how many have been looked at
	for position, owner := range dropped.all() {
		if run == nil || position != at {
			at = position
			first, _ = r.find(position)
			run, n = r.run(first, position), 0
			if len(run) > 1 {
				ties = append(ties, position)
			}
		}
		// Both are by owner, so that one look at each point is enough. Where digests had
		// to decide they are not, and if one is missed then all points are placed anew.
		for n < uint32(len(run)) && uint32(run[n]&r.mask) != owner {
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
func (r *ring) rebucket(bits uint, owners []uint32) *ring {
	next := r.empty(bits)
	next.n = r.n
	next.packed = make([]uint64, 0, r.n)
	for position, owner := range r.all() {
		to := owners[owner]
		if to == none {
			to = 0
		}
		next.packed = append(next.packed, position<<bits|uint64(to))
		next.index[next.bucket(position)]++
	}
	next.openBuckets()
	return next
}

// settle puts the points at one position into their order: by the rest of their
// digests or, with a hash of the caller's, by hash key. Points of one placement
// are alike, so that their own order does not show.
func (r *ring) settle(position uint64) {
	first, _ := r.find(position)
	run := r.run(first, position)
	if r.hash.fn != nil {
		slices.Sort(run) // by owner, and owners are numbered by hash key
		return
	}
	for i, t := range r.ranked(run, position) {
		run[i] = run[i]&^r.mask | uint64(t.owner)
	}
}

// A tied is one of several points at a position.
type tied struct {
	digest
	owner uint32
}

// ranked returns the points of a run in the order of their digests. These are not
// kept, for it takes some 2^32 points until two are expected at one position; they
// are found again among all points of the run's owners.
func (r *ring) ranked(run []uint64, position uint64) []tied {
	owners := make([]uint64, len(run))
	for i := range run {
		owners[i] = run[i] & r.mask
	}
	slices.Sort(owners)
	ranked := make([]tied, 0, len(run))
	var buf []byte
	var sum digest
	for _, owner := range slices.Compact(owners) {
		for i := range int(r.counts[owner]) {
			sum, buf = r.digests.point(r.placements[owner].hashKey, i, buf)
			if r.digests.position(sum) == position {
				ranked = append(ranked, tied{sum, uint32(owner)})
			}
		}
	}
	slices.SortFunc(ranked, func(a, b tied) int { return a.compareRest(&b.digest) })
	return ranked
}
