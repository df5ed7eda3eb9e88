package chash

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// An Explanation says why a key goes to its backend. It prints as lines for a reader
// and marshals to JSON.
type Explanation struct {
	Key    string `json:"key"`
	Hash   string `json:"hash"`             // in hexadecimal: 64 bits, or 256 on a ring of SHA-256
	Layout string `json:"layout,omitempty"` // its Name, if there is one

	// Home is the slot of the key, or the number of its point; -1 if there is none.
	Home int `json:"home"`

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

	// Backends are those of its placement without their values, the highest rank
	// first.
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
