package chashhttp

import (
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/chash-go/chash"
)

// A place is where a backend is known: its table, of a Transport's, and its name.
type place struct {
	tier int
	name string
}

// tables are those that a Transport takes backends from: the caller's and, if there is
// one, Options.Backup.
type tables []Table

// backend returns the backend at a place.
func (t tables) backend(at place) (chash.Backend[*url.URL], bool) { return t[at.tier].Backend(at.name) }

// A member is a backend with its place.
type member struct {
	place
	chash.Backend[*url.URL]
	address address
}

// members returns all backends of all tables.
func (t tables) members() []member {
	var all []member
	for tier, table := range t {
		backends := table.Backends()
		all = slices.Grow(all, len(backends))
		for _, b := range backends {
			all = append(all, member{place{tier, b.Name}, b, addressOf(b.Value)})
		}
	}
	return all
}

// pause is how long at least all backends of some number are left alone after they
// were looked through: so long that it takes a small share of the time.
func pause(backends int) time.Duration { return time.Duration(backends) * 20 * time.Microsecond }

// names say which backends are at an address. A lookup in a table returns a URL alone,
// and a name is only needed where something has gone wrong. They are looked up once for
// all backends, and again where they are found to be outdated; never often, so that a
// failure costs the same however many backends there are.
type names struct {
	tables tables

	mu     sync.Mutex
	places map[address][]place
	next   time.Time // when the tables may be looked through again
}

// at returns the places of the backends at an address.
func (n *names) at(server address) []place {
	n.mu.Lock()
	defer n.mu.Unlock()
	if places := n.current(server); len(places) > 0 {
		return places
	}
	if now := time.Now(); n.places == nil || now.After(n.next) {
		n.places = make(map[address][]place)
		members := n.tables.members()
		for _, m := range members {
			n.places[m.address] = append(n.places[m.address], m.place)
		}
		n.next = time.Now().Add(pause(len(members)))
	}
	return n.current(server)
}

// current returns the places of an address that still are.
func (n *names) current(server address) (places []place) {
	for _, at := range n.places[server] {
		if b, found := n.tables.backend(at); found && addressOf(b.Value) == server {
			places = append(places, at)
		}
	}
	return places
}

// of returns the name of a backend at the address of u, preferably of that very one.
func (n *names) of(u *url.URL) string {
	name := ""
	for _, at := range n.at(addressOf(u)) {
		b, _ := n.tables.backend(at)
		if name == "" || b.Value == u {
			name = at.name
		}
	}
	return name
}
