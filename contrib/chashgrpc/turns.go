package chashgrpc

import (
	"sync/atomic"

	"google.golang.org/grpc/connectivity"
)

// turns are the turns of RPCs without a key: each RPC takes the next READY endpoint.
// They belong to one picker.
type turns struct {
	policy *policy
	all    []*endpoint
	wider  atomic.Bool // whether one more endpoint is to connect

	// ready are the endpoints that were READY when the first RPC came. A channel whose
	// RPCs all have keys never makes the list.
	ready atomic.Pointer[[]*endpoint]
}

// newTurns returns the turns of a new picker. The caller holds mu.
func (p *policy) newTurns() *turns {
	t := &turns{policy: p, all: p.order}
	t.wider.Store(p.config.lazy && p.count[connectivity.Connecting] == 0 && p.count[connectivity.Idle] > 0)
	return t
}

// next returns the endpoint whose turn it is, or nil if none is READY.
func (t *turns) next() *endpoint {
	ready := t.ready.Load()
	if ready == nil {
		list := make([]*endpoint, 0, len(t.all))
		for _, e := range t.all {
			if e.ready() {
				list = append(list, e)
			}
		}
		ready = &list
		t.ready.Store(ready)
	}
	if len(*ready) == 0 {
		return nil
	}
	return (*ready)[t.policy.turn.Add(1)%uint64(len(*ready))]
}

// widen makes one IDLE endpoint of a lazy policy connect if none is connecting, as
// gRFC A76 wants for RPCs without a key. So all endpoints connect one after the
// other.
func (t *turns) widen() {
	if t.wider.Load() && t.wider.Swap(false) {
		go t.policy.widen()
	}
}
