package chashgrpc

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/resolver"
)

// An Annotator gives endpoints what their resolver does not know: weights, hash keys,
// attributes of other policies. Make one with [NewAnnotator] or [OpenFile], and dial
// with
//
//	grpc.WithResolvers(annotator.Wrap(resolver.Get("dns")))
//
// An Annotator can serve several channels. It is safe for concurrent use by multiple
// goroutines and must not be copied.
type Annotator struct {
	annotate func(resolver.State) resolver.State

	mu    sync.Mutex
	conns map[*annotatedConn]struct{}
}

// NewAnnotator returns an Annotator that replaces each endpoint by the result of a
// function: see [SetWeight] and [SetHashKey]. The function is called for all
// endpoints at each update of the resolver and in Refresh. With several channels,
// several goroutines call it. It must not block and must not change the endpoint's
// slice of addresses. Processes that shall agree on the mapping need the same
// results.
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

// endpointsOf returns a copy of the endpoints of a state. If a resolver gives
// addresses only, each address is an endpoint, as in grpc-go.
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

// Refresh calls the function again for the endpoints of all channels. Call Refresh
// when the function's results have changed. When it returns, the channels know the
// new results.
func (a *Annotator) Refresh() {
	a.mu.Lock()
	conns := slices.Collect(maps.Keys(a.conns))
	a.mu.Unlock()
	for _, c := range conns {
		c.refresh()
	}
}

// Wrap returns a builder of the same scheme. Its resolvers annotate the endpoints of
// b's resolvers.
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

// An annotatedConn stands between a wrapped resolver and its channel.
type annotatedConn struct {
	resolver.ClientConn
	annotate func(resolver.State) resolver.State

	mu   sync.Mutex // the channel gets states in the order of last
	last *resolver.State
}

// UpdateState passes on a state with annotated endpoints.
func (c *annotatedConn) UpdateState(s resolver.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = &s
	return c.ClientConn.UpdateState(c.annotate(s))
}

// NewAddress is the old form of UpdateState. It keeps the service config.
func (c *annotatedConn) NewAddress(addresses []resolver.Address) {
	c.mu.Lock()
	s := resolver.State{Addresses: addresses}
	if c.last != nil {
		s.ServiceConfig = c.last.ServiceConfig
	}
	c.mu.Unlock()
	_ = c.UpdateState(s) // NewAddress cannot return an error
}

// refresh annotates the last state again.
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
