package chash

import (
	"slices"
	"sync/atomic"
	"time"
)

// A snapshot is one whole state, as lookups and all other readers see it. It is
// immutable once published, without what fallbacks and quotas lead to.
type snapshot[T any, L layout[L]] struct {
	view
	values   []T      // by placement: of its leader
	weights  []uint32 // by placement: of its leader
	layout   L
	empty    error // what lookups return where no placement is healthy
	rotation rotation
	roster   *roster[T]

	bound    bound
	rebuilds uint64
	lastTime time.Duration // of a rebuild

	fallbacks *atomic.Uint64 // of the core
	quotas    *quotas        // nil until Acquire is called
}

// copy returns a copy to be changed and then published.
func (s *snapshot[T, L]) copy() *snapshot[T, L] {
	next := *s
	return &next
}

// derive sets what follows from the layout and the roster, in a snapshot not yet
// published.
func (s *snapshot[T, L]) derive() {
	s.view = newView(s.layout.array(), len(s.roster.placements))
	s.values = make([]T, len(s.roster.placements))
	s.weights = make([]uint32, len(s.roster.placements))
	s.empty = ErrNoHealthyBackends
	if len(s.roster.members) == 0 {
		s.empty = ErrNoBackends
	}
	for p := range s.values {
		b, healthy := s.roster.leader(p)
		s.values[p], s.weights[p] = b.Value, b.Weight
		if healthy {
			s.enter(p, true)
		}
	}
	s.index()
	s.rotation = newRotation(s.healthy, s.live, s.weights)
}

// amend puts b in the place of member i, from which it differs in its value, or in a
// state that is not Draining before or after, in a snapshot not yet published. It
// returns the placement, and whether b has one.
func (s *snapshot[T, L]) amend(i int, b Backend[T]) (p int, placed bool) {
	old := s.roster
	s.roster = old.replacing(i, b)
	if b.State == Draining {
		return 0, false
	}
	p = old.placementOf(i)
	led, was := old.lead(p)
	lead, healthy := s.roster.lead(p)
	if lead != led || lead == i && b.State == old.members[i].State { // then its value is another
		s.values = slices.Clone(s.values)
		s.values[p] = s.roster.members[lead].Value
	}
	if lead != led {
		s.weights = slices.Clone(s.weights)
		s.weights[p] = s.roster.members[lead].Weight
	}
	if healthy != was {
		s.setHealth(p, healthy)
	}
	if healthy != was || lead != led {
		s.rotation = newRotation(s.healthy, s.live, s.weights)
	}
	return p, true
}
