package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestHashesAreSpread(t *testing.T) {
	require.Equal(t, []uint64{0, 1, 2, 3, 4, 5, 6}, slices.Collect(everySlot(7)))
	const quarter = 1 << 62
	require.Equal(t, []uint64{quarter / 2, 3 * quarter / 2, 5 * quarter / 2, 7 * quarter / 2}, slices.Collect(everywhere(4)))
}

func TestMovedCounts(t *testing.T) {
	var m moved
	m.count([]int{0, 1, 2, 2, 1, 0}, []int{0, 1, 0, 1, 0, 0}, 2)
	require.Equal(t, moved{keys: 3, fewest: 2, all: 6}, m)
	require.InDelta(t, 1.5, m.excess(), 0)
	require.Equal(t, "50.00 % (1.50 times)", m.String())
	m.count([]int{0, 1}, []int{2, 1}, 2)
	require.Equal(t, moved{keys: 4, fewest: 3, all: 8}, m, "sums over sets")
}

// With 13 slots for 5 backends, three own 3 and two own 2.
func TestBalanceOfKnownTable(t *testing.T) {
	b, err := balanceOf(maglevOf(13), 3, 5)
	require.NoError(t, err)
	require.InDelta(t, 2*5/13.0, b.least, 1e-9)
	require.InDelta(t, 3*5/13.0, b.largest, 1e-9)
}

// A node's share of a ring strays by about 1/sqrt(replicas): at 160 by 8 %, of 100
// the farthest by some 2.5 times that.
func TestBalanceOfRing(t *testing.T) {
	b, err := balanceOf(ringOf(), 3, 100)
	require.NoError(t, err)
	require.InDelta(t, 0.82, b.least, 0.06)
	require.InDelta(t, 1.20, b.largest, 0.06)
}

func TestDisruption(t *testing.T) {
	const n = 20
	d, err := disruptionOf(ringOf(), everywhere(1<<12), 3, n)
	require.NoError(t, err)
	require.Equal(t, d.removed.fewest, d.removed.keys, "a ring moves no key but those of the node that goes")
	require.Equal(t, d.added.fewest, d.added.keys, "nor but to the one that comes")
	require.InDelta(t, 1.0/n, float64(d.removed.keys)/float64(d.removed.all), 0.02)

	d, err = disruptionOf(maglevOf(2003), everySlot(2003), 3, n)
	require.NoError(t, err)
	require.Equal(t, 3*2003, d.removed.all)
	require.InDelta(t, 1.0/n, float64(d.removed.fewest)/float64(d.removed.all), 0.001)
	for _, m := range []moved{d.removed, d.added} {
		require.GreaterOrEqual(t, m.excess(), 1.0)
		require.Less(t, m.excess(), 3.0)
	}
	small, err := disruptionOf(maglevOf(211), everySlot(211), 10, n)
	require.NoError(t, err)
	require.Greater(t, small.removed.excess(), d.removed.excess(), "a smaller table moves more")
}

func TestCost(t *testing.T) {
	p := plan{builds: 1, lookups: 1 << 10}
	c, err := costOf(maglevOf(1000003), p, 10)
	require.NoError(t, err)
	require.InEpsilon(t, 1000003, c.memory, 0.1, "a byte a slot")
	require.Positive(t, c.build)
	require.Positive(t, c.lookup)
}

func TestLookupTimeOfAnotherType(t *testing.T) {
	_, err := lookupTime(struct{ structure }{}, 1)
	require.Error(t, err)
}

func TestErrorsComeThrough(t *testing.T) {
	p := plan{backends: []int{chash.DefaultTableSize + 1}, sets: 1, points: 1, builds: 1, lookups: 1}
	require.ErrorIs(t, report(new(strings.Builder), p), chash.ErrTooManyBackends)
}

func TestPrimeFrom(t *testing.T) {
	for from, want := range map[int]int{0: 2, 2: 2, 8: 11, 100: 101, 1000: 1009, 65536: 65537} {
		require.Equal(t, want, primeFrom(from))
	}
}

func TestFormats(t *testing.T) {
	require.Equal(t, "2 KiB", size(2048))
	require.Equal(t, "1.50 MiB", size(3<<19))
	require.Equal(t, "1.23 ms", milliseconds(1_234_567))
}

// The report has a line for each case, and says the same each time but for
// times and memory.
func TestReport(t *testing.T) {
	p := plan{
		backends: []int{3, 10}, sets: 2, points: 1 << 8, builds: 1, lookups: 1 << 8,
		sizing: []int{3, 10}, slots: []int{10, 100}, slotsSum: 1 << 20,
	}
	measured := regexp.MustCompile(`\d+(\.\d+)? (KiB|MiB|ms|ns)`)
	var reports [2]string
	for i := range reports {
		var out strings.Builder
		require.NoError(t, report(&out, p))
		reports[i] = measured.ReplaceAllString(out.String(), "?")
	}
	require.Equal(t, reports[0], reports[1])
	rows := 0
	for line := range strings.Lines(reports[0]) {
		if strings.HasPrefix(line, "|") {
			rows++
		}
	}
	require.Equal(t, 2+2*len(kinds)+2+2*2, rows)
	require.NotContains(t, reports[0], "NaN")
	require.NotContains(t, reports[0], "Inf")
}
