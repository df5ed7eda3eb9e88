package chash_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

func TestSentinels(t *testing.T) {
	seen := map[string]string{}
	for name, err := range chashtest.Sentinels {
		text := err.Error()
		if !strings.HasPrefix(text, "chash: ") {
			t.Errorf("%s.Error() = %q, want it to begin with %q", name, text, "chash: ")
		}
		if other, ok := seen[text]; ok {
			t.Errorf("%s.Error() = %q, the text of %s, want its own", name, text, other)
		}
		seen[text] = name
	}
}

func TestState_String(t *testing.T) {
	for state, want := range map[chash.State]string{
		chash.Healthy:      "healthy",
		chash.Unhealthy:    "unhealthy",
		chash.Draining:     "draining",
		chash.Draining + 1: "State(3)",
		255:                "State(255)",
	} {
		if got := state.String(); got != want {
			t.Errorf("State(%d).String() = %q, want %q", uint8(state), got, want)
		}
	}
	if got := new(chash.Backend[string]).State; got != chash.Healthy {
		t.Errorf("Backend{}.State = %v, want %v", got, chash.Healthy)
	}
}

func TestNamed(t *testing.T) {
	got := chash.Named("b", "a")
	want := []chash.Backend[string]{{Name: "b", Value: "b"}, {Name: "a", Value: "a"}}
	if !slices.Equal(got, want) {
		t.Errorf("Named(b, a) = %v, want %v", got, want)
	}
	if got := chash.Named(); len(got) != 0 {
		t.Errorf("Named() = %v, want nothing", got)
	}
}

