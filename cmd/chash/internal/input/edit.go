package input

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// Edits are changes of a list that flags ask for.
type Edits struct {
	Add    []string // NAME or NAME=WEIGHT
	Remove []string
	Weight []string // NAME=WEIGHT
	Down   []string
	Drain  []string
}

// Any reports whether there is one.
func (e Edits) Any() bool {
	return len(e.Add)+len(e.Remove)+len(e.Weight)+len(e.Down)+len(e.Drain) > 0
}

// flag is a source of errors about a flag.
func flag(name string) *source { return &source{file: "--" + name} }

// Apply returns the list with the changes, in the order of the fields. A backend that is
// added is the last. The error matches ErrInput and names the flag.
func (e Edits) Apply(backends []mapping.Backend) ([]mapping.Backend, error) {
	backends = slices.Clone(backends)
	find := func(name string) int {
		return slices.IndexFunc(backends, func(b mapping.Backend) bool { return b.Name == name })
	}
	missing := func(s *source, name string) error {
		return s.failf(0, "there is no backend %q", name)
	}
	for _, text := range e.Add {
		s := flag("add")
		name, weight, has, err := s.cutWeight(text)
		if err != nil {
			return nil, err
		}
		if find(name) >= 0 {
			return nil, s.failf(0, "the backend %q is there already", name)
		}
		b := mapping.Backend{Name: name}
		if has {
			b.Weight = weight
		}
		backends = append(backends, b)
	}
	for _, name := range e.Remove {
		i := find(name)
		if i < 0 {
			return nil, missing(flag("remove"), name)
		}
		backends = slices.Delete(backends, i, i+1)
	}
	for _, text := range e.Weight {
		s := flag("weight")
		name, weight, has, err := s.cutWeight(text)
		if err != nil {
			return nil, err
		}
		if !has {
			return nil, s.failf(0, "%q; expected NAME=WEIGHT", text)
		}
		i := find(name)
		if i < 0 {
			return nil, missing(s, name)
		}
		backends[i].Weight = weight
	}
	for _, set := range []struct {
		flag  string
		names []string
		state chash.State
	}{{"down", e.Down, chash.Unhealthy}, {"drain", e.Drain, chash.Draining}} {
		for _, name := range set.names {
			i := find(name)
			if i < 0 {
				return nil, missing(flag(set.flag), name)
			}
			backends[i].State = set.state
		}
	}
	if len(backends) == 0 {
		return nil, fmt.Errorf("%w: none is left", ErrInput)
	}
	return backends, nil
}

// cutWeight splits NAME=WEIGHT at its last sign.
func (s *source) cutWeight(text string) (name string, weight uint32, has bool, err error) {
	name = text
	if at := strings.LastIndexByte(text, '='); at >= 0 {
		name, has = text[:at], true
		if weight, err = s.weight(0, text[at+1:]); err != nil {
			return "", 0, false, err
		}
	}
	if name == "" {
		return "", 0, false, s.failf(0, "%q; expected NAME or NAME=WEIGHT", text)
	}
	return name, weight, has, nil
}
