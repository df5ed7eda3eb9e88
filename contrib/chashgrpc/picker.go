package chashgrpc

import (
	"github.com/chash-go/chash"
	"google.golang.org/grpc/balancer"
)

// A picker picks by a mapping that it shares with the pickers before and after
// it. It is immutable; the mapping changes underneath, so that it may find no
// READY endpoint where there was one, and one where there was none.
type picker struct {
	mapping mapping
	header  string
	none    balancer.Picker // for where no endpoint is READY
}

// Pick picks the endpoint of the RPC's key, or the next in turn.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	var e *endpoint
	var err error
	if key, found := keyOf(info.Ctx, p.header); found {
		e, err = p.mapping.Get(key)
	} else {
		e, err = p.mapping.Next()
	}
	if err != nil {
		return p.none.Pick(info)
	}
	return e.pick(info)
}

// A boundedPicker is a picker that keeps the load of endpoints within bounds.
type boundedPicker struct{ picker }

// Pick picks for the RPC's key, or from the next in turn on, the first endpoint that
// has room, and counts the RPC in until it ends.
func (p *boundedPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	var lease chash.Lease[*endpoint]
	var err error
	if key, found := keyOf(info.Ctx, p.header); found {
		lease, err = p.mapping.Acquire(key)
	} else {
		lease, err = p.mapping.AcquireNext()
	}
	if err != nil {
		return p.none.Pick(info)
	}
	result, err := lease.Value.pick(info)
	if err != nil {
		lease.Release()
		return result, err
	}
	done := result.Done
	result.Done = func(info balancer.DoneInfo) {
		lease.Release()
		if done != nil {
			done(info)
		}
	}
	return result, nil
}

// waiting is a picker that makes RPCs wait for the next one.
type waiting struct{}

func (waiting) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}
