package chash_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
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
)

// bounded is a structure with its leases, and with what tests see of them.
type bounded interface {
	structure
	Acquire(key string, opts ...chash.LeaseOption) (chash.Lease[string], error)
	AcquireBytes(key []byte, opts ...chash.LeaseOption) (chash.Lease[string], error)
	AcquireHash(hash uint64, opts ...chash.LeaseOption) (chash.Lease[string], error)
	AcquireFunc(key string, accept func(string) bool, opts ...chash.LeaseOption) (chash.Lease[string], error)
	AcquireNext(opts ...chash.LeaseOption) (chash.Lease[string], error)
	SetLoadFactor(factor float64) error
	SetLoadFloor(n float64) error
	Stats() chash.Stats
	Loads() map[string]int64
	InFlight() int64
	Counted() int64
	Watch(name string) func() (total, load int64)
	BeginAcquire(key string, keyed bool) func() (chash.Lease[string], error)
	Tallies() int
	HasQuotas() bool
	Turn(count int) string
}

// watched ends all tests where one, with what it waits for, takes longer than it ever
// should: where counters are wrong an Acquire may look for room without end.
func watched(t *testing.T) {
	t.Helper()
	name := t.Name()
	dog := time.AfterFunc(9*time.Minute, func() { panic(name + " does not end: a lease is looked for without end?") })
	t.Cleanup(func() { dog.Stop() })
}

// onBounded runs a test over both structures, which are small: their changes are
// many.
func onBounded(t *testing.T, test func(t *testing.T, build func(backends []chash.Backend[string], opts ...chash.Option) bounded)) {
	t.Helper()
	t.Run("maglev", func(t *testing.T) {
		watched(t)
		test(t, func(backends []chash.Backend[string], opts ...chash.Option) bounded {
			t.Helper()
			s, err := newMaglev(backends, chash.Options(opts...), chash.WithTableSize(1021))
			require.NoError(t, err)
			return s.(bounded)
		})
	})
	t.Run("ring", func(t *testing.T) {
		watched(t)
		test(t, func(backends []chash.Backend[string], opts ...chash.Option) bounded {
			t.Helper()
			s, err := newRing(backends, chash.Options(opts...), chash.WithReplicas(20))
			require.NoError(t, err)
			return s.(bounded)
		})
	})
}

// acquire takes a lease. If it fails, so does the test, and the lease is that of
// no backend. Any goroutine may call it.
func acquire(t *testing.T, s bounded, key string) *chash.Lease[string] {
	t.Helper()
	lease, err := s.Acquire(key)
	if err != nil {
		t.Errorf("Acquire(%q) = %v, want no error", key, err)
	}
	return &lease
}

// acquireNext is acquire without a key.
func acquireNext(t *testing.T, s bounded) *chash.Lease[string] {
	t.Helper()
	lease, err := s.AcquireNext()
	if err != nil {
		t.Errorf("AcquireNext() = %v, want no error", err)
	}
	return &lease
}

// checkLoads checks the loads of all backends; where none is given it is 0. It checks too
// that those of the backends which can get a lease are what bounds go by.
func checkLoads(t *testing.T, s bounded, want map[string]int64) {
	t.Helper()
	if got := s.Loads(); !maps.Equal(got, want) {
		t.Errorf("loads = %v, want %v", got, want)
	}
	sum := int64(0)
	for _, n := range want {
		sum += n
	}
	if got := s.InFlight(); got != sum {
		t.Errorf("in flight = %d, want %d", got, sum)
	}
	backends := map[string]chash.Backend[string]{}
	for _, b := range s.Backends() {
		backends[b.Name] = b
	}
	counted := int64(0)
	for _, b := range answeringOf(backends) {
		counted += want[b.Name]
	}
	if got := s.Counted(); got != counted {
		t.Errorf("in flight as bounds go by it = %d, want %d of %v", got, counted, want)
	}
}

// boundOf is ceil(c * total * weight / healthy), exactly.
func boundOf(c float64, total int64, weight uint32, healthy int64) int64 {
	bound := new(big.Rat).SetFloat64(c)
	bound.Mul(bound, big.NewRat(total*int64(weight), healthy))
	floor := new(big.Int).Quo(bound.Num(), bound.Denom())
	switch {
	case !floor.IsInt64():
		return math.MaxInt64
	case bound.IsInt():
		return floor.Int64()
	}
	return floor.Int64() + 1
}

func TestBoundOf(t *testing.T) {
	for _, test := range []struct {
		c       float64
		total   int64
		weight  uint32
		healthy int64
		want    int64
	}{
		{1.25, 1, 1, 10, 1}, {1.25, 8, 1, 10, 1}, {1.25, 9, 1, 10, 2}, {1.25, 16, 1, 10, 2}, {2, 5, 3, 3, 10}, {1.5, 7, 2, 4, 6},
	} {
		if got := boundOf(test.c, test.total, test.weight, test.healthy); got != test.want {
			t.Errorf("boundOf(%v, %d, %d, %d) = %d, want %d", test.c, test.total, test.weight, test.healthy, got, test.want)
		}
	}
}

