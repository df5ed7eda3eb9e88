package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/input"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
)

// A vectorsRun is the vectors command with its flags.
type vectorsRun struct {
	*app
	source   sourceFlags
	spec     specFlags
	keys     int
	keysFile string
	n        int
	owners   bool
	check    bool
}

func vectorsCommand(a *app) *cobra.Command {
	r := &vectorsRun{app: a}
	c := &cobra.Command{
		Use:   "vectors BACKENDS",
		Short: "Golden vectors of a state, for implementations in other languages",
		Long: `vectors writes as JSON what a second implementation must agree with: the options
and the backends, the fingerprint, the owner of each slot or the position and
the owner of each point, and for a number of keys the hash, the home and the
first backends in the order of preference. How keys are mapped is written down
in the documentation of github.com/chash-go/chash.

With --check the file is such vectors, and the command says whether chash agrees
with them: the exit code is 1 if not.`,
		Example: `  chash vectors backends.yaml --keys 1000 > vectors.json
  chash vectors --check vectors.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(args[0]) },
	}
	r.source.add(c)
	r.spec.add(c)
	flags := c.Flags()
	flags.IntVar(&r.keys, "keys", 100, "`number` of keys, key-0 and so on")
	flags.StringVar(&r.keysFile, "keys-from", "", "`file` of keys, one a line, instead")
	flags.IntVarP(&r.n, "candidates", "n", 3, "the `number` of backends for each key")
	flags.BoolVar(&r.owners, "owners", true, "write the slots or points")
	flags.BoolVar(&r.check, "check", false, "check the vectors in the file")
	return c
}

// vectors is what the command writes. Indices are those of Backends, which are sorted by
// name.
type vectors struct {
	mapping.Spec
	Backends        []chash.Backend[struct{}] `json:"backends"`
	Size            int                       `json:"size"` // slots or points
	Fingerprint     string                    `json:"fingerprint"`
	LiveFingerprint string                    `json:"live_fingerprint"`
	Slots           []uint32                  `json:"slots,omitempty"`     // of a table: index of the owner
	Positions       []string                  `json:"positions,omitempty"` // of a ring: the first 64 bits
	Owners          []uint32                  `json:"owners,omitempty"`    // of a ring: index of the owner
	Keys            []keyVector               `json:"keys"`
}

// A keyVector says where one key goes.
type keyVector struct {
	Key        string   `json:"key"`
	Hash       string   `json:"hash"`
	Home       int      `json:"home"`
	Candidates []string `json:"candidates"`
}

func (r *vectorsRun) run(path string) error {
	if r.check {
		return r.compare(path)
	}
	if r.n < 1 || r.keys < 0 {
		return fmt.Errorf("%w: --candidates %d and --keys %d; expected 1 and 0 or more", errUse, r.n, r.keys)
	}
	list, err := r.source.read(r.app, path)
	if err != nil {
		return err
	}
	m, err := r.source.build(list, &r.spec)
	if err != nil {
		return err
	}
	keys, err := r.keyList()
	if err != nil {
		return err
	}
	return r.write(vectorsOf(m, keys, r.n, r.owners))
}

func (r *vectorsRun) keyList() ([]string, error) {
	var keys []string
	if r.keysFile == "" {
		for i := range r.keys {
			keys = append(keys, fmt.Sprintf("key-%d", i))
		}
		return keys, nil
	}
	data, err := os.ReadFile(r.keysFile)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		keys = append(keys, strings.TrimRight(line, "\r\n"))
	}
	return keys, nil
}

// vectorsOf returns the vectors of a mapping.
func vectorsOf(m *mapping.Mapping, keys []string, n int, owners bool) vectors {
	v := vectors{
		Spec: m.Spec, Size: m.Stats().Size,
		Fingerprint:     fmt.Sprintf("%016x", m.Fingerprint()),
		LiveFingerprint: fmt.Sprintf("%016x", m.LiveFingerprint()),
		Backends:        []chash.Backend[struct{}]{}, Keys: []keyVector{},
	}
	for _, b := range m.Structure.Backends() {
		v.Backends = append(v.Backends, chash.Backend[struct{}]{Name: b.Name, HashKey: b.HashKey, Weight: b.Weight, State: b.State})
	}
	if table := m.Table(); table != nil && owners {
		v.Slots = table.AppendTable(nil)
	} else if ring := m.Ring(); ring != nil && owners {
		for _, p := range ring.AppendPoints(nil) {
			v.Positions = append(v.Positions, fmt.Sprintf("%016x", p.Position))
			v.Owners = append(v.Owners, p.Backend)
		}
	}
	for _, key := range keys {
		e := m.Explain(key)
		k := keyVector{Key: key, Hash: e.Hash, Home: e.Home, Candidates: []string{}}
		if values, err := m.GetN(key, n); err == nil {
			for _, value := range values {
				k.Candidates = append(k.Candidates, m.Name(value))
			}
		}
		v.Keys = append(v.Keys, k)
	}
	return v
}

// write writes a field a line and a key a line, so that a reader and a diff can follow.
func (r *vectorsRun) write(v vectors) error {
	out := bufio.NewWriter(r.stdout)
	keys := v.Keys
	v.Keys = nil
	head, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(head, &fields); err != nil {
		return err
	}
	out.WriteString("{\n")
	for _, name := range []string{
		"structure", "like", "table_size", "slack", "replicas", "unit_weight", "seed", "hash",
		"backends", "size", "fingerprint", "live_fingerprint", "slots", "positions", "owners",
	} {
		if value, has := fields[name]; has && string(value) != `""` {
			fmt.Fprintf(out, "%q: %s,\n", name, value)
		}
	}
	out.WriteString("\"keys\": [\n")
	for i, k := range keys {
		line, err := json.Marshal(k)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(line)
	}
	out.WriteString("\n]\n}\n")
	return out.Flush()
}

// compare says whether chash agrees with vectors.
func (r *vectorsRun) compare(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("%s: expected vectors as this command writes them: %w", path, err)
	}
	list, err := input.Parse(path, data, input.JSON, "")
	if err != nil {
		return err
	}
	spec := mapping.Spec{}
	if list.Spec != nil {
		spec = *list.Spec
	}
	m, err := spec.Build(list.Backends)
	if err != nil {
		return err
	}
	var keys []string
	n := 1
	for _, k := range v.Keys {
		keys = append(keys, k.Key)
		n = max(n, len(k.Candidates))
	}
	wrong := v.differences(vectorsOf(m, keys, n, true))
	doc := output.Document{Data: map[string]any{"agrees": len(wrong) == 0, "differences": wrong}}
	if len(wrong) == 0 {
		doc.Foot = []string{fmt.Sprintf("chash agrees: %d backends, %d slots or points, %d keys.", len(v.Backends), v.Size, len(keys))}
		return r.print(doc)
	}
	doc.Foot = wrong
	return errors.Join(r.print(doc), errDiffers)
}

// differences says what differs from what chash has, ten things at most. What the vectors
// do not have is not compared.
func (v vectors) differences(w vectors) []string {
	wrong := []string{}
	differ := func(what string, is, want any) {
		if len(wrong) < 10 {
			wrong = append(wrong, fmt.Sprintf("%s: %v, and chash has %v", what, is, want))
		}
	}
	if v.Fingerprint != "" && v.Fingerprint != w.Fingerprint {
		differ("fingerprint", v.Fingerprint, w.Fingerprint)
	}
	differAt(differ, "slot", v.Slots, w.Slots)
	differAt(differ, "position of point", v.Positions, w.Positions)
	differAt(differ, "owner of point", v.Owners, w.Owners)
	for i, k := range v.Keys {
		is, want := k.Candidates, w.Keys[i].Candidates
		want = want[:min(len(want), len(is))]
		if k.Hash != "" && k.Hash != w.Keys[i].Hash {
			differ(fmt.Sprintf("hash of %q", k.Key), k.Hash, w.Keys[i].Hash)
		}
		differAt(differ, fmt.Sprintf("%q, candidate", k.Key), is, want)
	}
	return wrong
}

func differAt[T comparable](differ func(what string, is, want any), what string, is, want []T) {
	if len(is) == 0 {
		return
	}
	if len(is) != len(want) {
		differ("number of "+what, len(is), len(want))
		return
	}
	for i := range is {
		if is[i] != want[i] {
			differ(fmt.Sprintf("%s %d", what, i), is[i], want[i])
		}
	}
}
