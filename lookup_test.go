package chash_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

func TestOwner_IsTheHomeWhateverItsHealth(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chashtest.Numbered("b", 5))
		homes := map[string]string{}
		for i := range 1000 {
			key := fmt.Sprint("key", i)
			home, err := s.Get(key)
			require.NoError(t, err)
			homes[key] = home
		}
		require.NoError(t, s.SetState("b1", chash.Unhealthy))
		require.NoError(t, s.SetState("b2", chash.Unhealthy))
		for key, home := range homes {
			owner, err := s.Owner(key)
			require.NoError(t, err)
			require.Equal(t, home, owner.Name)
			b, _ := s.Backend(home)
			require.Equal(t, b, owner)
		}
	})
}

func TestOwner_OutranksInItsPlacement(t *testing.T) {
	backends := []chash.Backend[string]{
		{Name: "b", HashKey: "x", Value: "b"}, {Name: "a", HashKey: "x", Weight: 1, Value: "a"}, {Name: "c", HashKey: "x", Weight: 2, Value: "c"},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		owner := func() string {
			b, err := s.Owner("key")
			require.NoError(t, err)
			return b.Name
		}
		require.Equal(t, "c", owner())
		require.NoError(t, s.SetState("c", chash.Unhealthy))
		require.Equal(t, "c", owner())
		require.NoError(t, s.SetState("c", chash.Draining))
		require.Equal(t, "a", owner())
	})
}

func TestOwner_WithoutBackends(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, nil)
		_, err := s.Owner("key")
		require.ErrorIs(t, err, chash.ErrNoBackends)
		require.NoError(t, s.Add(chash.Backend[string]{Name: "a", State: chash.Draining}))
		_, err = s.Owner("key")
		require.ErrorIs(t, err, chash.ErrNoHealthyBackends)
		require.NoError(t, s.SetState("a", chash.Unhealthy))
		owner, err := s.Owner("key")
		require.NoError(t, err)
		require.Equal(t, "a", owner.Name)
	})
}

// TestOwners_AgreeWithGetN: without shared placements, GetN gives the healthy ones of
// them, in the same order.
func TestOwners_AgreeWithGetN(t *testing.T) {
	backends := chashtest.Numbered("b", 100)
	for i := range backends {
		backends[i].State = chash.State(min(i%4/2, 1))
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		for k := range 200 {
			key := fmt.Sprint("key", k)
			owners, err := s.Owners(key, 1000)
			require.NoError(t, err)
			require.Len(t, owners, len(backends))
			require.Equal(t, chashtest.Must(s.Owner(key)), owners[0])
			owners = slices.DeleteFunc(owners, func(b chash.Backend[string]) bool { return b.State != chash.Healthy })
			var want []string
			for _, b := range owners {
				want = append(want, b.Value)
			}
			require.Equal(t, want, chashtest.Must(s.GetN(key, 1000)))
		}
	})
}

// TestZeroValue: every method of a structure that no constructor made says what is
// missing, other than those that print it.
func TestZeroValue(t *testing.T) {
	const want = "chash: the zero value of a Maglev or a Ring is not usable: make one with NewMaglev or NewRing"
	for _, zero := range []any{new(chash.Maglev[string]), new(chash.Ring[string])} {
		v := reflect.ValueOf(zero)
		for i := range v.NumMethod() {
			switch name := v.Type().Method(i).Name; name {
			case "String", "Format":
			case "SetWeight", "SetLoadFactor", "SetLoadFloor": // which refuse 0 first
				arg := reflect.ValueOf(2).Convert(v.Method(i).Type().In(v.Method(i).Type().NumIn() - 1))
				args := append([]reflect.Value{reflect.ValueOf("a")}, arg)[2-v.Method(i).Type().NumIn():]
				require.PanicsWithValue(t, want, func() { v.Method(i).Call(args) }, name)
			default:
				require.PanicsWithValue(t, want, func() { chashtest.CallWithZeros(v.Method(i), v) }, name)
			}
		}
	}
	require.Equal(t, "Maglev that is not made", fmt.Sprint(new(chash.Maglev[string])))
	require.Equal(t, "Ring that is not made", fmt.Sprintf("%+v", new(chash.Ring[string])))
	var none *chash.Maglev[string]
	require.Equal(t, "<nil>", fmt.Sprint(none))
}

