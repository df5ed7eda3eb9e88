package chashgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

func init() {
	balancer.Register(builder{MaglevName, newMaglev})
	balancer.Register(builder{RingName, newRing})
}

var logger = grpclog.Component("chashgrpc")

// A builder builds the balancers of one of the two policies.
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

// Build returns the balancer of a channel.
func (b builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p := &policy{ClientConn: cc, kind: b, opts: opts, reason: errNoEndpoints}
	p.alarm.ring = p.wake
	registry.begin(p)
	return p
}

// A policy is the balancer of one channel. It maps keys to endpoints. Each endpoint
// takes care of its connection.
type policy struct {
	balancer.ClientConn // of the channel; endpoints use it too
	kind                builder
	opts                balancer.BuildOptions

	alarm alarm
	turn  atomic.Uint64 // of RPCs without a key
	picks picks

	// mu guards the fields below. A leaf of an endpoint calls UpdateState while it holds
	// its own locks. So never call a leaf under mu.
	mu        sync.Mutex
	config    *config
	mapping   mapping              // nil until the first update that fits
	layout    layout               // of the mapping
	members   map[string]member    // of the mapping, by name
	endpoints map[string]*endpoint // the same endpoints
	count     counts               // of their states
	reason    error                // why there are no endpoints
	refused   error                // why the last update was refused
	order     []*endpoint          // the same endpoints, by name
	failure   *link                // the last link with a connection error
	quiet     bool                 // during an update, which publishes a picker at its end
	closed    bool

	// given are the attributes of the resolver's last state. enabled adds pick_first's
	// health listener. gRPC serializes the calls that use these fields and handles.
	given, enabled *attributes.Attributes
	handles        []*Handle
}

// UpdateClientConnState takes an update of the resolver and the service config. If no
// mapping can be made, the configuration, hash keys and weights stay as they were.
// Endpoints that left the list leave, and new endpoints do not come.
func (p *policy) UpdateClientConnState(s balancer.ClientConnState) error {
	p.watched(s.ResolverState.Attributes)
	list := newMembership(s.ResolverState.Endpoints)
	// After adopt, no key leads to an endpoint that is gone. RPCs of keys that lead to
	// new endpoints wait for their connections.
	gone, err := p.adopt(s.BalancerConfig, list)
	for _, e := range gone {
		e.close()
	}
	p.connectTo(list, s.ResolverState)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = false
	p.publish()
	if err != nil || len(p.endpoints) == 0 {
		return balancer.ErrBadResolverState
	}
	return nil
}

// adopt takes over the members and the configuration, and returns the endpoints that
// are gone. It changes the mapping at most once, and not at all if the mapping stays
// the same. On an error, it only removes the endpoints that are not in the list. No
// picker is published until the caller ends quiet.
func (p *policy) adopt(given serviceconfig.LoadBalancingConfig, list membership) (gone []*endpoint, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = true
	before := p.endpoints
	c, err := p.configuration(given)
	if err == nil {
		err = p.fit(c, list.members)
	}
	p.refused = err
	if err != nil {
		p.refuse(err, list.members)
	}
	for name, e := range before {
		if p.endpoints[name] != e {
			p.count[e.link.Load().state]--
			gone = append(gone, e)
		}
	}
	for name, e := range p.endpoints {
		if before[name] != e {
			p.count[e.link.Load().state]++
		}
	}
	return gone, err
}

// configuration returns a given configuration in its own type. A policy above may
// give none.
func (p *policy) configuration(given serviceconfig.LoadBalancingConfig) (*config, error) {
	if given == nil {
		return p.kind.parse([]byte("{}"))
	}
	if c, ok := given.(*config); ok {
		return c, nil
	}
	return nil, fmt.Errorf("%w of %s: it is a %T", ErrInvalidConfig, p.kind.name, given)
}

// fit makes the mapping of the members and the configuration. On an error, nothing
// changes. The caller holds mu.
func (p *policy) fit(c *config, members map[string]member) error {
	layout := c.layout
	if p.kind.name == RingName {
		layout = layout.withUnit(members)
	}
	sameLayout := p.mapping != nil && p.layout == layout
	if sameLayout && maps.Equal(p.members, members) {
		p.reason = errNoEndpoints
		return p.configure(c)
	}
	endpoints := make(map[string]*endpoint, len(members))
	all := make(backends, 0, len(members))
	for name, m := range members {
		e := p.endpoints[name]
		if e == nil {
			e = newEndpoint(p, name, c.lazy)
		}
		endpoints[name] = e
		all = append(all, chash.Backend[*endpoint]{
			Name: name, HashKey: m.hashKey, Weight: m.weight, State: e.link.Load().health(), Value: e,
		})
	}
	if sameLayout {
		if err := p.mapping.Set(all); err != nil {
			return err
		}
	} else {
		mapping, err := p.kind.newMapping(all, layout)
		if err != nil {
			return err
		}
		p.mapping, p.layout = mapping, layout
	}
	p.members, p.endpoints = members, endpoints
	p.order = slices.SortedFunc(maps.Values(endpoints), func(a, b *endpoint) int { return strings.Compare(a.name, b.name) })
	p.reason = errNoEndpoints
	return p.configure(c)
}

// configure adopts a configuration with the layout of the mapping. Its load factor is
// valid, since it was parsed. The caller holds mu.
func (p *policy) configure(c *config) error {
	p.config = c
	return p.mapping.SetLoadFactor(c.loadFactor)
}

