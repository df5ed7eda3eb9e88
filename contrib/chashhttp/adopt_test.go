package chashhttp_test

import (
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A backend that did not pass its Check is added Unhealthy: it gets no request, and its
// keys once it passes a probe.
func TestAdopt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b")
		sick := servers[1]
		sick.down.Store(true)
		table := newTable(t, servers[0])
		var changes changes
		transport := newTransport(t, table, chashhttp.Options{
			ProbeInterval: 5 * time.Millisecond, ProbePath: "/probe", OnChange: changes.note,
		})
		require.Error(t, transport.Check(t.Context(), sick.url))
		require.False(t, transport.Adopt("b"), "it is unknown")
		require.False(t, transport.Adopt("a"), "it is healthy")
		require.NoError(t, table.Add(chash.Backend[*url.URL]{Name: "b", Value: sick.url, State: chash.Unhealthy}))
		require.True(t, transport.Adopt("b"))
		require.True(t, transport.Adopt("b"), "a second time")

		probed := sick.probes.Load()
		eventually(t, func() bool { return sick.probes.Load() > probed+1 }, "it is probed")
		require.Equal(t, chash.Unhealthy, state(t, table, "b"))
		key := keyFor(t, table, servers[0])
		require.Equal(t, "a", get(t, transport, key).backend)

		sick.down.Store(false)
		becomes(t, table, "b", chash.Healthy)
		eventually(t, func() bool { return changes.String() == "b healthy" }, "the return is told")
	})
}

// With NoProbe nobody looks after backends, nor does a closed Transport.
func TestAdopt_Nobody(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a")
	for name, opts := range map[string]chashhttp.Options{"NoProbe": {NoProbe: true}, "closed": {}} {
		table := newMaglev(t, servers...)
		transport := newTransport(t, table, opts)
		if name == "closed" {
			require.NoError(t, transport.Close())
		}
		require.NoError(t, table.SetState("a", chash.Unhealthy))
		require.False(t, transport.Adopt("a"), name)
	}
}

// Probes over connections of their own find a backend that accepts no more, although
// those that are open still serve.
func TestProbeBase(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		ProbeAll: true, ProbeInterval: 5 * time.Millisecond,
		ProbeBase: &http.Transport{DisableKeepAlives: true},
	})
	key := keyFor(t, table, servers[1])
	require.Equal(t, "b", get(t, transport, key).backend)
	require.NoError(t, servers[1].listener.Close())
	servers[1].release = reserve(servers[1].listener.Addr().(*net.TCPAddr))
	becomes(t, table, "b", chash.Unhealthy)
}
