package chashhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// keyHeader has the key of a request in most tests.
const keyHeader = "X-Key"

// A server is a backend on loopback that answers with its name and the body it got.
type server struct {
	name     string
	url      *url.URL
	down     atomic.Bool  // closes connections in place of an answer
	requests atomic.Int64 // that have arrived, whatever became of them
	probes   atomic.Int64 // of these, those for /probe
	conns    atomic.Int64 // open connections
	last     atomic.Pointer[http.Request]
	hook     atomic.Pointer[http.HandlerFunc] // answers in its place
	arrived  func(*http.Request)              // is called with each request, if not nil
	held     atomic.Pointer[chan struct{}]    // requests wait for its end, if there is one
	http     *http.Server
	listener net.Listener
	release  func() // gives the port of a killed server back
}

func startServer(t *testing.T, name string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{name: name, url: &url.URL{Scheme: "http", Host: l.Addr().String()}}
	s.serveOn(t, l)
	return s
}

func startServers(t *testing.T, names ...string) []*server {
	t.Helper()
	servers := make([]*server, len(names))
	for i, name := range names {
		servers[i] = startServer(t, name)
	}
	return servers
}

func (s *server) serveOn(t *testing.T, l net.Listener) {
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ConnState: s.count}
	s.http, s.listener, s.release = server, l, func() {}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); s.release() })
}

// revive makes a killed server listen again where it did.
func (s *server) revive(t *testing.T) {
	t.Helper()
	s.release()
	l, err := net.Listen("tcp", s.url.Host)
	require.NoError(t, err)
	s.serveOn(t, l)
}

func (s *server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if r.URL.Path == "/probe" {
		s.probes.Add(1)
	} else {
		s.last.Store(r)
	}
	if s.arrived != nil {
		s.arrived(r)
	}
	if held := s.held.Load(); held != nil {
		select {
		case <-*held:
		case <-r.Context().Done():
		}
	}
	if s.down.Load() {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Backend", s.name)
	if hook := s.hook.Load(); hook != nil {
		(*hook)(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, _ = w.Write(body)
}

func (s *server) answer(hook http.HandlerFunc) { s.hook.Store(&hook) }

// hang has the requests wait for release.
func (s *server) hang(release chan struct{}) { s.held.Store(&release) }

// kill closes the listener and all connections: from now on they are refused. The
// http.Server knows the listener only once its goroutine runs.
func (s *server) kill() {
	_ = s.listener.Close()
	_ = s.http.Close()
	s.release = reserve(s.listener.Addr().(*net.TCPAddr))
}

// reserve keeps a port from the servers of other tests, which would answer what a
// killed one is asked: a socket has it that does not listen. It returns what ends that.
func reserve(addr *net.TCPAddr) (release func()) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		panic(err)
	}
	// The connections of the killed server may linger on the port.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())})
	}
	if err != nil {
		panic(err)
	}
	return sync.OnceFunc(func() { _ = syscall.Close(fd) })
}

// A structure is a Maglev or a Ring.
type structure interface {
	chashhttp.Table
	GetN(key string, n int) ([]*url.URL, error)
	Candidates(key string) iter.Seq[*url.URL]
	Add(backends ...chash.Backend[*url.URL]) error
	Remove(names ...string) error
	Set(backends []chash.Backend[*url.URL]) error
	SetState(name string, state chash.State) error
	SetValue(name string, value *url.URL) error
	Stats() chash.Stats
}

func backends(servers ...*server) []chash.Backend[*url.URL] {
	backends := make([]chash.Backend[*url.URL], len(servers))
	for i, s := range servers {
		backends[i] = chash.Backend[*url.URL]{Name: s.name, Value: s.url}
	}
	return backends
}

func newMaglev(t *testing.T, servers ...*server) structure {
	t.Helper()
	table, err := chash.NewMaglev(backends(servers...), chash.WithTableSize(1009))
	require.NoError(t, err)
	return table
}

func newRing(t *testing.T, servers ...*server) structure {
	t.Helper()
	ring, err := chash.NewRing(backends(servers...))
	require.NoError(t, err)
	return ring
}

