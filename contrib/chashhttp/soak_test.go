//go:build unix

package chashhttp_test

import (
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/contrib/chashhttp"
)

var soak = flag.Duration("soak", 2*time.Second, "how long TestSoak goes on")

// TestSoak sends requests at full speed while backends hang, flap, crash and return.
// Users of the other backends lose nothing, no request that is not safe to repeat
// arrives twice, and in the end no goroutine and no connection is left.
func TestSoak(t *testing.T) { // not parallel: it counts goroutines
	before := runtime.NumGoroutine()
	t.Run("load", soakLoad)
	eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, "the goroutines have ended: %d before", before)
}

func soakLoad(t *testing.T) {
	servers := startServers(t, "good", "fine", "hangs", "flaps", "crashes")
	stopped := startProcess(t, "stopped", "")
	table := newMaglev(t, append(servers, &stopped.server)...)
	ids := newSeen(servers)
	transport, err := chashhttp.NewTransport(table, chashhttp.Header(keyHeader), chashhttp.Options{
		AttemptTimeout: 500 * time.Millisecond,
		ProbeInterval:  50 * time.Millisecond,
		RetryRatio:     1,
	})
	require.NoError(t, err)
	var sent, lost, lostElsewhere atomic.Int64
	homes := make(map[string]string)
	for _, key := range keys(100) {
		own, err := table.Owner(key)
		require.NoError(t, err)
		homes[key] = own.Name
	}
	stop := underLoad(func(worker, i int) bool {
		key := keys(100)[(worker*31+i)%100]
		method := []string{http.MethodGet, http.MethodPost}[i%2]
		req := newRequest(t, method, "http://service/", key, nil)
		req.Header.Set("Id", fmt.Sprint(worker, "-", i))
		_, err := do(transport, req)
		sent.Add(1)
		if home := homes[key]; err != nil && (home == "good" || home == "fine") {
			t.Errorf("%s of %s: %v", method, home, err)
			lost.Add(1)
		} else if err != nil {
			lostElsewhere.Add(1)
		}
		return true
	})
	faultsUntil(t, time.Now().Add(*soak), servers, stopped)
	stop()
	require.Zero(t, lost.Load())
	require.Empty(t, ids.twice(), "POSTs that arrived twice")
	require.NoError(t, transport.Close())
	for _, s := range servers {
		eventually(t, func() bool { return s.conns.Load() == 0 }, "no connection to %s is left", s.name)
	}
	t.Logf("%d requests, %d of them lost by users of backends that failed, %+v", sent.Load(), lostElsewhere.Load(), transport.Stats())
}

// faultsUntil has servers fail and return, in turns.
func faultsUntil(t *testing.T, end time.Time, servers []*server, stopped *process) {
	hangs, flaps, crashes := servers[2], servers[3], servers[4]
	for time.Now().Before(end) {
		release := make(chan struct{})
		hangs.hang(release)
		stopped.stop(t)
		flaps.down.Store(true)
		time.Sleep(150 * time.Millisecond)
		flaps.down.Store(false)
		crashes.kill()
		time.Sleep(150 * time.Millisecond)
		flaps.down.Store(true)
		stopped.cont()
		close(release)
		time.Sleep(100 * time.Millisecond)
		crashes.revive(t)
		flaps.down.Store(false)
		time.Sleep(300 * time.Millisecond)
	}
}

// A seen counts the requests that are not safe to repeat, by their Id.
type seen struct {
	mu    sync.Mutex
	times map[string]int
}

func newSeen(servers []*server) *seen {
	s := &seen{times: make(map[string]int)}
	for _, server := range servers {
		server.arrived = s.note
	}
	return s
}

func (s *seen) note(r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[r.Header.Get("Id")]++
}

func (s *seen) twice() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var twice []string
	for id, times := range s.times {
		if times > 1 {
			twice = append(twice, id)
		}
	}
	return strings.Join(twice, " ")
}