func TestFailingCall_ChangesNothing(t *testing.T) {
	mixed := []chash.Backend[string]{
		chashtest.Backend("plain", "", 0, chash.Healthy),
		chashtest.Backend("heavy", "", 5, chash.Healthy),
		chashtest.Backend("sick", "", 2, chash.Unhealthy),
		chashtest.Backend("drained", "", 3, chash.Draining),
		chashtest.Backend("twin-1", "twin", 2, chash.Healthy),
		chashtest.Backend("twin-2", "twin", 1, chash.Healthy),
	}
	fresh := chash.Named("fresh")[0]
	odd := chashtest.Backend("odd", "", 1, chash.Draining+1)
	swap := func(name string, old, state chash.State) func(chashtest.Structure) error {
		return func(s chashtest.Structure) error {
			swapped, err := s.CompareAndSwapState(name, old, state)
			if swapped {
				return fmt.Errorf("CompareAndSwapState(%q, %v, %v) = true, %w", name, old, state, err)
			}
			return err
		}
	}
	tests := []struct {
		call string
		do   func(s chashtest.Structure) error
		want error
		text []string
	}{
		{"Add of an empty name", func(s chashtest.Structure) error { return s.Add(chashtest.Backend("", "k", 1, 0)) }, chash.ErrEmptyName, nil},
		{"Add of a new one and an empty name", func(s chashtest.Structure) error { return s.Add(fresh, chashtest.Backend("", "", 0, 0)) }, chash.ErrEmptyName, nil},
		{"Add of one twice", func(s chashtest.Structure) error { return s.Add(fresh, fresh) }, chash.ErrBackendExists, []string{`"fresh"`}},
		{"Add of one that is there", func(s chashtest.Structure) error { return s.Add(chash.Named("plain")...) }, chash.ErrBackendExists, []string{`"plain"`}},
		{"Add of one that is there with other fields", func(s chashtest.Structure) error { return s.Add(chashtest.Backend("plain", "k", 9, chash.Draining)) }, chash.ErrBackendExists, []string{`"plain"`}},
		{"Add of one that is unhealthy", func(s chashtest.Structure) error { return s.Add(chash.Named("sick")...) }, chash.ErrBackendExists, []string{`"sick"`}},
		{"Add of one that is draining", func(s chashtest.Structure) error { return s.Add(chash.Named("drained")...) }, chash.ErrBackendExists, []string{`"drained"`}},
		{"Add of a new one and one that is there", func(s chashtest.Structure) error { return s.Add(fresh, mixed[4]) }, chash.ErrBackendExists, []string{`"twin-1"`}},
		{"Add of an unknown state", func(s chashtest.Structure) error { return s.Add(odd) }, chash.ErrInvalidState, []string{`"odd"`, "3"}},
		{"Add of a new one and an unknown state", func(s chashtest.Structure) error { return s.Add(fresh, odd) }, chash.ErrInvalidState, []string{`"odd"`}},

		{"Remove of an unknown name", func(s chashtest.Structure) error { return s.Remove("nobody") }, chash.ErrBackendNotFound, []string{`"nobody"`}},
		{"Remove of a hash key", func(s chashtest.Structure) error { return s.Remove("twin") }, chash.ErrBackendNotFound, []string{`"twin"`}},
		{"Remove of one and an unknown name", func(s chashtest.Structure) error { return s.Remove("plain", "nobody") }, chash.ErrBackendNotFound, []string{`"nobody"`}},
		{"Remove of an unknown name and one", func(s chashtest.Structure) error { return s.Remove("aaa", "plain") }, chash.ErrBackendNotFound, []string{`"aaa"`}},
		{"Remove of one twice", func(s chashtest.Structure) error { return s.Remove("plain", "heavy", "plain") }, chash.ErrBackendNotFound, []string{`"plain" named twice`}},
		{"Remove of the first twice", func(s chashtest.Structure) error { return s.Remove("drained", "drained") }, chash.ErrBackendNotFound, []string{`"drained"`}},
		{"Remove of more names than there are", func(s chashtest.Structure) error { return s.Remove(chashtest.ManyNames("x", 20)...) }, chash.ErrBackendNotFound, []string{`"x0"`}},

		{"Set with an empty name", func(s chashtest.Structure) error { return s.Set(chash.Named("new", "")) }, chash.ErrEmptyName, nil},
		{"Set with one twice", func(s chashtest.Structure) error { return s.Set(chash.Named("new", "dup", "dup")) }, chash.ErrBackendExists, []string{`"dup"`}},
		{"Set with one that is there twice", func(s chashtest.Structure) error { return s.Set(chash.Named("plain", "plain")) }, chash.ErrBackendExists, []string{`"plain"`}},
		{"Set with an unknown state", func(s chashtest.Structure) error { return s.Set([]chash.Backend[string]{fresh, odd}) }, chash.ErrInvalidState, []string{`"odd"`}},

		{"Reconcile with an empty name", func(s chashtest.Structure) error { return s.Reconcile(chash.Named("new", "")) }, chash.ErrEmptyName, nil},
		{"Reconcile with an unknown state of one that is there", func(s chashtest.Structure) error {
			return s.Reconcile([]chash.Backend[string]{chashtest.Backend("plain", "", 1, 3)})
		}, chash.ErrInvalidState, []string{`"plain"`}},

		{"SetState of an unknown name", func(s chashtest.Structure) error { return s.SetState("nobody", chash.Unhealthy) }, chash.ErrBackendNotFound, []string{`"nobody"`}},
		{"SetState of an empty name", func(s chashtest.Structure) error { return s.SetState("", chash.Draining) }, chash.ErrBackendNotFound, []string{`""`}},
		{"SetState to an unknown state", func(s chashtest.Structure) error { return s.SetState("plain", chash.Draining+1) }, chash.ErrInvalidState, []string{`"plain"`, "3"}},
		{"SetState of a draining one to an unknown state", func(s chashtest.Structure) error { return s.SetState("drained", 255) }, chash.ErrInvalidState, []string{`"drained"`, "255"}},

		{"CompareAndSwapState of an unknown name", swap("nobody", chash.Healthy, chash.Unhealthy), chash.ErrBackendNotFound, []string{`"nobody"`}},
		{"CompareAndSwapState of a hash key", swap("twin", chash.Healthy, chash.Unhealthy), chash.ErrBackendNotFound, []string{`"twin"`}},
		{"CompareAndSwapState to an unknown state", swap("plain", chash.Healthy, 3), chash.ErrInvalidState, []string{`"plain"`, "3"}},
		{"CompareAndSwapState from an unknown state", swap("plain", 4, chash.Healthy), chash.ErrInvalidState, []string{`"plain"`, "4"}},

		{"SetWeight of an unknown name", func(s chashtest.Structure) error { return s.SetWeight("nobody", 2) }, chash.ErrBackendNotFound, []string{`"nobody"`}},
		{"SetWeight to 0", func(s chashtest.Structure) error { return s.SetWeight("plain", 0) }, chash.ErrInvalidWeight, []string{`"plain"`, "0"}},
		{"SetWeight of a draining one to 0", func(s chashtest.Structure) error { return s.SetWeight("drained", 0) }, chash.ErrInvalidWeight, []string{`"drained"`}},

		{"SetValue of an unknown name", func(s chashtest.Structure) error { return s.SetValue("nobody", "v") }, chash.ErrBackendNotFound, []string{`"nobody"`}},
		{"SetValue of a hash key", func(s chashtest.Structure) error { return s.SetValue("twin", "v") }, chash.ErrBackendNotFound, []string{`"twin"`}},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, mixed)
		before := chashtest.StateOf(s)
		for _, test := range tests {
			t.Run(test.call, func(t *testing.T) {
				chashtest.CheckError(t, test.call, test.do(s), test.want, test.text...)
				chashtest.CheckState(t, s, test.call, before)
			})
		}
		// A batch that failed leaves the one that was right to be added.
		require.NoError(t, s.Add(fresh))
		chashtest.CheckSameOwners(t, s, chashtest.Owners(t, kind.Make(t, append(slices.Clone(mixed), fresh))))

		t.Run("nothing there", func(t *testing.T) {
			s := kind.Make(t, nil)
			before := chashtest.StateOf(s)
			for call, err := range map[string]error{
				"Remove":    s.Remove("a"),
				"SetState":  s.SetState("a", chash.Healthy),
				"SetWeight": s.SetWeight("a", 1),
				"SetValue":  s.SetValue("a", "v"),
			} {
				chashtest.CheckError(t, call, err, chash.ErrBackendNotFound, `"a"`)
			}
			chashtest.CheckState(t, s, "failing calls", before)
		})
	})
}

