package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestAdmin_AddDrainRemove(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table := newTable(t, []string{"a", "b", "c"})
	p := start(t, backends.flags()...)

	d := startTestBackend(t, "d")
	var shown shownMember
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"d","url":"`+d.url+`","weight":3}`, &shown))
	require.NoError(t, table.Add(chash.Backend[string]{Name: "d", Weight: 3, Value: "d"}))
	require.Equal(t, "healthy", shown.State)
	require.EqualValues(t, 3, shown.Weight)
	require.InDelta(t, 0.5, shown.Share, 0.001)
	agree(t, p, table)

	// A request that is there when a drain begins ends as if nothing had happened.
	arrived, release := d.hold()
	got := p.sendLater(newRequest(t, http.MethodPost, p.proxy, keyWith(t, table, "d"), nil))
	<-arrived
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/d/drain", "", &shown))
	require.NoError(t, table.SetState("d", chash.Draining))
	require.Equal(t, shownMember{Name: "d", URL: d.url, State: "draining", Weight: 3}, shown)
	close(release)
	require.Equal(t, answer{http.StatusOK, "d", ""}, <-got)
	requests := d.requests.Load()
	agree(t, p, table)
	require.Equal(t, requests, d.requests.Load())

	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/d/undrain", "", &shown))
	require.NoError(t, table.SetState("d", chash.Healthy))
	require.Equal(t, "healthy", shown.State)
	agree(t, p, table)

	// A drain and then the removal, which moves nothing more.
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
	require.NoError(t, table.SetState("a", chash.Draining))
	agree(t, p, table)
	require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/a", "", nil))
	agree(t, p, table)
	require.Equal(t, "absent", p.state(t, "a"))

	// A removal without one, and the name is free again, for another server.
	require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/b", "", nil))
	require.NoError(t, table.Remove("a", "b"))
	agree(t, p, table)
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"b","url":"`+backends[0].url+`"}`, nil))
	require.NoError(t, table.Add(chash.Backend[string]{Name: "b", Value: "a"}))
	agree(t, p, table)
}

// A backend that is added dead has its place but no request.
func TestAdmin_AddDead(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-attempts=1")...)
	dead := startTestBackend(t, "dead")
	dead.kill()
	var shown shownMember
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"dead","url":"`+dead.url+`"}`, &shown))
	require.Equal(t, "unhealthy", shown.State)
	require.NotZero(t, shown.Slots)
	for _, key := range keys(60) {
		require.Equal(t, http.StatusOK, p.get(t, key).status)
	}
}

// It gets its keys when it is there.
func TestAdmin_AddSick(t *testing.T) {
	t.Parallel()
	p := start(t, startTestBackends(t, "a", "b").flags("-health-interval=5ms")...)
	sick := startTestBackend(t, "c")
	sick.sick.Store(true)
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"c","url":"`+sick.url+`"}`, nil))
	checks := sick.checks.Load()
	eventually(t, "it is checked", func() bool { return sick.checks.Load() > checks+1 })
	require.Equal(t, "unhealthy", p.state(t, "c"))
	sick.sick.Store(false)
	eventually(t, "c is healthy", func() bool { return p.state(t, "c") == "healthy" })
	agree(t, p, newTable(t, []string{"a", "b", "c"}))
}

// Checks do not end a drain, and an undrain begins with one.
func TestAdmin_DrainOutlastsChecks(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	a, b := backends.named("a"), backends.named("b")
	p := start(t, backends.flags("-health-interval=5ms", "-health-up=1", "-health-down=1")...)
	checked := func(times int64) {
		t.Helper()
		from := a.checks.Load()
		eventually(t, "more checks", func() bool { return a.checks.Load() >= from+times })
	}
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/drain", "", nil))
	b.sick.Store(true)
	checked(3) // the third begins when the first two have been taken in
	require.Equal(t, "draining", p.state(t, "b"))
	b.sick.Store(false)
	checked(3)
	require.Equal(t, "draining", p.state(t, "b"))

	// How it is counts again when the drain is taken back, and from then on.
	b.sick.Store(true)
	var shown shownMember
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/undrain", "", &shown))
	require.Equal(t, "unhealthy", shown.State)
	b.sick.Store(false)
	eventually(t, "b is healthy", func() bool { return p.state(t, "b") == "healthy" })
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/undrain", "", &shown), "without a drain")
	require.Equal(t, "healthy", shown.State)
}

