package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// joinHeld makes a node that the others know one of them, with a migration that
// does not begin before its gate is released.
func joinHeld(t *testing.T, ns nodes, name string) (nodes, *node, *gate) {
	t.Helper()
	g := newGate()
	c := testConfig(name)
	c.copies = ns[0].copies
	n := startGated(t, c, g)
	n.tell(t, ns...) // as at every start, a change that brought others
	ns = append(slices.Clone(ns), n)
	ns.know(t, ns...)
	return ns, n, g
}

// A newcomer answers for what it has gained before that has arrived.
func TestJoin_BeforeArrival(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	values := ns.load(t, 300)
	ns, d, gate := joinHeld(t, ns, "d")
	require.NotZero(t, d.status().Incoming)
	for key, value := range values {
		require.Equal(t, found(value), get(t, d, key))
	}
	require.Equal(t, notFound, get(t, d, "never written"))
	i := 0
	for key := range values {
		switch i++; i % 3 {
		case 0:
			values[key] = "later " + key
			put(t, d, key, values[key])
		case 1:
			values[key] = ""
			require.Equal(t, http.StatusNoContent, send(t, http.MethodDelete, d, key, "").status)
		}
	}
	require.NotZero(t, d.status().Incoming, "nothing has arrived but what was asked for")
	gate.release()
	ns.settle(t)
	ns.hold(t, values)
}

// A write by a newcomer is past those before it, even if the clock by which they
// were ordered is ahead of its own.
func TestJoin_WriteIsPastThoseBefore(t *testing.T) {
	t.Parallel()
	for copies := 1; copies <= 2; copies++ {
		ns := startCopiesApart(t, copies, "a", "b", "c")
		key := keyOf(t, "a b c:a b", "a b c d:d a")
		for _, n := range ns {
			n.store.observe(version{time.Now().Add(time.Hour).UnixNano(), "a"})
		}
		put(t, ns[0], key, "before")
		ns, d, gate := joinHeld(t, ns, "d")
		put(t, d, key, "after")
		gate.release()
		ns.settle(t)
		ns.hold(t, map[string]string{key: "after"})
	}
}

// A source that is dead without being known to be does not matter if another has
// everything.
func TestJoin_DeadSource(t *testing.T) {
	t.Parallel()
	ns := startCopiesApart(t, 3, "a", "b", "c")
	values := ns.load(t, 100)
	ns, d, gate := joinHeld(t, ns, "d")
	require.NoError(t, ns[0].stop())
	failed := map[string]error{"a": errNoNode, "b": errNoNode, "c": errNoNode}
	require.ErrorIs(t, d.fetch(t.Context(), d.peers, d.current(), d.backlog.incoming[0].First, failed), errNoNode,
		"who has failed is not asked again")
	for key, value := range values {
		require.Equal(t, found(value), get(t, d, key))
	}
	gate.release()
	eventually(t, "all has arrived", func() bool { return d.status().Incoming == 0 })
}

// What arrives when the view has changed meanwhile is not taken in, for it may be of
// a range that the node no longer holds.
func TestChange_WhileAsking(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	values := ns.load(t, 100)
	_, d, _ := joinHeld(t, ns, "d")
	gate := newGate()
	gate.release()
	gate.answer = func(*http.Request) { d.tell(t, ns...) }
	d.peers.Transport = gate
	i := slices.IndexFunc(slices.Sorted(maps.Keys(values)), func(key string) bool {
		return slices.ContainsFunc(d.current().holders(key), isNode("d"))
	})
	key := slices.Sorted(maps.Keys(values))[i]
	require.ErrorIs(t, d.readThrough(t.Context(), d.current(), key), errOtherView)
	require.Empty(t, d.store.scan(everything))
}

// What was handed over by one view may not be all by the next.
func TestChange_WhileHandingOver(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	a := ns[0]
	e := a.store.put("a", keyOf(t, "a b c:b c"), []byte("v"), false)
	before := a.current()
	a.tell(t, a, ns[1]) // which the others are not told, so that a keeps what it has to do
	outgoing := a.status().Outgoing
	require.NotZero(t, outgoing)
	a.handedOver(before, a.backlog.outgoing, map[string]entry{e.Key: e})
	require.Equal(t, outgoing, a.status().Outgoing)
	require.Equal(t, "v", live(a.store, e.Key))
}

// A change ends what migration does by the view before, which may be to wait.
func TestChange_InterruptsMigration(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	ns, d, gate := joinHeld(t, ns, "d")
	eventually(t, "it asks", func() bool { return gate.arrived.Load() > 0 })
	d.tell(t, ns[1:]...)
	require.ErrorIs(t, <-gate.stopped, context.Canceled)
}

