package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
)

// A sizeRun is the size command with its flags.
type sizeRun struct {
	*app
	spec    specFlags
	sets    int
	measure bool
}

func sizeCommand(a *app) *cobra.Command {
	r := &sizeRun{app: a}
	c := &cobra.Command{
		Use:   "size N",
		Short: "The trade between table size, evenness, moved keys and memory for N backends",
		Long: `size prints what N equal backends have in tables of several sizes and on rings:
the least and the largest share relative to the mean, the keys that a removal
and an addition move (of all, and as a multiple of the fewest possible), and the
memory. Figures are averages over sets of names.

--table-size, --slack and --replicas choose the structures.`,
		Example: `  chash size 100
  chash size 1000 --table-size 65537,655373,1000003 --slack none,0.01,inf`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(args[0]) },
	}
	r.spec.add(c)
	c.Flags().IntVar(&r.sets, "sets", 3, "`number` of sets of names")
	c.Flags().BoolVar(&r.measure, "measure", true, "measure memory and times")
	return c
}

// sizeFactors are how many slots the tables have for each backend.
var sizeFactors = []int{10, 30, 100, 300, 1000, 3000}

// largestStudied bounds the slots of the tables that size chooses itself.
const largestStudied = 10_000_000

func (r *sizeRun) run(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return fmt.Errorf("%w: N %q; expected a number of backends from 1 to 1000000", errUse, text)
	}
	if r.sets < 1 {
		return fmt.Errorf("%w: --sets %d; expected a number from 1 on", errUse, r.sets)
	}
	specs, err := r.specs(n)
	if err != nil {
		return err
	}
	var rows []plan.StudyRow
	for _, spec := range specs {
		row, err := plan.Study(spec, n, r.sets, r.measure)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	suggested := chash.TableSizeFor(n)
	t := studyTable(rows, r.measure)
	for i, row := range rows {
		if row.Spec.Structure == mapping.Maglev && row.Size == suggested && row.Spec.Slack == nil {
			t.Marked = i + 1
		}
	}
	return r.print(output.Document{
		Data:   rows,
		Head:   []string{fmt.Sprintf("%s equal backends, averages over %d sets of names", output.Grouped(int64(n)), r.sets)},
		Tables: []output.Table{t},
		Foot: []string{fmt.Sprintf("chash.TableSizeFor(%d) is %d: at least 100 slots for each backend, and no fewer than %d.",
			n, suggested, chash.DefaultTableSize)},
	})
}

func (r *sizeRun) specs(n int) ([]mapping.Spec, error) {
	if r.spec.given() {
		return r.spec.all()
	}
	var specs []mapping.Spec
	seen := map[int]bool{}
	suggested := chash.TableSizeFor(n)
	put := func(size int) {
		if !seen[size] && size > n && (size <= largestStudied || size == suggested) {
			seen[size] = true
			specs = append(specs, mapping.Spec{Structure: mapping.Maglev, TableSize: size})
		}
	}
	for _, factor := range sizeFactors {
		size := plan.PrimeFrom(n * factor)
		if size > suggested {
			put(suggested)
		}
		put(size)
	}
	put(suggested)
	for _, replicas := range []int{40, 160, 640} {
		if n*replicas <= chash.MaxRingPoints/4 {
			specs = append(specs, mapping.Spec{Structure: mapping.Ring, Replicas: replicas})
		}
	}
	return specs, nil
}

// blank is the cell of what is not known.
var blank = output.Cell{Text: "", Value: ""}

// studyTable returns a row for each structure.
func studyTable(rows []plan.StudyRow, measured bool) output.Table {
	t := output.Table{Columns: []output.Column{
		{Name: "backends", Key: "backends"}, {Name: "structure", Key: "structure", Left: true},
		{Name: "slots or points", Key: "size"}, {Name: "for each", Key: "size_per_backend"},
		{Name: "least share", Key: "least_share"}, {Name: "largest", Key: "largest_share"}, {Name: "std dev", Key: "std_dev"},
		{Name: "a removal moves", Key: "moved_by_removal"}, {Name: "times", Key: "moved_by_removal_times"},
		{Name: "an addition", Key: "moved_by_addition"}, {Name: "times", Key: "moved_by_addition_times"},
	}}
	if measured {
		t.Columns = append(t.Columns, output.Column{Name: "memory", Key: "memory_bytes"},
			output.Column{Name: "build", Key: "build_ns"}, output.Column{Name: "lookup", Key: "lookup_ns"})
	}
	for _, r := range rows {
		size, each := output.Int(r.Size), output.Int(r.Size/r.Backends)
		if r.Size == 0 {
			size, each = blank, blank // of another library
		}
		cells := []output.Cell{
			output.Int(r.Backends), output.String(r.Name), size, each,
			output.Ratio(r.Least), output.Ratio(r.Most), output.Ratio(r.StdDev),
			output.Percent(r.Removed), times(r.RemovedTimes), output.Percent(r.Added), times(r.AddedTimes),
		}
		if measured {
			memory, build := output.Bytes(r.Memory), output.Duration(durationOf(r.Build))
			if r.Build == 0 {
				memory, build = blank, blank
			}
			cells = append(cells, memory, build, output.Nanoseconds(r.Lookup))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