// zipf returns a draw of keys of which few are hot.
func zipf(random *rand.Rand, keys uint64) func() string {
	z := rand.NewZipf(random, 1.2, 1, keys-1)
	return func() string { return fmt.Sprint("key-", z.Uint64()) }
}

// A ledgerTwin is what leases are to do, one after the other, in exact numbers.
type ledgerTwin struct {
	factor, floor float64
	backends      map[string]chash.Backend[string]
	loads         map[string]int64
	turn          int // of those that came without a key
	among         int // leases for which all that were accepted were full
}

// inFlight is the sum of all loads.
func (w *ledgerTwin) inFlight() int64 {
	sum := int64(0)
	for _, load := range w.loads {
		sum += load
	}
	return sum
}

// counted is the sum of the loads that count towards a bound: of the backends which can
// get a lease, or of those that are named.
func (w *ledgerTwin) counted(names ...string) (total, weights int64) {
	for _, b := range answeringOf(w.backends) {
		if names == nil || slices.Contains(names, b.Name) {
			total += w.loads[b.Name]
			weights += int64(b.Weight)
		}
	}
	return total, weights
}

// rotation is the order for a lease without a key, whose turn this takes. Whose turn it
// is, the structure itself says; TestNext and TestRotation show that.
func (w *ledgerTwin) rotation(s bounded) []string {
	var order []string
	for _, b := range answeringOf(w.backends) {
		order = append(order, b.Name)
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortFunc(order, func(a, b string) int {
		return strings.Compare(cmp.Or(w.backends[a].HashKey, a), cmp.Or(w.backends[b].HashKey, b))
	})
	at := slices.Index(order, s.Turn(w.turn))
	w.turn++
	return slices.Concat(order[at:], order[:at])
}

// first returns the first of those names whose load is below its bound for a total
// and a sum of weights.
func (w *ledgerTwin) first(order []string, total, weights int64) string {
	for _, name := range order {
		weight := int64(w.backends[name].Weight)
		bound := new(big.Rat).SetFloat64(w.factor)
		bound.Mul(bound, big.NewRat(total*weight, weights))
		least := new(big.Rat).SetFloat64(w.floor)
		least.Mul(least, big.NewRat(weight, 1))
		if load := big.NewRat(w.loads[name], 1); load.Cmp(bound) < 0 || load.Cmp(least) < 0 {
			return name
		}
	}
	return ""
}

// acquire returns the backend that the next lease of a key is to be on, given the
// key's order of preference, and counts it. A nil accept takes every one.
func (w *ledgerTwin) acquire(order []string, cost int64, accept func(string) bool) string {
	total, weights := w.counted()
	if accept != nil {
		order = slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !accept(name) })
	}
	if len(order) == 0 {
		return ""
	}
	name := w.first(order, total+cost, weights)
	if name == "" { // among those alone
		w.among++
		total, weights = w.counted(order...)
		name = w.first(order, total+cost, weights)
	}
	w.loads[name] += cost
	return name
}

func (w *ledgerTwin) release(name string, cost int64) {
	if w.loads[name] -= cost; w.loads[name] == 0 {
		delete(w.loads, name)
	}
}

// A twinLease is a lease and what it costs.
type twinLease struct {
	*chash.Lease[string]
	cost int64
}

