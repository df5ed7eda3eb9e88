package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strconv"
	"sync/atomic"

	"github.com/chash-go/chash"
)

// A transport sends a request to the backend of its key, and where that gives no
// answer to the key's next candidates.
type transport struct {
	pool     *pool
	base     *http.Transport
	attempts int   // at most, for one request
	keep     int64 // bytes of a body, at most, that are kept for another attempt
	retries  atomic.Int64
}

func newTransport(p *pool, c config) *transport {
	return &transport{
		pool: p,
		base: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: c.connectTimeout}).DialContext,
			TLSHandshakeTimeout: c.connectTimeout,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     idleTimeout,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true, // what a client did not ask for is not for us to undo
		},
		attempts: c.attempts,
		keep:     c.retryBody,
	}
}

// RoundTrip returns the first answer, whatever its status.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := openBody(req, t.keep)
	if err != nil {
		return nil, err
	}
	attempts := 0
	for b := range t.candidates(contextKey(req.Context())) {
		if attempts++; attempts > 1 {
			t.retries.Add(1)
		}
		resp, again, failure := t.attempt(req, body, b)
		if !again || attempts == t.attempts {
			return resp, failure
		}
		err = failure
	}
	if attempts == 0 {
		err = t.noCandidate()
	}
	return nil, err
}

// candidates returns the backends to try, in order. Requests without a key begin
// with each backend in turn, and go on in an order of their own, so that a dead
// backend's are spread as well.
func (t *transport) candidates(key string) iter.Seq[*backend] {
	table := t.pool.table
	if key != "" {
		return table.Candidates(key)
	}
	return func(yield func(*backend) bool) {
		first, err := table.Next()
		if err != nil || !yield(first) {
			return
		}
		for b := range table.Candidates(strconv.FormatUint(rand.Uint64(), 36)) {
			if b != first && !yield(b) {
				return
			}
		}
	}
}

// noCandidate returns why there was no backend to try.
func (t *transport) noCandidate() error {
	if _, err := t.pool.table.Get(""); err != nil {
		return err
	}
	return chash.ErrNoHealthyBackends // one came back a moment too late
}

// attempt sends the request to one backend. Without an answer, again reports
// whether the request may be sent to another.
func (t *transport) attempt(req *http.Request, body *body, b *backend) (resp *http.Response, again bool, err error) {
	var connected atomic.Bool
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	out := req.Clone(ctx)
	body.attach(out)
	(&httputil.ProxyRequest{In: req, Out: out}).SetURL(b.url)
	resp, err = t.base.RoundTrip(out)
	switch {
	case err == nil:
		t.pool.answered(b)
		return resp, false, nil
	case body.broken():
		return nil, false, fmt.Errorf("%w: %w", errRequestBody, err)
	case ctx.Err() != nil: // the client has gone, or its time is over: no fault of the backend's
		return nil, false, err
	}
	t.pool.failed(b)
	// Without a connection nothing was sent. With one, the backend may have done
	// what it was asked for, and only what is idempotent may be done twice.
	return nil, !connected.Load() || idempotent(req.Method) && body.replayable(), err
}

// idempotent reports whether RFC 9110, section 9.2.2, calls the method so.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// errRequestBody is returned if the client did not send the whole body.
var errRequestBody = errors.New("cannot read the request's body")

// A body is that of a request which may be sent more than once. Either it is
// kept, and every attempt reads it from the beginning, or it is passed through,
// and the first attempt that has a connection uses it up.
type body struct {
	kept    []byte
	through io.Reader // nil if there is no body or it is kept
	failed  atomic.Bool
}

// openBody keeps the body of an idempotent request if it says that it has at
// most so many bytes. One of unknown length is not kept: its client may want an
// answer before it sends the rest.
func openBody(req *http.Request, keep int64) (*body, error) {
	b := new(body)
	switch {
	case req.Body == nil || req.Body == http.NoBody:
	case req.ContentLength < 0 || req.ContentLength > keep || !idempotent(req.Method):
		b.through = req.Body
	default:
		b.kept = make([]byte, req.ContentLength)
		if _, err := io.ReadFull(req.Body, b.kept); err != nil {
			return nil, fmt.Errorf("%w: %w", errRequestBody, err)
		}
	}
	return b, nil
}

// attach gives the body to an attempt.
func (b *body) attach(out *http.Request) {
	switch {
	case b.through != nil:
		// Read closes nothing: an attempt that got no connection closes the body
		// too, and the next one shall find it open. The server closes it.
		out.Body = io.NopCloser(b)
	case b.kept != nil:
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.kept)), nil }
		out.Body, _ = out.GetBody()
	}
}

// Read reads from a body that is passed through and notes if the client fails.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.through.Read(p)
	if err != nil && err != io.EOF {
		b.failed.Store(true)
	}
	return n, err
}

// broken reports whether the client failed to send the body.
func (b *body) broken() bool { return b.failed.Load() }

// replayable reports whether the body can be sent again after it was sent.
func (b *body) replayable() bool { return b.through == nil }
