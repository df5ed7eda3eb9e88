package chash_test

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// The benchmarks of every call, with the bare hashes beside them for scale. What
// other libraries take stands in the module in benchmarks/.
//
// Get, which takes a few nanoseconds, is called in loops of its own; the other
// lookups are called through an interface, which adds about one.

var benchSink atomic.Pointer[any]

// benchKeep takes what a loop computed, so that the compiler cannot drop it.
func benchKeep(v any) { benchSink.Store(&v) }

// benchKeyCount is a power of two, and more keys than a processor learns by heart.
const (
	benchKeyCount = 1 << 14
	benchKeyMask  = benchKeyCount - 1
)

// benchKeys are what is looked up: 16 to 22 bytes each, in order of length. In no
// order, the processor would mispredict the hash's branches on the length, which
// costs more than all that a lookup adds to the hash and would hide it.
var benchKeys = func() *[benchKeyCount]string {
	random := rand.New(rand.NewPCG(1, 2))
	keys := new([benchKeyCount]string)
	for i := range keys {
		key := "/user/" + strconv.FormatUint(random.Uint64()|1<<63, 16) // 22 bytes
		keys[i] = key[:16+i*7/benchKeyCount]
	}
	return keys
}()

// benchBackends returns n backends of equal weight.
func benchBackends(n int) []chash.Backend[string] {
	backends := make([]chash.Backend[string], n)
	for i := range backends {
		name := "backend-" + strconv.Itoa(i)
		backends[i] = chash.Backend[string]{Name: name, Value: name}
	}
	return backends
}

// benchDown returns n backends of which all but one in healthy are down.
func benchDown(n, healthy int) []chash.Backend[string] {
	backends := benchBackends(n)
	for i := range backends {
		if i%healthy != 0 {
			backends[i].State = chash.Unhealthy
		}
	}
	return backends
}

func benchMaglev[T any](b *testing.B, backends []chash.Backend[T], opts ...chash.MaglevOption) *chash.Maglev[T] {
	m, err := chash.NewMaglev(backends, opts...)
	require.NoError(b, err)
	return m
}

func benchRing[T any](b *testing.B, backends []chash.Backend[T], opts ...chash.RingOption) *chash.Ring[T] {
	r, err := chash.NewRing(backends, opts...)
	require.NoError(b, err)
	return r
}

// benchTable and benchCircle name benchmarks of the default sizes.
func benchTable(n int) string {
	return fmt.Sprintf("maglev/backends=%d/table=%d", n, chash.DefaultTableSize)
}

func benchCircle(n int) string {
	return fmt.Sprintf("ring/backends=%d/replicas=%d", n, chash.DefaultReplicas)
}

// benchBoth runs a benchmark on each structure.
func benchBoth(b *testing.B, backends []chash.Backend[string], run func(b *testing.B, s chashtest.Structure)) {
	b.Run(benchTable(len(backends)), func(b *testing.B) {
		s := chashtest.MaglevOf[string]{Maglev: benchMaglev(b, backends)}
		b.ReportAllocs()
		b.ResetTimer()
		run(b, s)
	})
	b.Run(benchCircle(len(backends)), func(b *testing.B) {
		s := chashtest.RingOf[string]{Ring: benchRing(b, backends)}
		b.ReportAllocs()
		b.ResetTimer()
		run(b, s)
	})
}

// BenchmarkHash is the floor under every lookup: the hash of the key alone.
func BenchmarkHash(b *testing.B) {
	b.Run("xxhash", func(b *testing.B) {
		b.ReportAllocs()
		sum := uint64(0)
		for i := range b.N {
			sum += xxhash.Sum64String(benchKeys[i&benchKeyMask])
		}
		benchKeep(sum)
	})
	b.Run("sha256", func(b *testing.B) {
		b.ReportAllocs()
		sum := byte(0)
		for i := range b.N {
			digest := sha256.Sum256([]byte(benchKeys[i&benchKeyMask]))
			sum += digest[0]
		}
		benchKeep(sum)
	})
}

