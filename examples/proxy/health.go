package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/chash-go/chash"
)

// A record is what is known of a backend's health. The zero value is that of a
// backend that was never checked.
type record struct {
	known  bool // it was checked, or has left requests without an answer
	up     bool
	streak int // checks in a row that contradict up
}

// checked takes in the result of a check and reports whether it changed up. The
// first one decides alone.
func (r *record) checked(passed bool, up, down int) bool {
	first := !r.known
	r.known = true
	if passed == r.up {
		r.streak = 0
		return false
	}
	r.streak++
	limit := down
	if passed {
		limit = up
	}
	if r.streak < limit && !first {
		return false
	}
	r.up, r.streak = passed, 0
	return true
}

// fell takes in that the backend is down, whatever its checks say, and reports
// whether that is news.
func (r *record) fell() bool {
	news := r.up
	*r = record{known: true}
	return news
}

func (r *record) state() chash.State {
	if r.up {
		return chash.Healthy
	}
	return chash.Unhealthy
}

// A checker asks backends how they are.
type checker struct {
	pool   *pool
	config healthConfig
	client *http.Client
}

func newChecker(p *pool, c healthConfig) *checker {
	return &checker{p, c, &http.Client{
		Timeout: c.timeout,
		// A new connection each time: one that is open already says nothing of
		// whether the backend still accepts any.
		Transport: &http.Transport{
			DialContext:       (&net.Dialer{Timeout: c.timeout}).DialContext,
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// run checks every backend at each interval, until ctx is done.
func (c *checker) run(ctx context.Context) {
	ticker := time.NewTicker(c.config.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.round(ctx)
		}
	}
}

// round checks every backend once, all at the same time.
func (c *checker) round(ctx context.Context) {
	var checks sync.WaitGroup
	for _, b := range c.pool.list() {
		checks.Add(1)
		go func() {
			defer checks.Done()
			_ = c.check(ctx, b) // the next round, if there is one, checks again
		}()
	}
	checks.Wait()
}

// check checks one backend. A check that ctx cut short has no result but an error.
func (c *checker) check(ctx context.Context, b *backend) error {
	passed := c.ask(ctx, b)
	if ctx.Err() == nil {
		c.pool.checked(b, passed)
	}
	return ctx.Err()
}

func (c *checker) ask(ctx context.Context, b *backend) (healthy bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url.JoinPath(c.config.path).String(), nil)
	if err != nil {
		return false
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode >= 200 && resp.StatusCode < 300
}
