package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// What the tests have in common that speak to the program as its users do, through
// flags, sockets and signals: those in proxy_test.go, retry_test.go, admin_test.go,
// main_test.go and demo_test.go. What a key's backend must be they ask a table of
// their own.

// asProgram in the environment makes the test binary the program.
const asProgram = "PROXY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if name := os.Getenv(asBackend); name != "" {
		serveAsProcess(name)
	}
	os.Exit(m.Run())
}

// A program is the proxy under test, in this process.
type program struct {
	proxy, admin string // where they listen
	log          *lockedBuffer
	client       *http.Client
	quit         context.CancelFunc
	ended        chan error // what run returned
}

// start runs the program with those flags and ends it with the test. Unless the
// flags say otherwise each backend is checked once, at the start.
func start(t *testing.T, flags ...string) *program {
	t.Helper()
	flags = append([]string{"-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-key=header:Client", "-health-interval=1h"}, flags...)
	ctx, quit := context.WithCancel(context.Background())
	p := &program{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}},
		quit:   quit,
		ended:  make(chan error, 1),
	}
	reader, writer := io.Pipe()
	p.log = new(lockedBuffer)
	go func() {
		err := run(ctx, flags, writer, p.log)
		p.ended <- err
		close(p.ended) // a test may have taken the error before the cleanup asks
		writer.Close()
	}()
	t.Cleanup(func() {
		quit()
		p.client.CloseIdleConnections()
		if err := <-p.ended; err != nil {
			t.Errorf("run(%q) = %v, want nil", flags, err)
		}
		if t.Failed() {
			t.Logf("the program's log:\n%s", p.log)
		}
	})
	p.proxy, p.admin = readAddresses(t, reader)
	return p
}

// readAddresses reads what the program prints when it has begun to listen.
func readAddresses(t *testing.T, r io.Reader) (proxy, admin string) {
	t.Helper()
	lines := bufio.NewScanner(r)
	for admin == "" && lines.Scan() {
		if address, found := strings.CutPrefix(lines.Text(), "proxy on "); found {
			proxy = address
		}
		if address, found := strings.CutPrefix(lines.Text(), "admin on "); found {
			admin = address
		}
	}
	require.NotEmpty(t, proxy, "the program did not say where it listens")
	require.NotEmpty(t, admin, "the program did not say where its admin address is")
	return proxy, admin
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// A testBackend is a server behind the proxy under test. It answers with its name and the
// body that it got.
type testBackend struct {
	name, url string
	sick      atomic.Bool  // fails its checks
	checks    atomic.Int64 // that have begun
	requests  atomic.Int64 // that have arrived whole
	last      atomic.Pointer[http.Request]
	hook      atomic.Pointer[func(w http.ResponseWriter, r *http.Request)] // called before the answer
	server    *http.Server
	listener  net.Listener
}

func startTestBackend(t *testing.T, name string) *testBackend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &testBackend{name: name, url: "http://" + l.Addr().String(), listener: l}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", b.health)
	mux.HandleFunc("/base/healthz", b.health)
	mux.HandleFunc("/", b.answer)
	b.server = &http.Server{Handler: mux}
	go func() { _ = b.server.Serve(l) }()
	t.Cleanup(b.kill)
	return b
}

func (b *testBackend) health(w http.ResponseWriter, _ *http.Request) {
	b.checks.Add(1)
	if b.sick.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (b *testBackend) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.requests.Add(1)
	b.last.Store(r)
	if hook := b.hook.Load(); hook != nil {
		(*hook)(w, r)
	}
	w.Header().Set("Backend", b.name)
	_, _ = w.Write(body)
}

// kill closes the listener, which the server may not know yet, and all connections.
func (b *testBackend) kill() { _ = b.listener.Close(); _ = b.server.Close() }

// hold makes requests wait until release is closed or their connection is. The
// first says on arrived that it has come.
func (b *testBackend) hold() (arrived <-chan struct{}, release chan struct{}) {
	came, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hook := func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(came) })
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	b.hook.Store(&hook)
	return came, release
}

