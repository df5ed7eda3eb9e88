package chashhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// What goes wrong for real: processes that are stopped, listeners that say nothing,
// connections that are reset.

// A process that is stopped keeps its connections and says nothing. Its keys are served
// by others after the limit of an attempt, and at once when it is marked.
func TestFault_Stopped(t *testing.T) {
	t.Parallel()
	processes, servers := startProcesses(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{AttemptTimeout: 100 * time.Millisecond})
	key := keyFor(t, table, servers[0])
	require.Equal(t, "a", get(t, transport, key).backend)
	processes[0].stop(t)
	for range chashhttp.DefaultFailureThreshold {
		require.NotEqual(t, "a", get(t, transport, key).backend)
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	processes[0].cont()
}

// The limit is there without being asked for.
func TestFault_StoppedByDefault(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the default limit")
	}
	t.Parallel()
	processes, servers := startProcesses(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	processes[0].stop(t)
	var users sync.WaitGroup
	for range chashhttp.DefaultFailureThreshold {
		users.Add(1)
		go func() {
			defer users.Done()
			req := newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, servers[0]), nil)
			if got, err := do(transport, req); err != nil || got.backend != "b" {
				t.Errorf("got %v, %v, want an answer of b", got, err)
			}
		}()
	}
	users.Wait()
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// A deadline of the caller's is evidence, a cancellation is not.
func TestFault_Deadlines(t *testing.T) {
	t.Parallel()
	processes, servers := startProcesses(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	key := keyFor(t, table, servers[0])
	processes[0].stop(t)
	for range 2 * chashhttp.DefaultFailureThreshold {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Millisecond, cancel)
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, chash.Healthy, state(t, table, "a"), "impatient users say nothing")
	client := &http.Client{Transport: transport, Timeout: 50 * time.Millisecond}
	failed := 0
	for range 20 {
		resp, err := client.Do(newRequest(t, http.MethodGet, "http://service/", key, nil))
		if err != nil {
			failed++
			continue
		}
		resp.Body.Close()
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	require.LessOrEqual(t, failed, chashhttp.DefaultFailureThreshold+2, "a slow machine lets b be late too")
}

// Deadlines that are too short for a backend which answers others do not take it out.
func TestFault_ShortDeadlines(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	servers[0].answer(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	})
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 2})
	key := keyFor(t, table, servers[0])
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/slow", key, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		get(t, transport, key)
	}
	require.Equal(t, chash.Healthy, state(t, table, "a"))
}

// A server that accepts connections and says nothing, and the like.
func listen(t *testing.T, serve func(net.Conn)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go serve(conn)
		}
	}()
	return &server{name: "odd", url: &url.URL{Scheme: "http", Host: l.Addr().String()}}
}

// reset closes a connection with a reset.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// A backend that does wrong in one way or another costs nobody an answer, and is found.
func TestFault_OddServers(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(net.Conn){
		"says nothing":         func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"resets at once":       reset,
		"reads and closes":     func(conn net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(conn)); conn.Close() },
		"resets in the header": func(conn net.Conn) { begin(conn, "HTTP/1.1 200 OK\r\nContent-Le"); reset(conn) },
		"stops in the header":  func(conn net.Conn) { begin(conn, "HTTP/1.1 200 OK\r\nContent-Le") },
		"status 000":           func(conn net.Conn) { begin(conn, "HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n") },
		"status 099":           func(conn net.Conn) { begin(conn, "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd, good := listen(t, serve), startServer(t, "good")
			table := newMaglev(t, odd, good)
			transport := newTransport(t, table, chashhttp.Options{AttemptTimeout: 200 * time.Millisecond, FailureThreshold: 3})
			for range 3 {
				require.Equal(t, chash.Healthy, state(t, table, "odd"))
				require.Equal(t, "good", get(t, transport, keyFor(t, table, odd)).backend)
			}
			require.Equal(t, chash.Unhealthy, state(t, table, "odd"))
		})
	}
}

// begin reads a request and writes the beginning of an answer.
func begin(conn net.Conn, answer string) {
	_, _ = http.ReadRequest(bufio.NewReader(conn))
	_, _ = io.WriteString(conn, answer)
}