func TestBatchOfNothing(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chash.Named("a", "b"))
		before := chashtest.StateOf(s)
		for call, do := range map[string]func() error{
			"Add()":           func() error { return s.Add() },
			"Add(nil...)":     func() error { return s.Add([]chash.Backend[string](nil)...) },
			"Add([]...)":      func() error { return s.Add([]chash.Backend[string]{}...) },
			"Remove()":        func() error { return s.Remove() },
			"Remove(nil...)":  func() error { return s.Remove([]string(nil)...) },
			"Set of the same": func() error { return s.Set(chash.Named("b", "a")) },
			"Set of Backends": func() error { return s.Set(s.Backends()) },
			"SetState as is":  func() error { return s.SetState("a", chash.Healthy) },
			"CompareAndSwapState of another state": func() error {
				_, err := s.CompareAndSwapState("a", chash.Unhealthy, chash.Draining)
				return err
			},
			"SetWeight as is":  func() error { return s.SetWeight("a", 1) },
			"SetValue as is":   func() error { return s.SetValue("a", "a") },
			"a clone's Remove": func() error { return s.Clone().Remove("a") },
		} {
			if err := do(); err != nil {
				t.Errorf("%s = %v, want no error", call, err)
			}
			chashtest.CheckState(t, s, call, before)
		}
	})
}

// TestReconcile: it is Set for a list that knows no states, and perhaps no weights.
func TestReconcile(t *testing.T) {
	const h, u, d = chash.Healthy, chash.Unhealthy, chash.Draining
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, []chash.Backend[string]{
			chashtest.Backend("a", "", 1, h), chashtest.Backend("b", "", 1, u), chashtest.Backend("c", "", 1, d), chashtest.Backend("gone", "", 1, u),
			chashtest.Backend("e", "", 1, u), chashtest.Backend("f", "", 1, h), chashtest.Backend("g", "", 5, d),
		})
		require.NoError(t, s.SetWeight("f", 10))
		list := []chash.Backend[string]{
			chashtest.Backend("a", "", 2, u), chashtest.Backend("b", "k", 1, h), chashtest.Backend("c", "", 3, h), chashtest.Backend("new", "", 0, h), chashtest.Backend("sick", "", 1, u),
			chashtest.Backend("e", "", 1, d), chashtest.Backend("f", "", 0, h), chashtest.Backend("g", "", 0, h),
			chashtest.Backend("a", "other", 7, d), chashtest.Backend("new", "", 9, u), // names that are listed twice
		}
		given := slices.Clone(list)
		want := []chash.Backend[string]{
			chashtest.Backend("a", "", 2, h), chashtest.Backend("b", "k", 1, u), chashtest.Backend("c", "", 3, d), chashtest.Backend("e", "", 1, u),
			chashtest.Backend("f", "", 10, h), chashtest.Backend("g", "", 5, d), chashtest.Backend("new", "", 1, h), chashtest.Backend("sick", "", 1, u),
		}
		chashtest.CheckRebuilds(t, s, 1, "Reconcile", func() error { return s.Reconcile(list) })
		if !slices.Equal(list, given) {
			t.Errorf("the caller's list after Reconcile = %v, want what it was, %v", list, given)
		}
		if got := s.Backends(); !slices.Equal(got, want) {
			t.Errorf("Backends() after Reconcile = %v, want %v", got, want)
		}
		chashtest.CheckSameOwners(t, s, chashtest.Owners(t, kind.Make(t, want)))
		chashtest.CheckRebuilds(t, s, 0, "Reconcile of the same", func() error { return s.Reconcile(list) })
		require.ErrorIs(t, s.Reconcile(append(list, chashtest.Backend("a", "", 1, 7))), chash.ErrInvalidState)
		require.ErrorIs(t, s.Reconcile(append(list, chashtest.Backend("", "", 1, h))), chash.ErrEmptyName)
		require.Equal(t, want, s.Backends(), "a call that fails changes nothing")
		require.NoError(t, s.Reconcile(nil))
		if got := s.Len(); got != 0 {
			t.Errorf("Len() after Reconcile(nil) = %d, want 0", got)
		}
	})
}

// TestCompareAndSwapState: from every state to every other, expecting each, it does
// what SetState does or nothing, and says which.
func TestCompareAndSwapState(t *testing.T) {
	states := []chash.State{chash.Healthy, chash.Unhealthy, chash.Draining}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, before := range states {
			start := []chash.Backend[string]{chashtest.Backend("a", "", 2, before), chashtest.Backend("b", "", 1, 0), chashtest.Backend("c", "", 1, 0)}
			for _, old := range states {
				for _, state := range states {
					call := fmt.Sprintf("CompareAndSwapState(a, %v, %v) of a %v one", old, state, before)
					s, want := kind.Make(t, start), kind.Make(t, start)
					if old == before {
						require.NoError(t, want.SetState("a", state))
					}
					swapped, err := s.CompareAndSwapState("a", old, state)
					if swapped != (old == before) || err != nil {
						t.Errorf("%s = %t, %v, want %t, no error", call, swapped, err, old == before)
					}
					chashtest.CheckState(t, s, call, chashtest.StateOf(want))
				}
			}
		}
	})
}

