package chashhttp_test

import (
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A backend that refuses connections is marked after so many failures; only its keys
// move, and when a probe finds it again the same keys come back.
func TestHealth_OutAndBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c")
		table := newTable(t, servers...)
		var changes changes
		transport := newTransport(t, table, chashhttp.Options{
			FailureThreshold: 3, ProbeInterval: 5 * time.Millisecond, OnChange: changes.note,
		})
		all := keys(100)
		before := homes(t, transport, all)

		servers[1].kill()
		key := keyFor(t, table, servers[1])
		for range 3 {
			require.Equal(t, chash.Healthy, state(t, table, "b"))
			get(t, transport, key)
		}
		require.Equal(t, chash.Unhealthy, state(t, table, "b"))
		require.Equal(t, "b unhealthy", changes.String())
		require.Equal(t, servers[1].url, changes.list[0].URL)
		var refused *net.OpError
		require.ErrorAs(t, changes.list[0].Err, &refused)
		require.Equal(t, "dial", refused.Op)
		for key, home := range homes(t, transport, all) {
			if before[key] != "b" {
				require.Equal(t, before[key], home, "key %q", key)
			}
		}
		require.EqualValues(t, 3, transport.Stats().Retries, "nobody is sent to b any more")

		servers[1].revive(t)
		becomes(t, table, "b", chash.Healthy)
		require.Equal(t, before, homes(t, transport, all))
		eventually(t, func() bool { return changes.String() == "b unhealthy, b healthy" }, "both changes are told")
		require.NoError(t, changes.list[1].Err)
	})
}

// Only failures in a row count, whoever's requests they are.
func TestHealth_InARow(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 3, RetryRatio: 1})
	a := []string{keyFor(t, table, servers[0], servers[1]), keyFor(t, table, servers[0], servers[2])}
	b := keyFor(t, table, servers[1])
	attempts := 0
	fail := func(times int) {
		servers[0].down.Store(true)
		for range times {
			attempts++
			get(t, transport, a[attempts%2])
			get(t, transport, b) // the success of another changes nothing
		}
		servers[0].down.Store(false)
	}
	fail(2)
	get(t, transport, a[0])
	fail(2)
	get(t, transport, a[1])
	fail(2)
	require.Equal(t, chash.Healthy, state(t, table, "a"))
	fail(1)
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	require.Equal(t, chash.Healthy, state(t, table, "b"))
}

func TestHealth_Never(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: math.MaxInt})
	servers[0].down.Store(true)
	for range 20 {
		get(t, transport, keyFor(t, table, servers[0]))
	}
	require.Equal(t, chash.Healthy, state(t, table, "a"))
}

func TestHealth_DefaultThreshold(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	key := keyFor(t, table, servers[0])
	servers[0].down.Store(true)
	for range chashhttp.DefaultFailureThreshold {
		require.Equal(t, chash.Healthy, state(t, table, "a"))
		get(t, transport, key)
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// With an answer of a FailureStatus it is as without one.
func TestHealth_FailureStatus(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	var changes changes
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 2,
		FailureStatus:    func(status int) bool { return status == http.StatusBadGateway },
		OnChange:         changes.note,
	})
	status := http.StatusInternalServerError
	servers[0].answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	post := func() {
		_, err := do(transport, newRequest(t, http.MethodPost, "http://service/", keyFor(t, table, servers[0]), nil))
		require.NoError(t, err)
	}
	post()
	post()
	require.Equal(t, chash.Healthy, state(t, table, "a"))
	status = http.StatusBadGateway
	post()
	post()
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	require.EqualError(t, changes.list[0].Err, "chashhttp: status 502 Bad Gateway")
}

