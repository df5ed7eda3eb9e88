package chash

import (
	"slices"
	"sync/atomic"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/load"
	"github.com/chash-go/chash/internal/probe"
	"github.com/chash-go/chash/internal/turns"
)

// Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam,
// "Consistent Hashing with Bounded Loads", SODA 2018): a key's lease is taken
// from the first backend in its order of preference that has room. The counters
// and the bound are in internal/load.
//
// Full placements have at most 1/c of the healthy weight, so at least 1-1/c of
// the healthy owners lead to room: a key's walk expects c/(c-1) looks at most,
// whatever the number of backends, and needs not know which ones it has met. A
// rotation, which goes by placements instead of owners, meets each of them once.

// A Lease is a backend's Value for as long as a request to it is in flight: it
// counts towards the backend's load until Release. The zero value, which comes
// with an error of the calls that take leases, is that of no backend, and to release
// it does nothing. A Lease must not be copied, which vet reports, or its Release
// could count twice; hand on a pointer. It is safe for concurrent use by multiple
// goroutines, Value as far as T is.
type Lease[T any] struct {
	Value T // of the backend, as it was when the lease was taken

	tally    *load.Tally
	cost     uint32
	released atomic.Bool // also what vet knows a copy by
}

// Release gives the lease back, once: further calls do nothing, also where they
// are concurrent. It works whatever has become of the backend, allocates nothing
// and takes no lock. A lease that is never released is in flight forever.
func (l *Lease[T]) Release() {
	if l.tally == nil || l.released.Swap(true) {
		return
	}
	l.tally.Give(int64(l.cost))
}

// A LeaseOption says something of one lease. It is a plain value: to make one and to
// hand it to a method of a structure allocates nothing. Through an interface, Go
// allocates the list of options.
type LeaseOption struct {
	cost  int64
	given bool
}

// WithCost sets what a lease adds to its backend's load: 1 without it. A cost can
// be whatever loads are to be measured in: tokens, bytes, milliseconds of work. It is
// from 1 to MaxCost, else the call that takes the lease returns ErrInvalidOption. Of
// several costs the last one counts.
func WithCost(n int64) LeaseOption { return LeaseOption{cost: n, given: true} }

// MaxCost is the largest cost of a lease.
const MaxCost = 1<<32 - 1

// costOf returns the cost that options set.
func costOf(opts []LeaseOption) (int64, error) {
	cost := int64(1)
	for _, o := range opts {
		if o.given {
			cost = o.cost
		}
	}
	if cost < 1 || cost > MaxCost {
		return 0, invalidOption("lease cost %d, the range is from 1 to %d", cost, int64(MaxCost))
	}
	return cost, nil
}

// errTooMuch is where counters could overflow in the end: the price of leases that
// nobody releases.
func errTooMuch(cost int64) error {
	return invalidOption("lease cost %d on top of what is in flight, which together may cost %d", cost, int64(load.MaxInFlight))
}

