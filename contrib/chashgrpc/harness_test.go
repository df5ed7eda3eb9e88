package chashgrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// A channel stands in for gRPC's: a test builds a policy on it, plays the
// connections, and looks at what the policy publishes.
type channel struct {
	balancer.ClientConn
	tb      testing.TB
	builder balancer.Builder
	policy  balancer.Balancer
	config  json.RawMessage

	mu      sync.Mutex
	conns   []*conn
	current balancer.State
	updates int
}

// A conn is a connection that does what the test says.
type conn struct {
	balancer.SubConn
	addr     string
	listener func(balancer.SubConnState)

	mu     sync.Mutex
	health func(balancer.SubConnState)
	asked  bool
	closed bool
	state  connectivity.State
}

func newChannel(tb testing.TB, policy, config string, endpoints ...resolver.Endpoint) *channel {
	c := &channel{tb: tb, builder: balancer.Get(policy), config: json.RawMessage(config)}
	c.policy = c.builder.Build(c, balancer.BuildOptions{})
	tb.Cleanup(c.policy.Close)
	require.NoError(tb, c.update(endpoints...))
	return c
}

// update is an update of the resolver.
func (c *channel) update(endpoints ...resolver.Endpoint) error {
	s := balancer.ClientConnState{ResolverState: resolver.State{Endpoints: endpoints}}
	if parser, ok := c.builder.(balancer.ConfigParser); ok {
		var err error
		if s.BalancerConfig, err = parser.ParseConfig(c.config); err != nil {
			return err
		}
	}
	return c.policy.UpdateClientConnState(s)
}

func (c *channel) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sc := &conn{addr: addrs[0].Addr, listener: opts.StateListener}
	c.conns = append(c.conns, sc)
	return sc, nil
}

func (c *channel) UpdateState(s balancer.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = s
	c.updates++
}

func (c *channel) ResolveNow(resolver.ResolveNowOptions) {}

func (c *channel) state() balancer.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// open returns the connections that are not closed.
func (c *channel) open() []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []*conn
	for _, sc := range c.conns {
		sc.mu.Lock()
		if !sc.closed {
			open = append(open, sc)
		}
		sc.mu.Unlock()
	}
	return open
}

func (c *channel) conn(addr string) *conn {
	for _, sc := range c.open() {
		if sc.addr == addr {
			return sc
		}
	}
	panic("no connection to " + addr)
}

func (sc *conn) Connect() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.asked = true
}

func (sc *conn) Shutdown() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.closed = true
}

func (sc *conn) RegisterHealthListener(f func(balancer.SubConnState)) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.health = f
}

// connecting reports whether the policy has asked for a connection since the
// last call that said so.
func (sc *conn) connecting() bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	asked := sc.asked
	sc.asked = false
	return asked
}

// last returns what the policy was told of last.
func (sc *conn) last() connectivity.State {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.state
}

// become tells the policy that the connection has that state.
func (sc *conn) become(s connectivity.State) {
	state := balancer.SubConnState{ConnectivityState: s}
	if s == connectivity.TransientFailure {
		state.ConnectionError = fmt.Errorf("cannot connect to %s", sc.addr)
	}
	sc.mu.Lock()
	sc.state = s
	sc.mu.Unlock()
	sc.listener(state)
	if s != connectivity.Ready {
		return
	}
	sc.mu.Lock()
	health := sc.health
	sc.mu.Unlock()
	if health != nil {
		health(state)
	}
}

// connect makes every connection READY that the policy asks for.
func (c *channel) connect() {
	for _, sc := range c.open() {
		if sc.connecting() {
			sc.become(connectivity.Connecting)
			sc.become(connectivity.Ready)
		}
	}
}

// lose loses a connection and waits until the policy asks for it again.
func (c *channel) lose(addr string) {
	c.conn(addr).become(connectivity.Idle)
	eventually(c.tb, "the policy asks for a connection to "+addr, func() bool {
		sc := c.conn(addr)
		sc.mu.Lock()
		defer sc.mu.Unlock()
		return sc.asked
	})
}

// fail has a connection attempt fail.
func (c *channel) fail(addr string) {
	sc := c.conn(addr)
	sc.connecting()
	sc.become(connectivity.Connecting)
	sc.become(connectivity.TransientFailure)
}

// pick returns the address that an RPC goes to.
func (c *channel) pick(info balancer.PickInfo) (string, error) {
	result, err := c.state().Picker.Pick(info)
	if err != nil {
		return "", err
	}
	sc, ok := result.SubConn.(*conn)
	if !ok {
		return "", errors.New("no connection in the result")
	}
	if result.Done != nil {
		result.Done(balancer.DoneInfo{})
	}
	return sc.addr, nil
}

// A picker picks as the test says.
type picker func(balancer.PickInfo) (balancer.PickResult, error)

func (p picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) { return p(info) }

func endpointAt(addrs ...string) resolver.Endpoint {
	var e resolver.Endpoint
	for _, a := range addrs {
		e.Addresses = append(e.Addresses, resolver.Address{Addr: a})
	}
	return e
}

func endpointsAt(addrs ...string) []resolver.Endpoint {
	endpoints := make([]resolver.Endpoint, len(addrs))
	for i, a := range addrs {
		endpoints[i] = endpointAt(a)
	}
	return endpoints
}

func addresses(n int) []string {
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("10.0.%d.%d:80", i/256, i%256)
	}
	return addrs
}
