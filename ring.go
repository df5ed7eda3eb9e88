package chash

import (
	"fmt"
	"slices"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
	"github.com/chash-go/chash/internal/ring"
)

// Sizes of a ring.
const (
	// DefaultReplicas is the number of points for each unit of weight. The shares of
	// equal backends then have a standard deviation of about 8 %.
	DefaultReplicas = 160

	// MaxRingPoints is the largest number of points of all backends together.
	MaxRingPoints = 1 << 26
)

// A Ring is a hash ring with virtual nodes (Karger et al., "Consistent Hashing and
// Random Trees", STOC 1997). Each placement has points, at the SHA-256 of its hash
// key and a number. A key belongs to the first point at or after its own SHA-256. A
// backend that is added or gets heavier only takes keys. A backend that is removed or
// gets lighter only gives keys. No other key moves. Make one with NewRing, and copy
// it only with Clone. It is safe for concurrent use.
type Ring[T any] struct {
	core[T, *points]
}

// NewRing returns a ring of the backends, which may be none. The errors are those of
// Add, ErrInvalidOption, and those of a RingLayout.
func NewRing[T any](backends []Backend[T], opts ...RingOption) (*Ring[T], error) {
	c, err := ringConfig(opts)
	if err != nil {
		return nil, err
	}
	r := new(Ring[T])
	empty := &points{
		Points: ring.New(uint64(c.Replicas), uint64(c.UnitWeight),
			hashing.New(hashOfKeys(c.Config), 0), hashing.Digester{Seed: c.Seed, Mask: ^c.blind}),
		maxSize: c.MaxSize,
		custom:  c.RingLayout,
	}
	if err := r.init(empty, c.bound(), backends); err != nil {
		return nil, err
	}
	return r, nil
}

// Clone returns an independent copy, in a time that does not depend on the number of
// backends. The turns of Next and the leases stay with the original.
func (r *Ring[T]) Clone() *Ring[T] {
	clone := new(Ring[T])
	r.cloneTo(&clone.core)
	return clone
}

// Get returns the value of the key's backend. If the placement of the key's point has
// no healthy backend, it is the first healthy one in the key's order of preference.
// Any string is a key. The error is ErrNoBackends without a backend, and
// ErrNoHealthyBackends without a healthy one. Get allocates nothing and takes no
// lock. It costs one SHA-256 or hash of WithHash, a search of expected constant time,
// and another read for each unhealthy point met.
func (r *Ring[T]) Get(key string) (T, error) {
	s := r.now()
	l := s.layout
	// The usual lookup is written out here: as calls of locate and getPoint, which
	// do the same and are too large to be inlined, it takes a tenth longer.
	var position, word uint64
	var point uint32
	if l.Hash.Fn != nil {
		position = l.Hash.Fn(key)
		point, word = l.Find(position)
	} else {
		position = l.Digests.KeyPosition(key)
		point, word = l.Find(position)
		if l.Tied(word, position) {
			point, word = l.FindTied(key, point, position)
		}
	}
	if p := uint32(word & l.Mask); s.Healthy.Has(p) {
		return s.values[p], nil
	}
	return getPoint(s, point, position)
}

// GetBytes is Get for a key of bytes.
func (r *Ring[T]) GetBytes(key []byte) (T, error) {
	return r.Get(hashing.StringOf(key))
}

// GetHash is Get for a hash, which is compared with the first 64 bits of the points.
// No seed is mixed in. Hashes must be even over all 64 bits: small integers and
// hashes of 32 bits all go to one backend.
func (r *Ring[T]) GetHash(hash uint64) (T, error) {
	s := r.now()
	point, _ := s.layout.Find(hash)
	return getPoint(s, point, hash)
}

// Owner returns the backend to which the key belongs, whatever its health. If
// backends share the placement, it is the heaviest, among equals the first by name. A
// store can refuse a write for which Get returns another value. The error is
// ErrNoBackends without a backend, and ErrNoHealthyBackends if all are Draining. It
// costs a Get and a copy of the backend.
func (r *Ring[T]) Owner(key string) (Backend[T], error) {
	b, err := r.owner(key) // and this is inlined: see Owner of a Maglev
	return *b, err
}

// owner returns the backend that Owner returns; with an error, a zero one.
func (r *Ring[T]) owner(key string) (*Backend[T], error) {
	s := r.now()
	if s.layout.N == 0 {
		return &r.nobody, s.empty
	}
	return s.ownerOf(s.layout.At(s.layout.HomeOf(key))), nil
}

func getPoint[T any](s *snapshot[T, *points], point uint32, position uint64) (T, error) {
	if p := uint32(s.layout.Packed[point] & s.layout.Mask); s.Healthy.Has(p) {
		return s.values[p], nil
	}
	if s.Live == 0 {
		return s.fail()
	}
	p, passed := s.Nearest(s.layout.Wrap(point))
	if sampled(position) {
		s.note(passed)
	}
	return s.values[p], nil
}

// points are the layout of a Ring.
type points struct {
	ring.Points
	maxSize int // see WithMaxSize
	custom  *RingLayout
}

// with returns a layout of the same options with other points.
func (r *points) with(other *ring.Points) *points { return &points{*other, r.maxSize, r.custom} }

func (r *points) lay(placements []probe.Placement) (*points, error) {
	if r.custom != nil && len(placements) > 0 {
		return r.layCustom(placements)
	}
	if err := r.validateCount(placements); err != nil {
		return nil, err
	}
	return r.with(r.Place(placements)), nil
}

// validateCount checks how many points placements have.
func (r *points) validateCount(placements []probe.Placement) error {
	var points, weight uint64 // cannot overflow: there are fewer than 2^32 placements
	for i := range placements {
		points += min(r.PointsOf(placements[i].Weight), MaxRingPoints+1)
		weight += uint64(placements[i].Weight)
	}
	options := r.config()
	if limit := options.sizeLimit(MaxRingPoints); points > uint64(limit) {
		return fmt.Errorf("%w: %d replicas for each %d of a total weight of %d, the limit is %d points",
			ErrRingTooLarge, r.Replicas, r.UnitWeight, weight, limit)
	}
	return nil
}

func (r *points) kind() string { return "Ring" }
func (r *points) unit() string { return "points" }

func (r *points) config() Config {
	if r.custom != nil {
		custom := *r.custom // the caller may write to it
		return Config{MaxSize: r.maxSize, RingLayout: &custom}
	}
	return Config{Replicas: int(r.Replicas), UnitWeight: uint32(r.UnitWeight), MaxSize: r.maxSize, Seed: r.Digests.Seed, Hash: r.Hash.Fn}
}

func (r *points) array() *probe.Owners { return &r.Owners }

// A Point is one point of a ring.
type Point struct {
	Position uint64 // the first 64 bits of its hash
	Backend  uint32 // an index in Backends
}

// AppendPoints appends all points in order, each with the index in Backends of the
// backend that owns it, as in Owner, whatever its health. Without a placement it
// appends nothing. A hash belongs to the first point at or after it, and after the
// last point to the first: see GetHash. Draining backends have an index but no point.
// To get the points and Backends of the same state, call both on a Clone. It takes
// time for each point, and allocates only if dst has no room.
func (r *Ring[T]) AppendPoints(dst []Point) []Point {
	l, members := r.frozen()
	dst = slices.Grow(dst, int(l.N))
	for position, owner := range l.All() {
		dst = append(dst, Point{position, uint32(members.owner(int(owner)))})
	}
	return dst
}