func benchMaglevGet[T any](b *testing.B, m *chash.Maglev[T]) {
	b.ReportAllocs()
	b.ResetTimer()
	var last T
	for i := range b.N {
		value, err := m.Get(benchKeys[i&benchKeyMask])
		if err != nil {
			b.Fatal(err)
		}
		last = value
	}
	benchKeep(last)
}

func benchRingGet[T any](b *testing.B, r *chash.Ring[T]) {
	b.ReportAllocs()
	b.ResetTimer()
	var last T
	for i := range b.N {
		value, err := r.Get(benchKeys[i&benchKeyMask])
		if err != nil {
			b.Fatal(err)
		}
		last = value
	}
	benchKeep(last)
}

// BenchmarkGet measures lookups from one goroutine, all backends healthy.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		backends := benchBackends(n)
		pointers := make([]chash.Backend[*string], n)
		for i := range pointers {
			pointers[i] = chash.Backend[*string]{Name: backends[i].Name, Value: &backends[i].Name}
		}
		b.Run(benchTable(n)+"/value=string", func(b *testing.B) { benchMaglevGet(b, benchMaglev(b, backends)) })
		b.Run(benchTable(n)+"/value=pointer", func(b *testing.B) { benchMaglevGet(b, benchMaglev(b, pointers)) })
		b.Run(benchTable(n)+"/seed=1", func(b *testing.B) {
			benchMaglevGet(b, benchMaglev(b, backends, chash.WithSeed(1)))
		})
		b.Run(benchCircle(n)+"/value=string", func(b *testing.B) { benchRingGet(b, benchRing(b, backends)) })
		b.Run(benchCircle(n)+"/value=pointer", func(b *testing.B) { benchRingGet(b, benchRing(b, pointers)) })
		b.Run(benchCircle(n)+"/hash=xxhash", func(b *testing.B) {
			benchRingGet(b, benchRing(b, backends, chash.WithHash(xxhash.Sum64String)))
		})
	}
}

// BenchmarkGetOutage measures lookups with backends down: one in so many is
// healthy, or only one that owns a single slot.
func BenchmarkGetOutage(b *testing.B) {
	const n = 1000
	for _, healthy := range []int{2, 10, 100} {
		down := fmt.Sprintf("/healthy=1in%d", healthy)
		b.Run(benchTable(n)+down, func(b *testing.B) { benchMaglevGet(b, benchMaglev(b, benchDown(n, healthy))) })
		b.Run(benchCircle(n)+down, func(b *testing.B) { benchRingGet(b, benchRing(b, benchDown(n, healthy))) })
	}
	b.Run(benchTable(n)+"/healthy=1slot", func(b *testing.B) {
		backends := benchDown(n, n)
		for i := range backends {
			backends[i].Weight = 1 << 20
		}
		backends[0].Weight = 1
		benchMaglevGet(b, benchMaglev(b, backends))
	})
}

// BenchmarkGetParallel measures lookups from as many goroutines at once as -cpu
// says: time passed by lookups done.
func BenchmarkGetParallel(b *testing.B) {
	benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
		var begun atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			var last string
			for i := int(begun.Add(1)) * (benchKeyCount/8 + 1); pb.Next(); i++ { // each somewhere else
				last, _ = s.Get(benchKeys[i&benchKeyMask])
			}
			benchKeep(last)
		})
	})
}

func BenchmarkGetBytes(b *testing.B) {
	keys := make([][]byte, benchKeyCount)
	for i := range keys {
		keys[i] = []byte(benchKeys[i])
	}
	benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
		var last string
		for i := range b.N {
			last, _ = s.GetBytes(keys[i&benchKeyMask])
		}
		benchKeep(last)
	})
}

func BenchmarkGetHash(b *testing.B) {
	benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
		var last string
		hash := uint64(0)
		for range b.N {
			hash += 0x9E3779B97F4A7C15 // spread evenly
			last, _ = s.GetHash(hash)
		}
		benchKeep(last)
	})
}

