package contract_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// member is a value that proves itself: it says to which set it belongs.
type member struct {
	set  int
	name string
}

// TestRace_WholeStates: while the membership goes back and forth between two
// sets that have nothing in common, every call sees the one or the other, and
// none fails.
func TestRace_WholeStates(t *testing.T) {
	makers := map[string]func([]chash.Backend[*member]) (chashtest.StructureOf[*member], error){
		"maglev": func(b []chash.Backend[*member]) (chashtest.StructureOf[*member], error) {
			return chashtest.NewMaglev(b, chash.WithTableSize(1021))
		},
		"ring": func(b []chash.Backend[*member]) (chashtest.StructureOf[*member], error) {
			return chashtest.NewRing(b, chash.WithReplicas(20))
		},
	}
	for name, build := range makers {
		t.Run(name, func(t *testing.T) {
			var sets [2][]chash.Backend[*member]
			for set := range sets {
				for i := range 5 + 3*set {
					m := &member{set, fmt.Sprintf("set-%d-member-%d", set, i)}
					sets[set] = append(sets[set], chash.Backend[*member]{Name: m.name, Value: m, Weight: uint32(1 + i%3)})
				}
			}
			var keys []string
			for i := range 64 {
				keys = append(keys, fmt.Sprint("key-", i))
			}
			// What every call is to give with the one set and with the other.
			var want [2]map[string][]*member
			var firsts [2]map[uint64]*member
			for set, backends := range sets {
				s, err := build(backends)
				require.NoError(t, err)
				want[set], firsts[set] = map[string][]*member{}, map[uint64]*member{}
				for _, key := range keys {
					want[set][key], err = s.GetN(key, len(backends))
					require.NoError(t, err)
					require.Len(t, want[set][key], len(backends))
					hash := xxhash.Sum64String(key)
					firsts[set][hash], err = s.GetHash(hash)
					require.NoError(t, err)
				}
			}

			s, err := build(sets[0])
			require.NoError(t, err)
			read := func(round int) error {
				key := keys[round%len(keys)]
				all := func(call string, got []*member, err error) error {
					if err != nil || !slices.Equal(got, want[0][key]) && !slices.Equal(got, want[1][key]) {
						return fmt.Errorf("%s = %v, %v, want all of one set", call, names(got), err)
					}
					return nil
				}
				one := func(call string, got *member, err error) error {
					if err != nil || got != want[0][key][0] && got != want[1][key][0] {
						return fmt.Errorf("%s = %v, %v, want the first of a set", call, got, err)
					}
					return nil
				}

				got, err := s.GetN(key, 100)
				if err := all("GetN", got, err); err != nil {
					return err
				}
				got, err = s.AppendN(got[:0], key, 100)
				if err := all("AppendN", got, err); err != nil {
					return err
				}
				if err := all("Candidates", slices.Collect(s.Candidates(key)), nil); err != nil {
					return err
				}
				var asked []*member
				if m, err := s.GetFunc(key, func(m *member) bool {
					asked = append(asked, m)
					return false
				}); m != nil || err != chash.ErrNoneAccepted {
					return fmt.Errorf("GetFunc = %v, %v, want %v", m, err, chash.ErrNoneAccepted)
				}
				if err := all("GetFunc", asked, nil); err != nil {
					return err
				}

				m, err := s.Get(key)
				if err := one("Get", m, err); err != nil {
					return err
				}
				m, err = s.GetBytes([]byte(key))
				if err := one("GetBytes", m, err); err != nil {
					return err
				}
				m, err = s.GetFunc(key, nil)
				if err := one("GetFunc", m, err); err != nil {
					return err
				}
				hash := xxhash.Sum64String(key)
				if m, err = s.GetHash(hash); err != nil || m != firsts[0][hash] && m != firsts[1][hash] {
					return fmt.Errorf("GetHash = %v, %v, want the first of a set", m, err)
				}
				if m, err = s.Next(); err != nil || m == nil {
					return fmt.Errorf("Next = %v, %v, want a member", m, err)
				}

				if got := s.Backends(); !slices.Equal(got, sets[0]) && !slices.Equal(got, sets[1]) {
					return fmt.Errorf("Backends = %+v, want all of one set", got)
				}
				if got := s.Len(); got != len(sets[0]) && got != len(sets[1]) {
					return fmt.Errorf("Len = %d", got)
				}
				b := sets[0][0]
				if got, ok := s.Backend(b.Name); ok && got != b {
					return fmt.Errorf("Backend(%q) = %+v, want %+v", b.Name, got, b)
				}
				clone := s.Clone()
				first, err := clone.GetN(key, 100)
				if err := all("GetN of a clone", first, err); err != nil {
					return err
				}
				if again, err := clone.GetN(key, 100); err != nil || !slices.Equal(again, first) {
					return fmt.Errorf("GetN of a clone = %v, %v, then %v", names(first), err, names(again))
				}
				return nil
			}
			chashtest.ReadWhile(t, read, func(i int) {
				if err := s.Set(sets[1-i%2]); err != nil {
					t.Errorf("Set: %v", err)
				}
			})
		})
	}
}

