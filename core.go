package chash

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A layout is what a structure adds to the core: how owners are laid out for a
// set of placements, and where the walk of a key begins. It is immutable.
type layout[L any] interface {
	// lay returns the layout of the same options for other placements, which are
	// sorted by hash key. It may take from the receiver what did not change.
	lay(placements []placement) (L, error)
	// config returns the options.
	config() Config
	// array returns the owners.
	array() *owners
	// walk returns the order in which the key meets the owners.
	walk(key string) walk
	// digest returns the hash of the key, big-endian.
	digest(key string) []byte
	// spread returns the share of the key space that each placement owns.
	spread() []float64
	// print writes the mapping of the key space to names, given the hash of a name
	// by placement, or 0 for nobody, and returns the name that has every key, or 0.
	print(d *xxhash.Digest, names []uint64) (only uint64)
}

// core is a Maglev or a Ring but for its layout: the membership, which writers
// change under a lock, and the snapshot of it that lookups read without one.
type core[T any, L layout[L]] struct {
	current atomic.Pointer[snapshot[T, L]]
	_       [cacheLine]byte // every lookup reads current: no writer of mu or turn shall take its line away

	mu       sync.RWMutex
	roster   roster[T]
	rebuilds uint64
	lastTime time.Duration // of a rebuild

	loadFactor float64
	ledger     *ledger // nil until Acquire is called

	_ [cacheLine]byte

	turn      atomic.Uint64 // of Next
	fallbacks atomic.Uint64 // see Stats

	_ [cacheLine]byte // nor shall those of the structure before it in memory
}

const cacheLine = 64

// init fills the core of a structure under construction: the layout is the
// empty one that carries the options.
func (c *core[T, L]) init(empty L, backends []Backend[T]) error {
	c.current.Store(newSnapshot(empty, &c.roster, &c.fallbacks))
	return c.Add(backends...)
}

// commit makes members the membership; they are valid, sorted by name and the
// core's from here on. The owners are laid out anew only if placements differ.
// On an error nothing has changed.
func (c *core[T, L]) commit(members []Backend[T]) error {
	next := newRoster(members)
	layout := c.current.Load().layout
	if !samePlacements(c.roster.placements, next.placements) {
		start := time.Now()
		var err error
		if layout, err = layout.lay(next.placements); err != nil {
			return err
		}
		c.rebuilds, c.lastTime = c.rebuilds+1, time.Since(start)
	}
	c.roster = next
	c.publish(newSnapshot(layout, &next, &c.fallbacks))
	return nil
}

