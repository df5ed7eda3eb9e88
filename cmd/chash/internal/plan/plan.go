// Package plan works out what a change of the backends does on each of some structures.
package plan

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// A Change is a set of backends before and after.
type Change struct {
	Before, After []mapping.Backend
}

// A Row is what a change does on one structure.
type Row struct {
	Name string       `json:"name"`
	Spec mapping.Spec `json:"spec"`
	Go   string       `json:"go"`

	mapping.Evenness // after the change, relative to fair shares

	Moved float64 `json:"moved"` // of the keys
	Least float64 `json:"least"` // the least that these shares need
	Times float64 `json:"times"` // Moved / Least: see Times

	Steps []Step `json:"rollout,omitempty"` // of a rollout

	Cost *Cost `json:"cost,omitempty"` // nil if it was not measured

	Flows  []chash.Flow   `json:"flows"`
	Before []mapping.Load `json:"before"`
	After  []mapping.Load `json:"after"`
}

// Evaluate returns the row of a structure. With measure it takes the time to measure the
// cost, some 50 ms and a few rebuilds.
func (c Change) Evaluate(spec mapping.Spec, measure bool) (Row, error) {
	row := Row{Name: spec.String(), Spec: spec, Go: spec.GoLine()}
	before, err := spec.Build(c.Before)
	if err != nil {
		return row, err
	}
	after, err := spec.Build(c.After)
	if err != nil {
		return row, err
	}
	if row.Before, err = before.Loads(); err != nil {
		return row, err
	}
	if row.After, err = after.Loads(); err != nil {
		return row, err
	}
	row.Evenness = mapping.EvennessOf(row.After)
	d, err := before.Diff(after)
	if err != nil {
		return row, err
	}
	row.Moved, row.Least, row.Flows = d.Moved, d.Least, d.Flows
	row.Times = Times(d.Moved, d.Least)
	if measure {
		cost, err := costOf(spec, before, after)
		if err != nil {
			return row, err
		}
		row.Cost = &cost
	}
	return row, nil
}

// Times returns how often more moves than the least. It is 0 where nothing must move and
// something does.
func Times(moved, least float64) float64 {
	switch {
	case least > 0:
		return moved / least
	case moved == 0:
		return 1
	}
	return 0
}

// Needless returns the share of the keys that moves and need not: of the rollout, or of
// the change at once.
func (r Row) Needless() float64 {
	if len(r.Steps) == 0 {
		return r.Moved - r.Least
	}
	needless := 0.0
	for _, s := range r.Steps {
		needless += s.Moved - s.Least
	}
	return needless
}

// Candidates returns the structures that are worth a thought for a number of backends: a
// table of the usual size and one ten times as large, each with and without slack, and a
// ring.
func Candidates(backends int) []mapping.Spec {
	usual := chash.TableSizeFor(backends)
	sizes := []int{usual}
	if large := PrimeFrom(10 * usual); large <= 20_000_000 {
		sizes = append(sizes, large)
	}
	one, unlimited := mapping.Slack(0.01), mapping.Slack(math.Inf(1))
	var specs []mapping.Spec
	for _, size := range sizes {
		if size == chash.DefaultTableSize {
			size = 0
		}
		for _, slack := range []*mapping.Slack{nil, &one, &unlimited} {
			specs = append(specs, mapping.Spec{Structure: mapping.Maglev, TableSize: size, Slack: slack})
		}
	}
	return append(specs,
		mapping.Spec{Structure: mapping.Ring},
		mapping.Spec{Structure: mapping.Ring, Replicas: 1000},
		mapping.Spec{Structure: mapping.Ring, Hash: mapping.HashXX},
	)
}

// Limits are what a change must meet. One of 0 is none.
type Limits struct {
	MaxMoved float64 `json:"max_moved,omitempty"` // of the keys
	MaxShare float64 `json:"max_share,omitempty"` // by its fair one
}

