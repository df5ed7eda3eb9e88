package parents_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const patience = 30 * time.Second

// A server answers with its address, or fails every RPC.
type server struct {
	grpc_testing.UnimplementedTestServiceServer
	address string
	broken  atomic.Bool
	stop    func()
}

func (s *server) UnaryCall(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	if s.broken.Load() {
		return nil, status.Error(codes.Internal, "broken")
	}
	return &grpc_testing.SimpleResponse{ServerId: s.address}, nil
}

// start starts servers; each keeps its address when it is started again.
func start(tb testing.TB, n int) []*server {
	servers := make([]*server, n)
	for i := range servers {
		servers[i] = &server{address: "127.0.0.1:0"}
		servers[i].start(tb)
		tb.Cleanup(func() { servers[i].stop() })
	}
	return servers
}

func (s *server) start(tb testing.TB) {
	listener, err := net.Listen("tcp", s.address)
	require.NoError(tb, err)
	g := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(g, s)
	s.address, s.stop = listener.Addr().String(), g.Stop
	go func() { _ = g.Serve(listener) }()
}

// A client is a channel, whose RPCs have keys.
type client struct {
	testing.TB
	stub grpc_testing.TestServiceClient
}

func dial(tb testing.TB, target string, opts ...grpc.DialOption) *client {
	again := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}
	conn, err := grpc.NewClient(target, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: patience}))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	return &client{tb, grpc_testing.NewTestServiceClient(conn)}
}

func (c *client) call(key string) (string, error) {
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	response, err := c.stub.UnaryCall(metadata.AppendToOutgoingContext(ctx, "x-key", key), &grpc_testing.SimpleRequest{})
	return response.GetServerId(), err
}

// servers returns the server of each of so many keys.
func (c *client) servers(keys int) map[string]string {
	c.Helper()
	at := map[string]string{}
	for i := range keys {
		key := "user-" + strconv.Itoa(i)
		name, err := c.call(key)
		require.NoError(c, err, key)
		at[key] = name
	}
	return at
}

// only reports whether all keys are at some of the servers, without failed RPCs.
func (c *client) only(keys int, servers ...*server) bool {
	allowed := map[string]bool{}
	for _, s := range servers {
		allowed[s.address] = true
	}
	for i := range keys {
		name, err := c.call("user-" + strconv.Itoa(i))
		if err != nil || !allowed[name] {
			return false
		}
	}
	return true
}

func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		require.True(tb, time.Now().Before(deadline), "it never was so that "+what)
	}
}
