package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/chash-go/chash"
)

// A backend is a server that the proxy sends requests to, and the value that
// lookups return: who has it needs no second map.
type backend struct {
	name string
	url  *url.URL

	unanswered atomic.Int32 // attempts in a row that ended without an answer
	record     record       // guarded by pool.mu
}

// A pool is the backends behind one table. Lookups go to the table itself, which
// is safe for that; changes go through the pool.
type pool struct {
	table *chash.Maglev[*backend]
	log   *slog.Logger
	up    int // results in a row that mark a backend healthy
	down  int // and unhealthy

	// Held where a change depends on what is there: a check that ends during a
	// drain must not bring the backend back.
	mu sync.Mutex
}

// newPool returns a pool in which every backend is unhealthy until it has been
// checked.
func newPool(c config, log *slog.Logger) (*pool, error) {
	backends := make([]chash.Backend[*backend], len(c.backends))
	for i, s := range c.backends {
		backends[i] = newBackend(s).member(s.weight)
	}
	table, err := chash.NewMaglev(backends, chash.WithTableSize(c.tableSize), chash.WithSeed(c.seed))
	if err != nil {
		return nil, err
	}
	return &pool{table: table, log: log, up: c.health.up, down: c.health.down}, nil
}

func newBackend(s spec) *backend { return &backend{name: s.name, url: s.url} }

// member returns the backend as the table holds it, as healthy as its record says.
func (b *backend) member(weight uint32) chash.Backend[*backend] {
	return chash.Backend[*backend]{Name: b.name, Weight: weight, State: b.record.state(), Value: b}
}

// add adds a backend that was checked before: were it added first and found
// healthy then, its keys would move twice, to other backends and from there to it.
func (p *pool) add(b *backend, weight uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Add(b.member(weight))
}

// remove removes a backend. Its requests in flight end as they would have.
func (p *pool) remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Remove(name)
}

// drain gives a backend's keys to the others. It goes on being checked.
func (p *pool) drain(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.SetState(name, chash.Draining)
}

// undrain takes a drain back: the backend is as healthy as it was found last.
func (p *pool) undrain(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	member, found := p.table.Backend(name)
	if !found {
		return fmt.Errorf("%w: %q", chash.ErrBackendNotFound, name)
	}
	return p.table.SetState(name, member.Value.record.state())
}

// checked takes in the result of a health check.
func (p *pool) checked(b *backend, passed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.record.checked(passed, p.up, p.down) {
		b.unanswered.Store(0)
		p.publish(b)
	}
}

// answered takes in that a backend has answered a request.
func (p *pool) answered(b *backend) {
	// Nearly always it is 0: a read leaves the cache line where it is.
	if b.unanswered.Load() != 0 {
		b.unanswered.Store(0)
	}
}

// failed takes in that a backend left a request without an answer. Too many in a
// row mark it unhealthy before its checks do, and only they bring it back.
func (p *pool) failed(b *backend) {
	if int(b.unanswered.Add(1)) < p.down {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(b.unanswered.Load()) >= p.down && b.record.fell() { // no check has passed meanwhile
		p.publish(b)
	}
}

// publish makes the table say what a backend's record says, unless the backend
// is draining or gone, whoever has its name now. The caller holds p.mu.
func (p *pool) publish(b *backend) {
	member, found := p.table.Backend(b.name)
	if !found || member.Value != b || member.State == chash.Draining {
		return
	}
	state := b.record.state()
	if err := p.table.SetState(b.name, state); err != nil {
		p.log.Error("backend cannot change", "name", b.name, "state", state, "error", err)
		return
	}
	p.log.Info("backend changed", "name", b.name, "state", state)
}

// A member is a backend as the admin API shows it.
type member struct {
	Name   string  `json:"name"`
	URL    string  `json:"url"`
	Weight uint32  `json:"weight"`
	State  string  `json:"state"`
	Slots  uint64  `json:"slots"` // owned in the table, whatever the health
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
			URL:    b.Value.url.String(),
			Weight: b.Weight,
			State:  b.State.String(),
			Slots:  shares[i].Count.Lo,
			Share:  shares[i].Share,
		}
	}
	return members
}
