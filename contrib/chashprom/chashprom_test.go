package chashprom_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashprom"
)

func newTable(t *testing.T, names ...string) *chash.Maglev[string] {
	t.Helper()
	table, err := chash.NewMaglev(chash.Named(names...), chash.WithTableSize(13))
	require.NoError(t, err)
	return table
}

// What a scrape over HTTP says is what the structures say.
func TestCollector_Scrape(t *testing.T) {
	// No two numbers are alike that could be mistaken for each other.
	table := newTable(t, "a", "b", "c", "d", "e", "f")
	for name, state := range map[string]chash.State{
		"b": chash.Unhealthy, "c": chash.Unhealthy, "d": chash.Draining, "e": chash.Draining, "f": chash.Draining,
	} {
		require.NoError(t, table.SetState(name, state))
	}
	require.NoError(t, table.SetLoadFactor(1.75))
	require.NoError(t, table.SetLoadFloor(2.5))
	lease, err := table.Acquire("key", chash.WithCost(7))
	require.NoError(t, err)
	for i := range 1000 {
		_, err := table.Get(fmt.Sprint("key-", i))
		require.NoError(t, err)
	}
	ring, err := chash.NewRing([]chash.Backend[int]{{Name: "x", Value: 1}}, chash.WithReplicas(3))
	require.NoError(t, err)

	collector := chashprom.New(chashprom.PerBackend())
	require.NoError(t, collector.Add("table", table))
	require.NoError(t, collector.Add("ring", ring))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	scrape := func() string {
		resp, err := http.Get(server.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}

	text := scrape()
	stats := table.Stats()
	require.Positive(t, stats.SampledFallbacks)
	for _, line := range []string{
		`chash_backends{state="healthy",structure="table"} 1`,
		`chash_backends{state="unhealthy",structure="table"} 2`,
		`chash_backends{state="draining",structure="table"} 3`,
		`chash_placements{structure="table"} 3`,
		`chash_size{structure="table"} 13`,
		`chash_size{structure="ring"} 3`,
		fmt.Sprintf(`chash_share_min_ratio{structure="table"} %v`, stats.MinShareRatio),
		fmt.Sprintf(`chash_share_max_ratio{structure="table"} %v`, stats.MaxShareRatio),
		`chash_rebuilds_total{structure="table"} 4`,
		`chash_rebuilds_total{structure="ring"} 1`,
		fmt.Sprintf(`chash_last_rebuild_seconds{structure="table"} %v`, stats.LastRebuild.Seconds()),
		fmt.Sprintf(`chash_fallback_share{structure="table"} %v`, stats.FallbackShare),
		fmt.Sprintf(`chash_sampled_fallbacks_total{structure="table"} %d`, stats.SampledFallbacks),
		`chash_load_factor{structure="table"} 1.75`,
		`chash_load_floor{structure="table"} 2.5`,
		`chash_load{structure="table"} 7`,
		`chash_removed_load{structure="table"} 0`,
		fmt.Sprintf(`chash_fingerprint_info{fingerprint="%016x",structure="table"} 1`, table.Fingerprint()),
		fmt.Sprintf(`chash_live_fingerprint_info{fingerprint="%016x",structure="table"} 1`, table.LiveFingerprint()),
		fmt.Sprintf(`chash_backend_share_ratio{backend="a",structure="table"} %v`, table.Shares()[0].Share),
		`chash_backend_share_ratio{backend="f",structure="table"} 0`,
		`chash_backend_share_ratio{backend="x",structure="ring"} 1`,
		`chash_backend_load{backend="a",structure="table"} 7`,
		`chash_backend_load{backend="b",structure="table"} 0`,
		`chash_backend_state{backend="a",structure="table"} 0`,
		`chash_backend_state{backend="c",structure="table"} 1`,
		`chash_backend_state{backend="f",structure="table"} 2`,
		`chash_backend_state{backend="x",structure="ring"} 0`,
		`# TYPE chash_rebuilds_total counter`,
		`# TYPE chash_backends gauge`,
	} {
		require.Contains(t, text, line+"\n")
	}

	// The next scrape sees what has changed.
	lease.Release()
	require.NoError(t, table.SetState("b", chash.Healthy))
	require.True(t, collector.Remove("ring"))
	text = scrape()
	require.Contains(t, text, `chash_load{structure="table"} 0`+"\n")
	require.Contains(t, text, `chash_backends{state="healthy",structure="table"} 2`+"\n")
	require.NotContains(t, text, `structure="ring"`)
}

func TestCollector_BackendsOnlyIfAsked(t *testing.T) {
	collector := chashprom.New()
	require.NoError(t, collector.Add("table", newTable(t, "a")))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	for _, family := range families {
		require.NotContains(t, family.GetName(), "chash_backend_")
	}
}

func TestCollector_Lint(t *testing.T) {
	collector := chashprom.New(chashprom.PerBackend())
	require.NoError(t, collector.Add("table", newTable(t, "a")))
	problems, err := testutil.CollectAndLint(collector)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestCollector_Names(t *testing.T) {
	collector := chashprom.New()
	table := newTable(t, "a")
	require.NoError(t, collector.Add("table", table))
	require.ErrorIs(t, collector.Add("table", table), chashprom.ErrExists)
	require.True(t, collector.Remove("table"))
	require.False(t, collector.Remove("table"))
	require.NoError(t, collector.Add("table", table))
}

// No structure, no series; an empty one has series.
func TestCollector_Empty(t *testing.T) {
	collector := chashprom.New(chashprom.PerBackend())
	require.Zero(t, testutil.CollectAndCount(collector))
	require.NoError(t, collector.Add("table", newTable(t)))
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP chash_backends Backends by state.
# TYPE chash_backends gauge
chash_backends{state="draining",structure="table"} 0
chash_backends{state="healthy",structure="table"} 0
chash_backends{state="unhealthy",structure="table"} 0
# HELP chash_fingerprint_info Always 1. The label fingerprint has 16 hexadecimal digits: equal where keys map alike if all backends are healthy.
# TYPE chash_fingerprint_info gauge
chash_fingerprint_info{fingerprint="0000000000000000",structure="table"} 1
`), "chash_backends", "chash_fingerprint_info"))
}

func TestCollector_WhileOthersChange(t *testing.T) {
	collector := chashprom.New(chashprom.PerBackend())
	table := newTable(t, "a", "b", "c")
	require.NoError(t, collector.Add("table", table))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	var wait sync.WaitGroup
	wait.Add(2)
	go func() {
		defer wait.Done()
		for i := range 200 {
			_ = table.SetState("b", chash.State(i%3))
		}
	}()
	go func() {
		defer wait.Done()
		for range 200 {
			collector.Remove("table")
			_ = collector.Add("table", table)
		}
	}()
	for range 50 {
		_, err := registry.Gather()
		require.NoError(t, err)
	}
	wait.Wait()
}

// checkLoads compares what a collector says of the load of each backend.
func checkLoads(t *testing.T, collector *chashprom.Collector, lines string) {
	t.Helper()
	const name = "chash_backend_load"
	head := "# HELP " + name + " Leases of a backend that are not released: their number, or the sum of their costs where they have some.\n# TYPE " + name + " gauge"
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(head+lines), name))
}

// A label must be valid UTF-8, a name need not be. No two names are one label: a name
// that looks like another's label made every Gather fail.
func TestCollector_NamesOfAnyBytes(t *testing.T) {
	collector := chashprom.New(chashprom.PerBackend(), nil)
	require.NoError(t, collector.Add("table", newTable(t, "a\xfe", "a\xff", `"a\xff"`, `"\"a\\xff\""`, "ü")))
	checkLoads(t, collector, `
chash_backend_load{backend="\"\\\"\\\\\\\"a\\\\\\\\xff\\\\\\\"\\\"\"",structure="table"} 0
chash_backend_load{backend="\"\\\"a\\\\xff\\\"\"",structure="table"} 0
chash_backend_load{backend="\"a\\xfe\"",structure="table"} 0
chash_backend_load{backend="\"a\\xff\"",structure="table"} 0
chash_backend_load{backend="ü",structure="table"} 0
`)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	_, err := registry.Gather()
	require.NoError(t, err)
	require.ErrorIs(t, collector.Add("\xff", newTable(t)), chashprom.ErrInvalidName)
}

// Random names, valid or not, have labels of their own.
func FuzzCollector_Names(f *testing.F) {
	f.Add("a\xff", `"a\xff"`)
	f.Add(`"`, `""`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b || a == "" || b == "" {
			return
		}
		collector := chashprom.New(chashprom.PerBackend())
		require.NoError(t, collector.Add("table", newTable(t, a, b)))
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(collector))
		_, err := registry.Gather()
		require.NoError(t, err, "%q and %q", a, b)
	})
}

