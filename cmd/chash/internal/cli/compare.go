package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/fingerprint"
	"github.com/chash-go/chash/cmd/chash/internal/input"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
)

// A compareRun is the compare command with its flags.
type compareRun struct {
	*app
	source  sourceFlags
	spec    specFlags
	name    string
	live    bool
	timeout time.Duration
	samples int
}

func compareCommand(a *app) *cobra.Command {
	r := &compareRun{app: a}
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Whether two states or processes map keys alike, and by how much not",
		Long: `compare prints whether A and B map every key to the same backend. Each is a file
of backends, or the URL of a process that shows its fingerprint: the metrics of
contrib/chashprom (chash_fingerprint_info), or JSON with a field
"fingerprint" of hexadecimal digits. JSON that has "backends" too is compared
key by key, as files are.

The fingerprint is that of the mapping with all backends healthy; with --live it
is that of the mapping at this moment. The structure of a file is that of the
flags, or the one that the file names. Two files whose structures cannot be
compared exactly are compared by sampled keys.

The exit code is 0 if they map alike, 1 if not, and 2 if that cannot be told.`,
		Example: `  chash compare http://10.0.0.1:9090/metrics http://10.0.0.2:9090/metrics
  chash compare http://10.0.0.1:9090/metrics backends.yaml --table-size 131071
  chash compare yesterday.json today.json`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return r.run(c.Context(), args[0], args[1]) },
	}
	r.source.add(c)
	r.spec.add(c)
	flags := c.Flags()
	flags.StringVar(&r.name, "name", "", "`name` of the structure, where a process shows several")
	flags.BoolVar(&r.live, "live", false, "compare the mappings at this moment: states count")
	flags.DurationVar(&r.timeout, "timeout", 10*time.Second, "the longest `time` that a process may take to answer")
	flags.IntVar(&r.samples, "samples", 1_000_000, "the `number` of keys to sample where an exact comparison is not possible")
	return c
}

// A side is one of the two that are compared.
type side struct {
	Name        string `json:"name"`
	Structure   string `json:"structure,omitempty"`
	Backends    int    `json:"backends,omitempty"`
	Fingerprint string `json:"fingerprint"`
	value       fingerprint.Value
	mapping     *mapping.Mapping // nil where only a fingerprint is known
}

// A comparison is what compare prints as JSON.
type comparison struct {
	A       side         `json:"a"`
	B       side         `json:"b"`
	Same    bool         `json:"same"`
	Live    bool         `json:"live"`
	Differ  *float64     `json:"differ,omitempty"` // share of the keys; nil if not known
	Sampled int          `json:"sampled,omitempty"`
	Flows   []chash.Flow `json:"flows,omitempty"`
}

func (r *compareRun) run(ctx context.Context, a, b string) error {
	if a == "-" && b == "-" {
		return fmt.Errorf("%w: standard input is both A and B", errUse)
	}
	var result comparison
	var err error
	if result.A, err = r.side(ctx, a); err != nil {
		return err
	}
	if result.B, err = r.side(ctx, b); err != nil {
		return err
	}
	result.Live = r.live
	result.Same = result.A.value.Same(result.B.value)
	if result.A.mapping != nil && result.B.mapping != nil {
		if err := r.measure(&result); err != nil {
			return err
		}
	}
	if err := r.print(result.document()); err != nil {
		return err
	}
	if !result.Same {
		return errDiffers
	}
	return nil
}

// side reads A or B.
func (r *compareRun) side(ctx context.Context, arg string) (side, error) {
	if !fingerprint.IsURL(arg) {
		list, err := r.source.read(r.app, arg)
		if err != nil {
			return side{}, err
		}
		return r.built(arg, list)
	}
	found, body, err := fingerprint.Fetch(ctx, arg, r.timeout)
	if errors.Is(err, fingerprint.ErrFetch) && body != nil && isState(body) {
		list, err := input.Parse(arg, body, input.JSON, "")
		if err != nil {
			return side{}, err
		}
		return r.built(arg, list)
	}
	if err != nil {
		return side{}, err
	}
	var names []string
	var fitting []fingerprint.Fingerprint
	for _, f := range found {
		names = append(names, fmt.Sprintf("%q", f.Structure))
		if r.name == "" || f.Structure == r.name {
			fitting = append(fitting, f)
		}
	}
	if len(fitting) != 1 {
		return side{}, fmt.Errorf("%w: %s shows the structures %s: say which by --name", errUse, arg, strings.Join(names, ", "))
	}
	value := fitting[0].Home
	if r.live {
		value = fitting[0].Live
	}
	if !value.Known {
		return side{}, fmt.Errorf("%w: %s does not show the fingerprint that is asked for", errUse, arg)
	}
	return side{Name: arg, Structure: fitting[0].Structure, Fingerprint: value.String(), value: value}, nil
}

