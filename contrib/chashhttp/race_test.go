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

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// Backends come, go, drain, move and share addresses while requests are in flight:
// none fails.
func TestTransport_WhileOthersChange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c", "d")
		table := newTable(t, servers[:2]...)
		transport := newTransport(t, table, chashhttp.Options{FailureThreshold: 1, ProbeInterval: time.Millisecond})
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
					key := fmt.Sprintf("key-%d-%d", worker, i%50)
					if i%5 == 0 {
						key = ""
					}
					req := newRequest(t, http.MethodPost, "http://service/", key, strings.NewReader(key))
					got, err := do(transport, req)
					if err != nil || got.status != http.StatusOK || got.body != key {
						t.Errorf("request %d of worker %d = %v, %v", i, worker, got, err)
						return
					}
				}
			}()
		}
		for range 30 {
			twin := *servers[0].url
			require.NoError(t, table.Add(append(backends(servers[2]), chash.Backend[*url.URL]{Name: "twin", Value: &twin})...))
			require.NoError(t, table.SetState("a", chash.Draining))
			require.NoError(t, table.SetValue("b", servers[3].url))
			require.NoError(t, table.SetState("c", chash.Unhealthy))
			require.NoError(t, table.SetState("c", chash.Healthy))
			require.NoError(t, table.SetValue("b", servers[1].url))
			require.NoError(t, table.Remove("c", "twin"))
			require.NoError(t, table.Set(backends(servers[:2]...)))
		}
		close(done)
		workers.Wait()
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
				got, err := do(transport, newRequest(t, http.MethodGet, "http://service/", fmt.Sprint("key-", i%50), nil))
				if err != nil || got.status != http.StatusOK {
					t.Errorf("request %d of worker %d = %v, %v", i, worker, got, err)
					return
				}
			}
		}()
	}
	for i := range 20 {
		s := servers[i%2]
		s.down.Store(true)
		becomes(t, table, s.name, chash.Unhealthy)
		s.down.Store(false)
		becomes(t, table, s.name, chash.Healthy)
	}
	close(done)
	workers.Wait()
	for _, s := range servers {
		becomes(t, table, s.name, chash.Healthy)
	}
	require.GreaterOrEqual(t, changed.Load(), int64(2*20))
	eventually(t, func() bool { return !chashhttp.Probing(transport) }, "nothing is left to probe")
}