// TestAcquire_Twin compares every lease with the twin's, through changes of
// everything: states, weights, shared placements, removals and returns.
func TestAcquire_Twin(t *testing.T) {
	factors := []float64{chash.DefaultLoadFactor, 1.5, 1.0625, 1 + 0x1p-40, 8, math.MaxFloat64}
	floors := []float64{0, 0, 2, 0.25, 7.5}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		refused, among := 0, 0
		for seed, first := range factors {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			key := zipf(random, 40)
			w := &ledgerTwin{factor: first, floor: floors[seed%len(floors)], backends: map[string]chash.Backend[string]{}, loads: map[string]int64{}}
			var opts []chash.Option
			if first != chash.DefaultLoadFactor {
				opts = append(opts, chash.WithLoadFactor(first))
			}
			s := build(nil, append(opts, chash.WithLoadFloor(w.floor))...)
			fresh := func(name string) chash.Backend[string] {
				b := chash.Backend[string]{Name: name, Value: name, Weight: 1 + random.Uint32N(6)}
				if random.IntN(3) == 0 {
					b.HashKey = fmt.Sprint("shared-", random.IntN(3))
				}
				return b
			}
			names := manyNames("b", 12)
			var leases []twinLease
			for range 3000 {
				name := names[random.IntN(len(names))]
				b, known := w.backends[name]
				switch op := random.IntN(100); {
				case op < 48:
					key, cost := key(), int64(1)
					var opts []chash.LeaseOption
					if random.IntN(3) == 0 {
						cost = 1 + random.Int64N(20)
						opts = append(opts, chash.WithCost(99), chash.WithCost(cost))
					}
					order, _ := s.GetN(key, len(names))
					var accept func(string) bool
					call, take := fmt.Sprintf("Acquire(%q)", key), func() (chash.Lease[string], error) { return s.Acquire(key, opts...) }
					switch random.IntN(6) {
					case 0:
						call, take = "AcquireNext()", func() (chash.Lease[string], error) { return s.AcquireNext(opts...) }
						order = w.rotation(s)
					case 1:
						call, take = fmt.Sprintf("AcquireBytes(%q)", key), func() (chash.Lease[string], error) { return s.AcquireBytes([]byte(key), opts...) }
					case 2, 3:
						set := random.Uint32N(1<<12) & random.Uint32N(1<<12)
						accept = func(name string) bool { return set>>slices.Index(names, name)&1 != 0 }
						call = fmt.Sprintf("AcquireFunc(%q, %b)", key, set)
						take = func() (chash.Lease[string], error) { return s.AcquireFunc(key, accept, opts...) }
					}
					want := w.acquire(order, cost, accept)
					lease, err := take()
					if want == "" {
						refused++
						wantErr := chash.ErrNoneAccepted
						if len(order) == 0 {
							wantErr = chash.ErrNoHealthyBackends
							if len(w.backends) == 0 {
								wantErr = chash.ErrNoBackends
							}
						}
						if err != wantErr {
							t.Fatalf("%s with factor %v = %q, %v, want %v; preferred are %q", call, w.factor, lease.Value, err, wantErr, order)
						}
						break
					}
					if err != nil || lease.Value != want {
						t.Fatalf("%s of cost %d with factor %v, floor %v = %q, %v, want %q; preferred are %q", call, cost, w.factor, w.floor, lease.Value, err, want, order)
					}
					leases = append(leases, twinLease{&lease, cost})
				case op < 90 && len(leases) > 0:
					i := random.IntN(len(leases))
					leases[i].Release()
					w.release(leases[i].Value, leases[i].cost)
					leases = slices.Delete(leases, i, i+1)
				case op < 94 && known:
					b.Weight = 1 + random.Uint32N(6)
					require.NoError(t, s.SetWeight(name, b.Weight))
					w.backends[name] = b
				case op < 95 && known:
					w.factor, w.floor = factors[random.IntN(len(factors))], floors[random.IntN(len(floors))]
					require.NoError(t, s.SetLoadFactor(w.factor))
					require.NoError(t, s.SetLoadFloor(w.floor))
				case op < 97 && known:
					require.NoError(t, s.Remove(name))
					delete(w.backends, name)
				case known:
					b.State = chash.State(random.IntN(3))
					require.NoError(t, s.SetState(name, b.State))
					w.backends[name] = b
				default:
					w.backends[name] = fresh(name)
					require.NoError(t, s.Add(w.backends[name]))
				}
				counted, _ := w.counted()
				if !maps.Equal(s.Loads(), w.loads) || s.InFlight() != w.inFlight() || s.Counted() != counted {
					t.Fatalf("loads with factor %v = %v, together %d, of which count %d, want %v, together %d, of which count %d",
						w.factor, s.Loads(), s.InFlight(), s.Counted(), w.loads, w.inFlight(), counted)
				}
			}
			if len(leases) < 10 {
				t.Errorf("leases in the end, begun with factor %v = %d, want 10 at least: the test shows little", first, len(leases))
			}
			for _, lease := range leases {
				lease.Release()
			}
			checkLoads(t, s, nil)
			among += w.among
		}
		if refused == 0 || among < 20 {
			t.Errorf("leases refused = %d, leases among full backends = %d, want some and 20 at least: the test shows little", refused, among)
		}
	})
}

// TestAcquire_Unloaded: where there is room a key goes where Get sends it.
func TestAcquire_Unloaded(t *testing.T) {
	backends := chash.Named(manyNames("b", 9)...)
	backends[3].State = chash.Unhealthy
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for name, opt := range map[string]chash.Option{"": nil, "seeded": chash.WithSeed(7), "own hash": chash.WithHash(xxhash.Sum64String)} {
			s := build(backends, opt)
			for _, key := range sampleKeys {
				lease := acquire(t, s, key)
				if want := must(s.Get(key)); lease.Value != want {
					t.Errorf("Acquire(%q), %s = %q, want %q", key, name, lease.Value, want)
				}
				lease.Release()
			}
			checkLoads(t, s, nil)
		}
	})
}

// TestAcquire_Overflow: the leases of one hot key fill up the backends in its
// order of preference, each to its bound. With ten equal backends and factor 1.25
// the bound is 1 for up to 8 leases, and 2 from the ninth on.
func TestAcquire_Overflow(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named(manyNames("b", 10)...))
		for _, key := range sampleKeys[:20] {
			order := must(s.GetN(key, 10))
			want := slices.Concat(order[:8], order[:8])
			var leases []*chash.Lease[string]
			for i := range want {
				lease := acquire(t, s, key)
				if lease.Value != want[i] {
					t.Errorf("lease %d of %q = %q, want %q", i, key, lease.Value, want[i])
				}
				leases = append(leases, lease)
			}
			// Who overflows goes to the same backend each time, and home as soon as
			// there is room.
			for _, i := range []int{15, 3, 15, 0, 7, 8, 15} {
				leases[i].Release()
				if leases[i] = acquire(t, s, key); leases[i].Value != want[i] {
					t.Errorf("lease %d of %q, again = %q, want %q", i, key, leases[i].Value, want[i])
				}
			}
			for _, lease := range leases {
				lease.Release()
			}
			checkLoads(t, s, nil)
		}
	})
}

