package dns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A zone is a DNS server on loopback whose records a test changes.
type zone struct {
	address string

	mu      sync.Mutex
	records []dns.RR
	code    int  // of every answer
	silent  bool // it does not answer
	asked   int
}

func serveZone(t *testing.T) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	z := &zone{address: conn.LocalAddr().String()}
	server := &dns.Server{PacketConn: conn, Handler: z}
	begun := make(chan struct{})
	server.NotifyStartedFunc = func() { close(begun) }
	go func() { _ = server.ActivateAndServe() }()
	<-begun
	t.Cleanup(func() { _ = server.Shutdown() })
	return z
}

// ServeDNS answers as an authority does that knows the records and no others.
func (z *zone) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	if z.silent {
		return
	}
	m := new(dns.Msg)
	m.SetRcode(r, z.code)
	m.Authoritative = true
	known := false
	for _, record := range z.records {
		h := record.Header()
		if !strings.EqualFold(h.Name, r.Question[0].Name) {
			continue
		}
		known = true
		if h.Rrtype == r.Question[0].Qtype && z.code == dns.RcodeSuccess {
			m.Answer = append(m.Answer, record)
		}
	}
	if !known && z.code == dns.RcodeSuccess {
		m.Rcode = dns.RcodeNameError
	}
	_ = w.WriteMsg(m)
}

// set makes the records those of the zone.
func (z *zone) set(t *testing.T, records ...string) {
	t.Helper()
	var list []dns.RR
	for _, text := range records {
		record, err := dns.NewRR(text)
		require.NoError(t, err)
		list = append(list, record)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records, z.code, z.silent = list, dns.RcodeSuccess, false
}

// fail makes the server answer with a code alone, or not at all.
func (z *zone) fail(code int, silent bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.code, z.silent = code, silent
}

// resolver returns one that asks the zone.
func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.address)
	}}
}

// slow are options of a Follower that asks when it is told to.
var slow = chashhttp.FollowOptions{Interval: time.Hour, Retry: time.Hour}

func newTable(t *testing.T) *chash.Maglev[*url.URL] {
	t.Helper()
	table, err := chash.NewMaglev[*url.URL](nil)
	require.NoError(t, err)
	return table
}

func described(table *chash.Maglev[*url.URL]) (lines []string) {
	for _, b := range table.Backends() {
		lines = append(lines, fmt.Sprintf("%s %d %s %v", b.Name, b.Weight, b.Value, b.State))
	}
	return lines
}

func srv(z *zone, backup bool) chashhttp.SRV {
	return chashhttp.SRV{Resolver: z.resolver(), Service: "web", Proto: "tcp", Name: "example.test.", Backup: backup}
}

// The backends are those of the records: names in one form, weights, ports, and the lowest
// priority apart from all others.
func TestSRV(t *testing.T) {
	z := serveZone(t)
	z.set(t,
		"_web._tcp.example.test. 60 IN SRV 10 3 8080 A.example.test.",
		"_web._tcp.example.test. 60 IN SRV 10 0 8081 a.example.test.",
		"_web._tcp.example.test. 60 IN SRV 10 1 8080 b.example.test.",
		"_web._tcp.example.test. 60 IN SRV 10 5 8080 b.example.test.",
		"_web._tcp.example.test. 60 IN SRV 20 1 80 c.example.test.",
		"_web._tcp.example.test. 60 IN SRV 30 65535 80 d.example.test.",
	)
	table, backup := newTable(t), newTable(t)
	f, err := chashhttp.Follow(t.Context(), table, srv(z, false), slow)
	require.NoError(t, err)
	defer f.Close()
	b, err := chashhttp.Follow(t.Context(), backup, srv(z, true), slow)
	require.NoError(t, err)
	defer b.Close()
	require.Equal(t, []string{
		"a.example.test:8080 3 http://a.example.test:8080 healthy",
		"a.example.test:8081 1 http://a.example.test:8081 healthy",
		"b.example.test:8080 5 http://b.example.test:8080 healthy",
	}, described(table))
	require.Equal(t, []string{
		"c.example.test:80 1 http://c.example.test:80 healthy",
		"d.example.test:80 65535 http://d.example.test:80 healthy",
	}, described(backup))
	rebuilds := table.Stats().Rebuilds
	require.NoError(t, table.SetState("a.example.test:8080", chash.Unhealthy))
	require.NoError(t, f.Refresh(t.Context()))
	require.Equal(t, rebuilds, table.Stats().Rebuilds, "no news, in whatever order")

	z.set(t,
		"_web._tcp.example.test. 60 IN SRV 10 0 8080 a.example.test.",
		"_web._tcp.example.test. 60 IN SRV 10 1 8080 e.example.test.",
	)
	require.NoError(t, f.Refresh(t.Context()))
	require.NoError(t, b.Refresh(t.Context()))
	require.Equal(t, []string{
		"a.example.test:8080 1 http://a.example.test:8080 unhealthy",
		"e.example.test:8080 1 http://e.example.test:8080 healthy",
	}, described(table))
	require.Empty(t, described(backup), "there is no other priority")

	// As a whole name, and with a scheme.
	list, err := chashhttp.SRV{Resolver: z.resolver(), Scheme: "https", Name: "_web._tcp.example.test."}.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "https://a.example.test:8080", list[0].Value.String())
}

