package chashhttp

import (
	"sync"
	"time"
)

// The numbers of the rules by which a record judges.
const (
	rowTime    = time.Minute      // failures further apart are not in a row
	windowTime = 10 * time.Second // in which results are counted for FailureRatio
	windowSize = 10               // results that a ratio needs
	returned   = 32               // successes after which a backend is back
	forgiving  = 10               // times EjectionTime in health that take one off the count
)

// rules are what a record judges by: those of Options.
type rules struct {
	threshold  int
	ratio      float64
	out        time.Duration
	maxOut     time.Duration
	returnTime time.Duration
}

// A record is what is remembered of one server. It is one small state machine:
//
//	in         results are counted, in a row and in a window; enough failures
//	           ask for a mark
//	out        marked, and left alone until its time; results do not count
//	returning  a few requests at a time, one more with each success; a failure asks
//	           for a mark, successes or time make it in
//
// All times come from the caller. It is safe for concurrent use by multiple goroutines.
type record struct {
	mu sync.Mutex

	// Failures in a row, and the time of the last.
	row  int
	last time.Time

	// Results since the window began, with its first failure.
	window     time.Time
	good, poor int

	// Ejections, less those that good behaviour has taken off, and since when the
	// server is as it is.
	times int
	since time.Time
	out   bool

	// Requests in flight while it is returning, and how many there may be. No
	// allowance is for a server that is not.
	allowance int
	guests    int
}

// fail takes in a failure of an attempt that began at some time, and reports whether
// the server should be marked. An early failure, of a caller whose time was over, counts
// in a row alone: a backend that answers others in between is only slow. Failures of a
// server that is out do not count.
func (r *record) fail(now, began time.Time, early bool, rules *rules) (mark, out bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out || r.times > 0 && began.Before(r.since) { // nothing new
		return false, r.out
	}
	if now.Sub(r.last) > rowTime {
		r.row = 0
	}
	r.row++
	r.last = now
	if !early {
		r.count(now, false)
	}
	if rules.threshold == never {
		return false, false
	}
	seen := r.good + r.poor
	mark = r.row >= rules.threshold || r.allowance > 0 ||
		r.poor >= rules.threshold && seen >= windowSize && float64(r.poor) >= rules.ratio*float64(seen)
	return mark, false
}

// pass takes in a success.
func (r *record) pass(now time.Time, rules *rules) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out {
		return
	}
	r.row = 0
	r.count(now, true)
	if r.allowance > 0 {
		r.allowance++
	}
	r.settle(now, rules)
}

// count counts a result in the window, which a failure begins.
func (r *record) count(now time.Time, good bool) {
	if now.Sub(r.window) > windowTime {
		r.window, r.good, r.poor = now, 0, 0
	}
	switch {
	case !good:
		r.poor++
	case r.poor > 0:
		r.good++
	}
}

// settle ends a return that is over.
func (r *record) settle(now time.Time, rules *rules) {
	if r.allowance > returned || r.allowance > 0 && now.Sub(r.since) >= rules.returnTime {
		r.allowance = 0
	}
}

// admit reports whether a request may be sent to the server now, and counts it as a
// guest if the server is returning; each guest leaves.
func (r *record) admit(now time.Time, rules *rules) (admitted, guest bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(now, rules)
	switch {
	case r.allowance == 0:
		return true, false
	case r.guests >= r.allowance:
		return false, false
	}
	r.guests++
	return true, true
}

// leave ends the visit of a guest.
func (r *record) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guests--
}

// eject takes the server out, if it is not out, and returns for how long it is left
// alone. chance is from 0 to 1.
func (r *record) eject(now time.Time, chance float64, rules *rules) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.out {
		r.times = r.unforgiven(now, rules) + 1
		r.out, r.since = true, now
		r.reset()
	}
	wait := rules.maxOut
	if int64(r.times) <= int64(rules.maxOut/rules.out) {
		wait = time.Duration(r.times) * rules.out
	}
	return wait + time.Duration(chance*float64(wait/5))
}

// unforgiven returns the number of ejections, less one for each while that the server has
// been in.
func (r *record) unforgiven(now time.Time, rules *rules) int {
	whiles := int64(now.Sub(r.since)) / forgiving / int64(rules.out)
	return r.times - int(min(max(whiles, 0), int64(r.times)))
}

// restore brings the server back, gently or at once.
func (r *record) restore(now time.Time, gently bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out {
		r.out = false
		r.reset()
		if gently { // else it was at some time since it went out
			r.since = now
			r.allowance = 1
		}
	}
}

func (r *record) reset() {
	r.row, r.allowance, r.good, r.poor = 0, 0, 0, 0
	r.window = time.Time{}
}

// watched reports whether successes of the server are to be taken in.
func (r *record) watched(now time.Time, rules *rules) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(now, rules)
	return !r.out && (r.allowance > 0 || r.row > 0 || r.poor > 0 && now.Sub(r.window) <= windowTime)
}

// idle reports whether there is nothing left to remember.
func (r *record) idle(now time.Time, rules *rules) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out || r.allowance > 0 || now.Sub(r.last) <= max(rowTime, windowTime) {
		return false
	}
	return r.unforgiven(now, rules) == 0
}
