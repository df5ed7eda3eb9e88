package chash

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

// WithTableSize sets the number of slots of a Maglev table, a prime from 2 to
// MaxTableSize; the default is DefaultTableSize. At least 100 slots for each
// backend keep the shares of equal backends within about 1 % of each other.
// Other sizes are ErrTableSizeNotPrime or ErrTableSizeTooLarge.
func WithTableSize(m int) MaglevOption {
	return maglevOption(func(c *config) { c.tableSize = m })
}

// WithReplicas sets the number of points that a ring has for each unit of a
// backend's weight, at least 1, else ErrInvalidReplicas; the default is
// DefaultReplicas. The share of a backend strays from the ideal by about
// 1/sqrt(n) of it.
func WithReplicas(n int) RingOption {
	return ringOption(func(c *config) { c.replicas = n })
}

// WithSeed gives keys and backends another, unrelated mapping for each seed, so
// that tiers which use the same names do not send the same keys to the same
// place. Seed 0 is the default and is the same as no seed. A seed is no defence
// against an adversary who can make xxHash64 collide: use WithHash with a keyed
// hash for that. A seed other than 0 together with WithHash is ErrSeedAndHash.
func WithSeed(seed uint64) Option {
	return option(func(c *config) { c.seed = seed })
}

// WithHash replaces the hash of keys and of backends, which is xxHash64 in a
// Maglev table and SHA-256 in a ring. The function is also called with strings of
// any bytes that place the backends; the package comment has them. It must always
// return the same for the same string, in every process that shall agree on the
// mapping, must spread over all 64 bits, must be safe for concurrent use, must not
// keep its argument and must not call the structure it serves. A nil function is
// ErrNilHash.
func WithHash(hash func(key string) uint64) Option {
	return option(func(c *config) { c.hash, c.hashGiven = hash, true })
}

// WithLoadFactor sets how many leases Acquire lets a backend have: c times its fair
// share of those in flight, rounded up; Acquire has the formula. The default is
// DefaultLoadFactor. Closer to 1 loads are more even, and more keys are away from
// their backend. 1 and below, infinity and NaN are ErrInvalidLoadFactor. It can be
// changed later with SetLoadFactor.
func WithLoadFactor(c float64) Option {
	return option(func(o *config) { o.loadFactor = c })
}

// config is what the options of both structures set.
type config struct {
	tableSize int
	replicas  int
	seed      uint64
	hash      func(key string) uint64
	hashGiven bool
	blind     uint64 // in tests: bits of SHA-256 positions to clear, so that ties occur

	loadFactor float64
}

func maglevConfig(opts []MaglevOption) (config, error) {
	c := config{tableSize: DefaultTableSize, loadFactor: DefaultLoadFactor}
	for _, o := range opts {
		if o != nil {
			o.setMaglev(&c)
		}
	}
	return c, c.validate()
}

func ringConfig(opts []RingOption) (config, error) {
	c := config{replicas: DefaultReplicas, loadFactor: DefaultLoadFactor}
	for _, o := range opts {
		if o != nil {
			o.setRing(&c)
		}
	}
	return c, c.validate()
}

func (c *config) validate() error {
	if c.hashGiven && c.hash == nil {
		return ErrNilHash
	}
	if c.hashGiven && c.seed != 0 {
		return ErrSeedAndHash
	}
	return validateLoadFactor(c.loadFactor)
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