// TestCompareAndSwapState_Full: where there is no room to come out of a drain,
// nothing is swapped.
func TestCompareAndSwapState_Full(t *testing.T) {
	table, err := chashtest.NewMaglev([]chash.Backend[string]{
		chashtest.Backend("a", "", 1, 0), chashtest.Backend("b", "", 1, 0), chashtest.Backend("c", "", 1, chash.Draining),
	}, chash.WithTableSize(2))
	require.NoError(t, err)
	swapped, err := table.CompareAndSwapState("c", chash.Draining, chash.Healthy)
	if swapped {
		t.Error("CompareAndSwapState(c, draining, healthy) of a full table = true, want false")
	}
	chashtest.CheckError(t, "CompareAndSwapState(c, draining, healthy)", err, chash.ErrTooManyBackends)
}

func TestState_Text(t *testing.T) {
	for state, text := range map[chash.State]string{chash.Healthy: "healthy", chash.Unhealthy: "unhealthy", chash.Draining: "draining"} {
		data, err := json.Marshal(chashtest.Backend("a", "", 1, state))
		require.NoError(t, err)
		require.Contains(t, string(data), `"state":"`+text+`"`)
		var back chash.Backend[string]
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, chashtest.Backend("a", "", 1, state), back)
	}
	_, err := chash.State(3).MarshalText()
	chashtest.CheckError(t, "State(3).MarshalText()", err, chash.ErrInvalidState, "3")
	state := chash.Unhealthy
	for _, text := range []string{"", "Healthy", "State(3)", "sick"} {
		chashtest.CheckError(t, fmt.Sprintf("UnmarshalText(%q)", text), state.UnmarshalText([]byte(text)), chash.ErrInvalidState, strconv.Quote(text))
	}
	require.Equal(t, chash.Unhealthy, state)
}

func TestBackends(t *testing.T) {
	given := []chash.Backend[string]{
		{Name: "c", Weight: 7, Value: "see"},
		{Name: "a", HashKey: "key of a", State: chash.Draining},
		{Name: "b\xff", State: chash.Unhealthy, Value: "bee"},
		{Name: "B", HashKey: "B"},
	}
	want := []chash.Backend[string]{
		{Name: "B", HashKey: "B", Weight: 1},
		{Name: "a", HashKey: "key of a", Weight: 1, State: chash.Draining},
		{Name: "b\xff", Weight: 1, State: chash.Unhealthy, Value: "bee"},
		{Name: "c", Weight: 7, Value: "see"},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ways := map[string]chashtest.Structure{"constructor": kind.Make(t, given), "Add": kind.Make(t, nil), "Set": kind.Make(t, chash.Named("c", "z"))}
		require.NoError(t, ways["Add"].Add(given[:1]...))
		require.NoError(t, ways["Add"].Add(given[1:]...))
		require.NoError(t, ways["Set"].Set(given))
		for way, s := range ways {
			t.Run(way, func(t *testing.T) {
				if got := s.Backends(); !slices.Equal(got, want) {
					t.Errorf("Backends() = %v, want %v", got, want)
				}
				if got := s.Len(); got != len(want) {
					t.Errorf("Len() = %d, want %d", got, len(want))
				}
				for _, want := range want {
					if got, ok := s.Backend(want.Name); got != want || !ok {
						t.Errorf("Backend(%q) = %v, %v, want %v, true", want.Name, got, ok, want)
					}
				}
				for _, name := range []string{"", "nobody", "key of a", "b"} {
					if got, ok := s.Backend(name); got != (chash.Backend[string]{}) || ok {
						t.Errorf("Backend(%q) = %v, %v, want nothing, false", name, got, ok)
					}
				}
			})
		}
		t.Run("after changes", func(t *testing.T) {
			s := kind.Make(t, given)
			require.NoError(t, s.SetState("a", chash.Unhealthy))
			require.NoError(t, s.SetWeight("B", 4))
			require.NoError(t, s.SetValue("c", "sea"))
			require.NoError(t, s.Remove("b\xff"))
			require.NoError(t, s.Add(chashtest.Backend("d", "", 0, 0)))
			want := []chash.Backend[string]{
				{Name: "B", HashKey: "B", Weight: 4},
				{Name: "a", HashKey: "key of a", Weight: 1, State: chash.Unhealthy},
				{Name: "c", Weight: 7, Value: "sea"},
				{Name: "d", Weight: 1, Value: "d"},
			}
			if got := s.Backends(); !slices.Equal(got, want) {
				t.Errorf("Backends() = %v, want %v", got, want)
			}
		})
	})
}

