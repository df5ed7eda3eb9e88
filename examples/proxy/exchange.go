package main

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"
)

// An exchange is a request and its answer on their way through the proxy. It is the
// http.ResponseWriter of the request, which keeps the time limits and counts.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController // of that ResponseWriter
	limits  *limits
	began   time.Time
	renewed time.Time // when the time limit of writing began anew

	status  int         // of the answer, 0 without one
	bytes   int64       // of its body
	backend string      // the host that answered, empty for none
	body    *steadyBody // of the request, nil without one or without a limit
}

// exchangeKey is the key of an exchange in the context of its request.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// newExchange begins an exchange. It replaces the body of the request.
func newExchange(w http.ResponseWriter, r *http.Request, limits *limits) *exchange {
	e := &exchange{ResponseWriter: w, control: http.NewResponseController(w), limits: limits, began: time.Now()}
	if limits.idle > 0 {
		e.mayWrite() // the connection has the deadline of the request before
		if r.ContentLength != 0 {
			e.body = &steadyBody{ReadCloser: r.Body, exchange: e}
			r.Body = e.body
		}
	}
	return e
}

// end has the server finish within the limit: it reads what is left of the request, and
// only then writes what is left of the answer.
func (e *exchange) end() {
	if e.body == nil || e.body.ended.Load() {
		e.mayWrite()
		return
	}
	now := time.Now()
	if !e.body.late() {
		_ = e.control.SetReadDeadline(now.Add(e.limits.idle))
	}
	_ = e.control.SetWriteDeadline(now.Add(2 * e.limits.idle))
}

// mayWrite begins the time that the client has to take what is written next. It costs
// more than to look at the clock, and is left out where it would change little.
func (e *exchange) mayWrite() {
	if now := time.Now(); e.limits.idle > 0 && now.Sub(e.renewed) > e.limits.idle/8 {
		e.renewed = now
		_ = e.control.SetWriteDeadline(now.Add(e.limits.idle))
	}
}

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if status >= http.StatusOK {
		e.status = status
	}
	e.mayWrite()
	e.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (e *exchange) Write(p []byte) (int, error) {
	e.mayWrite()
	n, err := e.ResponseWriter.Write(p)
	e.bytes += int64(n)
	return n, err
}

// Unwrap is how an http.ResponseController finds what is not implemented here.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Hijack implements http.Hijacker: the connection is a tunnel from now on.
func (e *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := e.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	e.status = http.StatusSwitchingProtocols
	return newTunnel(conn, e.limits.tunnel), buffered, nil
}
