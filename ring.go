package chash

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Sizes of a ring.
const (
	// DefaultReplicas is the number of points without WithReplicas, for each unit
	// of a backend's weight. The shares of equal backends then stray from the
	// ideal by about 8 % (standard deviation).
	DefaultReplicas = 160

	// MaxRingPoints is the largest number of points, of all backends together.
	MaxRingPoints = 1 << 26
)

// A Ring is a hash ring of virtual nodes (Karger et al., "Consistent Hashing and
// Random Trees", STOC 1997): each placement has points on it, at the SHA-256 of
// its hash key and a number, and a key belongs to the first point at or after its
// own SHA-256. A backend that comes or grows heavier only takes keys, one that goes
// or grows lighter only gives some up, and no other key moves.
//
// Make one with NewRing; the zero value is not usable, and a Ring must not be
// copied other than with Clone. It is safe for concurrent use by multiple
// goroutines.
type Ring[T any] struct {
	core[T, *ring]
}

// NewRing returns a ring of those backends, which may be none. The errors are
// those of Add and ErrInvalidOption.
func NewRing[T any](backends []Backend[T], opts ...RingOption) (*Ring[T], error) {
	c, err := ringConfig(opts)
	if err != nil {
		return nil, err
	}
	r := new(Ring[T])
	options := &ring{
		replicas:   uint64(c.Replicas),
		unitWeight: uint64(c.UnitWeight),
		maxSize:    c.MaxSize,
		hash:       newHasher(hashOfKeys(c.Config), 0),
		custom:     c.RingLayout,
		digests:    digester{seed: c.Seed, mask: ^c.blind},
	}
	if err := r.init(options.empty(1), c.bound(), backends); err != nil {
		return nil, err
	}
	return r, nil
}

// Clone returns an independent copy, for a snapshot or a what-if. Its cost does not
// depend on the number of backends, since both share what no change writes. The turns
// of Next and the leases of Acquire stay with the original.
func (r *Ring[T]) Clone() *Ring[T] {
	clone := new(Ring[T])
	r.cloneTo(&clone.core)
	return clone
}

// Get returns the value of the key's backend: of the placement that owns the
// first point at or after the key's, or, if it has no healthy backend, of the
// first healthy one in the key's order of preference. On an empty ring the error
// is ErrNoBackends, without a healthy backend it is ErrNoHealthyBackends. Any
// string is a key. It allocates nothing, takes no lock and costs one SHA-256 or
// hash of the caller's, a search of expected constant time, and a read more for
// each unhealthy point met.
func (r *Ring[T]) Get(key string) (T, error) {
	s := r.now()
	l := s.layout
	// The usual lookup is written out here: as calls of locate and getPoint, which
	// do the same and are too large to be inlined, it takes a tenth longer.
	var position, word uint64
	var point uint32
	if l.hash.fn != nil {
		position = l.hash.fn(key)
		point, word = l.find(position)
	} else {
		position = l.digests.keyPosition(key)
		point, word = l.find(position)
		if l.tied(word, position) {
			point, word = l.findTied(key, point, position)
		}
	}
	if p := uint32(word & l.mask); s.healthy.has(p) {
		return s.values[p], nil
	}
	return getPoint(s, point, position)
}

// GetBytes is Get for a key of bytes, which the caller may change afterwards.
func (r *Ring[T]) GetBytes(key []byte) (T, error) {
	return r.Get(stringOf(key))
}

// GetHash is Get for a key that the caller has hashed: the search begins at that
// position, which is compared with the first 64 bits of the points. No seed is
// mixed in. The hashes must be even over all 64 bits: those of 32 bits or small
// integers all lie before the first points and go to one backend.
func (r *Ring[T]) GetHash(hash uint64) (T, error) {
	s := r.now()
	point, _ := s.layout.find(hash)
	return getPoint(s, point, hash)
}

// Owner returns the backend to whose placement the key belongs, whatever its
// health: the one that outranks the others of the placement, heaviest first and
// then by name. A writer compares its Value with what Get returns to refuse a
// fallback, be it to another placement or to a lighter backend of the same one.
// Without a backend the error is ErrNoBackends, with none but draining ones it is
// ErrNoHealthyBackends. It takes no lock, allocates nothing, and costs what Get costs and the
// copy of a backend.
func (r *Ring[T]) Owner(key string) (Backend[T], error) {
	b, err := r.owner(key) // and this is inlined: see Owner of a Maglev
	return *b, err
}

