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
	burst        = 20 * time.Millisecond // for membership events to come together
	leaveTimeout = 10 * time.Second      // to hand everything over
)

// A peer is what a ring holds: a node and where its HTTP server listens.
type peer struct{ name, addr string }

// A view is the ring of the members that a node knows of. It is immutable: a
// change of the members is a new view.
type view struct {
	ring   *chash.Ring[peer]
	copies int
	id     string // equal on two nodes if both have the same copies of the same keys at the same nodes
}

func newView(ring *chash.Ring[peer], copies int) *view {
	return &view{ring, copies, viewID(ring, copies)}
}

func viewID(ring interface{ Fingerprint() uint64 }, copies int) string {
	return fmt.Sprintf("%016x/%d", ring.Fingerprint(), copies)
}

// holders returns the nodes that hold a key, the one that orders its writes first,
// and nothing if there is no node.
func (v *view) holders(key string) []peer {
	holders, err := v.ring.GetN(key, v.copies)
	if err != nil {
		return nil // the one possible reason is that there is no node
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
	members  members
	list     *memberlist.Memberlist
	server   *http.Server
	addr     string         // of the server
	gossip   string         // where it gossips
	forward  *http.Client   // for requests of clients
	peers    *http.Client   // for what these wait for
	bulk     *http.Client   // for migration
	woken    chan struct{}  // there may be something to migrate
	received atomic.Int64   // entries that migration brought here
	stop     func()         // stops what runs in the background
	running  sync.WaitGroup // that

	mu   sync.RWMutex // read-locked by whoever relies on the view not to change meanwhile
	view *view
	backlog
}

// startNode starts a node that has joined the cluster, or is the first one, and
// answers requests. It runs until close.
func startNode(c config) (*node, error) {
	listener, err := net.Listen("tcp", c.http)
	if err != nil {
		return nil, err
	}
	n, err := joinCluster(c, listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.running.Go(func() { n.follow(ctx) })
	n.running.Go(func() { n.migrate(ctx) })
	n.running.Go(func() { _ = n.server.Serve(listener) }) // ErrServerClosed, after close
	return n, nil
}

// joinCluster returns a node that knows its members and has its first view.
func joinCluster(c config, addr string) (*node, error) {
	empty, err := chash.NewRing[peer](nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	n := &node{
		config:  c,
		store:   newStore(empty.Position),
		members: members{self: c.name, meta: meta{HTTP: addr}, changed: make(chan struct{}, 1)},
		addr:    addr,
		forward: &http.Client{Transport: transport, Timeout: forwardTimeout},
		peers:   &http.Client{Transport: transport, Timeout: peerTimeout},
		bulk:    &http.Client{Transport: c.migration, Timeout: bulkTimeout},
		woken:   make(chan struct{}, 1),
		view:    newView(empty, c.replicas),
		backlog: backlog{unsent: map[string]version{}},
	}
	n.server = newServer(n)
	gossip, err := gossipConfig(c, &n.members)
	if err != nil {
		return nil, err
	}
	if n.list, err = memberlist.Create(gossip); err != nil {
		return nil, err
	}
	n.gossip = net.JoinHostPort(gossip.BindAddr, strconv.Itoa(gossip.BindPort)) // by now the port is known
	if len(c.join) > 0 {
		if _, err = n.list.Join(c.join); err == nil {
			err = n.members.conflict()
		}
	}
	if err == nil {
		err = n.firstView()
	}
	if err != nil {
		return nil, errors.Join(err, n.list.Shutdown())
	}
	return n, nil
}

// gossipConfig returns a configuration for a fast local network: a node that dies
// is found out within some two seconds.
func gossipConfig(c config, m *members) (*memberlist.Config, error) {
	host, port, err := net.SplitHostPort(c.bind)
	if err != nil {
		return nil, err
	}
	g := memberlist.DefaultLocalConfig()
	g.Name = c.name
	g.BindAddr, g.AdvertiseAddr = host, host
	if g.BindPort, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("port of %q: %w", c.bind, err)
	}
	g.AdvertisePort = g.BindPort
	g.ProbeInterval = 300 * time.Millisecond
	g.ProbeTimeout = 150 * time.Millisecond
	g.SuspicionMult = 4
	g.GossipInterval = 50 * time.Millisecond
	g.RetransmitMult = 4
	g.PushPullInterval = 5 * time.Second
	g.DeadNodeReclaimTime = time.Second // a name may come back at another address
	g.Delegate, g.Events, g.Conflict = m, m, m
	g.Logger = slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)
	if size := len(m.NodeMeta(0)); size > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the address %.40q... is too long to be gossiped", c.http)
	}
	return g, nil
}

// firstView makes the members known after the join the view, as the change that
// brought this node: what it holds, it gains from those who held it without it.
func (n *node) firstView() error {
	all := n.members.backends()
	others := slices.DeleteFunc(slices.Clone(all), func(b chash.Backend[peer]) bool { return b.Name == n.name })
	if err := n.change(others); err != nil {
		return err
	}
	return n.change(all)
}

// follow applies membership events, in one goroutine, and makes one change of a
// burst of them.
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
			n.log.Error("a change of the members is left out", "error", err)
		}
	}
}

// change makes a view of the members, and enters in the backlog what the node gains
// and loses by it.
func (n *node) change(members []chash.Backend[peer]) error {
	before := n.current()
	ring := before.ring.Clone()
	if err := ring.Set(members); err != nil {
		return err
	}
	diff, err := before.ring.Diff(ring)
	if err != nil {
		return err
	}
	after := newView(ring, n.replicas)
	n.mu.Lock()
	n.view = after
	n.backlog.enter(n.name, after, diff)
	pending, losing := len(n.pending), len(n.losing)
	n.mu.Unlock()
	n.wake()
	n.log.Info("members changed", "members", ring.Len(), "moved", diff.Moved, "pending", pending, "losing", losing)
	return nil
}

func (n *node) current() *view {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.view
}

// leave hands over what the node holds and says good-bye. It draws back first: the
// others see it as draining, take over from it as they would from any node, and
// reach it until it has nothing left. On an error some copies went nowhere; with
// two copies or more of each key the others still have one.
func (n *node) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	n.members.drawBack()
	err := n.list.UpdateNode(leaveTimeout)
	if err == nil {
		err = n.waitEmpty(ctx)
	}
	return errors.Join(err, n.list.Leave(leaveTimeout))
}

// waitEmpty waits until the node has handed over everything; without another node
// there is nobody to hand it to.
func (n *node) waitEmpty(ctx context.Context) error {
	tick := time.NewTicker(burst)
	defer tick.Stop()
	for {
		s := n.status()
		if s.Draining && (s.Settled || len(s.Members) == 1) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("left with %d ranges not handed over: %w", s.Losing, ctx.Err())
		case <-tick.C:
		}
	}
}

// close ends the node at once, as the end of its process would, and waits until
// nothing of it runs.
func (n *node) close() error {
	n.stop()
	err := errors.Join(n.server.Close(), n.list.Shutdown())
	n.peers.CloseIdleConnections()
	n.bulk.CloseIdleConnections()
	n.running.Wait()
	return err
}