// FuzzKeys: any key finds the twin's answer in every form of lookup, and while
// one backend is healthy no lookup fails.
func FuzzKeys(f *testing.F) {
	for _, key := range append(chashtest.FuzzNames, "", "\x00", "\xff", "a#0", "a##0", "user:42", "http://host/?q=1#top", string(make([]byte, 300))) {
		f.Add(key)
	}
	type pair struct {
		chashtest.Structure
		*chashtest.Twin
	}
	var pairs []pair
	for _, ring := range []bool{false, true} {
		for _, seed := range []uint64{0, 1} {
			for _, alive := range []int{len(chashtest.FuzzNames), 3, 1} {
				w := chashtest.NewTwin(ring, 251, seed, nil)
				if ring {
					w.Size = 2
				}
				backends := chash.Named(chashtest.FuzzNames...)
				for i := range backends {
					if i >= alive {
						backends[i].State = chash.Unhealthy
					}
				}
				s, err := w.Build(backends)
				if errs := w.Set(backends); err != nil || errs != nil {
					f.Fatal(err, errs)
				}
				pairs = append(pairs, pair{s, w})
			}
		}
	}
	f.Fuzz(func(t *testing.T, key string) {
		for _, p := range pairs {
			if _, err := p.Get(key); err != nil {
				t.Fatalf("Get(%q): %v", key, err)
			}
			if err := p.DifferInKey(p.Structure, key); err != nil {
				t.Fatalf("ring=%t, seed %d, %d healthy: %v", p.Ring, p.Seed, len(p.Answering), err)
			}
		}
	})
}

func TestLookups_NoBackends(t *testing.T) {
	some := chash.Named("a", "b")
	tests := []struct {
		name  string
		start []chash.Backend[string]
		empty func(s chashtest.Structure) error
	}{
		{"constructed with nil", nil, nil},
		{"constructed with an empty slice", []chash.Backend[string]{}, nil},
		{"Clear", some, func(s chashtest.Structure) error { s.Clear(); return nil }},
		{"Clear of nothing", nil, func(s chashtest.Structure) error { s.Clear(); return nil }},
		{"Set(nil)", some, func(s chashtest.Structure) error { return s.Set(nil) }},
		{"Set of an empty slice", some, func(s chashtest.Structure) error { return s.Set([]chash.Backend[string]{}) }},
		{"Remove of all", some, func(s chashtest.Structure) error { return s.Remove("b", "a") }},
		{"Remove one by one", some, func(s chashtest.Structure) error { return errors.Join(s.Remove("b"), s.Remove("a")) }},
		{"Remove of the last, drained", some, func(s chashtest.Structure) error {
			return errors.Join(s.Remove("b"), s.SetState("a", chash.Draining), s.Remove("a"))
		}},
		{"Add() to nothing", nil, func(s chashtest.Structure) error { return s.Add() }},
		{"Remove() from nothing", nil, func(s chashtest.Structure) error { return s.Remove() }},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := kind.Make(t, test.start)
				if test.empty != nil {
					require.NoError(t, test.empty(s))
				}
				chashtest.CheckLookupsFail(t, s, chash.ErrNoBackends)
				if got := s.Len(); got != 0 {
					t.Errorf("Len() = %d, want 0", got)
				}
				if got := s.Backends(); len(got) != 0 {
					t.Errorf("Backends() = %v, want none", got)
				}
				// And it is as good as new.
				require.NoError(t, s.Add(some...))
				chashtest.CheckSameOwners(t, s, chashtest.Owners(t, kind.Make(t, some)))
			})
		}
	})
}

