package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
)

// startAllGossiping starts nodes that find each other by gossip.
func startAllGossiping(t *testing.T, copies int, names ...string) (ns nodes) {
	t.Helper()
	for _, name := range names {
		c := testConfig(name)
		c.copies = copies
		ns = append(ns, startGossiping(t, c, ns...))
	}
	ns.settle(t)
	return ns
}

// Clients write and delete while nodes join: nothing acknowledged is lost, and
// nothing deleted comes back.
func TestJoin_UnderLoad(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b", "c")
	ctx, stop := context.WithCancel(t.Context())
	values := writeAll(ctx, t, ns)
	all := slices.Clone(ns)
	for _, name := range []string{"d", "e", "f"} {
		all = append(all, startGossiping(t, testConfig(name), all[0]))
	}
	all.settle(t)
	stop()
	want := values()
	all.settle(t)
	all.hold(t, want)
	for key, value := range want {
		wanted := found(value)
		if value == "" {
			wanted = notFound
		}
		require.Equal(t, wanted, get(t, all[len(all)-1], key))
	}
}

// The node that dies may be one that a client writes to or one that orders its
// writes: the client tries again, and no write that it was told of is lost.
func TestDeath_UnderLoad(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b", "c", "d")
	dead := ns[3]
	left := ns.without(dead)
	ctx, stop := context.WithCancel(t.Context())
	values := writeAll(ctx, t, left)
	require.NoError(t, dead.close())
	left.settle(t)
	stop()
	want := values()
	left.settle(t)
	left.hold(t, want)
}

// One node dies and another joins at once, and while gossip is not sure of the death
// yet a second one leaves.
func TestChanges_AtOnceUnderLoad(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b", "c", "d", "e")
	dead, leaving := ns[3], ns[4]
	left := ns[:3]
	ctx, stop := context.WithCancel(t.Context())
	values := writeAll(ctx, t, left)
	require.NoError(t, dead.close())
	left = append(slices.Clone(left), startGossiping(t, testConfig("f"), ns[0]))
	require.NoError(t, leaving.leave())
	require.NoError(t, leaving.close())
	left.settle(t)
	stop()
	want := values()
	left.settle(t)
	left.hold(t, want)
}

// A node that leaves hands over what only it has.
func TestLeave(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 1, "a", "b", "c")
	values := ns.load(t, 200)
	for len(ns) > 1 {
		gone := ns[len(ns)-1]
		require.NoError(t, gone.leave())
		require.Empty(t, gone.store.scan(everything))
		require.NoError(t, gone.close())
		ns = ns.without(gone)
		for key, value := range values {
			require.Equal(t, found(value), get(t, ns[0], key))
		}
		ns.settle(t)
		ns.hold(t, values)
	}
	require.NoError(t, ns[0].leave(), "there is nobody left to hand over to")
}

// When all nodes leave, what they hold goes with them, and none waits for another.
func TestLeave_All(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b", "c")
	ns.load(t, 50)
	left := make(chan error, len(ns))
	for _, n := range ns {
		go func() { left <- errors.Join(n.leave(), n.close()) }()
	}
	for range ns {
		require.NoError(t, <-left)
	}
}

// A node that is killed and back before the others have noticed has nothing, and
// fetches all that it holds.
func TestRestart_BeforeItIsNoticed(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b", "c")
	values := ns.load(t, 200)
	killed := ns[2]
	require.NoError(t, killed.close())
	c := testConfig("c")
	c.bind, c.http = killed.bind, killed.http
	ns[2] = startGossiping(t, c, ns[:2]...)
	ns.settle(t)
	ns.hold(t, values)
}

// After a death the name may come back at another address.
func TestRestart_Elsewhere(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b", "c")
	values := ns.load(t, 100)
	require.NoError(t, ns[2].close())
	ns[:2].settle(t)
	var back *node
	eventually(t, "the name is free", func() bool {
		c := testConfig("c")
		c.join = []string{ns[0].bind}
		var err error
		back, err = startNode(c)
		return err == nil
	})
	t.Cleanup(func() { _ = back.close() })
	ns[2] = back
	ns.settle(t)
	ns.hold(t, values)
}

func TestStart_Errors(t *testing.T) {
	t.Parallel()
	ns := startAllGossiping(t, 2, "a", "b")
	const nobody = "127.0.0.1:1" // no port that the system gives away
	tests := []struct {
		name   string
		change func(c *config)
		want   string // what the error has to name
	}{
		{"the name is taken", func(c *config) { c.name = "b" }, `"b"`},
		{"other copies", func(c *config) { c.copies = 3 }, "2 copies"},
		{"nobody to join", func(c *config) { c.join = []string{nobody} }, nobody},
		{"HTTP address in use", func(c *config) { c.http = ns[0].http }, ns[0].http},
		{"gossip address in use", func(c *config) { c.bind = ns[0].bind }, "address already in use"},
		{"no copies", func(c *config) { c.copies = 0 }, "0 copies"},
		{"HTTP anywhere", func(c *config) { c.http = ":0" }, `":0"`},
		{"no IP address", func(c *config) { c.bind = "localhost:0" }, "localhost"},
		{"no port", func(c *config) { c.bind = "127.0.0.1:x" }, "127.0.0.1:x"},
		{"no address", func(c *config) { c.bind = "127.0.0.1" }, "127.0.0.1"},
	}
	for _, test := range tests {
		c := testConfig("z")
		c.join = []string{ns[0].bind}
		test.change(&c)
		_, err := startNode(c)
		require.ErrorContains(t, err, test.want, test.name)
	}
	ns.settle(t) // it is still those two
	put(t, ns[0], "k", "v")
	require.Equal(t, found("v"), get(t, ns[1], "k"))
}

// A stranger, or a node with other copies, is no member, and an event that changes
// nothing is no change.
func TestMembers_Events(t *testing.T) {
	t.Parallel()
	n := startGossiping(t, testConfig("a"))
	const others = 50
	for i := range others {
		n.members.NotifyJoin(&memberlist.Node{Name: fmt.Sprint(i), Meta: []byte(`{"http":"127.0.0.1:1","copies":2}`)})
	}
	eventually(t, "all are members", func() bool { return len(n.status().Members) == 1+others })

	n.members.NotifyJoin(&memberlist.Node{Name: "stranger", Meta: []byte("?")})
	n.members.NotifyJoin(&memberlist.Node{Name: "other", Meta: []byte(`{"copies":3}`)})
	n.members.NotifyLeave(&memberlist.Node{Name: "0", Meta: []byte(`{"copies":2}`)})
	eventually(t, "one has left", func() bool { return len(n.status().Members) == others })
	before := n.current()
	require.NoError(t, n.change(n.members.backends()))
	require.Same(t, before, n.current())
}

// Nothing of a node runs on after its end.
func TestClose_LeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine() + 1 // in which eventually asks
	ns := startAllGossiping(t, 2, "a", "b", "c")
	ns.load(t, 50)
	require.NoError(t, ns[0].leave())
	for _, n := range ns {
		require.NoError(t, n.close())
	}
	testClient.CloseIdleConnections()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