// Nothing moves but what the change of the ring demands, and that once.
func TestChange_MovesTheLeast(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c", "d")
	values := ns.load(t, 400)
	old := ns
	ns, e, gate := joinHeld(t, ns, "e")
	// One that it has to ask hears of it last: it is not gone round.
	late := old[0]
	late.tell(t, old...)
	gate.release()
	passed := gate.passed.Load()
	eventually(t, "it asks again and again", func() bool { return gate.passed.Load() > passed+10 })
	late.tell(t, ns...)
	ns.settle(t)
	ns.hold(t, values)
	gained := 0
	for key := range values {
		if slices.ContainsFunc(e.current().holders(key), isNode("e")) {
			gained++
		}
	}
	require.NotZero(t, gained)
	for _, n := range ns.without(e) {
		require.Zero(t, n.moved.Load(), n.name)
	}
	require.EqualValues(t, gained, e.moved.Load())

	lost := ns[0]
	require.NoError(t, lost.stop())
	held := 0
	for key := range values {
		if slices.ContainsFunc(e.current().holders(key), isNode(lost.name)) {
			held++
		}
	}
	ns = ns.without(lost)
	ns.know(t, ns...)
	ns.settle(t)
	ns.hold(t, values)
	moved := -gained
	for _, n := range ns {
		moved += int(n.moved.Load())
	}
	require.Equal(t, held, moved)
}

// rewriteHalf writes every other one of 300 keys anew.
func rewriteHalf(t *testing.T, n *node, values map[string]string) {
	t.Helper()
	for i := range 150 {
		key := fmt.Sprintf("key-%d", 2*i)
		values[key] = "later " + key
		put(t, n, key, values[key])
	}
}

// A node joins, and before it has anything a node dies from which it would have got
// it: what was written meanwhile is with the newcomer, and what was written before
// with the node that the newcomer had pushed out. Each asks the other.
func TestTwoChanges_JoinAndDeath(t *testing.T) {
	t.Parallel()
	for _, dies := range []string{"a", "b", "c"} {
		ns := startAllApart(t, "a", "b", "c")
		values := ns.load(t, 300)
		ns, d, gate := joinHeld(t, ns, "d")
		rewriteHalf(t, d, values)
		dead := ns.named(t, dies)
		require.NoError(t, dead.stop())
		ns = ns.without(dead)
		ns.know(t, ns...)
		require.NotZero(t, d.status().Incoming)
		gate.release()
		ns.settle(t)
		ns.hold(t, values)
	}
}

// Two nodes join, the second before the first has anything: it gets from those whom
// the first names what that does not have.
func TestTwoChanges_JoinAndJoin(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	values := ns.load(t, 300)
	ns, _, gateD := joinHeld(t, ns, "d")
	ns, e, gateE := joinHeld(t, ns, "e")
	for key, value := range values {
		require.Equal(t, found(value), get(t, e, key))
	}
	gateE.release()
	gateD.release()
	ns.settle(t)
	ns.hold(t, values)
}

// A node joins and is gone again before the others have given anything up.
func TestTwoChanges_JoinAndGone(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	values := ns.load(t, 300)
	ns, d, _ := joinHeld(t, ns, "d")
	rewriteHalf(t, d, values)
	require.NoError(t, d.stop())
	ns = ns.without(d)
	ns.know(t, ns...)
	ns.settle(t)
	ns.hold(t, values)
}

// A node that others fetch from dies when they have got some of it.
func TestSourceDies_InMidMigration(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	values := ns.load(t, 300)
	gate, died := newGate(), make(chan *node, 1)
	var once sync.Once
	gate.answer = func(r *http.Request) { // who answered first dies
		once.Do(func() {
			i := slices.IndexFunc(ns, func(n *node) bool { return n.http == r.URL.Host })
			_ = ns[i].stop()
			died <- ns[i]
		})
	}
	d := startGated(t, testConfig("d"), gate)
	d.tell(t, ns...)
	all := append(slices.Clone(ns), d)
	all.know(t, all...)
	gate.release()
	dead := <-died

	// Until that is known nobody can say whether it had more, and what was fetched
	// from it is there to be read.
	require.NotZero(t, d.status().Incoming)
	left := all.without(dead)
	left.know(t, left...)
	for key, value := range values {
		require.Equal(t, found(value), get(t, d, key))
	}
	left.settle(t)
	left.hold(t, values)
}

// A source that accepts connections and says nothing does not keep a reader waiting
// for long: it is told to come again, and gets its answer when the source is known
// to be dead, while migration still waits for that one.
func TestSourceHangs(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	values := ns.load(t, 300)
	hung := ns[0]
	require.NoError(t, hung.stop())
	l, err := net.Listen("tcp", hung.http)
	require.NoError(t, err)
	defer l.Close()
	d := startApart(t, testConfig("d"))
	all := append(slices.Clone(ns), d)
	others := all.without(hung)
	d.tell(t, ns...)
	others.know(t, all...)
	key := keyOf(t, "a b c:a b", "a b c d:d a")
	got := send(t, http.MethodGet, d, key, "", passedOnHeader, "x")
	require.Equal(t, http.StatusServiceUnavailable, got.status)

	others.know(t, others...)
	require.Equal(t, notFound, send(t, http.MethodGet, d, key, "", passedOnHeader, "x"))
	others.settle(t)
	others.hold(t, values)
}

