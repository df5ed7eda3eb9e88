package chashtest

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
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

	"github.com/chash-go/chash"
)

// SampleKeys are the keys over which mappings are compared.
var SampleKeys = func() []string {
	keys := []string{"", "\x00", "\xff", "\xff\xfe", "a", "héllo", strings.Repeat("long", 64)}
	for i := range 2000 {
		keys = append(keys, fmt.Sprintf("key-%d", i))
	}
	return keys
}()

// ManyNames are prefix0, prefix1, ...
func ManyNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

// UpsideDown is a hash unlike the default ones. (The complement would not do:
// it gives a Maglev table of 65,537 slots the mirror image of the same mapping.)
func UpsideDown(key string) uint64 { return bits.Reverse64(xxhash.Sum64String(key)) }

// Backend is a backend whose value is its name.
func Backend(name, hashKey string, weight uint32, state chash.State) chash.Backend[string] {
	return chash.Backend[string]{Name: name, HashKey: hashKey, Weight: weight, State: state, Value: name}
}

func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Clumsy are hashes on which much or all collides.
var Clumsy = map[string]func(string) uint64{
	"always 0":       func(string) uint64 { return 0 },
	"always the max": func(string) uint64 { return math.MaxUint64 },
	"always odd":     func(string) uint64 { return 0x9E3779B97F4A7C15 },
	"two values":     func(key string) uint64 { return xxhash.Sum64String(key) & 1 },
	"ten values":     func(key string) uint64 { return xxhash.Sum64String(key) % 10 },
	"ten far values": func(key string) uint64 { return xxhash.Sum64String(key) % 10 << 60 },
}

func AcceptThird(value string) bool { return strings.HasSuffix(value, "3") }

var AllocationKeys = []string{"", "user:42", strings.Repeat("k", 40), strings.Repeat("k", 200), strings.Repeat("k", 1024)}

type allocationCase struct {
	Name     string
	Backends []chash.Backend[string]
	Opts     []chash.Option
}

// AllocationCases are every kind of hash, at every depth of outage. GetFunc and
// AppendN may allocate past 32 healthy placements, so there are never more.
func AllocationCases() []allocationCase {
	sick := func(n int, unhealthy func(i int) bool) []chash.Backend[string] {
		backends := chash.Named(ManyNames("b", n)...)
		for i := range backends {
			if unhealthy(i) {
				backends[i].State = chash.Unhealthy
			}
		}
		return backends
	}
	hashes := []allocationCase{
		{"default hash", nil, nil},
		{"seeded", nil, []chash.Option{chash.WithSeed(1)}},
		{"own hash", nil, []chash.Option{chash.WithHash(xxhash.Sum64String)}},
	}
	outages := []allocationCase{
		{"all healthy", sick(32, func(int) bool { return false }), nil},
		{"half unhealthy", sick(64, func(i int) bool { return i%2 == 0 }), nil},
		{"all but one unhealthy", sick(200, func(i int) bool { return i != 33 }), nil},
		{"none healthy", sick(3, func(int) bool { return true }), nil},
		{"no backends", nil, nil},
	}
	var cases []allocationCase
	for _, h := range hashes {
		for _, o := range outages {
			cases = append(cases, allocationCase{h.Name + "/" + o.Name, o.Backends, h.Opts})
		}
	}
	return cases
}

func Numbered(prefix string, n int) []chash.Backend[string] {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i)
	}
	return chash.Named(names...)
}

// Rounds runs fn for seeds 0 to n-1, or a quarter of them with -short.
func Rounds(t *testing.T, n uint64, fn func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	if testing.Short() {
		n = (n + 3) / 4
	}
	for seed := range n {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { fn(t, rand.New(rand.NewPCG(seed, 0))) }) {
			return // one seed to look into is enough
		}
	}
}

// AwkwardNames are names that invite confusion: with the separators and digits
// of point labels, with the bytes before a hash key, with each other.
var AwkwardNames = []string{
	"a", "a#", "a#1", "a#1#", "a##", "#", "##", "#1", "1#", "0", "00", "1", "1host", "host", "host1", "host 1", " host",
	"host ", "host:80", "host:80#2", "[::1]:443", "http://host/?q=1#top", " ", "\t\n", "\x00", "a\x00", "\xba", "\xbe", "\xbaa",
	"\xbea", "\xff", "h\xe9llo", "héllo", "he\u0301llo", "日本", "日本#1", "🙂",
}

