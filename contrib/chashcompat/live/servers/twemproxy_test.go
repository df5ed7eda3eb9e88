//go:build live && linux

package servers

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// twemproxy stores each key where the ring says, on real servers, with every hash, names
// and hash tags.
func TestTwemproxy(t *testing.T) {
	const pools, keys, longestName = 32, 700, 261
	path := program(t, "nutcracker")
	s := live.NewSource(t)
	servers := startMemcached(t, s, 10)
	addresses := slices.Sorted(maps.Keys(servers))
	dir := workDir(t)
	hashes := []chashcompat.TwemproxyHash{
		"", chashcompat.TwemproxyFNV164, chashcompat.TwemproxyFNV1a32, chashcompat.TwemproxyFNV132,
		chashcompat.TwemproxyMD5, chashcompat.TwemproxyCRC32, chashcompat.TwemproxyCRC32a, chashcompat.TwemproxyOneAtATime,
	}

	type setup struct {
		pool   live.Pool
		order  []string
		hash   chashcompat.TwemproxyHash
		tag    string
		socket string
	}
	var setups []setup
	var config strings.Builder
	for i := range pools {
		at := setup{pool: s.Pool(addresses, 10, 50), hash: hashes[i%len(hashes)], socket: filepath.Join(dir, fmt.Sprint(i))}
		fmt.Fprintf(&config, "p%d:\n  listen: %s\n  distribution: ketama\n  timeout: 60000\n", i, at.socket)
		if at.hash != "" {
			fmt.Fprintf(&config, "  hash: %s\n", at.hash)
		}
		if s.IntN(3) == 0 {
			at.tag = "{}"
			fmt.Fprintf(&config, "  hash_tag: \"%s\"\n", at.tag)
		}
		fmt.Fprintf(&config, "  servers:\n")
		named := s.IntN(2) == 0
		for j := range at.pool {
			b := &at.pool[j]
			fmt.Fprintf(&config, "   - %s:%d", b.Name, live.Weight(*b))
			if named {
				b.HashKey = fmt.Sprintf("shard-%d", j)
				if s.IntN(4) == 0 {
					b.HashKey += strings.Repeat("x", longestName-len(b.HashKey)-s.IntN(100))
				}
				fmt.Fprintf(&config, " %s", b.HashKey)
			}
			fmt.Fprintln(&config)
			at.order = append(at.order, cmp.Or(b.HashKey, b.Name))
		}
		setups = append(setups, at)
	}
	startTwemproxy(t, path, dir, config.String())

	var count live.Tally
	for i, at := range setups {
		ring, err := chash.NewRing(at.pool, chashcompat.Twemproxy(at.hash, at.order...))
		require.NoError(t, err)
		want := map[string]string{}
		for _, key := range s.Keys(keys, live.Short-10) {
			key = fmt.Sprintf("%d/%s", i, key)
			if s.IntN(2) == 0 {
				key = key + "{" + s.Key(live.Short)
				if s.IntN(2) == 0 {
					key += "}"
				}
			}
			want[key], err = ring.Get(chashcompat.TwemproxyKey(key, at.tag))
			require.NoError(t, err)
		}
		set(t, dial(t, "unix", at.socket), slices.Collect(maps.Keys(want)))
		requireStored(t, servers, want)
		count.Keys += len(want)
		count.Pools++
	}
	count.Done(t, version(path, "-V"))
}

// startTwemproxy starts twemproxy with a configuration.
func startTwemproxy(t *testing.T, path, dir, config string) {
	t.Helper()
	start(t, path, "-c", writeFile(t, dir, "nutcracker.yml", config), "-p", filepath.Join(dir, "pid"), "-s", freePort(t, "127.0.0.1"), "-a", "127.0.0.1")
}