func TestSetWeight(t *testing.T) {
	type change struct {
		name     string
		weight   uint32
		rebuilds int
	}
	tests := []struct {
		name    string
		start   []chash.Backend[string]
		changes []change
	}{
		{"a placement of its own", chash.Named("a", "b", "c"), []change{
			{"a", 1, 0}, {"a", 3, 1}, {"a", 3, 0}, {"b", 2, 1}, {"a", 1, 1},
		}},
		{"unhealthy", []chash.Backend[string]{chashtest.Backend("a", "", 1, chash.Unhealthy), chashtest.Backend("b", "", 1, 0), chashtest.Backend("c", "", 1, 0)}, []change{
			{"a", 5, 1}, {"a", 5, 0}, {"b", 2, 1},
		}},
		{"draining", []chash.Backend[string]{chashtest.Backend("a", "", 1, chash.Draining), chashtest.Backend("b", "", 1, 0), chashtest.Backend("c", "", 1, 0)}, []change{
			{"a", 5, 0}, {"a", math.MaxUint32, 0}, {"b", 2, 1},
		}},
		{"shared", []chash.Backend[string]{
			chashtest.Backend("a", "k", 5, 0), chashtest.Backend("b", "k", 3, 0), chashtest.Backend("c", "k", 1, 0), chashtest.Backend("other", "", 2, 0),
		}, []change{
			{"b", 4, 0}, {"c", 2, 0}, {"b", 5, 0}, {"b", 6, 1}, {"a", 6, 0}, {"b", 1, 0}, {"a", 4, 1}, {"c", 4, 0}, {"a", 1, 0}, {"c", 1, 1},
		}},
		{"shared with heavier ones that are unhealthy or draining", []chash.Backend[string]{
			chashtest.Backend("a", "k", 5, chash.Unhealthy), chashtest.Backend("b", "k", 9, chash.Draining), chashtest.Backend("c", "k", 1, 0), chashtest.Backend("other", "", 2, 0),
		}, []change{
			{"c", 4, 0}, {"c", 6, 1}, {"a", 3, 0}, {"b", 2, 0}, {"c", 2, 1}, {"a", 2, 1}, {"a", 1, 0},
		}},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := kind.Make(t, test.start)
				for _, c := range test.changes {
					call := fmt.Sprintf("SetWeight(%s, %d)", c.name, c.weight)
					chashtest.CheckRebuilds(t, s, c.rebuilds, call, func() error { return s.SetWeight(c.name, c.weight) })
					if got, _ := s.Backend(c.name); got.Weight != c.weight {
						t.Errorf("Backend(%q).Weight after %s = %d, want %d", c.name, call, got.Weight, c.weight)
					}
					// Where it rebuilds nothing it may still change who leads.
					chashtest.CheckSameOwners(t, s, chashtest.Owners(t, kind.Make(t, s.Backends())))
				}
			})
		}
	})
}

