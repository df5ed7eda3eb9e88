// Package ring places the points of rings, finds the point of a key, and goes over the
// ranges between the points.
package ring

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// Points are the points of a ring, sorted by position. They are immutable. Each is
// packed into one word, so that a lookup reads few cache lines.
//
// The top bits of a position are the number of its bucket, and index[b] is the first
// point in bucket b or after it. Within a bucket the top bits are all the same. So
// they are shifted out, and the owner is in the bits that become free at the bottom.
// Nothing of the position is lost.
//
// A few words of ones follow the last point, so that Find can read past it. The first
// of these words has the owner of point 0, which closes the ring.
type Points struct {
	probe.Owners
	index      []uint32 // by bucket
	bits       uint     // of a bucket number, 1 to 26
	placements []probe.Placement
	Replicas   uint64
	UnitWeight uint64           // of weight, that has so many points
	Hash       hashing.Hasher   // if it has a function, of 64-bit positions
	Digests    hashing.Digester // else
}

// New returns a ring without points. A unit of weight has as many points as replicas.
// If hash has a function, the function decides the positions; otherwise digests do.
func New(replicas, unitWeight uint64, hash hashing.Hasher, digests hashing.Digester) Points {
	options := Points{Replicas: replicas, UnitWeight: unitWeight, Hash: hash, Digests: digests}
	return *options.empty(1)
}

// empty returns a ring of the same options without points.
func (r *Points) empty(bits uint) *Points {
	empty := &Points{
		bits:       bits,
		index:      make([]uint32, 1<<bits),
		Replicas:   r.Replicas,
		UnitWeight: r.UnitWeight,
		Hash:       r.Hash,
		Digests:    r.Digests,
	}
	empty.Mask = 1<<bits - 1
	empty.Packed = padding[:]
	return empty
}

// padding follows the points.
var padding = [window]uint64{^uint64(0), ^uint64(0), ^uint64(0)}

// PositionOf returns the position of a key.
func (r *Points) PositionOf(key string) uint64 {
	if r.Hash.Fn != nil {
		return r.Hash.Fn(key)
	}
	return r.Digests.KeyPosition(key)
}

// Tied reports whether the rest of the digest must decide: the word that Find
// returned may be at exactly that position.
func (r *Points) Tied(word, position uint64) bool {
	return word&^r.Mask == position<<(r.bits&63) && r.Hash.Fn == nil
}

// FindTied is Find among the points at a key's position. The given point is the first
// of them.
func (r *Points) FindTied(key string, point uint32, position uint64) (uint32, uint64) {
	sum := r.Digests.Key(key)
	for _, t := range r.ranked(r.run(point, position), position) {
		if t.CompareRest(&sum) < 0 {
			point++
		}
	}
	return point, r.Packed[point]
}

// Find returns the first point at or after a position, and its word. If there is
// none, it returns the number of points.
func (r *Points) Find(position uint64) (point uint32, word uint64) {
	target := position << (r.bits & 63)        // the masks spare the compiler
	bucket := position >> ((64 - r.bits) & 63) // a test for shifts of 64 and more
	point, end := r.index[bucket], r.end(bucket)
	// An owner in the low bits does not matter, since those of target are 0.
	if n := end - point; n <= window {
		// How far to go cannot be predicted, so there is no branch: of the next
		// points, those in the bucket and before target are counted.
		next := r.Packed[point:][:window]
		count := less(next[0], target) & less(0, uint64(n))
		count += less(next[1], target) & less(1, uint64(n))
		count += less(next[2], target) & less(2, uint64(n))
		point += count
	} else {
		at, _ := slices.BinarySearch(r.Packed[point:end], target)
		point += uint32(at)
	}
	return point, r.Packed[point]
}

// window is the largest bucket that is searched without a branch, and the number of
// words after the last point.
const window = 3

func less(a, b uint64) uint32 {
	if a < b {
		return 1
	}
	return 0
}

// run returns the points at a position. The given point is the first of them, if
// there are any.
func (r *Points) run(point uint32, position uint64) []uint64 {
	target := position << (r.bits & 63)
	end, last := point, r.end(r.bucket(position))
	for end < last && r.Packed[end]&^r.Mask == target {
		end++
	}
	return r.Packed[point:end]
}

// end returns the first point behind a bucket. The index has no entry behind the last
// bucket. So its size is a power of two, which the runtime does not round up.
func (r *Points) end(bucket uint64) uint32 {
	if next := bucket + 1; next < uint64(len(r.index)) {
		return r.index[next]
	}
	return r.N
}