// TestAcquire_Fails: the errors are those of lookups, bare; no lease is counted,
// no counter made, and the lease that comes with them can be released.
func TestAcquire_Fails(t *testing.T) {
	sick := chash.Named("a", "b", "c")
	sick[0].State, sick[1].State, sick[2].State = chash.Unhealthy, chash.Draining, chash.Unhealthy
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		check := func(s bounded, want error, used bool) {
			t.Helper()
			for range 3 {
				lease, err := s.Acquire("key")
				if err != want || lease.Value != "" {
					t.Errorf("Acquire(key) = %q, %v, want \"\", %v", lease.Value, err, want)
				}
				lease.Release()
				turn, err := s.AcquireNext()
				if err != want || turn.Value != "" {
					t.Errorf("AcquireNext() = %q, %v, want \"\", %v", turn.Value, err, want)
				}
				turn.Release()
			}
			checkLoads(t, s, nil)
			if got := s.HasQuotas(); got != used {
				t.Errorf("counters made = %t, want %t", got, used)
			}
		}
		s := build(nil)
		check(s, chash.ErrNoBackends, false)
		require.NoError(t, s.Add(sick...))
		check(s, chash.ErrNoHealthyBackends, false)
		require.NoError(t, s.SetState("a", chash.Healthy))
		acquire(t, s, "key").Release()
		require.NoError(t, s.SetState("a", chash.Unhealthy))
		check(s, chash.ErrNoHealthyBackends, true)
		s.Clear()
		check(s, chash.ErrNoBackends, true)
	})
	var zero chash.Lease[string]
	zero.Release()
}

// TestAcquire_Lazily: a structure whose leases nobody asks for has no counters,
// and the first Acquire rebuilds nothing.
func TestAcquire_Lazily(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b", "c"), chash.WithLoadFactor(2))
		require.NoError(t, s.Add(chash.Named("d", "e")...))
		require.NoError(t, s.SetState("a", chash.Unhealthy))
		require.NoError(t, s.SetState("b", chash.Draining))
		require.NoError(t, s.Remove("c"))
		require.NoError(t, s.SetWeight("d", 3))
		require.NoError(t, s.SetValue("e", "E"))
		must(s.Get("key"))
		if s.HasQuotas() || s.Tallies() != 0 {
			t.Errorf("counters made before Acquire = %d, want none", s.Tallies())
		}
		checkLoads(t, s, nil)
		before := stateOf(s)
		lease := acquire(t, s, "key")
		checkState(t, s, "Acquire", before)
		// One for each backend that leads a healthy placement.
		if got := s.Tallies(); got != 2 {
			t.Errorf("counters made by Acquire = %d, want 2", got)
		}
		lease.Release()
		checkState(t, s, "Release", before)
		if clone := s.Clone().(bounded); clone.HasQuotas() || clone.Tallies() != 0 {
			t.Errorf("counters of a clone = %d, want none", clone.Tallies())
		}
	})
	if chash.TallySize < 128 {
		t.Errorf("size of a counter = %d, want cache lines of its own, which is 128 at least", chash.TallySize)
	}
}

