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
	core[T, *points]
}

// NewRing returns a ring of those backends, which may be none. The errors are
// those of Add and ErrInvalidOption.
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

// GetBytes is Get for a key of bytes, which the caller may change afterwards.
func (r *Ring[T]) GetBytes(key []byte) (T, error) {
	return r.Get(hashing.StringOf(key))
}

// GetHash is Get for a key that the caller has hashed: the search begins at that
// position, which is compared with the first 64 bits of the points. No seed is
// mixed in. The hashes must be even over all 64 bits: those of 32 bits or small
// integers all lie before the first points and go to one backend.
func (r *Ring[T]) GetHash(hash uint64) (T, error) {
	s := r.now()
	point, _ := s.layout.Find(hash)
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
		return Config{MaxSize: r.maxSize, RingLayout: r.custom}
	}
	return Config{Replicas: int(r.Replicas), UnitWeight: uint32(r.UnitWeight), MaxSize: r.maxSize, Seed: r.Digests.Seed, Hash: r.Hash.Fn}
}

func (r *points) array() *probe.Owners { return &r.Owners }

// A Point is one point of a ring.
type Point struct {
	Position uint64 // the first 64 bits of its hash
	Backend  uint32 // an index in Backends
}

// AppendPoints appends the points of the ring in order, each with the index in
// Backends of the backend that owns it, as Owner has it: that of the point's
// placement which outranks the others, whatever its health. So the points change
// with a change of the membership only, and a program that reads them must know
// itself what is healthy. Without a backend that is not draining, nothing is
// appended.
//
// A hash belongs to the first point whose position is at or after it, and after
// the last one to the first of all; see GetHash. Draining backends have an index,
// but no point. To have the points and Backends of one state while others change
// the structure, ask both of a Clone.
//
// It takes time for each point and allocates only where dst has no room.
func (r *Ring[T]) AppendPoints(dst []Point) []Point {
	l, members := r.frozen()
	dst = slices.Grow(dst, int(l.N))
	for position, owner := range l.All() {
		dst = append(dst, Point{position, uint32(members.owner(int(owner)))})
	}
	return dst
}
