package chashhttp

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/chash-go/chash"
)

// A health marks backends Unhealthy whose requests fail, and brings them back when a
// probe passes. All changes go from Healthy to Unhealthy and back by
// CompareAndSwapState, so that a state which somebody else has set stays.
type health struct {
	table     Table
	threshold int
	onChange  func(Change)
	prober    *prober // nil if somebody else brings backends back
	streaks   streaks

	ctx    context.Context // of probes, until close
	cancel context.CancelFunc
	rounds sync.WaitGroup // the goroutine that probes, if there is one

	mu      sync.Mutex
	marked  map[string]bool // names of the backends to bring back
	probing bool            // there is a goroutine that probes
	closed  bool
}

func newHealth(table Table, opts Options) *health {
	h := &health{
		table:     table,
		threshold: opts.FailureThreshold,
		onChange:  opts.OnChange,
		marked:    make(map[string]bool),
	}
	if !opts.NoProbe {
		h.prober = newProber(opts)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// passed takes in that a backend has answered a request.
func (h *health) passed(backend *url.URL) { h.streaks.end(backend) }

// failed takes in that it has not.
func (h *health) failed(backend *url.URL, err error) {
	server := address(backend)
	length := h.streaks.add(server)
	switch {
	case length >= h.threshold:
		h.mark(server, err)
	case length == 1: // seldom enough to see whether others have gone
		h.streaks.retain(servers(h.table.Backends()))
	}
}

func servers(backends []chash.Backend[*url.URL]) map[url.URL]bool {
	servers := make(map[url.URL]bool, len(backends))
	for _, b := range backends {
		servers[address(b.Value)] = true
	}
	return servers
}

// mark marks the backends at that server Unhealthy, unless no other would be left:
// a request is better sent where it may fail than nowhere.
func (h *health) mark(server url.URL, err error) {
	for _, c := range h.swap(server) {
		c.Err = err
		h.report(c)
	}
}

func (h *health) swap(server url.URL) []Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	backends := h.table.Backends()
	if h.closed || !others(backends, server) {
		return nil
	}
	h.streaks.end(&server)
	var changes []Change
	for _, b := range backends {
		if address(b.Value) != server {
			continue
		}
		// Its value may be another by now. Then a probe of that brings it back.
		if swapped, _ := h.table.CompareAndSwapState(b.Name, chash.Healthy, chash.Unhealthy); swapped {
			changes = append(changes, Change{Name: b.Name, URL: b.Value, State: chash.Unhealthy})
			h.await(b.Name)
		}
	}
	return changes
}

// others reports whether there is a healthy backend that is not at the server.
func others(backends []chash.Backend[*url.URL], server url.URL) bool {
	return slices.ContainsFunc(backends, func(b chash.Backend[*url.URL]) bool {
		return b.State == chash.Healthy && address(b.Value) != server
	})
}

// await has the backend probed from now on. The caller holds h.mu.
func (h *health) await(name string) {
	if h.prober == nil {
		return
	}
	h.marked[name] = true
	if !h.probing {
		h.probing = true
		h.rounds.Add(1)
		go h.probe()
	}
}

// probe probes the marked backends at each interval, until there is none or close.
func (h *health) probe() {
	defer h.rounds.Done()
	ticker := time.NewTicker(h.prober.interval)
	defer ticker.Stop()
	for h.wanted() {
		select {
		case <-h.ctx.Done():
		case <-ticker.C:
			h.round()
		}
	}
}

// wanted reports whether there is something to probe and, if not, notes that nobody
// does any more.
func (h *health) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = len(h.marked) > 0 && !h.closed
	return h.probing
}

// round probes every marked backend once, all at the same time.
func (h *health) round() {
	var probes sync.WaitGroup
	for _, name := range h.names() {
		probes.Add(1)
		go func() {
			defer probes.Done()
			h.check(name)
		}()
	}
	probes.Wait()
}

func (h *health) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.marked))
	for name := range h.marked {
		names = append(names, name)
	}
	return names
}

// check probes a backend where it is by now, which need not be where it failed, and
// brings it back if it passes.
func (h *health) check(name string) {
	b, waits := h.look(name)
	if !waits || !h.prober.passes(h.ctx, b.Value) {
		return
	}
	// One that has moved meanwhile waits for a probe of where it is now.
	now, waits := h.look(name)
	if !waits || address(now.Value) != address(b.Value) || !h.restore(name) {
		return
	}
	h.streaks.end(b.Value)
	h.report(Change{Name: name, URL: b.Value, State: chash.Healthy})
}

// look returns a marked backend and reports whether it waits to be brought back. One
// that is gone, or whose state somebody else has set, does not any more.
func (h *health) look(name string) (b chash.Backend[*url.URL], waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, found := h.table.Backend(name)
	if !found || b.State != chash.Unhealthy {
		delete(h.marked, name)
		return b, false
	}
	return b, true
}

// restore makes a marked backend Healthy, unless that is not how it was left, and
// reports whether it did. It is one step with the end of the mark: were the backend
// marked anew between the two, nobody would look after it.
func (h *health) restore(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.marked, name)
	swapped, _ := h.table.CompareAndSwapState(name, chash.Unhealthy, chash.Healthy)
	return swapped
}

func (h *health) report(c Change) {
	if h.onChange != nil {
		h.onChange(c)
	}
}

// close ends the probes, waits for them, and gives the marked backends back.
func (h *health) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.rounds.Wait()
	for _, name := range h.names() {
		b, _ := h.table.Backend(name)
		if h.restore(name) {
			h.report(Change{Name: name, URL: b.Value, State: chash.Healthy})
		}
	}
}
