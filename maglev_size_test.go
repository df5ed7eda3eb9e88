package chash_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestTableSizeFor(t *testing.T) {
	tests := []struct{ backends, want int }{
		{math.MinInt, 65537},
		{math.MinInt/2 + 1000, 65537}, // a hundred times that wraps to 100,000
		{-1, 65537},
		{0, 65537},
		{1, 65537},
		{655, 65537},
		{656, 65609}, // 65,600 slots are too few in the default table
		{1000, 100003},
		{10_000, 1_000_003},
		{21_474_836, 2_147_483_629}, // the last with 100 slots each
		{21_474_837, chash.MaxTableSize},
		{math.MaxInt32, chash.MaxTableSize},
		{math.MaxInt, chash.MaxTableSize},
	}
	for _, test := range tests {
		if got := chash.TableSizeFor(test.backends); got != test.want {
			t.Errorf("TableSizeFor(%d) = %d, want %d", test.backends, got, test.want)
		}
	}
}

func TestTableSizeFor_IsTheSmallestPrime(t *testing.T) {
	for _, n := range []int{1, 600, 655, 656, 657, 700, 999, 1234, 5000, 77_777, 1_000_000, 21_474_835} {
		least := max(65537, 100*n)
		got := chash.TableSizeFor(n)
		require.GreaterOrEqual(t, got, least)
		require.LessOrEqual(t, got, chash.MaxTableSize)
		require.True(t, big.NewInt(int64(got)).ProbablyPrime(0), "%d", got)
		for smaller := least; smaller < got; smaller++ {
			require.False(t, big.NewInt(int64(smaller)).ProbablyPrime(0), "%d", smaller)
		}
	}
}

// The shares of as many backends as asked for are within 1 % of each other.
func TestTableSizeFor_Shares(t *testing.T) {
	for _, n := range []int{10, 655, 1500} {
		m, err := chash.NewMaglev(numbered("b", n), chash.WithTableSize(chash.TableSizeFor(n)))
		require.NoError(t, err)
		stats := m.Stats()
		require.LessOrEqual(t, stats.MaxShareRatio-stats.MinShareRatio, 0.0101, "%d backends", n)
	}
}