// The last healthy server is not marked, and is when another is there again.
func TestHealth_Last(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "drained")
	table := newMaglev(t, servers...)
	require.NoError(t, table.SetState("drained", chash.Draining))
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, RetryRatio: 10})
	key := keyFor(t, table, servers[1])
	send := func() error {
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
		return err
	}
	servers[0].down.Store(true)
	servers[1].down.Store(true)
	require.Error(t, send())
	for range 5 {
		require.Error(t, send())
		require.Equal(t, chash.Unhealthy, state(t, table, "b"), "the first that failed")
		require.Equal(t, chash.Healthy, state(t, table, "a"), "the last that is left")
	}
	servers[0].down.Store(false)
	require.NoError(t, send())

	servers[0].down.Store(true)
	require.Error(t, send())
	require.NoError(t, table.SetState("b", chash.Healthy))
	servers[1].down.Store(false)
	require.NoError(t, send())
	get(t, transport, keyFor(t, table, servers[0]))
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// What is marked: every backend at the server that failed, and no other.
func TestHealth_SameAddress(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, "a"), startServer(t, "b")
	again, elsewhere := *a.url, *a.url
	again.User = url.User("somebody")
	elsewhere.Path = "/elsewhere"
	table := newMaglev(t, a, b, &server{name: "twin", url: a.url}, &server{name: "copy", url: &again}, &server{name: "elsewhere", url: &elsewhere})
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, ProbeInterval: 2 * time.Millisecond})
	a.answer(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/elsewhere/" {
			panic(http.ErrAbortHandler)
		}
	})
	get(t, transport, keyFor(t, table, a, b))
	for _, name := range []string{"a", "twin", "copy"} {
		require.Equal(t, chash.Unhealthy, state(t, table, name), name)
	}
	for _, name := range []string{"b", "elsewhere"} {
		require.Equal(t, chash.Healthy, state(t, table, name), name)
	}
	a.hook.Store(nil)
	for _, name := range []string{"a", "twin", "copy"} {
		becomes(t, table, name, chash.Healthy)
	}
}

// A table that is set anew from addresses has the same servers as before: failures
// go on being counted.
func TestHealth_ParsedAnew(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 3})
	servers[0].down.Store(true)
	key := keyFor(t, table, servers[0])
	for range 3 {
		get(t, transport, key)
		fresh := backends(servers...)
		for i := range fresh {
			u := *fresh[i].Value
			fresh[i].Value = &u
			b, _ := table.Backend(fresh[i].Name)
			fresh[i].State = b.State
		}
		require.NoError(t, table.Set(fresh))
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// down makes a backend marked and leaves it so.
func down(t *testing.T, table structure, transport *chashhttp.Transport, s *server) {
	t.Helper()
	key := keyFor(t, table, s)
	s.down.Store(true)
	eventually(t, func() bool {
		get(t, transport, key)
		return state(t, table, s.name) == chash.Unhealthy
	}, "%s is marked", s.name)
}

// A state that somebody else has set stays, whatever probes find.
func TestHealth_OthersStates(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: 2 * time.Millisecond,
	})
	probed := func(s *server) {
		t.Helper()
		from := s.probes.Load()
		eventually(t, func() bool { return s.probes.Load() >= from+2 }, "%s is probed", s.name)
	}
	// One that was marked and is drained then. That of c shows that probes go on.
	down(t, table, transport, servers[0])
	probed(servers[0])
	require.NoError(t, table.SetState("a", chash.Draining))
	down(t, table, transport, servers[2])
	probed(servers[2])
	require.Equal(t, chash.Draining, state(t, table, "a"))
	// It is forgotten: its user may make it Unhealthy now.
	require.NoError(t, table.SetState("a", chash.Unhealthy))
	servers[0].down.Store(false)
	from := servers[0].probes.Load()
	probed(servers[2])
	require.Equal(t, from, servers[0].probes.Load())
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	// One that was never marked is not probed at all.
	require.Zero(t, servers[1].probes.Load())
}

// holdProbe has a server answer no request, and the first probe only after release.
func holdProbe(s *server) (arrived, release chan struct{}) {
	arrived, release = make(chan struct{}), make(chan struct{})
	s.answer(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/probe" {
			panic(http.ErrAbortHandler)
		}
		close(arrived)
		<-release
	})
	return arrived, release
}

