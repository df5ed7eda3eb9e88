package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A proxy is the handler that sends each request to the backend of its key.
type proxy struct {
	pool    *pool
	key     chashhttp.Key
	limits  limits
	healthz string // the path at which the proxy says how it is itself, empty for none
	log     *slog.Logger
	access  *accessLog // nil without one
	metrics metrics
	reverse *httputil.ReverseProxy
}

func newProxy(p *pool, c config, log *slog.Logger) (*proxy, error) {
	access, err := openAccessLog(c.accessLog)
	if err != nil {
		return nil, err
	}
	h := &proxy{pool: p, key: c.key, limits: c.limits, healthz: c.healthz, log: log, access: access}
	h.reverse = &httputil.ReverseProxy{
		Rewrite:        h.rewrite,
		Transport:      p.transport,
		ModifyResponse: h.answered,
		ErrorHandler:   h.fail,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BufferPool:     new(buffers),
	}
	return h, nil
}

func (h *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		refuseConnect(w)
		return
	case h.healthz != "" && r.URL.Path == h.healthz && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		h.serveHealthz(w)
		return
	}
	e := newExchange(w, r, &h.limits)
	h.metrics.begin()
	defer func() { // also where ReverseProxy panics, to cut an answer off
		e.end()
		took := time.Since(e.began)
		h.metrics.end(e, took)
		h.access.write(e, r, took)
	}()
	h.reverse.ServeHTTP(e, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
}

// refuseConnect refuses to make a tunnel, and does not read on: what follows the
// header of a CONNECT is no request and no body. Passed on to a backend, it could be read
// as a request of whoever is next on that connection.
func refuseConnect(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	http.Error(w, "this proxy makes no tunnels", http.StatusMethodNotAllowed)
}

// serveHealthz answers for the proxy: it is well as long as it has a healthy backend.
func (h *proxy) serveHealthz(w http.ResponseWriter) {
	if h.pool.table.Stats().Healthy == 0 {
		http.Error(w, "no healthy backend", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// rewrite leaves the choice of a backend to the transport, which makes it for
// each attempt, and hands it the key. The key is that of the request as it came
// in: the one that goes out has lost the headers which proxies set.
func (h *proxy) rewrite(r *httputil.ProxyRequest) {
	r.SetXForwarded()
	r.Out.Host = "" // the backend's own
	r.Out = r.Out.WithContext(chashhttp.WithKey(r.Out.Context(), h.key(r.In)))
}

// answered takes in the header of a backend's answer.
func (h *proxy) answered(resp *http.Response) error {
	e := exchangeOf(resp.Request.Context())
	e.backend = resp.Request.URL.Host
	if h.limits.idle > 0 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &steadyAnswer{ReadCloser: resp.Body, limit: h.limits.idle}
	}
	return nil
}

// fail answers a request that no backend answered.
func (h *proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := failStatus(exchangeOf(r.Context()), err)
	if !errors.Is(r.Context().Err(), context.Canceled) || status == http.StatusRequestTimeout { // else the client has gone
		h.log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "status", status, "error", err)
	}
	http.Error(w, http.StatusText(status), status)
}

func failStatus(e *exchange, err error) int {
	switch {
	case errors.Is(err, chash.ErrNoBackends), errors.Is(err, chash.ErrNoHealthyBackends):
		return http.StatusServiceUnavailable
	case e.body != nil && e.body.late():
		return http.StatusRequestTimeout
	case errors.Is(err, chashhttp.ErrRequestBody), errors.Is(err, chashhttp.ErrInvalidURL):
		return http.StatusBadRequest
	case errors.Is(err, chashhttp.ErrAttemptTimeout):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// buffers are those that answers are copied through. Without them, they are most of
// what a proxy allocates.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if array, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return array[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }
