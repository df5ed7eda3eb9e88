package chash

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/load"
	"github.com/chash-go/chash/internal/probe"
)

// A layout is what a structure adds to the core: where owners are for a set of
// placements, and where the walk of a key begins. It is immutable.
type layout[L any] interface {
	// lay returns the layout of the same options for other placements, which are
	// sorted by hash key. It may take from the receiver what did not change.
	lay(placements []probe.Placement) (L, error)
	// config returns the options.
	config() Config
	// array returns the owners.
	array() *probe.Owners
	// kind returns the name of the structure's type, and unit what its owners are
	// called, in the plural. Both work for a nil layout.
	kind() string
	unit() string
	// HomeOf returns the position of the owner to which the key belongs.
	HomeOf(key string) uint32
	// Walk returns the order in which the key meets the owners, its home first.
	Walk(key string) probe.Walk
	// Start returns the walk of a key and its hash, with which WalkAgain makes the walk
	// among other placements without another call of the caller's hash function.
	Start(key string) (probe.Walk, uint64)
	// WalkAgain returns the walk of a hash, which is that of a key or, if it is bare, none.
	WalkAgain(hash uint64, key string, bare bool) probe.Walk
	// Digest returns the hash of the key, big-endian.
	Digest(key string) []byte
	// Spread returns the share of the key space that each placement owns.
	Spread() []float64
	// Print writes the mapping of the key space to names, given the hash of a name
	// by placement, or 0 for nobody, and returns the name that has every key, or 0.
	Print(d *xxhash.Digest, names []uint64) (only uint64)
}

// core is a Maglev or a Ring without its layout: the snapshot that everybody reads
// without a lock, and what publishes the next one.
type core[T any, L layout[L]] struct {
	current atomic.Pointer[snapshot[T, L]]
	_       [load.CacheLine]byte // every lookup reads current: no writer of what follows shall take its line away

	writing sync.Mutex // held by a change from beginning to end, rebuild and all, so that changes take turns

	// mu is held while a snapshot is published, and never during a rebuild: whoever
	// only reads may wait for it.
	mu     sync.Mutex
	ledger *load.Ledger // nil until Acquire is called

	nobody Backend[T] // never written: what Owner returns with an error

	_ [load.CacheLine]byte

	turn      atomic.Uint64 // of Next
	fallbacks atomic.Uint64 // see Stats

	_ [load.CacheLine]byte // nor shall those of the structure before it in memory
}

// init fills the core of a new structure. The empty layout carries the options.
func (c *core[T, L]) init(empty L, b load.Bound, backends []Backend[T]) error {
	first := &snapshot[T, L]{
		layout:    empty,
		roster:    newRoster[T](nil),
		bound:     b,
		fallbacks: &c.fallbacks,
	}
	first.derive()
	c.current.Store(first)
	return c.Add(backends...)
}

// now returns the current snapshot. It is small enough to be inlined: a call would
// make the shortest lookups a tenth slower.
func (c *core[T, L]) now() *snapshot[T, L] {
	s := c.current.Load()
	if s == nil {
		panic(unmade)
	}
	return s
}

// unmade is the panic of methods of the zero value.
const unmade = "chash: the zero value of a Maglev or a Ring is not usable: make one with NewMaglev or NewRing"

// commit makes members the membership. They are valid, sorted by name, and belong to
// the core from now on. It lays the owners out again only if the placements change.
// On an error nothing has changed. The caller holds writing.
func (c *core[T, L]) commit(members []*Backend[T]) error {
	old := c.now()
	next := old.copy()
	next.roster = newRoster(members)
	if !probe.SamePlacements(old.roster.placements, next.roster.placements) {
		start := time.Now()
		var err error
		if next.layout, err = old.layout.lay(next.roster.placements); err != nil {
			return err
		}
		next.rebuilds, next.lastTime = old.rebuilds+1, time.Since(start)
	}
	next.derive()
	c.publish(next)
	return nil
}