func TestRebuilds_OnePerBatch(t *testing.T) {
	start := func() []chash.Backend[string] {
		return []chash.Backend[string]{
			chashtest.Backend("a", "", 1, 0), chashtest.Backend("b", "", 2, 0), chashtest.Backend("c", "", 3, chash.Unhealthy),
			chashtest.Backend("d", "", 1, chash.Draining), chashtest.Backend("e", "k", 5, 0), chashtest.Backend("f", "k", 4, 0),
		}
	}
	// edit is a Set of the same backends but for what the function changes.
	edit := func(change func(b []chash.Backend[string])) func(s chashtest.Structure) error {
		return func(s chashtest.Structure) error {
			backends := start()
			change(backends)
			return s.Set(backends)
		}
	}
	type backends = []chash.Backend[string]
	tests := []struct {
		call string
		do   func(s chashtest.Structure) error
		want int
	}{
		{"Set of the same", edit(func(backends) {}), 0},
		{"Set in another order", edit(func(b backends) { slices.Reverse(b) }), 0},
		{"Set of other values", edit(func(b backends) { b[0].Value, b[4].Value, b[5].Value = "x", "y", "z" }), 0},
		{"Set of other health", edit(func(b backends) { b[0].State, b[2].State, b[4].State = chash.Unhealthy, 0, chash.Unhealthy }), 0},
		{"Set of order, values and health", edit(func(b backends) { b[0].Value, b[1].State = "x", chash.Unhealthy; slices.Reverse(b) }), 0},
		{"Set of weight 0 for 1", edit(func(b backends) { b[0].Weight = 0 }), 0},
		{"Set of the hash key for the name", edit(func(b backends) { b[0].HashKey = "a" }), 0},
		{"Set of another name at the place", edit(func(b backends) { b[0].HashKey, b[0].Name = "a", "new" }), 0},
		{"Set of places swapped by equals", edit(func(b backends) { b[4].Name, b[5].Name = "f", "e" }), 0},
		{"Set of a lighter weight in a shared place", edit(func(b backends) { b[5].Weight = 1 }), 0},
		{"Set of a draining one's weight", edit(func(b backends) { b[3].Weight = 100 }), 0},
		{"Set without the draining one", edit(func(b backends) { b[3] = b[5]; b[5] = chashtest.Backend("g", "k", 1, 0) }), 0},
		{"Set of a weight", edit(func(b backends) { b[0].Weight = 2 }), 1},
		{"Set of several weights", edit(func(b backends) { b[0].Weight, b[1].Weight, b[2].Weight = 9, 9, 9 }), 1},
		{"Set of another hash key", edit(func(b backends) { b[0].HashKey = "z" }), 1},
		{"Set that drains", edit(func(b backends) { b[0].State, b[1].State = chash.Draining, chash.Draining }), 1},
		{"Set that ends a drain", edit(func(b backends) { b[3].State = chash.Healthy }), 1},
		{"Set of all new ones", func(s chashtest.Structure) error { return s.Set(chash.Named(chashtest.ManyNames("n", 20)...)) }, 1},
		{"Set of one", func(s chashtest.Structure) error { return s.Set(start()[:1]) }, 1},
		{"Add of one", func(s chashtest.Structure) error { return s.Add(chash.Named("n")...) }, 1},
		{"Add of many", func(s chashtest.Structure) error { return s.Add(chash.Named(chashtest.ManyNames("n", 20)...)...) }, 1},
		{"Add of an unhealthy one", func(s chashtest.Structure) error { return s.Add(chashtest.Backend("n", "", 1, chash.Unhealthy)) }, 1},
		{"Add of draining ones", func(s chashtest.Structure) error {
			return s.Add(chashtest.Backend("n", "", 1, chash.Draining), chashtest.Backend("o", "", 1, chash.Draining))
		}, 0},
		{"Add of one to a shared place", func(s chashtest.Structure) error { return s.Add(chashtest.Backend("n", "k", 5, 0)) }, 0},
		{"Add of a heavier one to a shared place", func(s chashtest.Structure) error { return s.Add(chashtest.Backend("n", "k", 6, 0)) }, 1},
		{"Remove of one", func(s chashtest.Structure) error { return s.Remove("a") }, 1},
		{"Remove of many", func(s chashtest.Structure) error { return s.Remove("c", "a", "b") }, 1},
		{"Remove of an unhealthy one", func(s chashtest.Structure) error { return s.Remove("c") }, 1},
		{"Remove of a draining one", func(s chashtest.Structure) error { return s.Remove("d") }, 0},
		{"Remove of a lighter one of a shared place", func(s chashtest.Structure) error { return s.Remove("f") }, 0},
		{"Remove of the heaviest of a shared place", func(s chashtest.Structure) error { return s.Remove("e") }, 1},
		{"SetState Draining of a lighter one of a shared place", func(s chashtest.Structure) error { return s.SetState("f", chash.Draining) }, 0},
		{"SetState Draining of the heaviest of a shared place", func(s chashtest.Structure) error { return s.SetState("e", chash.Draining) }, 1},
		{"SetState Unhealthy", func(s chashtest.Structure) error { return s.SetState("a", chash.Unhealthy) }, 0},
		{"SetState Unhealthy of the heaviest of a shared place", func(s chashtest.Structure) error { return s.SetState("e", chash.Unhealthy) }, 0},
		{"SetValue", func(s chashtest.Structure) error { return s.SetValue("a", "x") }, 0},
		{"Clone", func(s chashtest.Structure) error { s.Clone(); return nil }, 0},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, test := range tests {
			t.Run(test.call, func(t *testing.T) {
				s := kind.Make(t, start())
				chashtest.CheckRebuilds(t, s, test.want, test.call, func() error { return test.do(s) })
				// A rebuild left out is right only if all is as if built anew.
				fresh := kind.Make(t, s.Backends())
				chashtest.CheckSameOwners(t, s, chashtest.Owners(t, fresh))
				for _, key := range chashtest.SampleKeys[:20] {
					got, want := slices.Collect(s.Candidates(key)), slices.Collect(fresh.Candidates(key))
					if !slices.Equal(got, want) {
						t.Errorf("Candidates(%q) after %s = %q, want %q", key, test.call, got, want)
					}
				}
			})
		}
	})
}

func TestSetValue(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, []chash.Backend[string]{
			chashtest.Backend("a", "", 1, 0), chashtest.Backend("b", "", 1, chash.Unhealthy), chashtest.Backend("c", "", 1, chash.Draining),
			chashtest.Backend("heavy", "k", 2, 0), chashtest.Backend("light", "k", 1, 0),
		})
		want := chashtest.Owners(t, s)
		set := func(name, value string) {
			t.Helper()
			chashtest.CheckRebuilds(t, s, 0, "SetValue", func() error { return s.SetValue(name, value) })
			if got, ok := s.Backend(name); got.Value != value || !ok {
				t.Errorf("Backend(%q).Value = %q, %v, want %q, true", name, got.Value, ok, value)
			}
		}
		expect := func(values map[string]string) { // by owner, where it differs from the name
			t.Helper()
			named := slices.Clone(want)
			for i, owner := range named {
				if value, ok := values[owner]; ok {
					named[i] = value
				}
			}
			chashtest.CheckSameOwners(t, s, named)
		}
		set("a", "A1")
		expect(map[string]string{"a": "A1"})
		set("a", "A2")
		set("b", "B")
		set("c", "C")
		set("light", "L")
		expect(map[string]string{"a": "A2"})
		set("heavy", "H")
		expect(map[string]string{"a": "A2", "heavy": "H"})
		require.NoError(t, s.SetState("heavy", chash.Unhealthy))
		expect(map[string]string{"a": "A2", "heavy": "L"})
		set("heavy", "H2")
		set("light", "L2")
		expect(map[string]string{"a": "A2", "heavy": "L2"})
		require.NoError(t, s.SetState("heavy", chash.Healthy))
		expect(map[string]string{"a": "A2", "heavy": "H2"})
		set("a", "")
		expect(map[string]string{"a": "", "heavy": "H2"})

		// The ones that had no keys then have their values when they get some.
		require.NoError(t, s.SetState("b", chash.Healthy))
		require.NoError(t, s.SetState("c", chash.Healthy))
		got := map[string]bool{}
		for _, owner := range chashtest.Owners(t, s) {
			got[owner] = true
		}
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []string{"", "B", "C", "H2"}) {
			t.Errorf("values returned = %q, want \"\", B, C and H2", keys)
		}
		// Two backends may have one value: GetN goes by placement.
		set("a", "same")
		set("b", "same")
		set("c", "same")
		if got := chashtest.Must(s.GetN("key", 9)); len(got) != 4 {
			t.Errorf("GetN(key, 9) with equal values = %q, want 4", got)
		}
	})
}

