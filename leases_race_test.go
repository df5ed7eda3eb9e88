package chash_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
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

// zipf returns a draw of keys of which few are hot.
func zipf(random *rand.Rand, keys uint64) func() string {
	z := rand.NewZipf(random, 1.2, 1, keys-1)
	return func() string { return fmt.Sprint("key-", z.Uint64()) }
}

// TestAcquire_FirstOnesTogether: however many come first at once, they count with
// one set of counters. A change of the membership is held up where it hashes, so
// that they all come before the counters are made.
func TestAcquire_FirstOnesTogether(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		gate, reached := make(chan struct{}), make(chan struct{})
		var once sync.Once
		made, err := kind.New(chash.Named(chashtest.ManyNames("b", 7)...), chash.WithHash(func(key string) uint64 {
			if strings.Contains(key, "late") {
				once.Do(func() { close(reached) })
				<-gate
			}
			return xxhash.Sum64String(key)
		}))
		require.NoError(t, err)
		s := made.(bounded)
		added := make(chan error)
		go func() { added <- s.Add(chash.Named("late")...) }()
		<-reached
		var begun atomic.Int64
		go func() {
			for begun.Load() < holders {
				runtime.Gosched()
			}
			for range 100 { // each is as good as in Acquire
				runtime.Gosched()
			}
			close(gate)
		}()
		leases := chashtest.Together(holders, func(i int) *chash.Lease[string] {
			begun.Add(1)
			return acquire(t, s, fmt.Sprint("key-", i))
		})
		require.NoError(t, <-added)
		want := map[string]int64{}
		for _, lease := range leases {
			want[lease.Value]++
		}
		checkLoads(t, s, want)
		chashtest.Together(holders, func(i int) int { leases[i].Release(); return 0 })
		checkLoads(t, s, nil)
	})
}

// TestAcquire_LastPlace: of two who come for a backend's last place at the same
// time one gets it, and the other goes on. With three equal backends and up to two
// leases each has one place.
func TestAcquire_LastPlace(t *testing.T) {
	chashtest.Threads(t)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b", "c"))
		var taken [3]atomic.Int64
		var shared atomic.Int64
		chashtest.Pair(func(int, int) {
			lease := acquire(t, s, "key")
			place := &taken[lease.Value[0]-'a']
			alone := place.Add(1) == 1
			for range 100 { // the other, if it is here, has time to be seen
				alone = alone && place.Load() == 1
			}
			if !alone {
				shared.Add(1)
			}
			place.Add(-1)
			lease.Release()
		})
		if got := shared.Load(); got != 0 {
			t.Errorf("places that two leases got = %d, want 0", got)
		}
		checkLoads(t, s, nil)
	})
}

// TestAcquire_WhileChangesWait: with the counters made, Acquire and Release wait
// for no change of the membership. One is held up in the middle, where it hashes,
// and they go on.
func TestAcquire_WhileChangesWait(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		gate, reached := make(chan struct{}), make(chan struct{})
		var once sync.Once
		made, err := kind.New(chash.Named("a", "b", "c"), chash.WithHash(func(key string) uint64 {
			if strings.Contains(key, "late") {
				once.Do(func() { close(reached) })
				<-gate
			}
			return xxhash.Sum64String(key)
		}))
		require.NoError(t, err)
		s := made.(bounded)
		acquire(t, s, "key").Release()
		added := make(chan error)
		go func() { added <- s.Add(chash.Named("late")...) }()
		<-reached
		for _, key := range chashtest.SampleKeys[:100] {
			lease := acquire(t, s, key)
			if lease.Value == "late" {
				t.Errorf("Acquire(%q) = late, which is not there yet", key)
			}
			lease.Release()
		}
		close(gate)
		require.NoError(t, <-added)
		checkLoads(t, s, nil)
	})
}

