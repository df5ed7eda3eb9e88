package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A pool is the backends: the table of them, and the transport that sends requests to
// them and checks their health.
type pool struct {
	table     *chash.Maglev[*url.URL]
	transport *chashhttp.Transport
	log       *slog.Logger

	unchecked  atomic.Int64  // backends of the start whose first check is not over
	allChecked chan struct{} // is closed when that is none
	changes    atomic.Uint64 // of health
	closing    atomic.Bool
}

// newPool returns a pool whose backends are being checked.
func newPool(c config, log *slog.Logger) (*pool, error) {
	p := &pool{log: log, allChecked: make(chan struct{})}
	members := make([]chash.Backend[*url.URL], len(c.backends))
	for i, s := range c.backends {
		members[i] = chash.Backend[*url.URL]{Name: s.name, Weight: s.weight, Value: s.url}
	}
	var err error
	if p.table, err = chash.NewMaglev(members, chash.WithTableSize(c.tableSize), chash.WithSeed(c.seed)); err != nil {
		return nil, err
	}
	if p.unchecked.Store(int64(len(members))); len(members) == 0 {
		close(p.allChecked)
	}
	// A check is a connection of its own: one that is open already says nothing of
	// whether the backend still accepts any.
	checks := newBase(c)
	checks.DisableKeepAlives = true
	p.transport, err = chashhttp.NewTransport(p.table, chashhttp.FromContext(), chashhttp.Options{
		Base:             newBase(c),
		AttemptTimeout:   cmp.Or(c.limits.header, chashhttp.NoTimeout),
		MaxAttempts:      c.attempts,
		KeepBody:         c.retryBody,
		FailureThreshold: c.health.down,
		ProbeAll:         true,
		ProbeBase:        checks,
		ProbePath:        c.health.path,
		ProbeInterval:    c.health.interval,
		ProbeTimeout:     c.health.timeout,
		ProbesUp:         c.health.up,
		ProbesDown:       c.health.down,
		OnChange:         p.changed,
	})
	return p, err
}

// newBase returns what connects to the backends.
func newBase(c config) *http.Transport {
	base := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: c.limits.connect}).DialContext,
		TLSHandshakeTimeout: c.limits.connect,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     c.limits.idle,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // what a client did not ask for is not for us to undo
	}
	if c.roots != nil {
		base.TLSClientConfig = newTLSConfig(c.roots)
	}
	return base
}

// wait waits until every backend of the start has been checked.
func (p *pool) wait(ctx context.Context) error {
	select {
	case <-p.allChecked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pool) close() error {
	p.closing.Store(true) // the transport gives its backends back, which is no news of them
	return p.transport.Close()
}

// changed takes in what the transport has found out about the health of a backend.
func (p *pool) changed(c chashhttp.Change) {
	if p.closing.Load() {
		return
	}
	p.logHealth(c.Name, c.URL, c.State, c.Err)
	if !c.First || c.State != chash.Healthy {
		p.changes.Add(1)
	}
	if c.First && p.unchecked.Add(-1) == 0 {
		close(p.allChecked)
	}
}

func (p *pool) logHealth(name string, u *url.URL, state chash.State, reason error) {
	if state == chash.Healthy {
		p.log.Info("backend is healthy", "name", name, "url", u.Redacted())
		return
	}
	p.log.Warn("backend is "+state.String(), "name", name, "url", u.Redacted(), "reason", reason)
}

// add checks a backend and adds it as it was found: a dead one gets no keys, and a
// healthy one has its keys at once. Were it added first and checked then, the keys of a
// dead one would move twice.
func (p *pool) add(ctx context.Context, s spec) error {
	state, reason, err := p.check(ctx, s.url)
	if err != nil {
		return err
	}
	b := chash.Backend[*url.URL]{Name: s.name, Weight: s.weight, State: state, Value: s.url}
	if err := p.table.Add(b); err != nil {
		return err
	}
	p.transport.Adopt(s.name) // until it is healthy
	p.logHealth(s.name, s.url, state, reason)
	return nil
}

// check returns how a backend is and, if it is Unhealthy, why.
func (p *pool) check(ctx context.Context, u *url.URL) (state chash.State, reason, err error) {
	reason = p.transport.Check(ctx, u)
	if ctx.Err() != nil {
		return 0, nil, ctx.Err()
	}
	if reason != nil {
		return chash.Unhealthy, reason, nil
	}
	return chash.Healthy, nil, nil
}

// remove removes a backend. Its requests in flight end as they would have.
func (p *pool) remove(_ context.Context, name string) error { return p.table.Remove(name) }

// drain gives a backend's keys to the others.
func (p *pool) drain(_ context.Context, name string) error {
	return p.table.SetState(name, chash.Draining)
}

// undrain takes a drain back: the backend is as healthy as a check finds it now. One
// that is not draining stays as it is.
func (p *pool) undrain(ctx context.Context, name string) error {
	b, found := p.table.Backend(name)
	if !found {
		return fmt.Errorf("%w: %q", chash.ErrBackendNotFound, name)
	}
	if b.State != chash.Draining {
		return nil
	}
	state, reason, err := p.check(ctx, b.Value)
	if err != nil {
		return err
	}
	swapped, err := p.table.CompareAndSwapState(name, chash.Draining, state)
	if err != nil || !swapped {
		return err
	}
	p.transport.Adopt(name)
	p.logHealth(name, b.Value, state, reason)
	return nil
}

// A member is a backend as the admin API shows it.
type member struct {
	Name   string  `json:"name"`
	URL    string  `json:"url"`
	Weight uint32  `json:"weight"`
	State  string  `json:"state"`
	Slots  int     `json:"slots"` // owned in the table, whatever the health
	Share  float64 `json:"share"` // of all slots, from 0 to 1
}

// members returns the backends sorted by name.
func (p *pool) members() []member {
	snapshot := p.table.Clone()
	shares := snapshot.Shares() // sorted by name too
	backends := snapshot.Backends()
	members := make([]member, len(backends))
	for i, b := range backends {
		members[i] = member{
			Name:   b.Name,
			URL:    b.Value.String(),
			Weight: b.Weight,
			State:  b.State.String(),
			Slots:  shares[i].Size,
			Share:  shares[i].Share,
		}
	}
	return members
}
