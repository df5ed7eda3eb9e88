package load

// Quotas has what a call needs to take a lease. Only the tallies change.
type Quotas struct {
	at      []quota // by placement
	weights uint64  // their sum; no overflow: there are fewer than 2^31
	bound   Bound
	Total   *Counter
}

// A quota belongs to the backend that leads a healthy placement. For others it is
// zero.
type quota struct {
	tally  *Tally
	weight uint32
}

// WithBound returns the quotas with another bound.
func (q *Quotas) WithBound(b Bound) *Quotas {
	next := *q
	next.bound = b
	return &next
}

func (q *Quotas) set(p int, to quota) {
	q.weights += uint64(to.weight) - uint64(q.at[p].weight)
	q.at[p] = to
}

// TallyOf returns the tally of the backend that leads placement p, which must be
// healthy.
func (q *Quotas) TallyOf(p uint32) *Tally { return q.at[p].tally }

// An Outcome is the result of trying to take a lease.
type Outcome int

const (
	Granted  Outcome = iota
	NoRoom           // the load is at its bound
	Outdated         // the tally is closed: there is a newer snapshot
	TooMuch          // the total would exceed MaxInFlight
)

// Take adds a lease to the load of placement p if the load is below its bound. The
// cost is already in the total.
func (q *Quotas) Take(p uint32, cost, total int64) Outcome {
	return q.takeBelow(p, cost, total, q.weights)
}

// HasRoom reports whether the load of placement p is below its bound. The total has the
// lease already.
func (q *Quotas) HasRoom(p uint32, total int64) bool {
	at := &q.at[p]
	return q.bound.LeavesRoom(at.tally.Load(), total, at.weight, q.weights)
}

// takeBelow is Take with the total and the sum of weights of some placements only.
func (q *Quotas) takeBelow(p uint32, cost, total int64, weights uint64) Outcome {
	at := &q.at[p]
	for {
		n := at.tally.n.Load()
		if n < 0 {
			return Outdated
		}
		if !q.bound.LeavesRoom(n, total, at.weight, weights) {
			return NoRoom
		}
		if at.tally.n.CompareAndSwap(n, n+cost) {
			return Granted
		}
	}
}

// TryTake is Take for a cost that is not in the total yet. It adds the cost only if
// there seems to be room. So calls that refuse many backends do not raise the bounds
// of others.
func (q *Quotas) TryTake(p uint32, cost int64) Outcome {
	at := &q.at[p]
	n, total := at.tally.n.Load(), q.Total.n.Load()+cost
	switch {
	case n < 0:
		return Outdated
	case total > MaxInFlight:
		return TooMuch
	case !q.bound.LeavesRoom(n, total, at.weight, q.weights):
		return NoRoom
	}
	result := q.Take(p, cost, q.Total.n.Add(cost))
	if result != Granted {
		q.Total.n.Add(-cost)
	}
	return result
}

// TakeAmong takes a lease from the first placement of a set whose load is below the
// bound among the set. If there is none, another call has changed a load since the
// sum, and TakeAmong begins again.
func (q *Quotas) TakeAmong(set *Chosen, cost int64) (uint32, Outcome) {
	q.Total.n.Add(cost)
	for {
		among, weights := cost, uint64(0)
		for i := range set.N {
			at := &q.at[set.at(i)]
			among += at.tally.Load()
			weights += uint64(at.weight)
		}
		for i := range set.N {
			p := set.at(i)
			switch q.takeBelow(p, cost, among, weights) {
			case Granted:
				return p, Granted
			case Outdated:
				q.Total.n.Add(-cost)
				return p, Outdated
			}
		}
	}
}

// Chosen is a list of placements. It allocates nothing while it is short.
type Chosen struct {
	N     int
	first [32]uint32
	rest  []uint32
}

func (c *Chosen) Add(p uint32) {
	if c.N < len(c.first) {
		c.first[c.N] = p
	} else {
		c.rest = append(c.rest, p)
	}
	c.N++
}

func (c *Chosen) at(i int) uint32 {
	if i < len(c.first) {
		return c.first[i]
	}
	return c.rest[i-len(c.first)]
}