// A write is acknowledged by holders whose view one of the later holders has never
// had, since the node that it would have heard of is already dead again.
func TestMissedView(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	key := keyOf(t, "a b c:a b", "a b c d:a d")
	put(t, ns[0], key, "old")
	a, b, c := ns[0], ns[1], ns[2]
	d := startApart(t, testConfig("d"))
	d.tell(t, ns...)
	nodes{a, c, d}.know(t, a, b, c, d) // but not b
	put(t, a, key, "new")
	require.Equal(t, "old", live(b.store, key))
	require.NoError(t, d.stop())
	nodes{a, c}.know(t, a, b, c)
	ns.settle(t)
	ns.hold(t, map[string]string{key: "new"})
}

// A message is refused by a node whose view is another.
func TestMessage_OtherView(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	a, b := ns[0], ns[1]
	key := keyOf(t, "a b c:a b", "a b:a b")
	b.tell(t, a, b)
	for path, in := range map[string]any{pullPath: pullRequest{}, applyPath: []entry{}} {
		require.ErrorIs(t, a.call(t.Context(), a.peers, a.current(), "b", path, in, new(struct{ X int })), errOtherView)
	}
	require.Equal(t, http.StatusServiceUnavailable, send(t, http.MethodPut, a, key, "v", passedOnHeader, "x").status)
	require.Empty(t, live(b.store, key))
	require.ErrorIs(t, a.call(t.Context(), a.peers, a.current(), "x", pullPath, pullRequest{}, nil), errNoNode)
	_, err := a.order(t.Context(), newView("a", a.current().ring, 2), key, nil, false)
	require.ErrorIs(t, err, errOtherView, "a view that is over orders nothing")
	_, _, err = a.read(t.Context(), newView("a", a.current().ring, 2), key)
	require.ErrorIs(t, err, errOtherView)
}

// Members come and go faster than data moves, every node hears of it in its own time
// and misses some of it, and clients write all the while: nothing acknowledged is
// lost, and nothing deleted comes back.
func TestChanges_UnderLoad(t *testing.T) {
	t.Parallel()
	all := startAllApart(t, "a", "b", "c", "d", "e", "f")
	ctx, stop := context.WithCancel(t.Context())
	values := writeAll(ctx, t, all)
	in := slices.Clone(all)
	for range 12 {
		if i := rand.N(len(all)); slices.Contains(in, all[i]) && len(in) > 3 {
			in = in.without(all[i])
		} else if !slices.Contains(in, all[i]) {
			in = append(in, all[i])
		}
		var out nodes
		for _, n := range all {
			if !slices.Contains(in, n) {
				out = append(out, n)
			}
		}
		for _, i := range rand.Perm(len(all)) {
			if rand.N(4) > 0 {
				all[i].tellDraining(t, in, out)
			}
		}
		pause := time.NewTimer(rand.N(50 * time.Millisecond)) // some changes catch up with others
		<-pause.C
	}
	all.know(t, all...)
	stop()
	want := values()
	all.settle(t)
	all.hold(t, want)
}

// writeAll writes and deletes keys, through the nodes in turn, until ctx is done. The
// function that it returns waits for the end and returns what was acknowledged last.
func writeAll(ctx context.Context, t *testing.T, ns nodes) (values func() map[string]string) {
	t.Helper()
	const writers, keys = 4, 50
	written := make([]map[string]string, writers)
	var running sync.WaitGroup
	for w := range writers {
		written[w] = map[string]string{}
		running.Go(func() {
			for i := 0; ctx.Err() == nil || i < keys; i++ {
				key, value, method := fmt.Sprintf("%d of writer %d", i%keys, w), fmt.Sprint(i), http.MethodPut
				if rand.N(3) == 0 {
					value, method = "", http.MethodDelete
				}
				// What failed is written again, since it may have happened or not.
				for {
					r, err := exchange(method, ns[(i+w)%len(ns)], key, value)
					if err == nil && r.status == http.StatusNoContent {
						break
					}
					if err != nil || r.status != http.StatusServiceUnavailable {
						t.Errorf("%s %q = %v, %v", method, key, r, err)
						return
					}
				}
				written[w][key] = value
			}
		})
	}
	return func() map[string]string {
		running.Wait()
		values := map[string]string{}
		for _, some := range written {
			maps.Copy(values, some)
		}
		return values
	}
}