func TestAdmin_Errors(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-table-size=2")...)
	b := backends[0].url // one that is checked and found healthy
	tests := []struct {
		name, method, path, body string
		want                     int
	}{
		{"unknown", "GET", "/members/x", "", 404},
		{"removal of an unknown one", "DELETE", "/members/x", "", 404},
		{"drain of an unknown one", "POST", "/members/x/drain", "", 404},
		{"undrain of an unknown one", "POST", "/members/x/undrain", "", 404},
		{"a name that exists", "POST", "/members", `{"name":"a","url":"` + b + `"}`, 409},
		{"more than slots", "POST", "/members", `{"name":"c","url":"` + b + `"}`, 409},
		{"no name", "POST", "/members", `{"url":"` + b + `"}`, 400},
		{"no url", "POST", "/members", `{"name":"c"}`, 400},
		{"a relative url", "POST", "/members", `{"name":"c","url":"host:80"}`, 400},
		{"weight 0", "POST", "/members", `{"name":"c","url":"http://host","weight":0}`, 400},
		{"weight below 0", "POST", "/members", `{"name":"c","url":"http://host","weight":-1}`, 400},
		{"weight past uint32", "POST", "/members", `{"name":"c","url":"http://host","weight":4294967296}`, 400},
		{"an unknown field", "POST", "/members", `{"name":"c","url":"http://host","wait":1}`, 400},
		{"no JSON", "POST", "/members", `name=c`, 400},
		{"nothing", "POST", "/members", ``, 400},
		{"two values", "POST", "/members", `{"name":"c","url":"http://host"}{}`, 400},
		{"a huge body", "POST", "/members", `{"name":"` + strings.Repeat("c", 1<<17) + `"}`, 413},
	}
	before := p.members(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var failure struct{ Error string }
			require.Equal(t, test.want, p.request(t, test.method, test.path, test.body, &failure))
			require.NotEmpty(t, failure.Error)
			require.Equal(t, before, p.members(t))
		})
	}
	require.Equal(t, http.StatusMethodNotAllowed, p.request(t, "PUT", "/members", "", nil))
	require.Equal(t, http.StatusNotFound, p.request(t, "GET", "/", "", nil))

	// The place of a drained backend may be taken when it comes back.
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"c","url":"`+b+`"}`, nil))
	require.Equal(t, http.StatusConflict, p.request(t, "POST", "/members/a/undrain", "", nil))
	require.Equal(t, "draining", p.state(t, "a"))
}

// Any name that a backend can have is one that its address can be asked by.
func TestAdmin_Names(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := startTestBackend(t, "b")
	for _, name := range []string{"a b", "a/b", "a?b", "a%2Fb", "ü", "a\"b"} {
		in, err := json.Marshal(map[string]string{"name": name, "url": b.url})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", string(in), nil))
		var shown shownMember
		require.Equal(t, http.StatusOK, p.request(t, "GET", "/members/"+url.PathEscape(name), "", &shown))
		require.Equal(t, name, shown.Name)
		require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/"+url.PathEscape(name), "", nil))
	}
	require.Empty(t, p.members(t))
}

// Clients send while the membership changes: no request fails, and none arrives
// where neither the membership before nor the one after sends its client.
func TestAdmin_UnderLoad(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	p := start(t, backends[:2].flags("-health-interval=5ms")...)
	tables := []*chash.Maglev[string]{
		newTable(t, []string{"a", "b"}),
		newTable(t, []string{"a", "b", "c"}),
		newTable(t, []string{"b", "c"}),
	}
	homes := func(key string) (homes []string) {
		for _, table := range tables {
			home, err := table.Get(key)
			if err != nil {
				t.Errorf("Get(%q) = %v", key, err)
			}
			homes = append(homes, home)
		}
		return homes
	}
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
				key := fmt.Sprintf("client-%d-%d", worker, i%50)
				got := <-p.sendLater(newRequest(t, http.MethodPost, p.proxy, key, nil))
				if got.status != http.StatusOK || !slices.Contains(homes(key), got.backend) {
					t.Errorf("request %d of worker %d = %v, want an answer from one of %v", i, worker, got, homes(key))
				}
			}
		}()
	}
	for range 10 {
		require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"c","url":"`+backends[2].url+`"}`, nil))
		require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
		require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/undrain", "", nil))
		require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/c", "", nil))
	}
	close(done)
	workers.Wait()
}
