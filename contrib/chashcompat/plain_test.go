package chashcompat_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"github.com/twmb/murmur3"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// These tests compare the tables with the plainest way to fill them: all backends in every
// round, and preferences by a multiplication.

// A plainTable is slots, -1 where one is free.
type plainTable struct {
	slots        []int
	offset, skip []uint64
	turns        []uint64
	bits         int
}

func newPlainTable(size, bits int) *plainTable {
	return &plainTable{slots: slices.Repeat([]int{-1}, size), bits: bits}
}

func (t *plainTable) prefer(offset, skip uint64) {
	size := uint64(len(t.slots))
	t.offset = append(t.offset, offset%size)
	t.skip = append(t.skip, skip%(size-1)+1)
	t.turns = append(t.turns, 0)
}

func (t *plainTable) full() bool { return !slices.Contains(t.slots, -1) }

func (t *plainTable) claim(backend int) {
	for !t.full() {
		at := t.offset[backend] + t.turns[backend]*t.skip[backend]
		at &= ^uint64(0) >> (64 - t.bits)
		t.turns[backend]++
		if slot := at % uint64(len(t.slots)); t.slots[slot] < 0 {
			t.slots[slot] = backend
			return
		}
	}
}

// plainEnvoy fills a table as Envoy does.
func plainEnvoy(backends []chash.Backend[string], size int) []int {
	t := newPlainTable(size, 64)
	sum, largest := 0.0, 0.0
	for _, b := range backends {
		d := xxhash.NewWithSeed(1)
		fmt.Fprint(d, b.Name)
		t.prefer(xxhash.Sum64String(b.Name), d.Sum64())
		sum += float64(b.Weight)
	}
	for _, b := range backends {
		largest = max(largest, float64(b.Weight)/sum)
	}
	targets := make([]float64, len(backends))
	for round := 1; !t.full(); round++ {
		for i, b := range backends {
			if float64(round)*(float64(b.Weight)/sum) >= targets[i] {
				targets[i] += largest
				t.claim(i)
			}
		}
	}
	return t.slots
}

// plainKatran fills a table as Katran does, in the first or the second version.
func plainKatran(backends []chash.Backend[string], size, version int) []int {
	t := newPlainTable(size, 32)
	largest := uint32(0)
	hash := func(a, b, seed uint64) uint64 {
		text := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
		h, _ := murmur3.SeedSum128(seed, seed, text)
		return h
	}
	for _, b := range backends {
		number, _ := strconv.ParseUint(b.Name, 10, 64)
		t.prefer(hash(number, 42, 0), hash(number, 2718281828, 2307))
		largest = max(largest, b.Weight)
	}
	sums := make([]uint32, len(backends))
	for round := 1; !t.full(); round++ {
		for i, b := range backends {
			turns := uint32(1)
			if version == 1 && round == 1 {
				turns = b.Weight
			}
			if version == 2 {
				sums[i] += b.Weight
				turns = sums[i] / largest
				sums[i] %= largest
			}
			for range min(turns, uint32(size)) {
				t.claim(i)
			}
		}
	}
	return t.slots
}

// randomBackends returns backends of weights up to a limit, sorted by name.
func randomBackends(r *rand.Rand, n int, weight uint32) []chash.Backend[string] {
	backends := make([]chash.Backend[string], n)
	for i := range backends {
		name := strconv.FormatUint(r.Uint64()>>r.IntN(60), 10)
		backends[i] = chash.Backend[string]{Name: name, Weight: 1 + r.Uint32N(weight), Value: name}
	}
	slices.SortFunc(backends, func(a, b chash.Backend[string]) int { return compareNumbers(a.Name, b.Name) })
	return slices.CompactFunc(backends, func(a, b chash.Backend[string]) bool { return a.Name == b.Name })
}

func compareNumbers(a, b string) int {
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// requireSlots checks who owns each slot.
func requireSlots(t *testing.T, want []int, backends []chash.Backend[string], option chash.MaglevOption) {
	t.Helper()
	table, err := chash.NewMaglev(backends, option, chash.WithTableSize(len(want)))
	require.NoError(t, err)
	for slot, i := range want {
		got, err := table.GetHash(uint64(slot))
		require.NoError(t, err)
		require.Equal(t, backends[i].Name, got, "slot %d of %d, %d backends", slot, len(want), len(backends))
	}
}

func TestTables_Plain(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 0))
	for range 60 {
		size := []int{2, 3, 7, 13, 251, 509}[r.IntN(6)]
		weight := []uint32{1, 3, 100, 1 << 20, 1 << 31}[r.IntN(5)]
		backends := randomBackends(r, 1+r.IntN(min(size, 40)), weight)
		requireSlots(t, plainKatran(backends, size, 1), backends, chashcompat.KatranV1())
		requireSlots(t, plainKatran(backends, size, 2), backends, chashcompat.KatranV2())

		slices.SortFunc(backends, func(a, b chash.Backend[string]) int { return compareTexts(a.Name, b.Name) })
		if weight < 1<<31 {
			requireSlots(t, plainEnvoy(backends, size), backends, chashcompat.EnvoyMaglev())
		}
	}
}

func compareTexts(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// In a table of more than 65,537 slots Katran's sums of 32 bits overflow, and so do these.
func TestKatran_Overflow(t *testing.T) {
	backends := chash.Named("1", "6238072747940578789")
	for i := range backends {
		backends[i].Weight = 1
	}
	const size = 262147
	want := plainKatranOverflow(backends, size)
	requireSlots(t, want, backends, chashcompat.KatranV1())
}

// plainKatranOverflow is plainKatran without looking at all slots in each step.
func plainKatranOverflow(backends []chash.Backend[string], size int) []int {
	slots := slices.Repeat([]int{-1}, size)
	var offset, skip, turns [2]uint32
	for i, b := range backends {
		number, _ := strconv.ParseUint(b.Name, 10, 64)
		text := binary.LittleEndian.AppendUint64(nil, number)
		h, _ := murmur3.SeedSum128(0, 0, binary.LittleEndian.AppendUint64(slices.Clone(text), 42))
		offset[i] = uint32(h % uint64(size))
		h, _ = murmur3.SeedSum128(2307, 2307, binary.LittleEndian.AppendUint64(text, 2718281828))
		skip[i] = uint32(h%uint64(size-1)) + 1
	}
	for n := range size {
		i := n % 2
		for {
			slot := (offset[i] + turns[i]*skip[i]) % uint32(size)
			turns[i]++
			if slots[slot] < 0 {
				slots[slot] = i
				break
			}
		}
	}
	return slots
}

// A table in which one backend is far heavier than many others takes no time of all of
// them for each slot.
func TestTables_Skewed(t *testing.T) {
	n, size := 100_000, 1_000_003
	if testing.Short() {
		n, size = 10_000, 65537
	}
	backends := make([]chash.Backend[string], n)
	for i := range backends {
		backends[i].Name, backends[i].Weight = strconv.Itoa(i), 1
	}
	backends[n/2].Weight = 1 << 31
	for _, option := range []chash.MaglevOption{chashcompat.EnvoyMaglev(), chashcompat.KatranV2()} {
		table, err := chash.NewMaglev(backends, option, chash.WithTableSize(size))
		require.NoError(t, err)
		require.Equal(t, size, table.Stats().Size)
	}
}
