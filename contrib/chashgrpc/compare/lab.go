package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// A lab is servers on loopback. Clients know them by names, so that keys have the same
// servers in every run.
type lab struct {
	mu      sync.Mutex
	address map[string]string
	stop    map[string]func()
	delay   map[string]time.Duration // of connections
	dialled atomic.Int64
}

type server struct {
	grpc_testing.UnimplementedTestServiceServer
	name string
}

func (s server) UnaryCall(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return &grpc_testing.SimpleResponse{ServerId: s.name}, nil
}

// newLab starts servers, each under its name.
func newLab(names []string, opts ...grpc.ServerOption) (*lab, error) {
	l := &lab{address: map[string]string{}, stop: map[string]func(){}, delay: map[string]time.Duration{}}
	for _, name := range names {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			l.close()
			return nil, err
		}
		g := grpc.NewServer(opts...)
		grpc_testing.RegisterTestServiceServer(g, server{name: name})
		l.address[name], l.stop[name] = listener.Addr().String(), g.Stop
		go func() { _ = g.Serve(listener) }()
	}
	return l, nil
}

// silence replaces a server by one that accepts connections and says nothing.
func (l *lab) silence(name string) error {
	l.stop[name]()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l.address[name], l.stop[name] = listener.Addr().String(), func() { _ = listener.Close() }
	return nil
}

func (l *lab) close() {
	for _, stop := range l.stop {
		stop()
	}
}

func (l *lab) dial(ctx context.Context, name string) (net.Conn, error) {
	l.mu.Lock()
	address, delay := l.address[name], l.delay[name]
	l.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.dialled.Add(1)
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// A client is a channel with the policy of a contestant.
type client struct {
	conn     *grpc.ClientConn
	resolver *manual.Resolver
}

func (l *lab) connect(c contestant, endpoints []resolver.Endpoint, opts ...grpc.DialOption) (*client, error) {
	r := manual.NewBuilderWithScheme("lab")
	r.InitialState(resolver.State{Endpoints: endpoints})
	again := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}
	conn, err := grpc.NewClient("lab:///servers", append([]grpc.DialOption{
		grpc.WithResolvers(r),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(l.dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 20 * time.Second}),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{%q: %s}]}`, c.policy, c.config)),
	}, opts...)...)
	return &client{conn, r}, err
}

func (c *client) close() { _ = c.conn.Close() }

// call returns the name of the server that an RPC of the key went to.
func (c *client) call(key string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-key", key)
	response, err := grpc_testing.NewTestServiceClient(c.conn).UnaryCall(ctx, &grpc_testing.SimpleRequest{})
	return response.GetServerId(), err
}

// callAll makes an RPC of each key, several at a time, and returns the servers; that of
// an RPC that failed is empty.
func (c *client) callAll(keys []string, timeout time.Duration) []string {
	servers := make([]string, len(keys))
	const workers = 16
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(keys); i += workers {
				servers[i], _ = c.call(keys[i], timeout)
			}
		})
	}
	wait.Wait()
	return servers
}

// settled returns the servers of the keys once they no longer change.
func (c *client) settled(keys []string) ([]string, error) {
	var last []string
	for range 100 {
		now := c.callAll(keys, patience)
		if slices.Equal(now, last) && !slices.Contains(now, "") {
			return now, nil
		}
		last = now
	}
	return nil, errors.New("the servers of keys do not settle")
}

const patience = 20 * time.Second

func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	return keys
}

func names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "server-" + strconv.Itoa(i)
	}
	return names
}

func endpoints(names ...string) []resolver.Endpoint {
	all := make([]resolver.Endpoint, len(names))
	for i, name := range names {
		all[i].Addresses = []resolver.Address{{Addr: name}}
	}
	return all
}
