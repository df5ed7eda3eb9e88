package chashhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// streamed hides from net/http how long a body is and how to have it again.
type streamed struct{ io.Reader }

// A request that a backend has read, but not answered, is sent to the key's next
// candidate if it is idempotent and its body can be had again, else to nobody.
func TestRetry_Sent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		method  string
		body    io.Reader
		header  string
		keep    int64
		retried bool
	}{
		{"GET", "GET", nil, "", 0, true},
		{"no method, which is GET", "", nil, "", 0, true},
		{"HEAD", "HEAD", nil, "", 0, true},
		{"OPTIONS", "OPTIONS", nil, "", 0, true},
		{"TRACE", "TRACE", nil, "", 0, true},
		{"PUT", "PUT", strings.NewReader("body"), "", 0, true},
		{"DELETE", "DELETE", nil, "", 0, true},
		{"DELETE with a body", "DELETE", strings.NewReader("body"), "", 0, true},
		{"POST", "POST", nil, "", 0, false},
		{"POST with a body", "POST", strings.NewReader("body"), "", 0, false},
		{"PATCH", "PATCH", strings.NewReader("body"), "", 0, false},
		{"a method of its own", "MERGE", nil, "", 0, false},
		{"POST with a promise", "POST", strings.NewReader("body"), "Idempotency-Key", 0, true},
		{"PATCH with a promise", "PATCH", strings.NewReader("body"), "X-Idempotency-Key", 0, true},
		{"POST with a promise, body used up", "POST", streamed{strings.NewReader("body")}, "Idempotency-Key", 0, false},
		{"PUT, body used up", "PUT", streamed{strings.NewReader("body")}, "", 0, false},
		{"PUT, body kept", "PUT", streamed{strings.NewReader("body")}, "", 4, true},
		{"PUT, body too long to be kept", "PUT", streamed{strings.NewReader("body")}, "", 3, false},
		{"POST, body kept for nothing", "POST", streamed{strings.NewReader("body")}, "", 4, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b", "c")
			table := newMaglev(t, servers...)
			transport := newTransport(t, table, chashhttp.Options{KeepBody: test.keep})
			servers[0].answer(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				panic(http.ErrAbortHandler)
			})
			req := newRequest(t, test.method, "http://service/", keyFor(t, table, servers...), test.body)
			req.Method = test.method // also none
			if _, hidden := test.body.(streamed); hidden {
				req.ContentLength = 4
			}
			if test.header != "" {
				req.Header.Set(test.header, "1")
			}
			got, err := do(transport, req)
			require.EqualValues(t, 1, servers[0].requests.Load())
			require.Zero(t, servers[2].requests.Load())
			if !test.retried {
				require.Error(t, err)
				require.Zero(t, servers[1].requests.Load())
				require.Equal(t, chashhttp.Stats{}, transport.Stats())
				return
			}
			require.NoError(t, err)
			want := answer{http.StatusOK, "b", ""}
			if test.body != nil {
				want.body = "body"
			}
			require.Equal(t, want, got)
			require.Equal(t, chashhttp.Stats{Retries: 1}, transport.Stats())
		})
	}
}

// Over a connection that was never made nothing was sent: any request goes on, with
// its whole body, however long it is and although no one else has it.
func TestRetry_Refused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("body ", 1<<17)
	for _, method := range []string{"POST", "PATCH", "PUT", "MERGE"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b", "c")
			table := newMaglev(t, servers...)
			transport := newTransport(t, table, chashhttp.Options{})
			servers[0].kill()
			servers[1].kill()
			body := &trackedBody{Reader: strings.NewReader(long)}
			got, err := do(transport, newRequest(t, method, "http://service/", keyFor(t, table, servers...), body))
			require.NoError(t, err)
			require.Equal(t, answer{http.StatusOK, "c", long}, got)
			require.EqualValues(t, 1, body.closes.Load())
		})
	}
}

