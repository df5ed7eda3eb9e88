package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
)

// A whereRun is the where command with its flags.
type whereRun struct {
	*app
	source   sourceFlags
	spec     specFlags
	backends string
	n        int
	explain  bool
}

func whereCommand(a *app) *cobra.Command {
	r := &whereRun{app: a}
	var systems strings.Builder
	for _, s := range mapping.Systems() {
		fmt.Fprintf(&systems, "  %-32s %s\n", s[0], s[1])
	}
	c := &cobra.Command{
		Use:   "where KEY...",
		Short: "Where keys go, where they go if that backend fails, and why",
		Long: `where prints for each key the backend that it goes to, the next ones in its
order of preference, its slot in a table or its point on a ring, and with --why
the slots or points that the lookup meets. Without keys it reads them from
standard input, one a line.

With --like it says where another system sends the key. The systems, with their
settings:

` + systems.String() + `
What a key and a hash key are there is said in the documentation of
github.com/chash-go/chash/contrib/chashcompat.`,
		Example: `  chash where user:42 --backends backends.txt
  chash where user:42 --backends backends.txt --down web-3 --why
  chash where /index.html --backends nginx.conf --like nginx`,
		RunE: func(c *cobra.Command, args []string) error { return r.run(args) },
	}
	r.source.add(c)
	r.spec.add(c)
	flags := c.Flags()
	flags.StringVarP(&r.backends, "backends", "b", "", "`file` of the backends")
	flags.IntVarP(&r.n, "candidates", "n", 3, "print that `number` of backends for each key")
	flags.BoolVar(&r.explain, "why", false, "print the slots or points that the lookup meets; so it does for up to three keys anyway")
	_ = c.MarkFlagRequired("backends")
	return c
}

// An answer is what where says of a key.
type answer struct {
	chash.Explanation
	Candidates []string
}

// answerData is an answer as JSON.
type answerData struct {
	Key        string        `json:"key"`
	Backend    string        `json:"backend"`
	Candidates []string      `json:"candidates"`
	Home       int           `json:"home"`
	Hash       string        `json:"hash"`
	Structure  string        `json:"structure"`
	Error      string        `json:"error,omitempty"`
	Probes     []chash.Probe `json:"probes"`
}

func (r *whereRun) run(keys []string) error {
	if r.n < 1 {
		return fmt.Errorf("%w: --candidates %d; expected a number from 1 on", errUse, r.n)
	}
	list, err := r.source.read(r.app, r.backends)
	if err != nil {
		return err
	}
	m, err := r.source.build(list, &r.spec)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		if r.backends == "-" {
			return fmt.Errorf("%w: standard input has the backends, so the keys must be arguments", errUse)
		}
		if keys, err = r.readKeys(); err != nil {
			return err
		}
	}
	var answers []answer
	for _, key := range keys {
		answers = append(answers, r.ask(m, key))
	}
	return r.print(r.document(m, answers))
}

// readKeys reads keys from standard input.
func (r *whereRun) readKeys() ([]string, error) {
	var keys []string
	scanner := bufio.NewScanner(r.stdin)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		keys = append(keys, strings.TrimSuffix(scanner.Text(), "\r"))
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("standard input: line %d: %w", len(keys)+1, err)
	}
	return keys, nil
}

func (r *whereRun) ask(m *mapping.Mapping, key string) answer {
	a := answer{Explanation: m.Explain(key), Candidates: []string{}}
	values, err := m.GetN(key, r.n)
	if err != nil {
		return a // which has the error
	}
	for _, value := range values {
		a.Candidates = append(a.Candidates, m.Name(value))
	}
	return a
}

func (r *whereRun) document(m *mapping.Mapping, answers []answer) output.Document {
	size := m.Stats().Size
	unit := "slot"
	if m.Ring() != nil {
		unit = "point"
	}
	data := []answerData{}
	t := output.Table{Columns: []output.Column{
		{Name: "key", Key: "key", Left: true}, {Name: "goes to", Key: "backend", Left: true},
		{Name: "then", Key: "then", Left: true}, {Name: unit, Key: "home"}, {Name: "hash", Key: "hash", Left: true},
	}}
	var why []string
	for _, a := range answers {
		d := answerData{
			Key: a.Key, Backend: a.Backend, Candidates: a.Candidates, Home: a.Home, Hash: a.Hash,
			Structure: m.Spec.String(), Probes: a.Probes,
		}
		backend := output.String(a.Backend)
		if a.Err != nil {
			d.Error = a.Err.Error()
			backend = output.Cell{Text: "(" + d.Error + ")", Value: ""}
		}
		data = append(data, d)
		then := ""
		if len(a.Candidates) > 1 {
			then = strings.Join(a.Candidates[1:], ", ")
		}
		hash := a.Hash
		if len(hash) > 16 {
			hash = hash[:16] + "..."
		}
		t.Rows = append(t.Rows, []output.Cell{
			output.String(a.Key), backend, output.String(then), output.Int(a.Home), {Text: hash, Value: a.Hash},
		})
		if r.explain || len(answers) <= 3 {
			why = append(why, r.reason(m, a, unit)...)
		}
	}
	return output.Document{
		Data:   data,
		Head:   []string{fmt.Sprintf("%s, %s %ss", m.Spec, output.Grouped(int64(size)), unit)},
		Tables: []output.Table{t},
		Foot:   why,
	}
}

// reason says why a key is where it is.
func (r *whereRun) reason(m *mapping.Mapping, a answer, unit string) []string {
	key := output.Printable(fmt.Sprintf("%q", a.Key))
	var lines []string
	if a.Home < 0 {
		return []string{fmt.Sprintf("%s: %v", key, a.Err)}
	}
	for i, p := range a.Probes {
		var states []string
		for _, b := range p.Backends {
			states = append(states, fmt.Sprintf("%s, %s", output.Printable(b.Name), b.State))
		}
		at := fmt.Sprintf("%s %d", unit, p.At)
		if p.At < 0 {
			at = "a backend without a " + unit
		}
		begin := "    then "
		if i == 0 {
			begin = key + ": its hash leads to "
		}
		if a.Unlisted > 0 && i == len(a.Probes)-1 {
			lines = append(lines, fmt.Sprintf("    then %d more that are not healthy", a.Unlisted))
		}
		lines = append(lines, begin+at+", of "+strings.Join(states, "; "))
	}
	if a.Err != nil {
		lines = append(lines, "    "+a.Err.Error())
	}
	return lines
}
