package chashcompat_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
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

// plainCilium fills a table as Cilium does.
func plainCilium(backends []chash.Backend[string], size int, seed uint64) []int {
	t := newPlainTable(size, 64)
	sum := uint64(0)
	for _, b := range backends {
		t.prefer(murmur3.SeedStringSum128(seed, seed, "["+b.Name+",State:active]"))
		sum += uint64(b.Weight)
	}
	credits := make([]float64, len(backends))
	for i, b := range backends {
		credits[i] = float64(b.Weight) / float64(len(backends))
	}
	for n := range size {
		i := n % len(backends)
		if sum/uint64(len(backends)) > 1 {
			for uint64(n+1)*uint64(backends[i].Weight) < uint64(credits[i]) {
				i = (i + 1) % len(backends)
			}
			credits[i] += float64(sum)
		}
		t.claim(i)
	}
	return t.slots
}

func TestCilium_Plain(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 2))
	for i := range 40 {
		size := []int{251, 509}[r.IntN(2)]
		backends := randomBackends(r, 1+r.IntN(40), []uint32{1, 2, 3, 100, 65535}[i%5])
		for i := range backends {
			backends[i].Name = fmt.Sprintf("10.0.%d.%d:80/TCP", r.IntN(256), i)
			backends[i].Value = backends[i].Name
		}
		slices.SortFunc(backends, func(a, b chash.Backend[string]) int { return compareTexts(a.Name, b.Name) })
		requireSlots(t, plainCilium(backends, size, 0x24B7EF82), backends, chashcompat.Cilium("JLfvgnHc2kaSUFaI"))
	}
}

// plainAvalanche is the hash that HAProxy makes its points by.
func plainAvalanche(a uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], a)
	return uint32(chashcompat.HAProxySource(netip.AddrFrom4(b), chashcompat.HAProxyAvalanche) >> 32)
}

// HAProxy's ring has the nearest of all points, and half way between two the one before.
func TestHAProxy_Plain(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 3))
	for range 20 {
		backends := make([]chash.Backend[uint32], 1+r.IntN(8))
		points := map[uint32]uint32{}
		var positions []uint32
		for i := range backends {
			id := uint32(i*100 + r.IntN(100) + 1)
			backends[i] = chash.Backend[uint32]{Name: strconv.Itoa(int(id)), Weight: 1 + r.Uint32N(3), Value: id}
			for n := range 16 * backends[i].Weight {
				positions = append(positions, plainAvalanche(id*4096+n))
				points[positions[len(positions)-1]] = id
			}
		}
		ring, err := chash.NewRing(backends, chashcompat.HAProxy(""))
		require.NoError(t, err)
		slices.Sort(positions)
		for i, p := range positions {
			next := positions[(i+1)%len(positions)]
			for _, hash := range []uint32{p - 1, p, p + 1, p + (next-p)/2 - 1, p + (next-p)/2, p + (next-p)/2 + 1, r.Uint32()} {
				at, found := slices.BinarySearch(positions, hash)
				after := positions[at%len(positions)]
				before := positions[(at+len(positions)-1)%len(positions)]
				want := points[after]
				if !found && hash-before <= after-hash {
					want = points[before]
				}
				got, err := ring.GetHash(uint64(hash) << 32)
				require.NoError(t, err)
				require.Equal(t, want, got, "hash %d", hash)
			}
		}
	}
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

// With a skip of 2^17, Katran's sums meet 2^15 slots and no others, so that it never ends.
func TestKatran_Endless(t *testing.T) {
	const size, skip = 262147, 1 << 17
	var backend uint64
	for {
		text := binary.LittleEndian.AppendUint64(nil, backend)
		h, _ := murmur3.SeedSum128(2307, 2307, binary.LittleEndian.AppendUint64(text, 2718281828))
		if h%(size-1)+1 == skip {
			break
		}
		backend++
	}
	name := strconv.FormatUint(backend, 10)
	for _, option := range []chash.MaglevOption{chashcompat.KatranV1(), chashcompat.KatranV2()} {
		_, err := chash.NewMaglev(chash.Named(name), option, chash.WithTableSize(size))
		require.ErrorIs(t, err, chashcompat.ErrSetting)
		require.ErrorContains(t, err, "does not end")
	}
}