var tableSizes = []int{2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1021}

// RandomTwin is an empty twin with random options: of a Maglev with room for
// n placements, or of a Ring.
func RandomTwin(rng *rand.Rand, ring bool, n int) *Twin {
	hashes := []func(string) uint64{
		nil, nil, nil, // mostly the structure's own
		xxhash.Sum64String,
		func(string) uint64 { return 0 },
		func(string) uint64 { return math.MaxUint64 },
		func(key string) uint64 { return xxhash.Sum64String(key) % 10 },
		func(key string) uint64 { return xxhash.Sum64String(key) % 10 * (math.MaxUint64 / 9) },
	}
	hash, seed := hashes[rng.IntN(len(hashes))], uint64(0)
	if hash == nil && rng.IntN(2) == 0 {
		seed = rng.Uint64()
	}
	if ring {
		w := NewTwin(true, []int{1, 2, 3, 5, 8, 20}[rng.IntN(6)], seed, hash)
		if w.Size <= 5 && rng.IntN(2) == 0 && BlindDigests != nil { // all alike, few different ones, in the top or in the low bits
			w.Blind = []uint64{math.MaxUint64, math.MaxUint64 >> 3, ^uint64(7)}[rng.IntN(3)]
		}
		return w
	}
	first := slices.IndexFunc(tableSizes, func(m int) bool { return m >= n })
	w := NewTwin(false, tableSizes[first+rng.IntN(len(tableSizes)-first)], seed, hash)
	if rng.IntN(2) == 0 {
		w.Slack = RandomSlack(rng)
	}
	return w
}

// RandomName draws an awkward name or an ordinary one.
func RandomName(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return AwkwardNames[rng.IntN(len(AwkwardNames))]
	}
	return fmt.Sprintf("backend-%d", rng.IntN(200))
}

// RandomBackends is n backends in random order with different names, whose
// weights follow one of several patterns and which at times share hash keys.
func RandomBackends(rng *rand.Rand, ring bool, n int) []chash.Backend[string] {
	patterns := []func() uint32{
		func() uint32 { return 0 },
		func() uint32 { return 3 },
		func() uint32 { return rng.Uint32N(8) },
		func() uint32 { return 1 + rng.Uint32N(2)*9 },
	}
	if !ring { // whose points would be too many
		patterns = append(patterns,
			func() uint32 { return math.MaxUint32 },
			func() uint32 { return 1 + rng.Uint32N(2)*(math.MaxUint32-1) },
			func() uint32 { return math.MaxUint32 - rng.Uint32N(2) },
			rng.Uint32,
		)
	}
	pattern := patterns[rng.IntN(len(patterns))]
	shared := rng.IntN(3) == 0
	names := map[string]bool{}
	for len(names) < n {
		names[RandomName(rng)] = true
	}
	var backends []chash.Backend[string]
	for name := range names {
		backends = append(backends, chash.Backend[string]{Name: name, Value: "value of " + name})
	}
	slices.SortFunc(backends, func(a, b chash.Backend[string]) int { return cmp.Compare(a.Name, b.Name) })
	rng.Shuffle(n, func(i, j int) { backends[i], backends[j] = backends[j], backends[i] })
	for i := range backends {
		backends[i].Weight = pattern()
		if shared && rng.IntN(2) == 0 {
			backends[i].HashKey = backends[rng.IntN(n)].Name // perhaps its own
		}
	}
	return backends
}

// RandomStates gives each backend a state: all healthy, some, or hardly any.
func RandomStates(rng *rand.Rand, backends []chash.Backend[string]) {
	sick := []int{0, 0, 2, 5, 9, 10}[rng.IntN(6)] // of ten
	for i := range backends {
		backends[i].State = chash.Healthy
		if rng.IntN(10) < sick {
			backends[i].State = chash.Unhealthy
		}
		if sick > 0 && rng.IntN(6) == 0 {
			backends[i].State = chash.Draining
		}
	}
	if sick == 9 {
		backends[rng.IntN(len(backends))].State = chash.Healthy
	}
}

