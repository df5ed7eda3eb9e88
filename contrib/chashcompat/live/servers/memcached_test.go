//go:build live && linux

package servers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// A memcached is a server that is asked directly.
type memcached struct {
	conn   net.Conn
	reader *bufio.Reader
}

// startMemcached starts servers, and returns them by their names in a configuration: HOST:PORT
// or the path of a socket. The first has the usual port, the second a socket, and the third
// an address of IPv6.
func startMemcached(t *testing.T, s live.Source, n int) map[string]*memcached {
	t.Helper()
	path := program(t, "memcached")
	servers := map[string]*memcached{}
	for i := range n {
		host, port := s.Loopback(), "11211"
		if i == 2 {
			host = "::1"
		}
		if i > 0 {
			port = freePort(t, host)
		}
		network, address, name := "tcp", net.JoinHostPort(host, port), host+":"+port
		args := []string{"-l", host, "-p", port, "-U", "0", "-m", "64", "-t", "1"}
		if i == 1 {
			name = filepath.Join(workDir(t), "memcached")
			network, address = "unix", name
			args = []string{"-s", name, "-m", "64", "-t", "1"}
		}
		if os.Geteuid() == 0 {
			me, err := user.Current()
			require.NoError(t, err)
			args = append(args, "-u", me.Username)
		}
		start(t, path, args...)
		conn := dial(t, network, address)
		servers[name] = &memcached{conn, bufio.NewReader(conn)}
	}
	return servers
}

// freePort returns a port of an address that nobody has.
func freePort(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// batch is how many keys are sent before the answers are read.
const batch = 100

// get returns those of the keys that the server has.
func (m *memcached) get(t *testing.T, keys []string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for part := range slices.Chunk(keys, batch) {
		_, err := fmt.Fprintf(m.conn, "get %s\r\n", strings.Join(part, " "))
		require.NoError(t, err)
		for {
			line, err := m.reader.ReadString('\n')
			require.NoError(t, err)
			if line == "END\r\n" {
				break
			}
			if rest, ok := strings.CutPrefix(line, "VALUE "); ok {
				found[rest[:strings.LastIndex(rest, " 0 1")]] = true
			}
		}
	}
	return found
}

// set stores the keys through a proxy.
func set(t *testing.T, proxy io.ReadWriter, keys []string) {
	t.Helper()
	reader := bufio.NewReader(proxy)
	for part := range slices.Chunk(keys, batch) {
		var request strings.Builder
		for _, key := range part {
			fmt.Fprintf(&request, "set %s 0 0 1\r\n1\r\n", key)
		}
		_, err := io.WriteString(proxy, request.String())
		require.NoError(t, err)
		for _, key := range part {
			line, err := reader.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "STORED\r\n", line, "key %q", key)
		}
	}
}

// requireStored checks that each key is on the server that it is expected on, and so on no
// other, since each is stored once.
func requireStored(t *testing.T, servers map[string]*memcached, want map[string]string) {
	t.Helper()
	byServer := map[string][]string{}
	for key, server := range want {
		byServer[server] = append(byServer[server], key)
	}
	for server, keys := range byServer {
		found := servers[server].get(t, keys)
		for _, key := range keys {
			require.True(t, found[key], "%s does not have %q", server, key)
		}
	}
}
