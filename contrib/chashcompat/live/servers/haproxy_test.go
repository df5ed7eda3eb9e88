//go:build live && linux

package servers

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// A balance is a balance line of HAProxy, and how it is asked.
type balance struct {
	line string
	ask  func(path string) request
	none bool // an empty key has a place too
}

var balances = []balance{
	{"url_param k", byQuery, true},
	{"hdr(X-Key)", byList, false},
	{"hash req.fhdr(x-key)", byHeader, false},
	{"uri", byPath, false},
}

// byList asks with a header that is a list, of which HAProxy takes the first value.
func byList(path string) request {
	return func(key string) (question, string) {
		key = "k" + strings.ReplaceAll(key, `"`, "-") // a quoted comma does not end a value
		first, _, _ := strings.Cut(key, ",")
		return question{path: path, key: key}, first
	}
}

// byPath asks with a path.
func byPath(path string) request {
	return func(key string) (question, string) {
		path := path + "/" + url.PathEscape(key)
		return question{path: path, query: url.Values{"k": {key}}}, path
	}
}

// A haproxyPool is a backend of HAProxy's configuration.
type haproxyPool struct {
	pool      live.Pool
	function  chashcompat.HAProxyFunction
	modifiers []chashcompat.HAProxyModifier
	balance   balance
}

// haproxyPools draws backends, with every function, with and without avalanche, with random
// identifiers, and with servers in maintenance or of weight 0, which are Draining ones.
func haproxyPools(s live.Source, servers []string, n int) []haproxyPool {
	pools := make([]haproxyPool, n)
	for i := range pools {
		p := &pools[i]
		p.pool = s.Pool(servers, 20, 256)
		p.function = []chashcompat.HAProxyFunction{"sdbm", "djb2", "wt6", "crc32"}[i%4]
		if i/4%2 == 1 {
			p.modifiers = append(p.modifiers, chashcompat.HAProxyAvalanche)
		}
		p.balance = balances[s.IntN(len(balances))]
		s.Down(p.pool, chash.Draining)
		met := map[int]bool{}
		for j := range p.pool {
			id := s.Between(1, 1<<s.Between(4, 20))
			for met[id] {
				id++
			}
			met[id] = true
			p.pool[j].HashKey = strconv.Itoa(id)
		}
	}
	return pools
}

// ring returns the ring that shall be the one of HAProxy.
func (p *haproxyPool) ring(t *testing.T) *chash.Ring[string] {
	t.Helper()
	ring, err := chash.NewRing(p.pool, chashcompat.HAProxy(p.function, p.modifiers...))
	require.NoError(t, err)
	return ring
}

// startHAProxy starts HAProxy with the pools, where the path /b1 leads to the second, and
// returns the socket on which it listens.
func startHAProxy(t *testing.T, s live.Source, path, bind string, pools []haproxyPool) (socket string) {
	t.Helper()
	dir := workDir(t)
	socket = filepath.Join(dir, "front")
	var backends strings.Builder
	for i, p := range pools {
		fmt.Fprintf(&backends, "backend b%d\n balance %s\n hash-type consistent %s %s\n", i, p.balance.line, p.function, strings.Trim(fmt.Sprint(p.modifiers), "[]"))
		for j, b := range p.pool {
			weight, down := live.Weight(b), ""
			switch {
			case b.State == chash.Draining && s.IntN(2) == 0:
				weight = 0
			case b.State == chash.Draining:
				down = " disabled"
			}
			fmt.Fprintf(&backends, " server s%d %s id %s weight %d%s\n", j, b.Name, b.HashKey, weight, down)
		}
	}
	config := writeFile(t, dir, "haproxy.cfg", fmt.Sprintf(`
global
 maxconn 200
defaults
 mode http
 timeout connect 30s
 timeout client 60s
 timeout server 60s
frontend f
 bind %s %s
 use_backend %%[path,field(2,/)]
%s`, socket, bind, &backends))
	start(t, path, "-db", "-f", config)
	return socket
}

// HAProxy sends each key where the ring says.
func TestHAProxy(t *testing.T) {
	const rounds, keys = 3, 1000
	path := program(t, "haproxy")
	s := live.NewSource(t)
	pools := haproxyPools(s, serveNames(t, s, 30, 0), 8*rounds)
	f := newFront(t, startHAProxy(t, s, path, "", pools))
	var count live.Tally
	for i, p := range pools {
		drawn := s.Keys(keys, live.Long)
		if p.balance.none {
			drawn = append(drawn, "")
		}
		f.compare(t, &count, p.ring(t), drawn, p.balance.ask(fmt.Sprintf("/b%d", i)))
	}
	count.Done(t, version(path, "-v"))
}

// HAProxy sends each client where the ring says by HAProxySource. Before it stands another
// proxy, as it were, which says where clients come from.
func TestHAProxy_Source(t *testing.T) {
	const clients = 300
	path := program(t, "haproxy")
	s := live.NewSource(t)
	pools := haproxyPools(s, serveNames(t, s, 30, 0), 8)
	for i := range pools {
		pools[i].balance.line = "source"
	}
	socket := startHAProxy(t, s, path, "accept-proxy", pools)
	dial(t, "unix", socket).Close()
	for i, p := range pools {
		ring := p.ring(t)
		for range clients {
			client := drawAddr(s)
			want, err := ring.GetHash(chashcompat.HAProxySource(client, p.modifiers...))
			require.NoError(t, err)
			got, err := askFrom(socket, client, fmt.Sprintf("/b%d", i))
			require.NoError(t, err)
			require.Equal(t, want, got, "client %s", client)
		}
	}
}

// drawAddr returns an address of either family.
func drawAddr(s live.Source) netip.Addr {
	var b [16]byte
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	if s.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// askFrom sends a request for a client and returns the name of the server that answers.
func askFrom(socket string, client netip.Addr, path string) (string, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	family, local := "TCP4", "127.0.0.1"
	if client.Is6() {
		family, local = "TCP6", "::1"
	}
	if _, err := fmt.Fprintf(conn, "PROXY %s %s %s 1000 80\r\nGET %s HTTP/1.0\r\n\r\n", family, client, local, path); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	return answer.Header.Get("X-Name"), nil
}
