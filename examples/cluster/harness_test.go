package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// raceDetector is whether the race detector is on.
var raceDetector = false

// asProgram in the environment makes the test binary the program.
const asProgram = "CLUSTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	m.Run()
}

// patience bounds what a test waits for.
const patience = 30 * time.Second

// everything is the whole ring.
var everything = chash.Range{Last: math.MaxUint64}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}

// testConfig returns that of a node with ports of its own.
func testConfig(name string) config {
	return config{name: name, bind: "127.0.0.1:0", http: "127.0.0.1:0", copies: 2}
}

// startGossiping starts a node that has joined those that are there.
func startGossiping(t *testing.T, c config, there ...*node) *node {
	t.Helper()
	for _, n := range there {
		c.join = append(c.join, n.bind)
	}
	n, err := startNode(c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.close() })
	return n
}

// startApart starts a node that does not gossip: the test tells it of the others.
// It answers and migrates like any other.
func startApart(t *testing.T, c config) *node {
	t.Helper()
	return startGated(t, c, nil)
}

// startGated starts a node that does not gossip, with a gate for its migration.
func startGated(t *testing.T, c config, g *gate) *node {
	t.Helper()
	l, err := net.Listen("tcp", c.http)
	require.NoError(t, err)
	n, err := newNode(c, l.Addr().(*net.TCPAddr))
	require.NoError(t, err)
	if g != nil {
		n.bulk.Transport = g
	}
	n.run(l)
	t.Cleanup(func() { _ = n.stop() })
	return n
}

// startAllApart starts nodes of those names that know of each other.
func startAllApart(t *testing.T, names ...string) nodes {
	t.Helper()
	return startCopiesApart(t, 2, names...)
}

// startCopiesApart is startAllApart for another number of copies.
func startCopiesApart(t *testing.T, copies int, names ...string) nodes {
	t.Helper()
	var ns nodes
	for _, name := range names {
		c := testConfig(name)
		c.copies = copies
		ns = append(ns, startApart(t, c))
	}
	ns.know(t, ns...)
	ns.settle(t)
	return ns
}

// tell makes those nodes the members that a node knows of.
func (n *node) tell(t *testing.T, members ...*node) {
	t.Helper()
	n.tellDraining(t, members, nil)
}

// tellDraining tells a node of members and of some that are about to leave.
func (n *node) tellDraining(t *testing.T, members, draining nodes) {
	t.Helper()
	var backends []chash.Backend[peer]
	for _, m := range members {
		backends = append(backends, chash.Backend[peer]{Name: m.name, Value: peer{m.name, m.http}})
	}
	for _, m := range draining {
		backends = append(backends, chash.Backend[peer]{Name: m.name, Value: peer{m.name, m.http}, State: chash.Draining})
	}
	require.NoError(t, n.change(backends))
}

type nodes []*node

// know tells all of the nodes that those are the members.
func (ns nodes) know(t *testing.T, members ...*node) {
	t.Helper()
	for _, n := range ns {
		n.tell(t, members...)
	}
}

// settle waits until the nodes have one ring and nothing to do.
func (ns nodes) settle(t *testing.T) {
	t.Helper()
	eventually(t, "the nodes settle", func() bool {
		for _, n := range ns {
			if s := n.status(); !s.Settled || s.Ring != ns[0].status().Ring || len(s.Members) != len(ns) {
				return false
			}
		}
		return true
	})
}

// without returns the others.
func (ns nodes) without(gone *node) nodes {
	return slices.DeleteFunc(slices.Clone(ns), func(n *node) bool { return n == gone })
}

// named returns the node of that name.
func (ns nodes) named(t *testing.T, name string) *node {
	t.Helper()
	i := slices.IndexFunc(ns, func(n *node) bool { return n.name == name })
	require.GreaterOrEqual(t, i, 0, "no node %s", name)
	return ns[i]
}

