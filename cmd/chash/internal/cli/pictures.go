package cli

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
	"github.com/chash-go/chash/cmd/chash/internal/report"
)

// pictureFlags say where pictures go.
type pictureFlags struct{ html, svg string }

func (f *pictureFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.html, "html", "", "write a page with pictures to that `file`; it needs no network")
	c.Flags().StringVar(&f.svg, "svg", "", "write the pictures to that `folder`, as SVG")
}

func (f *pictureFlags) wanted() bool { return f.html != "" || f.svg != "" }

// write writes a page to where the flags say.
func (f *pictureFlags) write(page report.Page) error {
	if f.html != "" {
		if err := page.WriteHTML(f.html); err != nil {
			return err
		}
	}
	if f.svg != "" {
		return page.WriteSVG(f.svg)
	}
	return nil
}

// studiedBackends are the numbers of backends over which disruption is drawn.
var studiedBackends = []int{3, 10, 30, 100, 300}

// disruption returns the rows of a study of structures over the number of backends.
func disruption(specs []mapping.Spec) ([]plan.StudyRow, error) {
	const sets = 2
	type job struct {
		spec mapping.Spec
		n    int
	}
	var jobs []job
	for _, spec := range specs {
		for _, n := range studiedBackends {
			if spec.Like == "" && (spec.Structure == mapping.Ring || spec.Size() >= n) {
				jobs = append(jobs, job{spec, n})
			}
		}
	}
	rows, errs := make([]plan.StudyRow, len(jobs)), make([]error, len(jobs))
	var running sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		turns <- struct{}{}
		running.Go(func() {
			rows[i], errs[i] = plan.Study(j.spec, j.n, sets, false)
			<-turns
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// page returns the report of a plan.
func (d planDocument) page(doc output.Document) (report.Page, error) {
	best := d.Rows[d.Recommended]
	page := report.Page{
		Title: fmt.Sprintf("A change of %d backends to %d", d.Present, d.Wanted),
		Lines: append(slices.Clone(doc.Head), d.Why), Go: d.Go, Tables: doc.Tables,
	}
	var specs []mapping.Spec
	for _, r := range d.Rows {
		specs = append(specs, r.Spec)
	}
	studied, err := disruption(specs)
	if err != nil {
		return page, err
	}
	draw := []func() (report.Picture, error){
		func() (report.Picture, error) { return report.Shares(best.Name, best.Before, best.After) },
		func() (report.Picture, error) { return report.Flows(best.Name, best.Flows) },
	}
	if len(studied) > 0 {
		draw = append(draw, func() (report.Picture, error) { return report.Disruption(studied) })
	}
	if len(best.Steps) > 0 {
		draw = append(draw, func() (report.Picture, error) { return report.Rollout(d.Rows) })
	}
	for _, d := range draw {
		picture, err := d()
		if err != nil {
			return page, err
		}
		page.Pictures = append(page.Pictures, picture)
	}
	return page, nil
}