// Answers that break off are their reader's to notice, and count nevertheless.
func TestFault_ResetInBody(t *testing.T) {
	t.Parallel()
	odd := listen(t, func(conn net.Conn) {
		begin(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		reset(conn)
	})
	table := newMaglev(t, odd, startServer(t, "good"))
	transport := newTransport(t, table, chashhttp.Options{})
	key := keyFor(t, table, odd)
	for range 10 {
		_, _ = do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "odd"))
}

// A redirect to another host does not reach a backend, nor do its cookies.
func TestFault_RedirectElsewhere(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "http://login.test/session", http.StatusFound)
		}
	})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	jar.SetCookies(&url.URL{Scheme: "http", Host: "login.test"}, []*http.Cookie{{Name: "session", Value: "secret"}})
	send := func(opts chashhttp.Options) (*http.Response, error) {
		client := &http.Client{Transport: newTransport(t, newMaglev(t, s), opts), Jar: jar}
		return client.Do(newRequest(t, http.MethodGet, "http://service/", "key", nil))
	}
	_, err = send(chashhttp.Options{})
	require.ErrorIs(t, err, chashhttp.ErrForeignHost)
	require.ErrorContains(t, err, "login.test")
	require.EqualValues(t, 1, s.requests.Load())

	var elsewhere *http.Request
	resp, err := send(chashhttp.Options{OtherHosts: roundTripper(func(req *http.Request) (*http.Response, error) {
		elsewhere = req
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	})})
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.Equal(t, "http://login.test/session", elsewhere.URL.String())
	require.Equal(t, "session=secret", elsewhere.Header.Get("Cookie"))
	require.EqualValues(t, 2, s.requests.Load())
}

func TestHosts(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	for _, test := range []struct {
		hosts  []string
		target string
		ours   bool
	}{
		{nil, "http://service/", true},
		{nil, "http://SERVICE/", true},
		{nil, "http://service:80/", true},
		{nil, "http://service:8080/", false},
		{nil, "https://service:80/", false},
		{nil, "https://service/", true},
		{nil, "http://service.test/", false},
		{[]string{"Cache.test:8080", "[::1]"}, "http://cache.test:8080/", true},
		{[]string{"Cache.test:8080", "[::1]"}, "http://[0:0::1]:80/", true},
		{[]string{"Cache.test:8080", "[::1]"}, "http://service/", false},
		{[]string{"cache.test:443"}, "https://cache.test/", true},
		{[]string{"cache.test:443"}, "http://cache.test/", false},
		{[]string{"*"}, "http://whatever/", true},
	} {
		transport := newTransport(t, newMaglev(t, s), chashhttp.Options{Hosts: test.hosts})
		_, err := do(transport, newRequest(t, http.MethodGet, test.target, "key", nil))
		if test.ours {
			require.NoError(t, err, "%q of %q", test.target, test.hosts)
		} else {
			require.ErrorIs(t, err, chashhttp.ErrForeignHost, "%q of %q", test.target, test.hosts)
		}
	}
}

// A request that no backend survives takes out no more than MaxEjected of them.
func TestFault_Poison(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c", "d", "e", "f")
	for _, s := range servers {
		s.answer(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/poison" {
				panic(http.ErrAbortHandler)
			}
		})
	}
	out := func(table structure) (out int) {
		for _, b := range table.Backends() {
			if b.State == chash.Unhealthy {
				out++
			}
		}
		return out
	}
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	poison := func(key string) {
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/poison", key, nil))
		require.Error(t, err)
	}
	for range 10 {
		poison("one client")
	}
	require.LessOrEqual(t, out(table), 2, "five of its ten count against its own backend, five against the next")
	for _, key := range keys(100) {
		poison(key)
	}
	require.Equal(t, 3, out(table), "half of six")

	table = newMaglev(t, servers...)
	transport = newTransport(t, table, chashhttp.Options{MaxEjected: 0.1, RetryRatio: 10})
	for _, key := range keys(100) {
		poison(key)
	}
	require.Equal(t, 1, out(table), "one may always go")
}

// A request is sent once to each backend, whatever net/http would do with its idle
// connections.
func TestFault_OneSending(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	var held sync.WaitGroup
	for _, s := range servers {
		s.answer(func(_ http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/hold":
				held.Done()
				held.Wait()
			case "/poison":
				panic(http.ErrAbortHandler)
			}
		})
	}
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 100})
	const idle = 60
	held.Add(idle * len(servers))
	var users sync.WaitGroup
	for _, s := range servers {
		key := keyFor(t, table, s)
		for range idle {
			users.Add(1)
			go func() {
				defer users.Done()
				_, _ = do(transport, newRequest(t, http.MethodGet, "http://service/hold", key, nil))
			}()
		}
	}
	users.Wait()
	for _, s := range servers {
		require.EqualValues(t, idle, s.conns.Load())
	}
	for range 10 {
		before := requestsOf(servers)
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/poison", "key", nil))
		require.Error(t, err)
		for i, after := range requestsOf(servers) {
			require.LessOrEqual(t, after-before[i], int64(1), "sendings to %s", servers[i].name)
		}
	}
}

