package benchmarks_test

import (
	"crypto/sha256"
	"flag"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// What is measured to the nanosecond calls its subject in a loop of its own, for
// a call through a function value would add a fifth to the fastest.

var slow = flag.Bool("slow", false, "also measure what takes more than a minute to set up")

var sink atomic.Pointer[any]

// keep takes what a loop computed, so that the compiler cannot drop the loop.
func keep(v any) { sink.Store(&v) }

// keyCount is a power of two, and more keys than a processor learns by heart.
const (
	keyCount = 1 << 14
	keyMask  = keyCount - 1
)

// keys are what is looked up: 16 to 22 bytes each, in order of length. In no
// order, the processor would mispredict the hash's branches on the length, which
// costs more than all that a lookup adds to the hash and would hide it.
var keys = func() *[keyCount]string {
	random := rand.New(rand.NewPCG(1, 2))
	keys := new([keyCount]string)
	for i := range keys {
		key := "/user/" + strconv.FormatUint(random.Uint64()|1<<63, 16) // 22 bytes
		keys[i] = key[:16+i*7/keyCount]
	}
	return keys
}()

// first returns where in keys the next goroutine begins, each somewhere else.
func first() int { return int(begun.Add(1)) * (keyCount/8 + 1) }

var begun atomic.Int64

// likeAService gives a benchmark the heap of a small service. A change of a large ring
// allocates as much as a heap of nothing but that ring, so that the garbage collector
// would run for every other one, and a third of what is measured would be its work.
func likeAService(b *testing.B) {
	ballast := make([]byte, 64<<20) // no page of it is touched
	b.Cleanup(func() { runtime.KeepAlive(ballast) })
}

// names returns the names of n backends.
func names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "backend-" + strconv.Itoa(i)
	}
	return names
}

// weighted returns n backends, to which the weights go in turn.
func weighted(n int, weights ...uint32) []chash.Backend[string] {
	backends := chash.Named(names(n)...)
	for i := range backends {
		backends[i].Weight = weights[i%len(weights)]
	}
	return backends
}

// equal returns n backends of weight 1.
func equal(n int) []chash.Backend[string] { return weighted(n, 1) }

// distinct returns n backends of weights 1 to n.
func distinct(n int) []chash.Backend[string] {
	backends := equal(n)
	for i := range backends {
		backends[i].Weight = uint32(i + 1)
	}
	return backends
}

// server stands for what a service keeps of a backend: a connection, say.
type server struct{ name string }

// servers returns n backends whose values are pointers.
func servers(n int) []chash.Backend[*server] {
	backends := make([]chash.Backend[*server], n)
	for i, name := range names(n) {
		backends[i] = chash.Backend[*server]{Name: name, Value: &server{name}}
	}
	return backends
}

func newMaglev[T any](tb testing.TB, backends []chash.Backend[T], opts ...chash.MaglevOption) *chash.Maglev[T] {
	tb.Helper()
	m, err := chash.NewMaglev(backends, opts...)
	require.NoError(tb, err)
	return m
}

func newRing[T any](tb testing.TB, backends []chash.Backend[T], opts ...chash.RingOption) *chash.Ring[T] {
	tb.Helper()
	r, err := chash.NewRing(backends, opts...)
	require.NoError(tb, err)
	return r
}

// BenchmarkHash is the floor under every lookup: the hash of the key alone.
func BenchmarkHash(b *testing.B) {
	b.Run("xxhash", func(b *testing.B) {
		b.ReportAllocs()
		sum := uint64(0)
		for i := range b.N {
			sum += xxhash.Sum64String(keys[i&keyMask])
		}
		keep(sum)
	})
	b.Run("sha256", func(b *testing.B) {
		b.ReportAllocs()
		sum := byte(0)
		for i := range b.N {
			digest := sha256.Sum256([]byte(keys[i&keyMask]))
			sum += digest[0]
		}
		keep(sum)
	})
}
