package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/chash-go/chash"
)

// A config is what a node is started with.
type config struct {
	name   string
	addr   string   // where it answers
	join   []string // where some of the others answer; nobody founds a cluster
	copies int      // of each key
}

// A node is one process of the cluster.
type node struct {
	config
	self    peer
	store   *store
	raft    *raft.Raft // nil in a test that tells the node of views itself
	streams *streams
	network *raft.NetworkTransport // over the streams
	server  *http.Server
	client  *http.Client
	tickets atomic.Uint64 // the last one that it has given
	writes  atomic.Uint64 // that it has numbered
	moved   atomic.Int64  // entries that it has fetched
	joining sync.Mutex    // one peer at a time
	leaving atomic.Bool
	life    context.Context // until close
	end     func()
	running sync.WaitGroup // what ends with it

	mu      sync.RWMutex // read-locked by whoever relies on the view to stay
	views   history
	lacks   []*piece // what has not arrived, of what the node holds
	sealed  uint64   // the version of the latest view that it was asked by to hand over
	founder string   // of the cluster: peers of two clusters never mix
}

// startNode starts a node and returns when it is a member. It runs until close.
func startNode(ctx context.Context, c config) (*node, error) {
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	n, err := newNode(c, listener.Addr().(*net.TCPAddr))
	if err == nil {
		err = n.startRaft()
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	n.run(listener)
	if err := n.join(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not become a member: %w", c.name, err), n.close())
	}
	return n, nil
}

func newNode(c config, address *net.TCPAddr) (*node, error) {
	switch {
	case c.copies < 1:
		return nil, fmt.Errorf("%d copies of a key", c.copies)
	case address.IP.IsUnspecified():
		return nil, fmt.Errorf("the others cannot reach %q", c.addr)
	}
	ring, err := chash.NewRing[peer](nil)
	if err != nil {
		return nil, err
	}
	c.addr = address.String()
	self := peer{rand.Text(), c.addr, c.name}
	n := &node{
		config:  c,
		self:    self,
		store:   newStore(ring.Position), // which does not depend on the members
		streams: &streams{self, make(chan net.Conn), make(chan struct{})},
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: bulkTimeout},
	}
	n.life, n.end = context.WithCancel(context.Background())
	n.server = newServer(n)
	return n, nil
}

// run answers requests, fetches what the node lacks, and leads if it is elected.
func (n *node) run(listener net.Listener) {
	n.running.Go(func() { _ = n.server.Serve(listener) }) // until Close
	n.running.Go(n.transfer)
	if n.raft != nil {
		n.running.Go(n.lead)
	}
}

// close ends the node at once, for the others as if it had died.
func (n *node) close() error {
	n.end()
	err := n.server.Close()
	if n.raft != nil {
		err = errors.Join(err, n.raft.Shutdown().Error())
		n.network.CloseStreams()
	}
	n.running.Wait()
	n.client.CloseIdleConnections()
	return err
}

// history returns the views that matter. They are not to be changed.
func (n *node) history() history {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.views
}

func (n *node) current() (*view, error) {
	views := n.history()
	if len(views) == 0 {
		return nil, errNoView
	}
	return views.current(), nil
}

// addresses returns where others answer: the members, and who was named at the start.
func (n *node) addresses() []string {
	addresses := slices.Clone(n.config.join)
	if v, err := n.current(); err == nil {
		for _, p := range v.peers() {
			if p != n.self && !slices.Contains(addresses, p.addr) {
				addresses = append(addresses, p.addr)
			}
		}
	}
	return addresses
}

// A status is how a node sees the cluster and itself.
type status struct {
	ID       string   `json:"id"`
	Founder  string   `json:"founder"` // of the cluster
	Version  uint64   `json:"version"` // of the current view
	Members  []string `json:"members"` // names, without those that come or leave
	Settled  bool     `json:"settled"` // all members of the current view have what they hold
	Leaving  bool     `json:"leaving"`
	Incoming int      `json:"incoming"` // ranges that have not arrived here
	Moved    int64    `json:"moved"`    // copies that have
}

func (n *node) status() status {
	n.mu.RLock()
	defer n.mu.RUnlock()
	s := status{ID: n.self.id(), Founder: n.founder, Settled: len(n.views) == 1,
		Leaving: n.leaving.Load(), Incoming: len(n.lacks), Moved: n.moved.Load()}
	if len(n.views) > 0 {
		s.Version = n.views.current().version
		for _, b := range n.views.current().ring.Backends() {
			if b.State != chash.Draining {
				s.Members = append(s.Members, b.Value.name)
			}
		}
	}
	slices.Sort(s.Members)
	return s
}
