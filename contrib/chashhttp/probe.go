package chashhttp

import (
	"context"
	"fmt"
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
	down, up int // results in a row that mark a backend, bring it back
}

func newProber(opts Options) *prober {
	target, _ := url.ParseRequestURI(opts.ProbePath) // which is valid
	return &prober{
		base:     opts.ProbeBase,
		target:   target,
		pass:     opts.ProbeStatus,
		interval: opts.ProbeInterval,
		timeout:  opts.ProbeTimeout,
		down:     opts.ProbesDown,
		up:       opts.ProbesUp,
	}
}

// probe asks a backend and returns why it does not pass, nil if it does. It goes the way
// that all requests go, over the same transport unless Options.ProbeBase is another, and
// finds what the next one of a user would.
func (p *prober) probe(ctx context.Context, backend *url.URL) error {
	if !reachable(backend) {
		return ErrNoAddress
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req := &http.Request{Method: http.MethodGet, URL: p.target}
	resp, err := p.base.RoundTrip(outgoing(ctx, req, backend))
	if err != nil {
		return fmt.Errorf("probe of %s: %w", p.target, err)
	}
	discard(resp)
	if !p.pass(resp.StatusCode) {
		return fmt.Errorf("probe of %s: %w", p.target, statusError(resp.StatusCode))
	}
	return nil
}
