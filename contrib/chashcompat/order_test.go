package chashcompat_test

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

func TestOrder_Errors(t *testing.T) {
	for name, option := range map[string]func(order ...string) chash.RingOption{
		"Nginx":        chashcompat.Nginx,
		"Libmemcached": func(order ...string) chash.RingOption { return chashcompat.Libmemcached("", order...) },
		"weighted":     chashcompat.LibmemcachedWeighted,
		"spy":          chashcompat.Spymemcached,
		"Twemproxy":    func(order ...string) chash.RingOption { return chashcompat.Twemproxy("", order...) },
		"Groupcache":   chashcompat.Groupcache,
		"EnvoyRingHash": func(order ...string) chash.RingOption {
			return chashcompat.EnvoyRingHash(chashcompat.RingSize{}, order...)
		},
	} {
		_, err := chash.NewRing[string](nil, option("a:1", "a:1"))
		require.ErrorIs(t, err, chashcompat.ErrOrder, name)
		ring, err := chash.NewRing(chash.Named("a:1"), option("b:1", "a:1", "c:1"))
		require.NoError(t, err, "more than there are")
		err = ring.Add(chash.Named("d:1")...)
		require.ErrorIs(t, err, chashcompat.ErrOrder, name)
		require.ErrorContains(t, err, `"d:1"`)
		require.NoError(t, ring.Add(chash.Named("b:1")...))
	}
	for _, option := range []func(order ...string) chash.MaglevOption{chashcompat.KatranV1, chashcompat.KatranV2} {
		_, err := chash.NewMaglev(chash.Named("1", "2"), option("1"))
		require.ErrorIs(t, err, chashcompat.ErrOrder)
	}
}

// tie returns two peers of groupcache whose first points are at one position.
func tie(t *testing.T) (peers [2]string) {
	t.Helper()
	met := map[uint32]string{}
	for i := range 1_000_000 {
		peer := fmt.Sprintf("http://%016x", xxhash.Sum64String(strconv.Itoa(i)))
		point := crc32.ChecksumIEEE([]byte("0" + peer))
		if other, found := met[point]; found {
			return [2]string{other, peer}
		}
		met[point] = peer
	}
	t.Fatal("no two names have one CRC-32")
	return peers
}

// Where two peers of groupcache have a point, the last one has it.
func TestOrder_Groupcache(t *testing.T) {
	peers := tie(t)
	key := "0" + peers[0] // its hash is the position of the point
	for _, order := range [][]string{{peers[0], peers[1]}, {peers[1], peers[0]}} {
		ring, err := chash.NewRing(chash.Named(peers[:]...), chashcompat.Groupcache(order...))
		require.NoError(t, err)
		got, err := ring.Get(key)
		require.NoError(t, err)
		require.Equal(t, order[1], got)
	}
}

// Where two servers of nginx have a point, the first one has it.
func TestOrder_Nginx(t *testing.T) {
	met := map[uint32]string{}
	for i := range 1_000_000 {
		host := fmt.Sprintf("%016x", xxhash.Sum64String(strconv.Itoa(i)))
		key := host + "\x0080\x00\x00\x00\x00"
		point := crc32.ChecksumIEEE([]byte(key))
		if other, found := met[point]; found {
			servers := []string{other + ":80", host + ":80"}
			for _, order := range [][]string{servers, {servers[1], servers[0]}} {
				ring, err := chash.NewRing(chash.Named(servers...), chashcompat.Nginx(order...))
				require.NoError(t, err)
				got, err := ring.Get(key)
				require.NoError(t, err)
				require.Equal(t, order[0], got)
			}
			return
		}
		met[point] = host
	}
	t.Fatal("no two names have one CRC-32")
}

// Without an order, Katran's is that of the numbers, as its balancer sorts them.
func TestOrder_Katran(t *testing.T) {
	backends := chash.Named("10", "9", "100", "2")
	for _, option := range []func(order ...string) chash.MaglevOption{chashcompat.KatranV1, chashcompat.KatranV2} {
		usual, err := chash.NewMaglev(backends, option(), chash.WithTableSize(251))
		require.NoError(t, err)
		sorted, err := chash.NewMaglev(backends, option("2", "9", "10", "100"), chash.WithTableSize(251))
		require.NoError(t, err)
		other, err := chash.NewMaglev(backends, option("10", "100", "2", "9"), chash.WithTableSize(251))
		require.NoError(t, err)
		require.Equal(t, sorted.AppendTable(nil), usual.AppendTable(nil))
		require.NotEqual(t, sorted.AppendTable(nil), other.AppendTable(nil))
	}
}
