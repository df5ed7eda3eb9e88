package chashhttp

import (
	"context"
	"math"
	"math/rand/v2"
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
	tables     tables
	names      *names
	records    *records
	maxEjected float64
	onChange   func(Change)
	prober     *prober // nil if somebody else brings backends back
	all        bool    // all backends are probed

	ctx    context.Context // of probes, until close
	cancel context.CancelFunc
	rounds sync.WaitGroup // the goroutine that probes, if there is one, and its probes

	mu      sync.Mutex
	marked  map[place]*mark
	checks  map[place]*check // with all, of every backend
	probing bool             // there is a goroutine that probes
	closed  bool
	allNext time.Time // when all backends are probed, with all
	denied  time.Time // no failure of a request marks a backend before that
}

// A mark is what is known of a backend that the Transport has marked.
type mark struct {
	server address // where it failed
	since  time.Time
	until  time.Time // it is not probed
	passed int       // probes in a row
	busy   bool      // it is being probed
}

func newHealth(tables tables, opts Options) *health {
	h := &health{
		tables: tables,
		names:  &names{tables: tables},
		records: newRecords(rules{
			threshold:  opts.FailureThreshold,
			ratio:      opts.FailureRatio,
			out:        opts.EjectionTime,
			maxOut:     opts.MaxEjectionTime,
			returnTime: opts.ReturnTime,
		}),
		maxEjected: opts.MaxEjected,
		onChange:   opts.OnChange,
		marked:     make(map[place]*mark),
		checks:     make(map[place]*check),
		all:        opts.ProbeAll,
	}
	if !opts.NoProbe {
		h.prober = newProber(opts)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if h.all {
		h.mu.Lock()
		h.wake()
		h.mu.Unlock()
	}
	return h
}

// passed takes in that a backend has answered a request.
func (h *health) passed(backend *url.URL) { h.records.pass(backend) }

// failed takes in that it has not answered one of which an attempt began then. It is
// early if that was so since the caller's time was over.
func (h *health) failed(backend *url.URL, err error, began time.Time, early bool) {
	server := addressOf(backend)
	mark, out := h.records.fail(server, began, early)
	if out && h.recheck(server) {
		mark, _ = h.records.fail(server, began, early)
	}
	if mark {
		h.mark(server, err)
	}
}

// mark marks the backends at that server Unhealthy, unless too many would be.
func (h *health) mark(server address, err error) {
	for _, c := range h.swap(server) {
		c.Err = err
		h.report(c)
	}
}

func (h *health) swap(server address) []Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.closed || now.Before(h.denied) {
		return nil
	}
	members := h.tables.members()
	if !h.mayEject(members, server) {
		h.denied = time.Now().Add(pause(len(members)))
		return nil
	}
	var changes []Change
	for _, m := range members {
		if m.address == server {
			changes = h.eject(changes, m)
		}
	}
	return changes
}

// mayEject reports whether the backends at a server may be marked for failures of
// requests: whether no more than a share of all are, or no other is, and one that is
// healthy stays. A request is better sent where it may fail than nowhere.
func (h *health) mayEject(members []member, server address) bool {
	out, here, total, others := 0, 0, 0, false
	for _, m := range members {
		if m.State == chash.Draining {
			continue
		}
		total++
		switch {
		case m.address == server:
			here++
		case m.State == chash.Healthy:
			others = true
		case h.marked[m.place] != nil:
			out++
		}
	}
	limit := int(math.Ceil(h.maxEjected*float64(total) - 1e-9)) // a product may be a hair too large
	return others && (out == 0 || out+here <= limit)
}

// eject marks one backend. The caller holds h.mu.
func (h *health) eject(changes []Change, m member) []Change {
	// Its value may be another by now. Then a probe of that brings it back.
	swapped, _ := h.tables[m.tier].CompareAndSwapState(m.place.name, chash.Healthy, chash.Unhealthy)
	if !swapped {
		return changes
	}
	return append(changes, Change{Name: m.place.name, URL: m.Value, State: chash.Unhealthy, For: h.lookAfter(m)})
}