func names(members []*member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.name)
	}
	return names
}

// TestRace_Flapping: while the health of one backend goes back and forth, its
// keys do, and no other key ever moves.
func TestRace_Flapping(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		w := chashtest.NewTwin(ring, 1021, 0, nil)
		if ring {
			w.Size = 20
		}
		backends := chash.Named("a", "b", "c", "d", "e", "flapping")
		backends[1].State = chash.Unhealthy
		s := chashtest.Twins(t, w, backends)
		up, down := map[string][]string{}, map[string][]string{}
		var keys []string
		for i := range 200 {
			keys = append(keys, fmt.Sprint("key-", i))
		}
		for _, key := range keys {
			up[key], _ = s.GetN(key, 10)
		}
		require.NoError(t, s.SetState("flapping", chash.Unhealthy))
		for _, key := range keys {
			down[key], _ = s.GetN(key, 10)
		}
		rebuilds := s.Rebuilds()

		read := func(round int) error {
			key := keys[round%len(keys)]
			got, err := s.Get(key)
			if err != nil || got != up[key][0] && (up[key][0] != "flapping" || got != down[key][0]) {
				return fmt.Errorf("Get(%q) = %q, %v, want %q up or %q down", key, got, err, up[key][0], down[key][0])
			}
			all, err := s.GetN(key, 10)
			if err != nil || !slices.Equal(all, up[key]) && !slices.Equal(all, down[key]) {
				return fmt.Errorf("GetN(%q) = %q, %v, want %q up or %q down", key, all, err, up[key], down[key])
			}
			all = slices.Collect(s.Candidates(key))
			if !slices.Equal(all, up[key]) && !slices.Equal(all, down[key]) {
				return fmt.Errorf("Candidates(%q) = %q, want %q up or %q down", key, all, up[key], down[key])
			}
			if got, err := s.Next(); err != nil || got == "b" {
				return fmt.Errorf("Next() = %q, %v", got, err)
			}
			return nil
		}
		chashtest.ReadWhile(t, read, func(i int) {
			state := []chash.State{chash.Healthy, chash.Unhealthy}[i%2]
			if err := s.SetState("flapping", state); err != nil {
				t.Errorf("SetState: %v", err)
			}
		})
		require.Equal(t, rebuilds, s.Rebuilds())
	})
}

// TestRace_Swapping: a state that is swapped by several goroutines is had by one of
// them at a time, and no list that comes meanwhile takes it away.
func TestRace_Swapping(t *testing.T) {
	for _, taken := range []chash.State{chash.Unhealthy, chash.Draining} {
		t.Run(taken.String(), func(t *testing.T) {
			chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
				ring := kind.Ring
				w := chashtest.NewTwin(ring, 251, 0, nil)
				if ring {
					w.Size = 10
				}
				// A long list, since states that are read too early must have time to age.
				list := chash.Named(append([]string{"swapped"}, chashtest.ManyNames("with-", 200)...)...)
				s := chashtest.Twins(t, w, list)
				var having, swaps atomic.Int64
				chashtest.ReadWhile(t, func(int) error {
					swapped, err := s.CompareAndSwapState("swapped", chash.Healthy, taken)
					if err != nil || !swapped {
						return err
					}
					swaps.Add(1)
					if n := having.Add(1); n != 1 {
						return fmt.Errorf("swapped by %d at once, want 1", n)
					}
					if b, _ := s.Backend("swapped"); b.State != taken {
						return fmt.Errorf("State = %v, want %v until it is swapped back", b.State, taken)
					}
					having.Add(-1)
					swapped, err = s.CompareAndSwapState("swapped", taken, chash.Healthy)
					if err != nil || !swapped {
						return fmt.Errorf("CompareAndSwapState back = %t, %v, want true", swapped, err)
					}
					return nil
				}, func(i int) {
					if err := s.Reconcile(list[:len(list)-i%2]); err != nil {
						t.Errorf("Reconcile: %v", err)
					}
				})
				require.NotZero(t, swaps.Load())
			})
		})
	}
}

