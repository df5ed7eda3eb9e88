package chash

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/probe"
)

// Stats is what a structure says of itself at one moment.
type Stats struct {
	Backends   int `json:"backends"`
	Healthy    int `json:"healthy"`
	Unhealthy  int `json:"unhealthy"`
	Draining   int `json:"draining"`
	Placements int `json:"placements"` // distinct hash keys, draining backends not counted
	Size       int `json:"size"`       // slots of a table, points of a ring; 0 without a placement

	// Layout is the name of the caller's layout: see RingLayout and TableLayout.
	Layout string `json:"layout,omitempty"`

	// MinShareRatio and MaxShareRatio are the smallest and the largest share of a
	// placement in the key space, divided by its ideal one, which is by weight: 1 is
	// perfect. Both are 0 without a placement.
	MinShareRatio float64 `json:"min_share_ratio"`
	MaxShareRatio float64 `json:"max_share_ratio"`

	// Rebuilds is how often slots or points were laid out, a clone's origin included;
	// LastRebuild is how long the last time took, 0 before it.
	Rebuilds    uint64        `json:"rebuilds"`
	LastRebuild time.Duration `json:"last_rebuild_ns"`

	// FallbackShare is the share of the key space whose placement has no healthy
	// backend at this moment, so that lookups go on to another one: from 0 to 1, and 0
	// without a placement. Of many keys that are asked for alike, it is the share of
	// lookups that fall back.
	FallbackShare float64 `json:"fallback_share"`

	// SampledFallbacks counts lookups of sampled keys that have gone on from an
	// unhealthy placement since the structure was made. One key in 64 is sampled,
	// chosen by its hash. Only Get, GetBytes and GetHash count. With many keys, 64
	// times the number is an estimate for all. With few keys, perhaps none is sampled.
	SampledFallbacks uint64 `json:"sampled_fallbacks"`

	// LoadFactor is the c of WithLoadFactor or SetLoadFactor, and LoadFloor the floor of
	// WithLoadFloor or SetLoadFloor.
	LoadFactor float64 `json:"load_factor"`
	LoadFloor  float64 `json:"load_floor"`

	// Loads has the leases that are not released by name of backend, without those that
	// have none: their number, or what they cost together where WithCost says so. It is
	// never nil. Those of unhealthy and removed backends are included, although they do
	// not count towards the bound of others. InFlight is the sum of Loads. Leases come and
	// go while this is read, so that it need not have been so at one moment.
	InFlight int64            `json:"in_flight"`
	Loads    map[string]int64 `json:"loads"`
}

// Stats returns figures of the state at this moment. It takes time for each
// backend and, on a ring, each point.
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

// Shares returns the exact share of each backend, sorted by name: that of its
// placement, healthy or not, for the backend that outranks the others there; 0
// for those others and for draining ones. It takes time for each backend and, on
// a ring, each point.
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

// String describes the structure in a line: its type, its size, and how many of its
// backends are healthy. It takes time for each backend.
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

// Format implements fmt.Formatter: with every verb, what fmt prints is made of String,
// where it would otherwise read what other goroutines write.
func (c *core[T, L]) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), c.String())
}

// MarshalJSON returns the structure for a reader: its type, its size, and its backends
// sorted by name, without their values, which need not be data. Marshal is what a
// structure can be made from again. It takes time for each backend.
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