// Acquire returns a lease on the backend of the first healthy placement, in the
// key's order of preference, whose load is below its bound, and counts it in until
// Release. The load is the number of its leases in flight, or what they cost
// together where WithCost says so. The bound is
//
//	max(c * (total in flight + cost) * weight / sum of weights, floor * weight)
//
// with the c of WithLoadFactor, the floor of WithLoadFloor, the cost of this lease,
// which is 1 without WithCost, and the weight of that backend itself. The total and
// the sum are over the healthy placements, each with the load and the weight of the
// backend that lookups return there. So leases that are stuck on a backend without
// health, or on one that was removed, raise no bound of the others; when it returns
// they count again.
//
// A load passes its bound by less than one lease: with leases of cost 1 a backend has
// the bound, rounded up, at most. A key goes where Get sends it as long as there is
// room, what overflows goes to the same next backend each time, and with one healthy
// backend or more there always is room. On an empty structure the error is
// ErrNoBackends, without a healthy backend it is ErrNoHealthyBackends, and a cost out
// of range is ErrInvalidOption.
//
// Of N equal backends each has room for a second lease only once more than N/c are in
// flight: before that, two requests of one key that overlap go to two backends. What
// keeps keys in place is a floor, or many more requests in flight than there are
// backends.
//
//	lease, err := table.Acquire(key)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// Loads belong to names: they outlive rebuilds, states, weights, and a removal
// until the last lease is released, so that a backend added again under its name
// finds its load. A Clone has loads of its own, none at first.
//
// The first Acquire of a structure makes the counters, in time for each backend. Every
// other allocates nothing and takes no lock, and none waits for a rebuild. It
// costs what Get costs and, with Release, four writes of counters, of which one
// counter is shared by all leases; and for each backend met without room one more
// look. About c/(c-1) looks at most are expected, which are 5 by default.
func (c *core[T, L]) Acquire(key string, opts ...LeaseOption) (Lease[T], error) {
	s, cost, err := c.leasable(opts)
	if err != nil {
		return Lease[T]{}, err
	}
	// The key is hashed once, and before anything is counted: the caller's hash may
	// panic.
	q := search{key: key}
	q.walk, q.hash = s.layout.Start(key)
	return c.acquire(s, &q, cost)
}

// AcquireBytes is Acquire for a key of bytes, which the caller may change afterwards.
func (c *core[T, L]) AcquireBytes(key []byte, opts ...LeaseOption) (Lease[T], error) {
	return c.Acquire(hashing.StringOf(key), opts...)
}

// AcquireHash is Acquire for a key that the caller has hashed, as GetHash is Get.
func (c *core[T, L]) AcquireHash(hash uint64, opts ...LeaseOption) (Lease[T], error) {
	s, cost, err := c.leasable(opts)
	if err != nil {
		return Lease[T]{}, err
	}
	q := search{hash: hash, bare: true}
	s.begin(&q)
	return c.acquire(s, &q, cost)
}

// AcquireNext is Acquire for a request that has no key: it begins with the backend
// whose turn it is, as Next does and in turns with it, and goes on in the order of
// hash keys. So such requests are spread by weight until the bounds are met, and they
// count towards the loads that those with a key find. It costs what Next and the
// counters of Acquire cost, and for each backend met without room one more look, of
// which there may be as many as backends.
func (c *core[T, L]) AcquireNext(opts ...LeaseOption) (Lease[T], error) {
	s, cost, err := c.leasable(opts)
	if err != nil {
		return Lease[T]{}, err
	}
	q := search{rotate: true, turn: c.turn.Add(1) - 1}
	return c.acquire(s, &q, cost)
}

// acquire takes a lease from the first placement of a search, which has begun, that has
// room. Others may outdate the snapshot at any time.
func (c *core[T, L]) acquire(s *snapshot[T, L], q *search, cost int64) (Lease[T], error) {
	all := s.quotas.Total // the same in every snapshot from now on
	total := all.Add(cost)
	for total <= load.MaxInFlight {
		p, more := q.candidate(&s.View, &s.rotation)
		if more {
			switch s.quotas.Take(p, cost, total) {
			case load.Granted:
				return s.lease(p, cost), nil
			case load.Outdated:
				more = false
			}
		}
		if !more { // of this search, or of this snapshot
			if s = c.now(); s.Live == 0 {
				all.Add(-cost)
				return Lease[T]{}, s.empty
			}
			s.begin(q)
		}
		// Others may have come or gone since, for perhaps a whole time slice.
		total = all.Load()
	}
	all.Add(-cost)
	return Lease[T]{}, errTooMuch(cost)
}

// leasable returns the current snapshot, with counters, and the cost of a lease; or why
// there can be none.
func (c *core[T, L]) leasable(opts []LeaseOption) (*snapshot[T, L], int64, error) {
	s, cost := c.now(), int64(1)
	if len(opts) > 0 {
		var err error
		if cost, err = costOf(opts); err != nil {
			return nil, 0, err
		}
	}
	if s.Live > 0 && s.quotas == nil {
		s = c.openLedger()
	}
	if s.Live == 0 {
		return nil, 0, s.empty
	}
	return s, cost, nil
}

