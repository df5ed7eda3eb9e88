package chash

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Sizes of a Maglev table.
const (
	// DefaultTableSize is the number of slots without WithTableSize: enough for
	// some 650 equal backends within about 1 % of each other.
	DefaultTableSize = 65537

	// MaxTableSize is the largest number of slots. It is a prime. Where an int has 32
	// bits, an eighth of it is the limit.
	MaxTableSize = 1<<31 - 1
)

// A Maglev is a weighted Maglev table (Eisenbud et al., "Maglev: A Fast and
// Reliable Software Network Load Balancer", NSDI 2016, section 3.4): an array of
// slots, each owned by one placement, to which a key leads by one hash. A change
// of the placements lays the slots out anew, in about M log M steps for M slots.
//
// Make one with NewMaglev; the zero value is not usable, and a Maglev must not
// be copied other than with Clone. It is safe for concurrent use by multiple
// goroutines.
type Maglev[T any] struct {
	core[T, *table]
}

// NewMaglev returns a table of those backends, which may be none. The errors are
// those of Add, ErrTableSizeNotPrime and ErrInvalidOption.
func NewMaglev[T any](backends []Backend[T], opts ...MaglevOption) (*Maglev[T], error) {
	c, err := maglevConfig(opts)
	if err != nil {
		return nil, err
	}
	m := new(Maglev[T])
	empty := &table{
		slots:   newDivisor(uint32(c.TableSize)),
		strides: newDivisor(uint32(c.TableSize - 1)),
		hash:    newHasher(hashOfKeys(c.Config), c.Seed),
		slack:   c.Slack,
		custom:  c.TableLayout,
		maxSize: c.MaxSize,
	}
	if err := m.init(empty, c.bound(), backends); err != nil {
		return nil, err
	}
	return m, nil
}

// Clone returns an independent copy, for a snapshot or a what-if. Its cost does not
// depend on the number of backends, since both share what no change writes. The turns
// of Next and the leases of Acquire stay with the original.
func (m *Maglev[T]) Clone() *Maglev[T] {
	clone := new(Maglev[T])
	m.cloneTo(&clone.core)
	return clone
}

// Get returns the value of the key's backend: of the placement that owns the
// key's slot, or, if it has no healthy backend, of the first healthy one in the
// key's order of preference. On an empty table the error is ErrNoBackends,
// without a healthy backend it is ErrNoHealthyBackends. Any string is a key. It
// allocates nothing, takes no lock and costs one hash and one read of a slot,
// and a read more for each unhealthy slot met.
func (m *Maglev[T]) Get(key string) (T, error) {
	s := m.now()
	t := s.layout
	// The usual lookup is written out here: as calls of hasher.key and getSlot,
	// which do the same and are too large to be inlined, it takes a tenth longer.
	var hash uint64
	if t.hash.plain {
		hash = xxhash.Sum64String(key)
	} else {
		hash = t.hash.key(key)
	}
	if s.patchy {
		return getAhead(s, hash)
	}
	if p := t.at(t.home(hash)); s.whole || s.healthy.has(p) {
		return s.values[p], nil
	}
	return getSlot(s, hash)
}

// GetBytes is Get for a key of bytes, which the caller may change afterwards.
func (m *Maglev[T]) GetBytes(key []byte) (T, error) {
	s := m.now()
	return getSlot(s, s.layout.hash.keyBytes(key))
}

// GetHash is Get for a key that the caller has hashed, such as the flow hash of
// a packet. Its slot is the hash modulo the table size; no seed is mixed in. The
// hash of a key is its xxHash64 where there is neither WithSeed nor WithHash.
//
// The hashes must be even modulo the table size, a prime: those of any hash function
// of 32 bits and more are, in whatever bits of the word, and so are integers that are
// counted up. Where the hashes go on from an unhealthy backend depends on all their bits
// mixed, so that it is even for all of them.
func (m *Maglev[T]) GetHash(hash uint64) (T, error) {
	return getSlot(m.now(), hash)
}

// Owner returns the backend to whose placement the key belongs, whatever its
// health: the one that outranks the others of the placement, heaviest first and
// then by name. A writer compares its Value with what Get returns to refuse a
// fallback, be it to another placement or to a lighter backend of the same one.
// Without a backend the error is ErrNoBackends, with none but draining ones it is
// ErrNoHealthyBackends. It takes no lock, allocates nothing, and costs what Get costs and the
// copy of a backend.
func (m *Maglev[T]) Owner(key string) (Backend[T], error) {
	// This is inlined, so that the caller copies the backend once. Returned from a call,
	// it would go through registers and memory first, which takes as long as the lookup.
	b, err := m.owner(key)
	return *b, err
}

// owner returns the backend that Owner returns; with an error, a zero one.
func (m *Maglev[T]) owner(key string) (*Backend[T], error) {
	s := m.now()
	t := s.layout
	var hash uint64 // as in Get
	if t.hash.plain {
		hash = xxhash.Sum64String(key)
	} else {
		hash = t.hash.key(key)
	}
	if p := t.at(t.home(hash)); p != none {
		return s.ownerOf(p), nil
	}
	return &m.nobody, s.empty
}

func getSlot[T any](s *snapshot[T, *table], hash uint64) (T, error) {
	if !s.patchy {
		if p := s.layout.at(s.layout.home(hash)); s.healthy.has(p) {
			return s.values[p], nil
		}
	}
	return getAhead(s, hash)
}

