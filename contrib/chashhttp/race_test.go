package chashhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// underLoad has several workers send requests until stop, which waits for them, or each
// until one of its own is not as it should be.
func underLoad(send func(worker, i int) (right bool)) (stop func()) {
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
				if !send(worker, i) {
					return
				}
			}
		}()
	}
	return sync.OnceFunc(func() {
		close(done)
		workers.Wait()
	})
}

// Backends come, go, drain, move and share addresses while requests are in flight:
// none fails.
func TestTransport_WhileOthersChange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c", "d")
		table := newTable(t, servers[:2]...)
		transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, ProbeInterval: time.Millisecond})
		var sent atomic.Int64
		send := func(worker, i int) bool {
			key := fmt.Sprintf("key-%d-%d", worker, i%50)
			if i%5 == 0 {
				key = ""
			}
			req := newRequest(t, http.MethodPost, "http://service/", key, strings.NewReader(key))
			got, err := do(transport, req)
			sent.Add(1)
			return assert.Truef(t, err == nil && got.status == http.StatusOK && got.body == key,
				"request %d of worker %d = %v, %v", i, worker, got, err)
		}
		defer underLoad(send)()
		change := func(err error) {
			t.Helper()
			require.NoError(t, err)
			// Some requests meet what there is now, and others the next change.
			from := sent.Load()
			eventually(t, func() bool { return sent.Load() >= from+8 || t.Failed() }, "requests go on")
		}
		for range 30 {
			twin := *servers[0].url
			change(table.Add(append(backends(servers[2]), chash.Backend[*url.URL]{Name: "twin", Value: &twin})...))
			change(table.SetState("a", chash.Draining))
			change(table.SetValue("b", servers[3].url))
			change(table.SetState("c", chash.Unhealthy))
			change(table.SetState("c", chash.Healthy))
			change(table.SetValue("b", servers[1].url))
			change(table.Remove("c", "twin"))
			change(table.Set(backends(servers[:2]...)))
		}
	})
}

// A server fails and comes back again and again under load, and is marked and brought
// back meanwhile: no request fails that another server can answer, and at the end the
// state is the true one.
func TestTransport_WhileServersFail(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	var changed atomic.Int64
	transport := newTransport(t, table, chashhttp.Options{
		FailureThreshold: 2, ProbeInterval: time.Millisecond, RetryRatio: 10,
		OnChange: func(chashhttp.Change) { changed.Add(1) },
	})
	send := func(worker, i int) bool {
		got, err := do(transport, newRequest(t, http.MethodGet, "http://service/", fmt.Sprint("key-", i%50), nil))
		return assert.Truef(t, err == nil && got.status == http.StatusOK, "request %d of worker %d = %v, %v", i, worker, got, err)
	}
	stop := underLoad(send)
	defer stop()
	for i := range 20 {
		s := servers[i%2]
		s.down.Store(true)
		becomes(t, table, s.name, chash.Unhealthy)
		s.down.Store(false)
		becomes(t, table, s.name, chash.Healthy)
	}
	stop()
	for _, s := range servers {
		becomes(t, table, s.name, chash.Healthy)
	}
	require.GreaterOrEqual(t, changed.Load(), int64(2*20))
	eventually(t, func() bool { return !chashhttp.Probing(transport) }, "nothing is left to probe")
}
