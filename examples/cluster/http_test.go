package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeys_ThroughAnyNode(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c", "d")
	values := ns.load(t, 40)
	for key, value := range values {
		for _, n := range ns {
			require.Equal(t, found(value), get(t, n, key))
		}
	}
	ns.hold(t, values)
	for i, n := range ns {
		key := fmt.Sprintf("key-%d", i)
		require.Equal(t, reply{http.StatusNoContent, ""}, send(t, http.MethodDelete, n, key, ""))
		values[key] = ""
		for _, n := range ns {
			require.Equal(t, notFound, get(t, n, key))
		}
	}
	ns.hold(t, values)
	for _, n := range ns {
		require.Equal(t, notFound, get(t, n, "never written"))
		require.Equal(t, reply{http.StatusNoContent, ""}, send(t, http.MethodDelete, n, "never written", ""))
		put(t, n, "key-0", "again "+n.name)
		require.Equal(t, found("again "+n.name), get(t, ns[0], "key-0"))
	}
}

// Any bytes are a key and a value.
func TestKeys_AnyBytes(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	for _, key := range []string{"a b", "a/b", "a//b", "/", "a?b#c", "a%2Fb", "ü", "\xff\xfe", "\x00", "", ".", "..", "a/../b", "./", strings.Repeat("k", 1000)} {
		for _, n := range ns {
			value := "\x00\xff " + n.name
			put(t, n, key, value)
			for _, m := range ns {
				require.Equal(t, found(value), get(t, m, key), "%q", key)
			}
		}
		ns.hold(t, map[string]string{key: "\x00\xff c"})
	}
	put(t, ns[0], "empty", "")
	require.Equal(t, found(""), get(t, ns[1], "empty"))
}

func TestRequests_Refused(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	put(t, ns[0], "k", "v")
	largest := strings.Repeat("v", largestValue)
	for _, n := range ns {
		require.Equal(t, http.StatusRequestEntityTooLarge, send(t, http.MethodPut, n, "k", largest+"v").status)
		require.Equal(t, http.StatusMethodNotAllowed, send(t, http.MethodPost, n, "k", "other").status)
		require.Equal(t, http.StatusBadRequest, sendPath(t, n, "/kv/%zz"))
		require.Equal(t, http.StatusNotFound, sendPath(t, n, "/kv"))
		require.Equal(t, found("v"), get(t, n, "k"))
	}
	put(t, ns[0], "k", largest)
	require.Equal(t, found(largest), get(t, ns[1], "k"))
}

// sendPath sends a request with a path that need not be well-formed, and returns the
// status.
func sendPath(t *testing.T, n *node, path string) int {
	t.Helper()
	conn, err := net.Dial("tcp", n.http)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// A HEAD is a read, on whatever node it arrives.
func TestHead(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	put(t, ns[0], "k", "v")
	for _, n := range ns {
		require.Equal(t, reply{http.StatusOK, ""}, send(t, http.MethodHead, n, "k", ""))
		require.Equal(t, notFound, send(t, http.MethodHead, n, "none", ""))
		require.Equal(t, found("v"), get(t, n, "k"))
	}
}

// Two nodes each of which takes the other for the only one pass a request to and
// fro, but not for ever.
func TestForwarding_CannotLoop(t *testing.T) {
	t.Parallel()
	a, b := startApart(t, testConfig("a")), startApart(t, testConfig("b"))
	a.tell(t, b)
	b.tell(t, a)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		got := send(t, method, a, "k", "v", passedOnHeader, "x")
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Contains(t, got.body, errOtherView.Error())
	}
	// A client's own request is tried again, until the views agree.
	done := make(chan reply)
	go func() {
		r, _ := exchange(http.MethodPut, a, "k", "v")
		done <- r
	}()
	a.tell(t, a, b)
	b.tell(t, a, b)
	require.Equal(t, reply{http.StatusNoContent, ""}, <-done)
	nodes{a, b}.settle(t)
	nodes{a, b}.hold(t, map[string]string{"k": "v"})
}

func TestWithoutNodes(t *testing.T) {
	t.Parallel()
	alone := startApart(t, testConfig("alone")) // and it does not even know itself
	got := send(t, http.MethodGet, alone, "k", "", passedOnHeader, "x")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.body, errNoNode.Error())
}

