package chashprom_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashprom"
)

// A fleet is some processes with a table of their own, and a Prometheus that scrapes
// them and has the alerts.
type fleet struct {
	tables []*chash.Maglev[string]
	url    string // of Prometheus
}

// program returns where a program is, and skips the test without it.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s", name)
	}
	return path
}

func startFleet(t *testing.T, size int, names ...string) *fleet {
	t.Helper()
	f := new(fleet)
	var targets []string
	for range size {
		table, err := chash.NewMaglev(chash.Named(names...))
		require.NoError(t, err)
		collector := chashprom.New(chashprom.PerBackend())
		require.NoError(t, collector.Add("web", table))
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(collector))
		server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
		t.Cleanup(server.Close)
		f.tables = append(f.tables, table)
		targets = append(targets, strings.TrimPrefix(server.URL, "http://"))
	}
	f.startPrometheus(t, targets)
	return f
}

func (f *fleet) startPrometheus(t *testing.T, targets []string) {
	t.Helper()
	path := program(t, "prometheus")
	folder := t.TempDir()
	alerts, err := filepath.Abs("alerts.yml")
	require.NoError(t, err)
	config, err := json.Marshal(map[string]any{ // which is YAML too
		"global":         map[string]any{"scrape_interval": "100ms", "evaluation_interval": "100ms"},
		"rule_files":     []string{alerts},
		"scrape_configs": []any{map[string]any{"job_name": "fleet", "static_configs": []any{map[string]any{"targets": targets}}}},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "prometheus.yml"), config, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close()) // it has no way to say which port it took
	cmd := exec.Command(path, "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address, "--log.level=warn")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus:\n%s", &log)
		}
	})
	f.url = "http://" + address
	eventually(t, "all processes are scraped", func() bool {
		return len(f.query("up == 1")) == len(targets)
	})
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after 30 s: %s", what)
		}
	}
}

// A sample is what Prometheus has for one series.
type sample struct {
	Metric map[string]string
	Value  [2]any   // time and value as text
	Values [][2]any // of a query over a range
}

// query returns what an expression is now, nothing if Prometheus does not answer.
func (f *fleet) query(expr string) (samples []sample) {
	samples, _ = f.ask("/api/v1/query", url.Values{"query": {expr}})
	return samples
}

func (f *fleet) ask(path string, values url.Values) ([]sample, error) {
	var answer struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	err := f.get(path+"?"+values.Encode(), &answer)
	if err == nil && answer.Status != "success" {
		err = fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return answer.Data.Result, err
}

func (f *fleet) get(path string, into any) error {
	resp, err := http.Get(f.url + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// alerts returns the alerts that are pending or firing, by name, with what they say.
func (f *fleet) alerts() map[string]string {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels, Annotations map[string]string
			}
		}
	}
	if f.get("/api/v1/alerts", &answer) != nil {
		return nil
	}
	alerts := map[string]string{}
	for _, a := range answer.Data.Alerts {
		alerts[a.Labels["alertname"]] = a.Annotations["summary"]
	}
	return alerts
}

// A panel is one of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

// panels returns those of the dashboard, with its variables filled in.
func panels(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for i := range p.Targets {
			expr := &p.Targets[i].Expr
			*expr = strings.NewReplacer("$structure", ".*", "$__rate_interval", "1m").Replace(*expr)
			require.NotContains(t, *expr, "$")
		}
	}
	return dashboard.Panels
}

// A real Prometheus takes what a collector exports, raises the alerts where something is
// wrong and only there, and has something for each panel of the dashboard.
func TestPrometheus(t *testing.T) {
	f := startFleet(t, 3, "a", "b", "c")
	metrics := []string{"chash_fingerprint_info", "chash_backend_state", "chash_removed_load", "chash_load_floor"}
	for _, name := range metrics {
		eventually(t, name, func() bool { return len(f.query(name)) >= 3 })
	}
	eventually(t, "the rules were evaluated", f.evaluated)
	require.Empty(t, f.alerts(), "all is well")
	require.NoError(t, f.tables[0].SetState("c", chash.Draining))
	require.NoError(t, f.tables[1].SetState("c", chash.Draining))
	require.NoError(t, f.tables[2].SetState("c", chash.Draining))
	eventually(t, "the drain is seen", func() bool { return len(f.query("chash_backend_state == 2")) == 3 })

	require.NoError(t, f.tables[0].SetState("b", chash.Unhealthy))
	require.NoError(t, f.tables[1].SetState("b", chash.Unhealthy))
	eventually(t, "b is found", func() bool {
		return f.alerts()["ChashBackendUnhealthy"] == "b of web is unhealthy, as 2 processes say"
	})
	require.NotContains(t, f.alerts(), "ChashMappingsDiffer", "the mapping is that of the backends, not of their health")
	require.NoError(t, f.tables[2].Remove("a"))
	eventually(t, "the difference is found", func() bool {
		return f.alerts()["ChashMappingsDiffer"] == "2 different mappings of web"
	})
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			_, err := f.ask("/api/v1/query", url.Values{"query": {target.Expr}})
			require.NoError(t, err, "%s: %s", p.Title, target.Expr)
			eventually(t, p.Title, func() bool { return len(f.query(target.Expr)) > 0 })
		}
	}
}

// evaluated reports whether each rule was evaluated without an error.
func (f *fleet) evaluated() bool {
	var answer struct {
		Data struct {
			Groups []struct{ Rules []struct{ Health string } }
		}
	}
	if f.get("/api/v1/rules", &answer) != nil {
		return false
	}
	rules := 0
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				return false
			}
			rules++
		}
	}
	return rules == 2
}

// The alerts fire after their time, and not before, nor for what is no fault.
func TestPrometheus_Rules(t *testing.T) {
	out, err := exec.Command(program(t, "promtool"), "test", "rules", "alerts_test.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// promtool finds nothing to complain of in what is scraped.
func TestPrometheus_Lint(t *testing.T) {
	promtool := program(t, "promtool")
	collector := chashprom.New(chashprom.PerBackend())
	require.NoError(t, collector.Add("table", newTable(t, "a", "b\xff", "ü\n\"")))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = w.Body
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
