package chash

import "unsafe"

// Loads returns the leases in flight by name of backend, where there are any.
func (c *core[T, L]) Loads() map[string]int64 {
	return c.loads()
}

// InFlight returns the number of leases in flight.
func (c *core[T, L]) InFlight() int64 { return c.inFlight() }

// Tallies returns for how many names there are counters.
func (c *core[T, L]) Tallies() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil {
		return 0
	}
	return len(c.ledger.byName)
}

// HasQuotas reports whether what is published knows counters.
func (c *core[T, L]) HasQuotas() bool { return c.current.Load().quotas != nil }

// TallySize is the size of a counter.
const TallySize = unsafe.Sizeof(tally{})
