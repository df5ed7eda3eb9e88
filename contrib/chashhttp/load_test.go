package chashhttp_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// A hot key overflows to its next backends, as far as the bound says, and its requests
// are in flight until their answers were read.
func TestLoad_Bounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, newTable func(*testing.T, ...*server) structure) {
		servers := startServers(t, "a", "b", "c", "d")
		table := newTable(t, servers...)
		transport := newTransport(t, table, chashhttp.Options{LoadFactor: 1.5})
		key := keyFor(t, table, servers...)
		for _, s := range servers {
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
		}
		var open []*http.Response
		for range 40 {
			resp, err := transport.RoundTrip(newRequest(t, http.MethodGet, "http://service/", key, nil))
			require.NoError(t, err)
			open = append(open, resp)
		}
		require.Equal(t, map[string]int64{"a": 15, "b": 15, "c": 10}, table.Stats().Loads)
		for _, resp := range open {
			resp.Body.Close()
			resp.Body.Close()
		}
		require.Empty(t, table.Stats().Loads)
	})
}

// A retry does not go to a backend that the request has met, however much room it has,
// and nothing stays in flight after failures.
func TestLoad_Retries(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{LoadFactor: 1.01, FailureThreshold: 1000, LoadFloor: 1})
	servers[0].kill()
	servers[1].down.Store(true)
	key := keyFor(t, table, servers...)
	for range 10 {
		require.Equal(t, "c", get(t, transport, key).backend)
	}
	servers[2].down.Store(true)
	_, err := do(transport, newRequest(t, http.MethodGet, "http://service/", key, nil))
	require.Error(t, err)
	_, err = do(transport, newRequest(t, http.MethodGet, "http://service/", "", nil))
	require.Error(t, err)
	require.Empty(t, table.Stats().Loads)
}

// Requests of many users leave nothing in flight, with backends that fail and return.
func TestLoad_NothingLeft(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport := newTransport(t, table, chashhttp.Options{LoadFactor: 1.25, FailureThreshold: 1, ProbeInterval: 1e6})
	var users sync.WaitGroup
	for worker := range 4 {
		users.Add(1)
		go func() {
			defer users.Done()
			for i := range 100 {
				servers[worker%3].down.Store(i%10 == 0)
				_, _ = do(transport, newRequest(t, http.MethodGet, "http://service/", keys(20)[i%20], nil))
			}
		}()
	}
	users.Wait()
	require.Empty(t, table.Stats().Loads)
}

func TestLoad_Options(t *testing.T) {
	t.Parallel()
	table := newMaglev(t, startServers(t, "a")...)
	_, err := chashhttp.NewTransport(table, chashhttp.Path(), chashhttp.Options{LoadFactor: 1})
	require.ErrorIs(t, err, chashhttp.ErrInvalidOption)
	require.ErrorIs(t, err, chash.ErrInvalidOption)
	_, err = chashhttp.NewTransport(table, chashhttp.Path(), chashhttp.Options{LoadFloor: 1})
	require.ErrorIs(t, err, chashhttp.ErrInvalidOption)
	_, err = chashhttp.NewTransport(table, chashhttp.Path(), chashhttp.Options{LoadFactor: 2, LoadFloor: -1})
	require.ErrorIs(t, err, chashhttp.ErrInvalidOption)
	require.ErrorContains(t, err, "Load")
}
