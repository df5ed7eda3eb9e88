package contract_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// placedBy returns a hash that gives placements the offsets and skips of a function, in
// tables of m slots.
func placedBy(m int, place func(hashKey string) (offset, skip uint64)) func(string) uint64 {
	return func(key string) uint64 {
		if key == "" {
			return 0
		}
		offset, skip := place(key[1:])
		if key[0] == 0xBA {
			return offset % uint64(m)
		}
		return (skip + uint64(m) - 2) % uint64(m-1) // of which mod m-1 and 1 more is skip
	}
}

// poorTwin returns an empty twin and n backends whose placements have few skips, and
// offsets that are near each other, far from each other or the same.
func poorTwin(random *rand.Rand, m, n int) (*chashtest.Twin, []chash.Backend[string]) {
	skips := make([]uint64, 1+random.IntN(4))
	for i := range skips {
		if skips[i] = 1 + random.Uint64N(uint64(m-1)); random.IntN(2) == 0 {
			skips[i] = 1 + uint64(i)
		}
	}
	reach := 1 + random.Uint64N(uint64(m))
	if random.IntN(2) == 0 {
		reach = 1 + random.Uint64N(3)
	}
	weights := 1 + random.Uint32N(4)
	places := map[string][2]uint64{}
	var backends []chash.Backend[string]
	for _, name := range chashtest.ManyNames("b", n) {
		places[name] = [2]uint64{random.Uint64N(reach), skips[random.IntN(len(skips))]}
		backends = append(backends, chash.Backend[string]{Name: name, Value: name, Weight: 1 + random.Uint32N(weights)})
	}
	return chashtest.NewTwin(false, m, 0, placedBy(m, func(hashKey string) (uint64, uint64) {
		return places[hashKey][0], places[hashKey][1]
	})), backends
}

// TestPoorHash_Twin fills tables by poor hashes, beside the plain fill.
func TestPoorHash_Twin(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 15))
	sizes := []int{31, 127, 251, 1021, 4093}
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	for range rounds {
		m := sizes[random.IntN(len(sizes))]
		w, backends := poorTwin(random, m, 1+random.IntN(min(m, 120)))
		require.Empty(t, w.Add(backends...))
		s := chashtest.Must(w.Build(backends))
		require.Equal(t, w.Owners, chashtest.SlotsOf(t, s, m), "%d slots, backends %v", m, backends)
	}
}

// TestPoorHash_TwinWithSlack is TestPoorHash_Twin for tables with slack. Their sizes and
// numbers of placements are such that claims of slots that others have are many.
func TestPoorHash_TwinWithSlack(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 9))
	rounds := 120
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		m := []int{31, 127, 251, 509}[random.IntN(4)]
		w, backends := poorTwin(random, m, 1+random.IntN(min(m, 90)))
		slack := []float64{0, 0.01, 0.3, math.Inf(1)}[random.IntN(4)]
		w.Slack = &slack
		require.Empty(t, w.Add(backends...))
		s := chashtest.Must(w.Build(backends))
		require.Equal(t, w.Owners, chashtest.SlotsOf(t, s, m), "%d slots, slack %v, backends %v", m, slack, backends)
	}
}

// poorHashes give placements few places, or places on a few lines. Each took minutes in a
// large table before placements of one skip shared what they found taken.
var poorHashes = map[string]func(m int) func(string) uint64{
	"always 0": func(int) func(string) uint64 { return chashtest.Clumsy["always 0"] },
	"256 values": func(int) func(string) uint64 {
		return func(key string) uint64 { return sumOf(key) % 256 }
	},
	"4096 far values": func(int) func(string) uint64 {
		return func(key string) uint64 { return chashtest.Finalize(sumOf(key) % 4096) }
	},
	"one skip, any offset": func(m int) func(string) uint64 {
		return placedBy(m, func(hashKey string) (uint64, uint64) { return sumOf(hashKey), 1 })
	},
	"300 skips, one offset": func(m int) func(string) uint64 {
		return placedBy(m, func(hashKey string) (uint64, uint64) { return 0, 1 + sumOf(hashKey)%300 })
	},
	"the last bytes": func(int) func(string) uint64 {
		return func(key string) uint64 {
			return uint64(binary.BigEndian.Uint16([]byte("00" + key)[len(key):]))
		}
	},
}

func sumOf(key string) uint64 { return chashtest.Finalize(xxhash.Sum64String(key) ^ 1) }

// TestPoorHash_LargeTable fills a large table with each poor hash. What it takes is
// bounded: where it is not, this test does not end.
func TestPoorHash_LargeTable(t *testing.T) {
	const m = 1<<20 + 7 // a prime
	backends := chash.Named(chashtest.ManyNames("10.0.0.", 5000)...)
	for name, hash := range poorHashes {
		t.Run(name, func(t *testing.T) {
			s, err := chash.NewMaglev(backends, chash.WithTableSize(m), chash.WithHash(hash(m)))
			require.NoError(t, err)
			counts := make([]int, 0, len(backends))
			for _, share := range s.Shares() {
				counts = append(counts, share.Size)
			}
			require.LessOrEqual(t, slices.Max(counts)-slices.Min(counts), 1)
		})
	}
}