// owner returns the backend that Owner returns; with an error, a zero one.
func (r *Ring[T]) owner(key string) (*Backend[T], error) {
	s := r.now()
	if s.layout.n == 0 {
		return &r.nobody, s.empty
	}
	return s.ownerOf(s.layout.at(s.layout.homeOf(key))), nil
}

func getPoint[T any](s *snapshot[T, *ring], point uint32, position uint64) (T, error) {
	if p := uint32(s.layout.packed[point] & s.layout.mask); s.healthy.has(p) {
		return s.values[p], nil
	}
	if s.live == 0 {
		return s.fail()
	}
	p, passed := s.nearest(s.layout.wrap(point))
	if sampled(position) {
		s.note(passed)
	}
	return s.values[p], nil
}

func (r *ring) kind() string { return "Ring" }
func (r *ring) unit() string { return "points" }

func (r *ring) homeOf(key string) uint32 {
	position := r.position(key)
	point, word := r.find(position)
	if r.tied(word, position) {
		point, _ = r.findTied(key, point, position)
	}
	return r.wrap(point)
}

func (r *ring) walk(key string) walk { return walk{then: r.homeOf(key)} }

// start is written out: as a call of walkAgain, which does the same and is too large to
// be inlined, a lease takes 4 % longer.
func (r *ring) start(key string) (walk, uint64) {
	position := r.position(key)
	point, word := r.find(position)
	if r.tied(word, position) {
		point, _ = r.findTied(key, point, position)
	}
	return walk{then: r.wrap(point)}, position
}

// walkAgain begins at the first point at or after the position: for a key by the rest
// of its digest too, where that decides.
func (r *ring) walkAgain(position uint64, key string, bare bool) walk {
	point, word := r.find(position)
	if !bare && r.tied(word, position) {
		point, _ = r.findTied(key, point, position)
	}
	return walk{then: r.wrap(point)}
}

// wrap returns the point, or the first one for the number of points.
func (r *ring) wrap(point uint32) uint32 {
	if point == r.n {
		return 0
	}
	return point
}

func (r *ring) config() Config {
	if r.custom != nil {
		return Config{MaxSize: r.maxSize, RingLayout: r.custom}
	}
	return Config{Replicas: int(r.replicas), UnitWeight: uint32(r.unitWeight), MaxSize: r.maxSize, Seed: r.digests.seed, Hash: r.hash.fn}
}

func (r *ring) array() *owners { return &r.owners }

func (r *ring) digest(key string) []byte {
	if r.hash.fn != nil {
		return binary.BigEndian.AppendUint64(nil, r.hash.fn(key))
	}
	sum := r.digests.key(key)
	return sum[:]
}

// all yields the points in order, with their positions and owners.
func (r *ring) all() iter.Seq2[uint64, uint32] {
	return func(yield func(uint64, uint32) bool) {
		bucket := uint64(0)
		for i, word := range r.packed[:r.n] {
			for r.end(bucket) <= uint32(i) {
				bucket++
			}
			if !yield(r.unpack(bucket, word), uint32(word&r.mask)) {
				return
			}
		}
	}
}

// spread counts for each point the positions after the one before, up to its own.
func (r *ring) spread() []float64 {
	counts := make([]count, len(r.placements))
	shares := make([]float64, len(r.placements))
	if r.n == 0 {
		return shares
	}
	before := uint64(0)
	for position, owner := range r.all() {
		counts[owner].lo += position - before
		before = position
	}
	// The first point has those after the last one too, modulo 2^64. It has at
	// least its own, so that 0 stands for all 2^64.
	first := &counts[r.at(0)]
	if first.lo -= before; first.lo == 0 {
		*first = positions
	}
	for p, count := range counts {
		shares[p] = count.share(positions)
	}
	return shares
}

