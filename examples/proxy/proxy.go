package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A proxy is the handler that sends each request to the backend of its key.
type proxy struct {
	key       chashhttp.Key
	timeout   time.Duration // of one request, 0 for none
	log       *slog.Logger
	transport *chashhttp.Transport
	reverse   *httputil.ReverseProxy
}

func newProxy(p *pool, c config, log *slog.Logger) (*proxy, error) {
	transport, err := chashhttp.NewTransport(p.table, chashhttp.FromContext(), chashhttp.Options{
		Base:             newBase(c),
		MaxAttempts:      c.attempts,
		KeepBody:         c.retryBody,
		FailureThreshold: c.health.down,
		NoProbe:          true, // the checks go on for all backends
		OnChange:         p.fell,
	})
	if err != nil {
		return nil, err
	}
	h := &proxy{key: c.key, timeout: c.requestTimeout, log: log, transport: transport}
	h.reverse = &httputil.ReverseProxy{
		Rewrite:      h.rewrite,
		Transport:    transport,
		ErrorHandler: h.fail,
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return h, nil
}

func newBase(c config) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: c.connectTimeout}).DialContext,
		TLSHandshakeTimeout: c.connectTimeout,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idleTimeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // what a client did not ask for is not for us to undo
	}
}

func (h *proxy) close() error { return h.transport.Close() }

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
	r.Out.Host = "" // the backend's own
	r.Out = r.Out.WithContext(chashhttp.WithKey(r.Out.Context(), h.key(r.In)))
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
	case errors.Is(err, chashhttp.ErrRequestBody), errors.Is(err, chashhttp.ErrInvalidURL):
		return http.StatusBadRequest
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
