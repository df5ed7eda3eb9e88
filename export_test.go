package chash

import (
	"unsafe"

	"github.com/chash-go/chash/internal/load"
)

// WithBlindDigests clears those bits of SHA-256 positions, so that ties occur,
// which the rest of the digest decides.
func WithBlindDigests(bits uint64) RingOption {
	return ringOption(func(c *config) { c.blind = bits })
}

// Indexed returns how many healthy owners are indexed because they are rare, 0
// where they are not.
func (c *core[T, L]) Indexed() int { return len(c.now().Sparse) }

// SampledFallbacks returns what Stats does, at once.
func (c *core[T, L]) SampledFallbacks() uint64 { return c.now().fallbacks.Load() }

// Turn returns the value whose turn it is at a count of Next and AcquireNext.
func (c *core[T, L]) Turn(count int) T {
	s := c.now()
	return s.values[s.rotation.At(uint64(count))]
}

// Loads returns the loads by name of backend, where there are any.
func (c *core[T, L]) Loads() map[string]int64 {
	c.now()
	loads, _ := c.loads()
	return loads
}

// InFlight returns the sum of the loads.
func (c *core[T, L]) InFlight() int64 {
	c.now()
	_, sum := c.loads()
	return sum
}

// Counted returns the total that bounds go by.
func (c *core[T, L]) Counted() int64 {
	if q := c.now().quotas; q != nil {
		return q.Total.Load()
	}
	return 0
}

// Watch returns what reads the total and then the load of a backend that has leases.
func (c *core[T, L]) Watch(name string) func() (total, load int64) {
	s := c.now()
	if s.quotas == nil {
		return nil
	}
	i, err := s.roster.member(name)
	if err != nil {
		return nil
	}
	all, one := s.quotas.Total, s.quotas.TallyOf(uint32(s.roster.placementOf(i)))
	return func() (total, load int64) {
		total = all.Load()
		return total, one.Load()
	}
}

// Tallies returns for how many names there are counters.
func (c *core[T, L]) Tallies() int {
	c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil {
		return 0
	}
	return c.ledger.Len()
}

// HasQuotas reports whether what is published knows counters.
func (c *core[T, L]) HasQuotas() bool { return c.now().quotas != nil }

// BeginAcquire begins an Acquire, or an AcquireNext if it has no key, that has got as far
// as the snapshot of now, and returns the rest of it. A backend must be healthy.
func (c *core[T, L]) BeginAcquire(key string, keyed bool) func() (Lease[T], error) {
	s, cost, err := c.leasable(nil)
	if err != nil {
		panic(err)
	}
	q := search{key: key, rotate: !keyed}
	if keyed {
		q.walk, q.hash = s.layout.Start(key)
	} else {
		q.turn = c.turn.Add(1) - 1
	}
	return func() (Lease[T], error) { return c.acquire(s, &q, cost) }
}

// TallySize is the size of a counter.
const TallySize = unsafe.Sizeof(load.Tally{})