func TestStatus(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	ns.load(t, 30)
	for _, n := range ns {
		status, body, err := do(t.Context(), testClient, http.MethodGet, "http://"+n.http+"/status", nil, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.JSONEq(t, fmt.Sprintf(`{"name": %q, "members": ["a", "b", "c"], "draining": false, "ring": %q,
			"settled": true, "incoming": 0, "outgoing": 0, "moved": 0}`, n.name, ns[0].current().id), string(body))
	}
}

// While a holder does not answer, a key can be read but not written. What was
// written halfway reaches it when it answers again.
func TestWrite_HolderDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	key := keyOf(t, "a b c:a b")
	put(t, ns[0], key, "old")
	require.NoError(t, ns[1].server.Close())
	require.Equal(t, found("old"), get(t, ns[2], key))
	require.Equal(t, http.StatusServiceUnavailable, send(t, http.MethodPut, ns[0], key, "new", passedOnHeader, "x").status)
	require.Equal(t, 1, ns[0].status().Outgoing)
	require.False(t, ns[0].status().Settled)
	require.Equal(t, "old", live(ns[1].store, key))

	serveAgain(t, ns[1])
	ns.settle(t)
	ns.hold(t, map[string]string{key: "new"})
}

// A first holder that does not answer leaves the reads to the others.
func TestRead_HolderDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	key := keyOf(t, "a b c:a b")
	put(t, ns[2], key, "v")
	require.NoError(t, ns[0].server.Close())
	require.Equal(t, found("v"), get(t, ns[2], key))
	require.Equal(t, http.StatusServiceUnavailable, send(t, http.MethodPut, ns[2], key, "w", passedOnHeader, "x").status)
}

// A holder that has a later version, which the first holder never saw, makes that
// one go past it.
func TestWrite_PastWhatAnotherHolderHas(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	key := keyOf(t, "a b c:a b")
	e := ns[0].store.put("a", "other", nil, false)
	ahead := version{e.Version.Time + int64(patience), "z"}
	ns[1].store.merge(entry{Key: key, Value: []byte("left over"), Version: ahead})
	put(t, ns[2], key, "v")
	ns.settle(t)
	ns.hold(t, map[string]string{key: "v"})
	e, _ = ns[1].store.get(key)
	require.Positive(t, e.Version.compare(ahead))
}

// A write that was given up is not done later, when another may have come after it.
func TestWrite_GivenUp(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ns[0].write(ctx, ns[0].current(), "k", []byte("v"), false), context.Canceled)
	require.Empty(t, live(ns[0].store, "k"))
}

// Writers of one key: in the end all holders have the same, and it is one of the
// last writes.
func TestWrite_Concurrent(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	const writers, writes = 8, 20
	done := make(chan error, writers)
	for w := range writers {
		go func() {
			for i := range writes {
				r, err := exchange(http.MethodPut, ns[w%3], "k", fmt.Sprintf("%d of writer %d", i, w))
				if err == nil && r.status != http.StatusNoContent {
					err = fmt.Errorf("%v", r)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		require.NoError(t, <-done)
	}
	ns.settle(t)
	got := get(t, ns[0], "k")
	ns.hold(t, map[string]string{"k": got.body})
	require.True(t, slices.ContainsFunc([]int{0, 1, 2, 3, 4, 5, 6, 7}, func(w int) bool {
		return got.body == fmt.Sprintf("%d of writer %d", writes-1, w)
	}), got.body)
}

// A write that fails only when the key is no longer the node's, and was handed over,
// leaves nothing to do.
func TestWrite_FailsAfterHandOver(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b", "c")
	a := ns[0]
	key := keyOf(t, "a b c:a b", "b c:b c")
	gate := newGate()
	a.peers.Transport = gate
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- a.write(ctx, a.current(), key, []byte("v"), false) }()
	eventually(t, "it asks the other holder", func() bool { return gate.arrived.Load() > 0 })
	for _, n := range ns {
		n.tellDraining(t, ns[1:], ns[:1])
	}
	eventually(t, "it is handed over", func() bool { return a.status().Settled })
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	ns.settle(t)
	ns.hold(t, map[string]string{key: "v"})
}