func requestsOf(servers []*server) (counts []int64) {
	for _, s := range servers {
		counts = append(counts, s.requests.Load())
	}
	return counts
}

// Backends that close idle connections lose no request, of whatever method, and are
// healthy.
func TestFault_StaleConnections(t *testing.T) {
	t.Parallel()
	const idle = 100 * time.Millisecond
	a := startProcess(t, "a", "", serveEnv+"_IDLE="+idle.String())
	b := startProcess(t, "b", "", serveEnv+"_IDLE="+idle.String())
	table := newMaglev(t, &a.server, &b.server)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		var users sync.WaitGroup
		for i := range 20 {
			users.Add(1)
			go func() {
				defer users.Done()
				method := []string{http.MethodGet, http.MethodPost}[i%2]
				if _, err := do(transport, newRequest(t, method, "http://service/", fmt.Sprint(i), nil)); err != nil {
					t.Errorf("%s %d of round %d: %v", method, i, round, err)
				}
			}()
		}
		users.Wait()
		// The next requests come just as the connections are being closed.
		time.Sleep(idle - 2*time.Millisecond + time.Duration(round)*time.Millisecond/2)
	}
	require.Equal(t, chash.Healthy, state(t, table, "a"))
	require.Equal(t, chash.Healthy, state(t, table, "b"))
	require.Zero(t, transport.Stats().OverBudget)
}

// Where no healthy backend answers, those are tried that were marked.
func TestFault_AllButTheMarked(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, MaxEjected: 1})
	down(t, table, transport, servers[0])
	down(t, table, transport, servers[1])
	servers[0].down.Store(false)
	servers[2].down.Store(true)
	require.Equal(t, "a", get(t, transport, "key").backend)
}

// With FailOpen, requests go to their own backend though all are said to be down.
func TestFault_FailOpen(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	for _, s := range servers {
		require.NoError(t, table.SetState(s.name, chash.Unhealthy))
	}
	_, err := do(newTransport(t, table, chashhttp.Options{}), newRequest(t, http.MethodGet, "http://service/", "key", nil))
	require.ErrorIs(t, err, chash.ErrNoHealthyBackends)
	transport := newTransport(t, table, chashhttp.Options{FailOpen: true})
	for _, key := range keys(50) {
		own, err := table.Owner(key)
		require.NoError(t, err)
		require.Equal(t, own.Name, get(t, transport, key).backend)
	}
	servers[0].down.Store(true)
	for _, key := range keys(50) {
		require.NotEqual(t, "a", get(t, transport, key).backend)
	}
}

// Backups are asked where nobody else is left, and not before.
func TestFault_Backup(t *testing.T) {
	t.Parallel()
	servers, backup := startServers(t, "a", "b"), startServers(t, "x", "y")
	table, second := newMaglev(t, servers...), newRing(t, backup...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, Backup: second, MaxAttempts: 4, MaxEjected: 1})
	for _, key := range keys(50) {
		require.Contains(t, "ab", get(t, transport, key).backend)
	}
	servers[0].kill()
	for _, key := range keys(20) {
		require.Equal(t, "b", get(t, transport, key).backend)
	}
	servers[1].kill()
	for _, key := range keys(50) {
		want, err := second.Get(key)
		require.NoError(t, err)
		require.Equal(t, nameOf(backup, want), get(t, transport, key).backend)
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "b"))
}

// A request that waits at a backend which is marked meanwhile goes on, if it is safe.
func TestFault_MarkedWhileWaiting(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	arrived := make(chan struct{}, 2)
	release := make(chan struct{})
	servers[0].answer(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	transport := newTransport(t, table, chashhttp.Options{})
	ended := make(map[string]chan string)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		ended[method] = make(chan string, 1)
		go func() {
			got, err := do(transport, newRequest(t, method, "http://service/", keyFor(t, table, servers[0]), nil))
			if err != nil {
				got.backend = err.Error()
			}
			ended[method] <- got.backend
		}()
		<-arrived
	}
	require.NoError(t, table.SetState("a", chash.Unhealthy))
	require.Equal(t, "b", <-ended[http.MethodGet])
	require.Empty(t, ended[http.MethodPost])
	close(release)
	require.Equal(t, "a", <-ended[http.MethodPost])
}

