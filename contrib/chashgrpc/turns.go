package chashgrpc

import (
	"sync/atomic"

	"google.golang.org/grpc/connectivity"
)

// turns are those of RPCs without a key: each READY endpoint has the next one. They
// belong to one picker.
type turns struct {
	policy *policy
	all    []*endpoint
	wider  atomic.Bool // whether one more endpoint is to connect

	// ready are those of all that were READY when the first RPC came: a channel whose
	// RPCs have keys never makes the list.
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

// widen has one endpoint of a lazy policy connect if none is about to, as gRFC A76
// wants it of RPCs without a key: one after the other, they get to know them all.
func (t *turns) widen() {
	if t.wider.Load() && t.wider.Swap(false) {
		go t.policy.widen()
	}
}
