package chashgrpc

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/resolver"
)

// An Annotator gives endpoints what their resolver does not know of: weights, hash
// keys, attributes of other policies. Make one with [NewAnnotator] or [OpenFile], and
// dial with
//
//	grpc.WithResolvers(annotator.Wrap(resolver.Get("dns")))
//
// One Annotator can serve any number of channels. It is safe for concurrent use by
// multiple goroutines and must not be copied.
type Annotator struct {
	annotate func(resolver.State) resolver.State

	mu    sync.Mutex
	conns map[*annotatedConn]struct{}
}

// NewAnnotator returns an Annotator that passes each endpoint to a function, which
// returns it as the policies shall see it: see [SetWeight] and [SetHashKey]. The
// function is called for all endpoints whenever the resolver tells of them, and in
// Refresh, by several goroutines if there are several channels; it must not block, must
// return the same for the same endpoint in every process that shall agree on the
// mapping, and must not change the endpoint's slice of addresses.
func NewAnnotator(annotate func(resolver.Endpoint) resolver.Endpoint) *Annotator {
	return newAnnotator(func(s resolver.State) resolver.State {
		s.Endpoints = endpointsOf(s)
		for i, e := range s.Endpoints {
			s.Endpoints[i] = annotate(e)
		}
		return s
	})
}

func newAnnotator(annotate func(resolver.State) resolver.State) *Annotator {
	return &Annotator{annotate: annotate, conns: make(map[*annotatedConn]struct{})}
}

// endpointsOf returns a copy of the endpoints of a state. As in grpc-go, each address
// is an endpoint where a resolver gives addresses only.
func endpointsOf(s resolver.State) []resolver.Endpoint {
	if s.Endpoints != nil {
		return slices.Clone(s.Endpoints)
	}
	endpoints := make([]resolver.Endpoint, len(s.Addresses))
	for i, a := range s.Addresses {
		//lint:ignore SA1019 This is where the old form of attributes becomes the new one.
		attributes := a.BalancerAttributes
		a.BalancerAttributes = nil //lint:ignore SA1019 As above.
		endpoints[i] = resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: attributes}
	}
	return endpoints
}

// Refresh calls the function again for the endpoints of all channels: after what it
// returns has changed. It returns when the channels know.
func (a *Annotator) Refresh() {
	a.mu.Lock()
	conns := slices.Collect(maps.Keys(a.conns))
	a.mu.Unlock()
	for _, c := range conns {
		c.refresh()
	}
}

// Wrap returns a builder of resolvers of the same scheme that annotate what those of b
// tell of.
func (a *Annotator) Wrap(b resolver.Builder) resolver.Builder {
	wrapped := annotatedBuilder{b, a}
	if o, ok := b.(resolver.AuthorityOverrider); ok {
		return struct {
			annotatedBuilder
			resolver.AuthorityOverrider
		}{wrapped, o}
	}
	return wrapped
}

type annotatedBuilder struct {
	resolver.Builder
	annotator *Annotator
}

// Build builds a resolver of the wrapped builder.
func (b annotatedBuilder) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	a, c := b.annotator, &annotatedConn{ClientConn: cc, annotate: b.annotator.annotate}
	a.mu.Lock()
	a.conns[c] = struct{}{}
	a.mu.Unlock()
	r, err := b.Builder.Build(target, c, opts)
	if err != nil {
		a.remove(c)
		return nil, err
	}
	return annotatedResolver{r, func() { a.remove(c) }}, nil
}

func (a *Annotator) remove(c *annotatedConn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, c)
}

type annotatedResolver struct {
	resolver.Resolver
	remove func()
}

func (r annotatedResolver) Close() {
	r.remove()
	r.Resolver.Close()
}

// An annotatedConn is what a wrapped resolver tells of endpoints.
type annotatedConn struct {
	resolver.ClientConn
	annotate func(resolver.State) resolver.State

	mu   sync.Mutex // also keeps the channel's states in the order of last
	last *resolver.State
}

// UpdateState passes on a state with annotated endpoints.
func (c *annotatedConn) UpdateState(s resolver.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = &s
	return c.ClientConn.UpdateState(c.annotate(s))
}

// NewAddress is the old form of UpdateState, which keeps the service config.
func (c *annotatedConn) NewAddress(addresses []resolver.Address) {
	c.mu.Lock()
	s := resolver.State{Addresses: addresses}
	if c.last != nil {
		s.ServiceConfig = c.last.ServiceConfig
	}
	c.mu.Unlock()
	_ = c.UpdateState(s) // NewAddress has no way to say so
}

// refresh annotates the last state anew.
func (c *annotatedConn) refresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return
	}
	if err := c.ClientConn.UpdateState(c.annotate(*c.last)); err != nil {
		logger.Warningf("refreshed endpoints: %v", err)
	}
}