// ErrLimits is returned where no structure meets the limits.
var ErrLimits = errors.New("the limits are not met")

// Meets reports whether the row meets the limits. Those of a rollout are for each step.
func (l Limits) Meets(r Row) bool {
	moved, most := r.Extremes()
	return (l.MaxMoved == 0 || moved <= l.MaxMoved) && (l.MaxShare == 0 || most <= l.MaxShare)
}

// Extremes returns the largest share of the keys that one step moves, or the change at
// once, and the largest share of a backend.
func (r Row) Extremes() (moved, most float64) {
	moved, most = r.Moved, r.Most
	if len(r.Steps) > 0 {
		moved = 0
	}
	for _, s := range r.Steps {
		moved, most = max(moved, s.Moved), max(most, s.Most)
	}
	return moved, most
}

// defaultMaxShare is what is even enough for most where nobody says otherwise.
const defaultMaxShare = 1.05

// near is how many keys may move needlessly beyond those of the best structure for the
// sake of a smaller one.
const near = 0.0005

// Recommend returns the index of the row to take, and why. Of the rows that are even
// enough, that is the first of those that move the fewest keys which need not move, to
// within 0.05 % of all keys; where none is even enough, the most even one. Rows that meet
// the limits come before those that do not.
func Recommend(rows []Row, limits Limits) (best int, why string) {
	even := limits.MaxShare
	if even == 0 {
		even = defaultMaxShare
	}
	some := slices.ContainsFunc(rows, limits.Meets)
	var fit []int
	fewest := math.Inf(1)
	best = -1
	for i, r := range rows {
		if some && !limits.Meets(r) {
			continue
		}
		_, most := r.Extremes()
		if most <= even {
			fit = append(fit, i)
			fewest = min(fewest, r.Needless())
		}
		if best < 0 || r.Most < rows[best].Most {
			best = i
		}
	}
	r := rows[best]
	if len(fit) == 0 {
		return best, fmt.Sprintf("Take %s: no structure keeps every share within %s, and this one is the most even, with %s.",
			r.Name, ratio(even), ratio(r.Most))
	}
	best = fit[slices.IndexFunc(fit, func(i int) bool { return rows[i].Needless() <= fewest+near })]
	r = rows[best]
	_, most := r.Extremes()
	switch {
	case r.Moved == 0 && len(r.Steps) == 0:
		why = fmt.Sprintf("Take %s: no key moves, and its largest share is %s.", r.Name, ratio(most))
	case len(rows) == 1:
		why = fmt.Sprintf("%s moves %s of the keys that need not move; its largest share is %s.", r.Name, percent(r.Needless()), ratio(most))
	default:
		why = fmt.Sprintf("Take %s: of the structures that keep every share within %s, it moves the fewest keys that need not move (%s); its largest share is %s.",
			r.Name, ratio(even), percent(r.Needless()), ratio(most))
	}
	return best, why
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
func ratio(r float64) string       { return fmt.Sprintf("%.3f times the fair one", r) }

// PrimeFrom returns the smallest prime that is at least n.
func PrimeFrom(n int) int {
	for !big.NewInt(int64(n)).ProbablyPrime(0) { // certain below 2^64
		n++
	}
	return n
}

// Names returns the names of the backends that come, go and change.
func (c Change) Names() (added, removed, changed []string) {
	added, removed, changed = []string{}, []string{}, []string{}
	had := make(map[string]mapping.Backend, len(c.Before))
	for _, b := range c.Before {
		had[b.Name] = b
	}
	for _, b := range c.After {
		before, found := had[b.Name]
		switch {
		case !found:
			added = append(added, b.Name)
		case before != b:
			changed = append(changed, b.Name)
		}
		delete(had, b.Name)
	}
	for _, b := range c.Before {
		if _, gone := had[b.Name]; gone {
			removed = append(removed, b.Name)
		}
	}
	return added, removed, changed
}
