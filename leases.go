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

// A Lease counts a request to a backend towards the backend's load until Release. The
// load of a backend is the sum of the costs of its leases: their number, without
// WithCost. Acquire gives leases while the load is below its bound, which is
//
//	max(c * (total load + cost) * weight / sum of weights, floor * weight)
//
// where c is the load factor (WithLoadFactor), floor is the load floor
// (WithLoadFloor) and cost is that of the new lease. The total and the sum are over
// the healthy placements only. So leases that are stuck on an unhealthy or removed
// backend do not raise the bounds of others. A load exceeds its bound by less than
// one lease.
//
// Without a floor, N equal backends have room for a second lease each only if more
// than N/c leases are in flight. With fewer, two requests of one key at the same time
// go to two backends. A floor keeps them together.
//
// Loads belong to names. They stay through rebuilds and changes of state and weight,
// and through a removal until the last lease is released. A Clone has its own loads,
// which begin at 0.
//
// The first lease of a structure makes the counters, in time for each backend. Every
// other one takes no lock. It costs four writes of counters with its Release. One of
// the counters is shared by all leases.
//
// Do not copy a Lease: its Release could count twice, and vet reports the copy. Pass
// a pointer. Release of the zero Lease does nothing.
type Lease[T any] struct {
	Value T // of the backend, as it was when the lease was taken

	tally    *load.Tally
	cost     uint32
	released atomic.Bool // also what vet knows a copy by
}

// Release gives the lease back. Only the first of all calls counts. It works whatever
// has happened to the backend. A lease without Release counts forever.
func (l *Lease[T]) Release() {
	if l.tally == nil || l.released.Swap(true) {
		return
	}
	l.tally.Give(int64(l.cost))
}

// A LeaseOption sets something of one lease. It allocates nothing, other than in
// calls through an interface.
type LeaseOption struct {
	cost  int64
	given bool
}

// WithCost sets what a lease adds to the load of its backend, from 1 to MaxCost; the
// default is 1. Use any unit: tokens, bytes, milliseconds of work. Another cost makes
// the call return ErrInvalidOption.
func WithCost(n int64) LeaseOption { return LeaseOption{cost: n, given: true} }

// MaxCost is the largest cost of a lease.
const MaxCost = 1<<32 - 1

// costOf returns the cost that the options set.
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

// errTooMuch is the error for a total that could overflow in the end, if nobody
// releases leases.
func errTooMuch(cost int64) error {
	return invalidOption("lease cost %d on top of what is in flight, which together may cost %d", cost, int64(load.MaxInFlight))
}

// Acquire returns a lease on the first healthy placement, in the key's order of
// preference, whose load is below its bound: see Lease. A key goes to its own backend
// while that has room. The overflow of a backend goes to the same next backends each
// time. If a backend is healthy, there is room. The errors are those of Get, and
// ErrInvalidOption for a wrong cost. It costs a Get, the counters, and a look at each
// full backend met: at most c/(c-1) on average, 5 by default. It allocates nothing.
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

// AcquireBytes is Acquire for a key of bytes.
func (c *core[T, L]) AcquireBytes(key []byte, opts ...LeaseOption) (Lease[T], error) {
	return c.Acquire(hashing.StringOf(key), opts...)
}

// AcquireHash is Acquire for a hash, as in GetHash.
func (c *core[T, L]) AcquireHash(hash uint64, opts ...LeaseOption) (Lease[T], error) {
	s, cost, err := c.leasable(opts)
	if err != nil {
		return Lease[T]{}, err
	}
	q := search{hash: hash, bare: true}
	s.begin(&q)
	return c.acquire(s, &q, cost)
}

// AcquireNext is Acquire for a request without a key. It begins with the backend
// whose turn it is, shares the turns of Next, and goes on in the order of hash keys.
// It looks at every backend if all but the last are full.
func (c *core[T, L]) AcquireNext(opts ...LeaseOption) (Lease[T], error) {
	s, cost, err := c.leasable(opts)
	if err != nil {
		return Lease[T]{}, err
	}
	q := search{rotate: true, turn: c.turn.Add(1) - 1}
	return c.acquire(s, &q, cost)
}

// acquire takes a lease from the first placement of a search that has room. Another
// call may outdate the snapshot at any time.
func (c *core[T, L]) acquire(s *snapshot[T, L], q *search, cost int64) (Lease[T], error) {
	all := s.quotas.Total // the same in every snapshot from now on
	total := all.Add(cost)
	full := 0 // looks at placements without room
	for total <= load.MaxInFlight {
		p, more := q.candidate(&s.View, &s.rotation)
		if more {
			switch s.quotas.Take(p, cost, total) {
			case load.Granted:
				return s.lease(p, cost), nil
			case load.Outdated:
				more = false
			case load.NoRoom:
				// Where all owners are full, the search need not pass every position.
				if full++; s.Spare > 0 && full%s.Live == 0 && !s.roomAmongOwners(total) {
					q.walk.PassOwners()
				}
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

// roomAmongOwners reports whether a healthy placement that is an owner has room.
func (s *snapshot[T, L]) roomAmongOwners(total int64) bool {
	for p, count := range s.Owners.Counts {
		if count > 0 && s.Healthy.Has(uint32(p)) && s.quotas.HasRoom(uint32(p), total) {
			return true
		}
	}
	return false
}

// leasable returns the current snapshot, with counters, and the cost of a lease. If
// there can be no lease, it returns the error.
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

// candidate returns the next placement and whether there was one. In a rotation, where the
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

// SetLoadFactor changes the load factor: see WithLoadFactor. It rebuilds nothing.
// Leases in flight stay, even above the new bound.
func (c *core[T, L]) SetLoadFactor(factor float64) error {
	if err := validateLoadFactor(factor); err != nil {
		return err
	}
	c.publishBound(func(b *load.Bound) { b.Factor = factor })
	return nil
}

// SetLoadFloor changes the load floor: see WithLoadFloor. Leases in flight stay. It
// rebuilds nothing.
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

// AcquireFunc is Acquire among the backends that accept takes, as in GetFunc. If all
// of these are full, the bound is computed again over these alone, and the first one
// below it gets the lease. So there is always room among them. The function accept
// may panic, and is called again for a placement only if the backends have changed
// meanwhile. The errors are those of Acquire, and ErrNoneAccepted. It costs a GetFunc
// and the counters.
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

// choose takes a lease from a placement on a walk that accept takes, unless the
// snapshot is outdated.
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
