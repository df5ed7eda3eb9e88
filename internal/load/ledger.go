// Package load counts the leases of backends and decides which of them has room for
// another one.
package load

import (
	"math"
	"slices"
	"sync/atomic"
)

// CacheLine is the size of a processor's cache line.
const CacheLine = 64

// A Tally counts the leases of one backend, by their cost. It is open while the
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
type Tally struct {
	n     atomic.Int64 // the load; closed, if it is closed, and the load
	total *Counter
	name  string // of the backend
	round uint64 // of publish, in which it was last open; the lock guards it
	_     [2*CacheLine - 40]byte
}

// closed is the sign. To add it opens what is closed and closes what is open.
const closed = math.MinInt64

// A Counter is the total: what the loads of open tallies are together, and the costs of
// the leases that are being taken. It has cache lines of its own too.
type Counter struct {
	n atomic.Int64
	_ [2*CacheLine - 8]byte
}

func (c *Counter) Add(cost int64) (total int64) { return c.n.Add(cost) }
func (c *Counter) Load() int64                  { return c.n.Load() }

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

// Load returns the load, whether or not it is in the total.
func (t *Tally) Load() int64 { return t.n.Load() &^ closed }

// Give gives back a lease.
func (t *Tally) Give(cost int64) {
	if t.n.Add(-cost) >= 0 {
		t.total.n.Add(-cost)
	}
}

// open opens the tally unless it is open, under the lock.
func (t *Tally) open() {
	n := t.n.Load()
	if n >= 0 {
		return
	}
	load := n &^ closed
	t.total.n.Add(load)
	t.total.n.Add(t.n.Add(closed) - load)
}

// close closes the tally unless it is closed, under the lock.
func (t *Tally) close() {
	if t.n.Load() >= 0 {
		t.total.n.Add(-(t.n.Add(closed) &^ closed))
	}
}

// A Ledger has the tallies by name: those that are open, and closed ones until their
// last lease is given back and the membership changes. It is not safe for concurrent use,
// other than by those who change the loads.
type Ledger struct {
	total  *Counter
	byName map[string]*Tally
	round  uint64
}

// NewLedger returns a ledger without tallies.
func NewLedger() *Ledger {
	return &Ledger{total: new(Counter), byName: map[string]*Tally{}}
}

// Len returns for how many backends there is a tally.
func (l *Ledger) Len() int { return len(l.byName) }

// Loads returns the loads by name of backend, where there are any, and their sum.
func (l *Ledger) Loads() (loads map[string]int64, sum int64) {
	loads = map[string]int64{}
	for name, t := range l.byName {
		if n := t.Load(); n > 0 {
			loads[name] = n
			sum += n
		}
	}
	return loads, sum
}

// A Holder returns the name and the weight of the backend to which the leases of a
// placement go, or no name if they go to none.
type Holder func(placement int) (name string, weight uint32)

// Quotas returns the quotas of placements, of which there are n, and opens the tallies
// that they lead to. Once they are published, CloseOthers closes the others.
func (l *Ledger) Quotas(b Bound, n int, of Holder) *Quotas {
	l.round++
	q := &Quotas{at: make([]quota, n), bound: b, Total: l.total}
	for p := range q.at {
		q.set(p, l.quota(of(p)))
	}
	return q
}

// CloseOthers closes the tallies to which the last quotas do not lead.
func (l *Ledger) CloseOthers() {
	for _, t := range l.byName {
		if t.round != l.round {
			l.Close(t)
		}
	}
}

// Amend returns quotas that differ from q in those of placement p. Once they are
// published, what is outgoing is to be closed, which may be nil.
func (l *Ledger) Amend(q *Quotas, p int, of Holder) (next *Quotas, outgoing *Tally) {
	outgoing = q.at[p].tally
	amended := *q
	amended.at = slices.Clone(q.at)
	amended.set(p, l.quota(of(p)))
	if outgoing == amended.at[p].tally {
		outgoing = nil
	}
	return &amended, outgoing
}

// quota returns the quota of a backend, whose tally it opens, or none without a name.
func (l *Ledger) quota(name string, weight uint32) quota {
	if name == "" {
		return quota{}
	}
	t := l.byName[name]
	if t == nil {
		t = &Tally{total: l.total, name: name}
		l.byName[name] = t
	}
	t.open()
	t.round = l.round
	return quota{t, weight}
}

// Close closes a tally, and forgets one that nothing is left of: no lease can come to
// it any more. Nil is no tally.
func (l *Ledger) Close(t *Tally) {
	if t == nil {
		return
	}
	t.close()
	if t.Load() == 0 {
		delete(l.byName, t.name)
	}
}
