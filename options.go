package chash

import (
	"fmt"
	"math"
	"strconv"

	"github.com/chash-go/chash/internal/load"
)

// A MaglevOption sets something of a [Maglev]. A nil option sets nothing, and of
// several that set the same the last one counts.
type MaglevOption interface{ setMaglev(*config) }

// A RingOption sets something of a [Ring]. A nil option sets nothing, and of
// several that set the same the last one counts.
type RingOption interface{ setRing(*config) }

// An Option sets something that a [Maglev] and a [Ring] have in common.
type Option interface {
	MaglevOption
	RingOption
}

// Options joins several options to one. So a []Option fits both constructors:
//
//	table, err := chash.NewMaglev(backends, chash.Options(opts...))
//	ring, err := chash.NewRing(backends, chash.Options(opts...))
func Options(opts ...Option) Option {
	return option(func(c *config) {
		for _, o := range opts {
			if o != nil {
				o.setMaglev(c) // which is what setRing does
			}
		}
	})
}

// WithTableSize sets the number of slots of a Maglev table, a prime from 2 to
// MaxTableSize; the default is DefaultTableSize. At least 100 slots for each
// backend keep the shares of equal backends within about 1 % of each other, as
// TableSizeFor computes. A size that is too large is ErrInvalidOption, any other
// that is not a prime is ErrTableSizeNotPrime.
func WithTableSize(m int) MaglevOption {
	return maglevOption(func(c *config) { c.TableSize, c.sizeGiven = m, true })
}

// WithSlack fills the table in another way, which moves fewer keys that need not move
// and lets shares be less even: a backend may have e of its fair share more than that,
// so up to 1.05 times the fair share for an e of 0.05. The package comment says when
// to take which. It is another mapping than that of a table without WithSlack, also
// for an e of 0, and each e has its own.
//
// An e of 0 keeps the shares as even as they are without WithSlack, 0.01 is a good
// start, and with math.Inf(1) there is no limit: then no key moves that need not
// move, as on a ring, and Add, Remove and SetWeight take a part of the time of a
// rebuild. The table rounds e to a multiple of 1/65536; from 2^31 on there is no
// limit. A negative e and NaN are ErrInvalidOption.
//
// Where the fair share is but a few slots, a placement may have none. Its backends
// have no keys of their own then: they are last in each key's order of preference.
func WithSlack(e float64) MaglevOption {
	return maglevOption(func(c *config) { c.Slack = &e })
}

// WithReplicas sets the number of points that a ring has for each unit of a backend's
// weight, from 1 to MaxRingPoints, else ErrInvalidOption; the default is
// DefaultReplicas. The share of a backend strays from the ideal by about 1/sqrt(n) of
// it. A point costs up to 16 bytes, and some 100 ns when it comes or goes. So a backend
// of weight 1,000 takes 2.5 MB and 16 ms: for weights that large, see WithUnitWeight.
func WithReplicas(n int) RingOption {
	return ringOption(func(c *config) { c.Replicas = n })
}

// WithUnitWeight sets the weight that has as many points as WithReplicas says, at least
// 1, else ErrInvalidOption; the default is 1. For weights in thousandths of a processor,
// say, 1000 gives a backend of one processor the usual number of points, and 500 gives
// it twice as many.
//
// A placement of weight w has replicas*w/unit points, rounded to the nearest number,
// halves up, and at least 1. That number depends on its own weight alone, so that a
// change of one weight moves no keys between the others. Keep replicas*w/unit at 10 and
// more for the smallest weight: rounding makes shares of fewer points coarse.
func WithUnitWeight(w uint32) RingOption {
	return ringOption(func(c *config) { c.UnitWeight = w })
}

// WithMaxSize bounds what a structure may cost: it refuses to have more than n slots or
// points, before it allocates any. A table size above n is ErrInvalidOption. A ring
// refuses backends or weights that would give it more points with ErrRingTooLarge, also
// in later changes. Without it, or with 0, MaxTableSize and MaxRingPoints are the
// bounds, and DefaultMaxSize for what UnmarshalMaglev and UnmarshalRing read. A
// negative n is ErrInvalidOption.
func WithMaxSize(n int) Option {
	return option(func(c *config) { c.MaxSize = n })
}

// DefaultMaxSize is the most slots or points that UnmarshalMaglev and UnmarshalRing read
// without WithMaxSize: those of 10,000 backends in a table, or of 6,500 backends of one
// unit of weight on a ring.
const DefaultMaxSize = 1 << 20