func TestLookups_NoHealthyBackends(t *testing.T) {
	const h, u, d = chash.Healthy, chash.Unhealthy, chash.Draining
	tests := []struct {
		name   string
		states []chash.State
		keys   []string // HashKey of each, if given
	}{
		{"one unhealthy", []chash.State{u}, nil},
		{"one draining", []chash.State{d}, nil},
		{"all unhealthy", []chash.State{u, u, u}, nil},
		{"all draining", []chash.State{d, d, d}, nil},
		{"unhealthy and draining", []chash.State{u, d, u, d}, nil},
		{"a shared placement, all unhealthy", []chash.State{u, u}, []string{"k", "k"}},
		{"a shared placement, unhealthy and draining", []chash.State{u, d, d}, []string{"k", "k", "l"}},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, test := range tests {
			backends := chash.Named(chashtest.ManyNames("b", len(test.states))...)
			for i := range test.keys {
				backends[i].HashKey = test.keys[i]
			}
			t.Run(test.name+"/constructed", func(t *testing.T) {
				sick := slices.Clone(backends)
				for i := range sick {
					sick[i].State = test.states[i]
				}
				chashtest.CheckLookupsFail(t, kind.Make(t, sick), chash.ErrNoHealthyBackends)
			})
			t.Run(test.name+"/by SetState", func(t *testing.T) {
				s := kind.Make(t, backends)
				want := chashtest.Owners(t, s)
				for i, state := range test.states {
					require.NoError(t, s.SetState(backends[i].Name, state))
				}
				chashtest.CheckLookupsFail(t, s, chash.ErrNoHealthyBackends)
				for _, b := range backends {
					require.NoError(t, s.SetState(b.Name, h))
				}
				chashtest.CheckSameOwners(t, s, want)
			})
		}
	})
}

