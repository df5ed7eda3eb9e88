package chashhttp

import (
	"math"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// never is a FailureThreshold that nothing reaches.
const never = math.MaxInt

// records are those of the servers that have failed. Nearly always none is watched,
// and then a success costs one read.
type records struct {
	rules   rules
	watched atomic.Bool  // there may be servers whose successes are to be taken in
	review  atomic.Int64 // when to see whether there still are, in Unix time

	mu      sync.RWMutex
	servers map[address]*record
	sweepAt int // how many servers there are when idle ones are looked for
}

func newRecords(rules rules) *records {
	return &records{rules: rules, servers: make(map[address]*record), sweepAt: 64}
}

// fail takes in a failure and reports whether the server should be marked, or is out.
func (r *records) fail(server address, began time.Time, early bool) (mark, out bool) {
	now := time.Now()
	rec := r.of(server, now)
	r.mu.RLock() // so that a review does not miss it
	defer r.mu.RUnlock()
	mark, out = rec.fail(now, began, early, &r.rules)
	r.watched.Store(true)
	return mark, out
}

// of returns the record of a server, which there is from now on.
func (r *records) of(server address, now time.Time) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.servers[server]
	if rec == nil {
		if len(r.servers) >= r.sweepAt { // so that each failure pays for the sweep of two
			r.sweep(now)
			r.sweepAt = max(64, 2*len(r.servers))
		}
		rec = new(record)
		r.servers[server] = rec
	}
	return rec
}

// sweep forgets servers that there is nothing to remember of.
func (r *records) sweep(now time.Time) {
	for server, rec := range r.servers {
		if rec.idle(now, &r.rules) {
			delete(r.servers, server)
		}
	}
}

// find returns the record of a server, nil without one.
func (r *records) find(server address) *record {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.servers[server]
}

// pass takes in a success.
func (r *records) pass(backend *url.URL) {
	if !r.watched.Load() {
		return
	}
	now := time.Now()
	if rec := r.find(addressOf(backend)); rec != nil {
		rec.pass(now, &r.rules)
	}
	if due := r.review.Load(); now.Unix() > due && r.review.CompareAndSwap(due, now.Unix()) {
		r.unwatch(now)
	}
}

// admit reports whether a request may be sent to a backend now, and returns the record
// of one that is returning, which the request then leaves.
func (r *records) admit(backend *url.URL) (visited *record, admitted bool) {
	if !r.watched.Load() {
		return nil, true
	}
	rec := r.find(addressOf(backend))
	if rec == nil {
		return nil, true
	}
	admitted, guest := rec.admit(time.Now(), &r.rules)
	if !guest {
		return nil, admitted
	}
	return rec, admitted
}

// eject takes a server out and returns for how long it is left alone.
func (r *records) eject(server address, chance float64) time.Duration {
	now := time.Now()
	return r.of(server, now).eject(now, chance, &r.rules)
}

// restore brings a server back, gently or at once.
func (r *records) restore(server address, gently bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if rec := r.servers[server]; rec != nil {
		rec.restore(time.Now(), gently)
		r.watched.Store(true)
	}
}

// unwatch has successes cost one read again if no server is watched.
func (r *records) unwatch(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.servers {
		if rec.watched(now, &r.rules) {
			return
		}
	}
	r.watched.Store(false)
}