// Whether a connection was had is known of net/http alone: where Base says nothing
// about it, a request that is not idempotent may have been sent.
func TestRetry_SilentBase(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	sent := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		sent++
		if req.URL.Host == servers[0].url.Host {
			return nil, errAny
		}
		req = req.Clone(t.Context()) // without the trace
		return http.DefaultTransport.RoundTrip(req)
	})
	transport := newTransport(t, table, chashhttp.Options{Base: base})
	key := keyFor(t, table, servers...)
	_, err := do(transport, newRequest(t, http.MethodPost, "http://service/", key, strings.NewReader("body")))
	require.ErrorIs(t, err, errAny)
	require.Equal(t, 1, sent)
	_, err = do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
	require.NoError(t, err)
	require.Equal(t, 3, sent)
}

// A body that Base has read is not sent on although there was no connection, nor is
// one that it reads or closes too late taken from the next attempt.
func TestRetry_BodyInBase(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	key := keyFor(t, table, servers...)
	var first *http.Request
	refused := func(read bool) roundTripper {
		return func(req *http.Request) (*http.Response, error) {
			if req.URL.Host != servers[0].url.Host {
				late := make([]byte, 10)
				n, err := first.Body.Read(late)
				require.Zero(t, n)
				require.Error(t, err)
				require.NoError(t, first.Body.Close())
				return http.DefaultTransport.RoundTrip(req)
			}
			first = req
			if read {
				_, err := io.ReadAll(req.Body)
				require.NoError(t, err)
			}
			return nil, errAny
		}
	}
	put := func(base http.RoundTripper) (answer, *trackedBody, error) {
		body := &trackedBody{Reader: strings.NewReader("body")}
		got, err := do(newTransport(t, table, chashhttp.Options{Base: base}), newRequest(t, http.MethodPut, "http://service/", key, body))
		return got, body, err
	}
	got, body, err := put(refused(false))
	require.NoError(t, err)
	require.Equal(t, answer{http.StatusOK, "b", "body"}, got)
	require.EqualValues(t, 1, body.closes.Load())

	_, body, err = put(refused(true))
	require.ErrorIs(t, err, errAny)
	require.Zero(t, body.closes.Load(), "it is Base that closes it")
	require.NoError(t, first.Body.Close())
	require.EqualValues(t, 1, body.closes.Load())
}

// A Base that asked for a connection and had none has, by its word, sent nothing. But
// where it has read the body, that is not to be relied on.
func TestRetry_ReadWithoutConnection(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	sent := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		sent++
		httptrace.ContextClientTrace(req.Context()).GetConn(req.URL.Host)
		_, err := io.ReadAll(req.Body)
		return nil, errors.Join(errAny, err, req.Body.Close())
	})
	transport := newTransport(t, table, chashhttp.Options{Base: base})
	_, err := do(transport, newRequest(t, http.MethodPost, "http://service/", "key", strings.NewReader("body")))
	require.ErrorIs(t, err, errAny)
	require.Equal(t, 1, sent)
}

// A body goes past any number of backends that do not take it.
func TestRetry_RefusedAndLost(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c", "d")
	table := newMaglev(t, servers...)
	key := keyFor(t, table, servers...)
	servers[0].kill()
	transport := newTransport(t, table, chashhttp.Options{MaxAttempts: 4})
	require.NoError(t, table.SetValue("b", nil))
	require.NoError(t, table.SetValue("c", &url.URL{Path: "/no-host"}))
	body := &trackedBody{Reader: strings.NewReader("body")}
	got, err := do(transport, newRequest(t, http.MethodPost, "http://service/", key, body))
	require.NoError(t, err)
	require.Equal(t, answer{http.StatusOK, "d", "body"}, got)
	require.EqualValues(t, 1, body.closes.Load())
}

