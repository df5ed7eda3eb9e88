//go:build live

package cilium

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/maglev"
	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// Every slot of the tables that Cilium's own package makes has the same owner.
func TestCilium(t *testing.T) {
	s := live.NewSource(t)
	var count live.Tally
	for _, size := range []uint{251, 509, 1021, 2039, 4093, 8191, 16381, 251, 509, 1021, 2039, 32749} {
		p := drawPool(s)
		seed := make([]byte, 12)
		for i := range seed {
			seed[i] = byte(s.Uint32())
		}
		text := base64.StdEncoding.EncodeToString(seed)
		want := tableOf(t, size, text, p)
		table, err := chash.NewMaglev(p, chashcompat.Cilium(text), chash.WithTableSize(int(size)))
		require.NoError(t, err)
		for slot, id := range want {
			got, err := table.GetHash(uint64(slot))
			require.NoError(t, err)
			require.Equal(t, p[id-1].Name, got, "slot %d of %d, %d backends", slot, size, len(p))
		}
		count.Keys += len(want)
		count.Pools++
	}
	count.Done(t, "Cilium")
}

// drawPool returns backends of both families and of several protocols.
func drawPool(s live.Source) live.Pool {
	names := map[string]bool{}
	for range s.Between(1, 120) {
		address := s.Loopback()
		if s.IntN(3) == 0 {
			address = fmt.Sprintf("[fd00::%x:%x]", s.Between(1, 0xFFFF), s.Between(1, 0xFFFF))
		}
		names[fmt.Sprintf("%s:%d/%s", address, s.Between(1, 65535), []string{"TCP", "UDP", "SCTP"}[s.IntN(3)])] = true
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return s.Pool(list, len(list), []int{2, 10, 65535}[s.IntN(3)])
}

// tableOf returns Cilium's table; the identifiers are numbers in the pool, from 1.
func tableOf(t *testing.T, size uint, seed string, p live.Pool) []loadbalancer.BackendID {
	t.Helper()
	config, err := maglev.UserConfig{TableSize: size, HashSeed: seed}.ToConfig()
	require.NoError(t, err)
	lifecycle := &cell.DefaultLifecycle{}
	m := maglev.New(config, lifecycle)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	require.NoError(t, lifecycle.Start(log, t.Context()))
	defer func() { require.NoError(t, lifecycle.Stop(log, t.Context())) }()
	return m.GetLookupTable(func(yield func(maglev.BackendInfo) bool) {
		for i, b := range p {
			if !yield(maglev.BackendInfo{
				ID:     loadbalancer.BackendID(i + 1),
				Addr:   addressOf(t, b.Name),
				Weight: uint16(live.Weight(b)),
			}) {
				return
			}
		}
	})
}

// addressOf returns the address that Cilium has for a name.
func addressOf(t *testing.T, name string) loadbalancer.L3n4Addr {
	t.Helper()
	var a loadbalancer.L3n4Addr
	require.NoError(t, a.ParseFromString(name))
	return a
}