func TestCollector_Nil(t *testing.T) {
	collector := chashprom.New()
	require.ErrorIs(t, collector.Add("nil", nil), chashprom.ErrNilStructure)
	require.ErrorIs(t, collector.Add("nil", (*chash.Maglev[string])(nil)), chashprom.ErrNilStructure)
	require.Zero(t, testutil.CollectAndCount(collector))
}

// Leases of backends that were removed are still in flight, or lost. However many such
// backends there have been, they are one series.
func TestCollector_RemovedWithLeases(t *testing.T) {
	table := newTable(t, "a")
	collector := chashprom.New(chashprom.PerBackend())
	require.NoError(t, collector.Add("table", table))
	series := testutil.CollectAndCount(collector)
	var leases [20]chash.Lease[string]
	for i := range leases { // each time another backend
		var err error
		leases[i], err = table.Acquire("key", chash.WithCost(int64(i+1)))
		require.NoError(t, err)
		require.NoError(t, table.Set(chash.Named(fmt.Sprint("b", i))))
	}
	require.Equal(t, series, testutil.CollectAndCount(collector))
	checkLoads(t, collector, `
chash_backend_load{backend="b19",structure="table"} 0
`)
	removed := func(want string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP chash_removed_load Load of backends that are gone: of leases that are still in use, or were lost.
# TYPE chash_removed_load gauge
chash_removed_load{structure="table"} `+want+"\n"), "chash_removed_load"))
	}
	removed("210")
	leases[19].Release()
	removed("190")
	lease, err := table.Acquire("key")
	require.NoError(t, err)
	removed("190")
	lease.Release()
}

// What a collector does not export it does not describe, as another one may.
func TestCollector_Describe(t *testing.T) {
	described := func(opts ...chashprom.Option) string {
		ch := make(chan *prometheus.Desc, 100)
		chashprom.New(opts...).Describe(ch)
		close(ch)
		var all strings.Builder
		for desc := range ch {
			fmt.Fprintln(&all, desc)
		}
		return all.String()
	}
	for _, name := range []string{"chash_backend_share_ratio", "chash_backend_load", "chash_backend_state"} {
		require.NotContains(t, described(), name)
		require.Contains(t, described(chashprom.PerBackend()), name)
	}
}