// A body is read before it is sent only where it could not be had again otherwise. One
// that was kept is also Base's to have again.
func TestRetry_KeepBody(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	var again []byte
	var reads int64
	body := new(trackedBody)
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		reads = body.reads.Load()
		fresh, err := req.GetBody()
		require.NoError(t, err)
		again, err = io.ReadAll(fresh)
		require.NoError(t, err)
		return http.DefaultTransport.RoundTrip(req)
	})
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{Base: base, KeepBody: 100})
	for name, getBody := range map[string]func() (io.ReadCloser, error){
		"kept":    nil,
		"GetBody": func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil },
	} {
		body = &trackedBody{Reader: strings.NewReader("body")}
		req := newRequest(t, http.MethodPut, "http://service/", "key", body)
		req.ContentLength, req.GetBody = 4, getBody
		got, err := do(transport, req)
		require.NoError(t, err)
		require.Equal(t, answer{http.StatusOK, "a", "body"}, got)
		require.Equal(t, "body", string(again))
		require.Equal(t, getBody == nil, reads > 0, name)
	}
}

// Whoever gives a request up does not wait for a body that is slow to come.
func TestRetry_KeepBodyCanceled(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	table := newMaglev(t, s)
	transport := newTransport(t, table, chashhttp.Options{KeepBody: 100, FailureThreshold: 1})
	for name, giveUp := range map[string]func(req *http.Request) (*http.Request, func()){
		"the context": func(req *http.Request) (*http.Request, func()) {
			ctx, cancel := context.WithCancel(req.Context())
			return req.WithContext(ctx), cancel
		},
		"Request.Cancel": func(req *http.Request) (*http.Request, func()) {
			cancel := make(chan struct{})
			//lint:ignore SA1019 an http.Client sets it too
			req.Cancel = cancel
			return req, func() { close(cancel) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			reader, writer := io.Pipe()
			body := &trackedBody{Reader: reader}
			req := newRequest(t, http.MethodPut, "http://service/", "key", body)
			req.ContentLength = 4
			req, cancel := giveUp(req)
			go func() {
				_, _ = io.WriteString(writer, "bo") // returns when it has been read
				cancel()
			}()
			_, err := transport.RoundTrip(req)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, chashhttp.ErrRequestBody)
			require.NoError(t, writer.Close())
			eventually(t, func() bool { return body.closes.Load() == 1 }, "the body is closed")
			require.Zero(t, s.requests.Load())
		})
	}
}

// A body of another length than the request says is the fault of who sends it.
func TestRetry_BodyLength(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"bod", "body "} {
		servers := startServers(t, "a", "b")
		table := newMaglev(t, servers...)
		servers[0].answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
		req := newRequest(t, http.MethodPut, "http://service/", keyFor(t, table, servers...), strings.NewReader(text))
		req.ContentLength = 4
		_, err := do(transport, req)
		require.ErrorIs(t, err, chashhttp.ErrRequestBody, "%q", text)
		require.Zero(t, servers[1].requests.Load())
		require.Equal(t, chash.Healthy, state(t, table, "a"))
	}
}

// A body of another length than the request says is not cut to it, nor sent.
func TestRetry_KeepBodyLength(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	transport := newTransport(t, newMaglev(t, s), chashhttp.Options{KeepBody: 100})
	for _, text := range []string{"bod", "body "} {
		body := &trackedBody{Reader: strings.NewReader(text)}
		req := newRequest(t, http.MethodPut, "http://service/", "key", body)
		req.ContentLength = 4
		_, err := do(transport, req)
		require.ErrorIs(t, err, chashhttp.ErrRequestBody, "%q", text)
		require.EqualValues(t, 1, body.closes.Load())
	}
	require.Zero(t, s.requests.Load())
}

// Who fails with the body half sent, or all of it, is at fault.
func TestRetry_BodyReadInPart(t *testing.T) {
	t.Parallel()
	for sent := range int64(5) {
		servers := startServers(t, "a", "b")
		table := newMaglev(t, servers...)
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			_, err := io.CopyN(io.Discard, req.Body, sent)
			require.NoError(t, err)
			require.NoError(t, req.Body.Close())
			return nil, errAny
		})
		transport := newTransport(t, table, chashhttp.Options{Base: base, FailureThreshold: 1})
		_, err := do(transport, newRequest(t, http.MethodPut, "http://service/", keyFor(t, table, servers...), strings.NewReader("body")))
		require.ErrorIs(t, err, errAny)
		require.NotErrorIs(t, err, chashhttp.ErrRequestBody, "%d sent", sent)
		require.Equal(t, chash.Unhealthy, state(t, table, "a"), "%d sent", sent)
	}
}