// hold checks that each key has its value, none if it is empty, on exactly its
// holders.
func (ns nodes) hold(t *testing.T, values map[string]string) {
	t.Helper()
	for key, value := range values {
		holders := ns[0].current().holders(key)
		require.Len(t, holders, min(ns[0].copies, len(ns)))
		for _, n := range ns {
			want := ""
			if slices.ContainsFunc(holders, isNode(n.name)) {
				want = value
			}
			require.Equal(t, want, live(n.store, key), "%s on %s, holders %v", key, n.name, holders)
		}
	}
}

// A reply is what a client gets.
type reply struct {
	status int
	body   string
}

// exchange sends one for a key to a node.
func exchange(method string, n *node, key, value string, header ...string) (reply, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	status, body, err := do(context.Background(), testClient, method, "http://"+n.http+"/kv/"+url.PathEscape(key), h, []byte(value))
	return reply{status, string(body)}, err
}

var testClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

func send(t *testing.T, method string, n *node, key, value string, header ...string) reply {
	t.Helper()
	r, err := exchange(method, n, key, value, header...)
	require.NoError(t, err)
	return r
}

func put(t *testing.T, n *node, key, value string) {
	t.Helper()
	require.Equal(t, reply{http.StatusNoContent, ""}, send(t, http.MethodPut, n, key, value))
}

func get(t *testing.T, n *node, key string) reply {
	t.Helper()
	return send(t, http.MethodGet, n, key, "")
}

func found(value string) reply { return reply{http.StatusOK, value} }

var notFound = reply{http.StatusNotFound, ""}

// load writes that many keys, through the nodes in turn.
func (ns nodes) load(t *testing.T, count int) map[string]string {
	t.Helper()
	values := map[string]string{}
	for i := range count {
		key := fmt.Sprintf("key-%d", i)
		values[key] = fmt.Sprintf("value %d", i)
		put(t, ns[i%len(ns)], key, values[key])
	}
	return values
}

// keyOf returns a key whose holders are those by one view after the other. Each view
// is given by names, whose holders follow them, separated by a colon.
func keyOf(t *testing.T, views ...string) string {
	t.Helper()
	type wanted struct {
		ring    *chash.Ring[string]
		holders []string
	}
	var all []wanted
	for _, v := range views {
		names, holders, _ := strings.Cut(v, ":")
		ring, err := chash.NewRing(chash.Named(strings.Fields(names)...))
		require.NoError(t, err)
		all = append(all, wanted{ring, strings.Fields(holders)})
	}
	for i := range 100000 {
		key := fmt.Sprintf("k%d", i)
		if !slices.ContainsFunc(all, func(w wanted) bool {
			got, err := w.ring.GetN(key, len(w.holders))
			return err != nil || !slices.Equal(got, w.holders)
		}) {
			return key
		}
	}
	t.Fatalf("no key is held by %q", views)
	return ""
}

// A gate is a transport of a test's: what migration sends waits until it is
// released.
type gate struct {
	*http.Transport
	open    chan struct{}
	arrived atomic.Int64          // requests
	passed  atomic.Int64          // exchanges
	answer  func(r *http.Request) // called after each, if there is one
	stopped chan error            // why a request that waited did so no longer
}

func newGate() *gate {
	return &gate{Transport: &http.Transport{}, open: make(chan struct{}), stopped: make(chan error, 1)}
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.arrived.Add(1)
	select {
	case <-g.open:
	case <-r.Context().Done():
		select {
		case g.stopped <- r.Context().Err():
		default:
		}
		return nil, r.Context().Err()
	}
	resp, err := g.Transport.RoundTrip(r)
	g.passed.Add(1)
	if g.answer != nil && err == nil {
		g.answer(r)
	}
	return resp, err
}

// release opens the gate, for good.
func (g *gate) release() { close(g.open) }

// serveAgain starts a node's server once more, at its address.
func serveAgain(t *testing.T, n *node) {
	t.Helper()
	l, err := net.Listen("tcp", n.http)
	require.NoError(t, err)
	s := newServer(n)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}
