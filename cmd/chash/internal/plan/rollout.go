package plan

import (
	"fmt"
	"slices"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// A Step is one of a rollout.
type Step struct {
	Removed []string `json:"removed"`
	Added   []string `json:"added"`
	Changed []string `json:"changed"` // in weight, state or place
	Moved   float64  `json:"moved"`   // of the keys, by this step
	Least   float64  `json:"least"`   // the least that these shares need
	Total   float64  `json:"total"`   // moved by all steps up to this one
	Most    float64  `json:"largest_share"`

	after []mapping.Backend
}

// A Rollout is how a change is made in steps.
type Rollout struct {
	Batch int  // how many backends a step replaces
	Surge bool // a step adds, and the next one removes
}

// Steps returns the steps of a change, without what they move. Each replaces as many
// backends as the batch says: those that go, in the order before, by those that come, in
// the order after. What is left comes, goes or changes in the last steps.
func (r Rollout) Steps(c Change) []Step {
	batch := max(1, r.Batch)
	var removed, added, changed []mapping.Backend
	for _, b := range c.Before {
		if find(c.After, b.Name) < 0 {
			removed = append(removed, b)
		}
	}
	for _, b := range c.After {
		i := find(c.Before, b.Name)
		switch {
		case i < 0:
			added = append(added, b)
		case c.Before[i] != b:
			changed = append(changed, b)
		}
	}
	state := slices.Clone(c.Before)
	var steps []Step
	push := func(s Step) {
		s.after = slices.Clone(state)
		steps = append(steps, s)
	}
	take := func(from *[]mapping.Backend) []mapping.Backend {
		n := min(batch, len(*from))
		taken := (*from)[:n]
		*from = (*from)[n:]
		return taken
	}
	for len(removed)+len(added) > 0 {
		var s Step
		for _, b := range take(&added) {
			state = append(state, b)
			s.Added = append(s.Added, b.Name)
		}
		if r.Surge && len(s.Added) > 0 {
			push(s)
			s = Step{}
		}
		for _, b := range take(&removed) {
			state = slices.DeleteFunc(state, func(o mapping.Backend) bool { return o.Name == b.Name })
			s.Removed = append(s.Removed, b.Name)
		}
		if len(s.Added)+len(s.Removed) > 0 {
			push(s)
		}
	}
	for len(changed) > 0 {
		var s Step
		for _, b := range take(&changed) {
			state[find(state, b.Name)] = b
			s.Changed = append(s.Changed, b.Name)
		}
		push(s)
	}
	return steps
}

// Evaluate fills in what the steps move on a structure.
func (r Rollout) Evaluate(c Change, spec mapping.Spec) ([]Step, error) {
	steps := r.Steps(c)
	before, err := spec.Build(c.Before)
	if err != nil {
		return nil, err
	}
	total := 0.0
	for i := range steps {
		after, err := spec.Build(steps[i].after)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		d, err := before.Diff(after)
		if err != nil {
			return nil, err
		}
		loads, err := after.Loads()
		if err != nil {
			return nil, err
		}
		total += d.Moved
		steps[i].Moved, steps[i].Least, steps[i].Total = d.Moved, d.Least, total
		steps[i].Most = mapping.EvennessOf(loads).Most
		before = after
	}
	return steps, nil
}

// Replaced returns backends of other names in place of all of those given: each name with
// a suffix. With keepPlaces each has the place of the one before it, so that no key moves.
func Replaced(backends []mapping.Backend, suffix string, keepPlaces bool) []mapping.Backend {
	replaced := slices.Clone(backends)
	for i, b := range replaced {
		if keepPlaces && b.HashKey == "" {
			replaced[i].HashKey = b.Name
		}
		if !keepPlaces && b.HashKey != "" {
			replaced[i].HashKey += suffix
		}
		replaced[i].Name += suffix
	}
	return replaced
}

func find(backends []mapping.Backend, name string) int {
	return slices.IndexFunc(backends, func(b mapping.Backend) bool { return b.Name == name })
}