// TestAcquire_OutdatedSnapshot holds an Acquire up where it hashes its key, with
// the state of before already in hand, and changes the membership meanwhile.
func TestAcquire_OutdatedSnapshot(t *testing.T) {
	for _, kind := range chashtest.Kinds {
		for _, c := range []float64{chash.DefaultLoadFactor, math.MaxFloat64} {
			// heldUp returns what Acquire gives when change comes in between. The key
			// "slower" hashes like the one that is held up.
			heldUp := func(t *testing.T, change func(s bounded)) (bounded, *chash.Lease[string], error) {
				t.Helper()
				gate, reached := make(chan struct{}), make(chan struct{})
				var once sync.Once
				made, err := kind.New(chash.Named("a", "b", "c"), chash.WithLoadFactor(c), chash.WithHash(func(key string) uint64 {
					if key == "slow" {
						once.Do(func() { close(reached) })
						<-gate
					}
					return xxhash.Sum64String(strings.TrimSuffix(key, "er"))
				}))
				require.NoError(t, err)
				s := made.(bounded)
				acquire(t, s, "key").Release()
				var lease *chash.Lease[string]
				done := make(chan error)
				go func() {
					l, err := s.Acquire("slow")
					lease = &l
					done <- err
				}()
				<-reached
				change(s)
				close(gate)
				err = <-done
				return s, lease, err
			}
			name := fmt.Sprintf("%s/factor=%v/", kind.Name, c)

			t.Run(name+"all replaced", func(t *testing.T) {
				s, lease, err := heldUp(t, func(s bounded) { require.NoError(t, s.Set(chash.Named("d"))) })
				if err != nil || lease.Value != "d" {
					t.Errorf("Acquire = %q, %v, want d, the only one left", lease.Value, err)
				}
				checkLoads(t, s, map[string]int64{"d": 1})
				lease.Release()
				checkLoads(t, s, nil)
			})
			t.Run(name+"removed and added again", func(t *testing.T) {
				s, lease, err := heldUp(t, func(s bounded) {
					s.Clear()
					require.NoError(t, s.Add(chash.Named("a", "b", "c")...))
				})
				require.NoError(t, err)
				checkLoads(t, s, map[string]int64{lease.Value: 1})
				lease.Release()
				checkLoads(t, s, nil)
			})
			t.Run(name+"its backend replaced", func(t *testing.T) {
				// Once its backend is found to be gone, what counts is the state of now,
				// in which the key is not where it goes on to in the state of before.
				var want string
				s, lease, err := heldUp(t, func(s bounded) {
					gone := chashtest.Must(s.Get("slower"))
					require.NoError(t, s.Remove(gone))
					require.NoError(t, s.Add(chash.Backend[string]{Name: "new", Weight: 50, Value: "new"}))
					want = chashtest.Must(s.Get("slower"))
				})
				if err != nil || lease.Value != want || want != "new" {
					t.Errorf("Acquire = %q, %v, want %q, which is to be new", lease.Value, err, want)
				}
				lease.Release()
				checkLoads(t, s, nil)
			})
			t.Run(name+"its backend unhealthy", func(t *testing.T) {
				var want string
				s, lease, err := heldUp(t, func(s bounded) {
					require.NoError(t, s.SetState(chashtest.Must(s.Get("slower")), chash.Unhealthy))
					want = chashtest.Must(s.Get("slower"))
				})
				if err != nil || lease.Value != want {
					t.Errorf("Acquire = %q, %v, want %q, as its backend gets no leases", lease.Value, err, want)
				}
				checkLoads(t, s, map[string]int64{want: 1})
				lease.Release()
				checkLoads(t, s, nil)
			})
			for change, test := range map[string]struct {
				call func(s bounded)
				want error
			}{
				"cleared": {func(s bounded) { s.Clear() }, chash.ErrNoBackends},
				"replaced by an unhealthy one": {func(s bounded) {
					require.NoError(t, s.Set([]chash.Backend[string]{{Name: "d", State: chash.Unhealthy}}))
				}, chash.ErrNoHealthyBackends},
			} {
				t.Run(name+change, func(t *testing.T) {
					s, lease, err := heldUp(t, test.call)
					if err != test.want || lease.Value != "" {
						t.Errorf("Acquire = %q, %v, want \"\", %v", lease.Value, err, test.want)
					}
					checkLoads(t, s, nil)
				})
			}
			t.Run(name+"removed with leases", func(t *testing.T) {
				// They keep the counter, so that the name's load is right whichever
				// state it is that the Acquire goes by.
				var held []*chash.Lease[string]
				s, lease, err := heldUp(t, func(s bounded) {
					for _, key := range chashtest.SampleKeys[:30] {
						held = append(held, acquire(t, s, key))
					}
					s.Clear()
					require.NoError(t, s.Add(chash.Named("d")...))
				})
				require.NoError(t, err)
				want := map[string]int64{lease.Value: 1}
				for _, l := range held {
					want[l.Value]++
				}
				checkLoads(t, s, want)
				require.NoError(t, s.Add(chash.Named("a", "b", "c")...))
				checkLoads(t, s, want)
				for _, l := range append(held, lease) {
					l.Release()
				}
				checkLoads(t, s, nil)
			})
		}
	}
}

// weightedBackends are backends of different weights, some unhealthy, and the sum
// of the weights of the others.
func weightedBackends(n int) (backends []chash.Backend[string], weights map[string]uint32, healthy int64) {
	backends = chash.Named(chashtest.ManyNames("b", n)...)
	weights = map[string]uint32{}
	for i := range backends {
		backends[i].Weight = 1 + uint32(i%4)
		if i%5 == 4 {
			backends[i].State = chash.Unhealthy
			continue
		}
		weights[backends[i].Name] = backends[i].Weight
		healthy += int64(backends[i].Weight)
	}
	return backends, weights, healthy
}