// TestLookupForms checks that every form of lookup gives one answer.
func TestLookupForms(t *testing.T) {
	keys := append([]string{
		"", "\x00", "\xff", "\xff\xfe\xfd", "a", "host:80", "с кириллицей", strings.Repeat("x", 31), strings.Repeat("x", 32),
		strings.Repeat("x", 55), strings.Repeat("x", 56), strings.Repeat("x", 64), strings.Repeat("x", 1000), strings.Repeat("m", 1<<20),
	}, chashtest.SampleKeys[:200]...)
	backends := chash.Named(chashtest.ManyNames("b", 9)...)
	backends[2].Weight = 3
	backends[3].State = chash.Unhealthy
	backends[4].State = chash.Draining
	backends[5].HashKey = "shared"
	backends[6].HashKey = "shared"
	const placements = 6 // healthy ones: nine but for an unhealthy, a draining and one that shares

	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for name, opts := range map[string][]chash.Option{
			"plain":  nil,
			"seeded": {chash.WithSeed(42)},
			"hashed": {chash.WithHash(xxhash.Sum64String)},
		} {
			t.Run(name, func(t *testing.T) {
				s := kind.Make(t, backends, opts...)
				for _, key := range keys {
					short := key[:min(len(key), 20)]
					want, err := s.Get(key)
					if err != nil {
						t.Fatalf("Get(%q) = %v, want no error", short, err)
					}
					if got, err := s.GetBytes([]byte(key)); got != want || err != nil {
						t.Errorf("GetBytes(%q) = %q, %v, want %q", short, got, err, want)
					}
					if got, err := s.GetFunc(key, func(string) bool { return true }); got != want || err != nil {
						t.Errorf("GetFunc(%q, any) = %q, %v, want %q", short, got, err, want)
					}
					if got, err := s.GetFunc(key, nil); got != want || err != nil {
						t.Errorf("GetFunc(%q, nil) = %q, %v, want %q", short, got, err, want)
					}
					order := slices.Collect(s.Candidates(key))
					if len(order) != placements || order[0] != want {
						t.Errorf("Candidates(%q) = %q, want %d beginning with %q", short, order, placements, want)
					}
					if again := slices.Collect(s.Candidates(key)); !slices.Equal(again, order) {
						t.Errorf("Candidates(%q) again = %q, want %q", short, again, order)
					}
					if sorted := slices.Sorted(slices.Values(order)); len(slices.Compact(sorted)) != placements {
						t.Errorf("Candidates(%q) = %q, want no backend twice", short, order)
					}
					for _, n := range []int{1, 2, placements - 1, placements, placements + 1, math.MaxInt} {
						want := order[:min(n, placements)]
						if got, err := s.GetN(key, n); !slices.Equal(got, want) || err != nil {
							t.Errorf("GetN(%q, %d) = %q, %v, want %q", short, n, got, err, want)
						}
						if got, err := s.AppendN(nil, key, n); !slices.Equal(got, want) || err != nil {
							t.Errorf("AppendN(nil, %q, %d) = %q, %v, want %q", short, n, got, err, want)
						}
						if got, err := s.AppendN([]string{"x"}, key, n); !slices.Equal(got, append([]string{"x"}, want...)) || err != nil {
							t.Errorf("AppendN([x], %q, %d) = %q, %v, want x and %q", short, n, got, err, want)
						}
					}
					for i, wanted := range order {
						if got, err := s.GetFunc(key, func(v string) bool { return v == wanted }); got != wanted || err != nil {
							t.Errorf("GetFunc(%q, candidate %d) = %q, %v, want %q", short, i, got, err, wanted)
						}
					}
				}
				if got, err := s.GetBytes(nil); got != chashtest.Must(s.Get("")) || err != nil {
					t.Errorf("GetBytes(nil) = %q, %v, want %q", got, err, chashtest.Must(s.Get("")))
				}
			})
		}
	})
}

func TestGetN_NoneAskedFor(t *testing.T) {
	sets := map[string][]chash.Backend[string]{
		"no backends":     nil,
		"healthy":         chash.Named("a", "b"),
		"none is healthy": {chashtest.Backend("a", "", 1, chash.Unhealthy)},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for name, backends := range sets {
			s := kind.Make(t, backends)
			for _, n := range []int{0, -1, math.MinInt} {
				t.Run(fmt.Sprintf("%s/n=%d", name, n), func(t *testing.T) {
					if got, err := s.GetN("key", n); got != nil || err != nil {
						t.Errorf("GetN(key, %d) = %q, %v, want nil, nil", n, got, err)
					}
					if got, err := s.AppendN(nil, "key", n); got != nil || err != nil {
						t.Errorf("AppendN(nil, key, %d) = %q, %v, want nil, nil", n, got, err)
					}
					if got, err := s.AppendN([]string{"x"}, "key", n); !slices.Equal(got, []string{"x"}) || err != nil {
						t.Errorf("AppendN([x], key, %d) = %q, %v, want [x], nil", n, got, err)
					}
				})
			}
		}
	})
}

func TestAppendN_UsesCapacity(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chash.Named("a", "b", "c"))
		array := [5]string{"x", "", "", "", "last"}
		got := chashtest.Must(s.AppendN(array[:1], "key", 3))
		if want := append([]string{"x"}, chashtest.Must(s.GetN("key", 3))...); !slices.Equal(got, want) {
			t.Errorf("AppendN([x], key, 3) = %q, want %q", got, want)
		}
		if &got[0] != &array[0] {
			t.Errorf("AppendN into capacity = another array, want the caller's")
		}
		if array[4] != "last" {
			t.Errorf("behind what AppendN appended = %q, want it untouched", array[4])
		}
	})
}

