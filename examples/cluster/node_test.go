package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeAll writes and deletes keys of some nodes over and over, until ctx is done. What
// it returns ends it, and returns what each key has to have then.
func writeAll(t *testing.T, ns nodes) (values func() map[string]string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	const writers = 4
	var running sync.WaitGroup
	written := make([]map[string]string, writers)
	for w := range writers {
		written[w] = map[string]string{}
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key, op := fmt.Sprintf("key-%d-%d", w, i%50), operation{write: true}
				if i%5 > 0 {
					op.value = fmt.Sprint(i)
				}
				_, err := operate(testClient, ns[i%len(ns)].addr, key, op, patience)
				for err != nil && ctx.Err() == nil {
					_, err = operate(testClient, ns[i%len(ns)].addr, key, op, patience)
				}
				if err == nil {
					written[w][key] = op.value
				} else {
					delete(written[w], key)
				}
			}
		})
	}
	return func() map[string]string {
		stop()
		running.Wait()
		all := map[string]string{}
		for _, values := range written {
			maps.Copy(all, values)
		}
		require.NotEmpty(t, all)
		return all
	}
}

// Clients write and delete while nodes join, two of them at once, and one dies and one
// leaves: nothing acknowledged is lost, and nothing deleted comes back.
func TestChanges_UnderLoad(t *testing.T) {
	t.Parallel()
	ns := startAll(t, 3, "a", "b", "c")
	values := writeAll(t, ns)
	there := slices.Clone(ns)
	var starting sync.WaitGroup
	joined := make(nodes, 2)
	errs := make([]error, 2)
	for i := range joined {
		c := testConfig(string(rune('d' + i)))
		c.join = []string{ns[i].addr}
		starting.Go(func() { joined[i], errs[i] = startNode(t.Context(), c) })
	}
	starting.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, n := range joined {
		t.Cleanup(func() { _ = n.close() })
	}
	there = append(there, joined...)
	there.settle(t)
	require.NoError(t, joined[0].close())
	there = there.without(joined[0])
	there.settle(t)
	require.NoError(t, joined[1].leave())
	require.NoError(t, joined[1].close())
	ns.settle(t)
	want := values()
	ns.hold(t, want)
	for key, value := range want {
		wanted := found(value)
		if value == "" {
			wanted = notFound
		}
		require.Equal(t, wanted, get(t, ns[1], key))
	}
}

// A node that leaves hands over what only it has.
func TestLeave(t *testing.T) {
	t.Parallel()
	ns := startAll(t, 1, "a", "b", "c")
	values := ns.load(t, 100)
	for len(ns) > 1 {
		gone := ns[0] // the leader to begin with
		require.NoError(t, gone.leave())
		require.NoError(t, gone.close())
		ns = ns.without(gone)
		ns.settle(t)
		ns.hold(t, values)
	}
	require.NoError(t, ns[0].leave(), "there is nobody left to hand over to")
}

// When all nodes leave, what they hold goes with them, and none fails.
func TestLeave_All(t *testing.T) {
	t.Parallel()
	ns := startAll(t, 2, "a", "b", "c")
	left := make(chan error, len(ns))
	for _, n := range ns {
		go func() { left <- errors.Join(n.leave(), n.close()) }()
	}
	for range ns {
		require.NoError(t, <-left)
	}
}

// A node that is killed and back before the others have noticed has nothing, and
// fetches all that it holds. At another address as well.
func TestRestart(t *testing.T) {
	t.Parallel()
	ns := startAll(t, 2, "a", "b", "c")
	values := ns.load(t, 100)
	for _, elsewhere := range []bool{false, true} {
		killed := ns[2]
		require.NoError(t, killed.close())
		c := testConfig("c")
		c.copies = 2
		if !elsewhere {
			c.addr = killed.addr
		}
		ns[2] = start(t, c, ns[:2]...)
		ns.settle(t)
		ns.hold(t, values)
	}
}

// With as many nodes dead as there are copies, the others wait for one to be started
// again. They do not take it upon themselves that the data are lost.
func TestDeaths_AsManyAsCopies(t *testing.T) {
	t.Parallel()
	ns := startAll(t, 2, "a", "b", "c", "d", "e")
	values := ns.load(t, 100)
	dead := ns[3:]
	var lost, kept string
	v, err := ns[0].current()
	require.NoError(t, err)
	for key := range values {
		switch holders := v.holders(key); {
		case slices.Contains(holders, dead[0].self) && slices.Contains(holders, dead[1].self):
			lost = key
		case !slices.Contains(holders, dead[0].self) && !slices.Contains(holders, dead[1].self):
			kept = key
		}
	}
	require.NotEmpty(t, lost)
	for _, n := range dead {
		require.NoError(t, n.close())
	}
	eventually(t, "one is dropped", func() bool { return len(ns[0].status().Members) == 4 })
	require.Equal(t, found(values[kept]), get(t, ns[0], kept))
	_, err = operate(testClient, ns[0].addr, lost, operation{}, time.Second)
	require.Error(t, err)
	left := ns[0].status().Members
	for _, n := range dead {
		if slices.Contains(left, n.name) {
			c := testConfig(n.name)
			c.copies = 2
			again := start(t, c, ns[:3]...)
			append(slices.Clone(ns[:3]), again).settle(t)
		}
	}
	require.Equal(t, notFound, get(t, ns[0], lost))
	put(t, ns[0], lost, "again")
}

func TestStart_Errors(t *testing.T) {
	t.Parallel()
	ns := startAll(t, 2, "a", "b")
	others := startAll(t, 2, "x")
	tests := []struct {
		name   string
		change func(c *config)
		want   string // what the error has to name
	}{
		{"the name is taken", func(c *config) { c.name = "b" }, `"b"`},
		{"other copies", func(c *config) { c.copies = 3 }, "2 copies"},
		{"nobody to join", func(c *config) { c.join = []string{"127.0.0.1:1"} }, "127.0.0.1:1"},
		{"address in use", func(c *config) { c.addr = ns[0].addr }, ns[0].addr},
		{"no copies", func(c *config) { c.copies = 0 }, "0 copies"},
		{"anywhere", func(c *config) { c.addr = ":0" }, `":0"`},
	}
	for _, test := range tests {
		c := testConfig("z")
		c.copies, c.join = 2, []string{ns[0].addr}
		test.change(&c)
		_, err := startNode(t.Context(), c)
		require.ErrorContains(t, err, test.want, test.name)
	}
	_, err := ns[1].serveJoin(joinRequest{others[0].self.id(), 2, others[0].status().Founder})
	require.ErrorIs(t, err, errRefused, "of another cluster")
	ns.settle(t) // it is still those two
	put(t, ns[0], "k", "v")
	require.Equal(t, found("v"), get(t, ns[1], "k"))
}

// Nothing of a node runs on after its end.
func TestClose_LeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine() + 1 // in which eventually asks
	client := &http.Client{Transport: &http.Transport{}}
	ns := startAll(t, 2, "a", "b", "c")
	for i, n := range ns {
		_, err := operate(client, n.addr, fmt.Sprint(i), operation{true, "v"}, patience)
		require.NoError(t, err)
	}
	require.NoError(t, ns[0].leave())
	for _, n := range ns {
		require.NoError(t, n.close())
	}
	client.CloseIdleConnections()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