// A drain that begins while a probe is under way is not undone by it.
func TestHealth_DrainDuringProbe(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: time.Millisecond, ProbeTimeout: time.Minute,
	})
	arrived, release := holdProbe(servers[0])
	get(t, transport, keyFor(t, table, servers[0]))
	<-arrived
	require.NoError(t, table.SetState("a", chash.Draining))
	close(release)
	eventually(t, func() bool { return !chashhttp.Probing(transport) }, "nothing is left to probe")
	require.Equal(t, chash.Draining, state(t, table, "a"))
}

// A backend that was removed is forgotten, and one whose value is another by now is
// probed there.
func TestHealth_Moved(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c", "elsewhere")
	table := newMaglev(t, servers[:3]...)
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: 2 * time.Millisecond,
	})
	down(t, table, transport, servers[0])
	down(t, table, transport, servers[1])
	require.NoError(t, table.Remove("a"))
	require.NoError(t, table.SetValue("b", servers[3].url))
	becomes(t, table, "b", chash.Healthy)
	require.NotZero(t, servers[3].probes.Load())
	eventually(t, func() bool { return !chashhttp.Probing(transport) }, "nothing is left to probe")
	_, found := table.Backend("a")
	require.False(t, found)
}

// A probe that passes says nothing of where its backend has moved to meanwhile.
func TestHealth_MovedDuringProbe(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "elsewhere")
	table := newMaglev(t, servers[:2]...)
	var changes changes
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: time.Millisecond, ProbeTimeout: time.Minute, OnChange: changes.note,
	})
	arrived, release := holdProbe(servers[0])
	servers[2].down.Store(true)
	get(t, transport, keyFor(t, table, servers[0]))
	<-arrived
	require.NoError(t, table.SetValue("a", servers[2].url))
	close(release)
	eventually(t, func() bool { return servers[2].probes.Load() > 0 }, "it is probed where it is now")
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	servers[2].down.Store(false)
	becomes(t, table, "a", chash.Healthy)
	eventually(t, func() bool { return changes.String() == "a unhealthy, a healthy" }, "both changes are told")
	require.Equal(t, servers[2].url, changes.list[1].URL)
}

// What a probe asks for, and what passes.
func TestHealth_Probe(t *testing.T) {
	t.Parallel()
	const never = 0
	tests := []struct {
		name   string
		opts   chashhttp.Options
		base   string // path and query of the backend
		want   string // what is asked for
		status int
		passes bool
	}{
		{"by default anything that answers", chashhttp.Options{}, "", "/", 404, true},
		{"below the backend's path", chashhttp.Options{}, "/base", "/base/", 500, true},
		{"but no failure", chashhttp.Options{FailureStatus: func(s int) bool { return s == 503 }}, "", "/", 503, false},
		{"a path and a query", chashhttp.Options{ProbePath: "/check?full"}, "/base?x=1", "/base/check?x=1&full", 204, true},
		{"a redirect is no answer", chashhttp.Options{ProbePath: "/check"}, "", "/check", 302, false},
		{"nor is a failure", chashhttp.Options{ProbePath: "/check"}, "", "/check", 500, false},
		{"nor is one that is not there", chashhttp.Options{ProbePath: "/check"}, "", "/check", 404, false},
		{"what the caller says", chashhttp.Options{ProbePath: "/check", ProbeStatus: func(s int) bool { return s == 418 }}, "", "/check", 418, true},
		{"and nothing else", chashhttp.Options{ProbePath: "/check", ProbeStatus: func(s int) bool { return s == 418 }}, "", "/check", 200, false},
		{"no answer", chashhttp.Options{}, "", "/", never, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b")
			u, err := url.Parse("http://user:pass@" + servers[0].url.Host + test.base)
			require.NoError(t, err)
			servers[0].url = u
			table := newMaglev(t, servers...)
			test.opts.FailureThreshold, test.opts.ProbeInterval = 1, 2*time.Millisecond
			transport := newTransport(t, table, test.opts)
			probes := make(chan *http.Request, 100)
			servers[0].answer(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(keyHeader) != "" || test.status == never {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(test.status)
				if test.status != http.StatusNoContent {
					_, _ = io.WriteString(w, "some text")
				}
				select {
				case probes <- r:
				default:
				}
			})
			get(t, transport, keyFor(t, table, servers[0]))
			if test.status == never {
				from := servers[0].requests.Load()
				eventually(t, func() bool { return servers[0].requests.Load() > from+3 }, "it is probed")
			} else {
				probe := <-probes
				require.Equal(t, test.want, probe.RequestURI)
				require.Equal(t, http.MethodGet, probe.Method)
				require.Equal(t, u.Host, probe.Host)
				user, _, _ := probe.BasicAuth()
				require.Equal(t, "user", user)
			}
			if test.passes {
				becomes(t, table, "a", chash.Healthy)
				return
			}
			if test.status != never {
				first, second := <-probes, <-probes // which began when the first had been judged
				require.Equal(t, first.RemoteAddr, second.RemoteAddr, "one connection serves all probes")
			}
			require.Equal(t, chash.Unhealthy, state(t, table, "a"))
		})
	}
}

