package benchmarks_test

import (
	"fmt"
	"testing"

	"github.com/kkdai/maglev"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func newKkdai(tb testing.TB, names []string, size int) *maglev.Maglev {
	tb.Helper()
	m, err := maglev.NewMaglev(names, uint64(size))
	require.NoError(tb, err)
	return m
}

// table names a benchmark at the default size.
func table(backends int) string {
	return fmt.Sprintf("backends=%d/table=%d", backends, chash.DefaultTableSize)
}

func getMaglev[T any](b *testing.B, m *chash.Maglev[T]) {
	b.ReportAllocs()
	b.ResetTimer()
	var last T
	var err error
	for i := range b.N {
		last, err = m.Get(keys[i&keyMask])
	}
	if err != nil {
		b.Fatal(err)
	}
	keep(last)
}

func getKkdai(b *testing.B, m *maglev.Maglev) {
	b.ReportAllocs()
	b.ResetTimer()
	var last string
	var err error
	for i := range b.N {
		last, err = m.Get(keys[i&keyMask])
	}
	if err != nil {
		b.Fatal(err)
	}
	keep(last)
}

// BenchmarkMaglevGet measures lookups from one goroutine.
func BenchmarkMaglevGet(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(table(n)+"/chash=string", func(b *testing.B) { getMaglev(b, newMaglev(b, equal(n))) })
		b.Run(table(n)+"/chash=pointer", func(b *testing.B) { getMaglev(b, newMaglev(b, servers(n))) })
		b.Run(table(n)+"/kkdai", func(b *testing.B) {
			getKkdai(b, newKkdai(b, names(n), chash.DefaultTableSize))
		})
	}
}

// BenchmarkMaglevGetParallel measures lookups from as many goroutines at once as
// -cpu says: time passed by lookups done.
func BenchmarkMaglevGetParallel(b *testing.B) {
	const n = 1000
	b.Run(table(n)+"/chash", func(b *testing.B) {
		m := newMaglev(b, equal(n))
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			var last string
			for i := first(); pb.Next(); i++ {
				last, _ = m.Get(keys[i&keyMask])
			}
			keep(last)
		})
	})
	b.Run(table(n)+"/kkdai", func(b *testing.B) {
		m := newKkdai(b, names(n), chash.DefaultTableSize)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			var last string
			for i := first(); pb.Next(); i++ {
				last, _ = m.Get(keys[i&keyMask])
			}
			keep(last)
		})
	})
}

// BenchmarkMaglevOutage measures lookups with backends down: every second of
// them, and all but one that owns a single slot.
func BenchmarkMaglevOutage(b *testing.B) {
	const n = 1000
	b.Run(table(n)+"/down=half", func(b *testing.B) {
		backends := equal(n)
		for i := range backends {
			backends[i].State = chash.State(i % 2)
		}
		getMaglev(b, newMaglev(b, backends))
	})
	b.Run(table(n)+"/down=all-but-one-slot", func(b *testing.B) {
		backends := weighted(n, 1<<20)
		for i := range backends {
			backends[i].State = chash.Unhealthy
		}
		backends[n/2].Weight = 1
		backends[n/2].State = chash.Healthy
		getMaglev(b, newMaglev(b, backends))
	})
}

// rebuild measures a change of the whole membership: to other backends, all but
// one of them the same, and back in turn.
func rebuild(b *testing.B, size int, backends []chash.Backend[string]) {
	n := len(backends) - 1
	m := newMaglev(b, backends[1:], chash.WithTableSize(size))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := m.Set(backends[i&1:][:n]); err != nil {
			b.Fatal(err)
		}
	}
}

func rebuildKkdai(b *testing.B, size int, names []string) {
	n := len(names) - 1
	m := newKkdai(b, names[1:], size)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := m.Set(names[i&1:][:n]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMaglevRebuild measures rebuilds, with equal weights beside the peer,
// which has no others.
func BenchmarkMaglevRebuild(b *testing.B) {
	const size = chash.DefaultTableSize
	for _, n := range []int{10, 100, 1000} {
		b.Run(table(n)+"/weights=equal/chash", func(b *testing.B) { rebuild(b, size, equal(n+1)) })
		b.Run(table(n)+"/weights=equal/kkdai", func(b *testing.B) { rebuildKkdai(b, size, names(n+1)) })
		b.Run(table(n)+"/weights=1-7/chash", func(b *testing.B) {
			rebuild(b, size, weighted(n+1, 1, 2, 3, 4, 5, 6, 7))
		})
		b.Run(table(n)+"/weights=distinct/chash", func(b *testing.B) { rebuild(b, size, distinct(n+1)) })
		b.Run(table(n)+"/weights=distinct-by-little/chash", func(b *testing.B) {
			backends := distinct(n + 1)
			for i := range backends {
				backends[i].Weight += 1_000_000
			}
			rebuild(b, size, backends)
		})
	}
	b.Run("backends=1000/table=1000003/weights=equal/chash", func(b *testing.B) { rebuild(b, 1000003, equal(1001)) })
}

// BenchmarkMaglevHealth measures the news of a health check: one backend of many
// fails, and recovers in turn. Where few of the others are healthy, the slots of
// those that are get indexed.
func BenchmarkMaglevHealth(b *testing.B) {
	const n = 10000
	for _, size := range []int{chash.DefaultTableSize, 1000003} {
		for _, healthy := range []int{1, 100} {
			name := fmt.Sprintf("backends=%d/table=%d/healthy=1in%d", n, size, healthy)
			b.Run(name, func(b *testing.B) {
				backends := equal(n)
				for i := range backends {
					if i%healthy != 0 {
						backends[i].State = chash.Unhealthy
					}
				}
				m := newMaglev(b, backends, chash.WithTableSize(size))
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if err := m.SetState(backends[1].Name, chash.State(1-i&1)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
