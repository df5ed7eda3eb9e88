package chashhttp_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// Each key has the backend that the table gives it, the second time as the first.
func TestTransport_Stickiness(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c")
		table := newTable(t, servers...)
		transport := newTransport(t, table, chashhttp.Options{})
		for range 2 {
			for _, key := range keys(200) {
				want, err := table.Get(key)
				require.NoError(t, err)
				got := get(t, transport, key)
				require.Equal(t, http.StatusOK, got.status)
				require.Equal(t, nameOf(servers, want), got.backend, "key %q", key)
			}
		}
		for _, s := range servers {
			require.NotZero(t, s.requests.Load(), "requests of %s", s.name)
		}
	})
}

func nameOf(servers []*server, u *url.URL) string {
	i := slices.IndexFunc(servers, func(s *server) bool { return s.url == u })
	if i < 0 {
		return ""
	}
	return servers[i].name
}

// Requests without a key go to the backends in turn, those meant for a dead one to
// all others.
func TestTransport_NoKey(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c", "d")
		transport := newTransport(t, newTable(t, servers...), chashhttp.Options{FailureThreshold: 1000, RetryRatio: 1})
		for range 40 {
			require.Equal(t, http.StatusOK, get(t, transport, "").status)
		}
		for _, s := range servers {
			require.EqualValues(t, 10, s.requests.Load(), "requests of %s", s.name)
		}
		servers[0].kill()
		for range 400 {
			require.Equal(t, http.StatusOK, get(t, transport, "").status)
		}
		for _, s := range servers[1:] { // 110 and, of 100 more, about a third
			require.Greater(t, s.requests.Load(), int64(110), "requests of %s", s.name)
		}
	})
}

func TestTransport_Forwarding(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	tests := []struct {
		name            string
		backend, target string // what follows the host
		want            string
	}{
		{"nothing", "", "", "/"},
		{"the request's", "", "/path?x=1", "/path?x=1"},
		{"a prefix", "/base", "/path?x=1", "/base/path?x=1"},
		{"a prefix with a slash", "/base/", "/path", "/base/path"},
		{"a prefix and nothing", "/base", "", "/base/"},
		{"both queries", "/base?token=t", "/path?x=1", "/base/path?token=t&x=1"},
		{"an escaped slash", "/ba%2Fse", "/pa%2Fth", "/ba%2Fse/pa%2Fth"},
		{"two slashes", "", "//path//", "//path//"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			u, err := url.Parse(s.url.String() + test.backend)
			require.NoError(t, err)
			table, err := chash.NewMaglev([]chash.Backend[*url.URL]{{Name: "a", Value: u}})
			require.NoError(t, err)
			transport := newTransport(t, table, chashhttp.Options{})
			got, err := do(transport, newRequest(t, http.MethodPost, "http://service"+test.target, "key", strings.NewReader("body")))
			require.NoError(t, err)
			require.Equal(t, answer{http.StatusOK, "a", "body"}, got)
			require.Equal(t, test.want, s.last.Load().RequestURI)
		})
	}
}

// A host that the request was given goes through; the one that only stands for the
// backend's does not.
func TestTransport_Host(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{})
	for host, want := range map[string]string{"service": s.url.Host, "": s.url.Host, "example.org": "example.org"} {
		req := newRequest(t, http.MethodGet, "http://service/", "key", nil)
		req.Host = host
		_, err := do(transport, req)
		require.NoError(t, err)
		require.Equal(t, want, s.last.Load().Host)
	}
}

