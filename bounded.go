package chash

import (
	"math"
	"slices"
	"sync/atomic"
)

// Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam,
// "Consistent Hashing with Bounded Loads", SODA 2018): a key's lease is taken
// from the first backend in its order of preference that has room.
//
// What holds at every moment, and what the rest stands on: an Acquire adds to
// the total before it adds to a load, and a Release takes from the load before
// it takes from the total. So the loads together are never above the total, and
// below it while an Acquire of which the total knows has no backend yet.
//
// Why a backend has room: suppose that one such Acquire sees every healthy
// placement p with load(p) >= c*total*weight(p)/healthy, where healthy is the sum
// of their weights; these and c are as in the snapshot that it goes by, whatever
// others go by. Then the loads together are at least c*total, which is more than
// the total since c is above 1, but they are below it. Rounding does not matter:
// its error is some total*2^-51, far below the 1 that is missing. What one look
// after the other sees need not have been so at one moment; but a walk that
// finds no room where nothing moves is impossible, so that another call must
// have taken or released a lease meanwhile. Then the walk is repeated, and of
// all calls one always gets on.
//
// Full placements have at most 1/c of the healthy weight, so at least 1-1/c of
// the healthy owners lead to room: a key's walk expects c/(c-1) looks at most,
// whatever the number of backends, and needs not know which ones it has met. A
// rotation, which goes by placements instead of owners, meets each of them once.

// DefaultLoadFactor is the load factor without WithLoadFactor: a backend has at
// most a quarter more leases in flight than its fair share, rounded up.
const DefaultLoadFactor = 1.25

func validateLoadFactor(c float64) error {
	if !validLoadFactor(c) {
		return invalidOption("load factor %v, want a number above 1", c)
	}
	return nil
}

// validLoadFactor is written so that NaN does not pass.
func validLoadFactor(c float64) bool { return c > 1 && c <= math.MaxFloat64 }

// A Lease is a backend's Value for as long as a request to it is in flight: it
// counts towards the backend's load until Release. The zero value, which comes
// with an error of Acquire and AcquireNext, is that of no backend, and to release
// it does nothing. A Lease must not be copied, which vet reports, or its Release
// could count twice; hand on a pointer. It is safe for concurrent use by multiple
// goroutines, Value as far as T is.
type Lease[T any] struct {
	Value T // of the backend, as it was when the lease was taken

	tally    *tally
	released atomic.Bool // also what vet knows a copy by
}

// Release gives the lease back, once: further calls do nothing, also where they
// are concurrent. It works whatever has become of the backend, allocates nothing
// and takes no lock. A lease that is never released is in flight forever.
func (l *Lease[T]) Release() {
	if l.tally == nil || l.released.Swap(true) {
		return
	}
	l.tally.n.Add(-1)
	l.tally.total.n.Add(-1)
}

// Acquire returns a lease on the backend of the first healthy placement, in the
// key's order of preference, whose load is below its bound, and counts it in until
// Release. The load is the number of its leases in flight. The bound is
//
//	ceil(c * (total in flight + 1) * weight / sum of weights)
//
// with the c of WithLoadFactor or SetLoadFactor, the weight of that backend itself,
// and the sum over the healthy placements, each with the weight of the backend that
// lookups return there. It is computed with float64. So a key goes where Get sends
// it as long as there is room, what overflows goes to the same next backend each
// time, and with one healthy backend or more there always is room. On an empty
// structure the error is ErrNoBackends, without a healthy backend it is
// ErrNoHealthyBackends.
//
// Of N equal backends each has room for a second lease only once more than N/c are in
// flight: before that, two requests of one key that overlap go to two backends. What
// keeps keys in place is many more requests in flight than there are backends.
//
//	lease, err := table.Acquire(key)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// Loads belong to names: they outlive rebuilds, states, weights, and a removal
// until the last lease is released, so that a backend added again under its name
// finds its load. All leases count towards the total, also those of backends
// that are no longer healthy or no longer there. A Clone has loads of its own,
// none at first.
//
// The first Acquire of a structure makes the counters, for which it waits like a
// change of the membership. Every other allocates nothing and takes no lock. It
// costs what Get costs and, with Release, four writes of counters, of which one
// counter is shared by all leases; and for each backend met without room one more
// look. About c/(c-1) looks at most are expected, which are 5 by default.
func (c *core[T, L]) Acquire(key string) (Lease[T], error) {
	return c.acquire(search{key: key})
}

