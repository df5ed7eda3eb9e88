package chashhttp

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"time"
)

// A connection is what Base tells of how it sends an attempt, through httptrace. It
// also keeps Base from sending it twice. Once a connection that served before is lost,
// net/http takes another and sends the request again, over each that it has, without a
// word: a single request reached one backend as often as there were connections to it.
type connection struct {
	asked    atomic.Bool
	had      atomic.Bool
	unused   atomic.Bool // the last one: no header was written to it
	idle     atomic.Bool // the last one had been idle for long
	http2    atomic.Bool // the last one, if it negotiated that by TLS
	sent     atomic.Bool // a header was written
	repeated atomic.Bool // Base was about to send it again
	closed   atomic.Bool // the backend had closed the connection before that was used
	spoke    atomic.Bool // something of an answer came

	plainHTTP2 *atomic.Bool // Base has answered by HTTP/2 without TLS
	trace      httptrace.ClientTrace
}

// hooks returns what makes net/http tell of the connection of an attempt.
func (a *attempt) hooks() *httptrace.ClientTrace {
	c := &a.connection
	c.trace = httptrace.ClientTrace{
		GetConn: func(string) {
			c.asked.Store(true)
			c.unused.Store(false) // net/http asks again where the one that it had was of no use
			a.stop()
		},
		GotConn: func(got httptrace.GotConnInfo) {
			secure, ok := got.Conn.(interface{ ConnectionState() tls.ConnectionState })
			c.http2.Store(ok && secure.ConnectionState().NegotiatedProtocol == "h2")
			if a.stop() {
				c.disable(got)
				return
			}
			if got.Reused && c.http1() && closing(got.Conn) {
				c.closed.Store(true)
				a.cut(ErrConnectionClosed)
				c.disable(got)
				return
			}
			c.had.Store(true)
			c.unused.Store(true)
			c.idle.Store(got.IdleTime >= freshTime)
		},
		WroteHeaders: func() {
			c.unused.Store(false)
			c.sent.Store(true)
		},
		GotFirstResponseByte: func() { c.spoke.Store(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			c.spoke.Store(true)
			a.watch.sign()
			return nil
		},
	}
	return &c.trace
}

// stop ends the attempt where Base, which has sent it, takes a connection once more,
// and reports whether it does. HTTP/2 asks for none, but takes one again by itself.
func (a *attempt) stop() bool {
	c := &a.connection
	if !c.sent.Load() {
		return false
	}
	if c.repeated.CompareAndSwap(false, true) {
		a.cut(errRepeated)
	}
	return true
}

// disable keeps the attempt from being written to a connection of HTTP/1, to which
// net/http writes even what was canceled just before: with its time over, a write fails
// before the first byte. Not so HTTP/2, whose connections others use meanwhile.
func (c *connection) disable(got httptrace.GotConnInfo) {
	if got.Conn != nil && c.http1() {
		_ = got.Conn.SetWriteDeadline(time.Unix(1, 0))
	}
}

// http1 reports whether the last connection is not known to be one of HTTP/2.
func (c *connection) http1() bool { return !c.http2.Load() && !c.plainHTTP2.Load() }

// never reports whether it is certain that there was no connection, so that nothing
// was sent: a transport that tells nothing may have had one.
func (c *connection) never() bool { return c.asked.Load() && !c.had.Load() }

// stale reports whether a connection was lost that had been idle for some time, without
// a byte of an answer. Perhaps the backend closed it for that, just as the request went
// out, or perhaps for what the request is; nobody can tell.
func (c *connection) stale() bool { return c.idle.Load() && !c.spoke.Load() }

// refused reports whether net/http had a connection and would not write the request to
// it. Over HTTP/2 it does not write an Upgrade, nor a header that is longer than the
// backend says that it takes; both are the doing of whoever sent the request. Over
// HTTP/1 all that ends an attempt there is a connection that the backend has closed; an
// Upgrade is the sign of HTTP/2 without TLS, of which a connection does not tell.
func (c *connection) refused(out *http.Request, err error) bool {
	if !c.unused.Load() || isNetError(err) {
		return false
	}
	return c.http2.Load() || len(out.Header["Upgrade"]) > 0
}
