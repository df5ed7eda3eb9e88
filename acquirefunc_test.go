package chash_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// TestAcquireFunc_Asks: accept is asked about each healthy placement in the key's order,
// once, up to the one that it takes.
func TestAcquireFunc_Asks(t *testing.T) {
	backends := chash.Named(manyNames("b", 50)...) // more than are told apart without allocating
	backends[2].State, backends[3].State = chash.Unhealthy, chash.Draining
	backends[4].HashKey, backends[5].HashKey = "shared", "shared"
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(backends)
		for _, key := range sampleKeys[:40] {
			order := must(s.GetN(key, 50))
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
				s := build(chash.Named(manyNames("b", 100)...), chash.WithLoadFactor(factor))
				w := &ledgerTwin{factor: factor, backends: map[string]chash.Backend[string]{}, loads: map[string]int64{}}
				for _, b := range s.Backends() {
					w.backends[b.Name] = b
				}
				order := must(s.GetN("key", 100))
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
		order := must(s.GetN("key", 3))
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
				require.NoError(t, s.Set(chash.Named(manyNames("d", 10)...)))
			}
			return true
		})
		if want := must(s.Get("key")); err != nil || lease.Value != want || !slices.Equal(asked, []string{order[0], want}) {
			t.Errorf("AcquireFunc(key) whose accept sets others = %q, %v after %q, want %q", lease.Value, err, asked, want)
		}
		lease.Release()

		// The only one that is taken, and is full, stops getting leases when all have been
		// asked about.
		require.NoError(t, s.Set(chash.Named("a", "b", "c")))
		order = must(s.GetN("key", 3))
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
		s := build(chash.Named(manyNames("b", 9)...))
		random := rand.New(rand.NewPCG(4, 4))
		for range 500 {
			hash := random.Uint64()
			lease, err := s.AcquireHash(hash)
			if want := must(s.GetHash(hash)); err != nil || lease.Value != want {
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
					checkError(t, call, err, chash.ErrInvalidOption)
					checkNumbers(t, call, err, cost, 1, chash.MaxCost)
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
			checkError(t, name, err, chash.ErrInvalidOption)
			checkNumbers(t, name, err, chash.MaxCost, limit)
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
		checkError(t, "Acquire of 1", err, chash.ErrInvalidOption)
		full.Release()
		checkCounted(t, s, counted)
		if limit-counted > 0 {
			acquire(t, s, "key").Release()
		}
	})
}

// TestAcquire_CostsDoNotAllocate: on the types themselves, with a cost.
func TestAcquire_CostsDoNotAllocate(t *testing.T) {
	m, err := chash.NewMaglev(chash.Named(manyNames("b", 30)...))
	require.NoError(t, err)
	r, err := chash.NewRing(chash.Named(manyNames("b", 30)...))
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
			checkError(t, fmt.Sprintf("SetLoadFloor(%v)", n), s.SetLoadFloor(n), chash.ErrInvalidOption, text)
			for _, kind := range structures {
				_, err := kind.make(nil, chash.WithLoadFloor(n))
				checkError(t, fmt.Sprintf("New(%s, WithLoadFloor(%v))", kind.name, n), err, chash.ErrInvalidOption, text)
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
			backends := chash.Named(manyNames("b", 100)...)
			s := build(backends)
			home := must(s.Get("key"))
			require.NoError(t, s.SetWeight(home, 3)) // which keeps its keys, and gets more
			if used {
				acquire(t, s, "key").Release()
			}
			before := stateOf(s)
			clone := s.Clone().(bounded)
			require.NoError(t, s.SetLoadFloor(2.5)) // 8 leases for a weight of 3
			checkState(t, s, "SetLoadFloor", before)
			if got := s.HasQuotas(); got != used {
				t.Errorf("counters made after SetLoadFloor = %t, want %t", got, used)
			}
			for i := range 20 {
				if got, want := acquire(t, s, "key").Value == home, i < 8; got != want {
					t.Errorf("lease %d of one key with floor 2.5 is at home = %t, want %t", i, got, want)
				}
			}
			second := must(s.GetN("key", 2))[1]
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
		table, err := chash.NewMaglev(chash.Named(manyNames("b", 100)...), chash.WithLoadFloor(test.floor))
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
			if lease.Value == must(table.Get(key)) {
				home++
			}
		}
		if got := float64(home) / requests; got < test.least-noise || got > test.most+noise {
			t.Errorf("share of requests at home with a floor of %v = %.3f, want %.3f to %.3f", test.floor, got, test.least, test.most)
		}
	}
}
