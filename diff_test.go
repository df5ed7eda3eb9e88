package chash_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
	"github.com/chash-go/chash/internal/hashing"
)

// TestDiff_Nothing: states between which no lookup can tell.
func TestDiff_Nothing(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		abc := chash.Named("a", "b", "c")
		sick := slices.Clone(abc)
		for i := range sick {
			sick[i].State = chash.Unhealthy
		}
		drained := slices.Clone(abc)
		drained[1].State = chash.Draining
		valued := slices.Clone(abc)
		valued[1].Value = "another"
		behind := append(slices.Clone(abc), chash.Backend[string]{Name: "d", HashKey: "a"})
		tests := []struct {
			name          string
			before, after []chash.Backend[string]
		}{
			{"equal", abc, abc},
			{"both empty", nil, nil},
			{"empty and none healthy", nil, sick},
			{"none healthy", sick, sick},
			{"draining and removed", drained, chash.Named("a", "c")},
			{"another value", abc, valued},
			{"one behind another at its placement", abc, behind},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				before, after := kind.Make(t, test.before), kind.Make(t, test.after)
				for _, d := range []chash.Diff{
					chashtest.MustDiff(t, before, after), chashtest.MustDiff(t, after, before),
					chashtest.MustDiff(t, before, before), chashtest.MustDiff(t, before, before.Clone()),
				} {
					if d.Moved != 0 || d.Least != 0 || len(d.Flows) != 0 {
						t.Errorf("Diff = %+v, want nothing", d)
					}
				}
			})
		}
	})
}

// TestDiff_Everything: the whole key space moves, from one, to one, or from and
// to nobody, and the counts are whole.
func TestDiff_Everything(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		sick := chash.Named("a")
		sick[0].State = chash.Unhealthy
		tests := []struct {
			name          string
			before, after []chash.Backend[string]
			from, to      string
		}{
			{"the first arrives", nil, chash.Named("a"), "", "a"},
			{"the last goes", chash.Named("a"), nil, "a", ""},
			{"the last fails", chash.Named("a"), sick, "a", ""},
			{"the only one recovers", sick, chash.Named("a"), "", "a"},
			{"one for another", chash.Named("a"), chash.Named("b"), "a", "b"},
			{"the same place under another name", chash.Named("a"), []chash.Backend[string]{{Name: "b", HashKey: "a"}}, "a", "b"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				got := chashtest.MustDiff(t, kind.Make(t, test.before), kind.Make(t, test.after))
				want := chash.Diff{Moved: 1, Least: 1, Flows: []chash.Flow{{From: test.from, To: test.to, Share: 1}}}
				require.Equal(t, want, got)
			})
		}
	})
}

// TestDiff_Least: what the ones that grow gain together, which on a ring is all
// that moves when backends come or go.
func TestDiff_Least(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chash.Named(chashtest.ManyNames("b", 20)...))
		_, ring := s.(chashtest.RingOf[string])
		compare := func(name string, change func(s chashtest.Structure) error) chash.Diff {
			next := s.Clone()
			require.NoError(t, change(next))
			d := chashtest.MustDiff(t, s, next)
			if d.Moved < d.Least || d.Least == 0 {
				t.Errorf("%s: Moved, Least = %v, %v, want Moved >= Least > 0", name, d.Moved, d.Least)
			}
			if ring && name != "both" && d.Moved != d.Least {
				t.Errorf("%s: Moved, Least = %v, %v, want them to be the same", name, d.Moved, d.Least)
			}
			return d
		}
		compare("arrival", func(s chashtest.Structure) error { return s.Add(chash.Named("new", "newer")...) })
		compare("departure", func(s chashtest.Structure) error { return s.Remove("b3", "b4") })
		compare("heavier", func(s chashtest.Structure) error { return s.SetWeight("b3", 3) })
		down := compare("failure", func(s chashtest.Structure) error { return s.SetState("b3", chash.Unhealthy) })
		for _, f := range down.Flows {
			if f.From != "b3" {
				t.Errorf("flow of b3's failure = %+v, want it from b3", f)
			}
		}
		if down.Moved != down.Least {
			t.Errorf("failure: Moved, Least = %v, %v, want them to be the same", down.Moved, down.Least)
		}

		// Two that change places: all moves, and what must is the difference.
		before := kind.Make(t, []chash.Backend[string]{{Name: "a", Weight: 3}, {Name: "b"}})
		after := kind.Make(t, []chash.Backend[string]{{Name: "a", HashKey: "b"}, {Name: "b", HashKey: "a", Weight: 3}})
		d := chashtest.MustDiff(t, before, after)
		require.Len(t, d.Flows, 2)
		if want := math.Abs(d.Flows[0].Share - d.Flows[1].Share); d.Moved != 1 || math.Abs(d.Least-want) > 1e-15 {
			t.Errorf("Moved, Least = %v, %v, want 1, %v", d.Moved, d.Least, want)
		}
		if d.Least < 0.3 || d.Least > 0.7 {
			t.Errorf("Least = %v, want about 0.5 for weights of 3 and 1 that change places", d.Least)
		}
	})
}

