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

// A Handle shows what a policy does: which server has a key and why, the state of the
// connections, and how evenly the keys are spread. Get one from [ForTarget], or pass
// your own with the dial options:
//
//	var handle chashgrpc.Handle
//	conn, err := grpc.NewClient(target, grpc.WithResolvers(handle.Wrap(resolver.Get("dns"))), ...)
//
// A Handle follows its channel: idleness ends a policy, and the next RPC begins a new
// one. With several policies, it shows the one that began last. There are several if
// a policy above has several children, or with several channels. Without a policy, it
// shows an empty table or ring.
//
// chashprom takes a Handle as a structure. The zero Handle is ready for use. It is
// safe for concurrent use by multiple goroutines and must not be copied.
type Handle struct {
	mu       sync.Mutex
	policies []*policy // oldest first
	picks    picks     // of policies that have ended
	kept     bool      // whether ForTarget has returned it; the registry guards this
}

// ForTarget returns the Handle of all channels to a target in this process. The
// target has the form of ClientConn.CanonicalTarget, such as "dns:///greeter:50051".
// The same target has the same Handle, also before it has a channel.
func ForTarget(target string) *Handle {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	h := registry.handle(target)
	h.kept = true
	return h
}

// registry has the Handles of all targets with a channel or a call of ForTarget.
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

// begin registers a policy that has begun.
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

// Wrap returns a builder of the same scheme. Its resolvers bring the Handle to the
// policies of their channels. An [Annotator] may wrap the result, or the other way
// round.
func (h *Handle) Wrap(b resolver.Builder) resolver.Builder {
	alone := attributes.New(handleAttribute{}, h) // always the same pointer, so that it is no change
	return newAnnotator(func(s resolver.State) resolver.State {
		if s.Attributes == nil {
			s.Attributes = alone
		} else {
			s.Attributes = s.Attributes.WithValue(handleAttribute{}, h)
		}
		return s
	}).Wrap(b)
}

// watched adds the policy to a Handle that it has just been given.
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

// busy reports whether the Handle has a policy.
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

// mapping returns the newest mapping, or nil if there is none.
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
	Name      string   // as in Stats, Shares and Explain: the address, or several, quoted
	Addresses []string // in the order of the resolver
	HashKey   string
	Weight    uint32
	State     connectivity.State
	Err       error // of the connection, in TRANSIENT_FAILURE
}

// Endpoints returns the endpoints, sorted by name, in time for each of them.
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

// Endpoint returns the name of the endpoint that has the key now: its own or, while
// that has failed, the next candidate. Its connection may not be READY yet. The
// errors are chash.ErrNoBackends without endpoints, and chash.ErrNoHealthyBackends if
// all have failed.
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

// Explain returns how a key comes to its endpoint, like Explain of chash. An endpoint
// is "unhealthy" while it is in TRANSIENT_FAILURE, else "healthy".
func (h *Handle) Explain(key string) chash.Explanation {
	if m := h.mapping(); m != nil {
		return m.Explain(key)
	}
	return chash.Explanation{Key: key, Home: -1, Probes: []chash.Probe{}, Err: chash.ErrNoBackends}
}

// Stats returns the statistics of the table or ring, like Stats of chash. Each
// endpoint that has not failed counts as Healthy, also while it connects or is idle.
func (h *Handle) Stats() chash.Stats {
	if m := h.mapping(); m != nil {
		return m.Stats()
	}
	return chash.Stats{Loads: map[string]int64{}}
}

// Shares returns the share of each endpoint in the key space, like Shares of chash.
func (h *Handle) Shares() []chash.Share {
	if m := h.mapping(); m != nil {
		return m.Shares()
	}
	return []chash.Share{}
}

// Fingerprint returns the fingerprint of the table or ring. It is equal in processes
// whose keys go to the same servers while no server has failed. It is 0 without a
// policy.
func (h *Handle) Fingerprint() uint64 {
	if m := h.mapping(); m != nil {
		return m.Fingerprint()
	}
	return 0
}

// LiveFingerprint is Fingerprint with failed servers taken into account.
func (h *Handle) LiveFingerprint() uint64 {
	if m := h.mapping(); m != nil {
		return m.LiveFingerprint()
	}
	return 0
}

// Refused returns why the policy refused the last update of the resolver, or nil.
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

// Picks counts picks for keys whose server had no READY connection. gRPC picks again
// for a waiting RPC whenever the state of the channel changes, so one RPC may count
// several times.
type Picks struct {
	Waited    uint64 // waited for the connection
	Elsewhere uint64 // went to another server, after connectWait or for the deadline
	Failed    uint64 // failed, as all servers had failed
}

type picks struct{ waited, elsewhere, failed atomic.Uint64 }

// Picks returns the sum over all present and past policies of the Handle.
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
