package ring

import (
	"runtime"
	"slices"
	"sync"

	"github.com/chash-go/chash/internal/hashing"
)

// A span is the points from to to, exclusive, of one placement.
type span struct {
	hashKey  string
	owner    uint32
	from, to uint64
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
func (r *Points) sown(spans []span) *Points {
	n := size(spans)
	sown := r.empty(bucketBits(n, len(r.placements)))
	sown.N = uint32(n)
	sown.sow(spans)
	return sown
}

// sow replaces the points of r by those of spans, sorted by position and then by
// owner. It returns the positions with several points. Unless the hash is poor,
// positions are spread evenly. So points are put into their buckets, and each bucket
// is sorted.
func (r *Points) sow(spans []span) (ties []uint64) {
	positions := r.positions(spans)
	for _, position := range positions {
		r.index[r.bucket(position)]++
	}
	r.openBuckets()
	r.Packed = make([]uint64, len(positions), len(positions)+window)
	i := 0
	for _, s := range spans {
		for range s.to - s.from {
			at := &r.index[r.bucket(positions[i])] // becomes where the bucket ends
			r.Packed[*at] = positions[i]<<r.bits | uint64(s.owner)
			*at++
			i++
		}
	}
	begin := uint32(0)
	for b, end := range r.index {
		if end-begin > 1 {
			bucket := r.Packed[begin:end]
			slices.Sort(bucket)
			ties = r.appendTies(ties, uint64(b), bucket)
		}
		r.index[b] = begin
		begin = end
	}
	r.Packed = append(r.Packed, padding[:]...)
	return ties
}

// openBuckets turns an index of the numbers of points into one of where buckets
// begin.
func (r *Points) openBuckets() {
	begin := uint32(0)
	for b, n := range r.index {
		r.index[b] = begin
		begin += n
	}
}

// appendTies appends the positions with several points of a bucket.
func (r *Points) appendTies(ties []uint64, bucket uint64, points []uint64) []uint64 {
	for i, word := range points[1:] {
		if (word^points[i])&^r.Mask != 0 {
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
func (r *Points) positions(spans []span) []uint64 {
	positions := make([]uint64, size(spans))
	workers := 1
	if r.Hash.Fn == nil { // the caller's may be fast, and its panics must reach the caller
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
func (r *Points) hashSpans(spans []span, positions []uint64) {
	var buf []byte
	var sum hashing.Digest
	n := 0
	for _, s := range spans {
		var long *hashing.LongKey
		if r.Hash.Fn == nil && len(s.hashKey) >= hashing.LongHashKey {
			long = r.Digests.LongKey(s.hashKey)
		}
		for i := s.from; i < s.to; i++ {
			if long != nil {
				positions[n] = r.Digests.Position(long.Point(int(i)))
			} else if r.Hash.Fn != nil {
				positions[n], buf = r.Hash.Point(s.hashKey, int(i), buf)
			} else {
				sum, buf = r.Digests.Point(s.hashKey, int(i), buf)
				positions[n] = r.Digests.Position(sum)
			}
			n++
		}
	}
}
