package chashhttp

import (
	"net/url"
	"time"

	"github.com/chash-go/chash"
)

// probesAtOnce bounds how many probes of a Transport are under way.
const probesAtOnce = 128

// A check is what the probes of a backend have found that is not marked.
type check struct {
	url    *url.URL // that was asked last
	failed int      // in a row
	busy   bool     // it is being probed
}

// wake has backends probed from now on. The caller holds h.mu.
func (h *health) wake() {
	if h.prober == nil || h.probing || h.closed {
		return
	}
	h.probing = true
	h.rounds.Add(1)
	go h.probe()
}

// probe probes backends when they are due, until there is none to probe or close. It
// looks more often than each interval, so that the time that a backend is left alone need
// not be a multiple of that.
func (h *health) probe() {
	defer h.rounds.Done()
	ticker := time.NewTicker(max(h.prober.interval/10, 1))
	defer ticker.Stop()
	slots := make(chan struct{}, probesAtOnce)
	if h.all {
		h.round(slots)
	}
	for h.wanted() {
		select {
		case <-h.ctx.Done():
		case <-ticker.C:
			h.round(slots)
		}
	}
}

// wanted reports whether there is something to probe and, if not, notes that nobody
// does any more.
func (h *health) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = (h.all || len(h.marked) > 0) && !h.closed
	return h.probing
}

// round begins the probes that are due. A backend is not probed again while a probe of
// it is under way, and no other waits for that.
func (h *health) round(slots chan struct{}) {
	for _, at := range h.due() {
		select {
		case <-h.ctx.Done():
			return
		case slots <- struct{}{}:
		}
		h.rounds.Add(1)
		go func() {
			defer h.rounds.Done()
			defer func() { <-slots }()
			h.check(at)
		}()
	}
}

// due returns the places of the backends to probe now, and notes that they are being
// probed. They are those that are marked, and with ProbeAll all others too, except the
// ones that somebody else has switched off.
func (h *health) due() (places []place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for at, m := range h.marked {
		if _, waits := h.look(at); waits && !m.busy && !now.Before(m.until) {
			m.busy, m.until = true, now.Add(h.prober.interval)
			places = append(places, at)
		}
	}
	if !h.all || now.Before(h.allNext) {
		return places
	}
	h.allNext = now.Add(h.prober.interval)
	there := make(map[place]*check, len(h.checks))
	for _, m := range h.tables.members() {
		c := h.checks[m.place]
		if c == nil {
			c = new(check)
		}
		there[m.place] = c
		if m.State == chash.Healthy && !c.busy {
			c.busy = true
			places = append(places, m.place)
		}
	}
	h.checks = there
	return places
}

// check probes a backend where it is by now, which need not be where it failed, and
// takes in what that says.
func (h *health) check(at place) {
	var err error
	b, found := h.tables.backend(at)
	if found {
		err = h.prober.probe(h.ctx, b.Value)
	}
	if change, tell := h.settle(at, b.Value, err); tell {
		h.report(change)
	}
}

// settle takes in the result of a probe, and returns what is to be told of it.
func (h *health) settle(at place, asked *url.URL, err error) (change Change, tell bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, found := h.tables.backend(at)
	c, m := h.checks[at], h.marked[at]
	if c != nil {
		c.busy = false
	}
	if m != nil {
		m.busy = false
	}
	// One that has moved meanwhile waits for a probe of where it is now.
	if !found || h.closed || addressOf(b.Value) != addressOf(asked) {
		return Change{}, false
	}
	change = Change{Name: at.name, URL: b.Value, State: b.State}
	if m != nil {
		return change, h.settleMarked(at, m, &change, err)
	}
	if c == nil || b.State != chash.Healthy {
		return change, false
	}
	change.First = c.url == nil || addressOf(c.url) != addressOf(b.Value)
	c.url = b.Value
	tell = h.settleHealthy(at, b, c, &change, err)
	return change, tell || change.First
}

// settleMarked takes in the result for a marked backend.
func (h *health) settleMarked(at place, m *mark, change *Change, err error) (changed bool) {
	if err != nil {
		m.passed = 0
		return false
	}
	if m.passed++; m.passed < h.prober.up {
		return false
	}
	change.State = chash.Healthy
	return h.restore(at)
}

// settleHealthy takes in the result for a backend that is not marked.
func (h *health) settleHealthy(at place, b chash.Backend[*url.URL], c *check, change *Change, err error) (changed bool) {
	if err == nil {
		c.failed = 0
		return false
	}
	c.failed++
	change.Err = err
	if c.failed < h.prober.down && !change.First {
		return false
	}
	c.failed = 0
	marked := h.eject(nil, member{at, b, addressOf(b.Value)})
	if len(marked) == 0 {
		return false
	}
	change.State, change.For = chash.Unhealthy, marked[0].For
	return true
}
