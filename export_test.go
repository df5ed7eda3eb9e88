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

// Indexed returns how many healthy owners are indexed because they are rare, 0
// where they are not.
func (c *core[T, L]) Indexed() int { return len(c.current.Load().sparse) }

// PointBytes returns the bytes of a ring's points and of its index, as they were asked
// of the runtime.
func (r *Ring[T]) PointBytes() (points, index int) {
	l := r.current.Load().layout
	return 8 * cap(l.packed), 4 * cap(l.index)
}
