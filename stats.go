package chash

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

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

// String returns one line: type, size, and how many backends are healthy.
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

// Fingerprint returns a number to compare across processes and releases. Two
// structures share it exactly if their layouts have one name and they map every key
// to the same name while all backends that are not Draining are healthy. It is 0
// without a placement. Of hash functions it compares where the backends are and the
// hash of one key. Equal numbers mislead only if 64-bit hashes collide. It takes time
// for each slot or point: about 0.1 ms for 65,537 slots.
func (c *core[T, L]) Fingerprint() uint64 {
	s := c.now()
	return s.fingerprint(func(p int) (int, bool) { return s.roster.owner(p), true })
}

// LiveFingerprint is Fingerprint with health: two structures share it if they map
// every key to the same name now. It is 0 without a healthy backend.
func (c *core[T, L]) LiveFingerprint() uint64 {
	s := c.now()
	return s.fingerprint(s.roster.lead)
}

// fingerprint returns the fingerprint of the mapping to the members that represent the
// placements, or nobody, with the name of the caller's layout in it.
func (s *snapshot[T, L]) fingerprint(represent func(placement int) (member int, found bool)) uint64 {
	print := s.mapping(represent)
	if name := layoutName(s.layout.config()); name != "" && print != 0 {
		return max(1, hashing.Mix(print^xxhash.Sum64String(name)))
	}
	return print
}

// mapping hashes the mapping of the key space to those members.
func (s *snapshot[T, L]) mapping(represent func(placement int) (member int, found bool)) uint64 {
	names := make([]uint64, len(s.roster.placements))
	found, owning := 0, 0
	only, owner := uint64(0), uint64(0)
	counts := s.Owners.Counts
	for p := range names {
		if member, ok := represent(p); ok {
			names[p] = max(1, xxhash.Sum64String(s.roster.members[member].Name))
			only = names[p]
			found++
			if counts[p] > 0 {
				owner = names[p]
				owning++
			}
		}
	}
	switch { // where one has every key, however they are hashed
	case found < 2:
		return only
	case owning == 1:
		return owner
	}
	d := xxhash.New()
	d.Write(s.layout.Digest(hashing.TrialKey))
	if only := s.layout.Print(d, names); only != 0 {
		return only
	}
	if owning == 0 { // the others have the keys
		for _, p := range s.Owners.Idle {
			d.Write(binary.BigEndian.AppendUint64(nil, names[p]))
		}
	}
	return d.Sum64()
}

// An Explanation says why a key goes to its backend. It prints as lines for a reader
// and marshals to JSON.
type Explanation struct {
	Key    string `json:"key"`
	Hash   string `json:"hash"`             // in hexadecimal: 64 bits, or 256 on a ring of SHA-256
	Layout string `json:"layout,omitempty"` // its Name, if there is one
	Home   int    `json:"home"`             // the slot of the key, or the number of its point; -1 for none

	// Probes are the slots or points that the lookup meets, from the home to the one
	// that answers; at most 100. Unlisted is the number of others.
	Probes   []Probe `json:"probes"`
	Unlisted int     `json:"unlisted"`

	// Backend is the name of the result. If there is none, Err says why.
	Backend string `json:"backend"`
	Err     error  `json:"-"`
}

// A Probe is a slot or point that a lookup meets.
type Probe struct {
	At      int    `json:"at"`       // slot or number of the point; -1 for a placement that has none
	HashKey string `json:"hash_key"` // of its placement

	// Backends are those of its placement by rank, without their values.
	Backends []Backend[struct{}] `json:"backends"`
}

// listed is how many probes an Explanation lists.
const listed = 100

// Explain says how Get comes to its result, in time for each slot or point met.
func (c *core[T, L]) Explain(key string) Explanation {
	s := c.now()
	e := Explanation{
		Key:    key,
		Hash:   hex.EncodeToString(s.layout.Digest(key)),
		Layout: layoutName(s.layout.config()),
		Home:   -1,

		Probes: []Probe{},
	}
	if s.Owners.N == 0 {
		e.Err = s.empty
		return e
	}
	w := s.layout.Walk(key)
	e.Home = int(s.layout.HomeOf(key))
	if s.Live == 0 {
		e.Err = s.empty
		e.Probes = []Probe{s.probe(e.Home, s.Owners.At(uint32(e.Home)))}
		return e
	}
	for at := range w.Positions(s.Owners.N) {
		p := s.Owners.At(at)
		healthy := s.Healthy.Has(p)
		if healthy || len(e.Probes) < listed-1 {
			e.Probes = append(e.Probes, s.probe(int(at), p))
		} else {
			e.Unlisted++
		}
		if healthy {
			b, _ := s.roster.leader(int(p))
			e.Backend = b.Name
			return e
		}
	}
	p, _ := s.Nearest(w.Then)
	e.Probes = append(e.Probes, s.probe(-1, p))
	b, _ := s.roster.leader(int(p))
	e.Backend = b.Name
	return e
}

// probe describes a slot or point of a placement.
func (s *snapshot[T, L]) probe(at int, p uint32) Probe {
	group := s.roster.group(int(p))
	probe := Probe{
		At:       at,
		HashKey:  s.roster.placements[p].HashKey,
		Backends: make([]Backend[struct{}], len(group)),
	}
	for rank, i := range group {
		probe.Backends[rank] = s.roster.members[i].bare()
	}
	return probe
}

// String returns the explanation as lines for a reader.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "key %q, hash %s, home %d", e.Key, e.Hash, e.Home)
	if e.Layout != "" {
		fmt.Fprintf(&b, ", layout %q", e.Layout)
	}
	b.WriteByte('\n')
	for i, probe := range e.Probes {
		if e.Unlisted > 0 && i == len(e.Probes)-1 {
			fmt.Fprintf(&b, "  %d more\n", e.Unlisted)
		}
		fmt.Fprintf(&b, "  %d is of %q:", probe.At, probe.HashKey)
		for _, backend := range probe.Backends {
			fmt.Fprintf(&b, " %s %v", backend.Name, backend.State)
		}
		b.WriteByte('\n')
	}
	if e.Err != nil {
		fmt.Fprintf(&b, "result: %v", e.Err)
	} else {
		fmt.Fprintf(&b, "result: %s", e.Backend)
	}
	return b.String()
}

// MarshalJSON implements json.Marshaler, with Err as a string.
func (e Explanation) MarshalJSON() ([]byte, error) {
	type fields Explanation
	out := struct {
		fields
		Error string `json:"error,omitempty"`
	}{fields: fields(e)}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	return json.Marshal(out)
}