// unpack returns the position of a word in a bucket.
func (r *Points) unpack(bucket, word uint64) uint64 { return bucket<<(64-r.bits) | word>>r.bits }

func (r *Points) bucket(position uint64) uint64 { return position >> (64 - r.bits) }

// Wrap returns the point, or the first point for the number of points.
func (r *Points) Wrap(point uint32) uint32 {
	if point == r.N {
		return 0
	}
	return point
}

// HomeOf returns the point to which a key belongs.
func (r *Points) HomeOf(key string) uint32 {
	position := r.PositionOf(key)
	point, word := r.Find(position)
	if r.Tied(word, position) {
		point, _ = r.FindTied(key, point, position)
	}
	return r.Wrap(point)
}

// Walk returns the walk of a key.
func (r *Points) Walk(key string) probe.Walk { return probe.Walk{Then: r.HomeOf(key)} }

// Start returns the walk of a key and its position, with which WalkAgain makes the
// walk among other points. It is written out: a call of WalkAgain, which does the
// same, is not inlined and makes a lease take 4 % longer.
func (r *Points) Start(key string) (probe.Walk, uint64) {
	position := r.PositionOf(key)
	point, word := r.Find(position)
	if r.Tied(word, position) {
		point, _ = r.FindTied(key, point, position)
	}
	return probe.Walk{Then: r.Wrap(point)}, position
}

// WalkAgain returns the walk of a position. If bare, the position belongs to no key.
// Otherwise the rest of the key's digest decides among points at that position.
func (r *Points) WalkAgain(position uint64, key string, bare bool) probe.Walk {
	point, word := r.Find(position)
	if !bare && r.Tied(word, position) {
		point, _ = r.FindTied(key, point, position)
	}
	return probe.Walk{Then: r.Wrap(point)}
}

// Digest returns the hash of a key, big-endian.
func (r *Points) Digest(key string) []byte {
	if r.Hash.Fn != nil {
		return binary.BigEndian.AppendUint64(nil, r.Hash.Fn(key))
	}
	sum := r.Digests.Key(key)
	return sum[:]
}

// All yields the points in order, with their positions and owners.
func (r *Points) All() iter.Seq2[uint64, uint32] {
	return func(yield func(uint64, uint32) bool) {
		bucket := uint64(0)
		for i, word := range r.Packed[:r.N] {
			for r.end(bucket) <= uint32(i) {
				bucket++
			}
			if !yield(r.unpack(bucket, word), uint32(word&r.Mask)) {
				return
			}
		}
	}
}

// Spread returns the share of the positions that each placement owns. A point owns
// the positions after the point before, up to its own.
func (r *Points) Spread() []float64 {
	shares := make([]float64, len(r.placements))
	if r.N == 0 {
		return shares
	}
	counts := make([]uint64, len(r.placements))
	before := uint64(0)
	for position, owner := range r.All() {
		counts[owner] += position - before
		before = position
	}
	first := r.At(0)
	counts[first] -= before // it has those after the last one too, modulo 2^64
	for p, count := range counts {
		shares[p] = float64(count) / (1 << 64)
	}
	if counts[first] == 0 { // it has its own position at least: this is all 2^64
		shares[first] = 1
	}
	return shares
}

// Print writes the mapping to names: the position at the end of each run of points
// with the same name, and the name. It gets the hash of a name for each placement, or
// 0 for nobody, whose points do not count. If one name has every position, Print
// returns it, else 0.
func (r *Points) Print(d *xxhash.Digest, names []uint64) (only uint64) {
	var buf [16]byte
	end := func(position, name uint64) {
		binary.BigEndian.PutUint64(buf[:8], position)
		binary.BigEndian.PutUint64(buf[8:], name)
		d.Write(buf[:])
	}
	var first, last, before uint64 // names, and the last one's position
	runs := 0
	for position, owner := range r.All() {
		name := names[owner]
		if name == 0 || r.Hash.Fn != nil && first != 0 && position == before {
			continue // no key leads here: there is none, or one before it at its position
		}
		if first == 0 {
			first = name
		} else if name != last {
			end(before, last)
			runs++
		}
		before, last = position, name
	}
	if last != first { // else the first run goes on across the wrap
		end(before, last)
	}
	if runs > 0 {
		return 0
	}
	return first
}