// AcquireNext is Acquire for a request that has no key: it begins with the backend
// whose turn it is, as Next does and in turns with it, and goes on in the order of
// hash keys. So such requests are spread evenly, whatever the weights, until the
// bounds are met, which follow the weights; and they count towards the loads that
// those with a key find. It costs what Next and the counters of Acquire cost, and
// for each backend met without room one more look, of which there may be as many as
// backends: light ones are full soon, but have as many turns as heavy ones.
func (c *core[T, L]) AcquireNext() (Lease[T], error) {
	return c.acquire(search{rotate: true})
}

// acquire takes a lease from the first placement of a search that has room. The
// search has not begun.
func (c *core[T, L]) acquire(q search) (Lease[T], error) {
	s := c.now()
	if s.live > 0 && s.quotas == nil {
		s = c.openLedger()
	}
	if s.live == 0 {
		return Lease[T]{}, s.empty
	}
	if q.rotate {
		q.turn = c.turn.Add(1) - 1
	}
	s.begin(&q)
	total := s.quotas.total // the same in every snapshot from now on
	inFlight := total.n.Add(1)
	for {
		p, more := q.next(&s.view, &s.rotation)
		if more {
			var taken bool
			if taken, more = s.quotas.take(p, inFlight); taken {
				return Lease[T]{Value: s.values[p], tally: s.quotas.at[p].tally}, nil
			}
		}
		if !more { // of this search, or of this snapshot
			if s = c.now(); s.live == 0 {
				total.n.Add(-1)
				return Lease[T]{}, s.empty
			}
			s.begin(&q)
		}
		// Others may have come or gone since, for perhaps a whole time slice.
		inFlight = total.n.Load()
	}
}

// A search is the order in which healthy placements are asked for room, each at
// least once: that of the key or, if it is to rotate, that of hash keys from the
// turn's on.
type search struct {
	key  string
	walk walk

	rotate bool
	turn   uint64
	met    int    // placements, of a rotation
	last   uint32 // of them
}

// begin begins a search, or begins it again.
func (s *snapshot[T, L]) begin(q *search) {
	if q.rotate {
		q.met = 0
		return
	}
	q.walk = s.layout.walk(q.key)
}

// next returns the next placement and whether there was one.
func (q *search) next(v *view, r *rotation) (placement uint32, found bool) {
	if !q.rotate {
		return q.walk.next(v)
	}
	switch q.met {
	case 0:
		q.last = r.at(q.turn)
	case v.live:
		return none, false
	default:
		q.last = r.after(q.last)
	}
	q.met++
	return q.last, true
}

// SetLoadFactor sets the c of WithLoadFactor; c of 1 and below, infinity and NaN
// are ErrInvalidOption. Leases in flight stay, also where they are more than
// is now allowed. It rebuilds nothing; once Acquire has been called another c costs
// time for each placement.
func (c *core[T, L]) SetLoadFactor(factor float64) error {
	if err := validateLoadFactor(factor); err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	s := c.now()
	if s.loadFactor == factor {
		return nil
	}
	next := s.copy()
	next.loadFactor = factor
	c.publish(next)
	return nil
}

// A tally counts leases: one backend's, or all. It has cache lines of its own,
// so that leases of different backends do not slow each other down: two of them,
// since processors fetch lines in pairs, and some have lines of that size.
type tally struct {
	n     atomic.Int64
	total *tally // that of all, if this is a backend's
	_     [2*cacheLine - 16]byte
}

