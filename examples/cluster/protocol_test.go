package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// startApart starts a node that has no part in a consensus: the test tells it of views.
func startApart(t *testing.T, c config, transport http.RoundTripper) *node {
	t.Helper()
	l, err := net.Listen("tcp", c.addr)
	require.NoError(t, err)
	n, err := newNode(c, l.Addr().(*net.TCPAddr))
	require.NoError(t, err)
	n.client.Transport = transport
	n.run(l)
	t.Cleanup(func() { _ = n.close() })
	return n
}

// A world is nodes and the log that tells them of views. Each of them reads the log at
// its own speed.
type world struct {
	mu     sync.Mutex
	random *rand.Rand
	nodes  nodes
	log    []func(machine)
	read   []int // of the log, by node
	active []bool
}

func (w *world) chance(percent int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(100) < percent
}

var errLost = errors.New("lost")

// RoundTrip loses requests or answers, and delivers some requests a second time, late:
// so does a network, with a node that was paused.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.chance(3) {
		return nil, errLost
	}
	if w.chance(10) && r.GetBody != nil {
		late := r.Clone(r.Context())
		late.Body, _ = r.GetBody()
		w.mu.Lock()
		delay := time.Duration(w.random.IntN(300)) * time.Millisecond
		w.mu.Unlock()
		time.AfterFunc(delay, func() {
			if answer, err := testClient.Transport.RoundTrip(late.WithContext(w.nodes[0].life)); err == nil {
				_ = answer.Body.Close()
			}
		})
		return nil, errLost
	}
	answer, err := testClient.Transport.RoundTrip(r)
	if err == nil && w.chance(3) {
		_ = answer.Body.Close()
		return nil, errLost
	}
	return answer, err
}

// view adds a view of the active nodes to the log.
func (w *world) view() {
	var c raft.Configuration
	for i, n := range w.nodes {
		suffrage := raft.Nonvoter
		if w.active[i] {
			suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, raft.Server{Suffrage: suffrage, ID: raft.ServerID(n.self.id())})
	}
	version := uint64(len(w.log) + 1)
	w.log = append(w.log, func(m machine) { m.StoreConfiguration(version, c) })
}

// advance makes some nodes read on in the log, or all to its end.
func (w *world) advance(all bool) {
	for i, n := range w.nodes {
		for w.read[i] < len(w.log) && (all || w.chance(30)) {
			w.log[w.read[i]](machine{n})
			w.read[i]++
		}
	}
}

// settle ends a change as a leader does, if all active nodes have what they hold.
func (w *world) settle() bool {
	views := w.latest()
	for i, n := range w.nodes {
		s := n.status()
		if w.active[i] && (s.Version != views.current().version || s.Incoming > 0) {
			return false
		}
	}
	if len(views) > 1 {
		command := &raft.Log{Data: settle(views.current())}
		w.log = append(w.log, func(m machine) { m.Apply(command) })
	}
	return true
}

// latest returns the history of the node that has read most.
func (w *world) latest() history {
	furthest := slices.Index(w.read, slices.Max(w.read))
	return w.nodes[furthest].history()
}

// Five nodes come and go, see each view at a time of their own, and lose, delay and
// repeat messages. Each key is a register nevertheless.
func TestProtocol(t *testing.T) {
	t.Parallel()
	for copies := 1; copies <= 3; copies++ {
		t.Run(fmt.Sprintf("copies=%d", copies), func(t *testing.T) {
			t.Parallel()
			testProtocol(t, copies)
		})
	}
}

func testProtocol(t *testing.T, copies int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{random: rand.New(rand.NewPCG(seed, 0)), read: make([]int, 5), active: []bool{true, true, true, true, true}}
	for i := range w.read {
		c := testConfig(fmt.Sprintf("node-%d", i))
		c.copies = copies
		w.nodes = append(w.nodes, startApart(t, c, w))
	}
	w.view()
	w.advance(true)

	const clients, keys = 12, 6
	stop := make(chan struct{})
	r := newRecorder()
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(c+1)))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n, key := w.nodes[random.IntN(len(w.nodes))], fmt.Sprint(random.IntN(keys))
				op := randomOperation(random, c, i)
				patience := patience
				if random.IntN(5) == 0 {
					patience = time.Duration(random.IntN(100)) * time.Millisecond
				}
				_ = r.do(c, key, op, func() (string, error) { return operate(testClient, n.addr, key, op, patience) })
			}
		})
	}
	changes := 0
	for begin := time.Now(); time.Since(begin) < 8*time.Second && changes < 80; time.Sleep(2 * time.Millisecond) {
		if i := w.random100() % len(w.nodes); w.chance(5) && len(w.latest()) < 4 {
			w.active[i] = !w.active[i]
			if !slices.Contains(w.active, true) {
				w.active[i] = true
			}
			w.view()
			changes++
		}
		w.advance(false)
		w.settle()
	}
	close(stop)
	eventually(t, "all data arrive", func() bool {
		w.advance(true)
		return w.settle() && len(w.latest()) == 1
	})
	running.Wait()
	t.Logf("%d changes, %d reads, %d writes, %d unknown", changes, r.reads, r.writes, r.unknown)
	require.Greater(t, changes, 3)
	require.Greater(t, r.writes, 20)
	r.check(t)
}

func (w *world) random100() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(100)
}