// lookAfter has a backend probed from now on that is Unhealthy, and returns after what
// time. The caller holds h.mu.
func (h *health) lookAfter(m member) (wait time.Duration) {
	now := time.Now()
	wait = h.records.eject(m.address, rand.Float64())
	h.marked[m.place] = &mark{server: m.address, since: now, until: now.Add(wait)}
	h.wake()
	return wait
}

// adopt looks after a backend that somebody else has made Unhealthy.
func (h *health) adopt(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.prober == nil || h.closed {
		return false
	}
	for tier := range h.tables {
		at := place{tier, name}
		b, found := h.tables.backend(at)
		if !found || b.State != chash.Unhealthy {
			continue
		}
		if h.marked[at] == nil {
			h.lookAfter(member{at, b, addressOf(b.Value)})
		}
		return true
	}
	return false
}

// unhealthy reports whether all backends at a backend's address are said to be
// Unhealthy, by whomever.
func (h *health) unhealthy(backend *url.URL) bool {
	places := h.names.at(addressOf(backend))
	for _, at := range places {
		if b, _ := h.tables.backend(at); b.State != chash.Unhealthy {
			return false
		}
	}
	return len(places) > 0
}

// look returns a marked backend and reports whether it waits to be brought back. One
// that is gone, or whose state somebody else has set, does not any more. The caller
// holds h.mu.
func (h *health) look(at place) (b chash.Backend[*url.URL], waits bool) {
	if h.marked[at] == nil {
		return b, false
	}
	b, found := h.tables.backend(at)
	if !found || b.State != chash.Unhealthy {
		h.unmark(at, false)
		return b, false
	}
	return b, true
}

// unmark forgets a mark. The backend returns gently where a probe has passed; somebody
// else who has made it Healthy means it. The caller holds h.mu.
func (h *health) unmark(at place, gently bool) {
	h.records.restore(h.marked[at].server, gently)
	delete(h.marked, at)
}

// restore makes a marked backend Healthy, unless that is not how it was left, and
// reports whether it did. It is one step with the end of the mark: were the backend
// marked anew between the two, nobody would look after it. The caller holds h.mu.
func (h *health) restore(at place) bool {
	if _, waits := h.look(at); !waits {
		return false
	}
	h.unmark(at, true) // before requests come
	swapped, _ := h.tables[at.tier].CompareAndSwapState(at.name, chash.Unhealthy, chash.Healthy)
	return swapped
}

// recheck forgets the marks at a server which somebody else has undone, and reports
// whether none is left.
func (h *health) recheck(server address) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := false
	for _, at := range h.names.at(server) {
		_, waits := h.look(at)
		left = left || waits
	}
	return !left
}

// last returns the marked backend that has been out for the longest, and accept takes.
func (h *health) last(accept func(*url.URL) bool) (*url.URL, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *url.URL
	var since time.Time
	for at, m := range h.marked {
		if found != nil && !m.since.Before(since) {
			continue
		}
		if b, waits := h.look(at); waits && accept(b.Value) {
			found, since = b.Value, m.since
		}
	}
	return found, found != nil
}

// revive brings a marked backend back that has answered a request, which was sent to it
// since there was no other: that says as much as a probe.
func (h *health) revive(backend *url.URL) {
	if h.prober == nil {
		return
	}
	for _, c := range h.release(addressOf(backend)) {
		h.report(c)
	}
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
	if h.prober == nil {
		return
	}
	for _, c := range h.release() {
		h.report(c)
	}
}

// release gives the marked backends back, those at some servers or all.
func (h *health) release(servers ...address) (changes []Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, m := range h.marked {
		if len(servers) > 0 && !slices.Contains(servers, m.server) {
			continue
		}
		b, _ := h.tables.backend(at)
		if h.restore(at) {
			changes = append(changes, Change{Name: at.name, URL: b.Value, State: chash.Healthy})
		}
	}
	return changes
}
