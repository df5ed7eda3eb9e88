package main

import (
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestStickiness_Header(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags()...)
	agree(t, p, table)
	agree(t, p, table) // the second time as the first
	for _, b := range backends {
		require.NotZero(t, b.requests.Load(), "backend %s", b.name)
	}
	// Values that are written in two lines are one list.
	req := newRequest(t, http.MethodGet, p.proxy, "x", nil)
	req.Header.Add("Client", "y")
	want, err := table.Get("x,y")
	require.NoError(t, err)
	require.Equal(t, want, send(t, p.client, req).backend)
}

func TestStickiness_Cookie(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags("-key=cookie:session")...)
	for _, key := range keys(60) {
		req := newRequest(t, http.MethodGet, p.proxy, "", nil)
		req.AddCookie(&http.Cookie{Name: "other", Value: "z" + key})
		req.AddCookie(&http.Cookie{Name: "session", Value: key})
		want, err := table.Get(key)
		require.NoError(t, err)
		require.Equal(t, want, send(t, p.client, req).backend, "key %q", key)
	}
}

// A client's address, and not the port of its connection, is its key.
func TestStickiness_Address(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags("-key=address")...)
	addresses := []string{"127.0.0.1"}
	if runtime.GOOS == "linux" { // elsewhere the other loopback addresses need to be set up
		addresses = append(addresses, "127.0.0.2", "127.0.0.3", "127.1.2.3", "127.1.2.4", "127.9.9.9")
	}
	for _, address := range addresses {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
		want, err := table.Get(address)
		require.NoError(t, err)
		for range 3 {
			req := newRequest(t, http.MethodGet, p.proxy, "ignored", nil)
			require.Equal(t, want, send(t, client, req).backend, "address %s", address)
		}
	}
}

// The key is that of the request as it came, although the proxy sets this header
// on the one that goes out.
func TestStickiness_ForwardedFor(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags("-key=header:x-forwarded-for")...)
	for _, key := range keys(20) {
		req := newRequest(t, http.MethodGet, p.proxy, "", nil)
		req.Header.Set("X-Forwarded-For", key)
		want, err := table.Get(key)
		require.NoError(t, err)
		require.Equal(t, want, send(t, p.client, req).backend, "key %q", key)
		require.Equal(t, "127.0.0.1", backends.named(want).last.Load().Header.Get("X-Forwarded-For"))
	}
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-key=header:Absent", "-key=cookie:absent"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			backends := startTestBackends(t, "a", "b", "c")
			p := start(t, backends.flags(flag, "-attempts=2", "-health-down=1000")...)
			for range 30 {
				require.Equal(t, http.StatusOK, p.get(t, "").status)
			}
			for _, b := range backends {
				require.EqualValues(t, 10, b.requests.Load(), "backend %s", b.name)
			}
			// A dead one's 40 of these go to the others, to each some.
			backends.named("b").kill()
			for range 120 {
				require.Equal(t, http.StatusOK, p.get(t, "").status)
			}
			require.Greater(t, backends.named("a").requests.Load(), int64(10+40))
			require.Greater(t, backends.named("c").requests.Load(), int64(10+40))
		})
	}
}

// The path is joined, the query kept, and the backend learns who asked for what.
func TestForwarding(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	p := start(t, "-backend=a="+b.url+"/base")
	req := newRequest(t, http.MethodPost, p.proxy+"/path?x=1", "k", strings.NewReader("body"))
	req.Header.Set("X-Forwarded-For", "forged")
	require.Equal(t, answer{http.StatusOK, "a", "body"}, send(t, p.client, req))
	got := b.last.Load()
	require.Equal(t, "/base/path?x=1", got.URL.String())
	require.Equal(t, strings.TrimPrefix(b.url, "http://"), got.Host)
	require.Equal(t, "127.0.0.1", got.Header.Get("X-Forwarded-For"))
	require.Equal(t, strings.TrimPrefix(p.proxy, "http://"), got.Header.Get("X-Forwarded-Host"))
}

func TestHealth(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	b := backends.named("b")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags("-health-interval=10ms")...)
	agree(t, p, table)
	before := p.members(t)

	b.sick.Store(true)
	eventually(t, "b is unhealthy", func() bool { return p.state(t, "b") == "unhealthy" })
	// Only b's keys move, and the slots stay whose they were.
	require.NoError(t, table.SetState("b", chash.Unhealthy))
	requests := b.requests.Load()
	agree(t, p, table)
	require.Equal(t, requests, b.requests.Load())
	for i, m := range p.members(t) {
		require.Equal(t, before[i].Slots, m.Slots, "slots of %s", m.Name)
	}

	b.sick.Store(false)
	eventually(t, "b is healthy", func() bool { return p.state(t, "b") == "healthy" })
	require.NoError(t, table.SetState("b", chash.Healthy))
	agree(t, p, table)
}

// A check is a connection of its own: one that is open says nothing of whether
// the backend accepts more.
func TestHealth_ListenerClosed(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-health-interval=10ms")...)
	require.NoError(t, backends.named("b").listener.Close()) // and no connection
	eventually(t, "b is unhealthy", func() bool { return p.state(t, "b") == "unhealthy" })
	require.Equal(t, "healthy", p.state(t, "a"))
}

// The state at the start is the true one: no request meets a dead backend.
func TestHealth_AtStart(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	backends.named("c").sick.Store(true)
	p := start(t, backends.flags()...)
	table := newTable(t, []string{"a", "b", "c"})
	require.NoError(t, table.SetState("c", chash.Unhealthy))
	agree(t, p, table)
	require.Zero(t, backends.named("c").requests.Load())
}

func TestNoBackend(t *testing.T) {
	t.Parallel()
	p := start(t)
	require.Equal(t, http.StatusServiceUnavailable, p.get(t, "key").status)
	require.Equal(t, http.StatusServiceUnavailable, p.get(t, "").status)
	require.Empty(t, p.members(t))

	// One that fails its checks is better than none, and the log says what is wrong.
	sick := startTestBackend(t, "a")
	sick.sick.Store(true)
	p = start(t, "-backend=a="+sick.url)
	require.Equal(t, "unhealthy", p.state(t, "a"))
	require.Contains(t, p.log.String(), `msg="backend is unhealthy" name=a url=`+sick.url+` reason="probe of /healthz: chashhttp: status 503`)
	require.Equal(t, http.StatusOK, p.get(t, "key").status)
	sick.kill()
	require.Equal(t, http.StatusBadGateway, p.get(t, "key").status)
}
