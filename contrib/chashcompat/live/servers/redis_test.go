//go:build live && linux

package servers

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// twemproxy before Redis asks the server that the ring says, also for the empty key, which
// memcached does not have.
func TestTwemproxy_Redis(t *testing.T) {
	const keys = 50
	path := program(t, "nutcracker")
	s := live.NewSource(t)
	servers := serveRedis(t, s, 8)
	dir := workDir(t)
	hashes := []chashcompat.TwemproxyHash{"", "fnv1_64", "fnv1a_32", "fnv1_32", "md5", "crc32", "crc32a", "one_at_a_time"}
	var config strings.Builder
	for _, hash := range hashes {
		hash = cmp.Or(hash, chashcompat.TwemproxyFNV1a64)
		fmt.Fprintf(&config, "%[1]s:\n  listen: %[2]s\n  distribution: ketama\n  redis: true\n  hash: %[1]s\n  servers:\n", hash, filepath.Join(dir, string(hash)))
		for _, name := range servers {
			fmt.Fprintf(&config, "   - %s:1\n", name)
		}
	}
	startTwemproxy(t, path, dir, config.String())
	for _, hash := range hashes {
		ring, err := chash.NewRing(chash.Named(servers...), chashcompat.Twemproxy(hash, servers...))
		require.NoError(t, err)
		proxy := dial(t, "unix", filepath.Join(dir, string(cmp.Or(hash, chashcompat.TwemproxyFNV1a64))))
		answers := bufio.NewReader(proxy)
		for _, key := range append(s.Keys(keys, live.Long), "") {
			want, err := ring.Get(key)
			require.NoError(t, err)
			_, err = fmt.Fprintf(proxy, "*2\r\n$3\r\nget\r\n$%d\r\n%s\r\n", len(key), key)
			require.NoError(t, err)
			got, err := readBulk(answers)
			require.NoError(t, err)
			require.Equal(t, want, got, "hash %q, key %q", hash, key)
		}
	}
}

// serveRedis serves on addresses of the loopback interface, which it returns. Each answers
// every request as Redis does, with its own address.
func serveRedis(t *testing.T, s live.Source, n int) (names []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", s.Loopback()+":0")
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		name := l.Addr().String()
		names = append(names, name)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go answerRedis(conn, name)
			}
		}()
	}
	slices.Sort(names)
	return names
}

// answerRedis answers every request on a connection with a name.
func answerRedis(conn net.Conn, name string) {
	defer conn.Close()
	requests := bufio.NewReader(conn)
	for {
		var parts int
		if _, err := fmt.Fscanf(requests, "*%d\r\n", &parts); err != nil {
			return
		}
		for range parts {
			if _, err := readBulk(requests); err != nil {
				return
			}
		}
		if _, err := fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(name), name); err != nil {
			return
		}
	}
}

// readBulk reads one string of Redis' protocol.
func readBulk(r *bufio.Reader) (string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "$%d\r\n", &n); err != nil {
		return "", err
	}
	text := make([]byte, n+len("\r\n"))
	_, err := io.ReadFull(r, text)
	return string(text[:n]), err
}