// TestDiff_SharedHashKey: at a placement that two backends share, the second takes
// over all that the first had, and nobody else anything.
func TestDiff_SharedHashKey(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, []chash.Backend[string]{{Name: "a1", HashKey: "a"}, {Name: "a2", HashKey: "a"}, {Name: "b"}})
		before := s.Clone()
		require.NoError(t, s.SetState("a1", chash.Unhealthy))
		d := chashtest.MustDiff(t, before, s)
		require.Len(t, d.Flows, 1)
		if f := d.Flows[0]; f.From != "a1" || f.To != "a2" || d.Moved != f.Share || d.Moved < 0.3 || d.Moved > 0.7 {
			t.Errorf("Diff = %+v, want about half to go from a1 to a2", d)
		}
		down := s.Clone()
		require.NoError(t, s.SetState("a2", chash.Unhealthy))
		d = chashtest.MustDiff(t, down, s)
		require.Len(t, d.Flows, 1)
		if f := d.Flows[0]; f.From != "a2" || f.To != "b" {
			t.Errorf("Diff = %+v, want all of a2 to go to b", d)
		}
	})
}

// TestDiff_Fallbacks: the slots of an unhealthy backend count for the others as
// evenly as their keys spread: those of a table of 65,537 slots within 5 standard
// deviations of the mean, as for dice.
func TestDiff_Fallbacks(t *testing.T) {
	for _, dead := range []int{1, 5} {
		s, err := chashtest.NewMaglev(chash.Named(chashtest.ManyNames("b", 10)...))
		require.NoError(t, err)
		before := s.Clone()
		for i := range dead {
			require.NoError(t, s.SetState(fmt.Sprintf("b%d", i), chash.Unhealthy))
		}
		d := chashtest.MustDiff(t, before, s)
		require.Len(t, d.Flows, dead*(10-dead))
		for _, f := range d.Flows {
			slots, p := 6553.7, 1/float64(10-dead)
			mean, sigma := slots*p, math.Sqrt(slots*p*(1-p))
			if got := f.Share * 65537; math.Abs(got-mean) > 5*sigma {
				t.Errorf("%d dead: %+v, want %.0f slots, give or take %.0f", dead, f, mean, 5*sigma)
			}
		}
	}
}