func TestGetFunc(t *testing.T) {
	backends := chash.Named(chashtest.ManyNames("b", 12)...)
	backends[0].HashKey, backends[1].HashKey = "shared", "shared"
	backends[2].State = chash.Unhealthy
	backends[3].State = chash.Draining
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, backends)
		for _, key := range chashtest.SampleKeys[:200] {
			order := slices.Collect(s.Candidates(key))
			for _, stop := range []int{0, 1, 5, len(order) - 1, len(order)} {
				var asked []string
				got, err := s.GetFunc(key, func(value string) bool {
					asked = append(asked, value)
					return len(asked) > stop
				})
				if wantAsked := order[:min(stop+1, len(order))]; !slices.Equal(asked, wantAsked) {
					t.Errorf("GetFunc(%q) that refuses %d asks for %q, want %q", key, stop, asked, wantAsked)
				}
				var want string
				wantErr := chash.ErrNoneAccepted
				if stop < len(order) {
					want, wantErr = order[stop], nil
				}
				if got != want || err != wantErr {
					t.Errorf("GetFunc(%q) that refuses %d = %q, %v, want %q, %v", key, stop, got, err, want, wantErr)
				}
			}
		}
	})
}

// TestCandidates_IsASnapshot changes the structure during and between ranges.
func TestCandidates_IsASnapshot(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chash.Named("a", "b", "c", "d"))
		seq := s.Candidates("key")
		before := slices.Collect(seq)

		var during []string
		for value := range seq {
			if during = append(during, value); len(during) > 1 {
				continue
			}
			// A structure may be changed, and asked, while one ranges over it.
			require.NoError(t, s.SetState(before[1], chash.Unhealthy))
			require.NoError(t, s.Remove(before[2]))
			if got := chashtest.Must(s.Get("key")); got != before[0] {
				t.Errorf("Get(key) during the range = %q, want %q", got, before[0])
			}
		}
		if !slices.Equal(during, before) {
			t.Errorf("Candidates(key) changed during the range = %q, want %q", during, before)
		}
		if got := slices.Collect(seq); len(got) != 2 || got[0] != before[0] || got[1] != before[3] {
			t.Errorf("the same Candidates(key) after the change = %q, want %q", got, []string{before[0], before[3]})
		}
		if got, want := slices.Collect(seq), chashtest.Must(s.GetN("key", 9)); !slices.Equal(got, want) {
			t.Errorf("Candidates(key) = %q, want %q as GetN", got, want)
		}
		for value := range seq {
			if value != before[0] {
				t.Errorf("the first of Candidates(key) = %q, want %q", value, before[0])
			}
			break
		}
		next, stop := iter.Pull(seq)
		defer stop()
		if got, ok := next(); got != before[0] || !ok {
			t.Errorf("the first pulled from Candidates(key) = %q, %v, want %q, true", got, ok, before[0])
		}
		s.Clear()
		if got := slices.Collect(seq); len(got) != 0 {
			t.Errorf("Candidates(key) after Clear = %q, want nothing", got)
		}

		t.Run("GetFunc whose accept changes the structure", func(t *testing.T) {
			s := kind.Make(t, chash.Named("a", "b", "c"))
			want := slices.Collect(s.Candidates("key"))
			var asked []string
			_, err := s.GetFunc("key", func(value string) bool {
				asked = append(asked, value)
				s.Clear()
				return false
			})
			if !slices.Equal(asked, want) || err != chash.ErrNoneAccepted {
				t.Errorf("GetFunc(key) asks for %q, %v, want %q, %v", asked, err, want, chash.ErrNoneAccepted)
			}
		})
	})
}

