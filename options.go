package chash

import (
	"fmt"
	"math"
	"strconv"

	"github.com/chash-go/chash/internal/load"
)

// A MaglevOption sets something of a [Maglev]. A nil option sets nothing. Of two
// options for the same thing, the later one counts.
type MaglevOption interface{ setMaglev(*config) }

// A RingOption sets something of a [Ring], with the rules of a MaglevOption.
type RingOption interface{ setRing(*config) }

// An Option fits a [Maglev] and a [Ring].
type Option interface {
	MaglevOption
	RingOption
}

// Options joins options into one, so that the same list fits both constructors:
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

// WithTableSize sets the number of slots of a Maglev, a prime from 2 to MaxTableSize;
// the default is DefaultTableSize. With 100 slots for each backend, the shares of
// equal backends differ by about 1 %: see TableSizeFor. A size that is too large is
// ErrInvalidOption, any other ErrTableSizeNotPrime, also 0 and below.
func WithTableSize(m int) MaglevOption {
	return maglevOption(func(c *config) { c.TableSize, c.sizeGiven = m, true })
}

// WithSlack fills the table so that fewer keys move. In return, a backend may have up
// to 1+e times its fair share, and a slot more. The package comment says when to use
// it. Each e is a mapping of its own, 0 included, which keeps shares as even as
// without WithSlack. With math.Inf(1) there is no limit: then only the keys that must
// move do move, as on a ring, and Add, Remove and SetWeight take a fraction of a
// rebuild. The table rounds e to a multiple of 1/65536; from 2^31 on, e is no limit.
// A negative e and NaN are ErrInvalidOption. If the fair share is a few slots, a
// placement may have none. Its backends are then last in each key's order of
// preference.
func WithSlack(e float64) MaglevOption {
	return maglevOption(func(c *config) { c.Slack = &e })
}

// WithReplicas sets the number of points for each unit of weight, from 1 to
// MaxRingPoints, else ErrInvalidOption; the default is DefaultReplicas. The share of
// a backend with n points differs from the ideal by about 1/sqrt(n) of it. A point
// costs up to 16 bytes, and about 100 ns when it comes or goes. So a weight of 1,000
// costs 2.5 MB and 16 ms: see WithUnitWeight.
func WithReplicas(n int) RingOption {
	return ringOption(func(c *config) { c.Replicas = n })
}

// WithUnitWeight sets the weight that has as many points as WithReplicas says, at
// least 1; the default is 1. A unit of 0 is ErrInvalidOption. If weights are
// thousandths of a processor, a unit of 1000 gives a backend with one processor the
// usual number of points. A placement of weight w has replicas*w/unit points, rounded
// half up, and at least 1. The number depends on its own weight only, so that a
// change of one weight moves no key between other backends. Keep it at 10 or more for
// the smallest weight: rounding makes smaller numbers uneven.
func WithUnitWeight(w uint32) RingOption {
	return ringOption(func(c *config) { c.UnitWeight = w })
}

// WithMaxSize limits the number of slots or points, before any memory is allocated. A
// larger table is ErrInvalidOption, a larger ring is ErrRingTooLarge, in changes too.
// With 0, the default, the limits are MaxTableSize and MaxRingPoints, and
// DefaultMaxSize in UnmarshalMaglev and UnmarshalRing. A negative n is
// ErrInvalidOption.
func WithMaxSize(n int) Option {
	return option(func(c *config) { c.MaxSize = n })
}

// DefaultMaxSize limits the slots or points that UnmarshalMaglev and UnmarshalRing
// accept without WithMaxSize. It is enough for 10,000 backends in a table, or 6,500
// backends of weight 1 on a ring.
const DefaultMaxSize = 1 << 20

// WithSeed gives each seed an unrelated mapping, so that tiers with the same backend
// names map keys differently. Seed 0, the default, is no seed. A seed does not
// protect against chosen keys: for that, give WithHash a keyed hash. A seed together
// with WithHash is ErrInvalidOption.
func WithSeed(seed uint64) Option {
	return option(func(c *config) { c.Seed = seed })
}

// WithHash replaces the hash of keys and backends: xxHash64 in a Maglev, SHA-256 on a
// Ring. The function must return the same for the same string in every process,
// spread over all 64 bits, and be safe for concurrent use. It must not keep its
// argument or call the structure. It gets other strings of any bytes too: see the
// package comment. On a Ring it gets the whole hash key for each point of a backend, so
// hash keys of many thousand bytes are slow there. A nil function is ErrInvalidOption.
func WithHash(hash func(key string) uint64) Option {
	return option(func(c *config) { c.Hash, c.hashGiven = hash, true })
}

// WithLoadFactor sets how many leases a backend may have: c times its fair share of
// those in flight, rounded up. Lease has the formula. The default is
// DefaultLoadFactor. A factor closer to 1 makes loads more even, and sends more keys
// away from their backends. 1 and below, infinity and NaN are ErrInvalidOption.
func WithLoadFactor(c float64) Option {
	return option(func(o *config) { o.LoadFactor = c })
}

// WithLoadFloor sets a load for which a backend of weight 1 always has room; for a
// weight of w it is n*w. So keys stay with their backends while few requests are in
// flight. The default is 0. Use the unit of WithCost; fractions are allowed: for
// weights in millicores, 0.008 is 8 leases for a weight of 1,000. A negative floor,
// infinity and NaN are ErrInvalidOption.
func WithLoadFloor(n float64) Option {
	return option(func(o *config) { o.LoadFloor = n })
}

// A Config has all options of a structure, given or default. Options of the other
// structure are 0. A Config is also an Option, which sets every field that is not 0
// or nil; a constructor ignores options of the other structure. So this is a similar
// ring with another seed, if the ring has no hash function or layout:
//
//	chash.NewRing(ring.Backends(), ring.Config(), chash.WithSeed(7))
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

// Config returns the options as they are now.
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
	if c.RingLayout != nil { // copies, since the caller may write to them
		layout := *c.RingLayout
		to.RingLayout = &layout
	}
	if c.TableLayout != nil {
		layout := *c.TableLayout
		to.TableLayout = &layout
	}
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

// DefaultLoadFactor lets a backend have a quarter more leases than its fair share.
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
