package chashcompat_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// These are decisions that testdata does not have. Those of libmemcached were printed by the
// program of the folder live. The others come from a program in Python; the tests of that
// folder send such keys through the real systems.

// libmemcached 1.1.4 with sockets, weights without the weighted distribution, and
// bytes above 0x7F.
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

// twemproxy with a socket, the longest name, and the empty key.
func TestTwemproxy_Recorded(t *testing.T) {
	names := []string{"/run/a", strings.Repeat("x", 261), "::1:11211", "beta"}
	ring, err := chash.NewRing(chash.Named(names...), chashcompat.Twemproxy("md5", names...))
	require.NoError(t, err)
	for i, want := range "031221000013220131032012" {
		got, err := ring.Get(fmt.Sprintf("user:%d", i+1))
		require.NoError(t, err)
		require.Equal(t, names[want-'0'], got, "key %d", i+1)
	}
	for _, hash := range []chashcompat.TwemproxyHash{"", "fnv1_64", "fnv1a_32", "fnv1_32", "md5", "crc32", "crc32a", "one_at_a_time"} {
		ring, err := chash.NewRing(chash.Named(names...), chashcompat.Twemproxy(hash, names...))
		require.NoError(t, err)
		want, err := ring.GetHash(0)
		require.NoError(t, err)
		got, err := ring.Get("")
		require.NoError(t, err)
		require.Equal(t, want, got, "hash %q", hash)
	}
}

// nginx with a socket, an address of IPv6, and one host with and without a port.
func TestNginx_Recorded(t *testing.T) {
	names := []string{"unix:/run/a", "[fd00::1]:80", "web", "web:8080"}
	ring, err := chash.NewRing(chash.Named(names...), chashcompat.Nginx(names...))
	require.NoError(t, err)
	for i, want := range "212003211310020331031103" {
		got, err := ring.Get(fmt.Sprintf("user:%d", i+1))
		require.NoError(t, err)
		require.Equal(t, names[want-'0'], got, "key %d", i+1)
	}
}

func TestHAProxySource(t *testing.T) {
	for client, want := range map[string][2]uint64{
		"10.0.0.1":        {0x0A000001 << 32, 0x2AA26E52 << 32},
		"255.255.255.255": {0xFFFFFFFF << 32, 0x7E64C182 << 32},
		"fd00::1:2":       {0xFD010002 << 32, 0x6E5EB4D5 << 32},
	} {
		addr := netip.MustParseAddr(client)
		require.Equal(t, want[0], chashcompat.HAProxySource(addr), client)
		require.Equal(t, want[1], chashcompat.HAProxySource(addr, chashcompat.HAProxyAvalanche), client)
	}
	require.Zero(t, chashcompat.HAProxySource(netip.Addr{}))
}