// TestAcquire_BoundWhileFilling: while leases are only taken, no load is ever
// above its bound, not even by 1, whatever races.
//
// Each lease raised its backend's load from n to n+1 where n was below the bound
// for a total read before; the total has not fallen since, and so the bound has
// not. The observer reads a load before the total, for the same reason.
func TestAcquire_BoundWhileFilling(t *testing.T) {
	chashtest.Threads(t)
	backends, weights, healthy := weightedBackends(11)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, c := range []float64{chash.DefaultLoadFactor, 1.0625, 3} {
			s := build(backends, chash.WithLoadFactor(c))
			check := func() {
				loads := s.Loads()
				total := s.Counted()
				for name, load := range loads {
					if bound := boundOf(c, total, weights[name], healthy); load > bound {
						t.Errorf("load of %q with factor %v = %d of %d, want %d at most", name, c, load, total, bound)
					}
				}
			}
			leases := make([][40]*chash.Lease[string], holders)
			var left atomic.Int64
			left.Store(holders)
			observed := make(chan struct{})
			go func() {
				defer close(observed)
				for left.Load() > 0 {
					check()
				}
			}()
			chashtest.Together(holders, func(i int) int {
				defer left.Add(-1)
				key := zipf(rand.New(rand.NewPCG(uint64(i), 2)), 1000)
				for at := range leases[i] {
					leases[i][at] = acquire(t, s, key())
				}
				return 0
			})
			<-observed
			check()
			want := map[string]int64{}
			for i := range leases {
				for _, lease := range leases[i] {
					want[lease.Value]++
				}
			}
			checkLoads(t, s, want)
			chashtest.Together(holders, func(i int) int {
				for _, lease := range leases[i] {
					lease.Release()
				}
				return 0
			})
			checkLoads(t, s, nil)
		}
	})
}

// TestAcquire_BoundUnderChurn: 64 goroutines release and take leases at once, one
// call each a round, then all wait with what they hold in flight. Every third
// round they only take.
//
// How far above its bound a load can be then: an Acquire reads a total of which
// part may be released before it takes its lease. In one round it is peak at
// most: what was in flight before the round and every lease taken in it. So
// whoever raised a load in this round raised it to ceil(c*peak*weight/healthy) at
// most; a load that nobody raised is at most what it was. The bound for the total
// of now is c*weight/healthy lower for each lease released in this round, and
// this is all that racing explains: where nothing is released it is nothing.
func TestAcquire_BoundUnderChurn(t *testing.T) {
	backends, weights, healthy := weightedBackends(11)
	const c = chash.DefaultLoadFactor
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		var keys [holders]func() string
		var random [holders]*rand.Rand
		for i := range holders {
			random[i] = rand.New(rand.NewPCG(uint64(i), 3))
			keys[i] = zipf(random[i], 1000)
		}
		var held [holders][]*chash.Lease[string]
		before, inFlight, atBound := map[string]int64{}, int64(0), 0
		for round := range rounds {
			taken := chashtest.Together(holders, func(i int) int64 {
				if n := len(held[i]); n > 0 && round%3 > 0 && random[i].IntN(8) < n+2 {
					at := random[i].IntN(n)
					held[i][at].Release()
					held[i] = slices.Delete(held[i], at, at+1)
					return 0
				}
				if random[i].IntN(4) == 0 {
					held[i] = append(held[i], acquireNext(t, s))
				} else {
					held[i] = append(held[i], acquire(t, s, keys[i]()))
				}
				return 1
			})
			want, peak := map[string]int64{}, inFlight
			for i := range holders {
				peak += taken[i]
				for _, lease := range held[i] {
					want[lease.Value]++
				}
			}
			checkLoads(t, s, want)
			for name, load := range want {
				bound := boundOf(c, peak, weights[name], healthy)
				if load > max(bound, before[name]) {
					t.Fatalf("load of %q in round %d = %d, which was %d, want %d at most", name, round, load, before[name], bound)
				}
				if load == bound {
					atBound++
				}
			}
			before, inFlight = want, s.InFlight()
		}
		if atBound == 0 {
			t.Error("loads at their bound = 0, want some: the test shows little")
		}
		chashtest.Together(holders, func(i int) int {
			for _, lease := range held[i] {
				lease.Release()
			}
			return 0
		})
		checkLoads(t, s, nil)
	})
}