// A backend that does not answer its probe in time fails it, and does not keep that of
// another waiting.
func TestHealth_ProbeTimeout(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: time.Millisecond, ProbeTimeout: 50 * time.Millisecond,
	})
	ended := make(chan struct{}, 100)
	servers[0].answer(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/probe" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	get(t, transport, keyFor(t, table, servers[0]))
	down(t, table, transport, servers[1])
	servers[1].down.Store(false)
	becomes(t, table, "b", chash.Healthy)
	<-ended
	<-ended
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// Who has checks of his own brings backends back himself.
func TestHealth_NoProbe(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: time.Nanosecond, NoProbe: true,
	})
	down(t, table, transport, servers[0])
	require.False(t, chashhttp.Probing(transport))
	require.NoError(t, transport.Close())
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	require.Zero(t, servers[0].probes.Load())
}

// Close ends a probe that is under way, waits for it, and leaves no backend behind
// that nobody would bring back.
func TestHealth_Close(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	var changes changes
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: time.Millisecond, ProbeTimeout: time.Hour, OnChange: changes.note,
	})
	arrived := make(chan struct{})
	servers[0].answer(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/probe" {
			panic(http.ErrAbortHandler)
		}
		close(arrived)
		<-r.Context().Done()
	})
	get(t, transport, keyFor(t, table, servers[0]))
	<-arrived
	require.NoError(t, table.SetState("b", chash.Unhealthy)) // not the Transport's doing
	require.NoError(t, transport.Close())
	require.Equal(t, chash.Healthy, state(t, table, "a"))
	require.Equal(t, chash.Unhealthy, state(t, table, "b"))
	require.Equal(t, "a unhealthy, a healthy", changes.String())
	for _, s := range servers {
		eventually(t, func() bool { return s.conns.Load() == 0 }, "no connection to %s is left", s.name)
	}
}

// After Close nothing is marked, also not by a request that was in flight.
func TestHealth_FailureAfterClose(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, ProbeInterval: time.Millisecond})
	arrived, release := make(chan struct{}), make(chan struct{})
	servers[0].answer(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
		panic(http.ErrAbortHandler)
	})
	ended := make(chan error, 1)
	go func() {
		_, err := do(transport, newRequest(t, http.MethodPost, "http://service/", keyFor(t, table, servers[0]), nil))
		ended <- err
	}()
	<-arrived
	require.NoError(t, transport.Close())
	close(release)
	require.Error(t, <-ended)
	require.Equal(t, chash.Healthy, state(t, table, "a"))
	require.False(t, chashhttp.Probing(transport))
}

