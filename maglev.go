package chash

import (
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/maglev"
	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// Sizes of a Maglev table.
const (
	// DefaultTableSize is enough for about 650 equal backends with shares within 1 %.
	DefaultTableSize = 65537

	// MaxTableSize is a prime. Where an int has 32 bits, the limit is an eighth of
	// it.
	MaxTableSize = 1<<31 - 1
)

// A Maglev is a table of slots (Eisenbud et al., "Maglev: A Fast and Reliable
// Software Network Load Balancer", NSDI 2016, section 3.4), with weights. The hash of
// a key leads to a slot, and each slot belongs to a placement. A change of the
// placements fills all slots again, in about M log M steps for M slots. Make one with
// NewMaglev, and copy it only with Clone. It is safe for concurrent use.
type Maglev[T any] struct {
	core[T, *table]
}

// NewMaglev returns a table of the backends, which may be none. The errors are those
// of Add, ErrTableSizeNotPrime, ErrInvalidOption, and those of a TableLayout.
func NewMaglev[T any](backends []Backend[T], opts ...MaglevOption) (*Maglev[T], error) {
	c, err := maglevConfig(opts)
	if err != nil {
		return nil, err
	}
	m := new(Maglev[T])
	empty := &table{
		Table:   maglev.New(uint32(c.TableSize), hashing.New(hashOfKeys(c.Config), c.Seed), c.Slack),
		custom:  c.TableLayout,
		maxSize: c.MaxSize,
	}
	if err := m.init(empty, c.bound(), backends); err != nil {
		return nil, err
	}
	return m, nil
}

// Clone returns an independent copy, in a time that does not depend on the number of
// backends. The turns of Next and the leases stay with the original.
func (m *Maglev[T]) Clone() *Maglev[T] {
	clone := new(Maglev[T])
	m.cloneTo(&clone.core)
	return clone
}

// Get returns the value of the key's backend. If the placement of the key's slot has
// no healthy backend, it is the first healthy one in the key's order of preference.
// Any string is a key. The error is ErrNoBackends without a backend, and
// ErrNoHealthyBackends without a healthy one. Get allocates nothing and takes no
// lock. It costs one hash and one read of a slot, and another read for each unhealthy
// slot met.
func (m *Maglev[T]) Get(key string) (T, error) {
	s := m.now()
	t := s.layout
	// The usual lookup is written out here: as calls of Hash.Key and getSlot,
	// which do the same and are too large to be inlined, it takes a tenth longer.
	var hash uint64
	if t.Hash.Plain {
		hash = xxhash.Sum64String(key)
	} else {
		hash = t.Hash.Key(key)
	}
	if s.Patchy {
		return getAhead(s, hash)
	}
	if p := t.At(t.Home(hash)); s.Whole || s.Healthy.Has(p) {
		return s.values[p], nil
	}
	return getSlot(s, hash)
}

// GetBytes is Get for a key of bytes.
func (m *Maglev[T]) GetBytes(key []byte) (T, error) {
	s := m.now()
	return getSlot(s, s.layout.Hash.KeyBytes(key))
}

// GetHash is Get for a hash, such as the flow hash of a packet. The slot is the hash
// modulo the table size, and no seed is mixed in. Without WithSeed and WithHash, the
// hash of a key is its xxHash64. Hashes must be even modulo the table size, a prime:
// those of any hash function of at least 32 bits are, and successive integers too.
func (m *Maglev[T]) GetHash(hash uint64) (T, error) {
	return getSlot(m.now(), hash)
}

// Owner returns the backend to which the key belongs, whatever its health. If
// backends share the placement, it is the heaviest, among equals the first by name. A
// store can refuse a write for which Get returns another value. The error is
// ErrNoBackends without a backend, and ErrNoHealthyBackends if all are Draining. It
// costs a Get and a copy of the backend.
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
	if t.Hash.Plain {
		hash = xxhash.Sum64String(key)
	} else {
		hash = t.Hash.Key(key)
	}
	if p := t.At(t.Home(hash)); p != probe.None {
		return s.ownerOf(p), nil
	}
	return &m.nobody, s.empty
}

func getSlot[T any](s *snapshot[T, *table], hash uint64) (T, error) {
	if !s.Patchy {
		if p := s.layout.At(s.layout.Home(hash)); s.Healthy.Has(p) {
			return s.values[p], nil
		}
	}
	return getAhead(s, hash)
}