// RandomKeys is n keys of all lengths, of which some are names, and some labels
// of a ring's points: their digests are equal to those of the points.
func RandomKeys(rng *rand.Rand, n int) []string {
	keys := []string{"", "\xff"}
	for range n {
		switch rng.IntN(4) {
		case 0:
			keys = append(keys, RandomName(rng))
		case 1:
			keys = append(keys, fmt.Sprintf("%s#%d", RandomName(rng), rng.IntN(4)))
		case 2:
			key := make([]byte, rng.IntN(100))
			for i := range key {
				key[i] = byte(rng.Uint32())
			}
			keys = append(keys, string(key))
		default:
			keys = append(keys, fmt.Sprintf("user:%d", rng.Uint64()))
		}
	}
	return keys
}

func WeightOf(b chash.Backend[string]) int64 { return int64(max(b.Weight, 1)) }

// RandomSlack is a slack of one of many sizes.
func RandomSlack(rng *rand.Rand) *float64 {
	slacks := []float64{0, 1e-9, 1.0 / 65536, 0.01, 0.05, 0.3, 2, 1000, 2147483647, 2147483648, 1e300, math.Inf(1), math.Inf(1), rng.Float64()}
	return &slacks[rng.IntN(len(slacks))]
}

func readerRounds() int {
	if testing.Short() {
		return 200
	}
	return 1500
}

// ReadWhile runs read in several goroutines, round after round, while write
// runs again and again in this one. A reader ends early on an error, which
// fails the test.
func ReadWhile(t *testing.T, read func(round int) error, write func(i int)) {
	t.Helper()
	var reading sync.WaitGroup
	var writes, left atomic.Int64
	left.Store(Readers)
	for reader := range Readers {
		reading.Add(1)
		go func() {
			defer reading.Done()
			defer left.Add(-1)
			for round := 0; round < readerRounds() || writes.Load() < LeastWrites; round++ {
				if err := read(reader*1000 + round); err != nil {
					t.Errorf("reader %d, round %d: %v", reader, round, err)
					return
				}
			}
		}()
	}
	for i := 0; left.Load() > 0; i++ {
		write(i)
		writes.Add(1)
	}
	reading.Wait()
}

// Changing are the methods that change the membership, which wait for each other.
var Changing = []string{
	"Add", "Remove", "Set", "Reconcile", "Clear", "SetState", "CompareAndSwapState", "SetWeight", "SetValue", "SetLoadFactor", "SetLoadFloor",
}

// CallWithZeros calls a method with zero values, and self where its type is asked for.
// It goes through a sequence that is returned.
func CallWithZeros(method, self reflect.Value) {
	kind := method.Type()
	var args []reflect.Value
	for i := range kind.NumIn() {
		in := kind.In(i)
		switch {
		case kind.IsVariadic() && i == kind.NumIn()-1:
		case in == self.Type():
			args = append(args, self)
		case in.Kind() == reflect.Func:
			args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
				out := make([]reflect.Value, in.NumOut())
				for i := range out {
					out[i] = reflect.Zero(in.Out(i))
				}
				return out
			}))
		case in.Kind() == reflect.Int:
			args = append(args, reflect.ValueOf(2)) // of backends, say
		case in.Kind() == reflect.Interface: // fmt.State, say, which Sprint makes
			_ = fmt.Sprint(self.Interface())
			return
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	for _, result := range method.Call(args) {
		switch {
		case result.Kind() != reflect.Func:
		case result.Type().CanSeq():
			for range result.Seq() {
			}
		case result.Type().CanSeq2():
			for range result.Seq2() {
			}
		}
	}
}

// Together calls f in n goroutines that begin at once, and returns the results.
func Together[R any](n int, f func(i int) R) []R {
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

// Threads has goroutines run on more threads than there may be processors, so that the
// system takes the processor away from one at any instruction while the others go on.
// On two busy processors with a thread each, a mistake in between goes unseen.
func Threads(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// Pair calls f in two goroutines, which begin each round at about the same time.
// The last to come has a lead, as the other has yet to hear of it, and waits for
// longer and longer, over and over, to make up for that. The first to come waits
// for the other, which may be a whole time slice away from having a processor; but
// for a second in all, where it seldom has one.
func Pair(f func(i, round int)) {
	const patience = 10_000 // after which the other may need this one's processor
	late := time.Now().Add(time.Second)
	var begun, idle atomic.Int64
	Together(2, func(i int) int {
		alone := false // it has waited for long enough
		for round := range InStep {
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

// InStep is for how many rounds a pair runs: enough that the two meet within a few
// instructions many times, if there are two processors.
const InStep = 30000

const (
	Readers     = 3
	LeastWrites = 50
)