// onBoth runs a test over a Maglev and over a Ring.
func onBoth(t *testing.T, test func(t *testing.T, newTable func(*testing.T, ...*server) structure)) {
	t.Run("Maglev", func(t *testing.T) { t.Parallel(); test(t, newMaglev) })
	t.Run("Ring", func(t *testing.T) { t.Parallel(); test(t, newRing) })
}

// newTransport returns one that takes its keys from keyHeader and closes it with the
// test. It does not probe before the test is long over, unless told otherwise.
func newTransport(t *testing.T, table chashhttp.Table, opts chashhttp.Options) *chashhttp.Transport {
	t.Helper()
	if opts.ProbeInterval == 0 {
		opts.ProbeInterval = time.Hour
	}
	transport, err := chashhttp.NewTransport(table, chashhttp.Header(keyHeader), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, transport.Close()) })
	return transport
}

func newRequest(t *testing.T, method, target, key string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	require.NoError(t, err)
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	return req
}

// An answer is what came of a request.
type answer struct {
	status  int
	backend string
	body    string
}

// do sends a request as an http.Client does.
func do(transport http.RoundTripper, req *http.Request) (answer, error) {
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Backend"), string(body)}, err
}

func get(t *testing.T, transport http.RoundTripper, key string) answer {
	t.Helper()
	got, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
	require.NoError(t, err)
	return got
}

func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

// keyFor returns a key whose order of preference begins with those servers.
func keyFor(t *testing.T, table structure, order ...*server) string {
	t.Helper()
	for _, key := range keys(10000) {
		got, err := table.GetN(key, len(order))
		require.NoError(t, err)
		matches := len(got) == len(order)
		for i := range got {
			matches = matches && got[i] == order[i].url
		}
		if matches {
			return key
		}
	}
	t.Fatalf("no key prefers %v", order)
	return ""
}

// homes returns the name of the backend that answers each key.
func homes(t *testing.T, transport http.RoundTripper, keys []string) map[string]string {
	t.Helper()
	homes := make(map[string]string)
	for _, key := range keys {
		homes[key] = get(t, transport, key).backend
	}
	return homes
}

func state(t *testing.T, table chashhttp.Table, name string) chash.State {
	t.Helper()
	b, found := table.Backend(name)
	require.True(t, found, "backend %s", name)
	return b.State
}

// becomes waits until a backend is in that state.
func becomes(t *testing.T, table chashhttp.Table, name string, want chash.State) {
	t.Helper()
	eventually(t, func() bool { return state(t, table, name) == want }, "%s is %v", name, want)
}

func eventually(t *testing.T, holds func() bool, what string, args ...any) {
	t.Helper()
	require.Eventually(t, holds, 20*time.Second, 2*time.Millisecond, append([]any{what}, args...)...)
}

// changes notes what OnChange was told.
type changes struct {
	mu   sync.Mutex
	list []chashhttp.Change
}

func (c *changes) note(change chashhttp.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, change)
}

// String returns the changes in brief, in order.
func (c *changes) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var brief []string
	for _, change := range c.list {
		brief = append(brief, change.Name+" "+change.State.String())
	}
	return strings.Join(brief, ", ")
}

// probers returns how many goroutines probe for Transports of this process.
func probers() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "chashhttp.(*health).probe(")
}

// A roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// startFront starts a ReverseProxy over a Transport that leaves requests as they came
// in, and tells of what failed: of one request, unless it is read.
func startFront(t *testing.T, transport http.RoundTripper) (front *httptest.Server, failed <-chan error) {
	t.Helper()
	errs := make(chan error, 1)
	front = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(*httputil.ProxyRequest) {},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.WriteHeader(http.StatusBadGateway)
			errs <- err
		},
	})
	t.Cleanup(front.Close)
	return front, errs
}

// converse sends a server what no client of net/http would, and returns the status of
// the answer.
func converse(t *testing.T, front *httptest.Server, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// A tracked body knows what was done to it.
type trackedBody struct {
	io.Reader
	reads, closes atomic.Int64
}

func (b *trackedBody) Read(p []byte) (int, error) {
	b.reads.Add(1)
	return b.Reader.Read(p)
}

func (b *trackedBody) Close() error {
	b.closes.Add(1)
	return nil
}

// canceledContext returns a context that is over.
func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
