package chash

// AcquireFunc is Acquire among the backends that accept takes: those of a zone, those
// that have an adapter loaded, those not tried yet in this request. It returns a lease
// on the first healthy placement in the key's order of preference that accept takes and
// whose load is below its bound, which is that of Acquire, over all healthy placements.
//
// Where every one that accept takes is full, though others may not be, the bound is
// that of Acquire over these alone: with their loads and this cost as the total, and the
// sum of their weights. The first in the key's order that is below it gets the lease.
// So nobody waits, one of them always has room, and few backends that much is asked of
// share it as a structure of their own would.
//
// It asks accept at most once for each placement it meets, and begins again only where
// the backends have changed meanwhile; of backends that share a placement, about the
// healthy one that outranks the other healthy ones. A nil accept takes every one. It may
// call the structure, also to change it, and may panic: the lease is counted when accept
// has returned. The errors are those of Acquire and, where accept takes none,
// ErrNoneAccepted. It takes no lock. It costs what GetFunc and the counters of Acquire
// cost, and allocates nothing for the first 32 placements met.
func (c *core[T, L]) AcquireFunc(key string, accept func(T) bool, opts ...LeaseOption) (Lease[T], error) {
	if accept == nil {
		return c.Acquire(key, opts...)
	}
	s, cost, err := c.leasable(opts)
	if err != nil {
		return Lease[T]{}, err
	}
	w, hash := s.layout.start(key) // once: as in Acquire
	for {
		p, result, err := s.choose(w, accept, cost)
		switch {
		case err != nil:
			return Lease[T]{}, err
		case result == granted:
			return s.lease(p, cost), nil
		}
		if s = c.now(); s.live == 0 {
			return Lease[T]{}, s.empty
		}
		w = s.layout.walkAgain(hash, key, false)
	}
}

// choose takes a lease from a placement on a walk that accept takes, unless the snapshot
// is outdated.
func (s *snapshot[T, L]) choose(w walk, accept func(T) bool, cost int64) (uint32, outcome, error) {
	var set chosen
	cursor := s.cursor(w)
	for {
		p, found := cursor.next(&s.view)
		if !found {
			break
		}
		if !accept(s.values[p]) {
			continue
		}
		result, err := s.quotas.try(p, cost)
		if result != noRoom || err != nil {
			return p, result, err
		}
		set.add(p)
	}
	if set.n == 0 {
		return none, noRoom, ErrNoneAccepted
	}
	p, result := s.quotas.takeAmong(&set, cost)
	return p, result, nil
}

// try is take for a lease that is not in the total, and is there only if it is taken.
// Where it looks as if there were no room it writes nothing, so that those who are
// choosy do not raise the bounds of others.
func (q *quotas) try(p uint32, cost int64) (outcome, error) {
	at := &q.at[p]
	n, total := at.tally.n.Load(), q.all.n.Load()+cost
	switch {
	case n < 0:
		return outdated, nil
	case total > maxInFlight:
		return noRoom, errTooMuch(cost)
	case !q.bound.leavesRoom(n, total, at.weight, q.weights):
		return noRoom, nil
	}
	result := q.take(p, cost, q.all.n.Add(cost))
	if result != granted {
		q.all.n.Add(-cost)
	}
	return result, nil
}

// takeAmong takes a lease from the first of a set of placements whose load is below the
// bound among them. Where none is, another call has moved something between the sum of
// the loads and the looks at each, and the loads are summed up again.
func (q *quotas) takeAmong(set *chosen, cost int64) (uint32, outcome) {
	q.all.n.Add(cost)
	for {
		among, weights := cost, uint64(0)
		for i := range set.n {
			at := &q.at[set.at(i)]
			among += at.tally.load()
			weights += uint64(at.weight)
		}
		for i := range set.n {
			p := set.at(i)
			switch q.takeOf(p, cost, among, weights) {
			case granted:
				return p, granted
			case outdated:
				q.all.n.Add(-cost)
				return p, outdated
			}
		}
	}
}

// chosen is a list of placements that allocates nothing while it is short.
type chosen struct {
	n     int
	first [32]uint32
	rest  []uint32
}

func (c *chosen) add(p uint32) {
	if c.n < len(c.first) {
		c.first[c.n] = p
	} else {
		c.rest = append(c.rest, p)
	}
	c.n++
}

func (c *chosen) at(i int) uint32 {
	if i < len(c.first) {
		return c.first[i]
	}
	return c.rest[i-len(c.first)]
}