// getAhead is getSlot where the home is not healthy or it cannot be predicted whether
// it is.
func getAhead[T any](s *snapshot[T, *table], hash uint64) (T, error) {
	if s.live == 0 {
		return s.fail()
	}
	home, stride := s.layout.begin(hash)
	p, passed := s.ahead(home, stride, hops)
	if passed == hops {
		var more int
		p, more = s.nearest(s.layout.last(hash))
		passed += more
	}
	if sampled(hash) {
		s.note(passed)
	}
	return s.values[p], nil
}

// A table is the layout of a Maglev.
type table struct {
	owners
	slots   divisor // by the number of slots
	strides divisor // by one less
	hash    hasher
	custom  *TableLayout
	maxSize int // see WithMaxSize: of slots, so that it says nothing any more

	// Of a table with slack.
	slack      *float64
	placements []placement
	latest     claim // no slot was won later; without a limit only
}

// empty returns a table of the same options without owners.
func (t *table) empty() *table {
	return &table{slots: t.slots, strides: t.strides, hash: t.hash, slack: t.slack, custom: t.custom, maxSize: t.maxSize}
}

func (t *table) config() Config {
	if t.custom != nil {
		return Config{TableSize: int(t.slots.n), MaxSize: t.maxSize, TableLayout: t.custom}
	}
	var slack *float64
	if t.slack != nil {
		e := *t.slack // the caller may write to it
		slack = &e
	}
	return Config{TableSize: int(t.slots.n), MaxSize: t.maxSize, Slack: slack, Seed: t.hash.seed, Hash: t.hash.fn}
}

func (t *table) array() *owners { return &t.owners }

func (t *table) digest(key string) []byte {
	return binary.BigEndian.AppendUint64(nil, t.hash.key(key))
}

func (t *table) spread() []float64 {
	shares := make([]float64, len(t.counts))
	for p, count := range t.counts {
		shares[p] = float64(count) / float64(t.n)
	}
	return shares
}

// print writes the name that owns each slot. There are several.
func (t *table) print(d *xxhash.Digest, names []uint64) (only uint64) {
	var buf [512]byte
	part := buf[:0]
	for slot := range t.n {
		part = binary.BigEndian.AppendUint64(part, names[t.at(slot)])
		if len(part) == len(buf) || slot == t.n-1 {
			d.Write(part)
			part = buf[:0]
		}
	}
	return 0
}

func (t *table) kind() string { return "Maglev" }
func (t *table) unit() string { return "slots" }

func (t *table) homeOf(key string) uint32 { return t.home(t.hash.key(key)) }

func (t *table) walk(key string) walk { return t.walkOf(t.hash.key(key)) }

func (t *table) start(key string) (walk, uint64) {
	hash := t.hash.key(key)
	return t.walkOf(hash), hash
}

func (t *table) walkAgain(hash uint64, _ string, _ bool) walk { return t.walkOf(hash) }

// home returns the slot of a hash.
func (t *table) home(hash uint64) uint32 {
	_, slot := t.slots.divmod(hash)
	return slot
}

// probes is how many slots a lookup tries by the key's own stride after the home
// slot. Slots of one placement lie in arithmetic progressions, so that neighbours
// are correlated; a stride of the key's own hands a dead backend's keys out
// evenly. After so many misses few are healthy and the order matters less than an
// end to the search.
const probes = 64

// hops counts the home slot in.
const hops = 1 + probes

// scatter is 2^64 divided by the golden ratio, made odd: multiplied by it, hashes
// with one home slot begin the last part of the walk far from each other.
const scatter = 0x9E3779B97F4A7C15

// begin returns the home slot of a hash and its stride. The stride comes from all bits
// of the hash, mixed: hashes of the caller's may have few that differ, and then a
// quotient of the hash would give most of them one stride.
func (t *table) begin(hash uint64) (home, stride uint32) {
	_, stride = t.strides.divmod(mix(hash))
	return t.home(hash), stride + 1
}

// last returns the slot where the last part of the walk begins.
func (t *table) last(hash uint64) uint32 { return t.home(hash * scatter) }

func (t *table) walkOf(hash uint64) walk {
	home, stride := t.begin(hash)
	return walk{
		pos:    home,
		stride: stride,
		hops:   hops,
		then:   t.last(hash),
	}
}

// A divisor divides by n, from 1 to 2^31, without a division instruction.
type divisor struct {
	n          uint32
	reciprocal uint64 // floor((2^64-1) / n)
}

func newDivisor(n uint32) divisor { return divisor{n, ^uint64(0) / uint64(n)} }

// divmod returns x/n and x%n.
//
// The estimate x*reciprocal/2^64 is at most the quotient, and short of it by at
// most 1: n*reciprocal is at least 2^64-n, so x/n exceeds the estimate before
// rounding by at most x/2^64, which is below 1.
func (d *divisor) divmod(x uint64) (quotient uint64, remainder uint32) {
	quotient, _ = bits.Mul64(x, d.reciprocal)
	rest := x - quotient*uint64(d.n)
	if rest >= uint64(d.n) {
		rest -= uint64(d.n)
		quotient++
	}
	return quotient, uint32(rest)
}
