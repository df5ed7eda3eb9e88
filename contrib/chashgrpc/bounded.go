package chashgrpc

import (
	"sync"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
)

// A boundedPicker is a picker that bounds the load of endpoints.
type boundedPicker struct{ picker }

// Pick picks the first endpoint with room, in the order of the RPC's key or, without
// a key, from the next in turn on. The RPC counts until it ends.
func (p *boundedPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	key, found := keyOf(info.Ctx, p.header)
	if !found {
		return p.any(info)
	}
	h := newHold()
	var err error
	if h.lease, err = p.mapping.Acquire(key); err != nil {
		h.free()
		return p.fail(key, info)
	}
	if h.lease.Value.ready() {
		return h.pick(info)
	}
	own := h.lease.Value
	h.lease.Release()
	if !p.waits(own, key, info) {
		if h.lease, err = p.mapping.AcquireFunc(key, p.accept()); err == nil {
			p.policy.picks.elsewhere.Add(1)
			return h.pick(info)
		}
	}
	h.free()
	p.policy.picks.waited.Add(1)
	return wait()
}

// any picks for an RPC without a key, from the next in turn on. In a lazy policy,
// that endpoint may stay unconnected for long. Then any picks among the READY
// endpoints, in the order of a key: the name of the endpoint whose turn it is.
func (p *boundedPicker) any(info balancer.PickInfo) (balancer.PickResult, error) {
	if p.down != nil {
		return p.down.picker.Pick(info)
	}
	p.turns.widen()
	h := newHold()
	var err error
	if h.lease, err = p.mapping.AcquireNext(); err == nil && h.lease.Value.ready() {
		return h.pick(info)
	}
	h.lease.Release()
	if e := p.turns.next(); e != nil {
		if h.lease, err = p.mapping.AcquireFunc(e.name, (*endpoint).ready); err == nil {
			return h.pick(info)
		}
	}
	h.free()
	return wait()
}

// A hold has the lease of an RPC in flight. Holds are reused, so that an RPC
// allocates none. This is safe: gRPC calls Done once.
type hold struct {
	lease chash.Lease[*endpoint]
	done  func(balancer.DoneInfo) // of the endpoint's own picker, or nil
	end   func(balancer.DoneInfo) // finish of this hold
}

var holds sync.Pool

func newHold() *hold {
	if h, found := holds.Get().(*hold); found {
		return h
	}
	h := new(hold)
	h.end = h.finish
	return h
}

// pick picks the connection of the leased endpoint.
func (h *hold) pick(info balancer.PickInfo) (balancer.PickResult, error) {
	result, err := h.lease.Value.pick(info)
	if err != nil {
		h.free()
		return result, err
	}
	h.done = result.Done
	result.Done = h.end
	return result, nil
}

// finish ends the RPC.
func (h *hold) finish(info balancer.DoneInfo) {
	done := h.done
	h.free()
	if done != nil {
		done(info)
	}
}

// free releases the lease, if there is one, and the hold.
func (h *hold) free() {
	h.lease.Release()
	h.lease, h.done = chash.Lease[*endpoint]{}, nil
	holds.Put(h)
}