func TestNext(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		t.Run("one", func(t *testing.T) {
			chashtest.CheckRounds(t, kind.Make(t, chash.Named("a")), "a")
		})
		t.Run("equal weights in the order of hash keys", func(t *testing.T) {
			s := kind.Make(t, []chash.Backend[string]{chashtest.Backend("a", "z", 7, 0), chashtest.Backend("b", "", 7, 0), chashtest.Backend("c", "", 7, 0)})
			if got, want := chashtest.Nexts(t, s, 5), []string{"b", "c", "a", "b", "c"}; !slices.Equal(got, want) {
				t.Errorf("Next() in a row = %q, want %q", got, want)
			}
		})
		t.Run("only healthy placements", func(t *testing.T) {
			s := kind.Make(t, []chash.Backend[string]{
				chashtest.Backend("a", "", 1, 0), chashtest.Backend("b", "", 1, chash.Unhealthy), chashtest.Backend("c", "", 1, chash.Draining), chashtest.Backend("d", "", 1, 0),
				chashtest.Backend("e", "k", 1, 0), chashtest.Backend("f", "k", 1, 0), chashtest.Backend("g", "l", 1, chash.Unhealthy), chashtest.Backend("h", "l", 1, 0),
			})
			chashtest.CheckRounds(t, s, "a", "d", "e", "h")
			require.NoError(t, s.SetState("e", chash.Unhealthy))
			chashtest.CheckRounds(t, s, "a", "d", "f", "h")
		})
		t.Run("as the set changes", func(t *testing.T) {
			s := kind.Make(t, chash.Named("a", "b", "c", "d", "e"))
			chashtest.Nexts(t, s, 3)
			chashtest.CheckRounds(t, s, "a", "b", "c", "d", "e")
			require.NoError(t, s.SetState("c", chash.Unhealthy))
			chashtest.CheckRounds(t, s, "a", "b", "d", "e")
			require.NoError(t, s.SetState("a", chash.Draining))
			chashtest.CheckRounds(t, s, "b", "d", "e")
			require.NoError(t, s.SetState("c", chash.Healthy))
			chashtest.CheckRounds(t, s, "b", "c", "d", "e")
			require.NoError(t, s.Remove("d", "e"))
			chashtest.CheckRounds(t, s, "b", "c")
			require.NoError(t, s.Add(chash.Named("f")...))
			chashtest.CheckRounds(t, s, "b", "c", "f")
			require.NoError(t, s.SetValue("f", "z"))
			chashtest.CheckRounds(t, s, "b", "c", "z")
		})
		t.Run("many, most of them unhealthy", func(t *testing.T) {
			s := kind.Make(t, chash.Named(chashtest.ManyNames("b", 300)...))
			var healthy []string
			for i := range 300 {
				if name := fmt.Sprintf("b%d", i); i%64 == 63 || i == 0 || i == 299 {
					healthy = append(healthy, name)
				} else {
					require.NoError(t, s.SetState(name, chash.Unhealthy))
				}
			}
			slices.Sort(healthy)
			chashtest.CheckRounds(t, s, healthy...)
		})
		t.Run("a clone has turns of its own", func(t *testing.T) {
			s := kind.Make(t, chash.Named("a", "b"))
			clone := s.Clone()
			var ours, theirs []string
			for range 4 {
				ours = append(ours, chashtest.Nexts(t, s, 1)...)
				theirs = append(theirs, chashtest.Nexts(t, clone, 1)...)
			}
			for name, got := range map[string][]string{"origin": ours, "clone": theirs} {
				if got[0] == got[1] || got[0] != got[2] || got[1] != got[3] {
					t.Errorf("Next() of the %s between those of the other = %q, want a and b by turns", name, got)
				}
			}
		})
	})
}