// A read that Base itself cuts short, by closing the body, is no failure of the body.
func TestRetry_BodyClosedWhileRead(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		began, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = req.Body.Read(make([]byte, 1)) // half of what there is
			close(began)
			_, err := req.Body.Read(make([]byte, 100))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
		}()
		<-began
		require.NoError(t, req.Body.Close())
		<-ended
		return nil, errAny
	})
	transport := newTransport(t, table, chashhttp.Options{Base: base, FailureThreshold: 1})
	reader, writer := io.Pipe()
	go func() { _, _ = io.WriteString(writer, "b") }()
	_, err := do(transport, newRequest(t, http.MethodPut, "http://service/", keyFor(t, table, servers[0]), reader))
	require.ErrorIs(t, err, errAny)
	require.NotErrorIs(t, err, chashhttp.ErrRequestBody)
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// A GetBody that fails is the end of the retries, not of the error.
func TestRetry_GetBodyFails(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{})
	servers[0].down.Store(true)
	req := newRequest(t, http.MethodPut, "http://service/", keyFor(t, table, servers...), strings.NewReader("body"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, errAny }
	_, err := do(transport, req)
	require.Error(t, err)
	require.NotErrorIs(t, err, errAny)
	require.Zero(t, servers[1].requests.Load())
	require.Equal(t, chashhttp.Stats{}, transport.Stats())
}

// One request meets the backends in the order of Candidates, each once, and not more
// of them than MaxAttempts.
func TestRetry_Order(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c", "d", "e")
		table := newTable(t, servers...)
		for _, s := range servers {
			s.down.Store(true)
		}
		for attempts, want := range map[int]int{0: 3, 1: 1, 2: 2, 5: 5, 100: 5} {
			var met []string
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				met = append(met, req.URL.Host)
				return http.DefaultTransport.RoundTrip(req)
			})
			transport := newTransport(t, table, chashhttp.Options{
				Base: base, MaxAttempts: attempts, RetryRatio: 100, FailureThreshold: 1000,
			})
			for _, key := range keys(20) {
				met = nil
				_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
				require.Error(t, err)
				var order []string
				for u := range table.Candidates(key) {
					order = append(order, u.Host)
				}
				require.Equal(t, order[:want], met, "key %q, %d attempts", key, attempts)
			}
			met = nil
			_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", "", nil))
			require.Error(t, err)
			require.Len(t, met, want)
			slices.Sort(met)
			require.Len(t, slices.Compact(met), want, "without a key too, each once")
		}
	})
}

// Backends at one address are one server, which a request meets once.
func TestRetry_SameAddress(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, "a"), startServer(t, "b")
	again := *a.url
	table := newMaglev(t, a, b, &server{name: "twin", url: a.url}, &server{name: "copy", url: &again})
	transport := newTransport(t, table, chashhttp.Options{MaxAttempts: 10})
	a.down.Store(true)
	for _, key := range keys(50) {
		before := a.requests.Load()
		require.Equal(t, answer{http.StatusOK, "b", ""}, get(t, transport, key))
		require.LessOrEqual(t, a.requests.Load(), before+1)
	}
}

