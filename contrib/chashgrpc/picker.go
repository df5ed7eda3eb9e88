package chashgrpc

import (
	"time"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// A picker picks with a mapping that all pickers of a policy share. It is immutable
// apart from its turns. The mapping and the links may change during a pick, so a
// picker may see an endpoint READY that was not, or the reverse. After each change
// gRPC gets another picker, and waiting RPCs pick again.
type picker struct {
	policy  *policy
	mapping mapping
	table   *chash.Maglev[*endpoint] // the mapping if it is a Maglev, else nil
	header  string                   // of config
	config  *config
	turns   *turns
	down    *link // the last failed link if all have failed, else nil
}

// newPicker returns a picker for the present state. The caller holds mu.
func (p *policy) newPicker() balancer.Picker {
	next := picker{policy: p, mapping: p.mapping, header: p.config.header, config: p.config, turns: p.newTurns()}
	next.table, _ = p.mapping.(*chash.Maglev[*endpoint])
	if p.count[connectivity.TransientFailure] == len(p.endpoints) {
		next.down = p.failure
	}
	if p.config.bounded {
		return &boundedPicker{next}
	}
	return &next
}

// Pick picks the endpoint of the RPC's key, or the next in turn.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	key, found := keyOf(info.Ctx, p.header)
	if !found {
		return p.any(info)
	}
	e, err := p.get(key)
	if err != nil {
		return p.fail(key, info)
	}
	switch l := e.link.Load(); {
	case l.fixed:
		return l.result, nil
	case l.state == connectivity.Ready:
		return l.picker.Pick(info)
	}
	return p.instead(e, key, info)
}

// get returns the endpoint of a key. A direct call is faster than one through the
// interface.
func (p *picker) get(key string) (*endpoint, error) {
	if p.table != nil {
		return p.table.Get(key)
	}
	return p.mapping.Get(key)
}

// pick picks the endpoint's connection. If the connection was lost since the caller
// looked, another picker is on its way.
func (e *endpoint) pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if l := e.link.Load(); l.state == connectivity.Ready {
		return l.pick(info)
	}
	return wait()
}

// wait makes an RPC wait for the next picker.
func wait() (balancer.PickResult, error) {
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// instead picks for an RPC whose own endpoint is not READY: the RPC waits or goes
// elsewhere.
func (p *picker) instead(own *endpoint, key string, info balancer.PickInfo) (balancer.PickResult, error) {
	if p.waits(own, key, info) {
		p.policy.picks.waited.Add(1)
		return wait()
	}
	e := p.elsewhere(key)
	if e == nil {
		p.policy.picks.waited.Add(1)
		return wait()
	}
	p.policy.picks.elsewhere.Add(1)
	return e.pick(info)
}

// waits reports whether an RPC waits for its own endpoint. If the wait has an end,
// gRPC picks again then.
func (p *picker) waits(own *endpoint, key string, info balancer.PickInfo) bool {
	if own.want() && p.config.lazy {
		p.warm(key)
	}
	l := own.link.Load()
	if l.state != connectivity.Connecting {
		return true // the endpoint is about to connect, or another picker is on its way
	}
	end, ends := patience(info.Ctx, l.since, p.config.connectWait)
	if ends && !time.Now().Before(end) {
		return false
	}
	if ends {
		p.policy.alarm.set(end)
	}
	return true
}

// warm asks the key's next endpoint to connect, so that a failover finds a
// connection.
func (p *picker) warm(key string) {
	if two, err := p.mapping.GetN(key, 2); err == nil && len(two) == 2 {
		two[1].want()
	}
}

// elsewhere returns the first READY endpoint in the key's order, or nil.
func (p *picker) elsewhere(key string) *endpoint {
	e, err := p.mapping.GetFunc(key, p.accept())
	if err != nil {
		return nil
	}
	return e
}

// accept returns a function that reports whether an endpoint is READY. In a lazy
// policy, the function asks the first IDLE endpoint to connect.
func (p *picker) accept() func(*endpoint) bool {
	if !p.config.lazy {
		return (*endpoint).ready
	}
	asked := false
	return func(e *endpoint) bool {
		asked = asked || e.want()
		return e.ready()
	}
}

// fail ends an RPC when every connection fails, with the error of the key's own
// server.
func (p *picker) fail(key string, info balancer.PickInfo) (balancer.PickResult, error) {
	if own, err := p.mapping.Owner(key); err == nil {
		if l := own.Value.link.Load(); l.state == connectivity.TransientFailure {
			p.policy.picks.failed.Add(1)
			return l.picker.Pick(info)
		}
	}
	return wait() // another picker is on its way
}

// any picks the next READY endpoint in turn, for an RPC without a key. If none is
// READY, the RPC waits. If all have failed, it fails with the last error.
func (p *picker) any(info balancer.PickInfo) (balancer.PickResult, error) {
	if p.down != nil {
		return p.down.picker.Pick(info)
	}
	p.turns.widen()
	if e := p.turns.next(); e != nil {
		return e.pick(info)
	}
	return wait()
}
