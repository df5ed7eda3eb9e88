//go:build live && linux

package servers

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// serveNames serves HTTP on addresses of the loopback interface and on sockets. Each
// answers with its name, as a configuration has it.
func serveNames(t *testing.T, s live.Source, tcp, unix int) []string {
	t.Helper()
	var names []string
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Name", nameOf(r.Context().Value(http.LocalAddrContextKey).(net.Addr)))
		}),
	}
	t.Cleanup(func() { server.Close() })
	serve := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		require.NoError(t, err)
		go server.Serve(l)
		return l
	}
	for i := range tcp {
		host := s.Loopback()
		if i == 0 {
			host = "::1"
		}
		names = append(names, nameOf(serve("tcp", net.JoinHostPort(host, "0")).Addr()))
	}
	dir := workDir(t)
	for i := range unix {
		names = append(names, nameOf(serve("unix", filepath.Join(dir, strconv.Itoa(i))).Addr()))
	}
	return names
}

// A front is a proxy that listens on a socket.
type front struct {
	client *http.Client
}

// newFront returns the front on a socket as soon as it answers.
func newFront(t *testing.T, socket string) *front {
	t.Helper()
	dial(t, "unix", socket).Close()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: askers,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &front{&http.Client{Transport: transport, Timeout: time.Minute}}
}

// nameOf returns the address of a server as a configuration has it.
func nameOf(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix:" + address.String()
	}
	return address.String()
}

const askers = 8

// A question is a request to a front.
type question struct {
	path  string
	query url.Values
	key   string // the header X-Key, if it is not empty
	want  string // the name of the server that answers
}

// A request makes of a drawn key the question to a front, and what the front takes for the
// key.
type request func(key string) (q question, hashed string)

// byQuery asks with a parameter, which the front sees with its escapes.
func byQuery(path string) request {
	return func(key string) (question, string) {
		q := question{path: path, query: url.Values{"a": {"1"}, "k": {key}, "kk": {"2"}}}
		hashed, _ := chashcompat.RawParam(q.query.Encode(), "k")
		return q, hashed
	}
}

// byHeader asks with a header.
func byHeader(path string) request {
	return func(key string) (question, string) { return question{path: path, key: key}, key }
}

// compare checks that the front takes for each key the server that the ring says.
func (f *front) compare(t *testing.T, count *live.Tally, ring *chash.Ring[string], keys []string, ask request) {
	t.Helper()
	questions := make([]question, len(keys))
	for i, key := range keys {
		q, hashed := ask(key)
		want, err := ring.Get(hashed)
		require.NoError(t, err)
		q.want = want
		questions[i] = q
	}
	f.ask(t, questions)
	count.Keys += len(keys)
	count.Pools++
}

// ask sends all the questions, some at a time, and checks the answers.
func (f *front) ask(t *testing.T, questions []question) {
	t.Helper()
	var wg sync.WaitGroup
	got := make([]string, len(questions))
	for first := range askers {
		wg.Go(func() {
			for i := first; i < len(questions); i += askers {
				got[i] = f.send(questions[i])
			}
		})
	}
	wg.Wait()
	for i, q := range questions {
		require.Equal(t, q.want, got[i], "%s: header %q, query %q", q.path, q.key, q.query.Encode())
	}
}

// send returns the name of the server that answers, or what went wrong.
func (f *front) send(q question) string {
	target := "http://front" + q.path
	if q.query != nil {
		target += "?" + q.query.Encode()
	}
	r, err := http.NewRequest("GET", target, nil)
	if err != nil {
		return err.Error()
	}
	if q.key != "" {
		r.Header.Set("X-Key", q.key)
	}
	answer, err := f.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return answer.Status
	}
	return answer.Header.Get("X-Name")
}
