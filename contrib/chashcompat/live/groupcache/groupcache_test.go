//go:build live

package groupcache

import (
	"fmt"
	"testing"

	"github.com/golang/groupcache/consistenthash"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// The ring that groupcache's HTTPPool makes has the same owner for each key.
func TestGroupcache(t *testing.T) {
	const pools, keys = 60, 1000
	s := live.NewSource(t)
	var peers []string
	for i := range 400 { // so many that some points meet
		peers = append(peers, fmt.Sprintf("http://%s:%d", s.Loopback(), 8000+i))
	}
	var count live.Tally
	for range pools {
		p := s.Pool(peers, len(peers), 1)
		m := consistenthash.New(50, nil)
		m.Add(p.Names()...)
		ring, err := chash.NewRing(p, chashcompat.Groupcache(p.Names()...))
		require.NoError(t, err)
		for _, key := range append(s.Keys(keys, live.Long), "") {
			got, err := ring.Get(key)
			require.NoError(t, err)
			require.Equal(t, m.Get(key), got, "key %q of %d peers", key, len(p))
		}
		count.Keys += keys + 1
		count.Pools++
	}
	count.Done(t, "groupcache")
}
