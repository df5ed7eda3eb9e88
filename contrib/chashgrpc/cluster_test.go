package chashgrpc_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// policies are the two, with the mapping that each must agree with.
var policies = []struct {
	name    string
	mapping func([]chash.Backend[string]) (mapping, error)
}{
	{chashgrpc.MaglevName, func(b []chash.Backend[string]) (mapping, error) { return chash.NewMaglev(b) }},
	{chashgrpc.RingName, func(b []chash.Backend[string]) (mapping, error) { return chash.NewRing(b) }},
}

type mapping interface {
	Get(key string) (string, error)
	Owner(key string) (chash.Backend[string], error)
	Set([]chash.Backend[string]) error
	SetState(name string, state chash.State) error
}

// forEachPolicy runs a test for both policies.
func forEachPolicy(t *testing.T, test func(t *testing.T, policy string, mapping func(...string) mapping)) {
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			test(t, p.name, func(names ...string) mapping {
				m, err := p.mapping(chash.Named(names...))
				require.NoError(t, err)
				return m
			})
		})
	}
}

// A cluster is gRPC servers on loopback and a client of them. Their addresses are
// names, which the client's dialer resolves, so that keys lead to the same names in
// every run, and a server that is restarted may get another port.
type cluster struct {
	testing.TB
	client   grpc_testing.TestServiceClient
	conn     *grpc.ClientConn
	resolver *manual.Resolver
	wrap     func(resolver.Builder) resolver.Builder // nil for none
	target   string

	mu      sync.Mutex
	servers map[string]*server
	dial    map[string]dialer // in place of the usual, by name of the server
	open    atomic.Int64      // connections of the client
	refused atomic.Int64      // those that it asked for in vain
}

type dialer = func(ctx context.Context, address string) (net.Conn, error)

type server struct {
	grpc_testing.UnimplementedTestServiceServer
	name    string
	address string
	stop    func()
}

// newCluster starts a server of each name and connects a client to them.
func newCluster(tb testing.TB, policy, config string, names ...string) *cluster {
	c := newServers(tb, names...)
	c.connectTo(policy, config, endpointsAt(names...))
	return c
}

// newServers starts a server of each name.
func newServers(tb testing.TB, names ...string) *cluster {
	c := &cluster{TB: tb, target: "test:///service", servers: map[string]*server{}, dial: map[string]dialer{}}
	tb.Cleanup(c.stop)
	for _, name := range names {
		c.start(name)
	}
	return c
}

// connectTo makes the client.
func (c *cluster) connectTo(policy, config string, endpoints []resolver.Endpoint, opts ...grpc.DialOption) {
	c.resolver = manual.NewBuilderWithScheme("test")
	c.resolver.InitialState(resolver.State{Endpoints: endpoints})
	again := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}
	var builder resolver.Builder = c.resolver
	if c.wrap != nil {
		builder = c.wrap(builder)
	}
	conn, err := grpc.NewClient(c.target, append([]grpc.DialOption{
		grpc.WithResolvers(builder),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(c.connect),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: patience}),
		grpc.WithDefaultServiceConfig(serviceConfig(policy, config)),
	}, opts...)...)
	require.NoError(c, err)
	c.conn, c.client = conn, grpc_testing.NewTestServiceClient(conn)
}

func serviceConfig(policy, config string) string {
	return fmt.Sprintf(`{"loadBalancingConfig": [{%q: %s}]}`, policy, config)
}

// stop closes the client and the servers.
func (c *cluster) stop() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	for name := range c.servers {
		c.kill(name)
	}
}

func (c *cluster) start(name string, opts ...grpc.ServerOption) {
	s := &server{name: name}
	s.serve(c, opts...)
	c.add(s)
}

// serve serves on loopback, in this process.
func (s *server) serve(tb testing.TB, opts ...grpc.ServerOption) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	g := grpc.NewServer(opts...)
	grpc_testing.RegisterTestServiceServer(g, s)
	s.address, s.stop = l.Addr().String(), g.Stop
	go func() { _ = g.Serve(l) }()
}

// listen accepts connections, as the kernel does, but says nothing.
func (c *cluster) listen(name string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c, err)
	c.add(&server{name: name, address: l.Addr().String(), stop: func() { _ = l.Close() }})
}

