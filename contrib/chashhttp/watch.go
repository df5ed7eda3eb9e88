package chashhttp

import (
	"sync"
	"sync/atomic"
	"time"
)

// pollInterval is how often an attempt that waits looks whether its backend was marked.
const pollInterval = 250 * time.Millisecond

// A watch ends an attempt that waits for too long. Its one timer is not set anew with
// each sign of the backend: when it fires it looks how long ago that was.
type watch struct {
	limit time.Duration
	began time.Time

	mu    sync.Mutex // while the timer is being set, or looks
	timer *time.Timer
	over  bool // the attempt has ended

	last    atomic.Int64 // the last sign: nanoseconds after began
	waiting atomic.Int32 // reads of the request's body under way
}

// A watched is what a watch tells: now and then that the backend is being waited for,
// and in the end that this was too long.
type watched interface {
	poll()
	late()
}

// start begins to watch.
func (w *watch) start(limit time.Duration, who watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit, w.began = limit, time.Now()
	w.timer = time.AfterFunc(min(limit, pollInterval), func() { w.look(who) })
}

// look is what the timer calls.
func (w *watch) look(who watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	now := time.Since(w.began)
	if w.waiting.Load() > 0 { // for the sender of the body, who is not the backend
		w.last.Store(int64(now))
	}
	left := w.limit - (now - time.Duration(w.last.Load()))
	if left <= 0 {
		who.late()
		return
	}
	who.poll()
	w.timer.Reset(min(left, pollInterval))
}

// sign notes that the backend has given one.
func (w *watch) sign() { w.last.Store(int64(time.Since(w.began))) }

// stop ends the watch. Nothing is told any more when it returns.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}

// silence returns how long the backend has given no sign, 0 while it is not its turn.
func (w *watch) silence() time.Duration {
	if w.waiting.Load() > 0 {
		return 0
	}
	return time.Since(w.began) - time.Duration(w.last.Load())
}
