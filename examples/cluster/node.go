package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/chash-go/chash"
)

const (
	leaveTimeout  = 10 * time.Second // to hand everything over
	leavePoll     = 20 * time.Millisecond
	gossipTimeout = 2 * time.Second // to be heard by one of the others
)

// A peer is what a ring holds: a node and where it answers.
type peer struct{ name, addr string }

// A config is what a node is started with.
type config struct {
	name   string
	bind   string   // where it gossips
	http   string   // where it answers
	join   []string // where some of the others gossip
	copies int      // of each key
}

// A view is the ring of the members that a node knows of. It is immutable: a
// change of the members is a new view.
type view struct {
	ring      *chash.Ring[peer]
	copies    int
	id        string  // equal on two nodes if they agree on who holds what
	elsewhere []piece // what the node does not hold, and who does
}

func newView(self string, ring *chash.Ring[peer], copies int) *view {
	v := &view{ring: ring, copies: copies, id: fmt.Sprintf("%016x", ring.Fingerprint())}
	for r, holders := range ring.Holders(copies) {
		if !slices.Contains(holders, self) {
			v.elsewhere = append(v.elsewhere, piece{Range: r, Sources: holders})
		}
	}
	return v
}

// holders returns the nodes that hold a key, the one that orders its writes first,
// and nothing if there is no node.
func (v *view) holders(key string) []peer {
	holders, err := v.ring.GetN(key, v.copies)
	if err != nil {
		return nil // the only reason is that there is no node
	}
	return holders
}

func isNode(name string) func(peer) bool {
	return func(p peer) bool { return p.name == name }
}

// A node is one process of the cluster.
type node struct {
	config
	store   *store
	members *members
	gossip  *memberlist.Memberlist
	server  *http.Server
	forward *http.Client   // for the requests of clients
	peers   *http.Client   // for what these wait for
	bulk    *http.Client   // for migration
	moved   atomic.Int64   // entries that it fetched and handed over
	stop    func() error   // set by run
	running sync.WaitGroup // what that runs in the background

	mu        sync.RWMutex // read-locked by whoever relies on the view to stay
	view      *view
	backlog   backlog
	interrupt func() // stops migration by a view that is no longer the node's
}

// startNode starts a node that has joined the cluster, or is its first one, and
// answers requests. It runs until close. Its addresses are those of the config, with
// ports instead of 0.
func startNode(c config) (*node, error) {
	listener, err := net.Listen("tcp", c.http)
	if err != nil {
		return nil, err
	}
	n, err := newNode(c, listener.Addr().(*net.TCPAddr))
	if err == nil {
		err = n.join()
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	n.run(listener)
	return n, nil
}

func newNode(c config, address *net.TCPAddr) (*node, error) {
	switch {
	case c.copies < 1:
		return nil, fmt.Errorf("%d copies of a key", c.copies)
	case address.IP.IsUnspecified():
		return nil, fmt.Errorf("the others cannot reach %q", c.http)
	}
	ring, err := chash.NewRing[peer](nil)
	if err != nil {
		return nil, err
	}
	c.http = address.String()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	n := &node{
		config:    c,
		store:     newStore(ring.Position),
		members:   newMembers(c.name, meta{HTTP: c.http, Copies: c.copies}),
		forward:   &http.Client{Transport: transport, Timeout: forwardTimeout},
		peers:     &http.Client{Transport: transport, Timeout: peerTimeout},
		bulk:      &http.Client{Transport: transport, Timeout: bulkTimeout},
		view:      newView(c.name, ring, c.copies),
		interrupt: func() {},
	}
	n.server = newServer(n)
	return n, nil
}

// join begins to gossip, and makes the members a view as a change that brought this
// node: what it holds, it gains from those who held it without this node.
func (n *node) join() (err error) {
	if n.gossip, err = n.members.join(n.bind, n.config.join); err != nil {
		return err
	}
	n.bind = n.gossip.LocalNode().Address()
	all := n.members.backends()
	others := slices.DeleteFunc(slices.Clone(all), func(b chash.Backend[peer]) bool { return b.Name == n.name })
	err = n.change(others)
	if err == nil {
		err = n.change(all)
	}
	if err != nil {
		return errors.Join(err, n.gossip.Shutdown())
	}
	return nil
}

// run answers requests, follows the members and migrates until stop.
func (n *node) run(listener net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	n.running.Go(func() { n.follow(ctx) })
	n.running.Go(func() { n.migrate(ctx) })
	n.running.Go(func() { _ = n.server.Serve(listener) }) // until Close
	n.stop = func() error {
		cancel()
		err := n.server.Close()
		n.running.Wait()
		n.peers.CloseIdleConnections() // which are those of all three clients
		return err
	}
}

// follow applies membership events in one goroutine; those that come while it does
// are one change.
func (n *node) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.members.changed:
		}
		if err := n.change(n.members.backends()); err != nil {
			slog.Error("the members stay as they were", "error", err)
		}
	}
}

// change makes a view of the members, and a backlog of what this node gains and loses
// by it.
func (n *node) change(members []chash.Backend[peer]) error {
	before := n.current()
	ring := before.ring.Clone()
	if err := ring.Set(members); err != nil {
		return err
	}
	if slices.Equal(ring.Backends(), before.ring.Backends()) {
		return nil
	}
	diff, err := before.ring.Diff(ring)
	if err != nil {
		return err
	}
	after := newView(n.name, ring, n.copies)
	backlog := newBacklog(n.name, after, diff)
	n.mu.Lock()
	backlog.goOn(n.name, after, n.backlog)
	n.view, n.backlog = after, backlog
	n.interrupt()
	n.mu.Unlock()
	return nil
}

func (n *node) current() *view {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.view
}

// leave hands over what the node holds and says good-bye. The others first see it as
// draining: they take over from it as from any other node, and reach it until it
// has nothing left. On an error some copies were not handed over.
func (n *node) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	n.members.drain()
	// What was not heard in time is gossiped on, and a death found out without gossip.
	_ = n.gossip.UpdateNode(gossipTimeout)
	var err error
	for err == nil && !n.empty() {
		if !pause(ctx, leavePoll) {
			err = fmt.Errorf("left with %d ranges not handed over: %w", n.status().Outgoing, ctx.Err())
		}
	}
	_ = n.gossip.Leave(gossipTimeout)
	return errors.Join(err, n.server.Shutdown(ctx))
}

// empty reports whether the node, which is draining, has handed over everything or
// there is nobody left to take it.
func (n *node) empty() bool {
	s := n.status()
	return s.Draining && (s.Settled || len(n.current().holders("")) == 0)
}

// close ends the node at once, for the others as if it had died.
func (n *node) close() error { return errors.Join(n.gossip.Shutdown(), n.stop()) }
