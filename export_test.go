package chash

// Rebuilds returns how often owners have been laid out.
func (c *core[T, L]) Rebuilds() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rebuilds
}

// WithBlindDigests clears those bits of SHA-256 positions, so that ties occur,
// which the rest of the digest decides.
func WithBlindDigests(bits uint64) RingOption {
	return ringOption(func(c *config) { c.blind = bits })
}
