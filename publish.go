package chash

import "slices"

// A snapshot is published in three steps: the tallies that it leads to are opened,
// then everybody sees it, then those are closed that it does not lead to. So who comes
// by the newest snapshot meets no closed tally, and who meets one finds a newer snapshot.

// publish makes s what everybody sees; with quotas if there is a ledger.
func (c *core[T, L]) publish(s *snapshot[T, L]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishLocked(s)
}

// publishLocked is publish for who holds mu.
func (c *core[T, L]) publishLocked(s *snapshot[T, L]) {
	l := c.ledger
	if l == nil {
		c.current.Store(s)
		return
	}
	l.round++
	q := &quotas{
		at:    make([]quota, len(s.roster.placements)),
		bound: s.bound,
		all:   l.total,
	}
	for p := range q.at {
		q.set(p, quotaOf(l, s.roster, p))
	}
	s.quotas = q
	c.current.Store(s)
	for _, t := range l.byName {
		if t.round != l.round {
			l.close(t)
		}
	}
}

// publishLead is publishLocked for a snapshot that differs from the current one in no
// more than the leader of placement p. Both have the same quotas or none.
func (c *core[T, L]) publishLead(s *snapshot[T, L], p int) {
	if s.quotas == nil {
		c.publishLocked(s)
		return
	}
	before := s.quotas.at[p].tally
	q := *s.quotas
	q.at = slices.Clone(q.at)
	q.set(p, quotaOf(c.ledger, s.roster, p))
	s.quotas = &q
	c.current.Store(s)
	if before != nil && before != q.at[p].tally {
		c.ledger.close(before)
	}
}

// quotaOf returns the quota of placement p, whose leader's tally it opens.
func quotaOf[T any](l *ledger, r *roster[T], p int) quota {
	b, healthy := r.leader(p)
	if !healthy {
		return quota{}
	}
	return quota{l.open(b.Name), b.Weight}
}

// openLedger makes the ledger and publishes quotas, unless another has. It
// returns the current snapshot.
func (c *core[T, L]) openLedger() *snapshot[T, L] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil {
		c.ledger = &ledger{total: new(counter), byName: map[string]*tally{}}
		c.publishLocked(c.now().copy())
	}
	return c.now()
}

// publishBound publishes another bound. It copies no quotas.
func (c *core[T, L]) publishBound(change func(b *bound)) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.now().copy()
	change(&next.bound)
	if next.quotas != nil {
		q := *next.quotas
		q.bound = next.bound
		next.quotas = &q
	}
	c.current.Store(next)
}
