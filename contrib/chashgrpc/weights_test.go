package chashgrpc_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"
)

// heavy returns endpoints with weights.
func heavy(weights ...uint32) []resolver.Endpoint {
	endpoints := endpointsAt(addresses(len(weights))...)
	for i, w := range weights {
		endpoints[i] = chashgrpc.SetWeight(endpoints[i], w)
	}
	return endpoints
}

// ringOf returns where keys are on a ring of endpoints with weights.
func ringOf(t *testing.T, config string, weights ...uint32) (at map[string]string, stats chash.Stats) {
	c := newChannel(t, chashgrpc.RingName, config, heavy(weights...)...)
	c.connect()
	at = map[string]string{}
	for _, key := range keys(300) {
		got, err := c.pick(keyed(t, key))
		require.NoError(t, err)
		at[key] = got
	}
	return at, chashgrpc.Stats(c.policy)
}

// Any list of weights fits a ring, with as many points as its ratios need.
func TestUnitWeight(t *testing.T) {
	const most = math.MaxUint32
	forty := make([]uint32, 40)
	for i := range forty {
		forty[i] = most - uint32(i)
	}
	for _, test := range []struct {
		weights []uint32
		size    int
	}{
		{[]uint32{1, 3}, 160 * 4},
		{[]uint32{64, 64}, 160 * 128}, // as large as it may be
		{[]uint32{64, 65}, 160 + 163},
		{[]uint32{300_000, 700_000}, 160 + 373},
		{[]uint32{40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000, 40_000}, 1600},
		{[]uint32{1, 300_000, 700_000}, 1 + 5859 + 13672},
		{forty, 160 * 40},
		{[]uint32{1, most}, 1 + 20480},
	} {
		t.Run(fmt.Sprint(test.weights), func(t *testing.T) {
			at, stats := ringOf(t, `{}`, test.weights...)
			require.Equal(t, test.size, stats.Size)
			require.Len(t, at, 300)
		})
	}
}

// Where weights have the same ratios, keys have the same servers, whatever the scale.
func TestUnitWeight_Scale(t *testing.T) {
	want, _ := ringOf(t, `{}`, 1, 5, 2)
	for _, scale := range []uint32{1000, 7777, 1 << 28} {
		got, _ := ringOf(t, `{}`, scale, 5*scale, 2*scale)
		require.Equal(t, want, got)
	}
	// Rounded, as xDS has them.
	got, _ := ringOf(t, `{}`, 268435456, 1342177278, 536870911)
	require.Equal(t, want, got)
}

// A unit that is set stays, so that one endpoint more or less moves no other keys.
func TestUnitWeight_Set(t *testing.T) {
	three, stats := ringOf(t, `{"unitWeight": 1000}`, 300_000, 700_000, 10)
	require.Equal(t, 48_000+112_000+2, stats.Size)
	two, _ := ringOf(t, `{"unitWeight": 1000}`, 300_000, 700_000)
	for key, got := range three {
		if got != addresses(3)[2] {
			require.Equal(t, two[key], got)
		}
	}
}

// A list that does not fit the unit that is set is refused, and those that are gone do
// not stay.
func TestUnitWeight_TooSmall(t *testing.T) {
	c := newChannel(t, chashgrpc.RingName, `{"unitWeight": 1}`, heavy(1, 1, 1)...)
	c.connect()
	require.Error(t, c.update(heavy(1, 1<<31)...))
	require.Equal(t, 2, chashgrpc.Stats(c.policy).Backends)
	require.Len(t, c.open(), 2)
}