// print writes the position at the end of each run of points with one name.
// Points of nobody do not count: lookups go on to the next.
func (r *ring) print(d *xxhash.Digest, names []uint64) (only uint64) {
	var buf [16]byte
	end := func(position, name uint64) {
		binary.BigEndian.PutUint64(buf[:8], position)
		binary.BigEndian.PutUint64(buf[8:], name)
		d.Write(buf[:])
	}
	var first, last, before uint64 // names, and the last one's position
	runs := 0
	for position, owner := range r.all() {
		name := names[owner]
		if name == 0 || r.hash.fn != nil && first != 0 && position == before {
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

// A ring is the layout of a Ring: points, sorted by position, each packed into
// one word, so that a lookup reads few cache lines.
//
// The top bits of a position number its bucket, and index[b] is the first point
// in bucket b or after it. Within a bucket those bits say nothing, so they are
// shifted out, and the bits that this frees at the bottom hold the owner:
// nothing of the position is lost.
//
// A few words of ones follow the last point, for find to run into; the first of
// them has the owner of point 0, where the ring closes.
type ring struct {
	owners
	index      []uint32 // by bucket
	bits       uint     // of a bucket number, 1 to 26
	placements []placement
	replicas   uint64
	unitWeight uint64   // of weight, that has so many points
	maxSize    int      // see WithMaxSize
	hash       hasher   // if it has a function, of 64-bit positions
	digests    digester // else
	custom     *RingLayout
}

// position returns the position of a key.
func (r *ring) position(key string) uint64 {
	if r.hash.fn != nil {
		return r.hash.fn(key)
	}
	return r.digests.keyPosition(key)
}

// tied reports whether the word that find returned for a position may be at that
// position and the rest of a digest has to decide.
func (r *ring) tied(word, position uint64) bool {
	return word&^r.mask == position<<(r.bits&63) && r.hash.fn == nil
}

// findTied is find among the points at a key's position, if there are any, of
// which the given one is the first.
func (r *ring) findTied(key string, point uint32, position uint64) (uint32, uint64) {
	sum := r.digests.key(key)
	for _, t := range r.ranked(r.run(point, position), position) {
		if t.compareRest(&sum) < 0 {
			point++
		}
	}
	return point, r.packed[point]
}

// find returns the first point at or after a position, the number of points if
// there is none, and its word.
func (r *ring) find(position uint64) (point uint32, word uint64) {
	target := position << (r.bits & 63)        // the masks spare the compiler
	bucket := position >> ((64 - r.bits) & 63) // a test for shifts of 64 and more
	point, end := r.index[bucket], r.end(bucket)
	// An owner in the low bits does not matter, since those of target are 0.
	if n := end - point; n <= window {
		// How far to go cannot be predicted, so there is no branch: of the next
		// points, those in the bucket and before target are counted.
		next := r.packed[point:][:window]
		count := less(next[0], target) & less(0, uint64(n))
		count += less(next[1], target) & less(1, uint64(n))
		count += less(next[2], target) & less(2, uint64(n))
		point += count
	} else {
		at, _ := slices.BinarySearch(r.packed[point:end], target)
		point += uint32(at)
	}
	return point, r.packed[point]
}

// window is the number of points up to which a bucket is searched without a
// branch, and how many words follow the last point.
const window = 3

func less(a, b uint64) uint32 {
	if a < b {
		return 1
	}
	return 0
}

// run returns the points at a position, of which the given one is the first if
// there are any.
func (r *ring) run(point uint32, position uint64) []uint64 {
	target := position << (r.bits & 63)
	end, last := point, r.end(r.bucket(position))
	for end < last && r.packed[end]&^r.mask == target {
		end++
	}
	return r.packed[point:end]
}

// end returns the first point behind a bucket. The index does not have the number
// of points behind the last one: so its size is a power of two, which the runtime
// need not round up.
func (r *ring) end(bucket uint64) uint32 {
	if next := bucket + 1; next < uint64(len(r.index)) {
		return r.index[next]
	}
	return r.n
}

// unpack returns the position of a word in a bucket.
func (r *ring) unpack(bucket, word uint64) uint64 { return bucket<<(64-r.bits) | word>>r.bits }

func (r *ring) bucket(position uint64) uint64 { return position >> (64 - r.bits) }