type testBackends []*testBackend

func startTestBackends(t *testing.T, names ...string) testBackends {
	t.Helper()
	var backends testBackends
	for _, name := range names {
		backends = append(backends, startTestBackend(t, name))
	}
	return backends
}

// flags returns the backends as flags, and others after them.
func (bs testBackends) flags(others ...string) []string {
	var flags []string
	for _, b := range bs {
		flags = append(flags, "-backend="+b.name+"="+b.url)
	}
	return append(flags, others...)
}

func (bs testBackends) named(name string) *testBackend {
	for _, b := range bs {
		if b.name == name {
			return b
		}
	}
	return nil
}

// An answer is what a client got.
type answer struct {
	status  int
	backend string
	body    string
}

func send(t *testing.T, client *http.Client, req *http.Request) answer {
	t.Helper()
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header.Get("Backend"), string(body)}
}

func newRequest(t *testing.T, method, url, key string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Client", key)
	}
	return req
}

func (p *program) get(t *testing.T, key string) answer {
	t.Helper()
	return send(t, p.client, newRequest(t, http.MethodGet, p.proxy, key, nil))
}

// sendLater sends a request while the test goes on.
func (p *program) sendLater(req *http.Request) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		resp, err := p.client.Do(req)
		if err != nil {
			got <- answer{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		got <- answer{resp.StatusCode, resp.Header.Get("Backend"), string(body) + errorText(err)}
	}()
	return got
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// request sends one to the admin address and decodes the answer.
func (p *program) request(t *testing.T, method, path, body string, into any) int {
	t.Helper()
	req := newRequest(t, method, p.admin+path, "", strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	a := send(t, p.client, req)
	if into != nil {
		require.NoError(t, json.Unmarshal([]byte(a.body), into), "%s %s: %s", method, path, a.body)
	}
	return a.status
}

// A shownMember is a backend as the admin address shows it.
type shownMember struct {
	Name, URL, State string
	Weight           uint32
	Slots            int
	Share            float64
}

func (p *program) members(t *testing.T) []shownMember {
	t.Helper()
	var members []shownMember
	require.Equal(t, http.StatusOK, p.request(t, http.MethodGet, "/members", "", &members))
	return members
}

func (p *program) state(t *testing.T, name string) string {
	t.Helper()
	for _, m := range p.members(t) {
		if m.Name == name {
			return m.State
		}
	}
	return "absent"
}

// logs waits until the program has logged a line with that pattern.
func (p *program) logs(t *testing.T, pattern string) {
	t.Helper()
	line := regexp.MustCompile("(?m)" + pattern)
	eventually(t, "a line in the log: "+pattern, func() bool { return line.MatchString(p.log.String()) })
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("still not so after 20 s: %s", what)
		case <-tick.C:
		}
	}
}

func newTable(t *testing.T, names []string, opts ...chash.MaglevOption) *chash.Maglev[string] {
	t.Helper()
	table, err := chash.NewMaglev(chash.Named(names...), opts...)
	require.NoError(t, err)
	return table
}

func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}

// keyWith returns a key that prefers the backends in that order.
func keyWith(t *testing.T, table *chash.Maglev[string], order ...string) string {
	t.Helper()
	for _, key := range keys(10000) {
		if got, err := table.GetN(key, len(order)); err == nil && fmt.Sprint(got) == fmt.Sprint(order) {
			return key
		}
	}
	t.Fatalf("no key prefers %q", order)
	return ""
}

// agree checks that the proxy sends every key where the table says.
func agree(t *testing.T, p *program, table *chash.Maglev[string]) {
	t.Helper()
	for _, key := range keys(60) {
		want, err := table.Get(key)
		require.NoError(t, err)
		require.Equal(t, answer{http.StatusOK, want, ""}, p.get(t, key), "key %q", key)
	}
}
