package ring

import (
	"cmp"
	"iter"
	"slices"

	"github.com/chash-go/chash/internal/probe"
)

// A node is a point as Assign gets it.
type node struct {
	position  uint64
	placement int
}

// Assign returns a ring of the same options for other placements with n given points,
// in any order. Of points at one position, the first counts. Assign goes over all
// twice.
//
// As in sow, points are put into their buckets and each bucket is sorted. Both keep
// the order of points at one position.
func (r *Points) Assign(placements []probe.Placement, n int, all iter.Seq2[uint64, int]) *Points {
	next := r.empty(bucketBits(n, len(placements)))
	next.placements = placements
	for position := range all {
		next.index[next.bucket(position)]++
	}
	next.openBuckets()
	dealt := make([]node, n)
	for position, placement := range all {
		at := &next.index[next.bucket(position)] // becomes where the bucket ends
		dealt[*at] = node{position, placement}
		*at++
	}
	next.Packed = make([]uint64, 0, n+window)
	counts := make([]uint32, len(placements))
	begin := uint32(0)
	for b, end := range next.index {
		bucket := dealt[begin:end]
		slices.SortStableFunc(bucket, func(p, q node) int { return cmp.Compare(p.position, q.position) })
		next.index[b] = uint32(len(next.Packed))
		next.pack(bucket, counts)
		begin = end
	}
	next.N = uint32(len(next.Packed))
	next.Packed = append(next.Packed, padding[:]...)
	next.closeCircle()
	next.SetCounts(counts)
	return next
}

// pack appends the first point at each position of a bucket, and counts them.
func (r *Points) pack(bucket []node, counts []uint32) {
	for i, point := range bucket {
		if i > 0 && point.position == bucket[i-1].position {
			continue
		}
		r.Packed = append(r.Packed, point.position<<r.bits|uint64(point.placement))
		counts[point.placement]++
	}
}