// Every second answer is a failure: never two in a row, and found nevertheless.
func TestFault_EverySecond(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	var n atomic.Int64
	servers[0].answer(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	transport := newTransport(t, table, chashhttp.Options{FailureStatus: func(status int) bool { return status >= 500 }})
	key := keyFor(t, table, servers[0])
	for i := range 20 {
		if get(t, transport, key); state(t, table, "a") == chash.Unhealthy {
			require.GreaterOrEqual(t, i, 9)
			return
		}
	}
	t.Fatal("a is still healthy")
}

// The body of a slow sender does not count as the backend's time, that of a backend
// which takes nothing does.
func TestFault_SlowBodies(t *testing.T) {
	t.Parallel()
	slow := startServer(t, "slow")
	ctx := t.Context()
	odd := listen(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 10))
		<-ctx.Done()
		conn.Close()
	})
	const limit = 100 * time.Millisecond
	transport := newTransport(t, newMaglev(t, slow), chashhttp.Options{AttemptTimeout: limit})
	reader, writer := io.Pipe()
	go func() {
		for range 3 {
			time.Sleep(2 * limit)
			_, _ = io.WriteString(writer, "x")
		}
		writer.Close()
	}()
	got, err := do(transport, newRequest(t, http.MethodPost, "http://service/", "key", reader))
	require.NoError(t, err)
	require.Equal(t, "xxx", got.body)

	transport = newTransport(t, newMaglev(t, odd), chashhttp.Options{AttemptTimeout: limit})
	_, err = do(transport, newRequest(t, http.MethodPost, "http://service/", "key", io.LimitReader(zeros{}, 1<<30)))
	require.ErrorIs(t, err, chashhttp.ErrAttemptTimeout)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// The first requests to a backend that was brought back are few.
func TestFault_GentleReturn(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, ProbePath: "/probe", ProbeInterval: 5 * time.Millisecond})
	down(t, table, transport, servers[0])
	var now, most atomic.Int64
	release := make(chan struct{})
	servers[0].answer(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/probe" {
			return
		}
		most.Store(max(most.Load(), now.Add(1)))
		<-release
		now.Add(-1)
	})
	servers[0].down.Store(false)
	becomes(t, table, "a", chash.Healthy)
	key := keyFor(t, table, servers[0])
	var users sync.WaitGroup
	var b atomic.Int64
	for range 50 {
		users.Add(1)
		go func() {
			defer users.Done()
			if got, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil)); err == nil && got.backend == "b" {
				b.Add(1)
			}
		}()
	}
	eventually(t, func() bool { return b.Load() == 49 }, "all but one are sent elsewhere")
	close(release)
	users.Wait()
	require.EqualValues(t, 1, most.Load())
	for range 40 {
		require.Equal(t, "a", get(t, transport, key).backend)
	}
}

// An error names the backend, and leaves its password out.
func TestFault_ErrorsNameTheBackend(t *testing.T) {
	t.Parallel()
	dead := startServer(t, "dead")
	dead.kill()
	dead.url.User = url.UserPassword("user", "secret")
	transport := newTransport(t, newMaglev(t, dead), chashhttp.Options{})
	_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", "key", nil))
	var failed *chashhttp.BackendError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "dead", failed.Name)
	require.ErrorContains(t, err, `backend "dead" at http://user:xxxxx@127.0.0.1`)
	require.False(t, failed.Timeout())
	var limit net.Error
	require.ErrorAs(t, &chashhttp.BackendError{Err: fmt.Errorf("as wrapped: %w", context.DeadlineExceeded)}, &limit)
	require.True(t, limit.Timeout())

	opaque, err := url.Parse("localhost:9999")
	require.NoError(t, err)
	_, err = chashhttp.NewTransport(newMaglev(t, &server{name: "wrong", url: opaque}), chashhttp.Path(), chashhttp.Options{})
	require.ErrorIs(t, err, chashhttp.ErrNoAddress)
	require.ErrorContains(t, err, `"wrong" at localhost:9999`)
}