func TestDiff_Incomparable(t *testing.T) {
	ten := func(key string) uint64 { return xxhash.Sum64String(key) % 10 }
	reversed := func(key string) uint64 { return ^xxhash.Sum64String(key) }
	tests := []struct {
		name          string
		before, after []chash.Option
		parts         []string
	}{
		{"seeds", []chash.Option{chash.WithSeed(5)}, []chash.Option{chash.WithSeed(77)}, []string{"5", "77"}},
		{"a seed and none", nil, []chash.Option{chash.WithSeed(77)}, []string{"0", "77"}},
		{"a hash and none", nil, []chash.Option{chash.WithHash(xxhash.Sum64String)}, []string{"hash function"}},
		{"a hash and a seed", []chash.Option{chash.WithHash(ten)}, []chash.Option{chash.WithSeed(1)}, nil},
		{"hashes", []chash.Option{chash.WithHash(ten)}, []chash.Option{chash.WithHash(reversed)}, []string{"hash function", `""`}},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				before := kind.Make(t, chash.Named("a", "b"), test.before...)
				after := kind.Make(t, chash.Named("a", "b"), test.after...)
				for _, pair := range [][2]chashtest.Structure{{before, after}, {after, before}} {
					d, err := chashtest.DiffOf(pair[0], pair[1])
					chashtest.CheckError(t, "Diff", err, chash.ErrIncomparable, test.parts...)
					require.Zero(t, d)
				}
			})
		}
		for _, key := range hashing.TrialKeys { // each tells functions apart
			other := func(s string) uint64 {
				if s == key {
					return 1
				}
				return xxhash.Sum64String(s)
			}
			_, err := chashtest.DiffOf(kind.Make(t, nil, chash.WithHash(xxhash.Sum64String)), kind.Make(t, nil, chash.WithHash(other)))
			chashtest.CheckError(t, "Diff", err, chash.ErrIncomparable, fmt.Sprintf("%q", key))
		}
		// Functions that agree are taken for one.
		again := func(key string) uint64 { return xxhash.Sum64([]byte(key)) }
		a, b := kind.Make(t, chash.Named("a"), chash.WithHash(xxhash.Sum64String)), kind.Make(t, chash.Named("a"), chash.WithHash(again))
		require.Empty(t, chashtest.MustDiff(t, a, b).Flows)
	})
	t.Run("table sizes", func(t *testing.T) {
		before, err := chashtest.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(13))
		require.NoError(t, err)
		after, err := chashtest.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(251))
		require.NoError(t, err)
		for _, pair := range [][2]chashtest.Structure{{before, after}, {after, before}} {
			d, err := chashtest.DiffOf(pair[0], pair[1])
			chashtest.CheckError(t, "Diff", err, chash.ErrIncomparable, "13", "251")
			require.Zero(t, d)
		}
	})
	t.Run("nil", func(t *testing.T) {
		m, err := chash.NewMaglev(chash.Named("a"))
		require.NoError(t, err)
		_, err = m.Diff(nil)
		chashtest.CheckError(t, "Diff(nil)", err, chash.ErrIncomparable)
		r, err := chash.NewRing(chash.Named("a"))
		require.NoError(t, err)
		_, err = r.Diff(nil)
		chashtest.CheckError(t, "Diff(nil)", err, chash.ErrIncomparable)
	})
}

// TestDiff_Concurrent: while a backend fails and recovers, each Diff with the
// state of before is that of one whole state, and no two wait for each other.
func TestDiff_Concurrent(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, []chash.Backend[string]{{Name: "a1", HashKey: "a"}, {Name: "a2", HashKey: "a"}, {Name: "b"}, {Name: "c"}})
		before := s.Clone()
		down := s.Clone()
		require.NoError(t, down.SetState("a1", chash.Unhealthy))
		gone := s.Clone()
		require.NoError(t, gone.Remove("b"))
		possible := []chash.Diff{chashtest.MustDiff(t, before, before), chashtest.MustDiff(t, before, down), chashtest.MustDiff(t, before, gone)}

		var readers, writer sync.WaitGroup
		done := make(chan struct{})
		writer.Add(1)
		go func() {
			defer writer.Done()
			for {
				for _, err := range []error{
					s.SetState("a1", chash.Unhealthy), s.SetState("a1", chash.Healthy),
					s.Remove("b"), s.Add(chash.Backend[string]{Name: "b"}),
				} {
					if err != nil {
						t.Errorf("change = %v, want no error", err)
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		}()
		for range 3 {
			readers.Add(1)
			go func() {
				defer readers.Done()
				for range 20 {
					got, err := chashtest.DiffOf(before, s)
					if err != nil || !slices.ContainsFunc(possible, func(d chash.Diff) bool { return fmt.Sprint(d) == fmt.Sprint(got) }) {
						t.Errorf("Diff = %v, %v, want that of a state there was", got, err)
					}
					if _, err := chashtest.DiffOf(s, before); err != nil {
						t.Errorf("Diff = %v, want no error", err)
					}
					if d, err := chashtest.DiffOf(s, s); err != nil {
						t.Errorf("Diff with itself = %v, %v, want no error", d, err)
					}
				}
			}()
		}
		readers.Wait()
		close(done)
		writer.Wait()
	})
}

func TestDiff_JSON(t *testing.T) {
	data, err := json.Marshal(chash.Diff{Moved: 1, Least: 0.5, Flows: []chash.Flow{{From: "", To: "a", Share: 1}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"moved":1,"least":0.5,"flows":[{"from":"","to":"a","share":1}]}`, string(data))

	// Positions are more than a JSON number holds in many a language, so they are
	// strings.
	change := chash.Change{Range: chash.Range{First: 1 << 63, Last: math.MaxUint64}, Before: []string{}, After: []string{"a", "b"}}
	data, err = json.Marshal(change)
	require.NoError(t, err)
	require.JSONEq(t, `{"first":"9223372036854775808","last":"18446744073709551615","before":[],"after":["a","b"]}`, string(data))
	var back chash.Change
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, change, back)
}