// Add adds backends: all of them or, on an error, none; of none it does nothing. The
// errors are ErrEmptyName, ErrInvalidState and ErrBackendExists, and
// ErrTooManyBackends of a Maglev or ErrRingTooLarge of a Ring. It costs at most one
// rebuild, during which lookups go on with the state before; other changes wait for
// it. The slice is copied.
func (c *core[T, L]) Add(backends ...Backend[T]) error {
	added, err := batch(backends)
	if err != nil || len(added) == 0 {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	members, err := c.roster.with(added)
	if err != nil {
		return err
	}
	return c.commit(members)
}

// Remove removes the backends of those names: all of them or, if one is not
// there or named twice, none, with ErrBackendNotFound; of none it does nothing. It
// costs at most one rebuild, and none for backends that are Draining. In a Maglev,
// keys of a backend that was Unhealthy then move a second time, from the backends
// that took them meanwhile to those whose slots they are from now on.
func (c *core[T, L]) Remove(names ...string) error {
	if len(names) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	members, err := c.roster.without(names)
	if err != nil {
		return err
	}
	return c.commit(members)
}

// Set makes the backends the whole membership, as a Clear and an Add would but
// at once: lookups see the state before or the state after. States are as given
// too, so that a zero State makes a backend Healthy that was not: use Reconcile for
// a list that does not know them. Leases in flight stay. The errors are those of
// Add. It costs at most one rebuild, and none if the hash keys and weights of the
// placements stay what they are, as when only values, the order or states other
// than Draining differ, or a name changes while its hash key stays. The slice is
// copied.
func (c *core[T, L]) Set(backends []Backend[T]) error {
	return c.replace(backends, false)
}

// Reconcile is Set for a list that knows nothing of health, such as that of service
// discovery: each backend that is there already keeps its State, whatever is given
// for it. So what health checks have found and the drains under way outlive every
// new list. All else is as given: the Weight, also where SetWeight has changed it, the
// HashKey and the Value, for which Backend returns the one there is. A backend that was
// not there has the State given; with Draining it has no keys until a check has passed.
func (c *core[T, L]) Reconcile(backends []Backend[T]) error {
	return c.replace(backends, true)
}

// replace is Set, or Reconcile if it is to keep states.
func (c *core[T, L]) replace(backends []Backend[T], keep bool) error {
	members, err := batch(backends)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if keep {
		c.roster.keepStates(members)
	}
	return c.commit(members)
}

// Clear removes every backend. Lookups then return ErrNoBackends; the options and
// the leases in flight stay. It waits for a change under way.
func (c *core[T, L]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// No layout refuses the empty set.
	_ = c.commit(nil)
}

// SetState sets the state of one backend, and does nothing if it has that state.
// Between Healthy and Unhealthy it costs a byte and a bit for each placement to
// copy, more only where a backend shares its placement or where fewer than one in 16
// slots or points are left healthy: then it indexes those, in time of the number of
// all slots or points. Once Acquire has been called it copies 16 bytes more for each
// placement. To and from Draining it costs a rebuild. The errors are
// ErrBackendNotFound and ErrInvalidState, and out of Draining those of Add.
func (c *core[T, L]) SetState(name string, state State) error {
	if err := state.validate(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, err := c.roster.find(name)
	if err != nil {
		return err
	}
	return c.setState(i, state)
}

// CompareAndSwapState is SetState if the backend's state is old, and otherwise
// changes nothing; it reports whether it was old, even where old and state are equal.
// So what a health check found cannot undo a drain that began meanwhile. The errors are
// those of SetState, ErrInvalidState also for old; with one it reports false.
func (c *core[T, L]) CompareAndSwapState(name string, old, state State) (swapped bool, err error) {
	for _, s := range []State{old, state} {
		if err := s.validate(name); err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, err := c.roster.find(name)
	if err != nil || c.roster.members[i].State != old {
		return false, err
	}
	err = c.setState(i, state)
	return err == nil, err
}

// setState sets the state of member i, under the lock.
func (c *core[T, L]) setState(i int, state State) error {
	before := c.roster.members[i].State
	switch {
	case before == state:
		return nil
	case before == Draining || state == Draining:
		members := slices.Clone(c.roster.members)
		members[i].State = state
		return c.commit(members)
	}
	p := c.roster.placementOf(i)
	led, _ := c.roster.lead(p)
	c.roster.members[i].State = state
	next := c.current.Load().copy()
	lead, healthy := c.roster.lead(p)
	if lead != led {
		next.setValue(p, c.roster.members[lead].Value)
	}
	next.setHealth(p, healthy)
	c.requota(next, p)
	c.current.Store(next)
	return nil
}

// SetWeight sets the weight of one backend, at least 1, else ErrInvalidWeight.
// It costs a rebuild where it changes its placement's weight. The errors are
// ErrBackendNotFound and ErrInvalidWeight, and ErrRingTooLarge of a Ring.
func (c *core[T, L]) SetWeight(name string, weight uint32) error {
	if weight == 0 {
		return fmt.Errorf("%w: 0 for backend %q", ErrInvalidWeight, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, err := c.roster.find(name)
	if err != nil || c.roster.members[i].Weight == weight {
		return err
	}
	members := slices.Clone(c.roster.members)
	members[i].Weight = weight
	return c.commit(members)
}

// SetValue sets the value of one backend, so that its place outlives, say, its
// connection. It copies the values, one for each placement, and rebuilds
// nothing. The error is ErrBackendNotFound.
func (c *core[T, L]) SetValue(name string, value T) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, err := c.roster.find(name)
	if err != nil {
		return err
	}
	c.roster.members[i].Value = value
	if c.roster.members[i].State == Draining {
		return nil
	}
	p := c.roster.placementOf(i)
	if lead, _ := c.roster.lead(p); lead == i {
		next := c.current.Load().copy()
		next.setValue(p, value)
		c.current.Store(next)
	}
	return nil
}

// Backends returns a copy of what there is, sorted by name, with weights of 0
// shown as the 1 that they mean. It waits for a change under way.
func (c *core[T, L]) Backends() []Backend[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.roster.members)
}

// Backend returns the backend of that name, as Backends shows it, and reports whether
// there is one; if not, the zero Backend. It waits for a change under way.
func (c *core[T, L]) Backend(name string) (Backend[T], bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if i, found := c.roster.index(name); found {
		return c.roster.members[i], true
	}
	return Backend[T]{}, false
}

// Len returns the number of backends, whatever their states. It waits for a change
// under way.
func (c *core[T, L]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.roster.members)
}

// cloneTo makes the core of a structure under construction an independent copy.
// What is immutable is shared: the layout, the snapshot, the placements.
func (c *core[T, L]) cloneTo(to *core[T, L]) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	to.roster = c.roster
	to.roster.members = slices.Clone(c.roster.members)
	to.rebuilds, to.lastTime = c.rebuilds, c.lastTime
	to.loadFactor = c.loadFactor
	s := c.current.Load().copy()
	s.fallbacks, s.quotas = &to.fallbacks, nil // what lookups write is the original's
	to.current.Store(s)
}
