package chash_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// This file gives UnmarshalMaglev and UnmarshalRing what a stranger may: forms with a right
// checksum, each of whose fields says what costs the most.

// hostileLimit is what hostile data may allocate at the default bounds.
const hostileLimit = 64 << 20

// largestPrime is the largest table that is read without WithMaxSize.
const largestPrime = 1<<20 - 3

// checkHostile checks that the form of a structure is refused, and what that allocates.
// Its fingerprint is wrong, so that it is built if nothing else is wrong.
func checkHostile(t *testing.T, kind string, options []formOption, backends []chash.Backend[string], opts ...chash.Option) error {
	t.Helper()
	letter := map[string]byte{"maglev": 'M', "ring": 'R'}[kind]
	backends = slices.SortedFunc(slices.Values(backends), func(a, b chash.Backend[string]) int { return strings.Compare(a.Name, b.Name) })
	data := form{letter, options, 1, backends}.bytes()
	var err error
	bytes := allocated(func() { _, err = unmarshal(kind, data, decodeString, opts...) })
	require.Error(t, err)
	require.True(t, isRefusal(err), "%.200v", err)
	require.Less(t, bytes, uint64(hostileLimit), "%.200v", err)
	return err
}

// extremes are values of a field of 64 bits.
var extremes = []uint64{
	0, 1, 2, 3, 251, 65537, largestPrime, 1 << 20, 1<<20 + 7, 1<<21 - 9, 1 << 26, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32,
	1 << 40, 1<<63 - 1, 1 << 63, math.MaxUint64,
	math.Float64bits(1.5), math.Float64bits(1e300), math.Float64bits(math.Inf(1)), math.Float64bits(math.NaN()),
}

func TestHostile_Options(t *testing.T) {
	backends := chashtest.Numbered("b", 10)
	for _, kind := range chashtest.Kinds {
		sizes := map[string][]uint64{"ring": {160, 1 << 16}, "maglev": {251, largestPrime}}[kind.Name]
		for number := range byte(12) {
			for _, value := range extremes {
				for _, size := range sizes {
					options := []formOption{{1, size}, {number, value}}
					if number == 1 {
						options = []formOption{{1, value}}
					}
					checkHostile(t, kind.Name, options, backends)
				}
			}
		}
	}
}

// The heaviest backends, the most of them, and the longest names.
func TestHostile_Backends(t *testing.T) {
	weighing := func(n int, weight func(i int) uint32) []chash.Backend[string] {
		backends := chashtest.Numbered("b", n)
		for i := range backends {
			backends[i].Weight = weight(i)
		}
		return backends
	}
	one := func(int) uint32 { return 1 }
	long := strings.Repeat("x", 1<<20)
	for name, backends := range map[string][]chash.Backend[string]{
		"one heaviest":             weighing(1, func(int) uint32 { return math.MaxUint32 }),
		"heaviest":                 weighing(1000, func(int) uint32 { return math.MaxUint32 }),
		"as many points as can be": weighing(2, func(int) uint32 { return 1 << 19 }),
		"all weights differ":       weighing(1400, func(i int) uint32 { return uint32(i) + 1 }),
		"far apart weights":        weighing(60, func(i int) uint32 { return 1 << (i % 31) }),
		"many":                     weighing(50_000, one),
		"long name":                {{Name: long, Weight: 6000}, {Name: "b", Weight: 1}},
		"long hash key":            {{Name: "a", HashKey: long, Weight: 6000}, {Name: "b", Weight: 1}},
		"long value":               {{Name: "a", Value: long, Weight: 1}, {Name: "b", Weight: 1}},
		"unknown state":            {{Name: "a", State: 200, Weight: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, replicas := range []uint64{1, 160} {
				checkHostile(t, "ring", []formOption{{1, replicas}}, backends)
			}
			checkHostile(t, "ring", []formOption{{1, 1 << 20}, {6, math.MaxUint32}}, backends)
			checkHostile(t, "maglev", []formOption{{1, largestPrime}}, backends)
			for _, slack := range []float64{0, 0.01, 1 << 31} {
				checkHostile(t, "maglev", []formOption{{1, largestPrime}, {7, math.Float64bits(slack)}}, backends)
			}
		})
	}
}

// A caller's hash of hash keys that are long costs no copies of them.
func TestHostile_LongNamesWithHash(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	backends := []chash.Backend[string]{{Name: long, Weight: 100_000}, {Name: "b", Weight: 1}}
	hash := chash.WithHash(func(key string) uint64 { return xxhash.Sum64String(key) })
	options := []formOption{{1, 1}, {3, xxhash.Sum64String("chash")}}
	err := checkHostile(t, "ring", options, backends, hash)
	require.ErrorContains(t, err, "fingerprint")
}

// cancelling returns names for which xxHash64 is the same, whatever stands before them for
// up to eight bytes and whatever the seed. Its second lane reads a word of the first
// stripe and one of the second; the words of the second undo what those of the first do.
func cancelling(t *testing.T, n int) []string {
	const prime1, prime2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
	inverse := uint64(1) // of prime2, by Newton's method
	for range 6 {
		inverse *= 2 - inverse*prime2
	}
	round := func(lane, word uint64) uint64 {
		lane += word * prime2
		return (lane<<31 | lane>>33) * prime1
	}
	start := uint64(prime2) // of the second lane
	names := make([]string, n)
	for i := range names {
		name := []byte(strings.Repeat(".", 63))
		first := uint64(i)
		// The salt is a byte before the name, so that the lane begins at byte 7 of it.
		binary.LittleEndian.PutUint64(name[7:], first)
		binary.LittleEndian.PutUint64(name[39:], -round(start, first)*inverse)
		names[i] = string(name)
	}
	for _, salt := range []string{"\xba", "\xbc", "\xbe"} {
		for _, name := range names[1:] {
			require.Equal(t, xxhash.Sum64String(salt+names[0]), xxhash.Sum64String(salt+name))
		}
	}
	return names
}

// Names that collide cost no more than others, in a table of any slack. Where they do,
// this test does not end.
func TestHostile_CollidingNames(t *testing.T) {
	names := cancelling(t, 50_000)
	var backends []chash.Backend[string]
	for _, name := range names {
		backends = append(backends, chash.Backend[string]{Name: name, Weight: 1})
	}
	for _, slack := range []float64{-1, 0, 0.01, 1 << 31} {
		options := []formOption{{1, largestPrime}}
		if slack >= 0 {
			options = append(options, formOption{7, math.Float64bits(slack)})
		}
		require.ErrorContains(t, checkHostile(t, "maglev", options, backends), "fingerprint")
	}
	require.ErrorContains(t, checkHostile(t, "ring", []formOption{{1, 20}}, backends), "fingerprint")
}

func TestCollidingNames_Slots(t *testing.T) {
	names := cancelling(t, 300)
	for _, m := range []int{1021, 65537} {
		got := chashtest.SlotsOf(t, chashtest.Must(chashtest.NewMaglev(chash.Named(names...), chash.WithTableSize(m))), m)
		require.Equal(t, plainTable(names, m, xxhash.Sum64String), got, fmt.Sprint(m, " slots"))
	}
}
