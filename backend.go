package chash

import (
	"fmt"
	"strconv"
)

// A Backend is something that keys are mapped to: a server, a shard, a worker. Only
// the Name must be set. In a Maglev only the ratios of weights count. On a Ring each
// unit of weight has points of its own, which cost memory and time: see
// WithUnitWeight. A Backend marshals to JSON with the names of the tags, if T does.
type Backend[T any] struct {
	Name    string `json:"name"`               // identity: unique within a structure and not empty
	HashKey string `json:"hash_key,omitempty"` // placement: what is hashed to place it; empty means Name
	Weight  uint32 `json:"weight,omitempty"`   // share of the keys relative to the others; 0 means 1
	State   State  `json:"state"`              // Healthy unless said otherwise
	Value   T      `json:"value,omitzero"`     // what lookups return
}

// Named returns a backend for each name, with the name as its Value.
func Named(names ...string) []Backend[string] {
	backends := make([]Backend[string], len(names))
	for i, name := range names {
		backends[i] = Backend[string]{Name: name, Value: name}
	}
	return backends
}

// hashKey is the hash key of the backend's placement.
func (b *Backend[T]) hashKey() string {
	if b.HashKey != "" {
		return b.HashKey
	}
	return b.Name
}

// bare returns the backend without its value.
func (b *Backend[T]) bare() Backend[struct{}] {
	return Backend[struct{}]{Name: b.Name, HashKey: b.HashKey, Weight: b.Weight, State: b.State}
}

// A State says what happens to the keys of a backend.
type State uint8

const (
	// Healthy backends get their share of the keys.
	Healthy State = iota

	// Unhealthy backends keep their placement. A lookup that meets one goes on to the
	// next healthy backend in the key's order of preference. No other key moves,
	// nothing is rebuilt, and the keys return with the health. To add a backend to a
	// Maglev before its health is known, prefer Draining. A backend added as
	// Unhealthy takes its slots at once. Most keys of these slots first go to another
	// backend, and later to this one. On a Ring they move once.
	Unhealthy

	// Draining backends have no placement, as if they were removed, but their names
	// are still known. The Remove that follows moves no key.
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

// MarshalText returns the String of the state, or ErrInvalidState.
func (s State) MarshalText() ([]byte, error) {
	if s > Draining {
		return nil, fmt.Errorf("%w: %v", ErrInvalidState, s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads what String returns, or returns ErrInvalidState.
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