// One goroutine probes while a backend is marked, and none otherwise.
func TestHealth_Goroutines(t *testing.T) { // not parallel: it counts those of all tests
	servers := startServers(t, "a", "b", "c", "d")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 1, ProbeInterval: 20 * time.Millisecond, RetryRatio: 1, MaxEjected: 1,
	})
	get(t, transport, "key")
	require.Zero(t, probers())
	for range 2 {
		for _, s := range servers[:3] {
			down(t, table, transport, s)
		}
		require.Equal(t, 1, probers())
		for _, s := range servers[:3] {
			s.down.Store(false)
		}
		eventually(t, func() bool { return probers() == 0 }, "no goroutine is left")
		for _, s := range servers {
			require.Equal(t, chash.Healthy, state(t, table, s.name))
		}
	}
	down(t, table, transport, servers[0])
	require.Equal(t, 1, probers())
	require.NoError(t, transport.Close())
	eventually(t, func() bool { return probers() == 0 }, "its last step is to say that it ends")
}

// What was in flight when a backend was marked may fail after that. It does not count
// any more when the backend is back, whoever brought it back.
func TestHealth_BeginsAnew(t *testing.T) {
	t.Parallel()
	for name, noProbe := range map[string]bool{"after a probe": false, "after a check of the caller's": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b")
			table := newMaglev(t, servers...)
			key := keyFor(t, table, servers[0])
			arrived, release := make(chan struct{}), make(chan struct{})
			var recovered atomic.Bool
			servers[0].answer(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/held":
					close(arrived)
					<-release
				case r.URL.Path == "/probe" && recovered.Load():
					return
				}
				panic(http.ErrAbortHandler)
			})
			transport := newTransport(t, table, chashhttp.Options{
				FailureThreshold: 2, ProbePath: "/probe", ProbeInterval: time.Millisecond, NoProbe: noProbe,
			})
			fail := func(path string) error {
				_, err := do(transport, newRequest(t, http.MethodPost, "http://service"+path, key, nil))
				return err
			}
			held := make(chan error, 1)
			if !noProbe {
				go func() { held <- fail("/held") }()
				<-arrived
			}
			require.Error(t, fail("/"))
			require.Error(t, fail("/"))
			require.Equal(t, chash.Unhealthy, state(t, table, "a"))
			if noProbe {
				require.NoError(t, table.SetState("a", chash.Healthy))
			} else {
				close(release)
				require.Error(t, <-held)
				recovered.Store(true)
				becomes(t, table, "a", chash.Healthy)
				eventually(t, func() bool { return !chashhttp.Probing(transport) }, "it was brought back")
			}
			if noProbe { // one that a probe has brought back returns gently
				require.Error(t, fail("/"))
			}
			require.Equal(t, chash.Healthy, state(t, table, "a"))
			require.Error(t, fail("/"))
			require.Equal(t, chash.Unhealthy, state(t, table, "a"))
		})
	}
}

// Close returns when a probe under way has, and not before.
func TestHealth_CloseWaits(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	arrived, canceled, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/probe" {
			close(arrived)
			<-req.Context().Done()
			close(canceled)
			<-release
		}
		return nil, errAny
	})
	transport := newTransport(t, table, chashhttp.Options{
		Base: base, FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: time.Millisecond, ProbeTimeout: time.Hour,
	})
	_, err := do(transport, newRequest(t, http.MethodPost, "http://service/", keyFor(t, table, servers[0]), nil))
	require.ErrorIs(t, err, errAny)
	<-arrived
	closed := make(chan error)
	go func() { closed <- transport.Close() }()
	<-canceled
	require.Equal(t, chash.Unhealthy, state(t, table, "a"), "Close is not over")
	select {
	case <-closed:
		require.Fail(t, "Close returned while a probe was under way")
	default:
	}
	close(release)
	require.NoError(t, <-closed)
	require.Equal(t, chash.Healthy, state(t, table, "a"))
}

// Two that use one table do not take each other's backends for their own.
func TestHealth_TwoTransports(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	first := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
	second := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
	down(t, table, first, servers[0])
	require.NoError(t, second.Close())
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	require.NoError(t, first.Close())
	require.Equal(t, chash.Healthy, state(t, table, "a"))
}