// BenchmarkAppendN measures the first backends in a key's order of preference, as
// for replicas of a shard.
func BenchmarkAppendN(b *testing.B) {
	for _, n := range []int{3, 10, 100} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
				values := make([]string, 0, n)
				for i := range b.N {
					values, _ = s.AppendN(values[:0], benchKeys[i&benchKeyMask], n)
				}
				benchKeep(values)
			})
		})
	}
}

// BenchmarkCandidates measures a retry: the second of a key's backends. The calls
// are direct, for through an interface a sequence is allocated.
func BenchmarkCandidates(b *testing.B) {
	second := func(candidates iter.Seq[string]) (value string) {
		tries := 0
		for value = range candidates {
			if tries++; tries == 2 {
				break
			}
		}
		return value
	}
	b.Run(benchTable(1000), func(b *testing.B) {
		m := benchMaglev(b, benchBackends(1000))
		b.ReportAllocs()
		b.ResetTimer()
		var last string
		for i := range b.N {
			last = second(m.Candidates(benchKeys[i&benchKeyMask]))
		}
		benchKeep(last)
	})
	b.Run(benchCircle(1000), func(b *testing.B) {
		r := benchRing(b, benchBackends(1000))
		b.ReportAllocs()
		b.ResetTimer()
		var last string
		for i := range b.N {
			last = second(r.Candidates(benchKeys[i&benchKeyMask]))
		}
		benchKeep(last)
	})
}

// BenchmarkGetFunc measures a choice that half of the backends pass.
func BenchmarkGetFunc(b *testing.B) {
	even := func(name string) bool { return name[len(name)-1]%2 == 0 }
	benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
		var last string
		for i := range b.N {
			last, _ = s.GetFunc(benchKeys[i&benchKeyMask], even)
		}
		benchKeep(last)
	})
}

func BenchmarkNext(b *testing.B) {
	benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
		var last string
		for range b.N {
			last, _ = s.Next()
		}
		benchKeep(last)
	})
}