// TestAcquire_BoundInTheRun: 64 goroutines take and release leases in the run,
// each one at a time, and in between they wait in flight for one of a few tokens.
// The total counts each of them once at most, so it is never above 64, and at no
// moment a load is above the bound for 64. Where that is 1, as for one of 80 equal
// backends, a lease is a lock on its backend.
//
// The test's own count of a backend goes up after Acquire and down before Release,
// so that it is never above the load.
func TestAcquire_BoundInTheRun(t *testing.T) {
	chashtest.Threads(t)
	const c = chash.DefaultLoadFactor
	rounds := 600
	if testing.Short() {
		rounds = 200
	}
	weighted, weights, healthy := weightedBackends(11)
	equal, ones := chash.Named(chashtest.ManyNames("b", 80)...), map[string]uint32{}
	for i := range equal {
		ones[equal[i].Name] = 1
	}
	tests := []struct {
		name     string
		backends []chash.Backend[string]
		weights  map[string]uint32
		healthy  int64
		keys     uint64
		wait     bool
	}{
		{"weighted backends", weighted, weights, healthy, 1000, true},
		{"a lock", equal, ones, 80, 1000, true},
		{"a lock, one key", equal, ones, 80, 1, false},
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := build(test.backends)
				bounds, counts := map[string]int64{}, map[string]*atomic.Int64{}
				for name, weight := range test.weights {
					bounds[name] = boundOf(c, holders, weight, test.healthy)
					counts[name] = new(atomic.Int64)
				}
				tokens := make(chan struct{}, 8)
				var beyond atomic.Int64
				chashtest.Together(holders, func(i int) int {
					key := zipf(rand.New(rand.NewPCG(uint64(i), 4)), test.keys)
					for range rounds {
						lease := acquire(t, s, key())
						count := counts[lease.Value]
						if count.Add(1) > bounds[lease.Value] {
							beyond.Add(1)
						}
						if test.wait {
							tokens <- struct{}{}
							<-tokens
						}
						count.Add(-1)
						lease.Release()
					}
					return 0
				})
				if got := beyond.Load(); got != 0 {
					t.Errorf("leases beyond their backend's bound = %d, want 0", got)
				}
				checkLoads(t, s, nil)
			})
		}
	})
}

// TestAcquire_WhileAllChanges: with one healthy backend or more at each moment
// Acquire and AcquireNext never fail, whatever changes meanwhile; what they return
// was there, and in the end nothing is left in flight.
func TestAcquire_WhileAllChanges(t *testing.T) {
	sets := [2][]chash.Backend[string]{
		chash.Named(chashtest.ManyNames("x", 5)...), chash.Named(chashtest.ManyNames("y", 3)...),
	}
	sets[1] = append(sets[1], chash.Backend[string]{Name: "x0", HashKey: "y0", Weight: 3, Value: "x0"})
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(sets[0], chash.WithLoadFactor(1.01))
		var mu sync.Mutex
		held := map[int][]*chash.Lease[string]{} // by reader and round, in thousands
		chashtest.ReadWhile(t, func(round int) error {
			key := fmt.Sprint("key-", round%7)
			call, take := fmt.Sprintf("Acquire(%q)", key), func() (chash.Lease[string], error) { return s.Acquire(key) }
			if round%3 == 0 {
				call, take = "AcquireNext()", func() (chash.Lease[string], error) { return s.AcquireNext() }
			}
			lease, err := take()
			if err != nil {
				return fmt.Errorf("%s = %v, want no error", call, err)
			}
			if !strings.HasPrefix(lease.Value, "x") && !strings.HasPrefix(lease.Value, "y") {
				return fmt.Errorf("%s = %q, want a backend that was there", call, lease.Value)
			}
			mu.Lock()
			held[round%11] = append(held[round%11], &lease)
			mine := held[(round+1)%11]
			held[(round+1)%11] = nil
			mu.Unlock()
			for _, l := range mine {
				l.Release()
			}
			return nil
		}, func(i int) {
			var err error
			switch i % 10 {
			case 0, 5:
				err = s.Set(sets[i/5%2])
			case 1:
				err = s.SetState("x1", chash.Unhealthy)
			case 2:
				err = errors.Join(s.SetState("x2", chash.Unhealthy), s.SetState("x3", chash.Unhealthy), s.SetState("x4", chash.Unhealthy))
			case 3:
				err = errors.Join(s.SetState("x1", chash.Draining), s.SetWeight("x0", 1+uint32(i%7)))
			case 4:
				err = errors.Join(s.Remove("x2"), s.Add(chash.Named("x2")...))
			case 6:
				err = s.SetState("y0", chash.Unhealthy)
			case 7:
				err = errors.Join(s.Remove("y1"), s.Add(chash.Named("y1")...))
			case 8:
				err = s.SetValue("y2", fmt.Sprint("y", i))
			case 9:
				err = errors.Join(s.SetWeight("y2", 1+uint32(i%5)), s.SetLoadFactor(1.01+float64(i%3)))
			}
			if err != nil {
				t.Error(err)
			}
		})
		for _, leases := range held {
			for _, l := range leases {
				l.Release()
			}
		}
		checkLoads(t, s, nil)
		require.NoError(t, s.Set(sets[0]))
		if got, want := s.Tallies(), len(sets[0]); got != want {
			t.Errorf("counters in the end = %d, want %d", got, want)
		}
	})
}

