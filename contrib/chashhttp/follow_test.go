package chashhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// quick are options of a Follower that asks at once, again and again.
var quick = chashhttp.FollowOptions{Interval: time.Millisecond, Retry: time.Millisecond}

// slow are options of one that asks only when it is told to.
var slow = chashhttp.FollowOptions{Interval: time.Hour, Retry: time.Hour}

// emptyTable returns a table without backends.
func emptyTable(t *testing.T) *chash.Maglev[*url.URL] {
	t.Helper()
	table, err := chash.NewMaglev[*url.URL](nil)
	require.NoError(t, err)
	return table
}

// follow returns a Follower, which ends with the test.
func follow(t *testing.T, table chashhttp.ListTable, source chashhttp.Source, opts chashhttp.FollowOptions) *chashhttp.Follower {
	t.Helper()
	f, err := chashhttp.Follow(t.Context(), table, source, opts)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// writeList replaces a file, as one does it: another one is written and renamed.
func writeList(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// described returns what backends say, one a line.
func described(table *chash.Maglev[*url.URL]) (lines []string) {
	for _, b := range table.Backends() {
		lines = append(lines, fmt.Sprintf("%s %s %d %s %v", b.Name, b.HashKey, b.Weight, b.Value, b.State))
	}
	return lines
}

// A table has what the file has; what is not in the file stays as it is.
func TestFollow_File(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.json")
	writeList(t, path, `{
		"b": {"url": "http://10.0.0.2:80", "weight": 3},
		"a": {"url": "http://10.0.0.1:80", "hashKey": "one"}
	}`)
	table := emptyTable(t)
	f := follow(t, table, chashhttp.File{Path: path}, slow)
	require.Equal(t, []string{"a one 1 http://10.0.0.1:80 healthy", "b  3 http://10.0.0.2:80 healthy"}, described(table))

	require.NoError(t, table.SetState("b", chash.Unhealthy))
	require.NoError(t, table.SetWeight("a", 7))
	before, rebuilds := table.Backends(), table.Stats().Rebuilds
	require.NoError(t, f.Refresh(t.Context()))
	require.Equal(t, before, table.Backends())
	require.Same(t, before[0].Value, table.Backends()[0].Value)
	require.Equal(t, rebuilds, table.Stats().Rebuilds, "no news")

	writeList(t, path, `{"b": {"url": "http://10.0.0.9:80", "weight": 2}, "c": {"url": "https://c"}}`)
	require.NoError(t, f.Refresh(t.Context()))
	require.Equal(t, []string{"b  2 http://10.0.0.9:80 unhealthy", "c  1 https://c healthy"}, described(table))
}

// A file that cannot be read, or is not a list, leaves the table as it is, and the error says
// what is wrong.
func TestFollow_FileErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.json")
	writeList(t, path, `{"a": {"url": "http://10.0.0.1:80"}}`)
	table := emptyTable(t)
	f := follow(t, table, chashhttp.File{Path: path}, slow)
	before := table.Backends()
	for text, says := range map[string]string{
		``:                             "EOF",
		`{}`:                           "no backends",
		`null`:                         "no backends",
		`[]`:                           "array",
		`{"a": {"url": "http://a"}`:    "EOF",
		`{"a": {"url": "http://a"}}x`:  "follows",
		`{"a": {"url": "http://a"}}{}`: "follows",
		`{"b": {"url": "http://b", "wieght": 2}}`:          `"wieght"`,
		`{"b": {"url": "http://b", "weight": 0}}`:          `"b": weight 0`,
		`{"b": {"url": "http://b", "weight": -1}}`:         "weight",
		`{"b": {"url": "http://b", "weight": 5000000000}}`: "weight",
		`{"b": {"url": "http://[::1"}}`:                    `"b"`,
	} {
		writeList(t, path, text)
		err := f.Refresh(t.Context())
		require.ErrorIs(t, err, chashhttp.ErrSource, text)
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, path)
		require.Equal(t, before, table.Backends(), text)
	}
	writeList(t, path, `{"b": {"url": "localhost:80"}}`)
	require.ErrorIs(t, f.Refresh(t.Context()), chashhttp.ErrNoAddress)
	require.Equal(t, before, table.Backends())
	writeList(t, path, `{"": {"url": "http://b"}}`)
	require.ErrorIs(t, f.Refresh(t.Context()), chash.ErrEmptyName)
	require.Equal(t, before, table.Backends())
	require.NoError(t, os.Remove(path))
	err := f.Refresh(t.Context())
	require.ErrorIs(t, err, chashhttp.ErrSource)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, before, table.Backends())

	_, err = chashhttp.Follow(t.Context(), table, chashhttp.File{Path: path}, slow)
	require.ErrorIs(t, err, fs.ErrNotExist, "the first list")
	require.Equal(t, before, table.Backends())
}

