package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/replay"
)

// A replayRun is the replay command with its flags.
type replayRun struct {
	*app
	source   sourceFlags
	spec     specFlags
	backends string
	to       string

	field, separator, json, pattern string
	csv                             bool

	heavy    int
	simulate bool
	factor   float64
	floor    float64
	inFlight int
	workers  int
	progress bool
}

func replayCommand(a *app) *cobra.Command {
	r := &replayRun{app: a}
	c := &cobra.Command{
		Use:   "replay LOG",
		Short: "What the keys of a real log do to each backend, before and after a change",
		Long: `replay sends the keys of a log ("-" for standard input, gzip is unpacked) through
the backends, and prints the requests of each beside its fair share and its
share of the key space, and the heaviest keys. With --to, or with --add and the
like, it does the same for the backends after that change.

A key is a whole line; a field of it (--field 3, fields separated by spaces or by
--separator); a field of CSV (--csv --field 3, or the name of a column); a field
of JSON lines (--json user.id); or what a regular expression finds (--pattern, its
group "key"). The patterns address, user, path, url and agent are those of access
logs in the common and the combined format.

It also simulates bounded loads (chash's Acquire) with the factor c of --factor,
with and without the floor of --floor. A request is in flight until as many more
as --in-flight says have come. The simulation takes the requests in the order of
the log: the first 4 MiB of it, and one MiB in 16 after that.

Memory does not grow with the log. The heaviest keys are estimates, by a sketch
that looks at every request of a short log and at one in 32 of a long one. It may
miss keys of less than one request in 1,000.
Ctrl-C prints what there is so far; the exit code is then 130.`,
		Example: `  chash replay access.log.gz --backends backends.txt --pattern path
  zcat logs/*.gz | chash replay - -b backends.txt --json user.id --add web-41
  chash replay keys.txt -b nginx.conf --like nginx -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(c.Context(), args[0]) },
	}
	r.source.add(c)
	r.spec.add(c)
	flags := c.Flags()
	flags.StringVarP(&r.backends, "backends", "b", "", "`file` of the backends")
	flags.StringVar(&r.to, "to", "", "`file` of the backends after the change")
	flags.StringVar(&r.field, "field", "", "the key is the field of that `number`, from 1; with --csv also the name of a column")
	flags.StringVar(&r.separator, "separator", "", "`text` between fields; spaces and tabs without it")
	flags.BoolVar(&r.csv, "csv", false, "the log is CSV, a record a line")
	flags.StringVar(&r.json, "json", "", "the key is that `field` of JSON lines, as user.id")
	flags.StringVar(&r.pattern, "pattern", "", "the key is what a regular `expression` finds; or address, user, path, url, agent")
	flags.IntVar(&r.heavy, "heavy", 10, "print that `number` of the heaviest keys")
	flags.BoolVar(&r.simulate, "simulate", true, "simulate bounded loads")
	flags.Float64Var(&r.factor, "factor", chash.DefaultLoadFactor, "load `factor` c of the simulation")
	flags.Float64Var(&r.floor, "floor", 0, "load `floor` of the simulation; 0 for twice what a backend has in flight on average")
	flags.IntVar(&r.inFlight, "in-flight", 0, "`requests` in flight in the simulation; 0 for 10 for each backend")
	flags.IntVar(&r.workers, "workers", 0, "`number` of processors to use; 0 for all")
	flags.BoolVar(&r.progress, "progress", true, "show progress where standard error is a terminal")
	_ = c.MarkFlagRequired("backends")
	completes(c, "pattern", "address", "user", "path", "url", "agent")
	return c
}

// A replayDocument is what replay prints as JSON.
type replayDocument struct {
	Structure string `json:"structure"`
	*replay.Result
	Backends []backendLoad `json:"backends"`
	Seconds  float64       `json:"-"`
	moved    bool
}

// A backendLoad is what a backend gets.
type backendLoad struct {
	Name   string    `json:"name"`
	Before *measured `json:"before,omitempty"` // nil if it is not there before
	After  *measured `json:"after,omitempty"`
}

// measured is a load beside the planned one.
type measured struct {
	Requests int64   `json:"requests"`
	Share    float64 `json:"share"`
	Planned  float64 `json:"key_space"` // share of the key space
	Fair     float64 `json:"fair"`
	Ratio    float64 `json:"ratio"` // Share / Fair
}

func (r *replayRun) run(ctx context.Context, path string) error {
	before, after, err := r.mappings(path)
	if err != nil {
		return err
	}
	options := replay.Options{Heavy: r.heavy, Workers: r.workers}
	if r.simulate {
		if options.Bound, err = r.bound(before, after); err != nil {
			return err
		}
	}
	bar := r.bar()
	log, err := replay.Open(path, r.stdin, bar.add)
	if err != nil {
		return err
	}
	defer log.Close()
	bar.begin(log.Size)
	in := bufio.NewReaderSize(log, 64<<10)
	if options.Extract, err = r.extractor(in); err != nil {
		return err
	}
	result, err := replay.Run(ctx, in, before, after, options)
	bar.end()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	doc := replayDocument{Structure: before.Spec.String(), Result: result, moved: after != nil}
	if doc.Backends, err = backendLoads(before, after, result); err != nil {
		return err
	}
	if err := r.print(doc.document(r.floorOf(options.Bound))); err != nil {
		return err
	}
	if result.Stopped {
		return fmt.Errorf("%w: this is of the first %s requests only", errInterrupted, output.Grouped(result.Requests))
	}
	return nil
}

// mappings returns the mapping before the change and the one after, nil without a change.
func (r *replayRun) mappings(path string) (before, after *mapping.Mapping, err error) {
	if path == "-" && (r.backends == "-" || r.to == "-") || r.backends == "-" && r.to == "-" {
		return nil, nil, fmt.Errorf("%w: standard input is asked for twice", errUse)
	}
	list, err := r.source.read(r.app, r.backends)
	if err != nil {
		return nil, nil, err
	}
	spec, err := r.spec.one(list)
	if err != nil {
		return nil, nil, err
	}
	if before, err = spec.Build(list.Backends); err != nil {
		return nil, nil, err
	}
	wanted := list.Backends
	if r.to != "" {
		other, err := r.source.read(r.app, r.to)
		if err != nil {
			return nil, nil, err
		}
		wanted = other.Backends
	}
	if wanted, err = r.source.edits.Apply(wanted); err != nil {
		return nil, nil, err
	}
	if r.to == "" && !r.source.edits.Any() {
		return before, nil, nil
	}
	after, err = spec.Build(wanted)
	return before, after, err
}

// bound returns the settings of the simulation.
func (r *replayRun) bound(before, after *mapping.Mapping) (*replay.Bound, error) {
	if after == nil {
		after = before
	}
	b := &replay.Bound{Factor: r.factor, Floor: r.floor, InFlight: r.inFlight}
	if b.InFlight == 0 {
		b.InFlight = 10 * max(len(before.Backends), len(after.Backends))
	}
	if b.InFlight < 1 || b.InFlight > 1_000_000 {
		return nil, fmt.Errorf("%w: --in-flight %d; expected a number from 1 to 1000000", errUse, b.InFlight)
	}
	if b.Floor == 0 {
		weight := 0.0
		for _, backend := range after.Structure.Backends() {
			if backend.State == chash.Healthy {
				weight += float64(backend.Weight)
			}
		}
		b.Floor = math.Ceil(2 * float64(b.InFlight) / max(1, weight))
	}
	trial := before.Clone()
	if err := trial.SetLoadFactor(b.Factor); err != nil {
		return nil, fmt.Errorf("--factor: %w", err)
	}
	if err := trial.SetLoadFloor(b.Floor); err != nil {
		return nil, fmt.Errorf("--floor: %w", err)
	}
	return b, nil
}

func (r *replayRun) floorOf(b *replay.Bound) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("c = %g, a floor of %g, %s requests in flight", b.Factor, b.Floor, output.Grouped(int64(b.InFlight)))
}

// extractor returns what takes the key from a line. It reads the line of names of CSV.
func (r *replayRun) extractor(in *bufio.Reader) (replay.Extractor, error) {
	ways := 0
	for _, given := range []bool{r.field != "", r.json != "", r.pattern != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, fmt.Errorf("%w: expected one of --field, --json and --pattern", errUse)
	case r.csv && r.field == "":
		return nil, fmt.Errorf("%w: --csv without --field", errUse)
	case r.separator != "" && (r.field == "" || r.csv):
		return nil, fmt.Errorf("%w: --separator is for --field without --csv", errUse)
	case r.json != "":
		return replay.JSON(r.json)
	case r.pattern != "":
		return replay.Pattern(r.pattern)
	case r.field == "":
		return replay.Line, nil
	}
	number, err := strconv.Atoi(r.field)
	if err != nil && r.csv {
		header, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("the line of names: %w", err)
		}
		if number, err = replay.CSVColumn(header, r.field); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("%w: --field %q; expected a number from 1 on", errUse, r.field)
	}
	if r.csv {
		return replay.CSV(number)
	}
	return replay.Field(number, r.separator)
}

// backendLoads joins what backends have before and after, by name.
func backendLoads(before, after *mapping.Mapping, result *replay.Result) ([]backendLoad, error) {
	loads := map[string]*backendLoad{}
	var names []string
	put := func(m *mapping.Mapping, counts []int64, set func(*backendLoad, *measured)) error {
		planned, err := m.Loads()
		if err != nil {
			return err
		}
		byName := map[string]mapping.Load{}
		for _, l := range planned {
			byName[l.Name] = l
		}
		for i, n := range counts {
			name := nobody("")
			if i < len(m.Backends) {
				name = m.Backends[i].Name
			} else if n == 0 {
				continue
			}
			if loads[name] == nil {
				loads[name] = &backendLoad{Name: name}
				names = append(names, name)
			}
			l := byName[name]
			share := float64(n) / float64(max(1, result.Requests))
			ratio := 0.0
			if l.Fair > 0 {
				ratio = share / l.Fair
			}
			set(loads[name], &measured{n, share, l.Share, l.Fair, ratio})
		}
		return nil
	}
	if err := put(before, result.Before, func(b *backendLoad, m *measured) { b.Before = m }); err != nil {
		return nil, err
	}
	if after != nil {
		if err := put(after, result.After, func(b *backendLoad, m *measured) { b.After = m }); err != nil {
			return nil, err
		}
	}
	var list []backendLoad
	for _, name := range names {
		list = append(list, *loads[name])
	}
	return list, nil
}

func (d replayDocument) document(bound string) output.Document {
	head := []string{fmt.Sprintf("%s requests on %s", output.Grouped(d.Requests), d.Structure)}
	if d.Skipped > 0 {
		head = append(head, fmt.Sprintf("%s lines have no key, the first is %q", output.Grouped(d.Skipped), d.Example))
	}
	doc := output.Document{Data: d, Head: head}
	doc.Tables = append(doc.Tables, d.loadTable())
	if len(d.Heavy) > 0 {
		doc.Tables = append(doc.Tables, d.heavyTable())
	}
	if len(d.Bounds) > 0 && d.Bounds[0].Requests > 0 {
		doc.Tables = append(doc.Tables, d.boundTable(bound))
	}
	if d.moved {
		doc.Foot = append(doc.Foot, fmt.Sprintf("The change moves %s of the requests.", output.PercentText(float64(d.Moved)/float64(max(1, d.Requests)))))
	}
	return doc
}

func (d replayDocument) loadTable() output.Table {
	t := output.Table{Columns: []output.Column{{Name: "backend", Key: "backend", Left: true}}}
	columns := func(prefix, key string) {
		t.Columns = append(t.Columns,
			output.Column{Name: prefix + "requests", Key: key + "requests"}, output.Column{Name: "share", Key: key + "share"},
			output.Column{Name: "of key space", Key: key + "key_space"}, output.Column{Name: "by fair share", Key: key + "ratio"})
	}
	columns("", "")
	if d.moved {
		columns("after: ", "after_")
	}
	cells := func(m *measured) []output.Cell {
		if m == nil {
			none := output.Cell{Text: "", Value: ""}
			return []output.Cell{none, none, none, none}
		}
		return []output.Cell{output.Int(m.Requests), output.Percent(m.Share), output.Percent(m.Planned), output.Ratio(m.Ratio)}
	}
	for _, b := range d.Backends {
		row := append([]output.Cell{output.String(b.Name)}, cells(b.Before)...)
		if d.moved {
			row = append(row, cells(b.After)...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (d replayDocument) heavyTable() output.Table {
	title := "The heaviest keys"
	if d.HeavyRate > 1 {
		title += fmt.Sprintf(", from one request in %d", d.HeavyRate)
	}
	t := output.Table{Title: title, Columns: []output.Column{
		{Name: "key", Key: "key", Left: true}, {Name: "requests, about", Key: "requests"}, {Name: "of all", Key: "share"},
	}}
	for _, k := range d.Heavy {
		t.Rows = append(t.Rows, []output.Cell{
			output.String(k.Key), output.Int(k.Requests), output.Percent(float64(k.Requests) / float64(max(1, d.Requests))),
		})
	}
	return t
}

func (d replayDocument) boundTable(bound string) output.Table {
	t := output.Table{
		Title: fmt.Sprintf("Bounded loads, simulated with %s, %s requests", bound, output.Grouped(d.Bounds[0].Requests)),
		Columns: []output.Column{
			{Name: "", Key: "bound", Left: true}, {Name: "go elsewhere", Key: "elsewhere"},
			{Name: "most in flight, by fair share", Key: "peak_in_flight"}, {Name: "largest load, by fair share", Key: "largest_load"},
		},
	}
	for _, b := range d.Bounds {
		name := b.Name
		if b.After {
			name = "after: " + name
		}
		t.Rows = append(t.Rows, []output.Cell{output.String(name), output.Percent(b.Elsewhere), output.Ratio(b.Peak), output.Ratio(b.Largest)})
	}
	return t
}

// A progress shows how far a replay is, on a terminal.
type progress struct {
	out    io.Writer // nil if it is not to be shown
	bar    *progressbar.ProgressBar
	before int64 // bytes read before the bar was there
}

func (r *replayRun) bar() *progress {
	p := &progress{}
	if r.progress && output.IsTerminal(r.stderr) {
		p.out = r.stderr
	}
	return p
}

func (p *progress) begin(size int64) {
	if p.out == nil {
		return
	}
	p.bar = progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(p.out), progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	_ = p.bar.Add64(p.before)
}

func (p *progress) add(bytes int) {
	if p.bar == nil {
		p.before += int64(bytes)
		return
	}
	_ = p.bar.Add(bytes)
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
