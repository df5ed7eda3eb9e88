// Package load counts the leases of backends and decides which backend has room.
package load

import (
	"math"
	"slices"
	"sync/atomic"
)

// CacheLine is the size of a processor's cache line.
const CacheLine = 64

// A Tally is the load of one backend: the costs of its leases together. It is open
// while the backend leads a healthy placement. Then the backend can get leases, and
// its load is part of the total. Otherwise the tally is closed, and nobody can take a
// lease from it, not even with an outdated snapshot.
//
// The sign of n says whether the tally is closed. So each change of the load learns
// in the same step whether the load was part of the total, and each load enters and
// leaves the total once.
//
// A tally has two cache lines of its own, so that leases of different backends do not
// slow each other down. Two, since processors fetch lines in pairs, and some have
// lines of that size.
type Tally struct {
	n     atomic.Int64 // the load, plus closed if the tally is closed
	total *Counter
	name  string // of the backend
	round uint64 // the last call of Quotas that opened it; the lock guards it
	_     [2*CacheLine - 40]byte
}

// closed is the sign bit. Adding it closes an open tally and opens a closed one.
const closed = math.MinInt64

// A Counter is the total: the loads of all open tallies, and the costs of the leases
// that are being taken. It has two cache lines of its own, like a Tally.
type Counter struct {
	n atomic.Int64
	_ [2*CacheLine - 8]byte
}

func (c *Counter) Add(cost int64) (total int64) { return c.n.Add(cost) }
func (c *Counter) Load() int64                  { return c.n.Load() }

// The invariant: the total is at least the loads of all open tallies plus the costs of
// the leases that are being taken. It is equal while no call is between two of its steps.
// Each step keeps the invariant:
//
//   - Taking a lease adds its cost to the total first, then to an open tally.
//   - Releasing a lease subtracts its cost from the tally first. If the tally was open at
//     that moment, it then subtracts the cost from the total.
//   - Closing a tally subtracts the load that the tally had at that moment from the total.
//   - Opening a tally adds its load to the total first. Releases in between can make this
//     too much, but never too little, since nobody can take a lease from a closed tally.
//     Open then subtracts what is too much.

// Load returns the load, of a closed tally too.
func (t *Tally) Load() int64 { return t.n.Load() &^ closed }

// Give gives back a lease.
func (t *Tally) Give(cost int64) {
	if t.n.Add(-cost) >= 0 {
		t.total.n.Add(-cost)
	}
}

// open opens the tally if it is closed. The caller holds the lock.
func (t *Tally) open() {
	n := t.n.Load()
	if n >= 0 {
		return
	}
	load := n &^ closed
	t.total.n.Add(load)
	t.total.n.Add(t.n.Add(closed) - load)
}

// close closes the tally if it is open. The caller holds the lock.
func (t *Tally) close() {
	if t.n.Load() >= 0 {
		t.total.n.Add(-(t.n.Add(closed) &^ closed))
	}
}

// A Ledger has the tallies by name of backend. A closed tally stays until its last
// lease is released and the membership changes. Only the loads are safe for
// concurrent use.
type Ledger struct {
	total  *Counter
	byName map[string]*Tally
	round  uint64
}

// NewLedger returns a ledger without tallies.
func NewLedger() *Ledger {
	return &Ledger{total: new(Counter), byName: map[string]*Tally{}}
}

// Len returns the number of tallies.
func (l *Ledger) Len() int { return len(l.byName) }

// Loads returns the loads above 0 by name of backend, and their sum.
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

// A Holder returns the name and the weight of the backend that gets the leases of a
// placement. The name is empty if there is none.
type Holder func(placement int) (name string, weight uint32)

// Quotas returns the quotas of n placements and opens their tallies. Call CloseOthers
// once the quotas are published.
func (l *Ledger) Quotas(b Bound, n int, of Holder) *Quotas {
	l.round++
	q := &Quotas{at: make([]quota, n), bound: b, Total: l.total}
	for p := range q.at {
		q.set(p, l.quota(of(p)))
	}
	return q
}

// CloseOthers closes the tallies that are not in the last quotas.
func (l *Ledger) CloseOthers() {
	for _, t := range l.byName {
		if t.round != l.round {
			l.Close(t)
		}
	}
}

// Amend returns quotas that differ from q only at placement p. Once they are
// published, the caller closes the outgoing tally, which may be nil.
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

// quota opens the tally of a backend and returns the quota. Without a name it returns
// none.
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

// Close closes a tally. It forgets the tally if no lease is left, since no new lease
// can come. A nil tally is allowed.
func (l *Ledger) Close(t *Tally) {
	if t == nil {
		return
	}
	t.close()
	if t.Load() == 0 {
		delete(l.byName, t.name)
	}
}