// Requests go to the backends of the newest list, without a word from the user, and those in
// the table are served while no list can be had.
func TestFollow_Requests(t *testing.T) {
	servers := startServers(t, "a", "b")
	var list atomic.Pointer[[]chash.Backend[*url.URL]]
	var lists atomic.Int64
	failure := errors.New("the registry is down")
	source := chashhttp.SourceFunc(func(context.Context) ([]chash.Backend[*url.URL], error) {
		lists.Add(1)
		if l := list.Load(); l != nil {
			return *l, nil
		}
		return nil, failure
	})
	set := func(s ...*server) {
		l := backends(s...)
		list.Store(&l)
	}
	set(servers[0])
	var last atomic.Pointer[error]
	opts := quick
	opts.OnResult = func(err error) { last.Store(&err) }
	table := emptyTable(t)
	f := follow(t, table, source, opts)
	transport := newTransport(t, table, chashhttp.Options{})
	require.Equal(t, "a", get(t, transport, "key").backend)

	set(servers[1])
	eventually(t, func() bool { return get(t, transport, "key").backend == "b" }, "the new list")
	list.Store(nil)
	eventually(t, func() bool { return errors.Is(*last.Load(), failure) }, "the failure is told")
	require.ErrorIs(t, *last.Load(), chashhttp.ErrSource)
	n := lists.Load()
	eventually(t, func() bool { return lists.Load() > n+3 }, "it goes on")
	require.Equal(t, "b", get(t, transport, "key").backend)
	set(servers[0])
	eventually(t, func() bool { return get(t, transport, "key").backend == "a" }, "it is over")
	eventually(t, func() bool { return *last.Load() == nil }, "the success is told")

	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	n = lists.Load()
	require.NoError(t, f.Refresh(t.Context()), "also after Close")
	require.Equal(t, n+1, lists.Load())
}

// Close ends a list that is being asked for; so does the time limit.
func TestFollow_Hangs(t *testing.T) {
	var lists atomic.Int64
	var inside atomic.Bool
	hanging := make(chan struct{}, 100)
	source := chashhttp.SourceFunc(func(ctx context.Context) ([]chash.Backend[*url.URL], error) {
		if lists.Add(1) == 1 {
			return nil, nil
		}
		inside.Store(true)
		hanging <- struct{}{}
		<-ctx.Done()
		time.Sleep(time.Millisecond) // so that a Close that does not wait is seen
		inside.Store(false)
		return nil, context.Cause(ctx)
	})
	opts := quick
	opts.Timeout = time.Hour
	f := follow(t, emptyTable(t), source, opts)
	<-hanging
	require.NoError(t, f.Close())
	require.False(t, inside.Load())

	lists.Store(0)
	opts.Timeout = 5 * time.Millisecond
	late := make(chan error, 100)
	opts.OnResult = func(err error) {
		if err != nil {
			late <- err
		}
	}
	f = follow(t, emptyTable(t), source, opts)
	err := <-late
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, chashhttp.ErrSource)
	require.NoError(t, f.Close())
}

