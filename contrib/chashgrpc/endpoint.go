package chashgrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// An endpoint is what the mapping leads to: one server with a pick_first policy of
// its own, for which it stands in as the channel.
//
// grpc-go's endpointsharding would keep such policies too. But it tells of all
// endpoints whenever one of them changes its state, which for N servers that connect
// at the same time takes time of order N*N.
type endpoint struct {
	balancer.ClientConn // of the channel; UpdateState is intercepted
	policy              *policy
	name                string

	link atomic.Pointer[link]

	// mu serializes the calls to the leaf. The leaf calls UpdateState, and with it
	// takes policy.mu, so that no call to the leaf may be made under policy.mu.
	mu     sync.Mutex
	leaf   balancer.Balancer // nil until a connection is wanted
	closed bool
	given  balancer.ClientConnState // what the leaf works with, or will
}

// A link is the connection of an endpoint as picks see it. It is immutable apart from
// asked; policy.mu guards its replacement.
type link struct {
	state connectivity.State

	// picker is that of the leaf. In READY it leads to the connection, which may be
	// lost by the time that it is used: then gRPC waits for the next picker. In
	// TRANSIENT_FAILURE it returns the connection error.
	picker balancer.Picker

	// result is what every pick returns, if fixed: in READY a pick_first policy has one
	// connection until it tells of another state, so that it is asked once.
	result balancer.PickResult
	fixed  bool

	since time.Time   // when CONNECTING began
	asked atomic.Bool // in IDLE: whether a connection has been asked for
}

// leafBuilder is grpc-go's pick_first. Its init function runs before this.
var leafBuilder = balancer.Get(pickfirst.Name)

// newEndpoint returns an endpoint without a leaf. If it is not lazy, it is about to
// connect.
func newEndpoint(p *policy, name string, lazy bool) *endpoint {
	e := &endpoint{ClientConn: p.ClientConn, policy: p, name: name}
	l := &link{state: connectivity.Idle}
	if !lazy {
		l = &link{state: connectivity.Connecting, since: time.Now()}
	}
	e.link.Store(l)
	return e
}

// ready reports whether the connection is READY.
func (e *endpoint) ready() bool { return e.link.Load().state == connectivity.Ready }

// health returns the state of an endpoint's backend. Keys stay with a server while its
// connection is being made, as gRFC A61 has it, and leave it while that fails.
func (l *link) health() chash.State {
	if l.state == connectivity.TransientFailure {
		return chash.Unhealthy
	}
	return chash.Healthy
}

// next returns the link that follows when the leaf tells of a state, or nil where
// nothing changes. Of a server in TRANSIENT_FAILURE only READY is news, and another
// error: so gRFC A62 has it, and so a server whose health checks fail does not have
// RPCs wait again and again.
func (l *link) next(s balancer.State) *link {
	switch state := s.ConnectivityState; {
	case state == l.state && state != connectivity.TransientFailure && state != connectivity.Ready,
		state == connectivity.Shutdown,
		l.state == connectivity.TransientFailure && state != connectivity.TransientFailure && state != connectivity.Ready:
		return nil
	case state == connectivity.Connecting:
		return &link{state: state, since: time.Now()}
	case state == connectivity.Ready:
		return newReadyLink(s.Picker)
	default:
		return &link{state: state, picker: s.Picker}
	}
}

func newReadyLink(p balancer.Picker) *link {
	l := &link{state: connectivity.Ready, picker: p}
	result, err := p.Pick(balancer.PickInfo{Ctx: context.Background()})
	l.result, l.fixed = result, err == nil && result.Done == nil && result.Metadata == nil
	return l
}

// pick picks the connection of a link that is READY.
func (l *link) pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if l.fixed {
		return l.result, nil
	}
	return l.picker.Pick(info)
}

// UpdateState is called by the leaf, possibly in a call that holds e.mu.
func (e *endpoint) UpdateState(s balancer.State) {
	if e.policy.connected(e, s) {
		go e.connect()
	}
}

// update gives the endpoint what the resolver says of it.
func (e *endpoint) update(at resolver.Endpoint, s resolver.State, lazy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.knows(at, s) {
		e.given.ResolverState = resolver.State{Endpoints: []resolver.Endpoint{at}, Attributes: s.Attributes}
		if e.leaf != nil {
			e.tell()
		}
	}
	if e.leaf == nil && !lazy {
		e.build()
	}
}

// knows reports whether an update tells the leaf nothing new. The caller holds e.mu.
func (e *endpoint) knows(at resolver.Endpoint, s resolver.State) bool {
	old := e.given.ResolverState
	return len(old.Endpoints) > 0 && old.Attributes == s.Attributes && sameAddresses(old.Endpoints[0], at)
}

// build makes the leaf, which connects. The caller holds e.mu.
func (e *endpoint) build() {
	e.leaf = leafBuilder.Build(e, e.policy.opts)
	e.tell()
}

// tell gives the leaf its state. The caller holds e.mu.
func (e *endpoint) tell() {
	if err := e.leaf.UpdateClientConnState(e.given); err != nil {
		logger.Warningf("%s: %s: %v", e.policy.kind.name, e.name, err)
	}
}

// connect connects an endpoint that is IDLE.
func (e *endpoint) connect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
	case e.leaf == nil:
		e.build()
	default:
		e.leaf.ExitIdle()
	}
}

// want asks for a connection if the endpoint is IDLE, and reports whether this is the
// first call since it is. It does not block.
func (e *endpoint) want() bool {
	l := e.link.Load()
	if l.state != connectivity.Idle || l.asked.Swap(true) {
		return false
	}
	go e.connect()
	return true
}

// resolverError tells the leaf of an error of the resolver.
func (e *endpoint) resolverError(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leaf != nil && !e.closed {
		e.leaf.ResolverError(err)
	}
}

// close closes the connections.
func (e *endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	if e.leaf != nil {
		e.leaf.Close()
	}
}

// addresses returns the endpoint's addresses in the order of the resolver.
func (e *endpoint) addresses() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var addresses []string
	for _, at := range e.given.ResolverState.Endpoints {
		for _, a := range at.Addresses {
			addresses = append(addresses, a.Addr)
		}
	}
	return addresses
}
