package chashgrpc

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// patience returns when an RPC with that context stops waiting for a connection, and
// whether it ever does. The connection has been under way since a given time.
//
// The wait ends after limit. It also ends when the connection has been under way
// three times as long as the RPC has left. So an RPC does not fail on a silent server
// while another server answers. If the server has been silent for long, a new RPC
// hardly waits. An RPC that begins with the connection waits for three quarters of
// its time.
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

// An alarm calls ring at the earliest time that was set. Callers who need a later
// time set the alarm again from ring.
type alarm struct {
	ring func()

	next atomic.Int64 // in nanoseconds since epoch; 0 if it is not set

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// epoch is the start of the alarms' time, so that they use the monotonic clock.
var epoch = time.Now()

// grain is the step to which times of alarms are rounded up. So many RPCs with
// different times share one ring.
const grain = 4 * time.Millisecond

// set makes the alarm ring at that time or before. If an earlier time is set, it
// costs one read.
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

// fire rings. Times set from now on need another ring.
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