// startViewed starts nodes apart that have one view of all of them.
func startViewed(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{read: make([]int, len(names)), active: slices.Repeat([]bool{true}, len(names))}
	for _, name := range names {
		w.nodes = append(w.nodes, startApart(t, testConfig(name), &holding{RoundTripper: testClient.Transport}))
	}
	w.view()
	w.advance(true)
	return w
}

// A holding transport keeps messages back while it is told a path.
type holding struct {
	http.RoundTripper
	mu   sync.Mutex
	path string
	kept []*http.Request
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path != h.path {
		return h.RoundTripper.RoundTrip(r)
	}
	late := r.Clone(r.Context())
	late.Body, _ = r.GetBody()
	h.kept = append(h.kept, late)
	return nil, errLost
}

// deliver sends what was kept back.
func (h *holding) deliver(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, h.kept)
	for _, r := range h.kept {
		answer, err := h.RoundTripper.RoundTrip(r.WithContext(t.Context()))
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
}

// A write that was given up does not come after one that began later, however late its
// messages arrive: in the same view and in the next one.
func TestWrite_GivenUp(t *testing.T) {
	t.Parallel()
	for _, change := range []bool{false, true} {
		// The names are such that a tie would go to the old write.
		w := startViewed(t, "a", "b", "c")
		a, b := w.nodes[0], w.nodes[1]
		h := a.client.Transport.(*holding)
		h.path = storePath
		for range 20 { // a has given many tickets
			a.tickets.Add(1)
		}
		old := entry{Key: "k", Value: []byte("old")}
		require.ErrorIs(t, a.write(t.Context(), &old), errLost)
		if change {
			w.active[0] = false
			w.view()
			w.advance(true)
		}
		put(t, b, "k", "new")
		h.deliver(t)
		require.Equal(t, found("new"), get(t, b, "k"))
		require.Equal(t, found("new"), get(t, w.nodes[2], "k"))
		h.path = "" // and it has one version for all attempts
		require.NoError(t, a.write(t.Context(), &old))
		require.Equal(t, found("new"), get(t, b, "k"))
	}
}

// What a read has returned every later one returns, although the write has reached one
// holder only, and that one is gone.
func TestRead_CompletesWrite(t *testing.T) {
	t.Parallel()
	w := startViewed(t, "a", "b", "c")
	w.nodes[0].store.merge(entry{Key: "k", Value: []byte("v"), Version: version{1, 1, "x"}})
	require.Equal(t, found("v"), get(t, w.nodes[1], "k"))
	for _, n := range w.nodes {
		require.Equal(t, "v", string(n.store.get("k").Value))
	}
}

// A node that has told another one of a later view what it has does nothing any more by
// the view that it still has.
func TestFetch_Seals(t *testing.T) {
	t.Parallel()
	w := startViewed(t, "a", "b", "c")
	a := w.nodes[0]
	put(t, a, "k", "v")
	w.view()
	w.log[1](machine{w.nodes[1]})
	entries, err := call[[]entry](t.Context(), w.nodes[1], a.self, fetchPath, fetchRequest{Seal: 2, Ranges: []chash.Range{{Last: math.MaxUint64}}})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, err = a.serveAsk(askRequest{View: 1, Key: "k"})
	require.ErrorIs(t, err, errOtherView)
	_, err = a.serveStore(storeRequest{View: 1, Entry: entry{Key: "k"}})
	require.ErrorIs(t, err, errOtherView)
	w.advance(true)
	require.Equal(t, found("v"), get(t, a, "k"))
}

// A message to the run before gets no answer from the one at its address.
func TestMessage_ToRunBefore(t *testing.T) {
	t.Parallel()
	w := startViewed(t, "a", "b")
	before := w.nodes[0].self
	before.birth = "before"
	_, err := call[askAnswer](t.Context(), w.nodes[1], before, askPath, askRequest{View: 1, Key: "k"})
	require.ErrorContains(t, err, errGone.Error())
	conn, err := w.nodes[1].streams.Dial(raft.ServerAddress(before.id()), patience)
	require.NoError(t, err)
	defer conn.Close()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusGone, answer.StatusCode)
	_, err = w.nodes[1].ask(t.Context(), before)
	require.ErrorIs(t, err, errGone)
}

// The new run of a node does not act by a view of the run before.
func TestReady_NotByViewOfRunBefore(t *testing.T) {
	t.Parallel()
	w := startViewed(t, "a", "b", "c")
	again := startApart(t, testConfig("a"), testClient.Transport)
	w.log[0](machine{again})
	_, err := again.serveStore(storeRequest{View: 1, Entry: entry{Key: "k"}})
	require.ErrorIs(t, err, errOtherView)
}

// A member can be dropped if no range loses its last holder, in any view that counts.
func TestHistory_Survives(t *testing.T) {
	t.Parallel()
	const copies = 2
	view := func(version uint64, names ...string) *view {
		var c raft.Configuration
		for _, name := range names {
			c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(peer{"birth", "addr", name}.id())})
		}
		v, err := newView(version, copies, c)
		require.NoError(t, err)
		return v
	}
	id := func(name string) string { return peer{"birth", "addr", name}.id() }
	all, fewer, other := view(1, "a", "b", "c", "d"), view(2, "a", "b", "c"), view(3, "a", "b", "c", "e")
	require.True(t, history{all}.survives(id("d")))
	require.False(t, history{all, fewer}.survives(id("c")), "d and c held some keys")
	require.True(t, history{fewer}.survives(id("c")))
	require.False(t, history{all, fewer, other}.survives(id("c")))
	require.True(t, history{all, fewer, other}.survives(id("e")))
}
