package benchmarks_test

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"strconv"
	"testing"
	"time"

	"github.com/authzed/consistent/hashring"
	"github.com/cespare/xxhash/v2"
	"github.com/golang/groupcache/consistenthash"
	serialx "github.com/serialx/hashring"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// The rings of the peers have as many points a node as chash has by default, and
// the hash that each comes with: MD5, CRC-32 and the xxHash64 of its manual.

func newSerialx(names []string) *serialx.HashRing {
	weights := make(map[string]int, len(names))
	for _, name := range names {
		weights[name] = chash.DefaultReplicas
	}
	return serialx.NewWithWeights(weights)
}

func newGroupcache(names []string) *consistenthash.Map {
	m := consistenthash.New(chash.DefaultReplicas, crc32.ChecksumIEEE)
	m.Add(names...)
	return m
}

// member is a node of a hashring.Ring.
type member string

func (m member) Key() string { return string(m) }

// newAuthzed sorts the whole ring once for each name: 1,000 take over a minute.
func newAuthzed(tb testing.TB, names []string) *hashring.Ring {
	tb.Helper()
	ring, err := hashring.New(xxhash.Sum64, chash.DefaultReplicas)
	require.NoError(tb, err)
	for _, name := range names {
		require.NoError(tb, ring.Add(member(name)))
	}
	return ring
}

// circle names a benchmark with the default number of points a node.
func circle(nodes int) string {
	return fmt.Sprintf("nodes=%d/replicas=%d", nodes, chash.DefaultReplicas)
}

func getRing[T any](b *testing.B, r *chash.Ring[T]) {
	b.ReportAllocs()
	b.ResetTimer()
	var last T
	var err error
	for i := range b.N {
		last, err = r.Get(keys[i&keyMask])
	}
	if err != nil {
		b.Fatal(err)
	}
	keep(last)
}

// BenchmarkRingGet measures lookups from one goroutine.
func BenchmarkRingGet(b *testing.B) {
	xx := chash.WithHash(xxhash.Sum64String)
	for _, n := range []int{10, 100, 1000} {
		b.Run(circle(n)+"/chash=sha256", func(b *testing.B) { getRing(b, newRing(b, equal(n))) })
		b.Run(circle(n)+"/chash=sha256-pointer", func(b *testing.B) { getRing(b, newRing(b, servers(n))) })
		b.Run(circle(n)+"/chash=xxhash", func(b *testing.B) { getRing(b, newRing(b, equal(n), xx)) })
		b.Run(circle(n)+"/serialx=md5", func(b *testing.B) {
			ring := newSerialx(names(n))
			b.ReportAllocs()
			b.ResetTimer()
			var last string
			for i := range b.N {
				node, found := ring.GetNode(keys[i&keyMask])
				if !found {
					b.Fatal("no node")
				}
				last = node
			}
			keep(last)
		})
		b.Run(circle(n)+"/groupcache=crc32", func(b *testing.B) {
			ring := newGroupcache(names(n))
			b.ReportAllocs()
			b.ResetTimer()
			var last string
			for i := range b.N {
				last = ring.Get(keys[i&keyMask])
			}
			keep(last)
		})
		b.Run(circle(n)+"/authzed=xxhash", func(b *testing.B) {
			if n >= 1000 && !*slow {
				b.Skip("building it takes over a minute: -slow")
			}
			ring := authzed(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			var last hashring.Member
			for i := range b.N {
				members, err := ring.FindN([]byte(keys[i&keyMask]), 1)
				if err != nil {
					b.Fatal(err)
				}
				last = members[0]
			}
			keep(last)
		})
	}
}

// authzed returns a ring of n nodes that is built only once.
func authzed(tb testing.TB, n int) *hashring.Ring {
	tb.Helper()
	if authzeds[n] == nil {
		authzeds[n] = newAuthzed(tb, names(n))
	}
	return authzeds[n]
}

var authzeds = map[int]*hashring.Ring{}

// BenchmarkRingGetParallel measures lookups from as many goroutines at once as
// -cpu says: time passed by lookups done.
func BenchmarkRingGetParallel(b *testing.B) {
	const n = 1000
	for _, hash := range []struct {
		name string
		opts []chash.RingOption
	}{
		{"sha256", nil},
		{"xxhash", []chash.RingOption{chash.WithHash(xxhash.Sum64String)}},
	} {
		b.Run(circle(n)+"/chash="+hash.name, func(b *testing.B) {
			r := newRing(b, equal(n), hash.opts...)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var last string
				for i := first(); pb.Next(); i++ {
					last, _ = r.Get(keys[i&keyMask])
				}
				keep(last)
			})
		})
	}
}

// BenchmarkRingBuild measures a new ring, and for scale the SHA-256 sums of its
// points alone.
func BenchmarkRingBuild(b *testing.B) {
	likeAService(b)
	for _, n := range []int{10, 100, 1000} {
		b.Run(circle(n)+"/chash", func(b *testing.B) {
			backends := equal(n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				keep(newRing(b, backends))
			}
		})
		b.Run(circle(n)+"/sums", func(b *testing.B) {
			backends := names(n)
			b.ReportAllocs()
			b.ResetTimer()
			sum := byte(0)
			for range b.N {
				var label []byte
				for _, name := range backends {
					for i := range chash.DefaultReplicas {
						label = strconv.AppendInt(append(append(label[:0], name...), '#'), int64(i), 10)
						digest := sha256.Sum256(label)
						sum += digest[0]
					}
				}
			}
			keep(sum)
		})
		b.Run(circle(n)+"/serialx", func(b *testing.B) {
			nodes := names(n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				keep(newSerialx(nodes))
			}
		})
		b.Run(circle(n)+"/groupcache", func(b *testing.B) {
			nodes := names(n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				keep(newGroupcache(nodes))
			}
		})
	}
}

// BenchmarkRingChange measures one node that comes to many and goes again, and
// reports the two apart.
func BenchmarkRingChange(b *testing.B) {
	likeAService(b)
	for _, n := range []int{10, 100, 1000} {
		b.Run(circle(n), func(b *testing.B) {
			all := equal(n + 1)
			r := newRing(b, all[:n])
			b.ReportAllocs()
			b.ResetTimer()
			var adding time.Duration
			for range b.N {
				start := time.Now()
				if err := r.Add(all[n]); err != nil {
					b.Fatal(err)
				}
				adding += time.Since(start)
				if err := r.Remove(all[n].Name); err != nil {
					b.Fatal(err)
				}
			}
			each := float64(b.N)
			b.ReportMetric(float64(adding.Nanoseconds())/each, "ns/add")
			b.ReportMetric(float64((b.Elapsed()-adding).Nanoseconds())/each, "ns/remove")
		})
	}
}