// checkCounted checks the total that bounds go by, and that it is the sum of the loads
// of backends that can get a lease.
func checkCounted(t *testing.T, s bounded, want int64) {
	t.Helper()
	if got := s.Counted(); got != want {
		t.Errorf("counted = %d, want %d of loads %v", got, want, s.Loads())
	}
}

// stuck are the ways in which a backend stops getting leases, and in which it comes back.
var stuck = []struct {
	name       string
	stop, back func(s bounded, b chash.Backend[string]) error
}{
	{
		"Unhealthy",
		func(s bounded, b chash.Backend[string]) error { return s.SetState(b.Name, chash.Unhealthy) },
		func(s bounded, b chash.Backend[string]) error { return s.SetState(b.Name, chash.Healthy) },
	},
	{
		"Draining",
		func(s bounded, b chash.Backend[string]) error { return s.SetState(b.Name, chash.Draining) },
		func(s bounded, b chash.Backend[string]) error { return s.SetState(b.Name, chash.Healthy) },
	},
	{
		"Remove",
		func(s bounded, b chash.Backend[string]) error { return s.Remove(b.Name) },
		func(s bounded, b chash.Backend[string]) error { return s.Add(b) },
	},
	{
		"Set",
		func(s bounded, b chash.Backend[string]) error {
			return s.Set(slices.DeleteFunc(s.Backends(), func(other chash.Backend[string]) bool { return other.Name == b.Name }))
		},
		func(s bounded, b chash.Backend[string]) error { return s.Set(append(s.Backends(), b)) },
	},
	{
		"Unhealthy, in a Set, and Reconcile after a Remove",
		func(s bounded, b chash.Backend[string]) error {
			backends := s.Backends()
			for i := range backends {
				if backends[i].Name == b.Name {
					backends[i].State = chash.Unhealthy
				}
			}
			return s.Set(backends)
		},
		func(s bounded, b chash.Backend[string]) error {
			others := slices.DeleteFunc(s.Backends(), func(other chash.Backend[string]) bool { return other.Name == b.Name })
			if err := s.Remove(b.Name); err != nil {
				return err
			}
			return s.Reconcile(append(others, b))
		},
	},
}

// TestAcquire_StuckLeases: of 8,000 leases all are given back but those of one backend,
// which then gets no more. They raise the bound of no other: of 90 leases of one key
// none of nine backends has more than ceil(1.25*90/9) = 13. When the backend is there
// again its load counts again, and once.
func TestAcquire_StuckLeases(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, way := range stuck {
			t.Run(way.name, func(t *testing.T) {
				s := build(chash.Named(chashtest.ManyNames("b", 10)...))
				dead := chash.Backend[string]{Name: "b3", Value: "b3"}
				var kept, others []*chash.Lease[string]
				for i := range 8000 {
					lease := acquire(t, s, fmt.Sprint("key-", i))
					if lease.Value == dead.Name {
						kept = append(kept, lease)
					} else {
						others = append(others, lease)
					}
				}
				for _, lease := range others {
					lease.Release()
				}
				load := int64(len(kept))
				if load < 500 {
					t.Fatalf("leases on one of ten backends = %d of 8000, want 500 at least: the test shows little", load)
				}
				checkCounted(t, s, load)

				require.NoError(t, way.stop(s, dead))
				checkLoads(t, s, map[string]int64{dead.Name: load})
				checkCounted(t, s, 0)
				var hot []*chash.Lease[string]
				for range 90 {
					hot = append(hot, acquire(t, s, "hot"))
				}
				loads := s.Loads()
				for name, got := range loads {
					if name != dead.Name && got > 13 {
						t.Errorf("leases of one key on %q = %d of 90, want 13 at most", name, got)
					}
				}
				checkCounted(t, s, 90)

				// While it is away leases of it are given back, and while it is there.
				kept[0].Release()
				checkCounted(t, s, 90)
				require.NoError(t, way.back(s, dead))
				checkCounted(t, s, 90+load-1)
				kept[1].Release()
				checkCounted(t, s, 90+load-2)
				if got := s.Loads()[dead.Name]; got != load-2 {
					t.Errorf("load of %q when it is back = %d, want %d", dead.Name, got, load-2)
				}
				// Its load is far above its bound, so that it gets no lease.
				for i := range 100 {
					lease := acquire(t, s, fmt.Sprint("key-", i))
					if lease.Value == dead.Name {
						t.Errorf("Acquire(key-%d) with %d leases on %q = %q, want another", i, load-2, dead.Name, lease.Value)
					}
					lease.Release()
				}
				for _, lease := range append(hot, kept...) {
					lease.Release()
				}
				checkLoads(t, s, nil)
				checkCounted(t, s, 0)
			})
		}
	})
}