// TestAcquire_FirstOnesTogether: however many come first at once, they count with
// one set of counters. A change of the membership is held up where it hashes, so
// that they all come before the counters are made.
func TestAcquire_FirstOnesTogether(t *testing.T) {
	for _, kind := range structures {
		t.Run(kind.name, func(t *testing.T) {
			gate, reached := make(chan struct{}), make(chan struct{})
			var once sync.Once
			made, err := kind.make(chash.Named(manyNames("b", 7)...), chash.WithHash(func(key string) uint64 {
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
			leases := together(holders, func(i int) *chash.Lease[string] {
				begun.Add(1)
				return acquire(t, s, fmt.Sprint("key-", i))
			})
			require.NoError(t, <-added)
			want := map[string]int64{}
			for _, lease := range leases {
				want[lease.Value]++
			}
			checkLoads(t, s, want)
			together(holders, func(i int) int { leases[i].Release(); return 0 })
			checkLoads(t, s, nil)
		})
	}
}

// together calls f in n goroutines that begin at once, and returns the results.
func together[R any](n int, f func(i int) R) []R {
	results := make([]R, n)
	gate := make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		done.Add(1)
		go func() {
			defer done.Done()
			<-gate
			results[i] = f(i)
		}()
	}
	close(gate)
	done.Wait()
	return results
}

// threads has goroutines run on more threads than there may be processors, so that the
// system takes the processor away from one at any instruction while the others go on.
// On two busy processors with a thread each, a mistake in between goes unseen.
func threads(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// inStep is for how many rounds a pair runs: enough that the two meet within a few
// instructions many times, if there are two processors.
const inStep = 30000

// pair calls f in two goroutines, which begin each round at about the same time.
// The last to come has a lead, as the other has yet to hear of it, and waits for
// longer and longer, over and over, to make up for that. The first to come waits
// for the other, which may be a whole time slice away from having a processor; but
// for a second in all, where it seldom has one.
func pair(f func(i, round int)) {
	const patience = 10_000 // after which the other may need this one's processor
	late := time.Now().Add(time.Second)
	var begun, idle atomic.Int64
	together(2, func(i int) int {
		alone := false // it has waited for long enough
		for round := range inStep {
			if both := int64(2*round + 2); begun.Add(1) == both {
				for range round % 256 {
					idle.Load()
				}
			} else {
				for waits := 0; begun.Load() < both && !alone; waits++ {
					if waits > patience {
						alone = time.Now().After(late)
						runtime.Gosched()
					}
				}
			}
			f(i, round)
		}
		return 0
	})
}

// TestAcquire_LastPlace: of two who come for a backend's last place at the same
// time one gets it, and the other goes on. With three equal backends and up to two
// leases each has one place.
func TestAcquire_LastPlace(t *testing.T) {
	threads(t)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b", "c"))
		var taken [3]atomic.Int64
		var shared atomic.Int64
		pair(func(int, int) {
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
	for _, kind := range structures {
		t.Run(kind.name, func(t *testing.T) {
			gate, reached := make(chan struct{}), make(chan struct{})
			var once sync.Once
			made, err := kind.make(chash.Named("a", "b", "c"), chash.WithHash(func(key string) uint64 {
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
			for _, key := range sampleKeys[:100] {
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
}

// TestLoads_BelongToNames: they outlive states, weights, values, rebuilds and a
// removal, until the last lease is released.
func TestLoads_BelongToNames(t *testing.T) {
	all := chash.Named("a", "b", "c", "d")
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		changes := []struct {
			name string
			call func(s bounded, name string) error
		}{
			{"SetState to Unhealthy", func(s bounded, name string) error { return s.SetState(name, chash.Unhealthy) }},
			{"SetState to Healthy", func(s bounded, name string) error { return s.SetState(name, chash.Healthy) }},
			{"SetState to Draining", func(s bounded, name string) error { return s.SetState(name, chash.Draining) }},
			{"SetWeight", func(s bounded, name string) error { return s.SetWeight(name, 5) }},
			{"SetValue", func(s bounded, name string) error { return s.SetValue(name, "new") }},
			{"Remove", func(s bounded, name string) error { return s.Remove(name) }},
			{"a change without it", func(s bounded, _ string) error { return s.Add(chash.Named("e")...) }},
			{"Clear", func(s bounded, _ string) error { s.Clear(); return nil }},
			{"Add under the name", func(s bounded, name string) error {
				return s.Add(chash.Backend[string]{Name: name, HashKey: "elsewhere", Value: name})
			}},
			{"Set", func(s bounded, _ string) error { return s.Set(all) }},
		}
		s := build(all)
		first, second := acquire(t, s, "key"), acquire(t, s, "key")
		name := first.Value
		want := map[string]int64{name: 1}
		want[second.Value]++
		for _, change := range changes {
			require.NoError(t, change.call(s, name), change.name)
			checkLoads(t, s, want)
			if first.Value != name {
				t.Errorf("Value of a lease after %s = %q, want %q", change.name, first.Value, name)
			}
		}
		// The load is found again, and not only shown: at factor 1.25 a second lease
		// of four backends goes elsewhere.
		second.Release()
		if got := acquire(t, s, "key"); got.Value == name {
			t.Errorf("Acquire(key) with a lease on its backend from before = %q, want another", name)
		} else {
			got.Release()
		}
		checkLoads(t, s, map[string]int64{name: 1})
		first.Release()
		checkLoads(t, s, nil)
		again := acquire(t, s, "key")
		if again.Value != name {
			t.Errorf("Acquire(key) after Release = %q, want %q", again.Value, name)
		}
		again.Release()
	})
}

// TestRelease_AfterRemoval: a removed backend's counter stays until its leases
// are released, and goes with the next change; what is added under its name
// after that begins at zero.
func TestRelease_AfterRemoval(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a"))
		lease := acquire(t, s, "key")
		idle := acquire(t, s, "key")
		idle.Release()
		require.NoError(t, s.Set(chash.Named("b", "c")))
		checkLoads(t, s, map[string]int64{"a": 1})
		if got := s.Tallies(); got != 3 {
			t.Errorf("counters with a removed backend's = %d, want 3", got)
		}
		lease.Release()
		checkLoads(t, s, nil)
		require.NoError(t, s.Remove("c"))
		if got := s.Tallies(); got != 1 {
			t.Errorf("counters once nothing is left of removed backends = %d, want 1", got)
		}
		require.NoError(t, s.Set(chash.Named("a")))
		lease.Release()
		idle.Release()
		checkLoads(t, s, nil)
		again := acquire(t, s, "key")
		lease.Release()
		checkLoads(t, s, map[string]int64{"a": 1})
		again.Release()

		// What never had a lease leaves nothing behind.
		for i := range 50 {
			require.NoError(t, s.Set(chash.Named(fmt.Sprint("x", i), fmt.Sprint("y", i))))
			acquire(t, s, "key").Release()
		}
		if got := s.Tallies(); got != 2 {
			t.Errorf("counters after 50 sets of two = %d, want 2", got)
		}
	})
}

// TestAcquire_OutdatedSnapshot holds an Acquire up where it hashes its key, with
// the state of before already in hand, and changes the membership meanwhile.
func TestAcquire_OutdatedSnapshot(t *testing.T) {
	for _, kind := range structures {
		for _, c := range []float64{chash.DefaultLoadFactor, math.MaxFloat64} {
			// heldUp returns what Acquire gives when change comes in between. The key
			// "slower" hashes like the one that is held up.
			heldUp := func(t *testing.T, change func(s bounded)) (bounded, *chash.Lease[string], error) {
				t.Helper()
				gate, reached := make(chan struct{}), make(chan struct{})
				var once sync.Once
				made, err := kind.make(chash.Named("a", "b", "c"), chash.WithLoadFactor(c), chash.WithHash(func(key string) uint64 {
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
			name := fmt.Sprintf("%s/factor=%v/", kind.name, c)

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
					gone := must(s.Get("slower"))
					require.NoError(t, s.Remove(gone))
					require.NoError(t, s.Add(chash.Backend[string]{Name: "new", Weight: 50, Value: "new"}))
					want = must(s.Get("slower"))
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
					require.NoError(t, s.SetState(must(s.Get("slower")), chash.Unhealthy))
					want = must(s.Get("slower"))
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
					for _, key := range sampleKeys[:30] {
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

// TestRelease_Once: a lease is given back once, however often and by however many
// it is released.
func TestRelease_Once(t *testing.T) {
	threads(t)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a"))
		kept := acquire(t, s, "key")
		for range 50 {
			lease := acquire(t, s, "key")
			together(64, func(int) int { lease.Release(); return 0 })
			lease.Release()
			checkLoads(t, s, map[string]int64{"a": 1})
		}
		leases := make([]*chash.Lease[string], inStep)
		for i := range leases {
			leases[i] = acquire(t, s, "key")
		}
		pair(func(_, round int) { leases[round].Release() })
		checkLoads(t, s, map[string]int64{"a": 1})
		kept.Release()
		checkLoads(t, s, nil)
	})
}

// TestLease_CopiesAreReported: a field with Lock and Unlock is what vet goes by.
func TestLease_CopiesAreReported(t *testing.T) {
	var guarded func(typ reflect.Type) bool
	guarded = func(typ reflect.Type) bool {
		_, lock := reflect.PointerTo(typ).MethodByName("Lock")
		_, unlock := reflect.PointerTo(typ).MethodByName("Unlock")
		if lock && unlock {
			return true
		}
		for i := range typ.NumField() {
			if field := typ.Field(i).Type; field.Kind() == reflect.Struct && guarded(field) {
				return true
			}
		}
		return false
	}
	if !guarded(reflect.TypeFor[chash.Lease[string]]()) {
		t.Error("vet reports copies of a Lease = false, want true")
	}
}

// TestClone_Leases: a clone has loads of its own and the same factor.
func TestClone_Leases(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b"), chash.WithLoadFactor(1.5))
		lease := acquire(t, s, "key")
		clone := s.Clone().(bounded)
		checkLoads(t, clone, nil)
		// Bounds of two equal backends at 1.5: 1, 2, 3, 3; at 1.25 the second would be 2
		// as well and the third 2.
		want := []string{lease.Value, lease.Value, lease.Value}
		var got []string
		var leases []*chash.Lease[string]
		for range want {
			l := acquire(t, clone, "key")
			got, leases = append(got, l.Value), append(leases, l)
		}
		if !slices.Equal(got, want) {
			t.Errorf("leases of a clone = %q, want %q", got, want)
		}
		checkLoads(t, clone, map[string]int64{lease.Value: 3})
		checkLoads(t, s, map[string]int64{lease.Value: 1})
		require.NoError(t, s.Remove(lease.Value))
		for _, l := range leases {
			l.Release()
		}
		checkLoads(t, clone, nil)
		checkLoads(t, s, map[string]int64{lease.Value: 1})
		lease.Release()
		checkLoads(t, s, nil)
	})
}

// TestAcquire_StandIn: the bound goes by the weight of the backend that answers,
// not by that of a heavier one which shares its placement and is unhealthy.
func TestAcquire_StandIn(t *testing.T) {
	backends := []chash.Backend[string]{
		{Name: "heavy", HashKey: "shared", Weight: 9, Value: "heavy"},
		{Name: "light", HashKey: "shared", Weight: 1, Value: "light"},
		{Name: "other", Weight: 1, Value: "other"},
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		var key string
		for _, key = range sampleKeys {
			if must(s.Get(key)) == "heavy" {
				break
			}
		}
		check := func(want map[string]int64) {
			t.Helper()
			var leases []*chash.Lease[string]
			for range 8 {
				leases = append(leases, acquire(t, s, key))
			}
			checkLoads(t, s, want)
			for _, lease := range leases {
				lease.Release()
			}
		}
		check(map[string]int64{"heavy": 8}) // the bound is ceil(1.25*8*9/10) = 9
		require.NoError(t, s.SetState("heavy", chash.Unhealthy))
		// Bounds of 1 to 8 leases: 1, 2, 2, 3, 4, 4, 5, 5.
		check(map[string]int64{"light": 5, "other": 3})
		require.NoError(t, s.SetState("heavy", chash.Healthy))
		check(map[string]int64{"heavy": 8})
	})
}

// invalidLoadFactors are some, each with what an error is to say.
var invalidLoadFactors = map[float64]string{
	1: "1", math.Nextafter(1, 0): "0.9999999999999999", 0.5: "0.5", 0: "0", -1.5: "-1.5",
	math.NaN(): "NaN", math.Inf(1): "+Inf", math.Inf(-1): "-Inf",
}

func TestWithLoadFactor_Invalid(t *testing.T) {
	for c, text := range invalidLoadFactors {
		for _, kind := range structures {
			s, err := kind.make(chash.Named("a"), chash.WithLoadFactor(c))
			checkError(t, fmt.Sprintf("New(%s, WithLoadFactor(%v))", kind.name, c), err, chash.ErrInvalidOption, text)
			if s != nil {
				t.Errorf("New(%s, WithLoadFactor(%v)) = a structure, want none", kind.name, c)
			}
		}
	}
	// The last one counts, like of all options.
	for _, kind := range structures {
		_, err := kind.make(nil, chash.WithLoadFactor(0), chash.WithLoadFactor(math.Nextafter(1, 2)))
		require.NoError(t, err)
	}
}

// TestSetLoadFactor: it holds from the next lease on, for a structure with counters
// and for one without, and rebuilds nothing; a clone has what its origin had.
func TestSetLoadFactor(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, used := range []bool{false, true} {
			s := build(chash.Named("a", "b", "c", "d"))
			if used {
				acquire(t, s, "key").Release()
			}
			before := stateOf(s)
			clone := s.Clone().(bounded)
			require.NoError(t, s.SetLoadFactor(3))
			checkState(t, s, "SetLoadFactor", before)
			if got := s.HasQuotas(); got != used {
				t.Errorf("counters made after SetLoadFactor = %t, want %t", got, used)
			}
			home := must(s.Get("key"))
			// The bound of one of four equal backends is ceil(3/4*total): a third
			// lease of 3 still finds room, the fourth does not.
			for i, want := range []bool{true, true, true, false} {
				if got := acquire(t, s, "key").Value; (got == home) != want {
					t.Errorf("lease %d of one key with factor 3 = %q; on %q = %t, want %t", i, got, home, !want, want)
				}
			}
			loads := s.Loads()
			require.NoError(t, s.SetLoadFactor(1.25))
			checkLoads(t, s, loads)
			if got := acquire(t, s, "key").Value; got == home {
				t.Errorf("lease beyond the bound of factor 1.25 = %q, want another", got)
			}
			acquire(t, clone, "key")
			if got := acquire(t, clone, "key").Value; got == home {
				t.Errorf("second lease of a clone made before SetLoadFactor = %q, want another", got)
			}
			require.NoError(t, s.SetLoadFactor(1.5))
			if got := s.Stats().LoadFactor; got != 1.5 {
				t.Errorf("LoadFactor = %v, want 1.5", got)
			}
			if got := clone.Stats().LoadFactor; got != chash.DefaultLoadFactor {
				t.Errorf("LoadFactor of the clone = %v, want %v", got, chash.DefaultLoadFactor)
			}
		}
	})
}

func TestSetLoadFactor_Invalid(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b"), chash.WithLoadFactor(2))
		for c, text := range invalidLoadFactors {
			checkError(t, fmt.Sprintf("SetLoadFactor(%v)", c), s.SetLoadFactor(c), chash.ErrInvalidOption, text)
		}
		if got := s.Stats().LoadFactor; got != 2 {
			t.Errorf("LoadFactor after failing calls = %v, want 2", got)
		}
	})
}

// TestAcquireNext: without a bound in the way leases go round as Next does, and
// take turns with it.
func TestAcquireNext(t *testing.T) {
	backends := []chash.Backend[string]{
		backend("a", "", 2, 0), backend("b", "", 1, 0), backend("c", "", 1, chash.Unhealthy), backend("d", "0", 1, 0), backend("e", "", 1, chash.Draining),
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends, chash.WithLoadFactor(100))
		for round := range 4 {
			for i, want := range []string{"a", "d", "b", "a"} {
				if (round+i)%2 == 0 {
					if got := must(s.Next()); got != want {
						t.Errorf("Next() in round %d = %q, want %q", round, got, want)
					}
					continue
				}
				lease := acquireNext(t, s)
				if lease.Value != want {
					t.Errorf("AcquireNext() in round %d = %q, want %q", round, lease.Value, want)
				}
				lease.Release()
			}
		}
		checkLoads(t, s, nil)
	})
}

// TestAcquireNext_PastManyFull: a turn whose backend is full goes on to the next one
// with room, however far that is, and round where the last one is full.
func TestAcquireNext_PastManyFull(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	w := &ledgerTwin{factor: chash.DefaultLoadFactor, backends: map[string]chash.Backend[string]{}, loads: map[string]int64{}}
	backends := chash.Named(manyNames("b", 200)...)
	backends[70].Weight = 1 << 20 // so that the others have room for one lease each
	for i := range backends {
		backends[i].Weight = max(backends[i].Weight, 1)
		if i%3 == 1 && i != 70 {
			backends[i].State = chash.Unhealthy
		}
		w.backends[backends[i].Name] = backends[i]
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		clear(w.loads)
		w.turn = 0
		s := build(backends)
		var leases []*chash.Lease[string]
		for i := range 1000 {
			if i > 300 && random.IntN(4) == 0 {
				at := random.IntN(len(leases))
				w.release(leases[at].Value, 1)
				leases[at].Release()
				leases = slices.Delete(leases, at, at+1)
			}
			want := w.acquire(w.rotation(s), 1, nil)
			lease := acquireNext(t, s)
			if lease.Value != want {
				t.Fatalf("AcquireNext() number %d = %q, want %q", i, lease.Value, want)
			}
			leases = append(leases, lease)
		}
		checkLoads(t, s, w.loads)
	})
}

func TestAcquire_DoesNotAllocate(t *testing.T) {
	for _, kind := range structures {
		for _, c := range allocationCases() {
			t.Run(kind.name+"/"+c.name, func(t *testing.T) {
				made, err := kind.make(c.backends, c.opts...)
				require.NoError(t, err)
				s := made.(bounded)
				for _, held := range []int{0, 30} { // those behind it go past full backends
					for range held {
						_, _ = s.Acquire("key")
					}
					for _, key := range append(allocationKeys, "key") {
						if got := testing.AllocsPerRun(20, func() {
							lease, _ := s.Acquire(key)
							lease.Release()
						}); got != 0 {
							t.Errorf("allocations of Acquire and Release with a key of %d bytes = %v, want 0", len(key), got)
						}
					}
					if got := testing.AllocsPerRun(20, func() {
						lease, _ := s.AcquireNext()
						lease.Release()
					}); got != 0 {
						t.Errorf("allocations of AcquireNext and Release = %v, want 0", got)
					}
				}
			})
		}
	}
}

// TestAcquire_PastManyFull: a hot key's walk past more full backends than a
// cursor tells apart without allocating does not allocate either.
func TestAcquire_PastManyFull(t *testing.T) {
	backends := chash.Named(manyNames("b", 200)...)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		order := must(s.GetN("key", 200))
		for i := range 160 { // which is up to where the bound is 1
			if lease := acquire(t, s, "key"); lease.Value != order[i] {
				t.Fatalf("lease %d = %q, want %q", i, lease.Value, order[i])
			}
			if i%20 == 0 {
				if got := testing.AllocsPerRun(5, func() {
					lease, _ := s.Acquire("key")
					lease.Release()
				}); got != 0 {
					t.Errorf("allocations of Acquire and Release past %d full backends = %v, want 0", i+1, got)
				}
			}
		}
	})
}

// weightedBackends are backends of different weights, some unhealthy, and the sum
// of the weights of the others.
func weightedBackends(n int) (backends []chash.Backend[string], weights map[string]uint32, healthy int64) {
	backends = chash.Named(manyNames("b", n)...)
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

const holders = 64

// TestAcquire_BoundWhileFilling: while leases are only taken, no load is ever
// above its bound, not even by 1, whatever races.
//
// Each lease raised its backend's load from n to n+1 where n was below the bound
// for a total read before; the total has not fallen since, and so the bound has
// not. The observer reads a load before the total, for the same reason.
func TestAcquire_BoundWhileFilling(t *testing.T) {
	threads(t)
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
			together(holders, func(i int) int {
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
			together(holders, func(i int) int {
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
			taken := together(holders, func(i int) int64 {
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
		together(holders, func(i int) int {
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
	threads(t)
	const c = chash.DefaultLoadFactor
	rounds := 600
	if testing.Short() {
		rounds = 200
	}
	weighted, weights, healthy := weightedBackends(11)
	equal, ones := chash.Named(manyNames("b", 80)...), map[string]uint32{}
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
				together(holders, func(i int) int {
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
		chash.Named(manyNames("x", 5)...), chash.Named(manyNames("y", 3)...),
	}
	sets[1] = append(sets[1], chash.Backend[string]{Name: "x0", HashKey: "y0", Weight: 3, Value: "x0"})
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(sets[0], chash.WithLoadFactor(1.01))
		var mu sync.Mutex
		held := map[int][]*chash.Lease[string]{} // by reader and round, in thousands
		readWhile(t, func(round int) error {
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

// The benchmarks hold a key's leases against the lookup that they begin with.

func BenchmarkAcquire(b *testing.B) {
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprintf("/user/%013d", i*i*7919)
	}
	for _, kind := range structures {
		made, err := kind.make(chash.Named(manyNames("backend-", 64)...))
		require.NoError(b, err)
		s := made.(bounded)
		name := kind.name + "/members=64/"
		one := func(key string) {
			lease, err := s.Acquire(key)
			if err != nil {
				b.Error(err)
			}
			lease.Release()
		}
		b.Run(name+"Get", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Get(keys[i%len(keys)]); err != nil {
					b.Error(err)
				}
			}
		})
		b.Run(name+"Acquire+Release", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				one(keys[i%len(keys)])
			}
		})
		b.Run(name+"Acquire+Release/parallel", func(b *testing.B) {
			b.ReportAllocs()
			var begun atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(begun.Add(1)) * 1000; pb.Next(); i++ {
					one(keys[i%len(keys)])
				}
			})
		})
		// Behind 48 leases of a hot key, three quarters of the backends are full.
		b.Run(name+"Acquire+Release/hot", func(b *testing.B) {
			for range 48 {
				lease, err := s.Acquire("hot")
				require.NoError(b, err)
				defer lease.Release()
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				one(keys[i%len(keys)])
			}
		})
	}
}
