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
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// The tests of this file speak to the program as its users do, through flags,
// sockets and signals. What a key's backend must be they ask a table of their own.

// asProgram in the environment makes the test binary the program.
const asProgram = "PROXY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A program is the proxy under test, in this process.
type program struct {
	proxy, admin string // where they listen
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
	log := new(lockedBuffer)
	go func() {
		err := run(ctx, flags, writer, log)
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
			t.Logf("the program's log:\n%s", log)
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
}

func startTestBackend(t *testing.T, name string) *testBackend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &testBackend{name: name, url: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", b.health)
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

// kill closes the listener and all connections.
func (b *testBackend) kill() { _ = b.server.Close() }

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
	a := send(t, p.client, newRequest(t, method, p.admin+path, "", strings.NewReader(body)))
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
			p := start(t, backends.flags(flag)...)
			for range 30 {
				require.Equal(t, http.StatusOK, p.get(t, "").status)
			}
			for _, b := range backends {
				require.EqualValues(t, 10, b.requests.Load(), "backend %s", b.name)
			}
			// Those of a dead one go to the others, to each some.
			backends.named("b").kill()
			for range 60 {
				require.Equal(t, http.StatusOK, p.get(t, "").status)
			}
			require.Greater(t, backends.named("a").requests.Load(), int64(20))
			require.Greater(t, backends.named("c").requests.Load(), int64(20))
		})
	}
}

func TestFlags_Table(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "a", Value: "a"}, {Name: "b", Value: "b", Weight: 2}, {Name: "c", Value: "c", Weight: 5},
	}, chash.WithTableSize(251), chash.WithSeed(7))
	require.NoError(t, err)
	p := start(t, "-table-size=251", "-seed=7",
		"-backend=a="+backends[0].url, "-backend=b="+backends[1].url+",2", "-backend=c="+backends[2].url+",5")
	agree(t, p, table)

	slots := map[string]int{}
	for slot := range 251 {
		owner, err := table.GetHash(uint64(slot))
		require.NoError(t, err)
		slots[owner]++
	}
	var want []shownMember
	for i, weight := range []uint32{1, 2, 5} {
		b := backends[i]
		want = append(want, shownMember{b.name, b.url, "healthy", weight, slots[b.name], float64(slots[b.name]) / 251})
	}
	require.Equal(t, want, p.members(t))
}

func TestFlags_Wrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		flags []string
		want  error
	}{
		{"unknown flag", []string{"-nonsense"}, errUsage},
		{"argument", []string{"-admin=", "nonsense"}, errUsage},
		{"key", []string{"-key=nonsense"}, errUsage},
		{"key without a name", []string{"-key=header:"}, errUsage},
		{"address with a name", []string{"-key=address:x"}, errUsage},
		{"backend without a url", []string{"-backend=a"}, errUsage},
		{"backend of another scheme", []string{"-backend=a=ftp://host"}, errUsage},
		{"backend without a host", []string{"-backend=a=http:///path"}, errUsage},
		{"backend with a password", []string{"-backend=a=http://u:p@host"}, errUsage},
		{"weight 0", []string{"-backend=a=http://host,0"}, errUsage},
		{"weight past uint32", []string{"-backend=a=http://host,4294967296"}, errUsage},
		{"no attempt", []string{"-attempts=0"}, errUsage},
		{"no interval", []string{"-health-interval=0"}, errUsage},
		{"few clients", []string{"-demo", "-demo-clients=1"}, errUsage},
		{"few requests", []string{"-demo", "-demo-requests=100"}, errUsage},
		{"no name", []string{"-backend==http://host"}, chash.ErrEmptyName},
		{"a name twice", []string{"-backend=a=http://host", "-backend=a=http://other"}, chash.ErrBackendExists},
		{"size not prime", []string{"-table-size=65536"}, chash.ErrTableSizeNotPrime},
		{"more than slots", []string{"-table-size=2", "-backend=a=http://h", "-backend=b=http://h", "-backend=c=http://h"}, chash.ErrTooManyBackends},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // it shall not get to serve
			err := run(ctx, test.flags, io.Discard, io.Discard)
			require.ErrorIs(t, err, test.want)
		})
	}
}