// TestAcquire_StuckStandIn: of backends that share a placement the load of the one
// which leads counts, and no other.
func TestAcquire_StuckStandIn(t *testing.T) {
	backends := []chash.Backend[string]{
		{Name: "heavy", HashKey: "shared", Weight: 9, Value: "heavy"},
		{Name: "light", HashKey: "shared", Weight: 1, Value: "light"},
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		for range 5 {
			defer acquire(t, s, "key").Release()
		}
		checkCounted(t, s, 5)
		require.NoError(t, s.SetState("heavy", chash.Unhealthy))
		checkCounted(t, s, 0)
		for range 3 {
			defer acquire(t, s, "key").Release()
		}
		checkCounted(t, s, 3)
		require.NoError(t, s.SetState("heavy", chash.Healthy))
		checkCounted(t, s, 5)
		require.NoError(t, s.SetWeight("light", 10)) // which makes it lead
		checkCounted(t, s, 3)
		require.NoError(t, s.SetState("light", chash.Unhealthy))
		checkCounted(t, s, 5)
		require.NoError(t, s.SetState("heavy", chash.Unhealthy))
		checkCounted(t, s, 0)
		checkLoads(t, s, map[string]int64{"heavy": 5, "light": 3})
	})
}

// TestCounted_UnderRaces: leases are taken and given back while their backends come and
// go, in every way. When all is quiet what counts is the loads of those backends that
// can get a lease, to the last one.
func TestCounted_UnderRaces(t *testing.T) {
	chashtest.Threads(t)
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	names := chashtest.ManyNames("b", 6)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named(names...))
		require.NoError(t, s.Add(chash.Named("always")...))
		const takers = 6
		var held [takers][]twinLease
		random := rand.New(rand.NewPCG(9, 9))
		for round := range rounds {
			var quiet atomic.Bool
			chashtest.Together(takers+1, func(i int) int {
				if i == takers {
					for range 40 {
						way, b := stuck[random.IntN(len(stuck))], chashtest.Backend(names[random.IntN(len(names))], "", 0, 0)
						if got, found := s.Backend(b.Name); found && got.State == chash.Healthy {
							require.NoError(t, way.stop(s, b))
						} else if found {
							require.NoError(t, s.SetState(b.Name, chash.Healthy))
						} else {
							require.NoError(t, s.Add(b))
						}
					}
					quiet.Store(true)
					return 0
				}
				random := rand.New(rand.NewPCG(uint64(i), uint64(round)))
				for !quiet.Load() {
					if n := len(held[i]); n > 0 && random.IntN(8) < n {
						at := random.IntN(n)
						held[i][at].Release()
						held[i] = slices.Delete(held[i], at, at+1)
						continue
					}
					cost := 1 + random.Int64N(5)
					var lease chash.Lease[string]
					var err error
					switch key := fmt.Sprint("key-", random.IntN(40)); random.IntN(4) {
					case 0:
						lease, err = s.AcquireNext(chash.WithCost(cost))
					case 1:
						lease, err = s.AcquireFunc(key, func(name string) bool { return name != "b1" }, chash.WithCost(cost))
					default:
						lease, err = s.Acquire(key, chash.WithCost(cost))
					}
					if err != nil {
						t.Errorf("taking a lease = %v, want no error: one backend is always healthy", err)
						return 0
					}
					held[i] = append(held[i], twinLease{&lease, cost})
				}
				return 0
			})
			want, counted := map[string]int64{}, int64(0)
			for i := range held {
				for _, lease := range held[i] {
					want[lease.Value] += lease.cost
				}
			}
			for _, b := range s.Backends() {
				if b.State == chash.Healthy {
					counted += want[b.Name]
				}
			}
			if got := s.Loads(); !maps.Equal(got, want) {
				t.Fatalf("loads after round %d = %v, want %v", round, got, want)
			}
			if got := s.Counted(); got != counted {
				t.Fatalf("counted after round %d = %d, want %d of %v", round, got, counted, want)
			}
		}
		for i := range held {
			for _, lease := range held[i] {
				lease.Release()
			}
		}
		checkLoads(t, s, nil)
		checkCounted(t, s, 0)
	})
}

