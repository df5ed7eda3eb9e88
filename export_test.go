package chash

// Rebuilds returns how often owners have been laid out.
func (c *core[T, L]) Rebuilds() uint64 {
	return c.now().rebuilds
}

// WithBlindDigests clears those bits of SHA-256 positions, so that ties occur,
// which the rest of the digest decides.
func WithBlindDigests(bits uint64) RingOption {
	return ringOption(func(c *config) { c.blind = bits })
}

// Indexed returns how many healthy owners are indexed because they are rare, 0
// where they are not.
func (c *core[T, L]) Indexed() int { return len(c.now().Sparse) }

// Turn returns the value whose turn it is at a count of Next and AcquireNext.
func (c *core[T, L]) Turn(count int) T {
	s := c.now()
	return s.values[s.rotation.At(uint64(count))]
}