func TestFlags_Help(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-h"}, &out, io.Discard))
	for _, flag := range []string{"-backend", "-key", "-table-size", "-listen", "-admin"} {
		require.Contains(t, out.String(), "  "+flag+" ")
	}
}

// The path is joined, the query kept, and the backend learns who asked for what.
func TestForwarding(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	p := start(t, "-backend=a="+b.url+"/base", "-health-path=/../healthz")
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
	b := backends.named("b")
	arrived, release := b.hold()
	got := p.sendLater(newRequest(t, http.MethodGet, p.proxy, keyWith(t, newTable(t, []string{"a", "b"}), "b"), nil))
	<-arrived
	closed := make(chan error, 1)
	go func() { closed <- b.server.Shutdown(t.Context()) }() // waits for the request
	eventually(t, "b is unhealthy", func() bool { return p.state(t, "b") == "unhealthy" })
	close(release)
	require.Equal(t, answer{http.StatusOK, "b", ""}, <-got)
	require.NoError(t, <-closed)
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

	sick := startTestBackend(t, "a")
	sick.sick.Store(true)
	p = start(t, "-backend=a="+sick.url)
	require.Equal(t, http.StatusServiceUnavailable, p.get(t, "key").status)
	require.Equal(t, http.StatusServiceUnavailable, p.get(t, "").status)
}

// A request in flight at a backend that dies is sent again, to the key's next
// candidate, with its whole body.
func TestRetry_InFlight(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
		for _, body := range []string{"", "the body"} {
			t.Run(method+" "+body, func(t *testing.T) {
				t.Parallel()
				backends := startTestBackends(t, "a", "b", "c")
				p := start(t, backends.flags()...)
				arrived, _ := backends.named("b").hold()
				key := keyWith(t, newTable(t, []string{"a", "b", "c"}), "b", "c")
				got := p.sendLater(newRequest(t, method, p.proxy, key, strings.NewReader(body)))
				<-arrived
				backends.named("b").kill()
				want := answer{http.StatusOK, "c", body}
				if method == http.MethodHead {
					want.body = ""
				}
				require.Equal(t, want, <-got)
				require.EqualValues(t, len(body), backends.named("c").last.Load().ContentLength)
				require.Zero(t, backends.named("a").requests.Load())
			})
		}
	}
}

// What the backend may have done already is not done twice, if that differs from
// once, nor is a body sent that is gone.
func TestRetry_NotAfterSending(t *testing.T) {
	t.Parallel()
	type streamed struct{ io.Reader } // hides how long it is
	tests := []struct {
		name, method string
		body         io.Reader
	}{
		{"POST", http.MethodPost, nil},
		{"POST with a body", http.MethodPost, strings.NewReader("body")},
		{"PATCH", http.MethodPatch, strings.NewReader("body")},
		{"PUT with a long body", http.MethodPut, strings.NewReader("longer than 8 bytes")},
		{"PUT with a body of unknown length", http.MethodPut, streamed{strings.NewReader("body")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			backends := startTestBackends(t, "a", "b", "c")
			p := start(t, backends.flags("-retry-body=8")...)
			arrived, _ := backends.named("b").hold()
			key := keyWith(t, newTable(t, []string{"a", "b", "c"}), "b")
			got := p.sendLater(newRequest(t, test.method, p.proxy, key, test.body))
			<-arrived
			backends.named("b").kill()
			require.Equal(t, http.StatusBadGateway, (<-got).status)
			require.Zero(t, backends.named("a").requests.Load()+backends.named("c").requests.Load())
		})
	}
}

