package chashhttp_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// What HTTP can do goes through a Transport, under an http.Client and under an
// httputil.ReverseProxy.

// startProxy returns the URL of a ReverseProxy over a Transport that takes its keys
// from the context, where the proxy puts what key finds in the requests that come in.
func startProxy(t *testing.T, table chashhttp.Table, key chashhttp.Key) string {
	t.Helper()
	transport, err := chashhttp.NewTransport(table, chashhttp.FromContext(), chashhttp.Options{})
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out = pr.Out.WithContext(chashhttp.WithKey(pr.Out.Context(), key(pr.In)))
			pr.SetXForwarded()
		},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // for those that stream both ways
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.Close()
		require.NoError(t, transport.Close())
	})
	return front.URL
}

// onBothSides runs a test with a Transport under an http.Client, and with a client
// of a ReverseProxy over a Transport. Every request goes to s.
func onBothSides(t *testing.T, s *server, test func(t *testing.T, client *http.Client, target string)) {
	t.Run("Client", func(t *testing.T) {
		t.Parallel()
		test(t, &http.Client{Transport: newTransport(t, newMaglev(t, s), chashhttp.Options{})}, "http://service")
	})
	t.Run("ReverseProxy", func(t *testing.T) {
		t.Parallel()
		client := &http.Client{Transport: new(http.Transport)}
		t.Cleanup(client.CloseIdleConnections)
		test(t, client, startProxy(t, newRing(t, s), chashhttp.Path()))
	})
}

// The key is that of the request as it came in, although the header that has it is
// removed, and another one set, on the way out.
func TestProxy_Key(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c")
		table := newTable(t, servers...)
		proxy := startProxy(t, table, chashhttp.First(chashhttp.Header("X-Forwarded-For"), chashhttp.RemoteAddr()))
		for _, key := range append(keys(30), "") {
			req := newRequest(t, http.MethodGet, proxy+"/path", "", nil)
			if key != "" {
				req.Header.Set("X-Forwarded-For", key)
			} else {
				key = "127.0.0.1"
			}
			want, err := table.Get(key)
			require.NoError(t, err)
			got, err := do(http.DefaultTransport, req)
			require.NoError(t, err)
			require.Equal(t, nameOf(servers, want), got.backend, "key %q", key)
		}
	})
}

// The Host is what the Rewrite leaves: that which came in, unless it is taken away.
func TestProxy_Host(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{})
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(*httputil.ProxyRequest) {}}
	front := httptest.NewServer(proxy)
	defer front.Close()
	send := func() string {
		req := newRequest(t, http.MethodGet, front.URL, "key", nil)
		req.Host = "example.org"
		_, err := do(http.DefaultTransport, req)
		require.NoError(t, err)
		return s.last.Load().Host
	}
	require.Equal(t, "example.org", send())
	proxy.Rewrite = func(pr *httputil.ProxyRequest) { pr.Out.Host = "" }
	require.Equal(t, s.url.Host, send())
	proxy.Rewrite = func(pr *httputil.ProxyRequest) { pr.Out.Host = "elsewhere" }
	require.Equal(t, "elsewhere", send())
	// A Director's, which is how older programs do it.
	proxy.Rewrite, proxy.Director = nil, func(*http.Request) {}
	require.Equal(t, "example.org", send())
}

// A request that a dead backend was not sent goes on, although a ReverseProxy keeps
// no body to have again.
func TestProxy_Retry(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	proxy := startProxy(t, table, chashhttp.Header(keyHeader))
	servers[0].kill()
	long := strings.Repeat("body ", 1<<17)
	got, err := do(http.DefaultTransport, newRequest(t, http.MethodPost, proxy, keyFor(t, table, servers...), strings.NewReader(long)))
	require.NoError(t, err)
	require.Equal(t, answer{http.StatusOK, "b", long}, got)
}