func TestClear(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for name, opts := range map[string][]chash.Option{"plain": nil, "seeded": {chash.WithSeed(9)}} {
			t.Run(name, func(t *testing.T) {
				s := kind.Make(t, chash.Named("a", "b"), opts...)
				before := s.Rebuilds()
				s.Clear()
				s.Clear()
				if got := s.Rebuilds() - before; got > 1 {
					t.Errorf("rebuilds of Clear = %d, want at most 1", got)
				}
				chashtest.CheckLookupsFail(t, s, chash.ErrNoBackends)
				chashtest.CheckError(t, "Remove", s.Remove("a"), chash.ErrBackendNotFound, `"a"`)
				// The options stay, and the names are free again.
				require.NoError(t, s.Add(chash.Named("a", "c")...))
				chashtest.CheckSameOwners(t, s, chashtest.Owners(t, kind.Make(t, chash.Named("a", "c"), opts...)))
			})
		}
	})
}

func TestClone(t *testing.T) {
	start := []chash.Backend[string]{
		chashtest.Backend("a", "", 1, 0), chashtest.Backend("b", "", 2, 0), chashtest.Backend("c", "", 1, chash.Unhealthy),
		chashtest.Backend("d", "", 1, chash.Draining), chashtest.Backend("e", "k", 2, 0), chashtest.Backend("f", "k", 1, 0),
	}
	changes := []struct {
		call string
		do   func(s chashtest.Structure) error
	}{
		{"Add", func(s chashtest.Structure) error { return s.Add(chash.Named("n")...) }},
		{"Remove", func(s chashtest.Structure) error { return s.Remove("a") }},
		{"Set", func(s chashtest.Structure) error { return s.Set(chash.Named("x", "y")) }},
		{"Clear", func(s chashtest.Structure) error { s.Clear(); return nil }},
		{"SetState Unhealthy", func(s chashtest.Structure) error { return s.SetState("a", chash.Unhealthy) }},
		{"SetState Healthy", func(s chashtest.Structure) error { return s.SetState("c", chash.Healthy) }},
		{"SetState Draining", func(s chashtest.Structure) error { return s.SetState("b", chash.Draining) }},
		{"SetState out of Draining", func(s chashtest.Structure) error { return s.SetState("d", chash.Healthy) }},
		{"SetState in a shared place", func(s chashtest.Structure) error { return s.SetState("e", chash.Unhealthy) }},
		{"SetWeight", func(s chashtest.Structure) error { return s.SetWeight("a", 7) }},
		{"SetValue", func(s chashtest.Structure) error { return s.SetValue("a", "v") }},
		{"SetValue of a draining one", func(s chashtest.Structure) error { return s.SetValue("d", "v") }},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, change := range changes {
			t.Run(change.call, func(t *testing.T) {
				want := kind.Make(t, start, chash.WithSeed(3))
				require.NoError(t, change.do(want))

				origin := kind.Make(t, start, chash.WithSeed(3))
				before := chashtest.StateOf(origin)
				clone := origin.Clone()
				if got := clone.Rebuilds(); got > before.Rebuilds {
					t.Errorf("rebuilds of the clone = %d, want none", got-before.Rebuilds)
				}
				inClone := chashtest.StateOf(clone)
				inClone.Rebuilds = before.Rebuilds
				chashtest.CheckState(t, origin, "Clone", inClone)

				require.NoError(t, change.do(clone))
				chashtest.CheckState(t, origin, change.call+" of the clone", before)
				if got, want := clone.Backends(), want.Backends(); !slices.Equal(got, want) {
					t.Errorf("Backends() of the clone = %v, want %v", got, want)
				}

				second := origin.Clone()
				untouched := chashtest.StateOf(second)
				require.NoError(t, change.do(origin))
				chashtest.CheckState(t, second, change.call+" of the origin", untouched)

				for name, s := range map[string]chashtest.Structure{"clone": clone, "origin": origin} {
					got, want := chashtest.StateOf(s), chashtest.StateOf(want)
					if !slices.Equal(got.Owners, want.Owners) {
						t.Errorf("the mapping of the %s after %s = another, want that without a clone", name, change.call)
					}
				}
			})
		}
		t.Run("of nothing", func(t *testing.T) {
			s := kind.Make(t, nil)
			clone := s.Clone()
			chashtest.CheckLookupsFail(t, clone, chash.ErrNoBackends)
			require.NoError(t, clone.Add(chash.Named("a")...))
			chashtest.CheckLookupsFail(t, s, chash.ErrNoBackends)
			if got := chashtest.Must(clone.Get("key")); got != "a" {
				t.Errorf("Get(key) of the clone = %q, want a", got)
			}
		})
		t.Run("of a clone", func(t *testing.T) {
			s := kind.Make(t, start)
			want := chashtest.Owners(t, s)
			grandchild := s.Clone().Clone()
			s.Clear()
			chashtest.CheckSameOwners(t, grandchild, want)
		})
	})
}