// Add adds backends: all of them or, on an error, none. It copies the slice and costs
// at most one rebuild. The errors are ErrEmptyName, ErrInvalidState,
// ErrBackendExists, and ErrTooManyBackends of a Maglev or ErrRingTooLarge of a Ring.
func (c *core[T, L]) Add(backends ...Backend[T]) error {
	c.now()
	added, err := batch(backends)
	if err == nil {
		added, err = unique(added)
	}
	if err != nil || len(added) == 0 {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	members, err := c.now().roster.with(added)
	if err != nil {
		return err
	}
	return c.commit(members)
}

// Remove removes the backends with those names: all or, if a name is not there or is
// named twice, none, with ErrBackendNotFound. It costs at most one rebuild, and none
// for Draining backends. In a Maglev, keys of an Unhealthy backend move a second time
// when it is removed. A late Remove, meant for an old backend, removes a new one of
// the same name. So give each a Name of its own, and the old HashKey to keep the
// place: see the example.
func (c *core[T, L]) Remove(names ...string) error {
	c.now()
	if len(names) == 0 {
		return nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	members, err := c.now().roster.without(names)
	if err != nil {
		return err
	}
	return c.commit(members)
}

// Set replaces all backends at once. States are set as given: a zero State makes a
// backend Healthy. For a list without states, use Reconcile. Leases in flight stay.
// It copies the slice and costs at most one rebuild, and none if hash keys and
// weights of the placements stay the same. The errors are those of Add.
func (c *core[T, L]) Set(backends []Backend[T]) error {
	c.now()
	members, err := batch(backends)
	if err == nil {
		members, err = unique(members)
	}
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.commit(members)
}

// Reconcile is Set for a list that does not know health, such as that of service
// discovery. A backend that is there keeps its State, and its Weight if the list says
// 0. A new backend has the given State; Draining gives it no keys until a health
// check passes. If a name is in the list twice, the first counts. The errors are
// those of Add, without ErrBackendExists.
func (c *core[T, L]) Reconcile(backends []Backend[T]) error {
	c.now()
	members, err := batch(backends)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.commit(c.now().roster.reconciled(members))
}

// Clear removes every backend. The options and the leases in flight stay.
func (c *core[T, L]) Clear() {
	c.writing.Lock()
	defer c.writing.Unlock()
	// No layout refuses the empty set.
	_ = c.commit(nil)
}

// SetState sets the state of one backend. To and from Draining it costs a rebuild.
// Between Healthy and Unhealthy it rebuilds nothing: it copies a few bytes for each
// backend. It also indexes the healthy slots or points, in time for all of them, if
// fewer than one in 16 is left. The errors are ErrBackendNotFound and
// ErrInvalidState, and those of Add for a backend that leaves Draining.
func (c *core[T, L]) SetState(name string, state State) error {
	if err := state.validate(name); err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	i, err := c.now().roster.member(name)
	if err != nil {
		return err
	}
	return c.setState(i, state)
}

// CompareAndSwapState is SetState if the state of the backend is old, and else
// changes nothing. It reports whether the state was old. So a health check cannot
// undo a drain that began meanwhile. An invalid old or new state is ErrInvalidState.
// On any error, swapped is false.
func (c *core[T, L]) CompareAndSwapState(name string, old, state State) (swapped bool, err error) {
	for _, s := range []State{old, state} {
		if err := s.validate(name); err != nil {
			return false, err
		}
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	r := c.now().roster
	i, err := r.member(name)
	if err != nil || r.members[i].State != old {
		return false, err
	}
	err = c.setState(i, state)
	return err == nil, err
}

// setState sets the state of member i. The caller holds writing.
func (c *core[T, L]) setState(i int, state State) error {
	r := c.now().roster
	b := *r.members[i]
	before := b.State
	b.State = state
	switch {
	case before == state:
		return nil
	case before == Draining || state == Draining:
		return c.commit(r.changed(i, b))
	}
	c.amend(i, b)
	return nil
}

// SetWeight sets the weight of one backend, at the cost of a rebuild if that of the
// placement changes. The errors are ErrBackendNotFound, ErrInvalidWeight for a weight
// of 0, and ErrRingTooLarge of a Ring.
func (c *core[T, L]) SetWeight(name string, weight uint32) error {
	if weight == 0 {
		return fmt.Errorf("%w: 0 for backend %q", ErrInvalidWeight, name)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	r := c.now().roster
	i, err := r.member(name)
	if err != nil || r.members[i].Weight == weight {
		return err
	}
	b := *r.members[i]
	b.Weight = weight
	return c.commit(r.changed(i, b))
}

// SetValue sets the value of one backend, so that its place outlives its connection.
// It rebuilds nothing and copies the values. The error is ErrBackendNotFound.
func (c *core[T, L]) SetValue(name string, value T) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	r := c.now().roster
	i, err := r.member(name)
	if err != nil {
		return err
	}
	b := *r.members[i]
	b.Value = value
	c.amend(i, b)
	return nil
}

// amend publishes a snapshot with b in place of member i: another value, or another
// state that is not to or from Draining. It rebuilds nothing. The caller holds
// writing.
func (c *core[T, L]) amend(i int, b Backend[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.now().copy()
	if p, placed := next.amend(i, b); placed {
		c.publishLead(next, p)
	} else {
		c.current.Store(next)
	}
}

// Backends returns a copy of all backends sorted by name, weights at least 1.
func (c *core[T, L]) Backends() []Backend[T] { return c.now().roster.list() }

// Backend returns the backend with that name, and whether there is one.
func (c *core[T, L]) Backend(name string) (Backend[T], bool) {
	r := c.now().roster
	if i, found := r.locate(name); found {
		return *r.members[i], true
	}
	return Backend[T]{}, false
}

// Len returns the number of backends in any state.
func (c *core[T, L]) Len() int { return len(c.now().roster.members) }

// cloneTo makes the core of a new structure an independent copy. Both share the
// snapshot, other than what lookups write.
func (c *core[T, L]) cloneTo(to *core[T, L]) {
	s := c.now().copy()
	s.fallbacks, s.quotas = &to.fallbacks, nil
	to.current.Store(s)
}

// frozen returns the layout and the roster of one moment.
func (c *core[T, L]) frozen() (L, *roster[T]) {
	s := c.now()
	return s.layout, s.roster
}