// The user of a backend's URL is for that backend alone, and not where the request
// brings an authorization of its own.
func TestTransport_User(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	u := *s.url
	u.User = url.UserPassword("user", "pass word")
	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{{Name: "a", Value: &u}})
	require.NoError(t, err)
	transport := newTransport(t, table, chashhttp.Options{})

	get(t, transport, "key")
	name, password, ok := s.last.Load().BasicAuth()
	require.Equal(t, []any{"user", "pass word", true}, []any{name, password, ok})

	req := newRequest(t, http.MethodGet, "http://service/", "key", nil)
	req.Header.Set("Authorization", "Bearer token")
	_, err = do(transport, req)
	require.NoError(t, err)
	require.Equal(t, "Bearer token", s.last.Load().Header.Get("Authorization"))

	_, err = do(transport, newRequest(t, http.MethodGet, "http://caller:secret@service/", "key", nil))
	require.NoError(t, err)
	name, _, _ = s.last.Load().BasicAuth()
	require.Equal(t, "caller", name, "an http.Client's own")

	// Without headers there is a place for one.
	resp, err := transport.RoundTrip(&http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "service"}})
	require.NoError(t, err)
	resp.Body.Close()
	name, _, _ = s.last.Load().BasicAuth()
	require.Equal(t, "user", name)
}

// The caller's request is what it was, and the answer tells which one was sent.
func TestTransport_RequestUnchanged(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	servers[0].kill() // the same holds for a retry
	for _, s := range []*server{servers[0], servers[1]} {
		req := newRequest(t, http.MethodPut, "http://user:pass@service/path?x=1", keyFor(t, table, s), strings.NewReader("body"))
		req.Header.Set("Header", "value")
		before, body, ctx := req.Clone(req.Context()), req.Body, req.Context()
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		resp.Body.Close()

		require.Equal(t, before.URL, req.URL)
		require.Equal(t, before.Header, req.Header)
		require.Equal(t, before.Host, req.Host)
		require.Equal(t, body, req.Body)
		require.Equal(t, ctx, req.Context())
		require.NotSame(t, req, resp.Request)
		require.Equal(t, servers[1].url.String()+"/path?x=1", resp.Request.URL.String())
	}
}

// RoundTrip closes the body of a request whatever becomes of it, and once.
func TestTransport_BodyClosed(t *testing.T) {
	t.Parallel()
	alive, dead := startServer(t, "alive"), startServer(t, "dead")
	dead.kill()
	closed, lost := newTransport(t, newMaglev(t, alive), chashhttp.Options{}), newMaglev(t, alive)
	require.NoError(t, closed.Close())
	tests := []struct {
		name      string
		transport *chashhttp.Transport
		change    func(*http.Request)
		wantErr   error
	}{
		{"an answer", newTransport(t, newMaglev(t, alive), chashhttp.Options{}), nil, nil},
		{"an answer, body kept", newTransport(t, newMaglev(t, alive), chashhttp.Options{KeepBody: 100}), nil, nil},
		{"refused", newTransport(t, newMaglev(t, dead), chashhttp.Options{}), nil, errAny},
		{"no backend", newTransport(t, newMaglev(t), chashhttp.Options{}), nil, chash.ErrNoBackends},
		{"no backend, body kept", newTransport(t, newMaglev(t), chashhttp.Options{KeepBody: 100}), nil, chash.ErrNoBackends},
		{"no address", newTransport(t, lost, chashhttp.Options{}), nil, chashhttp.ErrNoAddress},
		{"closed", closed, nil, chashhttp.ErrClosed},
		{"no URL", newTransport(t, newMaglev(t, alive), chashhttp.Options{}), func(r *http.Request) { r.URL = nil }, chashhttp.ErrInvalidURL},
		{"an opaque URL", newTransport(t, newMaglev(t, alive), chashhttp.Options{}),
			func(r *http.Request) { r.URL.Opaque = "//elsewhere/path" }, chashhttp.ErrInvalidURL},
		{"canceled", newTransport(t, newMaglev(t, alive), chashhttp.Options{}),
			func(r *http.Request) { *r = *r.WithContext(canceledContext()) }, context.Canceled},
	}
	require.NoError(t, lost.SetValue("alive", nil))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := &trackedBody{Reader: strings.NewReader("body")}
			req := newRequest(t, http.MethodPut, "http://service/", "key", body)
			req.ContentLength = 4
			if test.change != nil {
				test.change(req)
			}
			resp, err := test.transport.RoundTrip(req)
			if test.wantErr == nil {
				require.NoError(t, err)
				resp.Body.Close()
			} else if require.Error(t, err); test.wantErr != errAny {
				require.ErrorIs(t, err, test.wantErr)
			}
			eventually(t, func() bool { return body.closes.Load() == 1 }, "the body is closed")
		})
	}
}

