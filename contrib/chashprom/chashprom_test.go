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
	lease, err := table.Acquire("key")
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
		`chash_leases_in_flight{structure="table"} 1`,
		fmt.Sprintf(`chash_fingerprint{structure="table"} %v`, float64(table.Fingerprint()>>11)),
		fmt.Sprintf(`chash_live_fingerprint{structure="table"} %v`, float64(table.LiveFingerprint()>>11)),
		fmt.Sprintf(`chash_backend_share_ratio{backend="a",structure="table"} %v`, table.Shares()[0].Share),
		`chash_backend_share_ratio{backend="f",structure="table"} 0`,
		`chash_backend_share_ratio{backend="x",structure="ring"} 1`,
		`chash_backend_leases_in_flight{backend="a",structure="table"} 1`,
		`chash_backend_leases_in_flight{backend="b",structure="table"} 0`,
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
	require.Contains(t, text, `chash_leases_in_flight{structure="table"} 0`+"\n")
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
# HELP chash_fingerprint Upper 53 bits of the fingerprint of the mapping: equal where keys map alike if all backends are healthy.
# TYPE chash_fingerprint gauge
chash_fingerprint{structure="table"} 0
`), "chash_backends", "chash_fingerprint"))
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

// checkLeases compares what a collector says of the leases of each backend.
func checkLeases(t *testing.T, collector *chashprom.Collector, lines string) {
	t.Helper()
	const name = "chash_backend_leases_in_flight"
	head := "# HELP " + name + " Leases of Acquire that a backend has and that are not released.\n# TYPE " + name + " gauge"
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(head+lines), name))
}

// A label must be valid UTF-8, a name need not be.
func TestCollector_NamesOfAnyBytes(t *testing.T) {
	collector := chashprom.New(chashprom.PerBackend(), nil)
	require.NoError(t, collector.Add("table", newTable(t, "a\xfe", "a\xff")))
	checkLeases(t, collector, `
chash_backend_leases_in_flight{backend="\"a\\xfe\"",structure="table"} 0
chash_backend_leases_in_flight{backend="\"a\\xff\"",structure="table"} 0
`)
	require.ErrorIs(t, collector.Add("\xff", newTable(t)), chashprom.ErrInvalidName)
}

func TestCollector_Nil(t *testing.T) {
	collector := chashprom.New()
	require.ErrorIs(t, collector.Add("nil", nil), chashprom.ErrNilStructure)
	require.ErrorIs(t, collector.Add("nil", (*chash.Maglev[string])(nil)), chashprom.ErrNilStructure)
	require.Zero(t, testutil.CollectAndCount(collector))
}

// Leases of a backend that was removed are still in flight.
func TestCollector_RemovedWithLeases(t *testing.T) {
	table := newTable(t, "a")
	_, err := table.Acquire("key")
	require.NoError(t, err)
	require.NoError(t, table.Set(chash.Named("b")))
	collector := chashprom.New(chashprom.PerBackend())
	require.NoError(t, collector.Add("table", table))
	checkLeases(t, collector, `
chash_backend_leases_in_flight{backend="a",structure="table"} 1
chash_backend_leases_in_flight{backend="b",structure="table"} 0
`)
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
	for _, name := range []string{"chash_backend_share_ratio", "chash_backend_leases_in_flight"} {
		require.NotContains(t, described(), name)
		require.Contains(t, described(chashprom.PerBackend()), name)
	}
}
