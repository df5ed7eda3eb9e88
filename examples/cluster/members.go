package main

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hashicorp/memberlist"

	"github.com/chash-go/chash"
)

// A meta is what a node gossips about itself.
type meta struct {
	HTTP     string `json:"http"`               // where it answers
	Draining bool   `json:"draining,omitempty"` // it is about to leave, and gives up what it holds
}

// members follows who is in the cluster: memberlist calls it, while it holds a lock
// of its own, with nodes that only then may be read.
type members struct {
	self    string
	changed chan struct{} // has a place for one signal

	mu    sync.Mutex
	meta  meta // of this node
	known map[string]meta
	taken string // by whom this node's name is, if it is
}

// backends returns the members, this node included, for a ring.
func (m *members) backends() []chash.Backend[peer] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var backends []chash.Backend[peer]
	for name, meta := range m.known {
		b := chash.Backend[peer]{Name: name, Value: peer{name, meta.HTTP}}
		if meta.Draining {
			b.State = chash.Draining
		}
		backends = append(backends, b)
	}
	return backends
}

// drawBack makes this node one that is about to leave.
func (m *members) drawBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meta.Draining = true
}

// conflict returns an error if another node has this one's name.
func (m *members) conflict() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken != "" {
		return fmt.Errorf("the name %q is taken by the node at %s", m.self, m.taken)
	}
	return nil
}

func (m *members) set(node *memberlist.Node, here bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]meta{}
	}
	delete(m.known, node.Name)
	var about meta
	if here && json.Unmarshal(node.Meta, &about) == nil { // else it is no node of this program's
		m.known[node.Name] = about
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// NotifyJoin, NotifyUpdate and NotifyLeave make members a memberlist.EventDelegate.
func (m *members) NotifyJoin(node *memberlist.Node) { m.set(node, true) }

// NotifyUpdate is called when what a node gossips about itself has changed.
func (m *members) NotifyUpdate(node *memberlist.Node) { m.set(node, true) }

// NotifyLeave is called when a node has left or was found dead.
func (m *members) NotifyLeave(node *memberlist.Node) { m.set(node, false) }

// NotifyConflict makes members a memberlist.ConflictDelegate.
func (m *members) NotifyConflict(existing, other *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if existing.Name == m.self {
		m.taken = other.Address()
	}
}

// NodeMeta and the methods after it make members a memberlist.Delegate.
func (m *members) NodeMeta(int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, err := json.Marshal(m.meta)
	if err != nil {
		panic(err) // of a string and a bool
	}
	return data
}

// NotifyMsg ignores a message: nodes speak to each other over HTTP.
func (m *members) NotifyMsg([]byte) {}

// GetBroadcasts has nothing to add to the gossip.
func (m *members) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState has nothing to add to an exchange of states.
func (m *members) LocalState(bool) []byte { return nil }

// MergeRemoteState expects nothing from one.
func (m *members) MergeRemoteState([]byte, bool) {}
