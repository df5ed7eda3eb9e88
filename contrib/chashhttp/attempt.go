package chashhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// attempt sends the request to one backend and takes in what that says of its
// health. If it failed, again reports whether it is safe to send the request to
// another, and an answer that counts as a failure comes with that too.
func (t *Transport) attempt(req *http.Request, body *body, backend *url.URL) (resp *http.Response, again bool, err error) {
	if !reachable(backend) {
		t.health.failed(backend, ErrNoAddress)
		return nil, true, ErrNoAddress
	}
	var connection connection
	out := outgoing(connection.trace(req.Context()), req, backend)
	trailers := validHeader(req.Trailer) // as long as nobody reads the body, which may fill them in
	body.lend(out)
	resp, err = t.base.RoundTrip(out)
	switch {
	case err == nil && !t.failing(resp.StatusCode):
		t.health.passed(backend)
		return resp, false, nil
	case err == nil:
		t.health.failed(backend, statusError(resp.StatusCode))
	case body.broken():
		return nil, false, fmt.Errorf("%w: %w", ErrRequestBody, err)
	case canceled(req), !trailers, !sendable(out), connection.refused(out, err):
		return nil, false, err
	default:
		t.health.failed(backend, err)
	}
	unsent := connection.never() && body.unread()
	return resp, unsent || idempotent(req) && body.repeatable(), err
}

// reachable reports whether a backend's URL says where it is.
func reachable(backend *url.URL) bool { return backend != nil && backend.Host != "" }

// outgoing returns a copy of the request that is addressed to the backend.
func outgoing(ctx context.Context, req *http.Request, backend *url.URL) *http.Request {
	out := req.Clone(ctx)
	// A body may fill in the trailers while it is read, and does so in this map.
	out.Trailer = req.Trailer
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	host := req.Host
	// Of a request that was made here, this is only the default for the URL that is
	// replaced. One that a server has read has a RequestURI, and a Host of its own
	// although its client may have put the same into the URL.
	if host == req.URL.Host && req.RequestURI == "" {
		host = ""
	}
	(&httputil.ProxyRequest{In: req, Out: out}).SetURL(backend)
	out.Host = host
	out.URL.User = nil // an http.Client has made a header of it
	if backend.User != nil && out.Header.Get("Authorization") == "" {
		password, _ := backend.User.Password()
		out.SetBasicAuth(backend.User.Username(), password)
	}
	return out
}

// A connection is what is known of how an attempt got one.
type connection struct {
	asked  atomic.Bool
	had    atomic.Bool
	unused atomic.Bool // the last one: no header was written to it
	http2  atomic.Bool // the last one, if it negotiated that by TLS
}

// trace returns a context that makes net/http tell of the connection.
func (c *connection) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			c.asked.Store(true)
			c.unused.Store(false) // net/http asks again where the one that it had was of no use
		},
		GotConn: func(got httptrace.GotConnInfo) {
			c.had.Store(true)
			c.unused.Store(true)
			secure, ok := got.Conn.(interface{ ConnectionState() tls.ConnectionState })
			c.http2.Store(ok && secure.ConnectionState().NegotiatedProtocol == "h2")
		},
		WroteHeaders: func() { c.unused.Store(false) },
	})
}

// never reports whether it is certain that there was no connection, so that nothing
// was sent: a transport that tells nothing may have had one.
func (c *connection) never() bool { return c.asked.Load() && !c.had.Load() }

// refused reports whether net/http had a connection and would not write the request to
// it. Over HTTP/2 it does not write an Upgrade, nor a header that is longer than the
// backend says that it takes; both are the doing of whoever sent the request. Over
// HTTP/1 all that ends an attempt there is a connection that the backend has closed; an
// Upgrade is the sign of HTTP/2 without TLS, of which a connection does not tell.
func (c *connection) refused(out *http.Request, err error) bool {
	if !c.unused.Load() || errors.As(err, new(net.Error)) {
		return false
	}
	return c.http2.Load() || len(out.Header["Upgrade"]) > 0
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

// canceled reports whether the caller has given the request up, which is no fault of
// the backend's. An http.Client with a Timeout closes Cancel, and perhaps a moment
// before the deadline of the context.
func canceled(req *http.Request) bool {
	select {
	//lint:ignore SA1019 an http.Client sets it
	case <-req.Cancel:
		return true
	default:
		return req.Context().Err() != nil
	}
}

// A statusError is an answer that counts as a failure.
type statusError int

// Error implements error.
func (s statusError) Error() string {
	return fmt.Sprintf("chashhttp: status %d %s", int(s), http.StatusText(int(s)))
}
