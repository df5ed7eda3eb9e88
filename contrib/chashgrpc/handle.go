package chashgrpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// A Handle is one look at what a policy does: which server has a key and why, how its
// connections are, how evenly the keys are spread. There are two ways to one:
// [ForTarget], and a Handle of the caller's own that is passed with the dial options,
//
//	var handle chashgrpc.Handle
//	conn, err := grpc.NewClient(target, grpc.WithResolvers(handle.Wrap(resolver.Get("dns"))), ...)
//
// It follows the channel: idleness ends a policy, and the next RPC begins another one.
// Where it has several policies, as with a policy above them that has several children,
// or several channels, it shows the one that began last. While it has none it shows an
// empty one.
//
// A Handle has what chashprom collects from. The zero Handle is ready for use; it is
// safe for concurrent use by multiple goroutines and must not be copied.
type Handle struct {
	mu       sync.Mutex
	policies []*policy // in the order of their beginnings
	picks    picks     // of policies that have ended
	kept     bool      // whether ForTarget has returned it; the registry guards this
}

// ForTarget returns the Handle of all channels in this process to a target, in the form
// that ClientConn.CanonicalTarget returns, such as "dns:///greeter:50051". It is the
// same Handle for the same target, whether there are such channels already or not.
func ForTarget(target string) *Handle {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	h := registry.handle(target)
	h.kept = true
	return h
}

// registry has the Handles of all targets that have a channel or were asked for.
var registry = targets{at: make(map[string]*Handle)}

type targets struct {
	mu sync.Mutex
	at map[string]*Handle
}

// handle returns the Handle of a target. The caller holds mu.
func (t *targets) handle(target string) *Handle {
	h := t.at[target]
	if h == nil {
		h = new(Handle)
		t.at[target] = h
	}
	return h
}

// begin makes a policy known that has begun.
func (t *targets) begin(p *policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handle(p.opts.Target.String()).add(p)
}

// end forgets a policy that has ended, and a Handle that nobody can have.
func (t *targets) end(p *policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	target := p.opts.Target.String()
	h := t.at[target]
	if h.remove(p); !h.kept && !h.busy() {
		delete(t.at, target)
	}
}

type handleAttribute struct{}

// Wrap returns a builder of the same scheme, whose resolvers bring the Handle to the
// policies of their channels. An [Annotator] may wrap the result, and the other way
// round.
func (h *Handle) Wrap(b resolver.Builder) resolver.Builder {
	alone := attributes.New(handleAttribute{}, h) // the same each time, so that it is no news
	return newAnnotator(func(s resolver.State) resolver.State {
		if s.Attributes == nil {
			s.Attributes = alone
		} else {
			s.Attributes = s.Attributes.WithValue(handleAttribute{}, h)
		}
		return s
	}).Wrap(b)
}

// watched makes the Handles those of a policy that has begun, or has another state.
func (p *policy) watched(a *attributes.Attributes) {
	h, _ := a.Value(handleAttribute{}).(*Handle)
	if h != nil && !slices.Contains(p.handles, h) {
		p.handles = append(p.handles, h)
		h.add(p)
	}
}

func (h *Handle) add(p *policy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.policies = append(h.policies, p)
}

// busy reports whether there is a policy.
func (h *Handle) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.policies) > 0
}

// remove forgets a policy that has ended.
func (h *Handle) remove(p *policy) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.policies = slices.DeleteFunc(h.policies, func(q *policy) bool { return q == p })
	h.picks.waited.Add(p.picks.waited.Load())
	h.picks.elsewhere.Add(p.picks.elsewhere.Load())
	h.picks.failed.Add(p.picks.failed.Load())
}

// mapping returns the newest mapping that there is, or nil.
func (h *Handle) mapping() mapping {
	h.mu.Lock()
	policies := slices.Clone(h.policies)
	h.mu.Unlock()
	for _, p := range slices.Backward(policies) {
		p.mu.Lock()
		m := p.mapping
		p.mu.Unlock()
		if m != nil {
			return m
		}
	}
	return nil
}

// An EndpointStatus is an endpoint as a policy sees it.
type EndpointStatus struct {
	Name      string   // in Stats, Shares and Explain: its address, or all of them, quoted
	Addresses []string // in the order of the resolver
	HashKey   string
	Weight    uint32
	State     connectivity.State
	Err       error // of the connection, in TRANSIENT_FAILURE
}

