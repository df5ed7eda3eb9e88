package plan

import (
	"fmt"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// A StudyRow is what a structure does on average to sets of equal backends.
type StudyRow struct {
	Name     string        `json:"name"`
	Spec     *mapping.Spec `json:"spec,omitempty"` // nil of another library
	Backends int           `json:"backends"`
	Size     int           `json:"size,omitempty"` // slots or points

	mapping.Evenness

	Removed      float64 `json:"moved_by_removal"`
	RemovedTimes float64 `json:"moved_by_removal_times"` // the fewest possible
	Added        float64 `json:"moved_by_addition"`
	AddedTimes   float64 `json:"moved_by_addition_times"`

	Memory int64   `json:"memory_bytes,omitempty"`
	Build  int64   `json:"build_ns,omitempty"`
	Lookup float64 `json:"lookup_ns,omitempty"`
}

// SetName returns the name of a backend of a set: sets have other names, so that averages
// over them are of the structure and not of the names.
func SetName(set, i int) string { return fmt.Sprintf("set-%d/backend-%d", set, i) }

func equalBackends(set, n int) []mapping.Backend {
	backends := make([]mapping.Backend, n)
	for i := range backends {
		backends[i].Name = SetName(set, i)
	}
	return backends
}

// Study returns the averages of a structure over sets of n equal backends. The backend
// that is removed is the one in the middle.
func Study(spec mapping.Spec, n, sets int, measure bool) (StudyRow, error) {
	row := StudyRow{Name: spec.String(), Spec: &spec, Backends: n}
	var removed, removedLeast, added, addedLeast float64
	for set := range sets {
		all := equalBackends(set, n+1)
		m, err := spec.Build(all[:n])
		if err != nil {
			return row, err
		}
		row.Size = m.Stats().Size
		loads, err := m.Loads()
		if err != nil {
			return row, err
		}
		e := mapping.EvennessOf(loads)
		row.Least += e.Least / float64(sets)
		row.Most += e.Most / float64(sets)
		row.StdDev += e.StdDev / float64(sets)

		grown, err := spec.Build(all)
		if err != nil {
			return row, err
		}
		d, err := m.Diff(grown)
		if err != nil {
			return row, err
		}
		grownLoads, err := grown.Loads()
		if err != nil {
			return row, err
		}
		added += d.Moved
		addedLeast += shareOf(grownLoads, all[n].Name)
		if n < 2 {
			continue
		}
		gone := all[n/2]
		shrunk, err := spec.Build(append(append([]mapping.Backend{}, all[:n/2]...), all[n/2+1:n]...))
		if err != nil {
			return row, err
		}
		if d, err = m.Diff(shrunk); err != nil {
			return row, err
		}
		removed += d.Moved
		removedLeast += shareOf(loads, gone.Name)
	}
	row.Removed, row.RemovedTimes = removed/float64(sets), Times(removed, removedLeast)
	row.Added, row.AddedTimes = added/float64(sets), Times(added, addedLeast)
	if measure {
		m, err := spec.Build(equalBackends(0, n))
		if err != nil {
			return row, err
		}
		cost, err := costOf(spec, m, m)
		if err != nil {
			return row, err
		}
		row.Memory, row.Build, row.Lookup = cost.Memory, cost.Build.Nanoseconds(), cost.Lookup
	}
	return row, nil
}

func shareOf(loads []mapping.Load, name string) float64 {
	for _, l := range loads {
		if l.Name == name {
			return l.Share
		}
	}
	return 0
}
