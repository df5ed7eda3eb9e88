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
		Table:   maglev.New(uint32(c.TableSize), hashing.New(hashOfKeys(c.Config), c.Seed), c.Slack),
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

// GetBytes is Get for a key of bytes, which the caller may change afterwards.
func (m *Maglev[T]) GetBytes(key []byte) (T, error) {
	s := m.now()
	return getSlot(s, s.layout.Hash.KeyBytes(key))
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
		return Config{TableSize: int(t.Size()), MaxSize: t.maxSize, TableLayout: t.custom}
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

// TableSizeFor returns a size for WithTableSize that suits a number of backends of
// equal weight: the smallest prime that gives each at least 100 slots, and no less
// than DefaultTableSize. It is MaxTableSize for more than MaxTableSize/100
// backends, which then have fewer slots each. A table does not grow with its
// backends, so ask for the most that there will ever be. For weights that differ,
// ask for their sum divided by the smallest.
//
// The size also decides how even the shares are WithSlack. Without a limit, those of
// 100 equal backends in 65,537 slots are within 7 % of the fair one or so, and with 100
// slots for each of 1,000 backends within 30 %. Ten times as many slots bring that down
// to a third.
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

// AppendTable appends, for each slot of the table, the index in Backends of the
// backend that owns it, as Owner has it: that of the slot's placement which
// outranks the others, whatever its health. So the table changes with a change of
// the membership only, and a program that reads it must know itself what is
// healthy. Without a backend that is not draining, nothing is appended.
//
// A key belongs to the slot of its hash modulo the number of slots; see GetHash.
// Draining backends have an index, but no slot. To have the table and Backends of
// one state while others change the structure, ask both of a Clone.
//
// It takes time for each slot and allocates only where dst has no room.
func (m *Maglev[T]) AppendTable(dst []uint32) []uint32 {
	t, r := m.frozen()
	dst = slices.Grow(dst, int(t.N))
	for slot := range t.N {
		dst = append(dst, uint32(r.owner(int(t.At(slot)))))
	}
	return dst
}
