package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/input"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
)

// A planRun is the plan command with its flags.
type planRun struct {
	*app
	source  sourceFlags
	spec    specFlags
	to      string
	maxMove share
	maxMost share
	rollout int
	surge   bool
	suffix  string
	keep    bool
	flows   int
	measure bool
	picture pictureFlags
}

func planCommand(a *app) *cobra.Command {
	r := &planRun{app: a}
	c := &cobra.Command{
		Use:   "plan BACKENDS",
		Short: "What a change moves, on each structure, and which structure to take",
		Long: `plan compares the present backends, those of the file, with the wanted ones:
those of the file of --to, or the present ones, with the changes of --add,
--remove, --weight, --down and --drain.

For each structure it prints the least and the largest share of a backend,
relative to its fair one by weight; the standard deviation of that; the share of
keys that moves, and the least that these shares need; the memory; and the times
of the change and of a lookup on this machine. Without flags for structures it
takes tables of two sizes with and without slack, and rings.

With --rollout N the change is made in steps of N backends. Without any change,
every backend is replaced by one whose name has a suffix, as pods are.

--max-moved and --max-share are limits: where the recommended structure does not
meet them, the exit code is 1. With --rollout, --max-moved is for each step.`,
		Example: `  chash plan backends.txt --add web-41,web-42,web-43
  chash plan backends.txt --to wanted.yaml -max-moved 5% -max-share 1.05
  chash plan pods.txt --rollout 2 --structure maglev --slack inf
  chash plan haproxy.cfg --pool web --remove web3 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(args[0]) },
	}
	r.source.add(c)
	r.spec.add(c)
	r.picture.add(c)
	flags := c.Flags()
	flags.StringVar(&r.to, "to", "", "`file` of the wanted backends")
	flags.Var(&r.maxMove, "max-moved", "fail if more of the keys move: a `share` such as 0.05 or 5%")
	flags.Var(&r.maxMost, "max-share", "fail if the largest share is more than that many `times` the fair one, such as 1.05")
	flags.IntVar(&r.rollout, "rollout", 0, "make the change in steps of that `number` of backends")
	flags.BoolVar(&r.surge, "surge", false, "with --rollout: a step adds backends, and the next one removes")
	flags.StringVar(&r.suffix, "suffix", "-new", "with --rollout and no change: the `suffix` of the new names")
	flags.BoolVar(&r.keep, "keep-places", false, "with --rollout and no change: new names keep the hash keys of the old ones")
	flags.IntVar(&r.flows, "flows", 10, "print that `number` of the largest flows of keys between backends")
	flags.BoolVar(&r.measure, "measure", true, "measure memory and times")
	return c
}

// A planDocument is what plan prints as JSON.
type planDocument struct {
	Present     int         `json:"present"` // backends
	Wanted      int         `json:"wanted"`
	Added       []string    `json:"added"`
	Removed     []string    `json:"removed"`
	Changed     []string    `json:"changed"`
	Fewest      float64     `json:"fewest"` // keys that fair shares must move
	Rows        []plan.Row  `json:"structures"`
	Recommended int         `json:"recommended"` // index of a structure
	Why         string      `json:"why"`
	Go          string      `json:"go"`
	Limits      plan.Limits `json:"limits"`
	Met         bool        `json:"limits_met"`
}

func (r *planRun) run(path string) error {
	change, list, err := r.change(path)
	if err != nil {
		return err
	}
	specs, err := r.specs(list, len(change.After))
	if err != nil {
		return err
	}
	doc := planDocument{Present: len(change.Before), Wanted: len(change.After)}
	doc.Added, doc.Removed, doc.Changed = change.Names()
	for _, spec := range specs {
		row, err := change.Evaluate(spec, r.measure)
		if err != nil {
			return err
		}
		if r.rollout > 0 {
			rollout := plan.Rollout{Batch: r.rollout, Surge: r.surge}
			if row.Steps, err = rollout.Evaluate(change, spec); err != nil {
				return err
			}
		}
		doc.Rows = append(doc.Rows, row)
	}
	doc.Fewest = mapping.Fewest(doc.Rows[0].Before, doc.Rows[0].After)
	doc.Limits = plan.Limits{MaxMoved: float64(r.maxMove), MaxShare: float64(r.maxMost)}
	doc.Recommended, doc.Why = plan.Recommend(doc.Rows, doc.Limits)
	best := doc.Rows[doc.Recommended]
	doc.Go, doc.Met = best.Go, doc.Limits.Meets(best)
	printed := r.document(doc)
	if r.picture.wanted() {
		page, err := doc.page(printed)
		if err != nil {
			return err
		}
		if err := r.picture.write(page); err != nil {
			return err
		}
	}
	if err := r.print(printed); err != nil {
		return err
	}
	if !doc.Met {
		return fmt.Errorf("%w: %s", plan.ErrLimits, doc.missed())
	}
	return nil
}

// change returns the backends before and after.
func (r *planRun) change(path string) (plan.Change, *input.List, error) {
	list, err := r.source.read(r.app, path)
	if err != nil {
		return plan.Change{}, nil, err
	}
	wanted := list.Backends
	if r.to != "" {
		if r.to == "-" && path == "-" {
			return plan.Change{}, nil, fmt.Errorf("%w: standard input is the present state and the wanted one", errUse)
		}
		other, err := r.source.read(r.app, r.to)
		if err != nil {
			return plan.Change{}, nil, err
		}
		wanted = other.Backends
	}
	if wanted, err = r.source.edits.Apply(wanted); err != nil {
		return plan.Change{}, nil, err
	}
	if r.rollout < 0 {
		return plan.Change{}, nil, fmt.Errorf("%w: --rollout %d; expected a number from 1 on", errUse, r.rollout)
	}
	if r.rollout > 0 && slices.Equal(wanted, list.Backends) {
		wanted = plan.Replaced(list.Backends, r.suffix, r.keep)
	}
	return plan.Change{Before: list.Backends, After: wanted}, list, nil
}

// specs returns the structures to compare.
func (r *planRun) specs(list *input.List, backends int) ([]mapping.Spec, error) {
	if r.spec.given() {
		return r.spec.all()
	}
	if list.Spec != nil {
		return []mapping.Spec{*list.Spec}, nil
	}
	return plan.Candidates(backends), nil
}

// missed says which limits are not met.
func (d planDocument) missed() string {
	var parts []string
	best := d.Rows[d.Recommended]
	moved, most := best.Extremes()
	where := ""
	if len(best.Steps) > 0 {
		where = " in a step"
	}
	if d.Limits.MaxMoved > 0 && moved > d.Limits.MaxMoved {
		parts = append(parts, fmt.Sprintf("%s of the keys move%s, at most %s may", output.PercentText(moved), where, output.PercentText(d.Limits.MaxMoved)))
	}
	if d.Limits.MaxShare > 0 && most > d.Limits.MaxShare {
		parts = append(parts, fmt.Sprintf("the largest share is %.4f times the fair one, at most %g may be", most, d.Limits.MaxShare))
	}
	return strings.Join(parts, "; ")
}

// document returns what plan prints.
func (r *planRun) document(d planDocument) output.Document {
	doc := output.Document{Data: d}
	doc.Head = []string{fmt.Sprintf("%d backends now, %d wanted: %d come, %d go, %d change. With fair shares at least %s of the keys move.",
		d.Present, d.Wanted, len(d.Added), len(d.Removed), len(d.Changed), output.PercentText(d.Fewest))}
	doc.Tables = []output.Table{rowsTable(d.Rows, d.Recommended, r.measure)}
	best := d.Rows[d.Recommended]
	if len(best.Steps) > 0 {
		doc.Tables = append(doc.Tables, stepsTable(best.Name, best.Steps))
	} else if len(best.Flows) > 0 && r.flows > 0 {
		doc.Tables = append(doc.Tables, flowsTable("Who gives keys to whom, on "+best.Name, best.Flows, r.flows))
	}
	doc.Foot = []string{d.Why, "", "    " + d.Go}
	if d.Limits != (plan.Limits{}) && d.Met {
		doc.Foot = append(doc.Foot, "", "The limits are met.")
	}
	return doc
}

func rowsTable(rows []plan.Row, marked int, measured bool) output.Table {
	t := output.Table{Marked: marked + 1, Columns: []output.Column{
		{Name: "structure", Key: "structure", Left: true},
		{Name: "least share", Key: "least_share"}, {Name: "largest", Key: "largest_share"}, {Name: "std dev", Key: "std_dev"},
		{Name: "moved", Key: "moved"}, {Name: "fewest", Key: "least"}, {Name: "times", Key: "times"},
	}}
	steps := len(rows[0].Steps) > 0
	if steps {
		t.Columns = append(t.Columns, output.Column{Name: "by the rollout", Key: "rollout_moved"})
	}
	if measured {
		t.Columns = append(t.Columns, output.Column{Name: "memory", Key: "memory_bytes"},
			output.Column{Name: "change", Key: "change_ns"}, output.Column{Name: "build", Key: "build_ns"}, output.Column{Name: "lookup", Key: "lookup_ns"})
	}
	for _, r := range rows {
		cells := []output.Cell{
			output.String(r.Name), output.Ratio(r.Evenness.Least), output.Ratio(r.Most), output.Ratio(r.StdDev),
			output.Percent(r.Moved), output.Percent(r.Least), times(r.Times),
		}
		if steps {
			cells = append(cells, output.Percent(r.Steps[len(r.Steps)-1].Total))
		}
		if c := r.Cost; c != nil {
			cells = append(cells, output.Bytes(c.Memory), output.Duration(c.Change), output.Duration(c.Build), output.Nanoseconds(c.Lookup))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// times returns the cell of a multiple of the fewest keys.
func times(t float64) output.Cell {
	if t == 0 {
		return output.Cell{Text: "-", Value: ""}
	}
	return output.Ratio(t)
}

// flowsTable returns the largest flows.
func flowsTable(title string, flows []chash.Flow, most int) output.Table {
	flows = slices.Clone(flows)
	slices.SortStableFunc(flows, func(a, b chash.Flow) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	t := output.Table{Title: title, Columns: []output.Column{
		{Name: "from", Key: "from", Left: true}, {Name: "to", Key: "to", Left: true}, {Name: "keys", Key: "share"},
	}}
	for i, f := range flows {
		if i == most {
			rest := 0.0
			for _, f := range flows[i:] {
				rest += f.Share
			}
			t.Rows = append(t.Rows, []output.Cell{output.String(fmt.Sprintf("%d more", len(flows)-i)), output.String(""), output.Percent(rest)})
			break
		}
		t.Rows = append(t.Rows, []output.Cell{output.String(nobody(f.From)), output.String(nobody(f.To)), output.Percent(f.Share)})
	}
	return t
}

// nobody names the backend of an empty name.
func nobody(name string) string {
	if name == "" {
		return "(nobody)"
	}
	return name
}

func stepsTable(name string, steps []plan.Step) output.Table {
	t := output.Table{Title: "The rollout, on " + name, Columns: []output.Column{
		{Name: "step", Key: "step"}, {Name: "goes", Key: "removed", Left: true}, {Name: "comes", Key: "added", Left: true},
		{Name: "changes", Key: "changed", Left: true},
		{Name: "moved", Key: "moved"}, {Name: "in all", Key: "total"}, {Name: "largest share", Key: "largest_share"},
	}}
	for i, s := range steps {
		t.Rows = append(t.Rows, []output.Cell{
			output.Int(i + 1), output.String(some(s.Removed)), output.String(some(s.Added)), output.String(some(s.Changed)),
			output.Percent(s.Moved), output.Percent(s.Total), output.Ratio(s.Most),
		})
	}
	return t
}

// some joins names, three of them at most.
func some(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
	}
	return strings.Join(names, ", ")
}
