package chashhttp

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// freshTime is how long a connection may have been idle that serves a request which
// cannot be repeated. Servers close idle connections after seconds, as a rule; a request
// that goes out just then is lost, and nobody can tell whether it was read. So such a
// request takes a connection that was used a moment ago, of which a busy backend has
// some, or else a new one.
const freshTime = 50 * time.Millisecond

// pools are the connections that requests are sent over.
type pools struct {
	base  http.RoundTripper // all requests, if there is no other
	fresh http.RoundTripper // those that cannot be repeated, nil if there is no other

	plainHTTP2 atomic.Bool // Base has answered by HTTP/2 without TLS
	http2      atomic.Bool // some server speaks it
	speakers   sync.Map    // of hostOf, the servers that do
}

func newPools(base http.RoundTripper) *pools {
	p := &pools{base: base}
	if transport, ok := base.(*http.Transport); ok && !transport.DisableKeepAlives {
		fresh := transport.Clone()
		fresh.IdleConnTimeout = freshTime
		p.fresh = fresh
	}
	return p
}

// choose returns what sends a request, which is cautious if it cannot be repeated. Over
// HTTP/2 a server that closes a connection says which requests it has not read, so that
// those too share one.
func (p *pools) choose(out *http.Request, cautious bool) http.RoundTripper {
	if !cautious || p.fresh == nil {
		return p.base
	}
	if p.http2.Load() {
		if _, speaks := p.speakers.Load(hostOf{out.URL.Scheme, out.URL.Host}); speaks {
			return p.base
		}
	}
	return p.fresh
}

// learn takes in by which protocol a server has answered.
func (p *pools) learn(out *http.Request, resp *http.Response) {
	if resp.ProtoMajor != 2 {
		return
	}
	if resp.TLS == nil && !p.plainHTTP2.Load() {
		p.plainHTTP2.Store(true)
	}
	if p.fresh != nil {
		p.speakers.LoadOrStore(hostOf{out.URL.Scheme, out.URL.Host}, true)
		p.http2.Store(true)
	}
}

// closeIdle closes the connections that wait for a request.
func (p *pools) closeIdle() {
	for _, transport := range []http.RoundTripper{p.base, p.fresh} {
		if closer, ok := transport.(interface{ CloseIdleConnections() }); ok {
			closer.CloseIdleConnections()
		}
	}
}