// errAny stands for an error of which only that it is one is known.
var errAny = errors.New("any")

func TestTransport_NoBackends(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		s := startServer(t, "a")
		table := newTable(t)
		transport := newTransport(t, table, chashhttp.Options{})
		for _, key := range []string{"key", ""} {
			_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
			require.ErrorIs(t, err, chash.ErrNoBackends)
		}
		require.NoError(t, table.Add(backends(s)...))
		require.NoError(t, table.SetState("a", chash.Draining))
		for _, key := range []string{"key", ""} {
			_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
			require.ErrorIs(t, err, chash.ErrNoHealthyBackends)
		}
	})
}

// A backend without an address is passed over, by any request, and counts as one
// that fails.
func TestTransport_NoAddress(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]*url.URL{
		"nil": nil, "no host": {Scheme: "http", Path: "/path"}, "no scheme": {Host: "a"}, "host:port": {Scheme: "localhost", Opaque: "9999"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, "a")
			table := newMaglev(t, s)
			transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 2, ProbeInterval: 1})
			require.NoError(t, table.Add(backends(&server{name: "lost", url: u})...))
			key := keyFor(t, table, &server{url: u}, s)
			for range 2 {
				require.Equal(t, chash.Healthy, state(t, table, "lost"))
				got, err := do(transport, newRequest(t, http.MethodPost, "http://service/", key, io.MultiReader(strings.NewReader("body"))))
				require.NoError(t, err)
				require.Equal(t, answer{http.StatusOK, "a", "body"}, got)
			}
			require.Equal(t, chash.Unhealthy, state(t, table, "lost"))
			require.NoError(t, table.SetValue("lost", s.url)) // found again
			becomes(t, table, "lost", chash.Healthy)
		})
	}
}

func TestTransport_Closed(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{})
	get(t, transport, "key")
	require.EqualValues(t, 1, s.conns.Load())
	require.NoError(t, transport.Close())
	require.NoError(t, transport.Close())
	eventually(t, func() bool { return s.conns.Load() == 0 }, "the connection is closed")
	_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", "key", nil))
	require.ErrorIs(t, err, chashhttp.ErrClosed)
	require.EqualValues(t, 1, s.requests.Load())
}

// A request in flight ends as if Close had not been called.
func TestTransport_CloseInFlight(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	arrived, release := make(chan struct{}), make(chan struct{})
	s.answer(func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{})
	ended := make(chan error, 1)
	go func() {
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", "key", nil))
		ended <- err
	}()
	<-arrived
	require.NoError(t, transport.Close())
	close(release)
	require.NoError(t, <-ended)
	eventually(t, func() bool { return s.conns.Load() == 0 }, "the connection is closed")
}

func TestTransport_CloseIdleConnections(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{})
	get(t, transport, "key")
	(&http.Client{Transport: transport}).CloseIdleConnections()
	eventually(t, func() bool { return s.conns.Load() == 0 }, "the connection is closed")
	get(t, transport, "key")

	// A Base that has none to close is fine.
	base := roundTripper(func(req *http.Request) (*http.Response, error) { return nil, errAny })
	newTransport(t, newMaglev(t, s), chashhttp.Options{Base: base}).CloseIdleConnections()
}