// refuse handles an update that does not fit: the policy keeps what it has. If that
// is nothing, RPCs fail with the reason. The caller holds mu.
func (p *policy) refuse(reason error, members map[string]member) {
	logger.Warningf("%s: update refused: %v", p.kind.name, reason)
	if p.mapping != nil {
		left := maps.Clone(p.members)
		maps.DeleteFunc(left, func(name string, _ member) bool { _, found := members[name]; return !found })
		if err := p.fit(p.config, left); err != nil {
			logger.Errorf("%s: %v", p.kind.name, err) // does not happen: these are some of the members that fit
		}
	}
	p.reason = reason
}

// connectTo gives the endpoints of the list the resolver's state.
func (p *policy) connectTo(list membership, s resolver.State) {
	if p.enabled == nil || s.Attributes != p.given {
		p.given, p.enabled = s.Attributes, pickfirst.EnableHealthListener(s).Attributes
	}
	s.Attributes = p.enabled
	p.mu.Lock()
	lazy := p.config != nil && p.config.lazy
	known := make([]*endpoint, len(list.order))
	for i, name := range list.order {
		known[i] = p.endpoints[name]
	}
	p.mu.Unlock()
	for i, e := range known {
		if e == nil {
			continue // the update was refused
		}
		e.update(list.at[list.order[i]], s, lazy)
		if !lazy {
			e.want() // the endpoint may be IDLE since the policy was lazy
		}
	}
}

// connected takes a new state of an endpoint's connection. It reports whether the
// endpoint should connect again.
func (p *policy) connected(e *endpoint, s balancer.State) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.endpoints[e.name] != e {
		return false
	}
	before := e.link.Load()
	again = s.ConnectivityState == connectivity.Idle && (!p.config.lazy || before.state == connectivity.TransientFailure)
	after := before.next(s)
	if after == nil {
		return again
	}
	after.asked.Store(again)
	// The link changes before the mapping, so that RPCs of keys that come here find the
	// new link. publish then makes RPCs pick again that found the old state of one.
	e.link.Store(after)
	p.count[before.state]--
	p.count[after.state]++
	if after.state == connectivity.TransientFailure {
		p.failure = after
	}
	if before.health() != after.health() {
		_ = p.mapping.SetState(e.name, after.health()) // the mapping has that name
	}
	p.publish()
	return again
}

// publish gives the channel a picker and a state. The caller holds mu.
func (p *policy) publish() {
	if p.quiet || p.closed {
		return
	}
	if len(p.endpoints) == 0 {
		p.ClientConn.UpdateState(balancer.State{
			ConnectivityState: connectivity.TransientFailure,
			Picker:            base.NewErrPicker(p.reason),
		})
		return
	}
	state := p.count.aggregate()
	if state != connectivity.Ready {
		p.keepTrying(state)
	}
	p.ClientConn.UpdateState(balancer.State{ConnectivityState: state, Picker: p.newPicker()})
}

// keepTrying keeps one server connecting in a lazy policy whose servers fail, as gRFC
// A42 wants. Otherwise nobody might ask for a connection: a policy above may have
// turned to another child, so that no RPC comes. The caller holds mu.
func (p *policy) keepTrying(state connectivity.State) {
	if state == connectivity.Idle || p.count[connectivity.Connecting] > 0 || p.count[connectivity.Idle] == 0 {
		return
	}
	p.wantOne()
}

// wantOne asks the first IDLE endpoint by name to connect, the same endpoint until it
// does. The caller holds mu.
func (p *policy) wantOne() {
	for _, e := range p.order {
		if e.link.Load().state == connectivity.Idle {
			e.want()
			return
		}
	}
}

// widen asks for one more connection, unless an endpoint is connecting.
func (p *policy) widen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count[connectivity.Connecting] == 0 {
		p.wantOne()
	}
}

// wake makes RPCs that wait pick again.
func (p *policy) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publish()
}

var errNoEndpoints = errors.New("chashgrpc: no endpoints")

// counts are the numbers of endpoints in each state.
type counts [connectivity.Shutdown + 1]int

// aggregate returns the state of the channel, by the rules of gRFC A42.
func (c *counts) aggregate() connectivity.State {
	connecting, idle, failed := c[connectivity.Connecting], c[connectivity.Idle], c[connectivity.TransientFailure]
	switch {
	case c[connectivity.Ready] > 0:
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

// ResolverError takes an error of the resolver. The present endpoints stay.
func (p *policy) ResolverError(err error) {
	p.mu.Lock()
	if len(p.endpoints) == 0 {
		p.reason = fmt.Errorf("name resolver error: %w", err)
	}
	endpoints := maps.Clone(p.endpoints)
	p.publish()
	p.mu.Unlock()
	for _, e := range endpoints {
		e.resolverError(err)
	}
}

// UpdateSubConnState is not called: connections have listeners.
func (p *policy) UpdateSubConnState(sc balancer.SubConn, s balancer.SubConnState) {
	logger.Errorf("%s: unexpected UpdateSubConnState(%v, %+v)", p.kind.name, sc, s)
}

// ExitIdle connects all endpoints. A lazy policy connects one, so that the channel
// becomes READY for a caller who waits for this.
func (p *policy) ExitIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config == nil {
		return
	}
	if !p.config.lazy {
		for _, e := range p.endpoints {
			e.want()
		}
	} else if p.count[connectivity.Ready]+p.count[connectivity.Connecting] == 0 {
		p.wantOne()
	}
}

// Close closes all connections.
func (p *policy) Close() {
	p.alarm.stop()
	p.mu.Lock()
	again := p.closed
	p.closed = true
	endpoints := p.endpoints
	p.mu.Unlock()
	if again {
		return
	}
	for _, e := range endpoints {
		e.close()
	}
	registry.end(p)
	for _, h := range p.handles {
		h.remove(p)
	}
}