// Spellings of one address are one server.
func TestFault_Addresses(t *testing.T) {
	t.Parallel()
	for same, spellings := range map[bool][]string{
		true: {"http://cache.test", "http://cache.test:80", "HTTP://CACHE.test/", "http://cache.test:", "http://user@cache.test/%2e/", "http://cache.test/a/.."},
		false: {"http://cache.test", "https://cache.test", "http://cache.test:8080", "http://cache.test/a", "http://cache.test/A",
			"http://cache.test/a%2Fb", "http://cache.test/a/b", "http://cache.test?a", "http://cache2.test", "http://[::1]", "http://[::2]"},
	} {
		var members []chash.Backend[*url.URL]
		for i, spelling := range spellings {
			u, err := url.Parse(spelling)
			require.NoError(t, err)
			members = append(members, chash.Backend[*url.URL]{Name: fmt.Sprint(i), Value: u})
		}
		table, err := chash.NewMaglev(members)
		require.NoError(t, err)
		var dialed []string
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			dialed = append(dialed, req.URL.String())
			return nil, errAny
		})
		transport := newTransport(t, table, chashhttp.Options{Base: base, MaxAttempts: 20, FailureThreshold: 1000})
		_, err = do(transport, newRequest(t, http.MethodGet, "http://service/", "key", nil))
		require.Error(t, err)
		if same {
			require.Len(t, dialed, 1)
		} else {
			require.Len(t, dialed, len(spellings), strings.Join(dialed, " "))
		}
	}
}

// A status that no handler may write does not become a panic of one.
func TestFault_InvalidStatusUnderProxy(t *testing.T) {
	t.Parallel()
	odd := listen(t, func(conn net.Conn) { begin(conn, "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n") })
	front, failed := startFront(t, newTransport(t, newMaglev(t, odd), chashhttp.Options{}))
	got, err := do(http.DefaultTransport, newRequest(t, http.MethodGet, front.URL, "", nil))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadGateway, got.status)
	require.ErrorIs(t, <-failed, chashhttp.ErrInvalidStatus)
}

// An answer that is being read when its key moves is told of, and can be ended.
func TestFault_Moved(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	for _, s := range servers {
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	}
	moved := make(chan chashhttp.Move, 10)
	transport := newTransport(t, table, chashhttp.Options{OnMove: func(m chashhttp.Move) { moved <- m }})
	var bodies []io.ReadCloser
	for _, s := range servers {
		resp, err := transport.RoundTrip(newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, s), nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		bodies = append(bodies, resp.Body)
	}
	require.NoError(t, table.SetState("a", chash.Draining))
	move := <-moved
	require.Equal(t, servers[0].url, move.From)
	require.Equal(t, servers[1].url, move.To)
	require.Equal(t, keyFor(t, newMaglev(t, servers...), servers[0]), move.Key)
	move.End()
	_, err := bodies[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, moved)
	require.Equal(t, chash.Healthy, state(t, table, "b"))
}

// With ProbeAll the first probes tell how each backend is, and why.
func TestFault_ProbeAll(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	servers[1].answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	table := newMaglev(t, servers...)
	told := make(chan chashhttp.Change, 10)
	transport := newTransport(t, table, chashhttp.Options{
		ProbeAll: true, ProbePath: "/probe", ProbesDown: 2, ProbesUp: 2, ProbeInterval: 5 * time.Millisecond,
		OnChange: func(c chashhttp.Change) { told <- c },
	})
	first := make(map[string]chashhttp.Change)
	for range servers {
		c := <-told
		require.True(t, c.First)
		first[c.Name] = c
	}
	require.Equal(t, chash.Healthy, first["a"].State)
	require.NoError(t, first["a"].Err)
	require.Equal(t, chash.Unhealthy, first["b"].State)
	require.ErrorContains(t, first["b"].Err, "probe of /probe: chashhttp: status 404 Not Found")
	servers[2].down.Store(true)
	c := <-told
	require.Equal(t, "c unhealthy false", fmt.Sprint(c.Name, " ", c.State, " ", c.First))
	require.Error(t, c.Err)
	servers[2].down.Store(false)
	require.Equal(t, "c", (<-told).Name)
	require.Equal(t, chash.Healthy, state(t, table, "c"))
	require.ErrorContains(t, transport.Check(t.Context(), servers[1].url), "404")
	require.NoError(t, transport.Check(t.Context(), servers[0].url))
}
