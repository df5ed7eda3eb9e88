package chashhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/chash-go/chash"
)

// An attempt is one sending of a request to one backend.
type attempt struct {
	t       *Transport
	req     *http.Request // the caller's
	out     *http.Request // what the backend gets
	body    *body
	backend *url.URL
	key     string // of the request, empty without one
	cancel  context.CancelCauseFunc
	end     atomic.Pointer[error] // why it was cut, or &settled: whoever is first decides

	connection connection
	watch      watch
	answer     answer                 // once there is one
	lease      *chash.Lease[*url.URL] // until it is over, nil if loads are not bounded
}

// settled is the end of an attempt that cannot be cut any more.
var settled error

// An outcome is what came of an attempt.
type outcome struct {
	resp *http.Response // nil with an error
	err  error

	failed bool // the backend's doing, and not its user's or nobody's
	again  bool // it is safe to send the request once more
	unsent bool // nothing was sent
	unused bool // all that it met was a connection which the backend had closed
	late   bool // the caller's time was over before the backend said anything
}

// impatience is how long a backend must have been silent before a deadline of the
// caller's is evidence against it.
const impatience = 10 * time.Millisecond

// send sends the request to one backend. Without a next attempt it takes no connection
// that the backend might be about to close.
func (t *Transport) send(req *http.Request, body *body, backend *url.URL, last bool) (a *attempt, o outcome) {
	a = &attempt{t: t, req: req, body: body, backend: backend}
	if !reachable(backend) {
		a.watch.began = time.Now()
		return a, outcome{err: ErrNoAddress, failed: true, again: true, unsent: true}
	}
	a.connection.plainHTTP2 = &t.pools.plainHTTP2
	ctx, cancel := context.WithCancelCause(req.Context())
	a.cancel = cancel
	a.out = outgoing(httptrace.WithClientTrace(ctx, a.hooks()), req, backend)
	trailers := validHeader(req.Trailer) // as long as nobody reads the body, which may fill them in
	body.lend(a.out, &a.watch)
	base := t.pools.choose(a.out, last || !idempotent(req) || !body.repeatable())
	a.watch.start(t.attemptTimeout, a)
	resp, err := base.RoundTrip(a.out)
	a.watch.stop()
	if err == nil {
		resp, err = a.take(resp)
	}
	if err != nil {
		return a, a.judge(err, trailers)
	}
	t.pools.learn(a.out, resp)
	return a, a.grade(resp)
}

// cut ends an attempt that has no answer yet, for a reason.
func (a *attempt) cut(reason error) {
	if a.end.CompareAndSwap(nil, &reason) {
		a.cancel(reason)
	}
}

// settle has no cut come any more, and returns the reason of one that was before.
func (a *attempt) settle() error {
	a.end.CompareAndSwap(nil, &settled)
	return *a.end.Load()
}

// late ends an attempt whose backend has given no sign for too long.
func (a *attempt) late() { a.cut(ErrAttemptTimeout) }

// poll ends an attempt that waits for a backend which was marked meanwhile, if another
// may be asked in its place.
func (a *attempt) poll() {
	if a.safe() && a.t.health.unhealthy(a.backend) {
		a.cut(ErrMarked)
	}
}

// take returns the answer, unless the attempt was cut or it is none.
func (a *attempt) take(resp *http.Response) (*http.Response, error) {
	if cause := a.settle(); cause != nil {
		discard(resp)
		return nil, cause
	}
	if resp.StatusCode < 100 {
		discard(resp)
		return nil, fmt.Errorf("%w: %03d", ErrInvalidStatus, resp.StatusCode)
	}
	return resp, nil
}

// grade returns the outcome of an attempt that was answered.
func (a *attempt) grade(resp *http.Response) outcome {
	if !a.t.failing(resp.StatusCode) {
		return outcome{resp: resp}
	}
	return outcome{resp: resp, err: statusError(resp.StatusCode), failed: true, again: a.safe()}
}

// judge returns the outcome of an attempt that was not.
func (a *attempt) judge(err error, trailers bool) outcome {
	c := &a.connection
	cause := a.settle()
	if cause != nil {
		err = cause
	}
	o := outcome{err: err, unsent: c.never() && a.body.unread()}
	switch {
	case a.body.broken():
		o.err = fmt.Errorf("%w: %w", ErrRequestBody, err)
		return o
	case cause == nil && gaveUp(a.req):
		o.late = expired(a.req) && !c.spoke.Load() && a.watch.silence() >= impatience
		return o
	case c.closed.Load():
		o.unsent = a.body.unread()
		o.unused = o.unsent || a.body.repeatable()
		return o
	case cause == ErrMarked:
		o.again = true
		return o
	case !trailers, !sendable(a.out):
		return o
	case c.refused(a.out, err):
		if len(a.out.Header["Upgrade"]) > 0 {
			o.err = fmt.Errorf("%w: %w", ErrUpgrade, err)
		}
		return o
	}
	// That Base would have repeated it says that it may be.
	o.again = a.safe() || c.repeated.Load() && a.body.repeatable()
	o.failed = true
	if c.stale() && cause != ErrAttemptTimeout && !errors.Is(err, ErrInvalidStatus) {
		o.failed = false
		o.err = fmt.Errorf("%w: %w", ErrConnectionClosed, err)
	}
	return o
}

// safe reports whether the request may be sent to another backend: whether nothing was
// sent, or it may have its effect twice and its body can be had again.
func (a *attempt) safe() bool {
	return a.connection.never() && a.body.unread() || idempotent(a.req) && a.body.repeatable()
}

// idempotent reports whether a request may have its effect twice: by its method, as
// RFC 9110, section 9.2.2, says, or by a header which net/http too takes as a promise
// that the server recognizes the second one.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, promised := req.Header["Idempotency-Key"]
	_, also := req.Header["X-Idempotency-Key"]
	return promised || also
}

// gaveUp reports whether the caller does not wait for an answer any more. An
// http.Client with a Timeout closes Cancel, and perhaps a moment before the deadline of
// the context.
func gaveUp(req *http.Request) bool {
	select {
	//lint:ignore SA1019 an http.Client sets it
	case <-req.Cancel:
		return true
	default:
		return req.Context().Err() != nil
	}
}

// expired reports whether the caller gave up since the time was over that it had for
// the request, and not since it lost interest.
func expired(req *http.Request) bool {
	deadline, ok := req.Context().Deadline()
	return ok && !time.Now().Before(deadline)
}

// isNetError reports whether an error is one of a connection.
func isNetError(err error) bool { return errors.As(err, new(net.Error)) }