// Without a connection nothing was sent, so that any request may go elsewhere,
// and its body, however long, is still whole.
func TestRetry_NeverSent(t *testing.T) {
	t.Parallel()
	type streamed struct{ io.Reader }
	for _, method := range []string{"POST", "PATCH", "PUT"} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, length known: %v", method, known), func(t *testing.T) {
				t.Parallel()
				backends := startTestBackends(t, "a", "b", "c")
				p := start(t, backends.flags("-retry-body=8")...)
				backends.named("b").kill()
				key := keyWith(t, newTable(t, []string{"a", "b", "c"}), "b", "c")
				long := strings.Repeat("longer than 8 bytes, ", 10000)
				var body io.Reader = strings.NewReader(long)
				if !known {
					body = streamed{body}
				}
				got := send(t, p.client, newRequest(t, method, p.proxy, key, body))
				require.Equal(t, answer{http.StatusOK, "c", long}, got)
			})
		}
	}
}

func TestRetry_Attempts(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]int{1: http.StatusBadGateway, 2: http.StatusBadGateway, 3: http.StatusOK, 4: http.StatusOK} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			backends := startTestBackends(t, "a", "b", "c")
			p := start(t, backends.flags(fmt.Sprintf("-attempts=%d", attempts), "-health-down=100")...)
			key := keyWith(t, newTable(t, []string{"a", "b", "c"}), "b", "c")
			backends.named("b").kill()
			backends.named("c").kill()
			require.Equal(t, want, p.get(t, key).status)
		})
	}
	t.Run("more than backends", func(t *testing.T) {
		t.Parallel()
		backends := startTestBackends(t, "a", "b")
		p := start(t, backends.flags("-attempts=10", "-health-down=100")...)
		backends.named("a").kill()
		backends.named("b").kill()
		require.Equal(t, http.StatusBadGateway, p.get(t, "key").status)
		require.Equal(t, http.StatusBadGateway, p.get(t, "").status)
	})
}

// Failed attempts mark a backend unhealthy before its checks do.
func TestRetry_MarksUnhealthy(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags("-health-down=3")...)
	key := keyWith(t, table, "b")
	backends.named("b").kill()
	for _, want := range []string{"healthy", "healthy", "unhealthy", "unhealthy"} {
		require.Equal(t, http.StatusOK, p.get(t, key).status)
		require.Equal(t, want, p.state(t, "b"))
	}
	require.NoError(t, table.SetState("b", chash.Unhealthy))
	agree(t, p, table)
}

// An answer is an answer, whatever its status.
func TestRetry_NotForStatus(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-health-down=1")...)
	hook := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	backends.named("a").hook.Store(&hook)
	require.Equal(t, http.StatusBadGateway, p.get(t, keyWith(t, newTable(t, []string{"a", "b"}), "a")).status)
	require.Zero(t, backends.named("b").requests.Load())
	require.Equal(t, "healthy", p.state(t, "a"))
}

// While clients of every backend send without a pause, one dies: no request
// fails, and no client of the others moves.
func TestRetry_UnderLoad(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags("-health-interval=10ms")...)
	const workers, rounds = 8, 40
	var half, all sync.WaitGroup
	half.Add(workers)
	for worker := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := range rounds {
				if round == rounds/2 {
					half.Done()
				}
				key := fmt.Sprintf("client-%d-%d", worker, round%10)
				order, err := table.GetN(key, 2)
				if err != nil {
					t.Errorf("GetN(%q) = %v", key, err)
					continue
				}
				got := <-p.sendLater(newRequest(t, http.MethodGet, p.proxy, key, nil))
				if got.status != http.StatusOK || got.backend != order[0] && (order[0] != "b" || got.backend != order[1]) {
					t.Errorf("client %s of %v: %v", key, order, got)
				}
			}
		}()
	}
	half.Wait()
	backends.named("b").kill()
	all.Wait()
}