// lease returns the lease that was taken from placement p.
func (s *snapshot[T, L]) lease(p uint32, cost int64) Lease[T] {
	return Lease[T]{Value: s.values[p], tally: s.quotas.TallyOf(p), cost: uint32(cost)}
}

// A search is the order in which healthy placements are asked for room, each at
// least once: that of a key or hash or, if it is to rotate, that of hash keys from
// the turn's on.
type search struct {
	walk probe.Walk
	hash uint64
	key  string
	bare bool // there is a hash and no key

	rotate bool
	turn   uint64
	met    int // placements, of a rotation
	last   int // of them, as a position in the order of hash keys
}

// begin begins a search, or begins it again.
func (s *snapshot[T, L]) begin(q *search) {
	if q.rotate {
		q.met = 0
		return
	}
	q.walk = s.layout.WalkAgain(q.hash, q.key, q.bare)
}

// next returns the next placement and whether there was one. In a rotation, where the
// turn's placement stands in the order is looked up only if it has no room.
func (q *search) candidate(v *probe.View, r *turns.Rotation) (placement uint32, found bool) {
	if !q.rotate {
		return q.walk.Next(v)
	}
	switch q.met {
	case 0:
		q.met = 1
		return r.At(q.turn), true
	case v.Live:
		return probe.None, false
	case 1:
		q.last, _ = slices.BinarySearch(r.Order, r.At(q.turn))
	}
	q.met++
	if q.last++; q.last == len(r.Order) {
		q.last = 0
	}
	return r.Order[q.last], true
}

// SetLoadFactor sets the c of WithLoadFactor; c of 1 and below, infinity and NaN
// are ErrInvalidOption. Leases in flight stay, also where they are more than
// is now allowed. It rebuilds nothing.
func (c *core[T, L]) SetLoadFactor(factor float64) error {
	if err := validateLoadFactor(factor); err != nil {
		return err
	}
	c.publishBound(func(b *load.Bound) { b.Factor = factor })
	return nil
}

// SetLoadFloor sets the floor of WithLoadFloor; a negative one, infinity and NaN are
// ErrInvalidOption. Leases in flight stay, also where they are more than is now
// allowed. It rebuilds nothing.
func (c *core[T, L]) SetLoadFloor(n float64) error {
	if err := validateLoadFloor(n); err != nil {
		return err
	}
	c.publishBound(func(b *load.Bound) { b.Floor = n })
	return nil
}

// loads returns the loads by name of backend, where there are any, and their sum;
// backends that were removed meanwhile are among them.
func (c *core[T, L]) loads() (loads map[string]int64, sum int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil {
		return map[string]int64{}, 0
	}
	return c.ledger.Loads()
}

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
	w, hash := s.layout.Start(key) // once: as in Acquire
	for {
		p, result, err := s.choose(w, accept, cost)
		if err != nil {
			return Lease[T]{}, err
		}
		switch result {
		case load.Granted:
			return s.lease(p, cost), nil
		case load.TooMuch:
			return Lease[T]{}, errTooMuch(cost)
		}
		if s = c.now(); s.Live == 0 {
			return Lease[T]{}, s.empty
		}
		w = s.layout.WalkAgain(hash, key, false)
	}
}

// choose takes a lease from a placement on a walk that accept takes, unless the snapshot
// is outdated.
func (s *snapshot[T, L]) choose(w probe.Walk, accept func(T) bool, cost int64) (uint32, load.Outcome, error) {
	var set load.Chosen
	cursor := s.Cursor(w)
	for {
		p, found := cursor.Next(&s.View)
		if !found {
			break
		}
		if !accept(s.values[p]) {
			continue
		}
		if result := s.quotas.TryTake(p, cost); result != load.NoRoom {
			return p, result, nil
		}
		set.Add(p)
	}
	if set.N == 0 {
		return probe.None, load.NoRoom, ErrNoneAccepted
	}
	p, result := s.quotas.TakeAmong(&set, cost)
	return p, result, nil
}
