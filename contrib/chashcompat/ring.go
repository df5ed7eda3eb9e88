package chashcompat

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/chash-go/chash"
)

// A ring collects the points of a layout. Of points at the same position, the first
// counts.
type ring []chash.VirtualNode

// newRing returns an empty ring with room for n points, or an ErrRingTooLarge.
func newRing(n uint64) (ring, error) {
	if n > chash.MaxRingPoints {
		return nil, fmt.Errorf("%w: %d points, the limit is %d", chash.ErrRingTooLarge, n, chash.MaxRingPoints)
	}
	return make(ring, 0, n), nil
}

// add adds a point at a position of 32 bits. Positions of the ring have 64 bits:
// those of 32 bits, and the hashes of keys, are their upper halves.
func (r *ring) add(position uint32, placement int) {
	*r = append(*r, chash.VirtualNode{Position: uint64(position) << 32, Placement: placement})
}

// addMD5 adds the four points in the MD5 of a label.
func (r *ring) addMD5(label []byte, placement int) {
	sum := md5.Sum(label)
	for word := range slices.Chunk(sum[:], 4) {
		r.add(binary.LittleEndian.Uint32(word), placement)
	}
}

// wide makes a 64-bit hash for the ring from a 32-bit hash.
func wide(hash func(key string) uint32) func(key string) uint64 {
	return func(key string) uint64 { return uint64(hash(key)) << 32 }
}

// totalWeight returns the weight of all placements.
func totalWeight(placements []chash.Placement) uint64 {
	total := uint64(0)
	for i := range placements {
		total += uint64(placements[i].Weight)
	}
	return total
}

// boundedWeight is totalWeight for systems with 32-bit sums. A larger sum is an
// ErrWeight.
func boundedWeight(placements []chash.Placement) (uint64, error) {
	total := totalWeight(placements)
	if total > math.MaxUint32 {
		return 0, fmt.Errorf("%w: %d of all together, the limit is %d", ErrWeight, total, uint32(math.MaxUint32))
	}
	return total, nil
}
