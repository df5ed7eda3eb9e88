package chashgrpc

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// patience returns when an RPC with that context stops waiting for a connection which
// has been under way since a given time, and whether it ever does.
//
// It ends after limit. It also ends once the connection has been under way three times
// as long as the RPC has left: so an RPC does not fail because its server is silent
// while another one answers, and one that comes when the server has been silent for
// long hardly waits at all. An RPC that begins with the connection waits for three
// quarters of its time.
func patience(ctx context.Context, since time.Time, limit time.Duration) (end time.Time, ends bool) {
	if limit != unlimited {
		end, ends = since.Add(limit), true
	}
	if deadline, found := ctx.Deadline(); found {
		if e := since.Add(deadline.Sub(since) / 4 * 3); !ends || e.Before(end) {
			end, ends = e, true
		}
	}
	return end, ends
}

// An alarm calls ring at the earliest of the times that it was set to. Who needs it at
// a later one sets it again from ring.
type alarm struct {
	ring func()

	next atomic.Int64 // in nanoseconds since epoch; 0 if it is not set

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// epoch is what alarms count from, so that they go by the monotonic clock.
var epoch = time.Now()

// grain is what an alarm's times are rounded up to, so that many RPCs with times of
// their own do not ring it for each of them.
const grain = 4 * time.Millisecond

// set has the alarm ring at that time or before. While it is set to an earlier one,
// this takes one read.
func (a *alarm) set(at time.Time) {
	next := at.Sub(epoch)/grain*grain + grain
	if next < 0 || next > math.MaxInt64-grain || a.covers(next) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.covers(next) {
		return
	}
	a.next.Store(int64(next))
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(epoch.Add(next)), a.fire)
	} else {
		a.timer.Reset(time.Until(epoch.Add(next)))
	}
}

// covers reports whether the alarm will ring at that time or before.
func (a *alarm) covers(at time.Duration) bool {
	next := a.next.Load()
	return next != 0 && next <= int64(at)
}

// fire rings. What is set from here on is for another time.
func (a *alarm) fire() {
	a.mu.Lock()
	a.next.Store(0)
	stopped := a.stopped
	a.mu.Unlock()
	if !stopped {
		a.ring()
	}
}

// stop ends the alarm for good.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
