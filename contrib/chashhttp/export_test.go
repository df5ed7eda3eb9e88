package chashhttp

// Probing reports whether the Transport has a goroutine that probes.
func Probing(t *Transport) bool {
	t.health.mu.Lock()
	defer t.health.mu.Unlock()
	return t.health.probing
}
