package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeys_ThroughAnyNode(t *testing.T) {
	t.Parallel()
	ns := startViewed(t, "a", "b", "c", "d").nodes
	values := ns.load(t, 40)
	for key, value := range values {
		for _, n := range ns {
			require.Equal(t, found(value), get(t, n, key))
		}
	}
	ns.hold(t, values)
	for i, n := range ns {
		key := fmt.Sprintf("key-%d", i)
		require.Equal(t, done, send(t, http.MethodDelete, n, key, ""))
		values[key] = ""
		for _, n := range ns {
			require.Equal(t, notFound, get(t, n, key))
		}
	}
	ns.hold(t, values)
	for _, n := range ns {
		require.Equal(t, notFound, get(t, n, "never written"))
		require.Equal(t, done, send(t, http.MethodDelete, n, "never written", ""))
		put(t, n, "key-0", "again "+n.name)
		require.Equal(t, found("again "+n.name), get(t, ns[0], "key-0"))
	}
}

// Any bytes are a key and a value.
func TestKeys_AnyBytes(t *testing.T) {
	t.Parallel()
	ns := startViewed(t, "a", "b", "c").nodes
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
	ns := startViewed(t, "a", "b", "c").nodes
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
	conn, err := net.Dial("tcp", n.addr)
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
	ns := startViewed(t, "a", "b", "c").nodes
	put(t, ns[0], "k", "v")
	for _, n := range ns {
		require.Equal(t, reply{http.StatusOK, ""}, send(t, http.MethodHead, n, "k", ""))
		require.Equal(t, notFound, send(t, http.MethodHead, n, "none", ""))
		require.Equal(t, found("v"), get(t, n, "k"))
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := startViewed(t, "a", "b", "c")
	for i, n := range w.nodes {
		put(t, n, fmt.Sprint(i), "v")
		code, body, err := do(t.Context(), testClient, http.MethodGet, "http://"+n.addr+"/status", nil, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		var s status
		require.NoError(t, json.Unmarshal(body, &s))
		require.Equal(t, status{ID: n.self.id(), Founder: w.nodes[0].self.id(), Version: 1, Members: []string{"a", "b", "c"}, Settled: true}, s)
	}
}

// A node that is no member yet, or whose view is another, says so when a client's
// patience ends.
func TestKeys_NotNow(t *testing.T) {
	t.Parallel()
	w := startViewed(t, "a", "b", "c")
	alone := startApart(t, testConfig("alone"), testClient.Transport)
	e := entry{Key: "k"}
	require.ErrorIs(t, alone.write(t.Context(), &e), errNoView)
	_, err := alone.read(t.Context(), "k")
	require.ErrorIs(t, err, errNoView)
	w.view()
	w.log[1](machine{w.nodes[0]})
	_, err = w.nodes[0].read(t.Context(), "k")
	require.ErrorContains(t, err, errOtherView.Error())
	w.advance(true)
	put(t, w.nodes[0], "k", "v")
}