// TestCounted_WhileReleased: leases are given back, one right after the other, while
// their backend stops getting leases and comes back, over and over. A lease that is given
// back while its load enters or leaves the total counts once.
func TestCounted_WhileReleased(t *testing.T) {
	chashtest.Threads(t)
	const changes, held = 1500, 1 << 12
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b"))
		var leases [held]*chash.Lease[string]
		for i := range leases {
			leases[i] = acquire(t, s, fmt.Sprint("key-", i))
		}
		var changed atomic.Bool
		var released atomic.Int64
		enough := time.Now().Add(2 * time.Second)
		chashtest.Together(2, func(i int) int {
			if i == 0 {
				for at := 0; !changed.Load(); at = (at + 64) % held {
					for i := at; i < at+64; i++ {
						leases[i].Release()
						released.Add(1)
					}
					for i := at; i < at+64; i++ {
						leases[i] = acquire(t, s, "key")
					}
				}
				return 0
			}
			defer changed.Store(true)
			// What counts are changes during which leases are given back, if there is
			// a processor for both.
			for met := 0; met < changes && time.Now().Before(enough); {
				before := released.Load()
				require.NoError(t, s.SetState("a", chash.Unhealthy))
				require.NoError(t, s.SetState("a", chash.Healthy))
				if released.Load() > before {
					met++
				}
			}
			return 0
		})
		checkCounted(t, s, held)
		for _, lease := range leases {
			lease.Release()
		}
		checkLoads(t, s, nil)
	})
}

// TestRelease_LoadBeforeTotal: while leases are only given back, a load that is read
// after the total is never above the total that was read. A Release that took the lease
// from the total first would show it so: an Acquire would then find too little room.
func TestRelease_LoadBeforeTotal(t *testing.T) {
	chashtest.Threads(t)
	const rounds, releasing, each = 10, 4, 10_000
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a"))
		for range rounds {
			var leases [releasing][each]*chash.Lease[string]
			for i := range leases {
				for at := range leases[i] {
					leases[i][at] = acquire(t, s, "key")
				}
			}
			read := s.Watch("a")
			var ended atomic.Int64
			chashtest.Together(releasing+1, func(i int) int {
				if i < releasing {
					for _, lease := range leases[i] {
						lease.Release()
					}
					ended.Add(1)
					return 0
				}
				for ended.Load() < releasing {
					if total, load := read(); load > total {
						t.Errorf("load = %d when the total was %d before, want no more", load, total)
						break
					}
				}
				return 0
			})
			checkLoads(t, s, nil)
		}
	})
}

// TestAcquire_GoesByTheTotalOfNow: an Acquire passes 16,380 backends that are full with a
// lease each, on its way to the only one with room, which has nearly all of the weight.
// Meanwhile that one gets a lease of a great cost. By the total of the beginning it is
// full then, and will be for as long as that lease is in flight; by the total of now it is
// not.
func TestAcquire_GoesByTheTotalOfNow(t *testing.T) {
	chashtest.Threads(t)
	watched(t)
	const slots = 16381 // as many as backends
	backends := chash.Named(chashtest.ManyNames("b", slots)...)
	backends[0].Weight = 1 << 31
	table, err := chash.NewMaglev(backends, chash.WithTableSize(slots))
	require.NoError(t, err)
	heavy, heavySlot := backends[0].Name, uint64(0)
	for slot := range uint64(slots) {
		if chashtest.Must(table.GetHash(slot)) == heavy {
			heavySlot = slot
			continue
		}
		_, err := table.AcquireHash(slot)
		require.NoError(t, err)
	}
	far := ""
	for i := 0; far == ""; i++ {
		key := fmt.Sprint("key-", i)
		if slices.Index(chashtest.Must(table.GetN(key, slots)), heavy) > slots*3/4 {
			far = key
		}
	}
	for range 20 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			lease, err := table.Acquire(far)
			if err != nil || lease.Value != heavy {
				t.Errorf("Acquire(%q) = %q, %v, want %q", far, lease.Value, err, heavy)
			}
			lease.Release()
		}()
		for waits := 0; table.Counted() < slots && waits < 1_000_000; waits++ {
		}
		costly, err := table.AcquireHash(heavySlot, chash.WithCost(2*slots))
		require.NoError(t, err)
		require.Equal(t, heavy, costly.Value)
		late := false
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Errorf("Acquire(%q) has no lease after 20 s, want one", far)
			late = true
		}
		costly.Release()
		<-done
		if late {
			break
		}
	}
}