// WithSeed gives keys and backends another, unrelated mapping for each seed, so
// that tiers which use the same names do not send the same keys to the same
// place. Seed 0 is the default and is the same as no seed. A seed is no defence
// against an adversary who can make xxHash64 collide: use WithHash with a keyed
// hash for that. A seed other than 0 together with WithHash is ErrInvalidOption: a
// hash function of the caller's carries its own seed.
func WithSeed(seed uint64) Option {
	return option(func(c *config) { c.Seed = seed })
}

// WithHash replaces the hash of keys and of backends, which is xxHash64 in a
// Maglev table and SHA-256 in a ring. The function is also called with strings of
// any bytes that place the backends; the package comment has them. It must always
// return the same for the same string, in every process that shall agree on the
// mapping, must spread over all 64 bits, must be safe for concurrent use, must not
// keep its argument and must not call the structure it serves. A nil function is
// ErrInvalidOption.
func WithHash(hash func(key string) uint64) Option {
	return option(func(c *config) { c.Hash, c.hashGiven = hash, true })
}

// WithLoadFactor sets how many leases Acquire lets a backend have: c times its fair
// share of those in flight, rounded up; Acquire has the formula. The default is
// DefaultLoadFactor. Closer to 1 loads are more even, and more keys are away from
// their backend. 1 and below, infinity and NaN are ErrInvalidOption. It can be
// changed later with SetLoadFactor.
func WithLoadFactor(c float64) Option {
	return option(func(o *config) { o.LoadFactor = c })
}

// WithLoadFloor sets how many leases a backend has room for whatever its fair share is:
// its bound is never below n for a weight of 1, and never below n * weight for others.
// So with few requests in flight keys stay with their backends, and the load factor
// begins to matter where there is load to share. The default is 0: no floor. In units of
// cost it is where leases have one, and it may be a fraction, for weights such as
// millicores: 0.008 is 8 leases for a weight of 1,000. A negative floor, infinity and NaN
// are ErrInvalidOption. It can be changed later with SetLoadFloor.
func WithLoadFloor(n float64) Option {
	return option(func(o *config) { o.LoadFloor = n })
}

// A Config has the options of a structure as they are now: those that were given, and
// the defaults of the others. What only the other structure has is 0.
//
// A Config is itself an Option, which sets all that is not 0 or nil in it. So
//
//	chash.NewRing(ring.Backends(), ring.Config(), chash.WithSeed(7))
//
// makes a ring like the first, with another seed. A Config may be copied.
type Config struct {
	TableSize  int                     // of a Maglev: see WithTableSize
	Slack      *float64                // of a Maglev: see WithSlack; nil without it
	Replicas   int                     // of a Ring: see WithReplicas
	UnitWeight uint32                  // of a Ring: see WithUnitWeight
	MaxSize    int                     // 0 without WithMaxSize
	Seed       uint64                  // see WithSeed
	Hash       func(key string) uint64 // nil without WithHash
	LoadFactor float64                 // see WithLoadFactor and SetLoadFactor
	LoadFloor  float64                 // see WithLoadFloor and SetLoadFloor

	RingLayout  *RingLayout  // nil without WithRingLayout
	TableLayout *TableLayout // nil without WithTableLayout
}

// Config returns the options of the structure.
func (c *core[T, L]) Config() Config {
	s := c.now()
	options := s.layout.config()
	options.LoadFactor, options.LoadFloor = s.bound.Factor, s.bound.Floor
	return options
}

// set sets what is not zero.
func (c Config) set(to *config) {
	if c.TableSize != 0 {
		to.TableSize, to.sizeGiven = c.TableSize, true
	}
	override(&to.Slack, c.Slack)
	override(&to.Replicas, c.Replicas)
	override(&to.UnitWeight, c.UnitWeight)
	override(&to.MaxSize, c.MaxSize)
	override(&to.Seed, c.Seed)
	override(&to.LoadFactor, c.LoadFactor)
	override(&to.LoadFloor, c.LoadFloor)
	override(&to.RingLayout, c.RingLayout)
	override(&to.TableLayout, c.TableLayout)
	if c.Hash != nil {
		to.Hash, to.hashGiven = c.Hash, true
	}
}

func override[V comparable](option *V, value V) {
	var zero V
	if value != zero {
		*option = value
	}
}

