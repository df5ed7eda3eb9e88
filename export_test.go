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
func (c *core[T, L]) Indexed() int { return len(c.now().sparse) }

// PointBytes returns the bytes of a ring's points and of its index, as they were asked
// of the runtime.
func (r *Ring[T]) PointBytes() (points, index int) {
	l := r.now().layout
	return 8 * cap(l.packed), 4 * cap(l.index)
}

// Turn returns the value whose turn it is at a count of Next and AcquireNext.
func (c *core[T, L]) Turn(count int) T {
	s := c.now()
	return s.values[s.rotation.at(uint64(count))]
}

// ClaimsBefore returns how many claims of a weight, in a table of n slots with slack,
// are before a claim of another, or with orAt no later, and ClaimTime the T of one.
func ClaimsBefore(n, limitWeight, limitIndex, weight uint32, orAt bool) uint32 {
	c := clock{n: n}
	return c.before(claim{limitWeight, limitIndex}, weight, orAt)
}

func ClaimTime(n, index uint32) uint64 {
	c := clock{n: n}
	return c.time(index)
}
