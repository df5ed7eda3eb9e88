package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/chash-go/chash"
)

const (
	burst         = 20 * time.Millisecond // for membership events to come together
	leaveTimeout  = 10 * time.Second      // to hand everything over
	gossipTimeout = 2 * time.Second       // to be heard by one of the others
)

// A peer is what a ring holds: a node and where it answers.
type peer struct{ name, addr string }

// A view is the ring of the members that a node knows of. It is immutable: a
// change of the members is a new view.
type view struct {
	ring   *chash.Ring[peer]
	copies int
	id     string // equal on two nodes if they agree on who holds what
}

func newView(ring *chash.Ring[peer], copies int) *view { return &view{ring, copies, ringID(ring)} }

func ringID(ring interface{ Fingerprint() uint64 }) string {
	return fmt.Sprintf("%016x", ring.Fingerprint())
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
	store    *store
	members  *members
	gossip   *memberlist.Memberlist
	server   *http.Server
	forward  *http.Client   // for the requests of clients
	peers    *http.Client   // for what these wait for
	bulk     *http.Client   // for migration
	woken    chan struct{}  // there may be something to migrate
	received atomic.Int64   // entries that migration brought here
	stop     func() error   // set by run
	running  sync.WaitGroup // what that runs in the background

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
	c.http = listener.Addr().String()
	n, err := newNode(c)
	if err == nil {
		err = n.join()
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	n.run(listener)
	return n, nil
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
		n.peers.CloseIdleConnections()
		n.bulk.CloseIdleConnections()
		return err
	}
}

func newNode(c config) (*node, error) {
	ring, err := chash.NewRing[peer](nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	n := &node{
		config:    c,
		store:     newStore(ring.Position),
		members:   newMembers(c.name, meta{HTTP: c.http, Copies: c.copies}),
		forward:   &http.Client{Transport: transport, Timeout: forwardTimeout},
		peers:     &http.Client{Transport: transport, Timeout: peerTimeout},
		bulk:      &http.Client{Transport: c.migration, Timeout: bulkTimeout},
		woken:     make(chan struct{}, 1),
		view:      newView(ring, c.copies),
		backlog:   newBacklog(),
		interrupt: func() {},
	}
	n.server = newServer(n)
	return n, nil
}

// join begins to gossip and makes the members that are known after that the view.
func (n *node) join() error {
	g, err := gossipConfig(n.config, n.members)
	if err != nil {
		return err
	}
	if n.gossip, err = memberlist.Create(g); err != nil {
		return err
	}
	n.bind = net.JoinHostPort(g.BindAddr, strconv.Itoa(g.BindPort)) // Create has set the port
	if len(n.config.join) > 0 {
		_, err = n.gossip.Join(n.config.join)
	}
	if err = errors.Join(err, n.members.conflict()); err == nil {
		err = n.firstView()
	}
	if err != nil {
		return errors.Join(err, n.gossip.Shutdown()) // no Leave: the name may be another's
	}
	return nil
}

// gossipConfig returns a configuration for a fast local network: a node that dies
// is found out within some two seconds.
func gossipConfig(c config, m *members) (*memberlist.Config, error) {
	host, port, err := net.SplitHostPort(c.bind)
	if err != nil {
		return nil, err
	}
	g := memberlist.DefaultLocalConfig()
	if g.BindPort, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("port of %q: %w", c.bind, err)
	}
	g.Name = c.name
	g.BindAddr, g.AdvertiseAddr, g.AdvertisePort = host, host, g.BindPort
	g.ProbeInterval = 300 * time.Millisecond
	g.ProbeTimeout = 150 * time.Millisecond
	g.SuspicionMult = 4
	g.GossipInterval = 50 * time.Millisecond
	g.RetransmitMult = 4
	g.PushPullInterval = 5 * time.Second
	g.DeadNodeReclaimTime = time.Millisecond // not 0: a dead node's name may come back at another address
	g.Delegate, g.Events, g.Conflict = m, m, m
	g.Logger = slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)
	return g, nil
}

// firstView makes the members the view, as a change that brought this node: what it
// holds, it gains from those who held it without this node.
func (n *node) firstView() error {
	all := n.members.backends()
	others := slices.DeleteFunc(slices.Clone(all), func(b chash.Backend[peer]) bool { return b.Name == n.name })
	if err := n.change(others); err != nil {
		return err
	}
	return n.change(all)
}

// follow applies membership events in one goroutine, a burst of them as one change.
func (n *node) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.members.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(burst):
		}
		if err := n.change(n.members.backends()); err != nil {
			n.log.Error("the members stay as they were", "error", err)
		}
	}
}

// change makes a view of the members, and enters in the backlog what this node gains
// and loses by it.
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
	after := newView(ring, n.copies)
	in, out := incoming(n.name, after, diff), outgoing(n.name, after, diff)
	n.log.Info("members changed", "members", ring.Len(), "moved", diff.Moved, "gained", len(in), "to hand over", len(out))
	n.mu.Lock()
	n.view = after
	n.backlog.enter(n.name, after, in, out)
	n.interrupt()
	n.mu.Unlock()
	n.wake()
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
	said := n.gossip.UpdateNode(gossipTimeout)
	err := n.waitEmpty(ctx)
	said = errors.Join(said, n.gossip.Leave(gossipTimeout))
	n.log.Info("left", "not heard", said)
	return errors.Join(err, n.server.Shutdown(ctx))
}

// waitEmpty waits until the node, which is draining, has handed over everything or
// there is nobody left to take it.
func (n *node) waitEmpty(ctx context.Context) error {
	tick := time.NewTicker(burst)
	defer tick.Stop()
	for {
		s := n.status()
		if s.Draining && (s.Settled || len(n.current().holders("")) == 0) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("left with %d ranges not handed over: %w", s.Outgoing, ctx.Err())
		case <-tick.C:
		}
	}
}

// close ends the node at once, for the others as if it had died.
func (n *node) close() error { return errors.Join(n.gossip.Shutdown(), n.stop()) }
