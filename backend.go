package chash

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Backend is one of the things that keys are mapped to: a server, a shard, a
// worker. The zero value but for a Name is a healthy backend of weight 1.
type Backend[T any] struct {
	Name    string // identity: unique within a structure and not empty
	HashKey string // placement: what is hashed to place it; empty means Name
	Weight  uint32 // share of the keys relative to the others; 0 means 1
	State   State  // Healthy unless said otherwise
	Value   T      // what lookups return
}

// Named returns a backend for each name, with the name as its Value; for no names an
// empty slice.
func Named(names ...string) []Backend[string] {
	backends := make([]Backend[string], len(names))
	for i, name := range names {
		backends[i] = Backend[string]{Name: name, Value: name}
	}
	return backends
}

// hashKey is the placement hash key: backends for which it is equal share one
// placement.
func (b *Backend[T]) hashKey() string {
	if b.HashKey != "" {
		return b.HashKey
	}
	return b.Name
}

// A State says what becomes of a backend's keys.
type State uint8

const (
	// Healthy backends get their share of the keys.
	Healthy State = iota

	// Unhealthy backends keep their placement, but each lookup that lands there
	// goes on to the next healthy backend in the key's order of preference. No
	// other key moves, nothing is rebuilt, and the keys return with the health. To
	// add a backend to a Maglev before its health is known, prefer Draining: added
	// Unhealthy it takes its slots at once, and most of their keys move twice, to
	// their next candidates and then to it. On a Ring they move once.
	Unhealthy

	// Draining backends have given their placement up, as if they were removed,
	// but are still known by name; the Remove that follows moves no key.
	Draining
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	case Draining:
		return "draining"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// MarshalText returns what String does, or ErrInvalidState.
func (s State) MarshalText() ([]byte, error) {
	if s > Draining {
		return nil, fmt.Errorf("%w: %v", ErrInvalidState, s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText sets the state to the one whose String the text is, or returns
// ErrInvalidState.
func (s *State) UnmarshalText(text []byte) error {
	for state := Healthy; state <= Draining; state++ {
		if state.String() == string(text) {
			*s = state
			return nil
		}
	}
	return fmt.Errorf("%w: %q", ErrInvalidState, text)
}

func (s State) validate(name string) error {
	if s > Draining {
		return fmt.Errorf("%w: %v of backend %q", ErrInvalidState, s, name)
	}
	return nil
}

// A placement is one place on a structure: that of all backends which share its
// hash key.
type placement struct {
	hashKey string
	weight  uint32 // of the heaviest of its backends, so at least 1
	first   uint32 // where its backends begin in roster.ranked
}

// samePlacements reports whether a and b are laid out alike.
func samePlacements(a, b []placement) bool {
	return slices.EqualFunc(a, b, func(x, y placement) bool {
		return x.weight == y.weight && x.hashKey == y.hashKey
	})
}

// A roster is a membership with its placements. Of its members only State
// (other than to and from Draining) and Value are ever written in place, by the
// core under its lock; ranked and placements never, so clones share them.
type roster[T any] struct {
	members    []Backend[T] // sorted by name
	ranked     []uint32     // indices of the members that are not draining: by hash key, then heavier, then name
	placements []placement  // by hash key
}

// newRoster takes over members, which are valid and sorted by name.
func newRoster[T any](members []Backend[T]) roster[T] {
	ranked := make([]uint32, 0, len(members))
	for i := range members {
		if members[i].State != Draining {
			ranked = append(ranked, uint32(i))
		}
	}
	slices.SortFunc(ranked, func(i, j uint32) int {
		a, b := &members[i], &members[j]
		if c := strings.Compare(a.hashKey(), b.hashKey()); c != 0 {
			return c
		}
		if c := cmp.Compare(b.Weight, a.Weight); c != 0 {
			return c
		}
		return cmp.Compare(i, j) // members are sorted by name
	})
	placements := make([]placement, 0, len(ranked))
	for at, i := range ranked {
		b := &members[i]
		if n := len(placements); n == 0 || placements[n-1].hashKey != b.hashKey() {
			placements = append(placements, placement{b.hashKey(), b.Weight, uint32(at)})
		}
	}
	return roster[T]{members, ranked, placements}
}

// index returns where the member of that name is and whether there is one.
func (r *roster[T]) index(name string) (int, bool) {
	return slices.BinarySearchFunc(r.members, name, compareName[T])
}

// find is index with an error where there is none.
func (r *roster[T]) find(name string) (int, error) {
	i, found := r.index(name)
	if !found {
		return 0, fmt.Errorf("%w: %q", ErrBackendNotFound, name)
	}
	return i, nil
}

func compareName[T any](b Backend[T], name string) int { return strings.Compare(b.Name, name) }

// placementOf returns the placement of member i, which is not draining.
func (r *roster[T]) placementOf(i int) int {
	p, _ := slices.BinarySearchFunc(r.placements, r.members[i].hashKey(), func(p placement, key string) int {
		return strings.Compare(p.hashKey, key)
	})
	return p
}

// group returns the members of placement p, by rank.
func (r *roster[T]) group(p int) []uint32 {
	end := len(r.ranked)
	if p+1 < len(r.placements) {
		end = int(r.placements[p+1].first)
	}
	return r.ranked[r.placements[p].first:end]
}

// first returns the member that outranks the others of placement p, whatever
// their health.
func (r *roster[T]) first(p int) int { return int(r.group(p)[0]) }

// lead returns the member that outranks the other healthy ones of placement p and
// whether there is one; if not, the first of all.
func (r *roster[T]) lead(p int) (member int, healthy bool) {
	for _, i := range r.group(p) {
		if r.members[i].State == Healthy {
			return int(i), true
		}
	}
	return r.first(p), false
}

// batch returns a copy of backends, validated, sorted by name and with every
// weight filled in.
func batch[T any](backends []Backend[T]) ([]Backend[T], error) {
	for i := range backends {
		b := &backends[i]
		if b.Name == "" {
			return nil, fmt.Errorf("%w: number %d of %d", ErrEmptyName, i+1, len(backends))
		}
		if err := b.State.validate(b.Name); err != nil {
			return nil, err
		}
	}
	// To sort their numbers spares copies of whole backends.
	order := make([]uint32, len(backends))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(i, j uint32) int { return strings.Compare(backends[i].Name, backends[j].Name) })
	sorted := make([]Backend[T], len(backends))
	for i, from := range order {
		sorted[i] = backends[from]
	}
	for i := range sorted {
		if i > 0 && sorted[i].Name == sorted[i-1].Name {
			return nil, fmt.Errorf("%w: %q twice in one batch", ErrBackendExists, sorted[i].Name)
		}
		sorted[i].Weight = max(sorted[i].Weight, 1)
	}
	return sorted, nil
}

// with returns the members together with added, which is a batch.
func (r *roster[T]) with(added []Backend[T]) ([]Backend[T], error) {
	old := r.members
	if len(old) == 0 {
		return added, nil
	}
	members := make([]Backend[T], 0, len(old)+len(added))
	for i := range added {
		at, found := slices.BinarySearchFunc(old, added[i].Name, compareName[T])
		if found {
			return nil, fmt.Errorf("%w: %q", ErrBackendExists, added[i].Name)
		}
		members = append(append(members, old[:at]...), added[i])
		old = old[at:]
	}
	return append(members, old...), nil
}

// keepStates gives each of a batch that is a member the State it has.
func (r *roster[T]) keepStates(batch []Backend[T]) {
	for i := range batch {
		if at, found := r.index(batch[i].Name); found {
			batch[i].State = r.members[at].State
		}
	}
}

// without returns the members but for the named ones.
func (r *roster[T]) without(names []string) ([]Backend[T], error) {
	names = slices.Clone(names)
	slices.Sort(names)
	old := r.members
	members := make([]Backend[T], 0, max(len(old)-len(names), 0))
	for i, name := range names {
		at, found := slices.BinarySearchFunc(old, name, compareName[T])
		if !found {
			if i > 0 && names[i-1] == name { // it is behind us
				return nil, fmt.Errorf("%w: %q named twice", ErrBackendNotFound, name)
			}
			return nil, fmt.Errorf("%w: %q", ErrBackendNotFound, name)
		}
		members = append(members, old[:at]...)
		old = old[at+1:]
	}
	return append(members, old...), nil
}