// Whatever a name server answers, or does not, a failure leaves the table as it is.
func TestFailures(t *testing.T) {
	z := serveZone(t)
	good := []string{
		"_web._tcp.example.test. 60 IN SRV 10 1 8080 a.example.test.",
		"web.example.test. 60 IN A 127.0.0.1",
	}
	for name, source := range map[string]chashhttp.Source{
		"SRV":   srv(z, false),
		"Hosts": chashhttp.Hosts{Resolver: z.resolver(), URL: &url.URL{Scheme: "http", Host: "web.example.test.:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			z.set(t, good...)
			table := newTable(t)
			opts := slow
			f, err := chashhttp.Follow(t.Context(), table, source, opts)
			require.NoError(t, err)
			defer f.Close()
			before := described(table)
			require.Len(t, before, 1)
			for what, breakIt := range map[string]func(){
				"NXDOMAIN":   func() { z.set(t) },
				"no records": func() { z.set(t, "_web._tcp.example.test. 60 IN TXT x", "web.example.test. 60 IN TXT x") },
				"SERVFAIL":   func() { z.fail(dns.RcodeServerFailure, false) },
				"REFUSED":    func() { z.fail(dns.RcodeRefused, false) },
				"silence":    func() { z.fail(0, true) },
			} {
				breakIt()
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				err := f.Refresh(ctx)
				cancel()
				require.ErrorIs(t, err, chashhttp.ErrSource, what)
				var cause *net.DNSError
				require.True(t, errors.As(err, &cause), "%s: %v", what, err)
				require.Equal(t, before, described(table), what)
				z.set(t, good...)
				require.NoError(t, f.Refresh(t.Context()), "after %s", what)
			}
		})
	}
	f, err := chashhttp.Follow(t.Context(), newTable(t), srv(z, false), slow)
	require.NoError(t, err)
	defer f.Close()
	z.set(t, "_web._tcp.example.test. 60 IN SRV 0 0 0 .")
	require.ErrorIs(t, f.Refresh(t.Context()), chashhttp.ErrSource)
	require.ErrorContains(t, f.Refresh(t.Context()), "not available")
	z.set(t, good[0], "_web._tcp.example.test. 60 IN SRV 10 1 8080 a\\032b.example.test.")
	require.ErrorIs(t, f.Refresh(t.Context()), chashhttp.ErrSource, "a list of which a part is bad")
}

// The backends are the addresses of both kinds, or of one.
func TestHosts(t *testing.T) {
	z := serveZone(t)
	z.set(t,
		"web.example.test. 60 IN A 127.0.0.9",
		"web.example.test. 60 IN A 127.0.0.1",
		"web.example.test. 61 IN A 127.0.0.1",
		"web.example.test. 60 IN AAAA ::1",
	)
	at := &url.URL{Scheme: "http", Host: "web.example.test.:8080", Path: "/v1"}
	for network, want := range map[string][]string{
		"":    {"127.0.0.1:8080 1 http://127.0.0.1:8080/v1 healthy", "127.0.0.9:8080 1 http://127.0.0.9:8080/v1 healthy", "[::1]:8080 1 http://[::1]:8080/v1 healthy"},
		"ip4": {"127.0.0.1:8080 1 http://127.0.0.1:8080/v1 healthy", "127.0.0.9:8080 1 http://127.0.0.9:8080/v1 healthy"},
		"ip6": {"[::1]:8080 1 http://[::1]:8080/v1 healthy"},
	} {
		table, source := newTable(t), chashhttp.Hosts{Resolver: z.resolver(), URL: at, Network: network}
		list, err := source.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, len(want))
		for i := range want {
			require.Contains(t, want[i], list[i].Name+" ", "in order, and once each")
		}
		f, err := chashhttp.Follow(t.Context(), table, source, slow)
		require.NoError(t, err)
		require.Equal(t, want, described(table))
		require.NoError(t, table.SetWeight(table.Backends()[0].Name, 5))
		require.NoError(t, f.Refresh(t.Context()))
		require.EqualValues(t, 5, table.Backends()[0].Weight, "weights are the caller's")
		f.Close()
	}
}

// Requests follow the records of a name server to real servers, whose names the same one knows,
// with no other word than its own; and they are served while it is gone.
func TestRequests(t *testing.T) {
	z := serveZone(t)
	start := func(name string) (record string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
		t.Cleanup(s.Close)
		port := s.Listener.Addr().(*net.TCPAddr).Port
		return fmt.Sprintf("_web._tcp.example.test. 1 IN SRV 10 1 %d %s.example.test.", port, name)
	}
	hosts := []string{"a.example.test. 1 IN A 127.0.0.1", "b.example.test. 1 IN A 127.0.0.1"}
	a, b := start("a"), start("b")
	z.set(t, append(hosts, a)...)
	table := newTable(t)
	f, err := chashhttp.Follow(t.Context(), table, srv(z, false), chashhttp.FollowOptions{
		Interval: time.Millisecond, Retry: time.Millisecond, Timeout: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	defer f.Close()
	base := &http.Transport{DialContext: (&net.Dialer{Resolver: z.resolver()}).DialContext}
	transport, err := chashhttp.NewTransport(table, chashhttp.Header("X-Key"), chashhttp.Options{Base: base})
	require.NoError(t, err)
	defer transport.Close()
	client := &http.Client{Transport: transport}
	get := func() string {
		resp, err := client.Get("http://service/")
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Equal(t, "a", get())
	z.set(t, append(hosts, b)...)
	require.Eventually(t, func() bool { return get() == "b" }, 20*time.Second, time.Millisecond)

	z.fail(0, true)
	z.mu.Lock()
	asked := z.asked
	z.mu.Unlock()
	require.Eventually(t, func() bool {
		z.mu.Lock()
		defer z.mu.Unlock()
		return z.asked > asked+2
	}, 20*time.Second, time.Millisecond, "it asks again and again")
	require.Equal(t, "b", get(), "on the connection that there is")
	z.set(t, append(hosts, a)...)
	require.Eventually(t, func() bool { return get() == "a" }, 20*time.Second, time.Millisecond)
}
