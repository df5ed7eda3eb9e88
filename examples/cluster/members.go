package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/chash-go/chash"
)

// A meta is what a node gossips about itself.
type meta struct {
	HTTP     string `json:"http"`               // where it answers
	Copies   int    `json:"copies"`             // of each key, the same for all nodes
	Draining bool   `json:"draining,omitempty"` // it is about to leave, and gives up what it holds
}

// members follows who is in the cluster. Its exported methods are memberlist's
// delegates: it is called while memberlist holds a lock of its own, and only then
// are its nodes to be read.
type members struct {
	self    string
	changed chan struct{} // has a place for one signal

	mu    sync.Mutex
	meta  meta // of this node
	known map[string]meta
	err   error // why this node cannot be one of them
}

func newMembers(self string, about meta) *members {
	return &members{self: self, changed: make(chan struct{}, 1), meta: about, known: map[string]meta{}}
}

// join begins to gossip at an address, with nodes that do so at others, and returns
// when it knows who is there.
func (m *members) join(bind string, others []string) (*memberlist.Memberlist, error) {
	address, err := netip.ParseAddrPort(bind)
	if err != nil {
		return nil, fmt.Errorf("gossip at %q: %w", bind, err)
	}
	c := memberlist.DefaultLocalConfig()
	c.Name, c.BindAddr, c.BindPort = m.self, address.Addr().String(), int(address.Port())
	c.ProbeInterval = 300 * time.Millisecond // so a node that dies is found out within some two seconds
	c.ProbeTimeout = 150 * time.Millisecond
	c.SuspicionMult = 4
	c.RetransmitMult = 4
	c.GossipInterval = 50 * time.Millisecond
	c.PushPullInterval = 5 * time.Second
	c.DeadNodeReclaimTime = time.Millisecond // not 0: a dead node's name may come back at another address
	c.Delegate, c.Events, c.Conflict = m, m, m
	c.Logger = slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug)
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		_, err = list.Join(others)
	}
	m.mu.Lock()
	err = errors.Join(err, m.err)
	m.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, list.Shutdown()) // no Leave: the name may be another's
	}
	return list, nil
}

// backends returns the members, this node included, for a ring.
func (m *members) backends() []chash.Backend[peer] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var backends []chash.Backend[peer]
	for name, about := range m.known {
		b := chash.Backend[peer]{Name: name, Value: peer{name, about.HTTP}}
		if about.Draining {
			b.State = chash.Draining
		}
		backends = append(backends, b)
	}
	return backends
}

// drain makes this node one that is about to leave, once that is gossiped.
func (m *members) drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meta.Draining = true
}

func (m *members) set(node *memberlist.Node, here bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var about meta
	err := json.Unmarshal(node.Meta, &about)
	if err == nil && about.Copies != m.meta.Copies {
		err = fmt.Errorf("it has %d copies of each key, and this node %d", about.Copies, m.meta.Copies)
	}
	delete(m.known, node.Name)
	switch {
	case err != nil: // it is in no ring of this node's, so nothing depends on it
		m.err = fmt.Errorf("node %q at %s: %w", node.Name, node.Address(), err)
	case here:
		m.known[node.Name] = about
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *members) NotifyJoin(node *memberlist.Node)   { m.set(node, true) }
func (m *members) NotifyUpdate(node *memberlist.Node) { m.set(node, true) }
func (m *members) NotifyLeave(node *memberlist.Node)  { m.set(node, false) }

func (m *members) NotifyConflict(existing, other *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if existing.Name == m.self {
		m.err = fmt.Errorf("the name %q is that of the node at %s", m.self, other.Address())
	}
}

func (m *members) NodeMeta(int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, _ := json.Marshal(m.meta) // which can be
	return data
}

// The rest of a memberlist.Delegate has nothing to do: nodes speak over HTTP.

func (m *members) NotifyMsg([]byte)                {}
func (m *members) GetBroadcasts(int, int) [][]byte { return nil }
func (m *members) LocalState(bool) []byte          { return nil }
func (m *members) MergeRemoteState([]byte, bool)   {}