// config is what the options of both structures set.
type config struct {
	Config
	hashGiven bool
	sizeGiven bool
	blind     uint64 // in tests: bits of SHA-256 positions to clear, so that ties occur
}

func (c *config) bound() load.Bound { return load.Bound{Factor: c.LoadFactor, Floor: c.LoadFloor} }

func maglevConfig(opts []MaglevOption) (config, error) {
	c := config{Config: Config{TableSize: DefaultTableSize, LoadFactor: DefaultLoadFactor}}
	for _, o := range opts {
		if o != nil {
			o.setMaglev(&c)
		}
	}
	c.Replicas, c.UnitWeight, c.RingLayout = 0, 0, nil
	if l := c.TableLayout; l != nil && l.TableSize != 0 && !c.sizeGiven {
		c.TableSize = l.TableSize
	}
	if err := c.validate(); err != nil {
		return c, err
	}
	if c.Slack != nil {
		if !validSlack(*c.Slack) {
			return c, invalidOption("slack %v, which is not from 0 to +Inf", *c.Slack)
		}
		e := math.Abs(*c.Slack) // a copy of what may be the caller's, and 0 for -0
		c.Slack = &e
	}
	if err := validateTableSize(c.TableSize, c.sizeLimit(maxSlots)); err != nil {
		return c, err
	}
	return c, c.validateTableLayout()
}

func ringConfig(opts []RingOption) (config, error) {
	c := config{Config: Config{Replicas: DefaultReplicas, UnitWeight: 1, LoadFactor: DefaultLoadFactor}}
	for _, o := range opts {
		if o != nil {
			o.setRing(&c)
		}
	}
	c.TableSize, c.Slack, c.TableLayout = 0, nil, nil
	if err := c.validate(); err != nil {
		return c, err
	}
	if c.UnitWeight == 0 {
		return c, invalidOption("unit weight 0, the least is 1")
	}
	if c.RingLayout != nil {
		err := c.validateRingLayout()
		if c.Replicas == DefaultReplicas { // not given
			c.Replicas = 0
		}
		return c, err
	}
	if c.Replicas < 1 || c.Replicas > MaxRingPoints {
		return c, invalidOption("%d replicas, want 1 to %d", c.Replicas, MaxRingPoints)
	}
	return c, nil
}

// validate checks what both structures have.
func (c *config) validate() error {
	if c.hashGiven && c.Hash == nil {
		return invalidOption("hash function is nil")
	}
	if c.hashGiven && c.Seed != 0 {
		return invalidOption("seed %d and a hash function exclude each other", c.Seed)
	}
	if c.MaxSize < 0 {
		return invalidOption("maximum size %d, the least is 0", c.MaxSize)
	}
	if err := validateLoadFactor(c.LoadFactor); err != nil {
		return err
	}
	return validateLoadFloor(c.LoadFloor)
}

// sizeLimit returns the most slots or points, of which own is the structure's own limit.
func (c *Config) sizeLimit(own int) int {
	if c.MaxSize == 0 {
		return own
	}
	return min(c.MaxSize, own)
}

func invalidOption(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidOption, fmt.Sprintf(format, args...))
}

type (
	maglevOption func(*config)
	ringOption   func(*config)
	option       func(*config)
)

func (o maglevOption) setMaglev(c *config) { o(c) }
func (o ringOption) setRing(c *config)     { o(c) }
func (o option) setMaglev(c *config)       { o(c) }
func (o option) setRing(c *config)         { o(c) }
func (c Config) setMaglev(to *config)      { c.set(to) }
func (c Config) setRing(to *config)        { c.set(to) }

func validateLoadFactor(c float64) error {
	if !load.ValidFactor(c) {
		return invalidOption("load factor %v, want a number above 1", c)
	}
	return nil
}

func validateLoadFloor(n float64) error {
	if !load.ValidFloor(n) {
		return invalidOption("load floor %v, want a number from 0 on", n)
	}
	return nil
}

// DefaultLoadFactor is the load factor without WithLoadFactor: a backend has at
// most a quarter more leases in flight than its fair share, rounded up.
const DefaultLoadFactor = 1.25

// validSlack is written so that NaN does not pass.
func validSlack(e float64) bool { return e >= 0 }

func sameSlack(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// slackText is a slack for a reader.
func slackText(e *float64) string {
	if e == nil {
		return "none"
	}
	return strconv.FormatFloat(*e, 'g', -1, 64)
}