// Endpoints returns the endpoints, sorted by name. It takes time for each of them.
func (h *Handle) Endpoints() []EndpointStatus {
	h.mu.Lock()
	policies := slices.Clone(h.policies)
	h.mu.Unlock()
	for _, p := range slices.Backward(policies) {
		if all := p.statuses(); all != nil {
			return all
		}
	}
	return nil
}

// statuses returns the endpoints of a policy, or nil if it has no mapping yet.
func (p *policy) statuses() []EndpointStatus {
	p.mu.Lock()
	order, members, begun := p.order, p.members, p.mapping != nil
	p.mu.Unlock()
	if !begun {
		return nil
	}
	all := make([]EndpointStatus, len(order))
	for i, e := range order {
		m := members[e.name]
		all[i] = EndpointStatus{Name: e.name, Addresses: e.addresses(), HashKey: m.hashKey, Weight: m.weight}
		all[i].State, all[i].Err = e.link.Load().status()
	}
	return all
}

func (l *link) status() (state connectivity.State, err error) {
	if l.state == connectivity.TransientFailure {
		_, err = l.picker.Pick(balancer.PickInfo{Ctx: context.Background()})
	}
	return l.state, err
}

// Endpoint returns the name of the endpoint that has the key now: that of its own server
// or, while that has failed, of the one that stands in. Its connection may be in the
// making. Without an endpoint the error is chash.ErrNoBackends, where all have failed it
// is chash.ErrNoHealthyBackends.
func (h *Handle) Endpoint(key string) (name string, err error) {
	m := h.mapping()
	if m == nil {
		return "", chash.ErrNoBackends
	}
	e, err := m.Get(key)
	if err != nil {
		return "", err
	}
	return e.name, nil
}

// Explain returns how a key comes to its endpoint, as the Explain of chash does. An
// endpoint is "unhealthy" there while it is in TRANSIENT_FAILURE, and "healthy"
// otherwise.
func (h *Handle) Explain(key string) chash.Explanation {
	if m := h.mapping(); m != nil {
		return m.Explain(key)
	}
	return chash.Explanation{Key: key, Home: -1, Probes: []chash.Probe{}, Err: chash.ErrNoBackends}
}

// Stats returns figures of the table or ring, as the Stats of chash does. An endpoint counts
// as Healthy there unless it has failed: its connection may be in the making, or idle.
func (h *Handle) Stats() chash.Stats {
	if m := h.mapping(); m != nil {
		return m.Stats()
	}
	return chash.Stats{Loads: map[string]int64{}}
}

// Shares returns the share of each endpoint in the key space, as the Shares of chash
// does.
func (h *Handle) Shares() []chash.Share {
	if m := h.mapping(); m != nil {
		return m.Shares()
	}
	return []chash.Share{}
}

// Fingerprint returns that of the table or ring: it is equal in processes whose keys go
// to the same servers while none has failed.
func (h *Handle) Fingerprint() uint64 {
	if m := h.mapping(); m != nil {
		return m.Fingerprint()
	}
	return 0
}

// LiveFingerprint is Fingerprint with the servers that have failed taken into account.
func (h *Handle) LiveFingerprint() uint64 {
	if m := h.mapping(); m != nil {
		return m.LiveFingerprint()
	}
	return 0
}

// Refused returns why the last update of the resolver was refused, or nil if it was not.
func (h *Handle) Refused() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.policies) == 0 {
		return nil
	}
	p := h.policies[len(h.policies)-1]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Picks counts the picks of RPCs with a key that found no READY connection to their
// server. gRPC picks for an RPC that waits whenever the state of a channel changes, so
// that one RPC may count several times.
type Picks struct {
	Waited    uint64 // for the connection
	Elsewhere uint64 // to another server, after connectWait or because of the deadline
	Failed    uint64 // because all servers have failed
}

type picks struct{ waited, elsewhere, failed atomic.Uint64 }

// Picks returns the sum over all policies that the Handle has and had.
func (h *Handle) Picks() Picks {
	h.mu.Lock()
	defer h.mu.Unlock()
	var sum Picks
	sum.add(&h.picks)
	for _, p := range h.policies {
		sum.add(&p.picks)
	}
	return sum
}

func (s *Picks) add(p *picks) {
	s.Waited += p.waited.Load()
	s.Elsewhere += p.elsewhere.Load()
	s.Failed += p.failed.Load()
}