// TestGetN_Many asks for numbers around the sizes at which a set of seen
// placements may change its form.
func TestGetN_Many(t *testing.T) {
	names := chashtest.ManyNames("b", 200)
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		s := kind.Make(t, chash.Named(names...))
		for _, key := range chashtest.SampleKeys[:20] {
			all := chashtest.Must(s.GetN(key, 200))
			if got := len(chashtest.CountOf(all)); got != 200 || len(all) != 200 {
				t.Errorf("GetN(%q, 200) = %d values, %d distinct, want 200", key, len(all), got)
			}
			if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, all) {
				t.Errorf("Candidates(%q) = %q, want %q", key, got, all)
			}
			for _, n := range []int{1, 2, 31, 32, 33, 34, 63, 64, 65, 127, 128, 129, 199, 201} {
				if got, want := chashtest.Must(s.GetN(key, n)), all[:min(n, 200)]; !slices.Equal(got, want) {
					t.Errorf("GetN(%q, %d) = %q, want %q", key, n, got, want)
				}
			}
		}
	})
}

// node is a value that is no string.
type node struct{ address string }

// checkPointers checks that lookups hand back the very values given.
func checkPointers(t *testing.T, s chashtest.StructureOf[*node], nodes map[string]*node) {
	t.Helper()
	byPointer := map[*node]string{}
	for name, n := range nodes {
		byPointer[n] = name
	}
	seen := map[*node]bool{}
	for i := range 200 {
		key := fmt.Sprintf("key-%d", i)
		got, err := s.Get(key)
		if _, ok := byPointer[got]; !ok || err != nil {
			t.Errorf("Get(%q) = %p, %v, want one of the nodes", key, got, err)
		}
		seen[got] = true
		for form, same := range map[string]*node{
			"GetBytes": chashtest.Must(s.GetBytes([]byte(key))),
			"GetN":     chashtest.Must(s.GetN(key, 2))[0],
			"AppendN":  chashtest.Must(s.AppendN(nil, key, 1))[0],
			"GetFunc":  chashtest.Must(s.GetFunc(key, func(n *node) bool { return n != nil })),
		} {
			if same != got {
				t.Errorf("%s(%q) = %p, want %p", form, key, same, got)
			}
		}
	}
	if len(seen) != len(nodes) {
		t.Errorf("nodes returned = %d, want %d", len(seen), len(nodes))
	}
}

func TestValues_Pointer(t *testing.T) {
	nodes := map[string]*node{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "c": {"10.0.0.3"}}
	var backends []chash.Backend[*node]
	for name, n := range nodes {
		backends = append(backends, chash.Backend[*node]{Name: name, Value: n})
	}
	for kind, s := range map[string]chashtest.StructureOf[*node]{"maglev": chashtest.Must(chashtest.NewMaglev(backends)), "ring": chashtest.Must(chashtest.NewRing(backends))} {
		t.Run(kind, func(t *testing.T) {
			checkPointers(t, s, nodes)
			// The value changes, the place stays.
			before := chashtest.Must(s.Get("key"))
			moved := &node{"10.9.9.9"}
			for name, n := range nodes {
				if n == before {
					require.NoError(t, s.SetValue(name, moved))
				}
			}
			if got := chashtest.Must(s.Get("key")); got != moved {
				t.Errorf("Get(key) after SetValue = %v, want %v", got, moved)
			}
			s.Clear()
			if got, err := s.Get("key"); got != nil || err != chash.ErrNoBackends {
				t.Errorf("Get(key) = %v, %v, want nil, %v", got, err, chash.ErrNoBackends)
			}
		})
	}
}