// TestCallersSlices changes what was passed in and what was handed out.
func TestCallersSlices(t *testing.T) {
	spoil := func(backends []chash.Backend[string]) {
		for i := range backends {
			backends[i] = chashtest.Backend("spoilt", "spoilt", 99, chash.Draining)
		}
	}
	type setup func(t *testing.T, kind chashtest.Kind, backends []chash.Backend[string]) chashtest.Structure
	passIn := []struct {
		name string
		make setup
	}{
		{"constructor", func(t *testing.T, kind chashtest.Kind, backends []chash.Backend[string]) chashtest.Structure {
			return kind.Make(t, backends)
		}},
		{"Add to nothing", func(t *testing.T, kind chashtest.Kind, backends []chash.Backend[string]) chashtest.Structure {
			s := kind.Make(t, nil)
			require.NoError(t, s.Add(backends...))
			return s
		}},
		{"Add to some", func(t *testing.T, kind chashtest.Kind, backends []chash.Backend[string]) chashtest.Structure {
			half := len(backends) / 2
			s := kind.Make(t, slices.Clone(backends[:half]))
			require.NoError(t, s.Add(backends[half:]...))
			return s
		}},
		{"Set", func(t *testing.T, kind chashtest.Kind, backends []chash.Backend[string]) chashtest.Structure {
			s := kind.Make(t, chash.Named("old"))
			require.NoError(t, s.Set(backends))
			return s
		}},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, in := range passIn {
			for _, n := range []int{1, 5} {
				t.Run(fmt.Sprintf("%s/n=%d", in.name, n), func(t *testing.T) {
					names := chashtest.ManyNames("b", n)
					backends := chash.Named(names...)
					slices.Reverse(backends)
					given := slices.Clone(backends)
					s := in.make(t, kind, backends)
					if !slices.Equal(backends, given) {
						t.Errorf("the caller's slice after the call = %v, want %v", backends, given)
					}
					before := chashtest.StateOf(s)
					spoil(backends)
					chashtest.CheckState(t, s, "a change of the slice passed in", before)

					spoil(s.Backends())
					chashtest.CheckState(t, s, "a change of Backends()", before)
					spoil(append(s.Backends(), chashtest.Backend("more", "", 1, 0)))
					chashtest.CheckState(t, s, "an append to Backends()", before)

					got := chashtest.Must(s.GetN("key", n))
					got[0] = "spoilt"
					_ = append(got, "more")
					chashtest.CheckState(t, s, "a change of GetN(key)", before)
					if again := chashtest.Must(s.GetN("key", n)); again[0] == "spoilt" {
						t.Errorf("GetN(key) after a change of the last = %q, want it unchanged", again)
					}

					// Later changes neither write to what was handed out nor read
					// what was passed in.
					out := s.Backends()
					want := slices.Clone(out)
					require.NoError(t, s.SetState(names[0], chash.Unhealthy))
					require.NoError(t, s.SetValue(names[0], "new"))
					require.NoError(t, s.SetWeight(names[0], 5))
					if !slices.Equal(out, want) {
						t.Errorf("Backends() of before the change = %v, want still %v", out, want)
					}
					changed := chash.Backend[string]{Name: names[0], Weight: 5, State: chash.Unhealthy, Value: "new"}
					if got, _ := s.Backend(names[0]); got != changed {
						t.Errorf("Backend(%q) = %v, want %v", names[0], got, changed)
					}
				})
			}
		}
		t.Run("names of Remove", func(t *testing.T) {
			s := kind.Make(t, chash.Named("a", "b", "c"))
			gone := []string{"c", "a", "b"}
			require.NoError(t, s.Remove(gone...))
			if want := []string{"c", "a", "b"}; !slices.Equal(gone, want) {
				t.Errorf("the caller's names after Remove = %q, want %q", gone, want)
			}
		})
		t.Run("bytes of GetBytes", func(t *testing.T) {
			s := kind.Make(t, chash.Named("a", "b", "c"), chash.WithHash(xxhash.Sum64String))
			key := []byte("some key")
			want := chashtest.Must(s.GetBytes(key))
			if string(key) != "some key" {
				t.Errorf("the caller's key after GetBytes = %q, want it unchanged", key)
			}
			copy(key, "12345678")
			if got := chashtest.Must(s.Get("some key")); got != want {
				t.Errorf("Get(some key) = %q, want %q", got, want)
			}
		})
	})
}