// The reserve, and after that a share of the requests: so many are retried.
func TestRetry_Budget(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{RetryRatio: 0.25, RetryReserve: 5, FailureThreshold: 1000})
	servers[0].kill()
	dead, alive := keyFor(t, table, servers[0]), keyFor(t, table, servers[1])
	served := func(key string) bool {
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
		return err == nil
	}
	for range 100 { // they fill nothing beyond the reserve
		require.True(t, served(alive))
	}
	var got strings.Builder
	for range 15 {
		got.WriteString(map[bool]string{true: "+", false: "-"}[served(dead)])
	}
	// The first finds a full budget and puts nothing in. With a quarter of each of
	// five more there is enough for six in a row, and from then on for every fourth.
	require.Equal(t, "++++++--+---+--", got.String())
	require.Equal(t, chashhttp.Stats{Retries: 8, OverBudget: 7}, transport.Stats())
	for range 4 {
		require.True(t, served(alive))
	}
	require.True(t, served(dead))
}

func TestRetry_DefaultBudget(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1000})
	servers[0].kill()
	key := keyFor(t, table, servers[0])
	served := 0
	for ; ; served++ {
		if _, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil)); err != nil {
			break
		}
	}
	// The first of the 100 is gone when the second request comes. From then on each
	// takes 0.8 more than it puts in, until less than one is left of 99.
	require.Equal(t, 124, served)
}

// However much a request puts in, there is no more in the budget than the reserve.
func TestRetry_BudgetFull(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c", "d", "e")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{
		MaxAttempts: 5, RetryRatio: chashhttp.MaxRetryRatio, RetryReserve: 2, FailureThreshold: 1000,
	})
	for _, s := range servers {
		s.kill()
	}
	for range 3 {
		before := transport.Stats()
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", "key", nil))
		require.Error(t, err)
		require.Equal(t, chashhttp.Stats{Retries: before.Retries + 2, OverBudget: before.OverBudget + 1}, transport.Stats())
	}
}

// An answer of a status that counts as a failure goes on like no answer, and the
// last one is the caller's.
func TestRetry_FailureStatus(t *testing.T) {
	t.Parallel()
	unavailable := func(status int) bool { return status == http.StatusServiceUnavailable }
	refuse := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy")
	}
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	key := keyFor(t, table, servers...)
	servers[0].answer(refuse)
	servers[1].answer(refuse)
	send := func(method string, opts chashhttp.Options) answer {
		opts.FailureThreshold = 1000
		got, err := do(newTransport(t, table, opts), newRequest(t, method, "http://service/", key, strings.NewReader("body")))
		require.NoError(t, err)
		return got
	}
	busy := func(name string) answer { return answer{http.StatusServiceUnavailable, name, "busy"} }
	require.Equal(t, busy("a"), send("GET", chashhttp.Options{}), "no status is a failure by default")
	require.Equal(t, busy("a"), send("POST", chashhttp.Options{FailureStatus: unavailable}), "it was sent")
	require.Equal(t, answer{http.StatusOK, "c", "body"}, send("PUT", chashhttp.Options{FailureStatus: unavailable}))
	require.Equal(t, busy("b"), send("PUT", chashhttp.Options{FailureStatus: unavailable, MaxAttempts: 2}))
	servers[2].answer(refuse)
	require.Equal(t, busy("c"), send("PUT", chashhttp.Options{FailureStatus: unavailable, MaxAttempts: 9}))
}

// What an attempt was answered before the next is not left open, and a short answer
// leaves its connection for another request.
func TestRetry_AnswersClosed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body  string
		conns int64
	}{
		"short": {"busy", 1},
		"long":  {strings.Repeat("busy", 1<<16), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b")
			table := newMaglev(t, servers...)
			transport := newTransport(t, table, chashhttp.Options{
				FailureThreshold: 1000,
				FailureStatus:    func(status int) bool { return status >= 500 },
			})
			servers[0].answer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(test.body)))
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, test.body)
			})
			for range 3 {
				require.Equal(t, "b", get(t, transport, keyFor(t, table, servers...)).backend)
			}
			eventually(t, func() bool { return servers[0].conns.Load() == test.conns }, "%d connections", test.conns)
		})
	}
}

