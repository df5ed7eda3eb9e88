package chashtest

import (
	"errors"
	"fmt"
	"maps"

	"github.com/chash-go/chash"
)

func (w *Twin) Add(backends ...chash.Backend[string]) []error {
	next := maps.Clone(w.Backends)
	if next == nil {
		next = map[string]chash.Backend[string]{}
	}
	var errs []error
	for _, b := range backends {
		if b.Name == "" {
			errs = append(errs, chash.ErrEmptyName)
		}
		if b.State > chash.Draining {
			errs = append(errs, chash.ErrInvalidState)
		}
		if _, ok := next[b.Name]; ok {
			errs = append(errs, chash.ErrBackendExists)
		}
		b.Weight = max(b.Weight, 1)
		next[b.Name] = b
	}
	return w.commit(next, errs)
}

func (w *Twin) Set(backends []chash.Backend[string]) []error {
	next := w.Clone()
	next.Backends = nil
	errs := next.Add(backends...)
	if len(errs) == 0 {
		*w = *next
	}
	return errs
}

func (w *Twin) Remove(names ...string) []error {
	next := maps.Clone(w.Backends)
	var errs []error
	for _, name := range names {
		if _, ok := next[name]; !ok {
			errs = append(errs, chash.ErrBackendNotFound)
		}
		delete(next, name)
	}
	return w.commit(next, errs)
}

func (w *Twin) SetState(name string, state chash.State) []error {
	var errs []error
	if state > chash.Draining {
		errs = append(errs, chash.ErrInvalidState)
	}
	return w.setOne(name, errs, func(b *chash.Backend[string]) { b.State = state })
}

func (w *Twin) SetWeight(name string, weight uint32) []error {
	var errs []error
	if weight == 0 {
		errs = append(errs, chash.ErrInvalidWeight)
	}
	return w.setOne(name, errs, func(b *chash.Backend[string]) { b.Weight = weight })
}

func (w *Twin) SetValue(name, value string) []error {
	return w.setOne(name, nil, func(b *chash.Backend[string]) { b.Value = value })
}

func (w *Twin) setOne(name string, errs []error, change func(*chash.Backend[string])) []error {
	b, ok := w.Backends[name]
	if !ok {
		return append(errs, chash.ErrBackendNotFound)
	}
	change(&b)
	next := maps.Clone(w.Backends)
	next[name] = b
	return w.commit(next, errs)
}

// commit takes the backends over if nothing is wrong with them.
func (w *Twin) commit(next map[string]chash.Backend[string], errs []error) []error {
	if len(errs) > 0 {
		return errs
	}
	weights := PlacementsOf(next)
	if w.Ring {
		points := uint64(0) // cannot overflow: few placements, few replicas
		for _, weight := range weights {
			points += uint64(w.Size) * uint64(weight)
		}
		if points > 1<<26 {
			return []error{chash.ErrRingTooLarge}
		}
	} else if len(weights) > w.Size {
		return []error{chash.ErrTooManyBackends}
	}
	w.Backends = next
	w.Rebuild()
	return nil
}

// Predicted reports, as an error, that a call did not give one of the errors
// which the twin's call says that it may give.
func Predicted(got error, want []error) error {
	if len(want) == 0 {
		if got != nil {
			return fmt.Errorf("error %v, want none", got)
		}
		return nil
	}
	for _, err := range want {
		if errors.Is(got, err) {
			return nil
		}
	}
	return fmt.Errorf("error %v, want one of %v", got, want)
}

// SetStateOnly is setState for where placements stay: it keeps the owners, for
// sets that take the twin long to lay out.
func (w *Twin) SetStateOnly(name string, state chash.State) []error {
	b := w.Backends[name]
	b.State = state
	w.Backends[name] = b
	w.Answering = AnsweringOf(w.Backends)
	return nil
}
