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

// An endpoint is one server with a pick_first policy of its own, the leaf. To the
// leaf, the endpoint is the channel.
//
// grpc-go's endpointsharding keeps such leaves too. But each change of state makes it
// report all endpoints. If N servers connect at the same time, this takes N*N steps.
type endpoint struct {
	balancer.ClientConn // of the channel; UpdateState is intercepted
	policy              *policy
	name                string

	link atomic.Pointer[link]

	// mu serializes the calls to the leaf. The leaf calls UpdateState, which takes
	// policy.mu. So never call the leaf under policy.mu.
	mu     sync.Mutex
	leaf   balancer.Balancer // nil until a connection is wanted
	closed bool
	given  balancer.ClientConnState // to the leaf, now or later
}

// A link is the connection of an endpoint, as picks see it. It is immutable apart
// from asked. policy.mu guards its replacement.
type link struct {
	state connectivity.State

	// picker is the leaf's. In READY it returns the connection. If the connection is
	// lost meanwhile, gRPC waits for the next picker. In TRANSIENT_FAILURE, picker
	// returns the connection error.
	picker balancer.Picker

	// result is the result of every pick, if fixed. In READY, a pick_first policy keeps
	// one connection until it reports another state. So one question is enough.
	result balancer.PickResult
	fixed  bool

	since time.Time   // when CONNECTING began
	asked atomic.Bool // whether an IDLE endpoint was asked to connect
}

// leafBuilder is grpc-go's pick_first. Its init function runs before this.
var leafBuilder = balancer.Get(pickfirst.Name)

// newEndpoint returns an endpoint without a leaf. If it is not lazy, it counts as
// connecting.
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

// health returns the state of an endpoint's backend. Keys stay with a server while it
// connects, as in gRFC A61. They leave it while the connection fails.
func (l *link) health() chash.State {
	if l.state == connectivity.TransientFailure {
		return chash.Unhealthy
	}
	return chash.Healthy
}

// next returns the link after a new state of the leaf, or nil if nothing changes. In
// TRANSIENT_FAILURE, only READY and another error are changes, as in gRFC A62. So
// RPCs do not wait again and again for a server whose health checks fail.
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

// UpdateState is called by the leaf. The caller may hold e.mu.
func (e *endpoint) UpdateState(s balancer.State) {
	if e.policy.connected(e, s) {
		go e.connect()
	}
}

// update gives the endpoint its part of the resolver's state.
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

// knows reports whether an update brings the leaf nothing new. The caller holds e.mu.
func (e *endpoint) knows(at resolver.Endpoint, s resolver.State) bool {
	old := e.given.ResolverState
	return len(old.Endpoints) > 0 && old.Attributes == s.Attributes && sameAddresses(old.Endpoints[0], at)
}

// build makes the leaf, which then connects. The caller holds e.mu.
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

// want asks for a connection if the endpoint is IDLE. It reports whether this was the
// first request since then. It does not block.
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

// addresses returns the endpoint's addresses in the resolver's order.
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