// A client that goes away is no failure of the backend's, and its request is not
// sent again.
func TestClientGone(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-health-down=1")...)
	gone := make(chan struct{})
	arrived := make(chan struct{})
	hook := func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	}
	backends.named("a").hook.Store(&hook)
	key := keyWith(t, newTable(t, []string{"a", "b"}), "a")
	ctx, cancel := context.WithCancel(t.Context())
	got := p.sendLater(newRequest(t, http.MethodGet, p.proxy, key, nil).WithContext(ctx))
	<-arrived
	cancel()
	<-gone
	require.Zero(t, (<-got).status)
	backends.named("a").hook.Store(nil)
	require.Equal(t, answer{http.StatusOK, "a", ""}, p.get(t, key))
	require.Equal(t, "healthy", p.state(t, "a"))
	require.Zero(t, backends.named("b").requests.Load())
}

// A body that its client does not finish is no failure of the backend's either.
func TestClientGone_InBody(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPut, http.MethodPost} { // one that is kept, one that is not
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			backends := startTestBackends(t, "a", "b")
			p := start(t, backends.flags("-health-down=1")...)
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, method+" / HTTP/1.1\r\nHost: x\r\nClient: x\r\nContent-Length: 10\r\n\r\nhalf")
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			_, err = io.ReadAll(conn) // whatever it says, until the proxy is done with it
			require.NoError(t, err)
			require.Zero(t, backends[0].requests.Load()+backends[1].requests.Load())
			for _, m := range p.members(t) {
				require.Equal(t, "healthy", m.State)
			}
		})
	}
}

func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-request-timeout=50ms", "-health-down=1")...)
	_, release := backends.named("a").hold()
	defer close(release)
	require.Equal(t, http.StatusGatewayTimeout, p.get(t, keyWith(t, newTable(t, []string{"a", "b"}), "a")).status)
	require.Zero(t, backends.named("b").requests.Load())
	require.Equal(t, "healthy", p.state(t, "a"))
}

func TestAdmin_AddDrainRemove(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags()...)

	d := startTestBackend(t, "d")
	var shown shownMember
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"d","url":"`+d.url+`","weight":3}`, &shown))
	require.NoError(t, table.Add(chash.Backend[string]{Name: "d", Weight: 3, Value: "d"}))
	require.Equal(t, "healthy", shown.State)
	require.EqualValues(t, 3, shown.Weight)
	require.InDelta(t, 0.5, shown.Share, 0.001)
	agree(t, p, table)

	// A request that is there when a drain begins ends as if nothing had happened.
	arrived, release := d.hold()
	got := p.sendLater(newRequest(t, http.MethodPost, p.proxy, keyWith(t, table, "d"), nil))
	<-arrived
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/d/drain", "", &shown))
	require.NoError(t, table.SetState("d", chash.Draining))
	require.Equal(t, shownMember{Name: "d", URL: d.url, State: "draining", Weight: 3}, shown)
	close(release)
	require.Equal(t, answer{http.StatusOK, "d", ""}, <-got)
	requests := d.requests.Load()
	agree(t, p, table)
	require.Equal(t, requests, d.requests.Load())

	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/d/undrain", "", &shown))
	require.NoError(t, table.SetState("d", chash.Healthy))
	require.Equal(t, "healthy", shown.State)
	agree(t, p, table)

	// A drain and then the removal, which moves nothing more.
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
	require.NoError(t, table.SetState("a", chash.Draining))
	agree(t, p, table)
	require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/a", "", nil))
	agree(t, p, table)
	require.Equal(t, "absent", p.state(t, "a"))

	// A removal without one, and the name is free again, for another server.
	require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/b", "", nil))
	require.NoError(t, table.Remove("a", "b"))
	agree(t, p, table)
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"b","url":"`+backends[0].url+`"}`, nil))
	require.NoError(t, table.Add(chash.Backend[string]{Name: "b", Value: "a"}))
	agree(t, p, table)
}

