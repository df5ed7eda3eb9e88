package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

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

// Only failures in a row count.
func TestRetry_AnswerBetween(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-health-down=2")...)
	key := keyWith(t, newTable(t, []string{"a", "b"}), "a")
	hook := func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			panic(http.ErrAbortHandler) // closes the connection
		}
	}
	backends.named("a").hook.Store(&hook)
	for _, step := range []struct{ path, backend, state string }{
		{"/fail", "b", "healthy"},
		{"/", "a", "healthy"},
		{"/fail", "b", "healthy"},
		{"/fail", "b", "unhealthy"},
	} {
		got := send(t, p.client, newRequest(t, http.MethodGet, p.proxy+step.path, key, nil))
		require.Equal(t, answer{http.StatusOK, step.backend, ""}, got)
		require.Equal(t, step.state, p.state(t, "a"))
	}
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

// A body that its client does not finish, or garbles, is no failure of the
// backend's either.
func TestClientGone_InBody(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"kept":         "PUT / HTTP/1.1\r\nHost: x\r\nClient: x\r\nContent-Length: 10\r\n\r\nhalf",
		"passed on":    "POST / HTTP/1.1\r\nHost: x\r\nClient: x\r\nContent-Length: 10\r\n\r\nhalf",
		"no chunk":     "POST / HTTP/1.1\r\nHost: x\r\nClient: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
		"no chunk put": "PUT / HTTP/1.1\r\nHost: x\r\nClient: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startTestBackends(t, "a", "b")
			p := start(t, backends.flags("-health-down=1")...)
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, request)
			require.NoError(t, err)
			if strings.HasSuffix(request, "half") {
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			}
			status, err := bufio.NewReader(conn).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 400 Bad Request\r\n", status)
			require.Zero(t, backends[0].requests.Load()+backends[1].requests.Load())
			for _, m := range p.members(t) {
				require.Equal(t, "healthy", m.State)
			}
		})
	}
}