// The list is the source's: it stays as it is.
func TestFollow_KeepsNothing(t *testing.T) {
	table := emptyTable(t)
	at := &url.URL{Scheme: "http", Host: "a"}
	given := []chash.Backend[*url.URL]{{Name: "a", Value: at}}
	f := follow(t, table, chashhttp.SourceFunc(func(context.Context) ([]chash.Backend[*url.URL], error) { return given, nil }), slow)
	again := *at
	given[0].Value = &again
	require.NoError(t, f.Refresh(t.Context()))
	require.Same(t, &again, given[0].Value)
	require.Same(t, at, table.Backends()[0].Value)
}

func TestFollow_Options(t *testing.T) {
	source := chashhttp.SourceFunc(func(context.Context) ([]chash.Backend[*url.URL], error) { return nil, nil })
	_, err := chashhttp.Follow(t.Context(), nil, source, slow)
	require.ErrorIs(t, err, chashhttp.ErrNilTable)
	_, err = chashhttp.Follow(t.Context(), (*chash.Ring[*url.URL])(nil), source, slow)
	require.ErrorIs(t, err, chashhttp.ErrNilTable)
	_, err = chashhttp.Follow(t.Context(), emptyTable(t), nil, slow)
	require.ErrorIs(t, err, chashhttp.ErrNilSource)
	_, err = chashhttp.Follow(t.Context(), emptyTable(t), chashhttp.SourceFunc(nil), slow)
	require.ErrorIs(t, err, chashhttp.ErrNilSource)
	for name, opts := range map[string]chashhttp.FollowOptions{
		"Interval": {Interval: -1}, "Retry": {Retry: -1}, "Timeout": {Timeout: -1},
	} {
		_, err = chashhttp.Follow(t.Context(), emptyTable(t), source, opts)
		require.ErrorIs(t, err, chashhttp.ErrInvalidOption)
		require.ErrorContains(t, err, name)
	}
	_, err = chashhttp.Hosts{}.List(t.Context())
	require.ErrorIs(t, err, chashhttp.ErrNoAddress)
}

// Addresses need no DNS.
func TestHosts_Addresses(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:8080/a?b=c": "127.0.0.1:8080 http://127.0.0.1:8080/a?b=c",
		"http://127.0.0.1":            "127.0.0.1 http://127.0.0.1",
		"https://[::1]:443":           "[::1]:443 https://[::1]:443",
		"http://[::1]":                "[::1] http://[::1]",
		"http://[::ffff:127.0.0.1]:1": "127.0.0.1:1 http://127.0.0.1:1",
	} {
		at, err := url.Parse(in)
		require.NoError(t, err)
		list, err := chashhttp.Hosts{URL: at}.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, want, list[0].Name+" "+list[0].Value.String())
		require.Equal(t, in, at.String(), "it is the caller's")
	}
}

// ExampleFollow keeps the backends of a client as a file lists them.
func ExampleFollow() {
	a, stopA := serve("server a")
	defer stopA()
	b, stopB := serve("server b")
	defer stopB()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("chash-backends-%d.json", os.Getpid()))
	defer os.Remove(path)
	write := func(name string, at *url.URL) {
		text := fmt.Sprintf(`{%q: {"url": %q}}`, name, at)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	write("a", a)

	table, err := chash.NewMaglev[*url.URL](nil)
	if err != nil {
		panic(err)
	}
	follower, err := chashhttp.Follow(context.Background(), table, chashhttp.File{Path: path}, chashhttp.FollowOptions{})
	if err != nil {
		panic(err)
	}
	defer follower.Close()
	transport, err := chashhttp.NewTransport(table, chashhttp.Header("X-User"), chashhttp.Options{})
	if err != nil {
		panic(err)
	}
	defer transport.Close()
	client := &http.Client{Transport: transport}
	ask(client, "http://service/", "42")

	write("b", b)
	if err := follower.Refresh(context.Background()); err != nil { // or half a minute later
		panic(err)
	}
	ask(client, "http://service/", "42")

	write("c", &url.URL{})
	fmt.Println(strings.Contains(fmt.Sprint(follower.Refresh(context.Background())), `"c"`))
	ask(client, "http://service/", "42")
	// Output:
	// 42: server a
	// 42: server b
	// true
	// 42: server b
}
