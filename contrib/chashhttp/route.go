package chashhttp

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"

	"github.com/chash-go/chash"
)

// A route is the order in which one request meets backends. Each is looked up when it
// is needed, so that it is healthy by then and not only when the request began.
//
// First are the healthy ones in the key's order of preference, then those of
// Options.Backup. Where they have all failed, or there is none, the ones follow that the
// Transport has marked, since one of them may be back: better somebody than nobody. Last
// come, with Options.FailOpen, those that others call Unhealthy.
type route struct {
	tables   tables
	health   *health
	failOpen bool
	bounded  bool   // a hop has a lease
	key      string // empty for a request without one
	met      []*url.URL
	few      [DefaultMaxAttempts]*url.URL // the first of met
}

// A hop is one backend of a route.
type hop struct {
	backend *url.URL
	visited *record                // that the request leaves, nil if the backend is not returning
	lease   *chash.Lease[*url.URL] // of the backend, nil if loads are not bounded
	marked  bool                   // it is asked although the Transport has marked it
}

// leave ends the visit to a backend that is returning.
func (h *hop) leave() {
	if h.visited != nil {
		h.visited.leave()
		h.visited = nil
	}
}

// end ends the hop: the request goes on, or has failed.
func (h *hop) end() {
	h.leave()
	if h.lease != nil {
		h.lease.Release()
		h.lease = nil
	}
}

// next returns the next hop. Backends with one address are one server, which is met
// once.
func (r *route) next() (hop, error) {
	if r.met == nil {
		r.met = r.few[:0]
	}
	h, err := r.find()
	if err == nil {
		r.met = append(r.met, h.backend)
	}
	return h, err
}

func (r *route) find() (hop, error) {
	first := len(r.met) == 0
	if first {
		if h, err := r.home(); err == nil {
			visited, admitted := r.health.records.admit(h.backend)
			if h.visited = visited; admitted {
				return h, nil
			}
			h.end()
		}
	}
	if r.key == "" {
		// An order of the request's own, so that what is meant for a dead backend
		// is spread over all the others.
		r.key = strconv.FormatUint(rand.Uint64(), 36)
	}
	var none error
	for _, table := range r.tables {
		h, err := r.healthy(table)
		if err == nil {
			return h, nil
		}
		if none == nil {
			none = err
		}
	}
	if u, found := r.health.last(r.unmet); found {
		return hop{backend: u, marked: true}, nil
	}
	if u, found := r.open(); found {
		return hop{backend: u}, nil
	}
	return hop{}, none
}

// home returns where the request goes as long as nothing has failed.
func (r *route) home() (hop, error) {
	table := r.tables[0]
	switch {
	case r.bounded && r.key == "":
		return leased(func() (chash.Lease[*url.URL], error) { return table.AcquireNext() })
	case r.bounded:
		return leased(func() (chash.Lease[*url.URL], error) { return table.Acquire(r.key) })
	case r.key == "":
		u, err := table.Next()
		return hop{backend: u}, err
	}
	u, err := table.Get(r.key)
	return hop{backend: u}, err
}

// leased returns the hop to the backend of a lease, which must not be copied.
func leased(take func() (chash.Lease[*url.URL], error)) (hop, error) {
	lease, err := take()
	if err != nil {
		return hop{}, err
	}
	return hop{backend: lease.Value, lease: &lease}, nil
}

// healthy returns the first healthy backend of a table that the request has not met,
// preferably one that is not returning or has room for one more.
func (r *route) healthy(table Table) (hop, error) {
	var visits []hop // to backends that are returning; the search goes on where they are full
	h, err := r.search(table, func(u *url.URL) bool {
		if !r.unmet(u) {
			return false
		}
		visited, admitted := r.health.records.admit(u)
		if visited != nil {
			visits = append(visits, hop{backend: u, visited: visited})
		}
		return admitted
	})
	if err != nil {
		h, err = r.search(table, r.unmet)
	}
	for i := range visits {
		if visits[i].backend == h.backend && h.visited == nil {
			h.visited = visits[i].visited
			continue
		}
		visits[i].leave()
	}
	return h, err
}

// search returns the first healthy backend of a table that accept takes.
func (r *route) search(table Table, accept func(*url.URL) bool) (hop, error) {
	if r.bounded {
		return leased(func() (chash.Lease[*url.URL], error) { return table.AcquireFunc(r.key, accept) })
	}
	u, err := table.GetFunc(r.key, accept)
	return hop{backend: u}, err
}

// open returns a backend that others call Unhealthy: the key's own first.
func (r *route) open() (*url.URL, bool) {
	if !r.failOpen {
		return nil, false
	}
	if own, err := r.tables[0].Owner(r.key); err == nil && r.unmet(own.Value) {
		return own.Value, true
	}
	backends := r.tables[0].Backends()
	start := rand.IntN(len(backends) + 1)
	for _, b := range slices.Concat(backends[start:], backends[:start]) {
		if b.State == chash.Unhealthy && r.unmet(b.Value) {
			return b.Value, true
		}
	}
	return nil, false
}

func (r *route) unmet(u *url.URL) bool {
	return !slices.ContainsFunc(r.met, func(met *url.URL) bool { return addressOf(met) == addressOf(u) })
}
