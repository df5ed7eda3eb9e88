package chashgrpc_test

import (
	"context"
	"sync"
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// A statsHandler notes what grpc-go's stats say of picks.
type statsHandler struct {
	mu      sync.Mutex
	delayed int
	servers []string // addresses
}

func (h *statsHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (h *statsHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *statsHandler) HandleConn(context.Context, stats.ConnStats)                       {}

func (h *statsHandler) HandleRPC(_ context.Context, s stats.RPCStats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s := s.(type) {
	case *stats.DelayedPickComplete:
		h.delayed++
	case *stats.OutHeader:
		h.servers = append(h.servers, s.RemoteAddr.String())
	}
}

// grpc-go's stats show which RPC waited for its server, and which server that was.
func TestStatsOfGRPC(t *testing.T) {
	m, err := policies[0].mapping(chash.Named(five...))
	require.NoError(t, err)
	c := newServers(t, five...)
	release := c.hold(five[3])
	var seen statsHandler
	c.connectTo(chashgrpc.MaglevName, `{}`, endpointsAt(five...), grpc.WithStatsHandler(&seen))
	check(t, m, c.callAll([]string{keyOf(t, m, five[0])}))
	before := func() int { seen.mu.Lock(); defer seen.mu.Unlock(); return seen.delayed }()
	waiting := c.callAll([]string{keyOf(t, m, five[3])})
	check(t, m, c.callAll([]string{keyOf(t, m, five[1])}))
	release(nil)
	check(t, m, waiting)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Greater(t, seen.delayed, before)
	require.Equal(t, c.servers[five[3]].address, seen.servers[len(seen.servers)-1])
}
