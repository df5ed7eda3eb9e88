package chashcompat_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// What testdata does not have: sockets, weights without the weighted distribution, and
// bytes above 0x7F. The owners were printed by libmemcached 1.1.4, with the program of the
// folder live.
func TestLibmemcached_Recorded(t *testing.T) {
	sockets := chash.Named("/run/a", "/run/b", "c:11211")
	weights := chash.Named("a:11211", "b:1", "c:2")
	weights[1].Weight, weights[2].Weight = 5, 2
	for name, test := range map[string]struct {
		option   func(order ...string) chash.RingOption
		backends []chash.Backend[string]
		key      string // with the number, from 1
		owners   string
	}{
		"sockets":           {consistent, sockets, "user:%d", "120100220210112212011001"},
		"sockets, spy":      {chashcompat.Spymemcached, sockets, "user:%d", "221220222222002122201101"},
		"weights":           {consistent, weights, "user:%d", "111202201011111211121112"},
		"weights, spy":      {chashcompat.Spymemcached, weights, "user:%d", "021111111200110122120111"},
		"signed characters": {consistent, chash.Named("a:1", "b:2", "c:3"), "\xFC%d", "211202122101101112111200"},
	} {
		ring, err := chash.NewRing(test.backends, test.option(test.backends[0].Name, test.backends[1].Name, test.backends[2].Name))
		require.NoError(t, err)
		for i, want := range test.owners {
			got, err := ring.Get(fmt.Sprintf(test.key, i+1))
			require.NoError(t, err)
			require.Equal(t, test.backends[want-'0'].Name, got, "%s: key %d", name, i+1)
		}
	}
}

func consistent(order ...string) chash.RingOption { return chashcompat.Libmemcached("", order...) }