// A failure whose body never ends does not keep the next attempt waiting.
func TestRetry_AnswerStalls(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]string{"of unknown length": "", "of a length": "100"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b")
			table := newMaglev(t, servers...)
			transport := newTransport(t, table, chashhttp.Options{
				FailureStatus: func(status int) bool { return status == http.StatusServiceUnavailable },
			})
			servers[0].answer(func(w http.ResponseWriter, r *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // as when the Transport closes the connection
			})
			require.Equal(t, "b", get(t, transport, keyFor(t, table, servers...)).backend)
			eventually(t, func() bool { return servers[0].conns.Load() == 0 }, "the connection is closed")
		})
	}
}

// An answer without a body, as stand-ins of an http.RoundTripper make them, is one.
func TestRetry_AnswerWithoutBody(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == servers[0].url.Host {
			return &http.Response{StatusCode: http.StatusServiceUnavailable}, nil
		}
		return http.DefaultTransport.RoundTrip(req)
	})
	transport := newTransport(t, table, chashhttp.Options{
		Base: base, FailureStatus: func(status int) bool { return status == http.StatusServiceUnavailable },
	})
	require.Equal(t, "b", get(t, transport, keyFor(t, table, servers...)).backend)
}

// A caller that gives up has no failure of the backend's, and no retry.
func TestRetry_Canceled(t *testing.T) {
	t.Parallel()
	held := func() ([]*server, structure, *chashhttp.Transport, <-chan struct{}) {
		servers := startServers(t, "a", "b")
		table := newMaglev(t, servers...)
		arrived := make(chan struct{})
		servers[0].answer(func(_ http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-r.Context().Done()
		})
		return servers, table, newTransport(t, table, chashhttp.Options{FailureThreshold: 1}), arrived
	}
	t.Run("canceled", func(t *testing.T) {
		servers, table, transport, arrived := held()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, servers...), nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, servers[1].requests.Load())
		require.Equal(t, chash.Healthy, state(t, table, "a"))
	})
	t.Run("Client.Timeout", func(t *testing.T) {
		servers, table, transport, _ := held()
		client := &http.Client{Transport: transport, Timeout: 50 * time.Millisecond}
		_, err := client.Do(newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, servers...), nil))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Zero(t, servers[1].requests.Load())
		require.Equal(t, chash.Unhealthy, state(t, table, "a"), "it had the time and said nothing")
	})
	t.Run("Request.Cancel", func(t *testing.T) {
		servers, table, transport, arrived := held()
		cancel := make(chan struct{})
		go func() { <-arrived; close(cancel) }()
		req := newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, servers...), nil)
		//lint:ignore SA1019 an http.Client sets it too
		req.Cancel = cancel
		_, err := transport.RoundTrip(req)
		require.Error(t, err)
		require.Zero(t, servers[1].requests.Load())
		require.Equal(t, chash.Healthy, state(t, table, "a"))
	})
	t.Run("a time limit of Base", func(t *testing.T) {
		servers, table, _, _ := held()
		base := &http.Transport{ResponseHeaderTimeout: 500 * time.Millisecond} // long enough for b
		transport := newTransport(t, table, chashhttp.Options{Base: base, FailureThreshold: 1})
		require.Equal(t, answer{http.StatusOK, "b", ""}, get(t, transport, keyFor(t, table, servers...)))
		require.Equal(t, chash.Unhealthy, state(t, table, "a"))
	})
}

