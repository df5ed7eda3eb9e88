package chashgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/serviceconfig"
)

func init() {
	balancer.Register(builder{MaglevName, newMaglev})
	balancer.Register(builder{RingName, newRing})
}

var logger = grpclog.Component("chashgrpc")

// A builder is one of the two policies.
type builder struct {
	name       string
	newMapping func(backends, layout) (mapping, error)
}

// Name returns the name of the policy.
func (b builder) Name() string { return b.name }

// ParseConfig parses and validates a configuration.
func (b builder) ParseConfig(text json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	c, err := b.parse(text)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Build returns a balancer with this policy for a channel.
func (b builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p := &policy{ClientConn: cc, kind: b, reason: errNoEndpoints}
	leaf := balancer.Get(pickfirst.Name)
	newLeaf := func(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
		return leaf.Build(&leafConn{cc, p}, opts)
	}
	p.child = endpointsharding.NewBalancer(p, opts, newLeaf, endpointsharding.Options{})
	return p
}

// A policy is the balancer of one channel. Its child keeps a pick_first balancer
// for each endpoint and tells of their states; the policy maps keys to endpoints.
type policy struct {
	balancer.ClientConn // of the channel; the child's calls to UpdateState are intercepted
	kind                builder
	child               balancer.Balancer

	lastFailure atomic.Pointer[leafPicker] // of an endpoint, with the connection error

	// mu guards what follows. The child calls UpdateState with a lock of its own
	// held, so no call to the child may be made under mu.
	mu        sync.Mutex
	config    *config
	mapping   mapping              // nil until the first update that it can be made of
	members   map[string]member    // what the mapping holds, by name
	endpoints map[string]*endpoint // the same endpoints
	reason    error                // why there are none
}

// An endpoint is what the mapping leads to.
type endpoint struct {
	state connectivity.State // guarded by policy.mu

	// ready is the picker of the endpoint's own policy from when it was last READY.
	// It is stored before the mapping leads here. It stays when the connection
	// is lost, so that a pick which is under way meanwhile, or uses a mapping of
	// before, finds a connection that is no longer READY: with that gRPC waits for
	// the next picker, which is on its way.
	ready atomic.Pointer[leafPicker]
}

func (e *endpoint) pick(info balancer.PickInfo) (balancer.PickResult, error) {
	return e.ready.Load().Pick(info)
}

func (e *endpoint) health() chash.State {
	if e.state == connectivity.Ready {
		return chash.Healthy
	}
	return chash.Unhealthy
}

// UpdateClientConnState takes what the resolver and the service config say: all of
// it or, if the mapping cannot be made so, nothing.
func (p *policy) UpdateClientConnState(s balancer.ClientConnState) error {
	endpoints, members := membership(s.ResolverState.Endpoints)
	if err := p.adopt(s.BalancerConfig, members); err != nil {
		p.refuse(err)
		return balancer.ErrBadResolverState
	}
	// From here on no key leads to an endpoint that is gone. Those that are new
	// are not READY. The child closes the former and connects to the latter, and
	// at the end calls UpdateState, which publishes a picker.
	s.ResolverState.Endpoints = endpoints
	return p.child.UpdateClientConnState(balancer.ClientConnState{
		ResolverState: pickfirst.EnableHealthListener(s.ResolverState),
	})
}

// adopt makes the members and the configuration those of the policy. It changes the
// mapping at most once, and not if it is the same already.
func (p *policy) adopt(given serviceconfig.LoadBalancingConfig, members map[string]member) error {
	c, ok := given.(*config)
	if given == nil { // as a policy above this one may do
		c, _ = p.kind.parse([]byte("{}"))
	} else if !ok {
		return fmt.Errorf("%w of %s: it is a %T", ErrInvalidConfig, p.kind.name, given)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sameLayout := p.mapping != nil && p.config.layout == c.layout
	if sameLayout && maps.Equal(p.members, members) {
		return p.configure(c)
	}
	endpoints := make(map[string]*endpoint, len(members))
	all := make(backends, 0, len(members))
	for name, m := range members {
		e := p.endpoints[name]
		if e == nil {
			e = &endpoint{state: connectivity.Connecting}
		}
		endpoints[name] = e
		all = append(all, chash.Backend[*endpoint]{
			Name: name, HashKey: m.hashKey, Weight: m.weight, State: e.health(), Value: e,
		})
	}
	if sameLayout {
		if err := p.mapping.Set(all); err != nil {
			return err
		}
	} else {
		mapping, err := p.kind.newMapping(all, c.layout)
		if err != nil {
			return err
		}
		p.mapping = mapping
	}
	p.members, p.endpoints = members, endpoints
	p.reason = errNoEndpoints
	return p.configure(c)
}

// configure makes a configuration of the mapping's layout that of the policy. It was
// parsed, so that its load factor is a valid one.
func (p *policy) configure(c *config) error {
	p.config = c
	return p.mapping.SetLoadFactor(c.loadFactor)
}

// refuse says why an update was not taken: to RPCs only if there is nothing that
// they could go on with.
func (p *policy) refuse(err error) {
	logger.Warningf("%s: update refused: %v", p.kind.name, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.endpoints) == 0 {
		p.reason = err
		p.publish()
	}
}

// UpdateState is called by the child when the state of an endpoint has changed.
func (p *policy) UpdateState(s balancer.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, child := range endpointsharding.ChildStatesFromPicker(s.Picker) {
		name := nameOf(child.Endpoint)
		e := p.endpoints[name]
		if e == nil {
			continue // it is gone: the child will learn of it within the update under way
		}
		before := e.health()
		e.state = child.State.ConnectivityState
		after := e.health()
		if after == chash.Healthy {
			e.ready.Store(child.State.Picker.(*leafPicker))
		}
		if before != after {
			_ = p.mapping.SetState(name, after) // it has that name
		}
	}
	p.publish()
}

// publish gives the channel a picker and a state. The caller holds mu.
func (p *policy) publish() {
	if len(p.endpoints) == 0 {
		p.ClientConn.UpdateState(balancer.State{
			ConnectivityState: connectivity.TransientFailure,
			Picker:            base.NewErrPicker(p.reason),
		})
		return
	}
	var count [connectivity.Shutdown + 1]int
	for _, e := range p.endpoints {
		count[e.state]++
	}
	next := picker{mapping: p.mapping, header: p.config.header, none: waiting{}}
	if failure := p.lastFailure.Load(); failure != nil && count[connectivity.TransientFailure] == len(p.endpoints) {
		next.none = failure
	}
	s := balancer.State{ConnectivityState: aggregate(&count), Picker: &next}
	if p.config.bounded {
		s.Picker = &boundedPicker{next}
	}
	p.ClientConn.UpdateState(s)
}

var errNoEndpoints = errors.New("chashgrpc: no endpoints")

// aggregate returns the state of the channel for the numbers of endpoints in each
// state, by the rules of gRFC A42.
func aggregate(count *[connectivity.Shutdown + 1]int) connectivity.State {
	connecting, idle, failed := count[connectivity.Connecting], count[connectivity.Idle], count[connectivity.TransientFailure]
	switch {
	case count[connectivity.Ready] > 0:
		return connectivity.Ready
	case failed > 1:
		return connectivity.TransientFailure
	case connecting > 0, failed == 1 && idle > 0:
		return connectivity.Connecting
	case idle > 0:
		return connectivity.Idle
	}
	return connectivity.TransientFailure
}

// ResolverError takes an error of the resolver. The endpoints that there are stay.
func (p *policy) ResolverError(err error) {
	p.mu.Lock()
	if len(p.endpoints) == 0 {
		p.reason = fmt.Errorf("name resolver error: %w", err)
	}
	p.mu.Unlock()
	p.child.ResolverError(err) // calls UpdateState
}

// UpdateSubConnState is not called: connections have listeners.
func (p *policy) UpdateSubConnState(sc balancer.SubConn, s balancer.SubConnState) {
	logger.Errorf("%s: unexpected UpdateSubConnState(%v, %+v)", p.kind.name, sc, s)
}

// ExitIdle connects what is not connected.
func (p *policy) ExitIdle() { p.child.ExitIdle() }

// Close closes all connections.
func (p *policy) Close() { p.child.Close() }

// A leafConn is what the policy of one endpoint sees as its channel.
type leafConn struct {
	balancer.ClientConn
	policy *policy
}

// A leafPicker is a picker of an endpoint's own policy, as a pointer of a known type.
type leafPicker struct{ balancer.Picker }

// UpdateState keeps the picker if the state is a failure, for it is the last one.
func (c *leafConn) UpdateState(s balancer.State) {
	p := &leafPicker{s.Picker}
	if s.ConnectivityState == connectivity.TransientFailure {
		c.policy.lastFailure.Store(p)
	}
	s.Picker = p
	c.ClientConn.UpdateState(s)
}