// sealed is the load of a backend that was removed without a lease: its tally is
// out of the ledger, and nobody may count on it any more. Where an outdated
// snapshot leads to it, the current one is newer.
const sealed = math.MinInt64

// A ledger has the tallies by name, those of backends which have led a healthy
// placement since Acquire was first called: of backends that are there, and of
// removed ones until their last lease is released and the membership changes.
// The core's lock guards it.
type ledger struct {
	total  *tally
	byName map[string]*tally
}

func (l *ledger) tally(name string) *tally {
	t := l.byName[name]
	if t == nil {
		t = &tally{total: l.total}
		l.byName[name] = t
	}
	return t
}

// quotas is what Acquire needs to know beyond a view. It is immutable once
// published, but for the tallies.
type quotas struct {
	at      []quota // by placement
	healthy uint64  // sum of weights, which cannot overflow: there are fewer than 2^31
	factor  float64
	total   *tally
}

// A quota is that of the backend which leads a healthy placement, else zero.
type quota struct {
	tally  *tally
	weight uint32
}

// take adds a lease to the load of placement p if that is below its bound.
// Otherwise it reports whether the search can go on, which it cannot where the
// backend is gone.
//
// The load n is an integer, so it is below ceil(x) exactly if it is below x; and
// with n*healthy < c*total*weight instead of a division both sides are exact,
// while they fit 53 bits, for factors such as 1.25.
func (q *quotas) take(p uint32, inFlight int64) (taken, more bool) {
	at := &q.at[p]
	limit := q.factor * float64(inFlight) * float64(at.weight)
	for {
		n := at.tally.n.Load()
		if n == sealed {
			return false, false
		}
		if float64(n)*float64(q.healthy) >= limit {
			return false, true
		}
		if at.tally.n.CompareAndSwap(n, n+1) {
			return true, false
		}
	}
}

// openLedger makes the ledger and publishes quotas, unless another has. It
// returns the current snapshot.
func (c *core[T, L]) openLedger() *snapshot[T, L] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil {
		c.ledger = &ledger{new(tally), map[string]*tally{}}
		c.publishLocked(c.now().copy())
	}
	return c.now()
}

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
	q := &quotas{
		at:     make([]quota, len(s.roster.placements)),
		factor: s.loadFactor,
		total:  l.total,
	}
	for p := range q.at {
		q.set(p, quotaOf(l, s.roster, p))
	}
	s.quotas = q
	c.current.Store(s)
	// Not before: whoever meets a sealed tally shall find a newer snapshot.
	for name, t := range l.byName {
		if _, found := s.roster.locate(name); !found && t.n.CompareAndSwap(0, sealed) {
			delete(l.byName, name)
		}
	}
}

// requota sets the quota of placement p in a snapshot not yet published. The caller
// holds mu.
func (c *core[T, L]) requota(s *snapshot[T, L], p int) {
	if s.quotas == nil {
		return
	}
	q := *s.quotas
	q.at = slices.Clone(q.at)
	q.set(p, quotaOf(c.ledger, s.roster, p))
	s.quotas = &q
}

func (q *quotas) set(p int, to quota) {
	q.healthy += uint64(to.weight) - uint64(q.at[p].weight)
	q.at[p] = to
}

// quotaOf returns the quota of placement p.
func quotaOf[T any](l *ledger, r *roster[T], p int) quota {
	b, healthy := r.leader(p)
	if !healthy {
		return quota{}
	}
	return quota{l.tally(b.Name), b.Weight}
}

// loads returns the number of leases in flight by name of backend, where there
// are any; backends that were removed meanwhile are among them.
func (c *core[T, L]) loads() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	loads := map[string]int64{}
	if c.ledger == nil {
		return loads
	}
	for name, t := range c.ledger.byName {
		if n := t.n.Load(); n > 0 { // not sealed
			loads[name] = n
		}
	}
	return loads
}

// inFlight returns the number of leases in flight, with those that are being
// taken.
func (c *core[T, L]) inFlight() int64 {
	if q := c.now().quotas; q != nil {
		return q.total.n.Load()
	}
	return 0
}