// TestAcquire_HashPanics: the caller's hash is called once, on the caller's goroutine;
// where it panics nothing is counted and the structure goes on.
func TestAcquire_HashPanics(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		var calls atomic.Int64
		var panics atomic.Bool
		made, err := kind.New(chash.Named("a", "b", "c"), chash.WithHash(func(key string) uint64 {
			if key == "key" {
				calls.Add(1)
				if panics.Load() {
					panic("no hash")
				}
			}
			return xxhash.Sum64String(key)
		}))
		require.NoError(t, err)
		s := made.(bounded)
		lease := acquire(t, s, "other")
		panics.Store(true)
		for name, call := range map[string]func(){
			"Acquire":      func() { _, _ = s.Acquire("key") },
			"AcquireBytes": func() { _, _ = s.AcquireBytes([]byte("key")) },
			"AcquireFunc":  func() { _, _ = s.AcquireFunc("key", func(string) bool { return true }) },
		} {
			require.PanicsWithValue(t, "no hash", call, name)
			checkLoads(t, s, map[string]int64{lease.Value: 1})
			checkCounted(t, s, 1)
		}
		panics.Store(false)
		calls.Store(0)
		acquire(t, s, "key").Release()
		if got := calls.Load(); got != 1 {
			t.Errorf("calls of the hash function by Acquire = %d, want 1", got)
		}
		// One that begins again has its hash.
		rest := s.BeginAcquire("key", true)
		require.NoError(t, s.Set(chash.Named("d", "e")))
		panics.Store(true)
		again, err := rest()
		require.NoError(t, err)
		if !slices.Contains([]string{"d", "e"}, again.Value) {
			t.Errorf("Acquire(key) that begins again = %q, want d or e", again.Value)
		}
		again.Release()
		lease.Release()
		checkLoads(t, s, nil)
		checkCounted(t, s, 0)
	})
}

// TestAcquireNext_BeginsAgain: where the backends have changed, a rotation under way
// begins again among those of now, with the turn that it has.
func TestAcquireNext_BeginsAgain(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, n := range []int{3, 5, 200} {
			s := build(chash.Named(chashtest.ManyNames("b", 10)...))
			for range 7 {
				acquireNext(t, s).Release()
			}
			rest := s.BeginAcquire("", false)
			after := chashtest.ManyNames("x", n)
			require.NoError(t, s.Set(chash.Named(after...)))
			slices.Sort(after)
			if lease, err := rest(); err != nil || lease.Value != after[7%n] {
				t.Errorf("AcquireNext() of turn 7 that begins again among %d = %q, %v, want %q", n, lease.Value, err, after[7%n])
			}
		}
	})
}

// TestCounted_WhileAChangeWaits: while a change waits, in the middle, what counts is what
// counted before.
func TestCounted_WhileAChangeWaits(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		gate, reached := make(chan struct{}), make(chan struct{})
		var once sync.Once
		made, err := kind.New(chash.Named("a", "b"), chash.WithHash(func(key string) uint64 {
			if strings.Contains(key, "late") {
				once.Do(func() { close(reached) })
				<-gate
			}
			return xxhash.Sum64String(key)
		}))
		require.NoError(t, err)
		s := made.(bounded)
		lease := acquire(t, s, "key")
		set := make(chan error)
		go func() { set <- s.Set(chash.Named("late", "later")) }() // of one alone nothing need be hashed
		<-reached
		checkCounted(t, s, 1)
		second := acquire(t, s, "key")
		checkCounted(t, s, 2)
		close(gate)
		require.NoError(t, <-set)
		checkCounted(t, s, 0)
		lease.Release()
		second.Release()
		checkLoads(t, s, nil)
		checkCounted(t, s, 0)
	})
}

// TestStats_LoadsAddUp: the loads are together what is in flight, whatever comes and
// goes while they are read.
func TestStats_LoadsAddUp(t *testing.T) {
	chashtest.Threads(t)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named(chashtest.ManyNames("b", 20)...))
		const takers, reads = 4, 2000
		var quiet atomic.Bool
		chashtest.Together(takers+1, func(i int) int {
			if i == takers {
				defer quiet.Store(true)
				for range reads {
					stats := s.Stats()
					sum := int64(0)
					for _, load := range stats.Loads {
						sum += load
					}
					if sum != stats.InFlight {
						t.Errorf("loads = %v, together %d, want %d as are in flight", stats.Loads, sum, stats.InFlight)
						break
					}
				}
				return 0
			}
			for at := i; !quiet.Load(); at++ {
				acquire(t, s, fmt.Sprint("key-", at%50)).Release()
			}
			return 0
		})
	})
}
