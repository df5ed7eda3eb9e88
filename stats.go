package chash

import "time"

// Stats is what a structure says of itself at one moment.
type Stats struct {
	Backends   int `json:"backends"`
	Healthy    int `json:"healthy"`
	Unhealthy  int `json:"unhealthy"`
	Draining   int `json:"draining"`
	Placements int `json:"placements"` // distinct hash keys, draining backends not counted
	Size       int `json:"size"`       // slots of a table, points of a ring; 0 without a placement

	// MinShareRatio and MaxShareRatio are the smallest and the largest share of a
	// placement in the key space, divided by its ideal one, which is by weight: 1 is
	// perfect. Both are 0 without a placement.
	MinShareRatio float64 `json:"min_share_ratio"`
	MaxShareRatio float64 `json:"max_share_ratio"`

	// Rebuilds is how often slots or points were laid out, a clone's origin included;
	// LastRebuild is how long the last time took, 0 before it.
	Rebuilds    uint64        `json:"rebuilds"`
	LastRebuild time.Duration `json:"last_rebuild_ns"`

	// Fallbacks estimates how many slots or points Get, GetBytes and GetHash, and no
	// other lookups, have passed over since the structure was made, because they were
	// unhealthy. It is extrapolated from one key in 64, chosen by its hash.
	Fallbacks uint64 `json:"fallbacks"`

	// LoadFactor is the c of WithLoadFactor or SetLoadFactor.
	LoadFactor float64 `json:"load_factor"`

	// InFlight is the number of leases that Acquire has given or is about to give and
	// that are not released, those of unhealthy and removed backends included. Loads
	// has them by name of backend, without those that have none; it is never nil. Leases
	// come and go while this is read, so that the loads may be less than InFlight
	// together.
	InFlight int64            `json:"in_flight"`
	Loads    map[string]int64 `json:"loads"`
}

// Stats returns figures of the state at this moment. It takes time for each
// backend and, on a ring, each point, and the read lock for a part of it, so that
// it waits for a rebuild under way.
func (c *core[T, L]) Stats() Stats {
	stats, layout, placements := c.stats()
	stats.MinShareRatio, stats.MaxShareRatio = extremes(layout.spread(), placements)
	return stats
}

// stats returns what takes the lock to know, and what the rest is computed from.
func (c *core[T, L]) stats() (Stats, L, []placement) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.current.Load()
	stats := Stats{
		Backends:    len(c.roster.members),
		Placements:  len(c.roster.placements),
		Size:        int(s.owners.n),
		Rebuilds:    c.rebuilds,
		LastRebuild: c.lastTime,
		Fallbacks:   c.fallbacks.Load(),
		LoadFactor:  c.loadFactor,
		Loads:       c.loads(), // before the total, which they do not exceed
		InFlight:    c.inFlight(),
	}
	for i := range c.roster.members {
		switch c.roster.members[i].State {
		case Healthy:
			stats.Healthy++
		case Unhealthy:
			stats.Unhealthy++
		case Draining:
			stats.Draining++
		}
	}
	return stats, s.layout, c.roster.placements
}

// A Share is how much of the key space a backend owns.
type Share struct {
	Name  string  `json:"name"`
	Size  int     `json:"size"`  // slots of a table, points of a ring
	Share float64 `json:"share"` // of the key space: from 0 to 1
}

// Shares returns the exact share of each backend, sorted by name: that of its
// placement, healthy or not, for the backend that outranks the others there; 0
// for those others and for draining ones. It takes time for each backend and, on
// a ring, each point, and the read lock, so that it waits for a rebuild under way.
func (c *core[T, L]) Shares() []Share {
	layout, r := c.frozen()
	shares := make([]Share, len(r.members))
	for i := range shares {
		shares[i].Name = r.members[i].Name
	}
	sizes := layout.array().counts
	for p, spread := range layout.spread() {
		share := &shares[r.first(p)]
		share.Size, share.Share = int(sizes[p]), spread
	}
	return shares
}

// Owner returns the backend to whose placement the key belongs, whatever its
// health: the one that outranks the others of the placement, heaviest first and
// then by name. A writer compares its Value with what Get returns to refuse a
// fallback, be it to another placement or to a lighter backend of the same one.
// Without a backend the error is ErrNoBackends, with none but draining ones it is
// ErrNoHealthyBackends. It takes the read lock, so that it waits for a rebuild
// under way.
func (c *core[T, L]) Owner(key string) (Backend[T], error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.current.Load()
	if len(c.roster.placements) == 0 {
		return Backend[T]{}, s.empty
	}
	w := s.layout.walk(key)
	p := s.owners.at(w.home())
	return c.roster.members[c.roster.first(int(p))], nil
}

// extremes returns the smallest and the largest of the shares by their ideals.
func extremes(spread []float64, placements []placement) (least, most float64) {
	total := 0.0
	for i := range placements {
		total += float64(placements[i].weight)
	}
	for i, share := range spread {
		ratio := share * total / float64(placements[i].weight)
		if i == 0 {
			least, most = ratio, ratio
		}
		least, most = min(least, ratio), max(most, ratio)
	}
	return least, most
}