// A backend that is added dead has its place but no request.
func TestAdmin_AddDead(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-attempts=1")...)
	dead := startTestBackend(t, "dead")
	dead.kill()
	var shown shownMember
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"dead","url":"`+dead.url+`"}`, &shown))
	require.Equal(t, "unhealthy", shown.State)
	require.NotZero(t, shown.Slots)
	for _, key := range keys(60) {
		require.Equal(t, http.StatusOK, p.get(t, key).status)
	}
}

// Checks go on during a drain, but do not end it.
func TestAdmin_DrainOutlastsChecks(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	b := backends.named("b")
	p := start(t, backends.flags("-health-interval=5ms", "-health-up=1", "-health-down=1")...)
	checked := func(times int64) {
		t.Helper()
		from := b.checks.Load()
		eventually(t, "more checks", func() bool { return b.checks.Load() >= from+times })
	}
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/drain", "", nil))
	b.sick.Store(true)
	checked(3) // the third begins when the first two have been taken in
	require.Equal(t, "draining", p.state(t, "b"))
	b.sick.Store(false)
	checked(3)
	require.Equal(t, "draining", p.state(t, "b"))

	// What they found is there when the drain is taken back.
	b.sick.Store(true)
	checked(3)
	var shown shownMember
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/undrain", "", &shown))
	require.Equal(t, "unhealthy", shown.State)
}

func TestAdmin_Errors(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-table-size=2")...)
	b := backends[0].url // one that is checked and found healthy
	tests := []struct {
		name, method, path, body string
		want                     int
	}{
		{"unknown", "GET", "/members/x", "", 404},
		{"removal of an unknown one", "DELETE", "/members/x", "", 404},
		{"drain of an unknown one", "POST", "/members/x/drain", "", 404},
		{"undrain of an unknown one", "POST", "/members/x/undrain", "", 404},
		{"a name that exists", "POST", "/members", `{"name":"a","url":"` + b + `"}`, 409},
		{"more than slots", "POST", "/members", `{"name":"c","url":"` + b + `"}`, 409},
		{"no name", "POST", "/members", `{"url":"` + b + `"}`, 400},
		{"no url", "POST", "/members", `{"name":"c"}`, 400},
		{"a relative url", "POST", "/members", `{"name":"c","url":"host:80"}`, 400},
		{"weight 0", "POST", "/members", `{"name":"c","url":"http://host","weight":0}`, 400},
		{"weight below 0", "POST", "/members", `{"name":"c","url":"http://host","weight":-1}`, 400},
		{"weight past uint32", "POST", "/members", `{"name":"c","url":"http://host","weight":4294967296}`, 400},
		{"an unknown field", "POST", "/members", `{"name":"c","url":"http://host","wait":1}`, 400},
		{"no JSON", "POST", "/members", `name=c`, 400},
		{"nothing", "POST", "/members", ``, 400},
		{"two values", "POST", "/members", `{"name":"c","url":"http://host"}{}`, 400},
		{"a huge body", "POST", "/members", `{"name":"` + strings.Repeat("c", 1<<17) + `"}`, 413},
	}
	before := p.members(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var failure struct{ Error string }
			require.Equal(t, test.want, p.request(t, test.method, test.path, test.body, &failure))
			require.NotEmpty(t, failure.Error)
			require.Equal(t, before, p.members(t))
		})
	}
	require.Equal(t, http.StatusMethodNotAllowed, p.request(t, "PUT", "/members", "", nil))
	require.Equal(t, http.StatusNotFound, p.request(t, "GET", "/", "", nil))

	// The place of a drained backend may be taken when it comes back.
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"c","url":"`+b+`"}`, nil))
	require.Equal(t, http.StatusConflict, p.request(t, "POST", "/members/a/undrain", "", nil))
	require.Equal(t, "draining", p.state(t, "a"))
}

