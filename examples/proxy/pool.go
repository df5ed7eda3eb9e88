package main

import (
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A backend is a server that the proxy sends requests to. The table has its URL; each
// backend has one of its own, also where two are equal.
type backend struct {
	name   string
	url    *url.URL
	record record // guarded by pool.mu
}

// A pool is the backends behind one table. Lookups go to the table itself, which
// is safe for that; changes go through the pool.
type pool struct {
	table *chash.Maglev[*url.URL]
	log   *slog.Logger
	up    int // checks passed in a row that mark a backend healthy
	down  int // failed ones that mark it unhealthy

	// Held where a change depends on what is there: a check that ends during a
	// drain must not bring the backend back.
	mu       sync.Mutex
	backends map[string]*backend // by name
}

// newPool returns a pool in which every backend is unhealthy until it has been
// checked.
func newPool(c config, log *slog.Logger) (*pool, error) {
	p := &pool{log: log, up: c.health.up, down: c.health.down, backends: make(map[string]*backend)}
	members := make([]chash.Backend[*url.URL], len(c.backends))
	for i, s := range c.backends {
		b := newBackend(s)
		members[i] = b.member(s.weight)
		p.backends[b.name] = b
	}
	table, err := chash.NewMaglev(members, chash.WithTableSize(c.tableSize), chash.WithSeed(c.seed))
	if err != nil {
		return nil, err
	}
	p.table = table
	return p, nil
}

func newBackend(s spec) *backend { return &backend{name: s.name, url: s.url} }

// member returns the backend as the table holds it, as healthy as its record says.
func (b *backend) member(weight uint32) chash.Backend[*url.URL] {
	return chash.Backend[*url.URL]{Name: b.name, Weight: weight, State: b.record.state(), Value: b.url}
}

// list returns the backends, in no order.
func (p *pool) list() []*backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.backends))
}

// add adds a backend that was checked before: were it added first and found
// healthy then, its keys would move twice, to other backends and from there to it.
func (p *pool) add(b *backend, weight uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.table.Add(b.member(weight)); err != nil {
		return err
	}
	p.backends[b.name] = b
	return nil
}

// remove removes a backend. Its requests in flight end as they would have.
func (p *pool) remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.table.Remove(name); err != nil {
		return err
	}
	delete(p.backends, name)
	return nil
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
	b, found := p.backends[name]
	if !found {
		return fmt.Errorf("%w: %q", chash.ErrBackendNotFound, name)
	}
	return p.table.SetState(name, b.record.state())
}

// checked takes in the result of a health check.
func (p *pool) checked(b *backend, passed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.record.checked(passed, p.up, p.down) {
		p.publish(b)
	}
}

// fell takes in that the transport has marked a backend unhealthy in the table, before
// its checks found it so. Only they bring it back, once its record says what the table
// says. By now another may have that name, marked or not: the table knows.
func (p *pool) fell(c chashhttp.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, found := p.table.Backend(c.Name)
	if found && b.State != chash.Healthy && p.backends[c.Name].record.fell() {
		p.publish(p.backends[c.Name])
	}
}

// publish makes the table say what a backend's record says, unless the backend
// is draining or gone, whoever has its name now. The caller holds p.mu.
func (p *pool) publish(b *backend) {
	member, found := p.table.Backend(b.name)
	if !found || member.Value != b.url || member.State == chash.Draining {
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