// The connections are the Transport's own, and each backend keeps more than the two
// idle ones that http.DefaultTransport keeps, and more than the hundred of all hosts.
func TestTransport_DefaultBase(t *testing.T) {
	t.Parallel()
	const requests = 60 // of each server, at a time
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	release := make(chan struct{})
	ended := make(chan error, 2*requests)
	for _, s := range servers {
		s.answer(func(http.ResponseWriter, *http.Request) { <-release })
		key := keyFor(t, table, s)
		for range requests {
			go func() {
				_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
				ended <- err
			}()
		}
	}
	for _, s := range servers {
		eventually(t, func() bool { return s.requests.Load() == requests }, "all requests arrive at %s", s.name)
	}
	close(release)
	for range 2 * requests {
		require.NoError(t, <-ended)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for _, s := range servers {
		get(t, transport, keyFor(t, table, s))
		require.EqualValues(t, requests, s.conns.Load())
	}
}

// A program may have set a default of its own, which is then taken as it is.
func TestTransport_DefaultBaseReplaced(t *testing.T) { // not parallel: others use it
	original := http.DefaultTransport
	defer func() { http.DefaultTransport = original }()
	http.DefaultTransport = roundTripper(func(*http.Request) (*http.Response, error) { return nil, errAny })
	_, err := do(newTransport(t, newMaglev(t, startServer(t, "a")), chashhttp.Options{}), newRequest(t, http.MethodGet, "http://service/", "key", nil))
	require.ErrorIs(t, err, errAny)
}

func TestNewTransport_Errors(t *testing.T) {
	t.Parallel()
	table, key := newMaglev(t), chashhttp.Path()
	for name, nothing := range map[string]chashhttp.Table{
		"nil": nil, "a nil Maglev": (*chash.Maglev[*url.URL])(nil), "a nil Ring": (*chash.Ring[*url.URL])(nil),
	} {
		_, err := chashhttp.NewTransport(nothing, key, chashhttp.Options{})
		require.ErrorIs(t, err, chashhttp.ErrNilTable, name)
	}
	_, err := chashhttp.NewTransport(table, nil, chashhttp.Options{})
	require.ErrorIs(t, err, chashhttp.ErrNilKey)

	nan := func() float64 { var zero float64; return zero / zero }()
	for name, opts := range map[string]chashhttp.Options{
		"MaxAttempts is -1":      {MaxAttempts: -1},
		"RetryRatio is -0.1":     {RetryRatio: -0.1},
		"RetryRatio is NaN":      {RetryRatio: nan},
		"RetryRatio is 1000.1":   {RetryRatio: chashhttp.MaxRetryRatio + 0.1},
		"RetryReserve is -1":     {RetryReserve: -1},
		"KeepBody is -1":         {KeepBody: -1},
		"KeepBody is 2147483648": {KeepBody: math.MaxInt32 + 1},
		"FailureThreshold is -1": {FailureThreshold: -1},
		"ProbePath is probe":     {ProbePath: "probe"},
		"ProbePath is http://h/": {ProbePath: "http://h/"},
		"ProbePath is /%zz":      {ProbePath: "/%zz"},
		"ProbeInterval is -1ns":  {ProbeInterval: -1},
		"ProbeTimeout is -1ns":   {ProbeTimeout: -1},
	} {
		_, err := chashhttp.NewTransport(table, key, opts)
		require.ErrorIs(t, err, chashhttp.ErrInvalidOption, name)
		require.ErrorContains(t, err, name)
	}
}

// A request is asked for its key once, also if it is retried.
func TestTransport_KeyAskedOnce(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	key, asked := keyFor(t, table, servers...), 0
	transport, err := chashhttp.NewTransport(table, func(*http.Request) string { asked++; return key }, chashhttp.Options{})
	require.NoError(t, err)
	defer transport.Close()
	servers[0].kill()
	got, err := do(transport, newRequest(t, http.MethodGet, "http://service/", "", nil))
	require.NoError(t, err)
	require.Equal(t, "b", got.backend)
	require.Equal(t, 1, asked)
}

// Requests that go elsewhere since their backend is marked are in the table's SampledFallbacks.
func TestTransport_Fallbacks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		table := newTable(t, startServers(t, "a", "b")...)
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})
		transport := newTransport(t, table, chashhttp.Options{Base: base})
		ask := func() uint64 {
			for _, key := range keys(1000) { // of which one in 64 is counted
				get(t, transport, key)
			}
			return table.Stats().SampledFallbacks
		}
		require.Zero(t, ask())
		require.NoError(t, table.SetState("a", chash.Unhealthy))
		require.NotZero(t, ask())
	})
}