// isState reports whether an answer is the JSON of a state, with backends.
func isState(body []byte) bool {
	var state struct {
		Backends []json.RawMessage `json:"backends"`
	}
	return json.Unmarshal(bytes.TrimSpace(body), &state) == nil && len(state.Backends) > 0
}

// built returns the side of some backends.
func (r *compareRun) built(name string, list *input.List) (side, error) {
	backends, err := r.source.edits.Apply(list.Backends)
	if err != nil {
		return side{}, err
	}
	spec, err := r.spec.one(list)
	if err != nil {
		return side{}, err
	}
	m, err := spec.Build(backends)
	if err != nil {
		return side{}, fmt.Errorf("%s: %w", name, err)
	}
	if !r.live {
		if m, err = healed(m); err != nil {
			return side{}, err
		}
	}
	value := fingerprint.Whole(m.LiveFingerprint())
	return side{
		Name: name, Structure: spec.String(), Backends: len(backends),
		Fingerprint: value.String(), value: value, mapping: m,
	}, nil
}

// healed returns the mapping with every unhealthy backend healthy. Its live fingerprint
// is then the other one.
func healed(m *mapping.Mapping) (*mapping.Mapping, error) {
	m = m.Clone()
	for _, b := range m.Structure.Backends() {
		if b.State == chash.Unhealthy {
			if err := m.SetState(b.Name, chash.Healthy); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// measure finds out how many keys differ.
func (r *compareRun) measure(c *comparison) error {
	a, b := c.A.mapping, c.B.mapping
	d, err := a.Diff(b)
	if err == nil {
		c.Differ, c.Flows = &d.Moved, d.Flows
		return nil
	}
	if !errors.Is(err, chash.ErrIncomparable) {
		return err
	}
	if r.samples < 1 {
		return nil
	}
	differ := 0
	for i := range r.samples {
		key := fmt.Sprintf("key-%d", i)
		if nameOf(a, key) != nameOf(b, key) {
			differ++
		}
	}
	share := float64(differ) / float64(r.samples)
	c.Differ, c.Sampled = &share, r.samples
	return nil
}

func nameOf(m *mapping.Mapping, key string) string {
	value, err := m.Get(key)
	if err != nil {
		return ""
	}
	return m.Name(value)
}

func (c comparison) document() output.Document {
	t := output.Table{Columns: []output.Column{
		{Name: "", Key: "side", Left: true}, {Name: "of", Key: "name", Left: true}, {Name: "structure", Key: "structure", Left: true},
		{Name: "backends", Key: "backends"}, {Name: "fingerprint", Key: "fingerprint", Left: true},
	}}
	for i, s := range []side{c.A, c.B} {
		backends := output.Int(s.Backends)
		if s.Backends == 0 {
			backends = output.Cell{Text: "?", Value: ""}
		}
		t.Rows = append(t.Rows, []output.Cell{
			output.String(string(rune('A' + i))), output.String(s.Name), output.String(s.Structure), backends, output.String(s.Fingerprint),
		})
	}
	d := output.Document{Data: c, Tables: []output.Table{t}}
	switch {
	case c.Same:
		d.Foot = []string{"Same: every key goes to the same backend."}
	case c.Differ == nil:
		d.Foot = []string{"They differ. By how much is not known from fingerprints alone."}
	case c.Sampled > 0:
		d.Foot = []string{fmt.Sprintf("They differ in %s of %s sampled keys.", output.PercentText(*c.Differ), output.Grouped(int64(c.Sampled)))}
	default:
		d.Foot = []string{fmt.Sprintf("They differ in %s of the keys.", output.PercentText(*c.Differ))}
		d.Tables = append(d.Tables, flowsTable("What goes from one backend in A to another in B", c.Flows, 10))
	}
	return d
}
