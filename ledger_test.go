package chash_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
				s := build(chash.Named(manyNames("b", 10)...))
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
	threads(t)
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	names := manyNames("b", 6)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named(names...))
		require.NoError(t, s.Add(chash.Named("always")...))
		const takers = 6
		var held [takers][]twinLease
		random := rand.New(rand.NewPCG(9, 9))
		for round := range rounds {
			var quiet atomic.Bool
			together(takers+1, func(i int) int {
				if i == takers {
					for range 40 {
						way, b := stuck[random.IntN(len(stuck))], backend(names[random.IntN(len(names))], "", 0, 0)
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
	threads(t)
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
		together(2, func(i int) int {
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
	threads(t)
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
			together(releasing+1, func(i int) int {
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
	threads(t)
	watched(t)
	const slots = 16381 // as many as backends
	backends := chash.Named(manyNames("b", slots)...)
	backends[0].Weight = 1 << 31
	table, err := chash.NewMaglev(backends, chash.WithTableSize(slots))
	require.NoError(t, err)
	heavy, heavySlot := backends[0].Name, uint64(0)
	for slot := range uint64(slots) {
		if must(table.GetHash(slot)) == heavy {
			heavySlot = slot
			continue
		}
		_, err := table.AcquireHash(slot)
		require.NoError(t, err)
	}
	far := ""
	for i := 0; far == ""; i++ {
		key := fmt.Sprint("key-", i)
		if slices.Index(must(table.GetN(key, slots)), heavy) > slots*3/4 {
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
	for _, kind := range structures {
		t.Run(kind.name, func(t *testing.T) {
			var calls atomic.Int64
			var panics atomic.Bool
			made, err := kind.make(chash.Named("a", "b", "c"), chash.WithHash(func(key string) uint64 {
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
}

// TestAcquireNext_BeginsAgain: where the backends have changed, a rotation under way
// begins again among those of now, with the turn that it has.
func TestAcquireNext_BeginsAgain(t *testing.T) {
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		for _, n := range []int{3, 5, 200} {
			s := build(chash.Named(manyNames("b", 10)...))
			for range 7 {
				acquireNext(t, s).Release()
			}
			rest := s.BeginAcquire("", false)
			after := manyNames("x", n)
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
	for _, kind := range structures {
		t.Run(kind.name, func(t *testing.T) {
			gate, reached := make(chan struct{}), make(chan struct{})
			var once sync.Once
			made, err := kind.make(chash.Named("a", "b"), chash.WithHash(func(key string) uint64 {
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
}

// TestStats_LoadsAddUp: the loads are together what is in flight, whatever comes and
// goes while they are read.
func TestStats_LoadsAddUp(t *testing.T) {
	threads(t)
	onBounded(t, func(t *testing.T, build func([]chash.Backend[string], ...chash.Option) bounded) {
		s := build(chash.Named(manyNames("b", 20)...))
		const takers, reads = 4, 2000
		var quiet atomic.Bool
		together(takers+1, func(i int) int {
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