// TestRace_Writers: several writers with backends of their own change one
// structure at the same time. None fails, and what is left is as if they had
// come one after the other.
func TestRace_Writers(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		w := chashtest.NewTwin(ring, 251, 0, nil)
		if ring {
			w.Size = 10
		}
		s := chashtest.Twins(t, w, chash.Named("always"))
		parts := make([]*chashtest.Twin, 3)
		var writing sync.WaitGroup
		for writer := range parts {
			part := chashtest.NewTwin(ring, w.Size, 0, nil)
			parts[writer] = part
			rng := rand.New(rand.NewPCG(uint64(writer), 0))
			writing.Add(1)
			go func() {
				defer writing.Done()
				for range 200 {
					b := chash.Backend[string]{
						Name: fmt.Sprintf("backend-%d-%d", writer, rng.IntN(5)), HashKey: fmt.Sprintf("place-%d", rng.IntN(20)),
						Weight: 1 + rng.Uint32N(3), State: chash.State(rng.IntN(3)), Value: fmt.Sprint(rng.Uint32()),
					}
					var got error
					var want []error
					switch rng.IntN(5) {
					case 0:
						got, want = s.Add(b), part.Add(b)
					case 1:
						got, want = s.Remove(b.Name), part.Remove(b.Name)
					case 2:
						got, want = s.SetState(b.Name, b.State), part.SetState(b.Name, b.State)
					case 3:
						got, want = s.SetWeight(b.Name, b.Weight), part.SetWeight(b.Name, b.Weight)
					case 4:
						got, want = s.SetValue(b.Name, b.Value), part.SetValue(b.Name, b.Value)
					}
					if err := chashtest.Predicted(got, want); err != nil {
						t.Errorf("writer %d: %v", writer, err)
					}
					if _, err := s.Get(b.Name); err != nil {
						t.Errorf("Get: %v", err)
					}
				}
			}()
		}
		writing.Wait()
		for _, part := range parts {
			require.Empty(t, w.Add(part.List()...))
		}
		require.NoError(t, w.Differ(s, chashtest.AwkwardNames, w.Hashes()))
	})
}

// midRebuild calls test while the rebuild of a change is held up: the hash function
// stops it where it places the backend "stop", until test has returned. The structure
// has the backends a, b and c, and w is its twin.
func midRebuild(t *testing.T, ring bool, change func(s chashtest.Structure) error, test func(s chashtest.Structure, w *chashtest.Twin)) {
	t.Helper()
	inside, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release() // also where test ends the goroutine
	var once sync.Once
	hash := func(key string) uint64 {
		if strings.HasPrefix(key, "\xbastop") || strings.HasPrefix(key, "\xbestop") || strings.HasPrefix(key, "stop#") {
			once.Do(func() { close(inside) })
			<-goOn
		}
		return xxhash.Sum64String(key)
	}
	w := chashtest.NewTwin(ring, 251, 0, hash)
	if ring {
		w.Size = 10
	}
	s := chashtest.Twins(t, w, chash.Named("a", "b", "c"))
	changed := make(chan error, 1)
	go func() { changed <- change(s) }()
	select {
	case <-inside:
	case err := <-changed:
		t.Fatalf("the change returned %v before it placed the new backend", err)
	}
	test(s, w)
	release()
	require.NoError(t, <-changed)
}

// TestRace_NoWaitForRebuild: a rebuild that takes forever holds no lookup up.
func TestRace_NoWaitForRebuild(t *testing.T) {
	calls := map[string]func(s chashtest.Structure) error{
		"Add": func(s chashtest.Structure) error { return s.Add(chash.Named("stop", "d")...) },
		"Set": func(s chashtest.Structure) error { return s.Set(chash.Named("a", "b", "c", "d", "stop")) },
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				var changing chashtest.Structure
				var w *chashtest.Twin
				midRebuild(t, ring, call, func(s chashtest.Structure, twin *chashtest.Twin) {
					changing, w = s, twin
					for i := range 200 {
						require.NoError(t, w.DifferInKey(s, fmt.Sprint("key-", i)))
					}
					require.NoError(t, w.DifferInNext(s))
					for _, h := range w.Hashes() {
						got, err := s.GetHash(h)
						require.NoError(t, w.DifferInOne(w.MetByHash(h), got, err))
					}
				})
				require.Empty(t, w.Set(chash.Named("a", "b", "c", "d", "stop")))
				require.NoError(t, w.Differ(changing, chashtest.AwkwardNames, w.Hashes()))
			})
		}
	})
}

// TestRace_NoReaderWaits calls, in the middle of a rebuild, every method but those that
// change the membership. They are found by reflection, so that none is forgotten; what
// they are called with are zero values, the structure itself, or functions that return
// zero values. What they return, other tests look at.
func TestRace_NoReaderWaits(t *testing.T) {
	add := func(s chashtest.Structure) error { return s.Add(chash.Named("stop")...) }
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		midRebuild(t, ring, add, func(s chashtest.Structure, _ *chashtest.Twin) {
			v := reflect.ValueOf(s).Field(0) // the Maglev or the Ring in it
			done := make(chan string)
			go func() {
				defer close(done)
				for i := range v.NumMethod() {
					name := v.Type().Method(i).Name
					if slices.Contains(chashtest.Changing, name) {
						continue
					}
					done <- name
					chashtest.CallWithZeros(v.Method(i), v)
				}
			}()
			last := "none"
			deadline := time.After(time.Minute)
			for {
				select {
				case name, more := <-done:
					if !more {
						return
					}
					last = name
				case <-deadline:
					t.Fatalf("%s waits for the rebuild", last)
				}
			}
		})
	})
}