// getAhead is getSlot where the home is not healthy or it cannot be predicted whether
// it is.
func getAhead[T any](s *snapshot[T, *table], hash uint64) (T, error) {
	if s.Live == 0 {
		return s.fail()
	}
	home, stride := s.layout.Begin(hash)
	p, passed := s.Ahead(home, stride, maglev.Hops)
	if passed == maglev.Hops {
		var more int
		p, more = s.Nearest(s.layout.Last(hash))
		passed += more
	}
	if sampled(hash) {
		s.note(passed)
	}
	return s.values[p], nil
}

// A table is the layout of a Maglev.
type table struct {
	maglev.Table
	custom  *TableLayout
	maxSize int // see WithMaxSize
}

// with returns a table of the same options with other slots.
func (t *table) with(slots *maglev.Table) *table { return &table{*slots, t.custom, t.maxSize} }

func (t *table) lay(placements []probe.Placement) (*table, error) {
	if t.custom != nil && len(placements) > 0 {
		return t.layCustom(placements)
	}
	if uint64(len(placements)) > uint64(t.Size()) {
		return nil, fmt.Errorf("%w: %d placements, %d slots", ErrTooManyBackends, len(placements), t.Size())
	}
	return t.with(t.Fill(placements)), nil
}

func (t *table) config() Config {
	if t.custom != nil {
		custom := *t.custom // the caller may write to it
		return Config{TableSize: int(t.Size()), MaxSize: t.maxSize, TableLayout: &custom}
	}
	var slack *float64
	if t.Slack != nil {
		e := *t.Slack // the caller may write to it
		slack = &e
	}
	return Config{TableSize: int(t.Size()), MaxSize: t.maxSize, Slack: slack, Seed: t.Hash.Seed, Hash: t.Hash.Fn}
}

func (t *table) array() *probe.Owners { return &t.Owners }

func (t *table) kind() string { return "Maglev" }
func (t *table) unit() string { return "slots" }

// slotsPerBackend keep the shares of equal backends within about 1 % of each
// other.
const slotsPerBackend = 100

// TableSizeFor returns a table size for a number of equal backends: the smallest
// prime with at least 100 slots for each, from DefaultTableSize to MaxTableSize. A
// table does not grow, so give the largest number that there will be. For different
// weights, give their sum divided by the smallest. With WithSlack and no limit,
// shares are then within about 30 % of the fair one. Ten times as many slots reduce
// that to a third.
func TableSizeFor(backends int) int {
	if backends > MaxTableSize/slotsPerBackend {
		return MaxTableSize
	}
	return modular.PrimeFrom(max(slotsPerBackend*max(backends, 0), DefaultTableSize))
}

// maxSlots is MaxTableSize, but where an int has 32 bits a table of 4 bytes a slot has
// to fit the address space.
const maxSlots = min(MaxTableSize, math.MaxInt>>3)

// validateTableSize checks a table size against the limit, which is at most maxSlots.
func validateTableSize(m, limit int) error {
	if m > limit {
		return invalidOption("table size %d, the limit is %d", m, limit)
	}
	if modular.IsPrime(m) {
		return nil
	}
	above := modular.PrimeFrom(m)
	if m < 2 {
		return fmt.Errorf("%w: %d, the smallest prime is %d", ErrTableSizeNotPrime, m, above)
	}
	below := m
	for !modular.IsPrime(below) {
		below--
	}
	return fmt.Errorf("%w: %d, the nearest primes are %d and %d", ErrTableSizeNotPrime, m, below, above)
}

// AppendTable appends, for each slot, the index in Backends of the backend that owns
// it, as in Owner, whatever its health. Without a placement it appends nothing. A key
// belongs to the slot of its hash modulo the number of slots: see GetHash. Draining
// backends have an index but no slot. To get the table and Backends of the same
// state, call both on a Clone. It takes time for each slot, and allocates only if dst
// has no room.
func (m *Maglev[T]) AppendTable(dst []uint32) []uint32 {
	t, r := m.frozen()
	dst = slices.Grow(dst, int(t.N))
	for slot := range t.N {
		dst = append(dst, uint32(r.owner(int(t.At(slot)))))
	}
	return dst
}
