//go:build live && linux

package servers

import (
	"fmt"
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

// HAProxy sends each key where the ring says, with every function, with and without
// avalanche, and with servers in maintenance, which are Draining ones.
func TestHAProxy(t *testing.T) {
	const rounds, keys = 3, 1000
	path := program(t, "haproxy")
	s := live.NewSource(t)
	servers := serveNames(t, s, 30, 0)
	dir := workDir(t)

	type setup struct {
		pool   live.Pool
		option chash.RingOption
		header bool
		list   bool // HAProxy takes the header for a list with commas
	}
	var setups []setup
	var backends strings.Builder
	for i := range rounds * 8 {
		function := []chashcompat.HAProxyFunction{"sdbm", "djb2", "wt6", "crc32"}[i%4]
		var modifiers []chashcompat.HAProxyModifier
		if i/4%2 == 1 {
			modifiers = append(modifiers, chashcompat.HAProxyAvalanche)
		}
		at := setup{pool: s.Pool(servers, 20, 256), option: chashcompat.HAProxy(function, modifiers...), header: s.IntN(2) == 0}
		s.Down(at.pool, chash.Draining)
		balance := "url_param k"
		if at.header {
			at.list = s.IntN(2) == 0
			balance = map[bool]string{true: "hdr(X-Key)", false: "hash req.fhdr(x-key)"}[at.list]
		}
		fmt.Fprintf(&backends, "backend b%d\n balance %s\n hash-type consistent %s %s\n", i, balance, function, strings.Trim(fmt.Sprint(modifiers), "[]"))
		met := map[int]bool{}
		for j := range at.pool {
			b := &at.pool[j]
			id := s.Between(1, 1<<s.Between(4, 20))
			for met[id] {
				id++
			}
			met[id] = true
			b.HashKey = strconv.Itoa(id)
			fmt.Fprintf(&backends, " server s%d %s id %d weight %d%s\n", j, b.Name, id, live.Weight(*b), map[chash.State]string{chash.Draining: " disabled"}[b.State])
		}
		setups = append(setups, at)
	}
	socket := filepath.Join(dir, "front")
	config := writeFile(t, dir, "haproxy.cfg", fmt.Sprintf(`
global
 maxconn 200
defaults
 mode http
 timeout connect 30s
 timeout client 60s
 timeout server 60s
frontend f
 bind %s
 use_backend %%[path,field(2,/)]
%s`, socket, &backends))
	start(t, path, "-db", "-f", config)
	f := newFront(t, socket)

	var count live.Tally
	for i, at := range setups {
		ring, err := chash.NewRing(at.pool, at.option)
		require.NoError(t, err)
		var questions []question
		for _, key := range s.Keys(keys) {
			q := question{path: fmt.Sprintf("/b%d", i)}
			if at.list {
				key = "k" + strings.ReplaceAll(key, `"`, "-") // a quoted comma does not end a value
				q.key = key
				key, _, _ = strings.Cut(key, ",")
			} else if at.header {
				q.key = key
			} else {
				q.query = url.Values{"a": {"1"}, "k": {key}, "kk": {"2"}}
				key, _ = chashcompat.RawParam(q.query.Encode(), "k")
			}
			q.want, err = ring.Get(key)
			require.NoError(t, err)
			questions = append(questions, q)
		}
		f.ask(t, questions)
		count.Keys += len(questions)
		count.Pools++
	}
	count.Done(t, version(path, "-v"))
}