// BenchmarkSet measures a change of the whole membership of a table: to other
// backends and back in turn.
func BenchmarkSet(b *testing.B) {
	weights := map[string]func(i int) uint32{
		"equal":    func(int) uint32 { return 1 },
		"1-7":      func(i int) uint32 { return uint32(i%7) + 1 },
		"distinct": func(i int) uint32 { return uint32(i) + 1 },
	}
	for _, weight := range []string{"equal", "1-7", "distinct"} {
		for _, n := range []int{10, 100, 1000} {
			backends := benchBackends(n + 1)
			for i := range backends {
				backends[i].Weight = weights[weight](i)
			}
			b.Run(benchTable(n)+"/weights="+weight, func(b *testing.B) {
				m := benchMaglev(b, backends[1:])
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if err := m.Set(backends[i&1:][:n]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkNew measures a structure made anew.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		backends := benchBackends(n)
		b.Run(benchTable(n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				benchKeep(benchMaglev(b, backends))
			}
		})
		b.Run(benchCircle(n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				benchKeep(benchRing(b, backends))
			}
		})
	}
}

// BenchmarkAddRemove measures one backend that comes to many and goes again: two
// changes.
func BenchmarkAddRemove(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		backends := benchBackends(n + 1)
		benchBoth(b, backends[:n], func(b *testing.B, s chashtest.Structure) {
			for range b.N {
				if err := s.Add(backends[n]); err != nil {
					b.Fatal(err)
				}
				if err := s.Remove(backends[n].Name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSetState measures the news of a health check, among many backends: of
// which all are healthy, or so few that the healthy owners are indexed.
func BenchmarkSetState(b *testing.B) {
	for _, healthy := range []int{1, 100} {
		b.Run(fmt.Sprintf("healthy=1in%d", healthy), func(b *testing.B) {
			backends := benchDown(10000, healthy)
			benchBoth(b, backends, func(b *testing.B, s chashtest.Structure) {
				for i := range b.N {
					if err := s.SetState(backends[1].Name, chash.State(1-i&1)); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkSetValue measures a backend's new connection, among many.
func BenchmarkSetValue(b *testing.B) {
	backends := benchBackends(10000)
	benchBoth(b, backends, func(b *testing.B, s chashtest.Structure) {
		for i := range b.N {
			if err := s.SetValue(backends[1].Name, backends[i&1].Value); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkClone(b *testing.B) {
	benchBoth(b, benchBackends(1000), func(b *testing.B, s chashtest.Structure) {
		var clone chashtest.Structure
		for range b.N {
			clone = s.Clone()
		}
		benchKeep(clone)
	})
}

// BenchmarkOwner measures what a store asks for each write; compare with BenchmarkGet.
func BenchmarkOwner(b *testing.B) {
	b.Run(benchTable(1000), func(b *testing.B) {
		m := benchMaglev(b, benchBackends(1000))
		b.ReportAllocs()
		b.ResetTimer()
		var last chash.Backend[string]
		for i := range b.N {
			last, _ = m.Owner(benchKeys[i&benchKeyMask])
		}
		benchKeep(last)
	})
	b.Run(benchCircle(1000), func(b *testing.B) {
		r := benchRing(b, benchBackends(1000))
		b.ReportAllocs()
		b.ResetTimer()
		var last chash.Backend[string]
		for i := range b.N {
			last, _ = r.Owner(benchKeys[i&benchKeyMask])
		}
		benchKeep(last)
	})
}

// BenchmarkSlackBuild measures how long a table takes to fill with slack, beside one
// without (slack=none), with equal weights and with those from 1 to 7.
func BenchmarkSlackBuild(b *testing.B) {
	slacks := []struct {
		name string
		opts []chash.MaglevOption
	}{
		{"none", nil},
		{"0", []chash.MaglevOption{chash.WithSlack(0)}},
		{"1%", []chash.MaglevOption{chash.WithSlack(0.01)}},
		{"unlimited", []chash.MaglevOption{chash.WithSlack(math.Inf(1))}},
	}
	for _, n := range []int{10, 100, 1000, 10000} {
		for _, weights := range []uint32{1, 7} {
			backends := chashtest.Numbered("b", n)
			for i := range backends {
				backends[i].Weight = 1 + uint32(i)%weights
			}
			for _, slack := range slacks {
				b.Run(fmt.Sprintf("backends=%d/weights=%d/slack=%s", n, weights, slack.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := chash.NewMaglev(backends, slack.opts...); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkSlackChange measures changes of a table without a limit among 100
// backends, beside filling it anew.
func BenchmarkSlackChange(b *testing.B) {
	backends := chashtest.Numbered("b", 100)
	one, rest := backends[50], append(chashtest.Numbered("b", 100)[:50], backends[51:]...)
	noLimit := chash.WithSlack(math.Inf(1))
	m, err := chash.NewMaglev(rest, noLimit)
	if err != nil {
		b.Fatal(err)
	}
	measure := func(name string, change, undo func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := change(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := undo(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	fill := func() error {
		_, err := chash.NewMaglev(rest, noLimit)
		return err
	}
	add := func() error { return m.Add(one) }
	remove := func() error { return m.Remove(one.Name) }
	measure("fill", fill, func() error { return nil })
	measure("Add", add, remove)
	if err := add(); err != nil {
		b.Fatal(err)
	}
	measure("Remove", remove, add)
	heavier := func() error { return m.SetWeight(one.Name, 2) }
	lighter := func() error { return m.SetWeight(one.Name, 1) }
	measure("SetWeight heavier", heavier, lighter)
	if err := heavier(); err != nil {
		b.Fatal(err)
	}
	measure("SetWeight lighter", lighter, heavier)
}

func BenchmarkAcquire(b *testing.B) {
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprintf("/user/%013d", i*i*7919)
	}
	for _, kind := range chashtest.Kinds {
		made, err := kind.New(chash.Named(chashtest.ManyNames("backend-", 64)...))
		require.NoError(b, err)
		s := made.(bounded)
		name := kind.Name + "/members=64/"
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
