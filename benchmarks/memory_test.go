package benchmarks_test

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// heap returns the bytes of live heap that what make returns keeps.
func heap[T any](make func() T) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what a pool held is gone only now
	runtime.ReadMemStats(&before)
	v := make()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// allocated returns the bytes and the number of allocations of one call of f, the
// fewest of several: on a busy machine the runtime allocates threads meanwhile,
// for a collection or in place of one that waits, and those count too.
func allocated(f func()) (size, count uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	size, count = math.MaxUint64, math.MaxUint64
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		size = min(size, after.TotalAlloc-before.TotalAlloc)
		count = min(count, after.Mallocs-before.Mallocs)
	}
	return size, count
}

// Two sizes of table that both need 2 bytes a slot.
const small, large = 65537, 262147

// perSlot returns the bytes that a table keeps for each slot.
func perSlot(tb testing.TB, backends []chash.Backend[string]) float64 {
	defer runtime.KeepAlive(backends) // they are not to be freed between measurements
	kept := func(size int) float64 {
		return heap(func() any { return newMaglev(tb, backends, chash.WithTableSize(size)) })
	}
	return (kept(large) - kept(small)) / (large - small)
}

// perPoint returns the bytes that a ring keeps for each point.
func perPoint(tb testing.TB, backends []chash.Backend[string], replicas int, opts ...chash.RingOption) float64 {
	defer runtime.KeepAlive(backends)
	kept := func(replicas int) float64 {
		opts := append(opts[:len(opts):len(opts)], chash.WithReplicas(replicas))
		return heap(func() any { return newRing(tb, backends, opts...) })
	}
	return (kept(replicas) - kept(1)) / float64((replicas-1)*len(backends))
}

// perBackend returns the bytes that each backend costs beside its slots, its name
// not counted.
func perBackend(tb testing.TB, n int) float64 {
	kept := func(n int) float64 {
		backends := equal(n)
		defer runtime.KeepAlive(backends)
		return heap(func() any { return newMaglev(tb, backends) })
	}
	return (kept(10*n) - kept(n)) / float64(9*n)
}

// BenchmarkMemory reports what is kept, as bytes for each slot, point and backend.
func BenchmarkMemory(b *testing.B) {
	b.Run(fmt.Sprintf("maglev/backends=100/table=%d", large), func(b *testing.B) {
		for range b.N {
			b.ReportMetric(perSlot(b, equal(100)), "B/slot")
		}
	})
	b.Run(fmt.Sprintf("maglev/backends=1000/table=%d", large), func(b *testing.B) {
		for range b.N {
			b.ReportMetric(perSlot(b, equal(1000)), "B/slot")
		}
	})
	b.Run(fmt.Sprintf("maglev/backends=10000/table=%d", small), func(b *testing.B) {
		for range b.N {
			b.ReportMetric(perBackend(b, 1000), "B/backend")
		}
	})
	for _, n := range []int{10, 100, 1000} {
		b.Run("ring/"+circle(n), func(b *testing.B) {
			for range b.N {
				b.ReportMetric(perPoint(b, equal(n), chash.DefaultReplicas), "B/point")
			}
		})
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	for _, n := range []int{10, 1000} {
		down := equal(n)
		for i := range down {
			down[i].State = chash.State(i % 2)
		}
		m, half := newMaglev(t, servers(n)), newMaglev(t, down)
		r, halfRing := newRing(t, servers(n)), newRing(t, down)
		xx := newRing(t, servers(n), chash.WithHash(xxhash.Sum64String))
		i := 0
		next := func() string { i++; return keys[i&keyMask] }
		for name, lookup := range map[string]func(){
			"Maglev.Get":             func() { _, _ = m.Get(next()) },
			"Maglev.Get, half down":  func() { _, _ = half.Get(next()) },
			"Maglev.Next":            func() { _, _ = m.Next() },
			"Ring.Get":               func() { _, _ = r.Get(next()) },
			"Ring.Get, half down":    func() { _, _ = halfRing.Get(next()) },
			"Ring.Get with WithHash": func() { _, _ = xx.Get(next()) },
			"Ring.Next":              func() { _, _ = r.Next() },
		} {
			// The average is rounded down: one of many keys that allocates must count.
			require.Zero(t, testing.AllocsPerRun(2, func() {
				for range 1000 {
					lookup()
				}
			}), "%s of %d", name, n)
		}
	}
}

// A rebuild allocates the slots and a bit for each of them. Each backend adds at most
// 150 bytes, 180 where weights differ, and 198 where no two are alike. There are at most
// 32 pieces, whatever the weights and sizes.
func TestRebuildAllocations(t *testing.T) {
	for _, test := range []struct {
		name     string
		backends func(n int) []chash.Backend[string]
		each     int
	}{
		{"equal weights", equal, 150},
		{"weights 1 to 7", func(n int) []chash.Backend[string] { return weighted(n, 1, 2, 3, 4, 5, 6, 7) }, 180},
		{"distinct weights", distinct, 198},
	} {
		var counts []uint64
		for _, n := range []int{100, 1000, 10000} {
			for _, size := range []int{small, large} {
				all := test.backends(n + 1)
				m := newMaglev(t, all[:n], chash.WithTableSize(size))
				i := 0
				bytes, count := allocated(func() {
					i++
					require.NoError(t, m.Set(all[i&1:][:n])) // the first is another set than it was made of
				})
				require.EqualValues(t, 1+i, m.Stats().Rebuilds)
				counts = append(counts, count)
				slots := size // of a byte each
				if n > 256 {
					slots *= 2
				}
				// 24 KiB are for rounding up to the sizes that the runtime allocates.
				most := slots + size/8 + test.each*n + 24<<10
				require.LessOrEqual(t, bytes, uint64(most), "%s: %d of them, table size %d", test.name, n, size)
			}
		}
		for _, count := range counts {
			require.LessOrEqual(t, count, uint64(32), "%s: allocations %d", test.name, counts)
		}
	}
}

func TestTableKeepsTwoBytesASlot(t *testing.T) {
	require.InDelta(t, 1, perSlot(t, equal(100)), 0.2, "up to 256 backends")
	require.InDelta(t, 2, perSlot(t, equal(1000)), 0.2, "above")
}

// The index, whose size is a power of two, weighs differently for each number of
// points, and so does what the runtime rounds up, most of all below 20,000 points.
func TestRingKeepsSixteenBytesAPoint(t *testing.T) {
	check := func(backends []chash.Backend[string], replicas int, opts ...chash.RingOption) {
		t.Helper()
		bytes := math.Inf(1)
		for range 5 { // the runtime keeps some kilobytes for itself now and then
			if bytes = min(bytes, perPoint(t, backends, replicas, opts...)); bytes <= 16 {
				return
			}
		}
		t.Errorf("bytes of a ring of %d points for each of them = %v, want 16 at most", replicas*len(backends), bytes)
	}
	for nodes := 5; nodes < 100; nodes++ {
		check(equal(nodes), chash.DefaultReplicas)
	}
	// Where the index gets larger than the numbers of points before had it, and
	// where the points need a page more.
	for _, replicas := range []int{256, 512, 639, 640, 1023, 1024, 1535, 1536} {
		check(equal(10), replicas)
	}
	for replicas := chash.DefaultReplicas; replicas <= 1500; replicas += replicas / 4 {
		check(equal(100), replicas)
	}
	check(equal(100), chash.DefaultReplicas, chash.WithHash(xxhash.Sum64String))
}
