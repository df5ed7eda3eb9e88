package chashhttp

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// A prober asks a backend how it is.
type prober struct {
	base     http.RoundTripper
	target   *url.URL // of the path and the query that are asked for
	pass     func(status int) bool
	interval time.Duration
	timeout  time.Duration
}

func newProber(opts Options) *prober {
	target, _ := url.ParseRequestURI(opts.ProbePath) // which is valid
	return &prober{
		base:     opts.Base,
		target:   target,
		pass:     opts.ProbeStatus,
		interval: opts.ProbeInterval,
		timeout:  opts.ProbeTimeout,
	}
}

// passes reports whether a backend passes a probe. It goes the way that all requests
// go, over the same transport, and finds what the next one of a user would.
func (p *prober) passes(ctx context.Context, backend *url.URL) bool {
	if ctx.Err() != nil || !reachable(backend) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req := &http.Request{Method: http.MethodGet, URL: p.target}
	resp, err := p.base.RoundTrip(outgoing(ctx, req, backend))
	if err != nil {
		return false
	}
	discard(resp)
	return p.pass(resp.StatusCode)
}