// Any name that a backend can have is one that its address can be asked by.
func TestAdmin_Names(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := startTestBackend(t, "b")
	for _, name := range []string{"a b", "a/b", "a?b", "a%2Fb", "ü", "a\"b"} {
		in, err := json.Marshal(map[string]string{"name": name, "url": b.url})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", string(in), nil))
		var shown shownMember
		require.Equal(t, http.StatusOK, p.request(t, "GET", "/members/"+url.PathEscape(name), "", &shown))
		require.Equal(t, name, shown.Name)
		require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/"+url.PathEscape(name), "", nil))
	}
	require.Empty(t, p.members(t))
}

// Clients send while the membership changes: no request fails, and none arrives
// where neither the membership before nor the one after sends its client.
func TestAdmin_UnderLoad(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	p := start(t, backends[:2].flags("-health-interval=5ms")...)
	tables := []*chash.Maglev[string]{
		newTable(t, []string{"a", "b"}),
		newTable(t, []string{"a", "b", "c"}),
		newTable(t, []string{"b", "c"}),
	}
	homes := func(key string) (homes []string) {
		for _, table := range tables {
			home, err := table.Get(key)
			if err != nil {
				t.Errorf("Get(%q) = %v", key, err)
			}
			homes = append(homes, home)
		}
		return homes
	}
	done := make(chan struct{})
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key := fmt.Sprintf("client-%d-%d", worker, i%50)
				got := <-p.sendLater(newRequest(t, http.MethodPost, p.proxy, key, nil))
				if got.status != http.StatusOK || !slices.Contains(homes(key), got.backend) {
					t.Errorf("request %d of worker %d = %v, want an answer from one of %v", i, worker, got, homes(key))
				}
			}
		}()
	}
	for range 10 {
		require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"c","url":"`+backends[2].url+`"}`, nil))
		require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
		require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/undrain", "", nil))
		require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/c", "", nil))
	}
	close(done)
	workers.Wait()
}

func refuses(address string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		return true
	}
	conn.Close()
	return false
}

func TestDrain(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	p := start(t, "-backend=a="+b.url)
	arrived, release := b.hold()
	got := p.sendLater(newRequest(t, http.MethodPost, p.proxy, "key", strings.NewReader("body")))
	<-arrived
	p.quit()
	eventually(t, "the proxy accepts no more", func() bool { return refuses(p.proxy) })
	require.Equal(t, "healthy", p.state(t, "a"), "the admin address answers until the end")
	close(release)
	require.Equal(t, answer{http.StatusOK, "a", "body"}, <-got)
	require.NoError(t, <-p.ended)
	require.True(t, refuses(p.admin))
}

func TestDrain_TimeLimit(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	p := start(t, "-backend=a="+b.url, "-drain-timeout=50ms")
	arrived, _ := b.hold()
	got := p.sendLater(newRequest(t, http.MethodGet, p.proxy, "key", nil))
	<-arrived
	p.quit()
	require.ErrorIs(t, <-p.ended, context.DeadlineExceeded)
	require.Zero(t, (<-got).status)
}

// asProcess returns the program with those flags as a process to be.
func asProcess(ctx context.Context, flags ...string) (cmd *exec.Cmd, stderr *lockedBuffer) {
	cmd = exec.CommandContext(ctx, os.Args[0], flags...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stderr = new(lockedBuffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

func TestProcess_Interrupt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt here")
	}
	b := startTestBackend(t, "a")
	cmd, stderr := asProcess(t.Context(), "-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-backend=a="+b.url)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill() // in case the test fails before its end
	p := &program{client: new(http.Client)}
	p.proxy, _ = readAddresses(t, stdout)
	arrived, release := b.hold()
	got := p.sendLater(newRequest(t, http.MethodGet, p.proxy, "", nil))
	<-arrived
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	eventually(t, "the proxy accepts no more", func() bool { return refuses(p.proxy) })
	close(release)
	require.Equal(t, answer{http.StatusOK, "a", ""}, <-got)
	require.NoError(t, cmd.Wait(), "%s", stderr)
}

func TestProcess_ExitCodes(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]int{"-h": 0, "-nonsense": 2, "-table-size=4": 1} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			cmd, stderr := asProcess(t.Context(), flag)
			err := cmd.Run()
			require.Equal(t, want, cmd.ProcessState.ExitCode(), "%v: %s", err, stderr)
			require.Equal(t, want == 0, stderr.String() == "", "%s", stderr)
		})
	}
}

// raceDetector is whether the race detector is on.
var raceDetector = false

func TestDemo(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("it takes long: TestDemo_Small does the same with fewer requests")
	}
	cmd, stderr := asProcess(t.Context()) // without flags
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr)
	checkDemo(t, string(out), 20000, 2000)
}

func TestDemo_Small(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(t.Context(), []string{"-demo", "-demo-requests=2000", "-demo-clients=200", "-table-size=1009", "-seed=5"}, &out, io.Discard)
	require.NoError(t, err, "%s", &out)
	checkDemo(t, out.String(), 2000, 200, chash.WithTableSize(1009), chash.WithSeed(5))
}

// checkDemo checks that the facts of the demonstration are in its output.
func checkDemo(t *testing.T, out string, requests, clients int, opts ...chash.MaglevOption) {
	t.Helper()
	number := func(pattern string) []int {
		t.Helper()
		found := regexp.MustCompile(`(?m)^\s*` + pattern).FindStringSubmatch(out)
		require.NotNil(t, found, "no %s in\n%s", pattern, out)
		numbers := make([]int, len(found)-1)
		for i := range numbers {
			_, err := fmt.Sscan(found[i+1], &numbers[i])
			require.NoError(t, err)
		}
		return numbers
	}
	const six = `\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)`
	require.Equal(t, []int{requests / 2, clients, requests / 4, clients, requests / 4, clients}, number(`all`+six), "%s", out)

	// What each backend's clients must be, and who must move.
	table := newTable(t, []string{"backend-1", "backend-2", "backend-3"}, opts...)
	var want [3]map[string]int
	var homes [3][]string
	for phase := range want {
		switch phase {
		case 1:
			require.NoError(t, table.SetState("backend-2", chash.Unhealthy))
		case 2:
			require.NoError(t, table.Add(chash.Named("backend-4")...))
		}
		want[phase] = map[string]int{}
		for i := range clients {
			home, err := table.Get(fmt.Sprintf("client-%04d", i))
			require.NoError(t, err)
			want[phase][home]++
			homes[phase] = append(homes[phase], home)
		}
	}
	for i, state := range []string{"healthy", "unhealthy", "healthy", "healthy"} {
		name := fmt.Sprintf("backend-%d", i+1)
		got := number(name + `\s+` + state + `\s+\d+\.\d\d %` + six)
		require.Equal(t, []int{want[0][name], want[1][name], want[2][name]}, []int{got[1], got[3], got[5]}, "clients of %s\n%s", name, out)
	}
	moved := 0
	for i := range clients {
		if homes[1][i] != homes[2][i] {
			moved++
		}
	}
	stopped := want[0]["backend-2"]
	require.Equal(t, []int{stopped, stopped}, number(`clients moved, backend-2 stopped\s+(\d+)\s+\(fewest possible (\d+)\)`))
	require.Equal(t, []int{moved, want[2]["backend-4"]}, number(`clients moved, backend-4 added\s+(\d+)\s+\(fewest possible (\d+)\)`))
	require.Equal(t, []int{0}, number(`clients moved without a reason\s+(\d+)`))
	failed := number(`failed requests\s+(\d+)\s+\((\d+) attempts`)
	require.Zero(t, failed[0])
	require.NotZero(t, failed[1], "the stopped backend left nothing to repeat")
	require.Regexp(t, `(?m)^one lookup\s+\d+\.\d ns`, out)
}

// Interrupted, the demonstration ends at once, and not well.
func TestDemo_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, nil, io.Discard, io.Discard), context.Canceled)
}
