package chash

import (
	"math"
	"sync/atomic"
)

// A tally counts the leases of one backend, by their cost. It is open while the
// backend leads a healthy placement, so that it can get leases: then its load is in
// the total. Else it is closed, and no lease can be taken from it, by no one: whoever
// comes with an outdated snapshot meets the mark.
//
// The mark is the sign of n, so that each change of a load says at once whether the
// load was in the total, and each load enters and leaves the total once.
//
// It has cache lines of its own, so that leases of different backends do not slow each
// other down: two of them, since processors fetch lines in pairs, and some have lines
// of that size.
type tally struct {
	n     atomic.Int64 // the load; closed, if it is closed, and the load
	total *counter
	name  string // of the backend
	round uint64 // of publish, in which it was last open; the lock guards it
	_     [2*cacheLine - 40]byte
}

// closed is the sign. To add it opens what is closed and closes what is open.
const closed = math.MinInt64

// A counter is the total: what the loads of open tallies are together, and the costs of
// the leases that are being taken. It has cache lines of its own too.
type counter struct {
	n atomic.Int64
	_ [2*cacheLine - 8]byte
}

// What holds at every moment: the total is at least the loads of all open tallies
// together and the costs of the leases that are being taken; it is no more than that
// where no call is between two of its steps. For each step keeps it:
//
//   - To take a lease adds its cost to the total first, then to an open tally.
//   - To give it back takes it from the tally first, and from the total then if the
//     tally was open at that moment.
//   - To close a tally takes its load, as it was at that moment, from the total then.
//   - To open one adds its load to the total first. That may be too much when the
//     tally opens, as leases were given back in between, but not too little, as none
//     can be taken from a closed one. What was too much then goes.

// load returns the load, whether or not it is in the total.
func (t *tally) load() int64 { return t.n.Load() &^ closed }

// give gives back a lease.
func (t *tally) give(cost int64) {
	if t.n.Add(-cost) >= 0 {
		t.total.n.Add(-cost)
	}
}

// open opens the tally unless it is open, under the lock.
func (t *tally) open() {
	n := t.n.Load()
	if n >= 0 {
		return
	}
	load := n &^ closed
	t.total.n.Add(load)
	t.total.n.Add(t.n.Add(closed) - load)
}

// close closes the tally unless it is closed, under the lock.
func (t *tally) close() {
	if t.n.Load() >= 0 {
		t.total.n.Add(-(t.n.Add(closed) &^ closed))
	}
}

// A ledger has the tallies by name: those that are open, and closed ones until their
// last lease is given back and the membership changes. The core's lock guards it.
type ledger struct {
	total  *counter
	byName map[string]*tally
	round  uint64
}

// open returns the open tally of a backend.
func (l *ledger) open(name string) *tally {
	t := l.byName[name]
	if t == nil {
		t = &tally{total: l.total, name: name}
		l.byName[name] = t
	}
	t.open()
	t.round = l.round
	return t
}

// close closes a tally, and forgets one that nothing is left of: no lease can come to
// it any more.
func (l *ledger) close(t *tally) {
	t.close()
	if t.load() == 0 {
		delete(l.byName, t.name)
	}
}

// quotas is what Acquire needs to know beyond a view. It is immutable once
// published, but for the tallies.
type quotas struct {
	at      []quota // by placement
	weights uint64  // sum, which cannot overflow: there are fewer than 2^31
	bound   bound
	all     *counter
}

// A quota is that of the backend which leads a healthy placement, else zero.
type quota struct {
	tally  *tally
	weight uint32
}

func (q *quotas) set(p int, to quota) {
	q.weights += uint64(to.weight) - uint64(q.at[p].weight)
	q.at[p] = to
}

// An outcome is what comes of trying to take a lease.
type outcome int

const (
	granted  outcome = iota
	noRoom           // for the lease
	outdated         // the backend gets no leases any more: there is a newer snapshot
)

// take adds a lease to the load of placement p if that is below its bound. The total
// has the lease already.
func (q *quotas) take(p uint32, cost, total int64) outcome {
	return q.takeOf(p, cost, total, q.weights)
}

// takeOf is take with a total and a sum of weights that are those of other placements
// than all.
func (q *quotas) takeOf(p uint32, cost, total int64, weights uint64) outcome {
	at := &q.at[p]
	for {
		n := at.tally.n.Load()
		if n < 0 {
			return outdated
		}
		if !q.bound.leavesRoom(n, total, at.weight, weights) {
			return noRoom
		}
		if at.tally.n.CompareAndSwap(n, n+cost) {
			return granted
		}
	}
}

// loads returns the loads by name of backend, where there are any, and their sum;
// backends that were removed meanwhile are among them.
func (c *core[T, L]) loads() (loads map[string]int64, sum int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	loads = map[string]int64{}
	if c.ledger == nil {
		return loads, 0
	}
	for name, t := range c.ledger.byName {
		if n := t.load(); n > 0 {
			loads[name] = n
			sum += n
		}
	}
	return loads, sum
}