// TestValues_NotComparable has values that == would not compile for or panic on.
func TestValues_NotComparable(t *testing.T) {
	backends := []chash.Backend[func() string]{
		{Name: "a", Value: func() string { return "a" }}, {Name: "b", Value: func() string { return "b" }}, {Name: "nil"},
	}
	boxes := []chash.Backend[any]{{Name: "slice", Value: []int{1}}, {Name: "map", Value: map[int]int{}}, {Name: "nil"}}
	for kind, s := range map[string]chashtest.StructureOf[func() string]{"maglev": chashtest.Must(chashtest.NewMaglev(backends)), "ring": chashtest.Must(chashtest.NewRing(backends))} {
		if got := chashtest.Must(s.GetN("key", 3)); len(got) != 3 {
			t.Errorf("%s of functions: GetN(key, 3) = %d values, want 3", kind, len(got))
		}
		require.NoError(t, s.SetState("nil", chash.Unhealthy))
		if got := chashtest.Must(s.Get("key"))(); got != "a" && got != "b" {
			t.Errorf("%s of functions: Get(key)() = %q, want a or b", kind, got)
		}
		require.NoError(t, s.Set(backends))
	}
	for kind, s := range map[string]chashtest.StructureOf[any]{"maglev": chashtest.Must(chashtest.NewMaglev(boxes)), "ring": chashtest.Must(chashtest.NewRing(boxes))} {
		require.NoError(t, s.Set(boxes))
		require.NoError(t, s.SetValue("slice", []int{2}))
		if got := chashtest.Must(s.GetN("key", 4)); len(got) != 3 {
			t.Errorf("%s of any: GetN(key, 4) = %d values, want 3", kind, len(got))
		}
	}
}

// TestLookups_DoNotAllocate covers the calls that go through an interface;
// ranges over Candidates, which have to be inlined to cost nothing, stand with
// their structures.
func TestLookups_DoNotAllocate(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, c := range chashtest.AllocationCases() {
			t.Run(c.Name, func(t *testing.T) {
				s := kind.Make(t, c.Backends, c.Opts...)
				dst := append([]string(nil), chashtest.ManyNames("", 8)...)
				for _, key := range chashtest.AllocationKeys {
					bytes := []byte(key)
					calls := map[string]func(){
						"Get":      func() { _, _ = s.Get(key) },
						"GetBytes": func() { _, _ = s.GetBytes(bytes) },
						"GetHash":  func() { _, _ = s.GetHash(uint64(len(key)) << 55) },
						"GetFunc":  func() { _, _ = s.GetFunc(key, chashtest.AcceptThird) },
						"GetFunc that accepts none": func() {
							_, _ = s.GetFunc(key, func(string) bool { return false })
						},
						"Next":               func() { _, _ = s.Next() },
						"AppendN":            func() { _, _ = s.AppendN(dst[:0], key, 3) },
						"AppendN beyond all": func() { _, _ = s.AppendN(dst[:0], key, min(8, s.Len())) },
					}
					for name, call := range calls {
						if got := testing.AllocsPerRun(20, call); got != 0 {
							t.Errorf("allocations of %s with a key of %d bytes = %v, want 0", name, len(key), got)
						}
					}
				}
			})
		}
	})
}

// halfOfNodes are backends with pointers for values, every other one unhealthy.
func halfOfNodes() []chash.Backend[*node] {
	var backends []chash.Backend[*node]
	for i, name := range chashtest.ManyNames("b", 10) {
		backends = append(backends, chash.Backend[*node]{Name: name, Value: &node{name}, State: chash.State((i + 1) % 2)})
	}
	return backends
}

// checkPointerAllocations checks every form of lookup over pointers.
func checkPointerAllocations(t *testing.T, s chashtest.StructureOf[*node]) {
	t.Helper()
	dst := make([]*node, 0, 8)
	key, bytes := strings.Repeat("k", 1024), []byte("key")
	for name, call := range map[string]func(){
		"Get":      func() { _, _ = s.Get(key) },
		"GetBytes": func() { _, _ = s.GetBytes(bytes) },
		"GetHash":  func() { _, _ = s.GetHash(1 << 60) },
		"GetFunc":  func() { _, _ = s.GetFunc(key, func(n *node) bool { return n.address == "b3" }) },
		"Next":     func() { _, _ = s.Next() },
		"AppendN":  func() { _, _ = s.AppendN(dst, key, 8) },
	} {
		if got := testing.AllocsPerRun(20, call); got != 0 {
			t.Errorf("allocations of %s of a pointer = %v, want 0", name, got)
		}
	}
}