func (c *cluster) add(s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[s.name] = s
}

// kill closes a server with all its connections.
func (c *cluster) kill(name string) {
	c.mu.Lock()
	s := c.servers[name]
	delete(c.servers, name)
	c.mu.Unlock()
	s.stop()
}

// hold has connections to a server wait until release is called, and then fail if the
// error is not nil.
func (c *cluster) hold(name string) (release func(error)) {
	done := make(chan struct{})
	var failed error
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial[name] = func(ctx context.Context, address string) (net.Conn, error) {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if failed != nil {
			return nil, failed
		}
		return dialTCP(ctx, address)
	}
	return func(err error) {
		failed = err
		close(done)
	}
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

func (c *cluster) connect(ctx context.Context, name string) (net.Conn, error) {
	c.mu.Lock()
	s, dial := c.servers[name], c.dial[name]
	c.mu.Unlock()
	if s == nil {
		c.refused.Add(1)
		return nil, fmt.Errorf("%s is down", name)
	}
	if dial == nil {
		dial = dialTCP
	}
	conn, err := dial(ctx, s.address)
	if err != nil {
		c.refused.Add(1)
		return nil, err
	}
	c.open.Add(1)
	return &countedConn{Conn: conn, open: &c.open}, nil
}

type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// UnaryCall answers with the name of the server.
func (s *server) UnaryCall(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return &grpc_testing.SimpleResponse{ServerId: s.name}, nil
}

// FullDuplexCall answers each message with the name of the server.
func (s *server) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		err := stream.Send(&grpc_testing.StreamingOutputCallResponse{
			Payload: &grpc_testing.Payload{Body: []byte(s.name)},
		})
		if err != nil {
			return err
		}
	}
}

// update is an update of the resolver.
func (c *cluster) update(endpoints ...resolver.Endpoint) {
	c.resolver.UpdateState(resolver.State{Endpoints: endpoints})
}

// call returns the name of the server that an RPC with that context went to.
func (c *cluster) call(ctx context.Context, opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := c.client.UnaryCall(ctx, &grpc_testing.SimpleRequest{}, opts...)
	return response.GetServerId(), err
}

// callKey is call with a key in the context.
func (c *cluster) callKey(key string, opts ...grpc.CallOption) (string, error) {
	return c.call(chashgrpc.WithKey(context.Background(), key), opts...)
}

// mapAll returns the server of each key.
func (c *cluster) mapAll(keys []string) map[string]string {
	c.Helper()
	var mu sync.Mutex
	servers := make(map[string]string, len(keys))
	var failed error
	var wait sync.WaitGroup
	const workers = 8
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(keys); i += workers {
				name, err := c.callKey(keys[i])
				mu.Lock()
				if err != nil {
					failed = err
				}
				servers[keys[i]] = name
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.NoError(c, failed)
	return servers
}

// await waits until keys lead where the mapping says: the client has connections
// as the mapping has healthy backends.
func (c *cluster) await(m mapping) {
	c.Helper()
	// Each server is the home of some of so many keys.
	keys := keys(100)
	eventually(c, "keys lead where they should", func() bool {
		for _, key := range keys {
			want, err := m.Get(key)
			require.NoError(c, err)
			if got, err := c.callKey(key); err != nil || got != want {
				return false
			}
		}
		return true
	})
}

// eventually waits until something is so.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(tb, "it never was so that "+what)
		}
	}
}

func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	return keys
}

func expected(t *testing.T, m mapping, keys []string) map[string]string {
	servers := make(map[string]string, len(keys))
	for _, key := range keys {
		name, err := m.Get(key)
		require.NoError(t, err)
		servers[key] = name
	}
	return servers
}

// keyOf returns a key whose server is of that name.
func keyOf(t *testing.T, m mapping, name string) string {
	for _, key := range keys(1000) {
		if got, err := m.Get(key); err == nil && got == name {
			return key
		}
	}
	require.FailNow(t, "no key of "+name)
	return ""
}

// grpcGoroutines returns the stacks of goroutines with gRPC's code in them.
func grpcGoroutines() []string {
	buffer := make([]byte, 1<<20)
	var found []string
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "google.golang.org/grpc") {
			found = append(found, stack)
		}
	}
	return found
}