// A body that cannot be read to its end is its sender's failure.
func TestRetry_BodyBroken(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]int64{"passed on": 0, "kept": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, "a", "b")
			table := newMaglev(t, servers...)
			transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, KeepBody: keep})
			body := &trackedBody{Reader: io.MultiReader(strings.NewReader("half"), errReader{})}
			req := newRequest(t, http.MethodPut, "http://service/", keyFor(t, table, servers...), body)
			req.ContentLength = 8
			_, err := do(transport, req)
			require.ErrorIs(t, err, chashhttp.ErrRequestBody)
			require.ErrorIs(t, err, errAny)
			eventually(t, func() bool { return body.closes.Load() == 1 }, "the body is closed")
			require.Zero(t, servers[1].requests.Load())
			require.Equal(t, chash.Healthy, state(t, table, "a"))
		})
	}
	t.Run("kept but not closed", func(t *testing.T) {
		transport := newTransport(t, newMaglev(t, startServer(t, "a")), chashhttp.Options{KeepBody: 100})
		req := newRequest(t, http.MethodPut, "http://service/", "key", struct {
			io.Reader
			io.Closer
		}{strings.NewReader("body"), errCloser{}})
		req.ContentLength = 4
		_, err := do(transport, req)
		require.ErrorIs(t, err, chashhttp.ErrRequestBody)
		require.ErrorIs(t, err, errAny)
	})
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errAny }

type errCloser struct{}

func (errCloser) Close() error { return errAny }

// A request that nobody can be sent is no failure of a backend, and not sent to another.
func TestRetry_NotSendable(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1})
	for name, spoil := range map[string]func(*http.Request){
		"a line break in a header":     func(r *http.Request) { r.Header.Set("X-User", "a\r\nAdmin: yes") },
		"a zero byte in a header":      func(r *http.Request) { r.Header.Set("X-User", "\x00") },
		"a delete in a header":         func(r *http.Request) { r.Header.Set("X-User", "\x7f") },
		"a blank in a header's name":   func(r *http.Request) { r.Header["X User"] = []string{"a"} },
		"an umlaut in a header's name": func(r *http.Request) { r.Header["Ä"] = []string{"a"} },
		"a header without a name":      func(r *http.Request) { r.Header[""] = []string{"a"} },
		"a line break in the query":    func(r *http.Request) { r.URL.RawQuery = "a\nb" },
		"a blank in the method":        func(r *http.Request) { r.Method = "GET IT" },
		"a length of no body":          func(r *http.Request) { r.Body, r.ContentLength = nil, 4 },
	} {
		req := newRequest(t, http.MethodPut, "http://service/", "key", io.MultiReader(strings.NewReader("body")))
		spoil(req)
		_, err := do(transport, req)
		require.Error(t, err, name)
		for _, s := range servers {
			require.Zero(t, s.requests.Load(), name)
			require.Equal(t, chash.Healthy, state(t, table, s.name), name)
		}
	}
	require.Equal(t, chashhttp.Stats{}, transport.Stats())

	// What is unusual, but in order, is sent, and then a failure is one.
	key := keyFor(t, table, servers...)
	servers[0].down.Store(true)
	req := newRequest(t, "GET", "http://service/%0a?%00", key, nil)
	req.Method, req.Header["x-!#$%&'*+-.^_`|~9"] = "", []string{"ü\t\xff", ""}
	got, err := do(transport, req)
	require.NoError(t, err)
	require.Equal(t, "b", got.backend)
	require.Equal(t, chash.Unhealthy, state(t, table, "a"))
}

// Where the last backend fails too, the error is that of the last attempt.
func TestRetry_LastError(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	errs := map[string]error{servers[0].url.Host: errors.New("first"), servers[1].url.Host: errors.New("second")}
	base := roundTripper(func(req *http.Request) (*http.Response, error) { return nil, errs[req.URL.Host] })
	transport := newTransport(t, table, chashhttp.Options{Base: base})
	_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", keyFor(t, table, servers...), nil))
	require.ErrorIs(t, err, errs[servers[1].url.Host])
}

// Requests of many goroutines take from one budget no more than there is.
func TestRetry_BudgetShared(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{RetryRatio: 0.001, RetryReserve: 20, FailureThreshold: 1000})
	servers[0].kill()
	key := keyFor(t, table, servers...)
	var workers sync.WaitGroup
	for range 8 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for range 10 {
				_, _ = do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
			}
		}()
	}
	workers.Wait()
	require.Equal(t, chashhttp.Stats{Retries: 20, OverBudget: 60}, transport.Stats())
	require.EqualValues(t, 20, servers[1].requests.Load())
}
