package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chash-go/chash/cmd/chash/internal/input"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// errUse is returned for flags and arguments that do not go together.
var errUse = errors.New("bad use")

// sourceFlags say which backends are meant.
type sourceFlags struct {
	format string
	pool   string
	edits  input.Edits
}

func (f *sourceFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.format, "from", "auto", "`format` of the backends: auto, lines, csv, json, yaml, nginx, haproxy or envoy")
	flags.StringVar(&f.pool, "pool", "", "`name` of the upstream, backend or cluster, where a configuration has several")
	flags.StringSliceVar(&f.edits.Add, "add", nil, "add a backend: `NAME[=WEIGHT]`, several with commas")
	flags.StringSliceVar(&f.edits.Remove, "remove", nil, "remove the backend of that `name`")
	flags.StringSliceVar(&f.edits.Weight, "weight", nil, "set a weight: `NAME=WEIGHT`")
	flags.StringSliceVar(&f.edits.Down, "down", nil, "make the backend of that `name` unhealthy")
	flags.StringSliceVar(&f.edits.Drain, "drain", nil, "make the backend of that `name` draining")
	var formats []string
	for _, format := range input.Formats {
		formats = append(formats, string(format))
	}
	completes(c, "from", formats...)
}

// read reads a file of backends, without the edits.
func (f *sourceFlags) read(a *app, path string) (*input.List, error) {
	return input.Read(path, a.stdin, input.Format(f.format), f.pool)
}

// build makes the structure of a list after the changes by flags.
func (f *sourceFlags) build(list *input.List, which *specFlags) (*mapping.Mapping, error) {
	backends, err := f.edits.Apply(list.Backends)
	if err != nil {
		return nil, err
	}
	spec, err := which.one(list)
	if err != nil {
		return nil, err
	}
	return spec.Build(backends)
}

// specFlags say which structures are meant: one, or for plan and size several.
type specFlags struct {
	structure  string
	tableSizes []int
	slacks     []string
	replicas   []int
	unitWeight uint32
	seed       uint64
	hash       string
	like       string
}

func (f *specFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.structure, "structure", "", "`maglev` or ring; without it, what the other flags or the file say, else maglev")
	flags.IntSliceVar(&f.tableSizes, "table-size", nil, "`slots` of a table, a prime")
	flags.StringSliceVar(&f.slacks, "slack", nil, "`slack` of a table: 0.01 or 1% for one percent, inf for no limit, none for a table without")
	flags.IntSliceVar(&f.replicas, "replicas", nil, "`points` of a ring for each unit of weight")
	flags.Uint32Var(&f.unitWeight, "unit-weight", 0, "the `weight` that has as many points as --replicas says")
	flags.Uint64Var(&f.seed, "seed", 0, "`seed` of the structure")
	flags.StringVar(&f.hash, "hash", "", "`xxhash` for a ring of xxHash64 instead of SHA-256")
	flags.StringVar(&f.like, "like", "", "place keys as another `system` does: nginx, haproxy, ketama, envoy-maglev, ...")
	completes(c, "structure", mapping.Maglev, mapping.Ring)
	completes(c, "hash", mapping.HashXX)
	var systems []string
	for _, system := range mapping.Systems() {
		name, _, _ := strings.Cut(system[0], "[")
		systems = append(systems, name)
	}
	completes(c, "like", systems...)
}

// given reports whether a structure was asked for.
func (f *specFlags) given() bool {
	return f.structure != "" || f.like != "" || f.hash != "" || f.unitWeight != 0 || f.seed != 0 ||
		len(f.tableSizes)+len(f.slacks)+len(f.replicas) > 0
}

// all returns the structures that the flags name: each size with each slack, and each
// number of replicas.
func (f *specFlags) all() ([]mapping.Spec, error) {
	if f.like != "" {
		return f.tables(mapping.Spec{Like: f.like, Seed: f.seed})
	}
	tables := f.structure == mapping.Maglev || len(f.tableSizes)+len(f.slacks) > 0
	rings := f.structure == mapping.Ring || len(f.replicas) > 0 || f.hash != "" || f.unitWeight != 0
	if f.structure != "" && f.structure != mapping.Maglev && f.structure != mapping.Ring {
		return nil, fmt.Errorf("%w: --structure %q; expected maglev or ring", errUse, f.structure)
	}
	if f.structure == mapping.Maglev && rings || f.structure == mapping.Ring && tables {
		return nil, fmt.Errorf("%w: the options of the other structure with --structure %s", errUse, f.structure)
	}
	var specs []mapping.Spec
	if tables || !rings {
		some, err := f.tables(mapping.Spec{Structure: mapping.Maglev, Seed: f.seed})
		if err != nil {
			return nil, err
		}
		specs = some
	}
	if rings {
		replicas := f.replicas
		if len(replicas) == 0 {
			replicas = []int{0}
		}
		for _, n := range replicas {
			specs = append(specs, mapping.Spec{
				Structure: mapping.Ring, Replicas: n, UnitWeight: f.unitWeight, Seed: f.seed, Hash: f.hash,
			})
		}
	}
	for _, s := range specs {
		if err := s.Check(); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

func (f *specFlags) tables(base mapping.Spec) ([]mapping.Spec, error) {
	sizes, slacks := f.tableSizes, f.slacks
	if len(sizes) == 0 {
		sizes = []int{0}
	}
	if len(slacks) == 0 {
		slacks = []string{"none"}
	}
	var specs []mapping.Spec
	for _, size := range sizes {
		if size < 0 {
			return nil, fmt.Errorf("%w: --table-size %d; expected a prime", errUse, size)
		}
		for _, text := range slacks {
			spec := base
			spec.TableSize = size
			if text != "none" {
				slack, err := mapping.ParseSlack(text)
				if err != nil {
					return nil, err
				}
				spec.Slack = &slack
			}
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

// one returns the structure that is meant: that of the flags, else that of the file, else
// a Maglev table.
func (f *specFlags) one(list *input.List) (mapping.Spec, error) {
	if !f.given() && list != nil && list.Spec != nil {
		return *list.Spec, nil
	}
	specs, err := f.all()
	if err != nil {
		return mapping.Spec{}, err
	}
	if len(specs) > 1 {
		return mapping.Spec{}, fmt.Errorf("%w: expected one structure, found %d", errUse, len(specs))
	}
	return specs[0], nil
}

// A share is the value of a flag: a number or a percentage.
type share float64

// String implements pflag.Value.
func (s *share) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*s), 'g', -1, 64)
}

// Set implements pflag.Value.
func (s *share) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(value >= 0 && value <= 1e9) {
		return fmt.Errorf("expected a number such as 0.05 or a percentage such as 5%%")
	}
	if percent {
		value /= 100
	}
	*s = share(value)
	return nil
}

// Type implements pflag.Value.
func (s *share) Type() string { return "share" }
