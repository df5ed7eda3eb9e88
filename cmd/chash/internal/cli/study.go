package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
	"github.com/chash-go/chash/cmd/chash/internal/report"
)

// A studyRun is the study command with its flags.
type studyRun struct {
	*app
	spec     specFlags
	backends []int
	sets     int
	with     string
	measure  bool
	picture  pictureFlags
}

func studyCommand(a *app) *cobra.Command {
	r := &studyRun{app: a}
	c := &cobra.Command{
		Use:   "study",
		Short: "All structures side by side, for several numbers of backends",
		Long: `study prints evenness, moved keys, memory and times of all structures, for
several numbers of equal backends. Figures are averages over sets of names; all
but memory and times are the same in every run.

--with adds the rows of a file, as -o json prints them: those of other
libraries. The folder benchmarks/peers of the repository has a program that
makes such a file.`,
		Example: `  chash study
  chash study --backends 100 --with peers.json -o markdown`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run() },
	}
	r.spec.add(c)
	r.picture.add(c)
	flags := c.Flags()
	flags.IntSliceVar(&r.backends, "backends", []int{10, 100, 1000}, "`numbers` of backends")
	flags.IntVar(&r.sets, "sets", 10, "`number` of sets of names")
	flags.StringVar(&r.with, "with", "", "`file` of more rows")
	flags.BoolVar(&r.measure, "measure", true, "measure memory and times")
	return c
}

// studied are the structures of a study where no flag names others.
func studied() []mapping.Spec {
	zero, one, five, unlimited := mapping.Slack(0), mapping.Slack(0.01), mapping.Slack(0.05), mapping.Slack(math.Inf(1))
	return []mapping.Spec{
		{Structure: mapping.Maglev},
		{Structure: mapping.Maglev, Slack: &zero},
		{Structure: mapping.Maglev, Slack: &one},
		{Structure: mapping.Maglev, Slack: &five},
		{Structure: mapping.Maglev, Slack: &unlimited},
		{Structure: mapping.Ring},
		{Structure: mapping.Ring, Hash: mapping.HashXX},
	}
}

func (r *studyRun) run() error {
	rows, err := r.rows()
	if err != nil {
		return err
	}
	doc := output.Document{Data: rows, Tables: []output.Table{studyTable(rows, r.measure)}}
	doc.Head = []string{fmt.Sprintf("Equal backends, averages over %d sets of names; shares are relative to the mean.", r.sets)}
	if r.measure {
		doc.Head = append(doc.Head, fmt.Sprintf("Times and memory: %s on %s/%s, %d processors.",
			runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)))
	}
	if r.picture.wanted() {
		page, err := studyPage(rows, doc)
		if err != nil {
			return err
		}
		if err := r.picture.write(page); err != nil {
			return err
		}
	}
	return r.print(doc)
}

// studyPage returns the report of a study: the trade for the number of backends in the
// middle, and disruption over all of them.
func studyPage(rows []plan.StudyRow, doc output.Document) (report.Page, error) {
	page := report.Page{Title: "Structures side by side", Lines: doc.Head, Tables: doc.Tables}
	var counts []int
	for _, row := range rows {
		if !slices.Contains(counts, row.Backends) {
			counts = append(counts, row.Backends)
		}
	}
	middle := counts[len(counts)/2]
	trade, err := report.Trade(slices.DeleteFunc(slices.Clone(rows), func(r plan.StudyRow) bool { return r.Backends != middle }), middle)
	if err != nil {
		return page, err
	}
	page.Pictures = append(page.Pictures, trade)
	if len(counts) > 1 {
		moved, err := report.Disruption(rows)
		if err != nil {
			return page, err
		}
		page.Pictures = append(page.Pictures, moved)
	}
	return page, nil
}

func (r *studyRun) rows() ([]plan.StudyRow, error) {
	if r.sets < 1 {
		return nil, fmt.Errorf("%w: --sets %d; expected a number from 1 on", errUse, r.sets)
	}
	specs := studied()
	if r.spec.given() {
		var err error
		if specs, err = r.spec.all(); err != nil {
			return nil, err
		}
	}
	var rows []plan.StudyRow
	for _, n := range r.backends {
		if n < 2 {
			return nil, fmt.Errorf("%w: --backends %d; expected numbers from 2 on", errUse, n)
		}
		for _, spec := range specs {
			row, err := plan.Study(spec, n, r.sets, r.measure)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	if r.with == "" {
		return rows, nil
	}
	more, err := readStudy(r.with)
	if err != nil {
		return nil, err
	}
	for _, row := range more {
		if slices.Contains(r.backends, row.Backends) {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b plan.StudyRow) int { return a.Backends - b.Backends })
	return rows, nil
}

// readStudy reads rows as study prints them.
func readStudy(path string) ([]plan.StudyRow, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []plan.StudyRow
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: expected rows as study -o json prints them: %w", path, err)
	}
	for i, row := range rows {
		if row.Name == "" || row.Backends < 1 {
			return nil, fmt.Errorf("%s: row %d; expected a name and a number of backends", path, i+1)
		}
	}
	return rows, nil
}

func durationOf(ns int64) time.Duration { return time.Duration(ns) }
