package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/chash-go/chash"
)

// A proxy is the handler that sends each request to the backend of its key.
type proxy struct {
	key       keyFunc
	timeout   time.Duration // of one request, 0 for none
	log       *slog.Logger
	transport *transport
	reverse   *httputil.ReverseProxy
}

func newProxy(p *pool, c config, log *slog.Logger) *proxy {
	h := &proxy{key: c.key, timeout: c.requestTimeout, log: log, transport: newTransport(p, c)}
	h.reverse = &httputil.ReverseProxy{
		Rewrite:      h.rewrite,
		Transport:    h.transport,
		ErrorHandler: h.fail,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return h
}

// close closes the connections that wait for a next request.
func (h *proxy) close() { h.transport.base.CloseIdleConnections() }

func (h *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	h.reverse.ServeHTTP(w, r)
}

// rewrite leaves the choice of a backend to the transport, which makes it for
// each attempt, and hands it the key. The key is that of the request as it came
// in: the one that goes out has lost the headers which proxies set.
func (h *proxy) rewrite(r *httputil.ProxyRequest) {
	r.SetXForwarded()
	r.Out = r.Out.WithContext(withKey(r.Out.Context(), h.key(r.In)))
}

// fail answers a request that no backend answered.
func (h *proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := failStatus(r.Context(), err)
	if !errors.Is(r.Context().Err(), context.Canceled) { // else the client has gone
		h.log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "status", status, "error", err)
	}
	http.Error(w, http.StatusText(status), status)
}

func failStatus(ctx context.Context, err error) int {
	switch {
	case errors.Is(err, chash.ErrNoBackends), errors.Is(err, chash.ErrNoHealthyBackends):
		return http.StatusServiceUnavailable
	case errors.Is(err, errRequestBody):
		return http.StatusBadRequest
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// keyOf is where a context holds a request's key.
type keyOf struct{}

func withKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOf{}, key)
}

// contextKey returns the key in ctx, empty for a request without one.
func contextKey(ctx context.Context) string {
	key, _ := ctx.Value(keyOf{}).(string)
	return key
}
