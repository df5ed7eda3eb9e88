package chashhttp_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// What a hostile client asks a proxy for neither has backends marked nor goes to where
// it should not.

// startHTTP2 starts two servers that speak HTTP/2 alone and take headers of up to 8 KB,
// and returns a table of them, what sends requests to them, and how many arrived.
func startHTTP2(t *testing.T, secure bool) (structure, *http.Transport, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	var members []chash.Backend[*url.URL]
	roots := x509.NewCertPool()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(secure)
	protocols.SetUnencryptedHTTP2(!secure)
	for _, name := range []string{"a", "b"} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
		s.Config.MaxHeaderBytes = 8 << 10
		s.Config.Protocols = protocols
		if s.EnableHTTP2 = secure; secure {
			s.StartTLS()
			roots.AddCert(s.Certificate())
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		members = append(members, chash.Backend[*url.URL]{Name: name, Value: u})
	}
	table, err := chash.NewMaglev(members)
	require.NoError(t, err)
	base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: protocols}
	return table, base, &requests
}

// Over HTTP/2 there are requests that net/http does not write, whichever backend they
// are for.
func TestProxy_HTTP2Refuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		secure  bool
		headers map[string]string
	}{
		"an upgrade":                      {true, map[string]string{"Connection": "Upgrade", "Upgrade": "h2c"}},
		"an upgrade, without TLS":         {false, map[string]string{"Connection": "Upgrade", "Upgrade": "h2c"}},
		"more header than a server takes": {true, map[string]string{"Cookie": strings.Repeat("c", 16<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, base, requests := startHTTP2(t, test.secure)
			transport := newTransport(t, table, chashhttp.Options{Base: base, FailureThreshold: 1})
			front, _ := startFront(t, transport)
			send := func(headers map[string]string) int {
				req := newRequest(t, http.MethodGet, front.URL, "key", nil)
				for name, value := range headers {
					req.Header.Set(name, value)
				}
				got, err := do(http.DefaultTransport, req)
				require.NoError(t, err)
				return got.status
			}
			require.Equal(t, http.StatusOK, send(nil)) // after which the limit of the server is known
			require.Equal(t, http.StatusBadGateway, send(test.headers))
			require.Equal(t, http.StatusOK, send(nil))
			require.EqualValues(t, 2, requests.Load())
			require.Equal(t, chashhttp.Stats{}, transport.Stats())
			for _, name := range []string{"a", "b"} {
				require.Equal(t, chash.Healthy, state(t, table, name), name)
			}
		})
	}
}

// A server passes on the names of trailers as a client has announced them.
func TestProxy_BadTrailer(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
	front, _ := startFront(t, transport)
	status := converse(t, front, "PUT / HTTP/1.1\r\nHost: x\r\n"+keyHeader+": key\r\nTransfer-Encoding: chunked\r\nTrailer: a b\r\n\r\n0\r\n\r\n")
	require.Equal(t, http.StatusBadGateway, status)
	require.Equal(t, chashhttp.Stats{}, transport.Stats())
	for _, s := range servers {
		require.Zero(t, s.requests.Load())
		require.Equal(t, chash.Healthy, state(t, table, s.name), s.name)
	}
}

// What is asked for in the form of an opaque URL has no place below a backend's path.
func TestProxy_OpaqueURL(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	front, failed := startFront(t, newTransport(t, newMaglev(t, s), chashhttp.Options{}))
	require.Equal(t, http.StatusBadGateway, converse(t, front, "GET http:path HTTP/1.1\r\nHost: x\r\n\r\n"))
	err := <-failed
	require.ErrorIs(t, err, chashhttp.ErrInvalidURL)
	require.ErrorContains(t, err, `"http:path"`)
	require.Zero(t, s.requests.Load())
}

// A client of a proxy that asks for a URL with a host in it gets no other Host through.
func TestProxy_AbsoluteURL(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	front, _ := startFront(t, newTransport(t, newMaglev(t, s), chashhttp.Options{}))
	require.Equal(t, http.StatusOK, converse(t, front, "GET http://example.org/path HTTP/1.1\r\nHost: example.org\r\n\r\n"))
	require.Equal(t, "/path", s.last.Load().RequestURI)
	require.Equal(t, "example.org", s.last.Load().Host)
}

// Only where the last connection was in order is it the request that is to blame.
func TestHealth_RefusedOrLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps string // of an attempt: a connection is Asked for, Had, and the header Written
		err   error
		blame bool
	}{
		"refused":                         {"AH", errAny, false},
		"kept from a second connection":   {"AHWAH", errAny, true},
		"written":                         {"AHW", errAny, true},
		"the second cannot be had":        {"AHA", errAny, true},
		"lost before anything is written": {"AH", &net.OpError{Op: "read", Err: errAny}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b")
			table := newMaglev(t, servers...)
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(req.Context())
				for _, step := range test.steps {
					switch step {
					case 'A':
						trace.GetConn(req.URL.Host)
					case 'H':
						trace.GotConn(httptrace.GotConnInfo{})
					case 'W':
						trace.WroteHeaders()
					}
				}
				return nil, test.err
			})
			transport := newTransport(t, table, chashhttp.Options{Base: base, FailureThreshold: 1, MaxAttempts: 1})
			req := newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, servers[0]), nil)
			req.Header.Set("Upgrade", "h2c")
			_, err := do(transport, req)
			require.Error(t, err)
			require.Equal(t, test.blame, state(t, table, "a") == chash.Unhealthy)
		})
	}
}

// A backend that accepts connections and closes them is to blame for that, whatever
// is asked of it and however soon it closes them.
func TestHealth_ClosesConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			conn.Close()
		}
	}()
	s := startServer(t, "s")
	closes := &server{name: "closes", url: &url.URL{Scheme: "http", Host: l.Addr().String()}}
	table := newMaglev(t, s, closes)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 20})
	for range 20 {
		require.Equal(t, chash.Healthy, state(t, table, "closes"))
		require.Equal(t, "s", get(t, transport, keyFor(t, table, closes)).backend)
	}
	require.Equal(t, chash.Unhealthy, state(t, table, "closes"))
}
