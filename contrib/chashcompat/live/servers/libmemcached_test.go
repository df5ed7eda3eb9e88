//go:build live && linux

package servers

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// buildClient compiles the C program, or skips the test where there is no compiler or no
// libmemcached.
func buildClient(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("a C compiler is not installed")
	}
	path := filepath.Join(workDir(t), "client")
	if output, err := exec.Command(compiler, "-o", path, "testdata/libmemcached.c", "-lmemcached").CombinedOutput(); err != nil {
		t.Skipf("libmemcached is not installed: %.300s", output)
	}
	return path
}

// A script is what the C program is told and what it shall answer.
type script struct {
	input strings.Builder
	want  []string // indices
	asked []string // what each was about
}

// pool begins a pool.
func (c *script) pool(mode, hash, ketamaHash string, p live.Pool) {
	fmt.Fprintf(&c.input, "pool %s %s %s\n", mode, hash, ketamaHash)
	for _, b := range p {
		host, port := b.Name, "0" // of a socket
		if colon := strings.LastIndexByte(b.Name, ':'); b.Name[0] != '/' {
			host, port = b.Name[:colon], b.Name[colon+1:]
		}
		fmt.Fprintf(&c.input, "server %s %s %d\n", host, port, live.Weight(b))
	}
}

// key asks for a key.
func (c *script) key(verb, key string, want int) {
	fmt.Fprintf(&c.input, "%s %x\n", verb, key)
	c.want = append(c.want, strconv.Itoa(want))
	c.asked = append(c.asked, key)
}

// run runs the program and compares.
func (c *script) run(t *testing.T, client string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), client)
	cmd.Stdin = strings.NewReader(c.input.String())
	output, err := cmd.Output()
	require.NoError(t, err)
	lines := bufio.NewScanner(strings.NewReader(string(output)))
	for i := range c.want {
		require.True(t, lines.Scan())
		require.Equal(t, c.want[i], lines.Text(), "key %q", c.asked[i])
	}
}

// libmemcachedOption returns the option for a mode of the C program.
func libmemcachedOption(mode string, hash chashcompat.LibmemcachedHash, order []string) chash.RingOption {
	switch mode {
	case "weighted":
		return chashcompat.LibmemcachedWeighted(order...)
	case "spy":
		return chashcompat.Spymemcached(order...)
	}
	return chashcompat.Libmemcached(hash, order...)
}

// libmemcached sends each key where the ring says, by what its library says.
func TestLibmemcached(t *testing.T) {
	const pools, keys = 80, 1000
	client := buildClient(t)
	s := live.NewSource(t)
	var hosts []string
	for range 60 {
		host := s.Loopback()
		switch s.IntN(5) {
		case 0, 1:
			host = fmt.Sprintf("cache-%d.example", s.IntN(1000))
		case 2:
			host = fmt.Sprintf("fd00::%x", s.Between(1, 0xFFFF))
		}
		port := 11211
		if s.IntN(3) > 0 {
			port = s.Between(1, 65535)
		}
		name := fmt.Sprintf("%s:%d", host, port)
		if s.IntN(8) == 0 {
			name = fmt.Sprintf("/run/cache-%d", s.IntN(1000))
		}
		hosts = append(hosts, name)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	for mode, least := range map[string]string{"consistent": "Libmemcached", "weighted": "LibmemcachedWeighted", "spy": "Spymemcached"} {
		t.Run(mode, func(t *testing.T) {
			var c script
			var count live.Tally
			for i := range pools / 3 {
				p := s.Pool(hosts, 40, []int{1, 9, 1000, math.MaxUint32}[s.IntN(4)])
				name, hash, ketamaHash := mode, "default", "default"
				if s.IntN(2) == 0 || mode == "spy" {
					hash = "md5"
				}
				if s.IntN(2) == 0 || mode == "spy" {
					ketamaHash = "md5"
				}
				if mode == "consistent" && i%2 == 0 {
					name = "ketama"
				}
				c.pool(name, hash, ketamaHash, p)
				option := libmemcachedOption(mode, hashNamed(hash), p.Names())
				ring, err := chash.NewRing(p, option)
				require.NoError(t, err)
				for _, key := range append(s.Keys(keys, live.Long), "") {
					owner, err := ring.Get(key)
					require.NoError(t, err)
					c.key("hash", key, slices.Index(p.Names(), owner))
				}
				count.Keys += keys + 1
				count.Pools++
			}
			c.run(t, client)
			count.Done(t, least)
		})
	}
}

// hashNamed is the hash that the C program has under a name.
func hashNamed(name string) chashcompat.LibmemcachedHash {
	if name == "default" {
		return ""
	}
	return chashcompat.LibmemcachedHash(name)
}

// Its client stores each key where the ring says, on real servers.
func TestLibmemcached_Servers(t *testing.T) {
	client := buildClient(t)
	s := live.NewSource(t)
	servers := startMemcached(t, s, 8)
	addresses := slices.Sorted(maps.Keys(servers))
	for _, mode := range []string{"consistent", "weighted", "spy"} {
		var c script
		p := s.Pool(addresses, len(addresses), 9)
		c.pool(mode, "md5", "md5", p)
		ring, err := chash.NewRing(p, libmemcachedOption(mode, "md5", p.Names()))
		require.NoError(t, err)
		want := map[string]string{}
		for _, key := range s.Keys(2000, live.Short) {
			key = mode + key
			want[key], err = ring.Get(key)
			require.NoError(t, err)
			c.key("store", key, slices.Index(p.Names(), want[key]))
		}
		c.run(t, client)
		requireStored(t, servers, want)
	}
}