// Each side gets a line when the other has written it, and not when all is written.
func TestCarry_StreamsBothWays(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, "echo of", lines.Text())
			_ = control.Flush()
		}
	})
	onBothSides(t, s, func(t *testing.T, client *http.Client, target string) {
		reader, writer := io.Pipe()
		defer writer.Close()
		// A server that streams both ways answers when the first line has come.
		go func() { _, _ = io.WriteString(writer, "line 0\n") }()
		resp, err := client.Do(newRequest(t, http.MethodPost, target, "key", reader))
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 5 {
			if i > 0 {
				_, err := fmt.Fprintln(writer, "line", i)
				require.NoError(t, err)
			}
			require.True(t, lines.Scan(), "line %d: %v", i, lines.Err())
			require.Equal(t, fmt.Sprint("echo of line ", i), lines.Text())
		}
		require.NoError(t, writer.Close())
		require.False(t, lines.Scan())
		require.NoError(t, lines.Err())
	})
}

func TestCarry_Upgrade(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" || !strings.EqualFold(r.Header.Get("Connection"), "Upgrade") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
	})
	onBothSides(t, s, func(t *testing.T, client *http.Client, target string) {
		req := newRequest(t, http.MethodGet, target, "key", nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		conn, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok, "%T", resp.Body)
		defer conn.Close()
		for _, want := range []string{"some", "thing"} {
			_, err := io.WriteString(conn, want)
			require.NoError(t, err)
			got := make([]byte, len(want))
			_, err = io.ReadFull(conn, got)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		}
	})
}

func TestCarry_Informational(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	})
	onBothSides(t, s, func(t *testing.T, client *http.Client, target string) {
		var hints []string
		req := newRequest(t, http.MethodGet, target, "key", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", header.Get("Link")))
				return nil
			},
		}))
		resp, err := client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.Equal(t, []string{"103 </style.css>"}, hints)
	})
}

func TestCarry_Trailers(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
		w.Header().Set("Sum", r.Trailer.Get("Sum")+"!")
	})
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{})
	req := newRequest(t, http.MethodPost, "http://service/", "key", nil)
	req.Trailer = http.Header{"Sum": nil}
	// It is known when the body has been read.
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), atEOF(func() { req.Trailer.Set("Sum", "42") })))
	req.ContentLength = -1
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	require.Equal(t, "42!", resp.Trailer.Get("Sum"))
}

// atEOF is an empty reader that calls a function when it is read.
type atEOF func()

func (f atEOF) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// HTTP/2 is Base's to speak. Where it finds no connection, nothing was sent either.
func TestCarry_HTTP2(t *testing.T) {
	t.Parallel()
	start := func(name string) (*httptest.Server, chash.Backend[*url.URL]) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Abort") == name {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Backend", name)
			_, _ = io.Copy(w, r.Body)
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		return s, chash.Backend[*url.URL]{Name: name, Value: u}
	}
	a, backendA := start("a")
	_, backendB := start("b")
	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{backendA, backendB})
	require.NoError(t, err)
	key := keyFor(t, table, &server{url: backendA.Value}, &server{url: backendB.Value})

	roots := a.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	transport := newTransport(t, table, chashhttp.Options{Base: base, FailureThreshold: 100})
	send := func(method, abort string) (answer, error) {
		req := newRequest(t, method, "http://service/", key, io.MultiReader(strings.NewReader("body")))
		req.Header.Set("Abort", abort)
		got, err := do(roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := transport.RoundTrip(req)
			if err == nil && resp.ProtoMajor != 2 {
				err = fmt.Errorf("got an answer by %s", resp.Proto)
			}
			return resp, err
		}), req)
		return got, err
	}
	got, err := send(http.MethodPost, "")
	require.NoError(t, err)
	require.Equal(t, answer{http.StatusOK, "a", "body"}, got)

	_, err = send(http.MethodPost, "a")
	require.Error(t, err, "it was sent")

	require.NoError(t, a.Listener.Close())
	transport.CloseIdleConnections()
	got, err = send(http.MethodPost, "")
	require.NoError(t, err)
	require.Equal(t, answer{http.StatusOK, "b", "body"}, got)
}

// What a client of a ReverseProxy does not finish is not the backend's failure.
func TestProxy_ClientGone(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
	front, failed := startFront(t, transport)
	converse(t, front, "PUT / HTTP/1.1\r\nHost: x\r\n"+keyHeader+": key\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
	require.ErrorIs(t, <-failed, chashhttp.ErrRequestBody)
	for _, name := range []string{"a", "b"} {
		require.Equal(t, chash.Healthy, state(t, table, name))
	}
}
