package chash

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/chash-go/chash/internal/load"
	"github.com/chash-go/chash/internal/probe"
	"github.com/chash-go/chash/internal/turns"
)

// A snapshot is one whole state, as all readers see it. Once published, only what
// fallbacks and quotas point to changes.
type snapshot[T any, L layout[L]] struct {
	probe.View
	values   []T      // by placement: of its leader
	weights  []uint32 // by placement: of its leader
	layout   L
	empty    error // what lookups return where no placement is healthy
	rotation turns.Rotation
	roster   *roster[T]

	bound    load.Bound
	rebuilds uint64
	lastTime time.Duration // of a rebuild

	fallbacks *atomic.Uint64 // of the core
	quotas    *load.Quotas   // nil until Acquire is called
}

// copy returns a copy, to change and then publish.
func (s *snapshot[T, L]) copy() *snapshot[T, L] {
	next := *s
	return &next
}

// derive sets what follows from the layout and the roster, in a snapshot not yet
// published.
func (s *snapshot[T, L]) derive() {
	s.View = probe.NewView(s.layout.array(), len(s.roster.placements))
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
			s.Mark(p, true)
		}
	}
	s.Index()
	s.rotation = turns.New(s.Healthy, s.Live, s.weights)
}

// amend puts b in place of member i, in a snapshot not yet published. Only the value
// differs, or the state, which is not Draining before or after. It returns the
// placement, and whether b has one.
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
		s.SetHealth(p, healthy)
	}
	if healthy != was || lead != led {
		s.rotation = turns.New(s.Healthy, s.Live, s.weights)
	}
	return p, true
}

// Publishing a snapshot takes three steps. First the tallies that it leads to are opened.
// Then the snapshot becomes the current one. Then the other tallies are closed. So a call
// with the current snapshot meets no closed tally, and a call that meets a closed tally
// finds a newer snapshot.

// publish makes s the current snapshot, with quotas if there is a ledger.
func (c *core[T, L]) publish(s *snapshot[T, L]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishLocked(s)
}

// publishLocked is publish for a caller that holds mu.
func (c *core[T, L]) publishLocked(s *snapshot[T, L]) {
	if c.ledger == nil {
		c.current.Store(s)
		return
	}
	s.quotas = c.ledger.Quotas(s.bound, len(s.roster.placements), s.roster.holder)
	c.current.Store(s)
	c.ledger.CloseOthers()
}

// publishLead is publishLocked for a snapshot that differs from the current one only
// in the leader of placement p. Both have the same quotas, or none.
func (c *core[T, L]) publishLead(s *snapshot[T, L], p int) {
	if s.quotas == nil {
		c.publishLocked(s)
		return
	}
	var outgoing *load.Tally
	s.quotas, outgoing = c.ledger.Amend(s.quotas, p, s.roster.holder)
	c.current.Store(s)
	c.ledger.Close(outgoing)
}

// openLedger makes the ledger and publishes quotas, unless another call has. It
// returns the current snapshot.
func (c *core[T, L]) openLedger() *snapshot[T, L] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil {
		c.ledger = load.NewLedger()
		c.publishLocked(c.now().copy())
	}
	return c.now()
}

// publishBound publishes another bound. It copies no quotas.
func (c *core[T, L]) publishBound(change func(b *load.Bound)) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.now().copy()
	change(&next.bound)
	if next.quotas != nil {
		next.quotas = next.quotas.WithBound(next.bound)
	}
	c.current.Store(next)
}
