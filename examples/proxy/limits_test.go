package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// handle has a backend answer by a handler of the test's own.
func (b *testBackend) handle(hook func(w http.ResponseWriter, r *http.Request)) { b.hook.Store(&hook) }

// startOne starts the proxy before one backend.
func startOne(t *testing.T, flags ...string) (*program, *testBackend) {
	t.Helper()
	backends := startTestBackends(t, "a")
	return start(t, backends.flags(flags...)...), backends[0]
}

// flush sends what a backend has written so far.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// open sends a request and returns the answer once its header is there.
func (p *program) open(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	resp, err := p.client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestLimits_Header(t *testing.T) {
	t.Parallel()
	p, b := startOne(t, "-header-timeout=50ms", "-idle-timeout=0")
	arrived, _ := b.hold()
	require.Equal(t, http.StatusGatewayTimeout, p.get(t, "key").status)
	<-arrived
}

// Each limit is of itself: without that of the header, a backend that thinks for longer
// than all others is waited for.
func TestLimits_NoneOfTheHeader(t *testing.T) {
	t.Parallel()
	p, b := startOne(t, "-header-timeout=0", "-idle-timeout=300ms", "-client-header-timeout=300ms", "-tunnel-timeout=300ms")
	b.handle(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }) // many times as long
	require.Equal(t, answer{http.StatusOK, "a", "body"},
		send(t, p.client, newRequest(t, http.MethodPost, p.proxy, "key", strings.NewReader("body"))))
}

// A stream of events lives longer than any limit, as long as there are events.
func TestLimits_Stream(t *testing.T) {
	t.Parallel()
	const limit, events = 2 * time.Second, 25
	p, b := startOne(t, "-header-timeout=2s", "-idle-timeout=2s", "-client-header-timeout=2s", "-tunnel-timeout=2s")
	b.handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range events { // in 1.5 times the limit
			fmt.Fprintf(w, "data: %d\n\n", i)
			flush(w)
			time.Sleep(3 * limit / 2 / events)
		}
	})
	resp := p.open(t, newRequest(t, http.MethodGet, p.proxy, "key", nil))
	lines := bufio.NewScanner(resp.Body)
	for i := range events {
		require.True(t, lines.Scan() && lines.Text() == fmt.Sprintf("data: %d", i) && lines.Scan(), "event %d: %v", i, lines.Err())
	}
	require.False(t, lines.Scan())
	require.NoError(t, lines.Err())
}

// A backend that stops in the midst of its answer is not waited for.
func TestLimits_BackendStops(t *testing.T) {
	t.Parallel()
	p, b := startOne(t, "-idle-timeout=500ms", "-header-timeout=0")
	gone := make(chan struct{})
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "some")
		flush(w)
		<-r.Context().Done()
		close(gone)
	})
	resp := p.open(t, newRequest(t, http.MethodGet, p.proxy, "key", nil))
	body, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "some", string(body))
	<-gone
}

// A client that stops in the midst of its request is told so, and does not hold its
// backend.
func TestLimits_ClientStops(t *testing.T) {
	t.Parallel()
	p, b := startOne(t, "-idle-timeout=500ms", "-header-timeout=0", "-health-down=1")
	for _, method := range []string{"POST", "PUT"} {
		require.Equal(t, http.StatusRequestTimeout, converse(t, p.proxy, method+" / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"))
	}
	require.Equal(t, "healthy", p.state(t, "a"))
	require.Zero(t, b.requests.Load())
	// Without a backend nobody reads the body, which does not hold the connection.
	require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/a", "", nil))
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.NoError(t, err, "it was closed")
}

// A client that takes no more of its answer does not hold its backend.
func TestLimits_ClientTakesNothing(t *testing.T) {
	t.Parallel()
	p, b := startOne(t, "-idle-timeout=50ms", "-header-timeout=0")
	gone := make(chan struct{})
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-gone
}

// A connection that has served one request serves the next as well, however long after
// the limits of the first.
func TestLimits_NextRequest(t *testing.T) {
	t.Parallel()
	p, b := startOne(t, "-idle-timeout=300ms", "-header-timeout=0")
	b.handle(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(time.Second) // beyond what the request before has set
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for _, path := range []string{"/", "/slow", "/slow"} {
		_, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody")
		require.NoError(t, err)
		for status := 100; status < 200; {
			resp, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			if status = resp.StatusCode; status >= 200 {
				require.Equal(t, "200 body", fmt.Sprint(status, " ", string(body)))
			}
		}
	}
}

func TestLimits_ClientHeader(t *testing.T) {
	t.Parallel()
	p, _ := startOne(t, "-client-header-timeout=50ms", "-idle-timeout=0")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost:")
	require.NoError(t, err)
	_, _ = io.ReadAll(conn) // until it is closed
}

// upgrade makes a tunnel to a backend that sends back what it gets.
func upgrade(t *testing.T, flags ...string) net.Conn {
	t.Helper()
	p, b := startOne(t, flags...)
	b.handle(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, buffered) // the client may have sent something before the Hijack
		}()
		panic(http.ErrAbortHandler) // the rest of the handler is not for this connection
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	return conn
}

func echo(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := io.WriteString(conn, "hello")
	require.NoError(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
}

// A tunnel has a limit of its own: it outlives all others in silence.
func TestLimits_TunnelIsQuiet(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"1h", "0"} {
		conn := upgrade(t, "-tunnel-timeout="+limit, "-header-timeout=300ms", "-idle-timeout=300ms", "-client-header-timeout=300ms")
		echo(t, conn)
		time.Sleep(time.Second) // of silence, many times as long as each
		echo(t, conn)
	}
}

// And it lives longer than that as long as something moves.
func TestLimits_TunnelMoves(t *testing.T) {
	t.Parallel()
	conn := upgrade(t, "-tunnel-timeout=2s")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		echo(t, conn)
		time.Sleep(100 * time.Millisecond)
	}
	echo(t, conn)
}

func TestLimits_TunnelEnds(t *testing.T) {
	t.Parallel()
	conn := upgrade(t, "-tunnel-timeout=50ms", "-idle-timeout=0", "-header-timeout=0")
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
