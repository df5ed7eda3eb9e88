package chash_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// bounded is a structure with its leases, and with what tests see of them.
type bounded interface {
	chashtest.Structure
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
			s, err := chashtest.NewMaglev(backends, chash.Options(opts...), chash.WithTableSize(1021))
			require.NoError(t, err)
			return s.(bounded)
		})
	})
	t.Run("ring", func(t *testing.T) {
		watched(t)
		test(t, func(backends []chash.Backend[string], opts ...chash.Option) bounded {
			t.Helper()
			s, err := chashtest.NewRing(backends, chash.Options(opts...), chash.WithReplicas(20))
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
	for _, b := range chashtest.AnsweringOf(backends) {
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
	for _, b := range chashtest.AnsweringOf(w.backends) {
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
	for _, b := range chashtest.AnsweringOf(w.backends) {
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
			names := chashtest.ManyNames("b", 12)
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
	backends := chash.Named(chashtest.ManyNames("b", 9)...)
	backends[3].State = chash.Unhealthy
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for name, opt := range map[string]chash.Option{"": nil, "seeded": chash.WithSeed(7), "own hash": chash.WithHash(xxhash.Sum64String)} {
			s := build(backends, opt)
			for _, key := range chashtest.SampleKeys {
				lease := acquire(t, s, key)
				if want := chashtest.Must(s.Get(key)); lease.Value != want {
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
		s := build(chash.Named(chashtest.ManyNames("b", 10)...))
		for _, key := range chashtest.SampleKeys[:20] {
			order := chashtest.Must(s.GetN(key, 10))
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
		chashtest.Must(s.Get("key"))
		if s.HasQuotas() || s.Tallies() != 0 {
			t.Errorf("counters made before Acquire = %d, want none", s.Tallies())
		}
		checkLoads(t, s, nil)
		before := chashtest.StateOf(s)
		lease := acquire(t, s, "key")
		chashtest.CheckState(t, s, "Acquire", before)
		// One for each backend that leads a healthy placement.
		if got := s.Tallies(); got != 2 {
			t.Errorf("counters made by Acquire = %d, want 2", got)
		}
		lease.Release()
		chashtest.CheckState(t, s, "Release", before)
		if clone := s.Clone().(bounded); clone.HasQuotas() || clone.Tallies() != 0 {
			t.Errorf("counters of a clone = %d, want none", clone.Tallies())
		}
	})
	if chash.TallySize < 128 {
		t.Errorf("size of a counter = %d, want cache lines of its own, which is 128 at least", chash.TallySize)
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

// TestRelease_Once: a lease is given back once, however often and by however many
// it is released.
func TestRelease_Once(t *testing.T) {
	chashtest.Threads(t)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a"))
		kept := acquire(t, s, "key")
		for range 50 {
			lease := acquire(t, s, "key")
			chashtest.Together(64, func(int) int { lease.Release(); return 0 })
			lease.Release()
			checkLoads(t, s, map[string]int64{"a": 1})
		}
		leases := make([]*chash.Lease[string], chashtest.InStep)
		for i := range leases {
			leases[i] = acquire(t, s, "key")
		}
		chashtest.Pair(func(_, round int) { leases[round].Release() })
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
		for _, key = range chashtest.SampleKeys {
			if chashtest.Must(s.Get(key)) == "heavy" {
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
		for _, kind := range chashtest.Kinds {
			s, err := kind.New(chash.Named("a"), chash.WithLoadFactor(c))
			chashtest.CheckError(t, fmt.Sprintf("New(%s, WithLoadFactor(%v))", kind.Name, c), err, chash.ErrInvalidOption, text)
			if s != nil {
				t.Errorf("New(%s, WithLoadFactor(%v)) = a structure, want none", kind.Name, c)
			}
		}
	}
	// The last one counts, like of all options.
	for _, kind := range chashtest.Kinds {
		_, err := kind.New(nil, chash.WithLoadFactor(0), chash.WithLoadFactor(math.Nextafter(1, 2)))
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
			before := chashtest.StateOf(s)
			clone := s.Clone().(bounded)
			require.NoError(t, s.SetLoadFactor(3))
			chashtest.CheckState(t, s, "SetLoadFactor", before)
			if got := s.HasQuotas(); got != used {
				t.Errorf("counters made after SetLoadFactor = %t, want %t", got, used)
			}
			home := chashtest.Must(s.Get("key"))
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
			chashtest.CheckError(t, fmt.Sprintf("SetLoadFactor(%v)", c), s.SetLoadFactor(c), chash.ErrInvalidOption, text)
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
		chashtest.Backend("a", "", 2, 0), chashtest.Backend("b", "", 1, 0), chashtest.Backend("c", "", 1, chash.Unhealthy), chashtest.Backend("d", "0", 1, 0), chashtest.Backend("e", "", 1, chash.Draining),
	}
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends, chash.WithLoadFactor(100))
		for round := range 4 {
			for i, want := range []string{"a", "d", "b", "a"} {
				if (round+i)%2 == 0 {
					if got := chashtest.Must(s.Next()); got != want {
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
	backends := chash.Named(chashtest.ManyNames("b", 200)...)
	backends[70].Weight = 1 << 12 // so that the others have room for one lease each
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
	for _, kind := range chashtest.Kinds {
		for _, c := range chashtest.AllocationCases() {
			t.Run(kind.Name+"/"+c.Name, func(t *testing.T) {
				made, err := kind.New(c.Backends, c.Opts...)
				require.NoError(t, err)
				s := made.(bounded)
				for _, held := range []int{0, 30} { // those behind it go past full backends
					for range held {
						_, _ = s.Acquire("key")
					}
					for _, key := range append(chashtest.AllocationKeys, "key") {
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
	backends := chash.Named(chashtest.ManyNames("b", 200)...)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		order := chashtest.Must(s.GetN("key", 200))
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

const holders = 64

// The benchmarks hold a key's leases against the lookup that they begin with.

// TestAcquireFunc_Asks: accept is asked about each healthy placement in the key's order,
// once, up to the one that it takes.
func TestAcquireFunc_Asks(t *testing.T) {
	backends := chash.Named(chashtest.ManyNames("b", 50)...) // more than are told apart without allocating
	backends[2].State, backends[3].State = chash.Unhealthy, chash.Draining
	backends[4].HashKey, backends[5].HashKey = "shared", "shared"
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		for _, key := range chashtest.SampleKeys[:40] {
			order := chashtest.Must(s.GetN(key, 50))
			for _, stop := range []int{0, 1, 40, len(order) - 1, len(order)} {
				var asked []string
				lease, err := s.AcquireFunc(key, func(value string) bool {
					asked = append(asked, value)
					return len(asked) > stop
				})
				want, wantErr := "", chash.ErrNoneAccepted
				if stop < len(order) {
					want, wantErr = order[stop], nil
				}
				if lease.Value != want || err != wantErr || !slices.Equal(asked, order[:min(stop+1, len(order))]) {
					t.Errorf("AcquireFunc(%q) that refuses %d = %q, %v, want %q, %v; it asks for %q", key, stop, lease.Value, err, want, wantErr, asked)
				}
				lease.Release()
			}
			lease, err := s.AcquireFunc(key, nil)
			if err != nil || lease.Value != order[0] {
				t.Errorf("AcquireFunc(%q, nil) = %q, %v, want %q", key, lease.Value, err, order[0])
			}
			lease.Release()
		}
		checkCounted(t, s, 0)
	})
}

// TestAcquireFunc_AllFull: where all that accept takes are full they share what comes, by
// the bound among them alone, and accept is asked once all the same. Of 40 there are more
// than are told apart without allocating; with a factor of 1.01 the bound of 11 leads to
// the last of them.
func TestAcquireFunc_AllFull(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, n := range []int{1, 3, 40} {
			for _, factor := range []float64{1.25, 1.01} {
				s := build(chash.Named(chashtest.ManyNames("b", 100)...), chash.WithLoadFactor(factor))
				w := &ledgerTwin{factor: factor, backends: map[string]chash.Backend[string]{}, loads: map[string]int64{}}
				for _, b := range s.Backends() {
					w.backends[b.Name] = b
				}
				order := chashtest.Must(s.GetN("key", 100))
				takes := func(value string) bool { return slices.Contains(order[60-n:60], value) }
				for i := range 10 * n {
					asked := 0
					lease, err := s.AcquireFunc("key", func(value string) bool {
						asked++
						return takes(value)
					})
					if want := w.acquire(order, 1, takes); err != nil || lease.Value != want || asked > 100 {
						t.Fatalf("AcquireFunc(key) among %d with factor %v, number %d = %q, %v after asking %d times, want %q and 100 times at most",
							n, factor, i, lease.Value, err, asked, want)
					}
				}
				if most := int64(math.Ceil(factor * 10)); slices.Max(slices.Collect(maps.Values(s.Loads()))) > most {
					t.Errorf("loads of %d with factor %v = %v, want %d at most", n, factor, s.Loads(), most)
				}
			}
		}
	})
}

// TestAcquireFunc_AcceptMisbehaves: what accept does to the structure, or that it panics,
// leaves nothing counted that should not be.
func TestAcquireFunc_AcceptMisbehaves(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b", "c"))
		order := chashtest.Must(s.GetN("key", 3))
		require.PanicsWithValue(t, "no", func() {
			_, _ = s.AcquireFunc("key", func(value string) bool {
				checkCounted(t, s, 0) // what is only being chosen raises no bound
				if value == order[1] {
					panic("no")
				}
				return false
			})
		})
		checkLoads(t, s, nil)
		checkCounted(t, s, 0)

		// It takes a lease of its own.
		var inner chash.Lease[string]
		outer, err := s.AcquireFunc("key", func(value string) bool {
			if inner.Value == "" {
				inner, _ = s.Acquire("key")
			}
			return true
		})
		require.NoError(t, err)
		checkLoads(t, s, map[string]int64{order[0]: 1, order[1]: 1})
		if inner.Value != order[0] || outer.Value != order[1] {
			t.Errorf("leases inside and outside = %q, %q, want %q, %q", inner.Value, outer.Value, order[0], order[1])
		}
		outer.Release()
		inner.Release()

		// The backends change: it begins again among those of now.
		var asked []string
		lease, err := s.AcquireFunc("key", func(value string) bool {
			if asked = append(asked, value); len(asked) == 1 {
				require.NoError(t, s.Set(chash.Named(chashtest.ManyNames("d", 10)...)))
			}
			return true
		})
		if want := chashtest.Must(s.Get("key")); err != nil || lease.Value != want || !slices.Equal(asked, []string{order[0], want}) {
			t.Errorf("AcquireFunc(key) whose accept sets others = %q, %v after %q, want %q", lease.Value, err, asked, want)
		}
		lease.Release()

		// The only one that is taken, and is full, stops getting leases when all have been
		// asked about.
		require.NoError(t, s.Set(chash.Named("a", "b", "c")))
		order = chashtest.Must(s.GetN("key", 3))
		full := acquire(t, s, "key")
		asked = nil
		lease, err = s.AcquireFunc("key", func(value string) bool {
			if asked = append(asked, value); len(asked) == 3 {
				require.NoError(t, s.SetState(order[0], chash.Unhealthy))
			}
			return len(asked) == 1 || len(asked) > 3
		})
		if want := append(order, order[1]); err != nil || lease.Value != order[1] || !slices.Equal(asked, want) {
			t.Errorf("AcquireFunc(key) whose choice becomes unhealthy = %q, %v after %q, want %q after %q", lease.Value, err, asked, order[1], want)
		}
		checkLoads(t, s, map[string]int64{order[0]: 1, order[1]: 1})
		lease.Release()
		full.Release()

		_, err = s.AcquireFunc("key", func(string) bool {
			s.Clear()
			return true
		})
		if err != chash.ErrNoBackends {
			t.Errorf("AcquireFunc(key) whose accept clears = %v, want %v", err, chash.ErrNoBackends)
		}
		checkLoads(t, s, nil)
		checkCounted(t, s, 0)
	})
}

func TestAcquireHash(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named(chashtest.ManyNames("b", 9)...))
		random := rand.New(rand.NewPCG(4, 4))
		for range 500 {
			hash := random.Uint64()
			lease, err := s.AcquireHash(hash)
			if want := chashtest.Must(s.GetHash(hash)); err != nil || lease.Value != want {
				t.Errorf("AcquireHash(%#x) = %q, %v, want %q", hash, lease.Value, err, want)
			}
			lease.Release()
		}
		_, err := build(nil).AcquireHash(1)
		require.Equal(t, chash.ErrNoBackends, err)
	})
}

// takers are all calls that take a lease.
func takers(s bounded) map[string]func(opts ...chash.LeaseOption) (chash.Lease[string], error) {
	type call = func(opts ...chash.LeaseOption) (chash.Lease[string], error)
	return map[string]call{
		"Acquire": func(opts ...chash.LeaseOption) (chash.Lease[string], error) { return s.Acquire("key", opts...) },
		"AcquireBytes": func(opts ...chash.LeaseOption) (chash.Lease[string], error) {
			return s.AcquireBytes([]byte("key"), opts...)
		},
		"AcquireHash": func(opts ...chash.LeaseOption) (chash.Lease[string], error) { return s.AcquireHash(7, opts...) },
		"AcquireFunc": func(opts ...chash.LeaseOption) (chash.Lease[string], error) {
			return s.AcquireFunc("key", any1, opts...)
		},
		"AcquireFunc(nil)": func(opts ...chash.LeaseOption) (chash.Lease[string], error) {
			return s.AcquireFunc("key", nil, opts...)
		},
		"AcquireNext": s.AcquireNext,
	}
}

func any1(string) bool { return true }

// TestWithCost: each call counts the cost, of several the last one, and refuses those out
// of range, whatever the backends are.
func TestWithCost(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s, empty := build(chash.Named("a", "b", "c")), build(nil)
		for name, take := range takers(s) {
			for _, cost := range []int64{1, 7, chash.MaxCost} {
				lease, err := take(chash.WithCost(-3), chash.WithCost(cost), chash.LeaseOption{})
				require.NoError(t, err)
				checkLoads(t, s, map[string]int64{lease.Value: cost})
				checkCounted(t, s, cost)
				lease.Release()
				checkLoads(t, s, nil)
				checkCounted(t, s, 0)
			}
			for _, cost := range []int64{0, -1, chash.MaxCost + 1, math.MaxInt64, math.MinInt64} {
				for what, take := range map[string]func(...chash.LeaseOption) (chash.Lease[string], error){name: take, name + ", nobody there": takers(empty)[name]} {
					lease, err := take(chash.WithCost(cost))
					call := fmt.Sprintf("%s of cost %d", what, cost)
					chashtest.CheckError(t, call, err, chash.ErrInvalidOption)
					chashtest.CheckNumbers(t, call, err, cost, 1, chash.MaxCost)
					lease.Release()
				}
				checkLoads(t, s, nil)
				checkCounted(t, s, 0)
			}
		}
	})
}

// TestWithCost_TooMuch: what leases in flight cost together ends at 2^50, so that no
// counter can overflow.
func TestWithCost_TooMuch(t *testing.T) {
	const limit = 1 << 50
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a", "b"), chash.WithLoadFactor(math.Nextafter(1, 2)))
		takes := slices.Collect(func(yield func(func(...chash.LeaseOption) (chash.Lease[string], error)) bool) {
			for _, take := range takers(s) {
				if !yield(take) {
					return
				}
			}
		})
		for i := range int64(limit / chash.MaxCost) {
			if _, err := takes[i%int64(len(takes))](chash.WithCost(chash.MaxCost)); err != nil {
				t.Fatalf("lease %d of the greatest cost = %v, want no error", i, err)
			}
		}
		counted := s.Counted()
		if counted <= limit-chash.MaxCost || counted > limit {
			t.Errorf("counted = %d, want up to %d", counted, int64(limit))
		}
		for name, take := range takers(s) {
			lease, err := take(chash.WithCost(chash.MaxCost))
			chashtest.CheckError(t, name, err, chash.ErrInvalidOption)
			chashtest.CheckNumbers(t, name, err, chash.MaxCost, limit)
			lease.Release()
			checkCounted(t, s, counted)
		}
		// The loads stay even to the last one, with the factor next to 1.
		loads := s.Loads()
		if loads["a"]+loads["b"] != counted || loads["a"] < counted/2-2*chash.MaxCost || loads["b"] < counted/2-2*chash.MaxCost {
			t.Errorf("loads = %v, want half of %d each", loads, counted)
		}
		// What comes back to count may be more than that. Then there is no lease until
		// enough is released.
		require.NoError(t, s.SetState("a", chash.Unhealthy))
		checkCounted(t, s, loads["b"])
		full, err := s.Acquire("key", chash.WithCost(chash.MaxCost))
		require.NoError(t, err)
		require.NoError(t, s.SetState("a", chash.Healthy))
		checkCounted(t, s, counted+chash.MaxCost)
		_, err = s.Acquire("key")
		chashtest.CheckError(t, "Acquire of 1", err, chash.ErrInvalidOption)
		full.Release()
		checkCounted(t, s, counted)
		if limit-counted > 0 {
			acquire(t, s, "key").Release()
		}
	})
}

// TestAcquire_CostsDoNotAllocate: on the types themselves, with a cost.
func TestAcquire_CostsDoNotAllocate(t *testing.T) {
	m, err := chash.NewMaglev(chash.Named(chashtest.ManyNames("b", 30)...))
	require.NoError(t, err)
	r, err := chash.NewRing(chash.Named(chashtest.ManyNames("b", 30)...))
	require.NoError(t, err)
	key, accept := []byte("key"), func(value string) bool { return value == "b3" || value == "b4" }
	for held := range 3 {
		for range 5 * held { // so that all that are accepted are full
			_, _ = m.AcquireFunc("key", accept)
			_, _ = r.AcquireFunc("key", accept)
		}
		for name, call := range map[string]func(){
			"Maglev.Acquire":      func() { l, _ := m.Acquire("key", chash.WithCost(3)); l.Release() },
			"Maglev.AcquireBytes": func() { l, _ := m.AcquireBytes(key, chash.WithCost(3)); l.Release() },
			"Maglev.AcquireHash":  func() { l, _ := m.AcquireHash(7, chash.WithCost(3)); l.Release() },
			"Maglev.AcquireFunc":  func() { l, _ := m.AcquireFunc("key", accept, chash.WithCost(3)); l.Release() },
			"Maglev.AcquireNext":  func() { l, _ := m.AcquireNext(chash.WithCost(3)); l.Release() },
			"Ring.Acquire":        func() { l, _ := r.Acquire("key", chash.WithCost(3)); l.Release() },
			"Ring.AcquireBytes":   func() { l, _ := r.AcquireBytes(key, chash.WithCost(3)); l.Release() },
			"Ring.AcquireHash":    func() { l, _ := r.AcquireHash(7, chash.WithCost(3)); l.Release() },
			"Ring.AcquireFunc":    func() { l, _ := r.AcquireFunc("key", accept, chash.WithCost(3)); l.Release() },
			"Ring.AcquireNext":    func() { l, _ := r.AcquireNext(chash.WithCost(3)); l.Release() },
		} {
			if got := testing.AllocsPerRun(20, call); got != 0 {
				t.Errorf("allocations of %s and Release = %v, want 0", name, got)
			}
		}
	}
}

// TestWithLoadFloor_Invalid: as invalid factors are.
func TestWithLoadFloor_Invalid(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named("a"), chash.WithLoadFloor(2))
		for n, text := range map[float64]string{-1: "-1", -0.5: "-0.5", math.NaN(): "NaN", math.Inf(1): "+Inf", math.Inf(-1): "-Inf"} {
			chashtest.CheckError(t, fmt.Sprintf("SetLoadFloor(%v)", n), s.SetLoadFloor(n), chash.ErrInvalidOption, text)
			for _, kind := range chashtest.Kinds {
				_, err := kind.New(nil, chash.WithLoadFloor(n))
				chashtest.CheckError(t, fmt.Sprintf("New(%s, WithLoadFloor(%v))", kind.Name, n), err, chash.ErrInvalidOption, text)
			}
		}
		if got := s.Stats().LoadFloor; got != 2 {
			t.Errorf("LoadFloor after failing calls = %v, want 2", got)
		}
	})
}

// TestSetLoadFloor: the floor is by weight, holds from the next lease on, before and
// after the counters are made, and a clone has its own.
func TestSetLoadFloor(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, used := range []bool{false, true} {
			backends := chash.Named(chashtest.ManyNames("b", 100)...)
			s := build(backends)
			home := chashtest.Must(s.Get("key"))
			require.NoError(t, s.SetWeight(home, 3)) // which keeps its keys, and gets more
			if used {
				acquire(t, s, "key").Release()
			}
			before := chashtest.StateOf(s)
			clone := s.Clone().(bounded)
			require.NoError(t, s.SetLoadFloor(2.5)) // 8 leases for a weight of 3
			chashtest.CheckState(t, s, "SetLoadFloor", before)
			if got := s.HasQuotas(); got != used {
				t.Errorf("counters made after SetLoadFloor = %t, want %t", got, used)
			}
			for i := range 20 {
				if got, want := acquire(t, s, "key").Value == home, i < 8; got != want {
					t.Errorf("lease %d of one key with floor 2.5 is at home = %t, want %t", i, got, want)
				}
			}
			second := chashtest.Must(s.GetN("key", 2))[1]
			if got := s.Loads()[second]; got != 3 {
				t.Errorf("load of the second with floor 2.5 = %d, want 3", got)
			}
			require.NoError(t, s.SetLoadFloor(0))
			if got := acquire(t, s, "key").Value; got == home || got == second {
				t.Errorf("lease without a floor = %q, want neither %q nor %q", got, home, second)
			}
			acquire(t, clone, "key")
			if got := acquire(t, clone, "key").Value; got == home {
				t.Errorf("second lease of a clone made before SetLoadFloor = %q, want another", got)
			}
		}
	})
}

// erlangB is the share of calls that find all of n lines taken, where traffic is offered
// of which a would be in progress if there were lines for all (Erlang, 1917).
func erlangB(n int, a float64) float64 {
	b := 1.0
	for k := 1; k <= n; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// TestWithLoadFloor_KeepsKeysAtHome: 100 backends, 50 requests in flight, a quarter of
// all requests for one key.
//
// Without a floor the bound is ceil(1.25*50/100) = 1. The 49 others in flight are on 49
// backends, so that a request for any other key is at home in 51 of 100 cases. One for
// the hot key is at home only if its backend has just been released, which happens once
// in 50 requests at most. That is 0.75*0.51 of all requests to 0.02 more.
//
// With a floor of 8 the hot key's backend is a group of 8 lines. It is offered a quarter
// of the requests and its share of the others, each for 50 requests long on average, so
// that Erlang's formula has what it refuses. The others are at home unless home is this
// backend, or the second of the hot key's, if that is full, which is 1 % of them at most.
func TestWithLoadFloor_KeepsKeysAtHome(t *testing.T) {
	const requests, noise = 60_000, 0.01 // five times the standard deviation of a share
	refused := erlangB(8, 50*(0.25+0.75/100))
	for _, test := range []struct{ floor, least, most float64 }{
		{0, 0.75 * 0.51, 0.75*0.51 + 0.02},
		{8, 0.25*(1-refused) + 0.75*(0.99-0.01*refused), 0.25*(1-refused) + 0.75*(1-0.01*refused)},
	} {
		table, err := chash.NewMaglev(chash.Named(chashtest.ManyNames("b", 100)...), chash.WithLoadFloor(test.floor))
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, 2))
		var inFlight [50]*chash.Lease[string]
		home := 0
		for i := range requests {
			at := random.IntN(len(inFlight))
			if i < len(inFlight) {
				at = i
			} else {
				inFlight[at].Release()
			}
			key := "a prefix that many have"
			if random.IntN(4) > 0 {
				key = fmt.Sprint("key-", random.Uint64())
			}
			lease, err := table.Acquire(key)
			require.NoError(t, err)
			inFlight[at] = &lease
			if lease.Value == chashtest.Must(table.Get(key)) {
				home++
			}
		}
		if got := float64(home) / requests; got < test.least-noise || got > test.most+noise {
			t.Errorf("share of requests at home with a floor of %v = %.3f, want %.3f to %.3f", test.floor, got, test.least, test.most)
		}
	}
}
