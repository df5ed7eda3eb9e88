package chashcompat_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// A recording is a file of decisions that a real system made.
type recording struct {
	System string
	Keys   []string
	Cases  []recorded
}

// A recorded case is the decisions for one set of backends.
type recorded struct {
	Name     string
	Options  map[string]string
	Backends []struct {
		Name    string
		HashKey string
		ID      int
		Weight  uint32
	}
	Owners []int       // of the keys, by index
	Table  []int       // of the slots
	Points [][2]uint64 // positions and owners
}

func readRecording(t testing.TB, system string) recording {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", system+".json"))
	require.NoError(t, err)
	var r recording
	require.NoError(t, json.Unmarshal(data, &r))
	require.NotEmpty(t, r.Cases)
	return r
}

// backends returns the backends of a case, of which the values are the indices, and
// their hash keys in order.
func (c *recorded) backends() (backends []chash.Backend[int], order []string) {
	for i, b := range c.Backends {
		hashKey := b.HashKey
		if b.ID > 0 {
			hashKey = strconv.Itoa(b.ID)
		}
		backend := chash.Backend[int]{Name: b.Name, HashKey: hashKey, Weight: b.Weight, Value: i}
		if hashKey == "" {
			hashKey = b.Name
		}
		backends = append(backends, backend)
		order = append(order, hashKey)
	}
	return backends, order
}

func (c *recorded) size(t *testing.T, option string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(c.Options[option], 10, 64)
	require.NoError(t, err)
	return n
}

// ringOf returns the option for a recorded case of a system with a ring.
func ringOf(t *testing.T, system string, c *recorded, order []string) chash.RingOption {
	t.Helper()
	switch system {
	case "nginx":
		return chashcompat.Nginx(order...)
	case "haproxy":
		var modifiers []chashcompat.HAProxyModifier
		if m := c.Options["modifier"]; m != "" {
			modifiers = append(modifiers, chashcompat.HAProxyModifier(m))
		}
		return chashcompat.HAProxy(chashcompat.HAProxyFunction(c.Options["function"]), modifiers...)
	case "libmemcached":
		switch c.Options["distribution"] {
		case "consistent":
			return chashcompat.Libmemcached(chashcompat.LibmemcachedHash(c.Options["hash"]), order...)
		case "weighted":
			return chashcompat.LibmemcachedWeighted(order...)
		case "spy":
			return chashcompat.Spymemcached(order...)
		}
	case "twemproxy":
		return chashcompat.Twemproxy(chashcompat.TwemproxyHash(c.Options["hash"]), order...)
	case "envoy":
		return chashcompat.EnvoyRingHash(chashcompat.RingSize{Min: c.size(t, "min"), Max: c.size(t, "max")}, order...)
	case "grpc-ring-hash":
		return chashcompat.GRPCRingHash(chashcompat.RingSize{Min: c.size(t, "min"), Max: c.size(t, "max")})
	case "thanos":
		return chashcompat.Thanos()
	case "groupcache":
		return chashcompat.Groupcache(order...)
	}
	t.Fatalf("no ring for %s %v", system, c.Options)
	return nil
}

// Every decision of a real system with a ring comes out.
func TestVectors_Ring(t *testing.T) {
	for _, system := range []string{"nginx", "haproxy", "libmemcached", "twemproxy", "grpc-ring-hash", "thanos", "groupcache"} {
		r := readRecording(t, system)
		for _, c := range r.Cases {
			t.Run(system+"/"+c.Name, func(t *testing.T) {
				backends, order := c.backends()
				ring, err := chash.NewRing(backends, ringOf(t, system, &c, order))
				require.NoError(t, err)
				require.Len(t, c.Owners, len(r.Keys))
				for i, key := range r.Keys {
					if system == "thanos" {
						key = chashcompat.ThanosKey("t", chashcompat.ThanosLabel{Name: "k", Value: key})
					}
					replica := 0
					if n := c.Options["replica"]; n != "" {
						replica = int(c.size(t, "replica"))
					}
					got, err := ring.GetN(key, replica+1)
					require.NoError(t, err)
					require.Equal(t, c.Owners[i], got[replica], "key %q", key)
				}
			})
		}
	}
}

// Every slot of a recorded table comes out.
func TestVectors_Table(t *testing.T) {
	for _, system := range []string{"cilium", "katran"} {
		r := readRecording(t, system)
		for _, c := range r.Cases {
			t.Run(system+"/"+c.Name, func(t *testing.T) {
				backends, order := c.backends()
				var option chash.MaglevOption
				sum := c.Options["table_sha256"]
				switch {
				case system == "cilium":
					option = chashcompat.Cilium(c.Options["seed"])
				case c.Options["mode"] == "1":
					option, sum = chashcompat.KatranV1(order...), c.Options["ring_sha256"]
				default:
					option, sum = chashcompat.KatranV2(order...), c.Options["ring_sha256"]
				}
				m := c.size(t, "M")
				table, err := chash.NewMaglev(backends, option, chash.WithTableSize(int(m)))
				require.NoError(t, err)
				step := uint64(53)
				if system == "katran" && m < 65537 {
					step = 1
				}
				for i := range r.Keys {
					got, err := table.GetHash(uint64(i) * step % m)
					require.NoError(t, err)
					require.Equal(t, c.Owners[i], got, "slot %d", uint64(i)*step%m)
				}
				require.Equal(t, sum, sumOfTable(t, table, int(m)))
			})
		}
	}
}

// sumOfTable returns the SHA-256 of the owners of all slots.
func sumOfTable(t *testing.T, table *chash.Maglev[int], m int) string {
	owners := make([]string, m)
	for slot := range owners {
		owner, err := table.GetHash(uint64(slot))
		require.NoError(t, err)
		owners[slot] = strconv.Itoa(owner)
	}
	sum := sha256.Sum256([]byte(strings.Join(owners, "\n")))
	return hex.EncodeToString(sum[:])
}

// The tables and rings that Envoy's own tests expect come out.
func TestVectors_Envoy(t *testing.T) {
	for _, c := range readRecording(t, "envoy").Cases {
		t.Run(fmt.Sprintf("%s/%s", c.Options["policy"], c.Name), func(t *testing.T) {
			backends, order := c.backends()
			if c.Options["policy"] == "maglev" {
				m := c.size(t, "M")
				table, err := chash.NewMaglev(backends, chashcompat.EnvoyMaglev(), chash.WithTableSize(int(m)))
				require.NoError(t, err)
				require.Len(t, c.Table, int(m))
				for slot, want := range c.Table {
					got, err := table.GetHash(uint64(slot))
					require.NoError(t, err)
					require.Equal(t, want, got, "slot %d", slot)
				}
				return
			}
			ring, err := chash.NewRing(backends, ringOf(t, "envoy", &c, order))
			require.NoError(t, err)
			var got [][2]uint64
			names := ring.Backends()
			for _, point := range ring.AppendPoints(nil) {
				got = append(got, [2]uint64{point.Position, uint64(names[point.Backend].Value)})
			}
			require.Equal(t, c.Points, got)
		})
	}
}
