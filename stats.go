package chash

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// Stats are figures of a structure.
type Stats struct {
	Backends   int `json:"backends"`
	Healthy    int `json:"healthy"`
	Unhealthy  int `json:"unhealthy"`
	Draining   int `json:"draining"`
	Placements int `json:"placements"` // distinct hash keys, draining backends not counted
	Size       int `json:"size"`       // slots of a table, points of a ring; 0 without a placement

	Layout string `json:"layout,omitempty"` // the Name of the layout, if there is one

	// The least and the largest share of a placement divided by its fair share: 1 is
	// ideal, 0 is no placement.
	MinShareRatio float64 `json:"min_share_ratio"`
	MaxShareRatio float64 `json:"max_share_ratio"`

	Rebuilds    uint64        `json:"rebuilds"`        // in a clone's origin too
	LastRebuild time.Duration `json:"last_rebuild_ns"` // how long it took

	// FallbackShare is the share of the key space whose placement is not healthy now,
	// so that lookups go on to another one: from 0 to 1.
	FallbackShare float64 `json:"fallback_share"`

	// SampledFallbacks counts the calls of Get, GetBytes and GetHash for sampled keys
	// that went on from an unhealthy placement. The hash of a key samples one key in
	// 64. For many keys, 64 times the number is an estimate of all such calls.
	SampledFallbacks uint64 `json:"sampled_fallbacks"`

	LoadFactor float64 `json:"load_factor"` // see WithLoadFactor
	LoadFloor  float64 `json:"load_floor"`  // see WithLoadFloor

	// Loads has the load of each backend that has leases: their number, or the sum of
	// their costs. It is never nil. Unhealthy and removed backends are included.
	// InFlight is the sum of Loads. Leases come and go during the call, so that the
	// loads may be of different moments.
	InFlight int64            `json:"in_flight"`
	Loads    map[string]int64 `json:"loads"`
}

// Stats returns figures of the current state. It takes time for each backend and, on
// a ring, each point.
func (c *core[T, L]) Stats() Stats {
	s := c.now()
	stats := Stats{
		Backends:    len(s.roster.members),
		Placements:  len(s.roster.placements),
		Size:        int(s.Owners.N),
		Layout:      layoutName(s.layout.config()),
		Rebuilds:    s.rebuilds,
		LastRebuild: s.lastTime,

		SampledFallbacks: c.fallbacks.Load(),

		LoadFactor: s.bound.Factor,
		LoadFloor:  s.bound.Floor,
	}
	stats.Loads, stats.InFlight = c.loads()
	for _, b := range s.roster.members {
		switch b.State {
		case Healthy:
			stats.Healthy++
		case Unhealthy:
			stats.Unhealthy++
		case Draining:
			stats.Draining++
		}
	}
	spread := s.layout.Spread()
	stats.MinShareRatio, stats.MaxShareRatio = extremes(spread, s.roster.placements)
	for p, share := range spread {
		if !s.Healthy.Has(uint32(p)) {
			stats.FallbackShare += share
		}
	}
	return stats
}

// A Share is how much of the key space a backend owns, and how the backend is.
type Share struct {
	Name  string  `json:"name"`
	State State   `json:"state"`
	Size  int     `json:"size"`  // slots of a table, points of a ring
	Share float64 `json:"share"` // of the key space: from 0 to 1
}

// Shares returns the exact share of each backend, sorted by name, whatever its
// health. It is 0 for Draining backends and for those that another one of the
// placement outranks. It takes time for each backend and, on a ring, each point.
func (c *core[T, L]) Shares() []Share {
	s := c.now()
	layout, r := s.layout, s.roster
	shares := make([]Share, len(r.members))
	for i := range shares {
		shares[i].Name, shares[i].State = r.members[i].Name, r.members[i].State
	}
	sizes := layout.array().Counts
	for p, spread := range layout.Spread() {
		share := &shares[r.owner(p)]
		share.Size, share.Share = int(sizes[p]), spread
	}
	return shares
}

// extremes returns the smallest and the largest of the shares by their ideals.
func extremes(spread []float64, placements []probe.Placement) (least, most float64) {
	total := 0.0
	for i := range placements {
		total += float64(placements[i].Weight)
	}
	for i, share := range spread {
		ratio := share * total / float64(placements[i].Weight)
		if i == 0 {
			least, most = ratio, ratio
		}
		least, most = min(least, ratio), max(most, ratio)
	}
	return least, most
}

// sampled reports whether lookups of a key with that hash are counted when they
// leave their home: one in 64, so that the counter, which all processors share,
// costs the others no more than this.
func sampled(hash uint64) bool { return hash*hashing.Scatter>>58 == 0 }

// note counts a sampled lookup that has passed over so many owners.
func (s *snapshot[T, L]) note(passed int) {
	if passed > 0 {
		s.fallbacks.Add(1)
	}
}

// String returns one line: the type, the size, and how many backends are healthy.
func (c *core[T, L]) String() string {
	var l L
	s := c.current.Load()
	if s == nil {
		return fmt.Sprintf("%s that is not made", l.kind())
	}
	healthy := 0
	for _, b := range s.roster.members {
		if b.State == Healthy {
			healthy++
		}
	}
	return fmt.Sprintf("%s of %d %s, %d of %d backends healthy",
		l.kind(), s.Owners.N, l.unit(), healthy, len(s.roster.members))
}

// Format implements fmt.Formatter with String, so that printing does not race.
func (c *core[T, L]) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), c.String())
}

// MarshalJSON returns the type, the size, and the backends sorted by name without
// their values. Only Marshal has all that makes the structure again.
func (c *core[T, L]) MarshalJSON() ([]byte, error) {
	s := c.now()
	out := struct {
		Structure string              `json:"structure"`
		Size      int                 `json:"size"` // slots or points
		Backends  []Backend[struct{}] `json:"backends"`
	}{s.layout.kind(), int(s.Owners.N), make([]Backend[struct{}], len(s.roster.members))}
	for i, b := range s.roster.members {
		out.Backends[i] = b.bare()
	}
	return json.Marshal(out)
}
