package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// limits are the time limits of what moves through the proxy. Each bounds how long
// somebody may do nothing, and none how long a request or an answer takes as a whole. 0
// is no limit.
type limits struct {
	connect      time.Duration // of a connection to a backend
	clientHeader time.Duration // of a client that sends the header of a request
	header       time.Duration // of a backend, until the header of its answer
	idle         time.Duration // of either side in the midst of a body, or between two requests
	tunnel       time.Duration // of both sides after an upgrade
}

// A steadyBody is the body of a request whose client may not stop sending.
type steadyBody struct {
	io.ReadCloser
	exchange *exchange
	ended    atomic.Bool
	until    atomic.Int64 // when the Read under way is late, in Unix nanoseconds, 0 without one
}

// late reports whether the client has sent nothing for too long. The server notices that,
// and cancels the request, perhaps before Read returns.
func (b *steadyBody) late() bool {
	until := b.until.Load()
	return until != 0 && time.Now().UnixNano() >= until
}

// Read implements io.Reader.
func (b *steadyBody) Read(p []byte) (int, error) {
	e := b.exchange
	if b.late() { // whoever asks once more is not to wait once more
		return 0, os.ErrDeadlineExceeded
	}
	deadline := time.Now().Add(e.limits.idle)
	_ = e.control.SetReadDeadline(deadline)
	_ = e.control.SetWriteDeadline(deadline) // it may tell the client to continue
	b.until.Store(deadline.UnixNano())
	n, err := b.ReadCloser.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		b.until.Store(0)
	}
	if err == io.EOF {
		// The server goes on to wait for the client to go away, for which there is no limit.
		b.ended.Store(true)
		_ = e.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Close implements io.Closer. The server reads a part of what is left of the body, for which
// it has no limit of its own.
func (b *steadyBody) Close() error {
	if b.ended.Load() || b.late() {
		return b.ReadCloser.Close()
	}
	_ = b.exchange.control.SetReadDeadline(time.Now().Add(b.exchange.limits.idle))
	err := b.ReadCloser.Close()
	_ = b.exchange.control.SetReadDeadline(time.Time{})
	return err
}

// A steadyAnswer is the body of an answer whose backend may not stop sending.
type steadyAnswer struct {
	io.ReadCloser
	limit time.Duration
	late  *time.Timer // closes it; runs during a Read
}

// Read implements io.Reader.
func (a *steadyAnswer) Read(p []byte) (int, error) {
	if a.late == nil {
		a.late = time.AfterFunc(a.limit, func() { a.ReadCloser.Close() }) // which ends the Read
	} else {
		a.late.Reset(a.limit)
	}
	n, err := a.ReadCloser.Read(p)
	a.late.Stop()
	return n, err
}

// A tunnel is the connection to a client after an upgrade, to WebSocket say. All that
// either side sends goes through it, and it closes when there was nothing for too long.
type tunnel struct {
	net.Conn
	limit time.Duration
	late  *time.Timer // nil without a limit
}

func newTunnel(conn net.Conn, limit time.Duration) *tunnel {
	t := &tunnel{Conn: conn, limit: limit}
	if limit > 0 {
		t.late = time.AfterFunc(limit, func() { conn.Close() })
	}
	return t
}

func (t *tunnel) moved(n int) {
	if n > 0 && t.late != nil {
		t.late.Reset(t.limit)
	}
}

// Read implements io.Reader.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.moved(n)
	return n, err
}

// Write implements io.Writer.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	t.moved(n)
	return n, err
}

// CloseWrite ends what is sent to the client, and not what it sends.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// Close implements io.Closer.
func (t *tunnel) Close() error {
	if t.late != nil {
		t.late.Stop()
	}
	return t.Conn.Close()
}
