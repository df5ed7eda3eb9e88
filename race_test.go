package chash_test

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
)

// Tests of readers beside writers, for the race detector and beyond: what the
// readers see proves itself. Readers stop after a count of rounds, no sooner
// than a count of changes was made meanwhile; writers go on until then.

const (
	readers     = 3
	leastWrites = 50
)

func readerRounds() int {
	if testing.Short() {
		return 200
	}
	return 1500
}

// readWhile runs read in several goroutines, round after round, while write
// runs again and again in this one. A reader ends early on an error, which
// fails the test.
func readWhile(t *testing.T, read func(round int) error, write func(i int)) {
	t.Helper()
	var reading sync.WaitGroup
	var writes, left atomic.Int64
	left.Store(readers)
	for reader := range readers {
		reading.Add(1)
		go func() {
			defer reading.Done()
			defer left.Add(-1)
			for round := 0; round < readerRounds() || writes.Load() < leastWrites; round++ {
				if err := read(reader*1000 + round); err != nil {
					t.Errorf("reader %d, round %d: %v", reader, round, err)
					return
				}
			}
		}()
	}
	for i := 0; left.Load() > 0; i++ {
		write(i)
		writes.Add(1)
	}
	reading.Wait()
}

// member is a value that proves itself: it says to which set it belongs.
type member struct {
	set  int
	name string
}

// TestRace_WholeStates: while the membership goes back and forth between two
// sets that have nothing in common, every call sees the one or the other, and
// none fails.
func TestRace_WholeStates(t *testing.T) {
	makers := map[string]func([]chash.Backend[*member]) (structureOf[*member], error){
		"maglev": func(b []chash.Backend[*member]) (structureOf[*member], error) {
			return newMaglev(b, chash.WithTableSize(1021))
		},
		"ring": func(b []chash.Backend[*member]) (structureOf[*member], error) {
			return newRing(b, chash.WithReplicas(20))
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
			readWhile(t, read, func(i int) {
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
	bothStructures(t, func(t *testing.T, ring bool) {
		w := newTwin(ring, 1021, 0, nil)
		if ring {
			w.size = 20
		}
		backends := chash.Named("a", "b", "c", "d", "e", "flapping")
		backends[1].State = chash.Unhealthy
		s := twins(t, w, backends)
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
		readWhile(t, read, func(i int) {
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
			bothStructures(t, func(t *testing.T, ring bool) {
				w := newTwin(ring, 251, 0, nil)
				if ring {
					w.size = 10
				}
				// A long list, since states that are read too early must have time to age.
				list := chash.Named(append([]string{"swapped"}, manyNames("with-", 200)...)...)
				s := twins(t, w, list)
				var having, swaps atomic.Int64
				readWhile(t, func(int) error {
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
	bothStructures(t, func(t *testing.T, ring bool) {
		w := newTwin(ring, 251, 0, nil)
		if ring {
			w.size = 10
		}
		s := twins(t, w, chash.Named("always"))
		parts := make([]*twin, 3)
		var writing sync.WaitGroup
		for writer := range parts {
			part := newTwin(ring, w.size, 0, nil)
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
						got, want = s.Add(b), part.add(b)
					case 1:
						got, want = s.Remove(b.Name), part.remove(b.Name)
					case 2:
						got, want = s.SetState(b.Name, b.State), part.setState(b.Name, b.State)
					case 3:
						got, want = s.SetWeight(b.Name, b.Weight), part.setWeight(b.Name, b.Weight)
					case 4:
						got, want = s.SetValue(b.Name, b.Value), part.setValue(b.Name, b.Value)
					}
					if err := predicted(got, want); err != nil {
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
			require.Empty(t, w.add(part.list()...))
		}
		require.NoError(t, w.differ(s, awkwardNames, w.hashes()))
	})
}

// midRebuild calls test while the rebuild of a change is held up: the hash function
// stops it where it places the backend "stop", until test has returned. The structure
// has the backends a, b and c, and w is its twin.
func midRebuild(t *testing.T, ring bool, change func(s structure) error, test func(s structure, w *twin)) {
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
	w := newTwin(ring, 251, 0, hash)
	if ring {
		w.size = 10
	}
	s := twins(t, w, chash.Named("a", "b", "c"))
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
	calls := map[string]func(s structure) error{
		"Add": func(s structure) error { return s.Add(chash.Named("stop", "d")...) },
		"Set": func(s structure) error { return s.Set(chash.Named("a", "b", "c", "d", "stop")) },
	}
	bothStructures(t, func(t *testing.T, ring bool) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				var changing structure
				var w *twin
				midRebuild(t, ring, call, func(s structure, twin *twin) {
					changing, w = s, twin
					for i := range 200 {
						require.NoError(t, w.differInKey(s, fmt.Sprint("key-", i)))
					}
					require.NoError(t, w.differInNext(s))
					for _, h := range w.hashes() {
						got, err := s.GetHash(h)
						require.NoError(t, w.differInOne(w.metByHash(h), got, err))
					}
				})
				require.Empty(t, w.set(chash.Named("a", "b", "c", "d", "stop")))
				require.NoError(t, w.differ(changing, awkwardNames, w.hashes()))
			})
		}
	})
}

// changing are the methods that change the membership, which wait for each other.
var changing = []string{
	"Add", "Remove", "Set", "Reconcile", "Clear", "SetState", "CompareAndSwapState", "SetWeight", "SetValue", "SetLoadFactor", "SetLoadFloor",
}

// TestRace_NoReaderWaits calls, in the middle of a rebuild, every method but those that
// change the membership. They are found by reflection, so that none is forgotten; what
// they are called with are zero values, the structure itself, or functions that return
// zero values. What they return, other tests look at.
func TestRace_NoReaderWaits(t *testing.T) {
	add := func(s structure) error { return s.Add(chash.Named("stop")...) }
	bothStructures(t, func(t *testing.T, ring bool) {
		midRebuild(t, ring, add, func(s structure, _ *twin) {
			v := reflect.ValueOf(s).Field(0) // the Maglev or the Ring in it
			done := make(chan string)
			go func() {
				defer close(done)
				for i := range v.NumMethod() {
					name := v.Type().Method(i).Name
					if slices.Contains(changing, name) {
						continue
					}
					done <- name
					callWithZeros(v.Method(i), v)
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

// callWithZeros calls a method with zero values, and self where its type is asked for.
// It goes through a sequence that is returned.
func callWithZeros(method, self reflect.Value) {
	kind := method.Type()
	var args []reflect.Value
	for i := range kind.NumIn() {
		in := kind.In(i)
		switch {
		case kind.IsVariadic() && i == kind.NumIn()-1:
		case in == self.Type():
			args = append(args, self)
		case in.Kind() == reflect.Func:
			args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
				out := make([]reflect.Value, in.NumOut())
				for i := range out {
					out[i] = reflect.Zero(in.Out(i))
				}
				return out
			}))
		case in.Kind() == reflect.Int:
			args = append(args, reflect.ValueOf(2)) // of backends, say
		case in.Kind() == reflect.Interface: // fmt.State, say, which Sprint makes
			_ = fmt.Sprint(self.Interface())
			return
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	for _, result := range method.Call(args) {
		switch {
		case result.Kind() != reflect.Func:
		case result.Type().CanSeq():
			for range result.Seq() {
			}
		case result.Type().CanSeq2():
			for range result.Seq2() {
			}
		}
	}
}
