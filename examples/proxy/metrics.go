package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/chash-go/chash"
)

// metrics are counts since the start, and what is in flight.
type metrics struct {
	inFlight atomic.Int64
	answers  [6]atomic.Uint64 // by the first digit of the status; 0 is none
	nanos    atomic.Int64     // that requests have taken, tunnels left out
	timed    atomic.Uint64    // requests in nanos
	bytes    atomic.Int64     // of answers
}

func (m *metrics) begin() { m.inFlight.Add(1) }

func (m *metrics) end(e *exchange, took time.Duration) {
	m.inFlight.Add(-1)
	m.answers[min(e.status/100, len(m.answers)-1)].Add(1)
	m.bytes.Add(e.bytes)
	if e.status != http.StatusSwitchingProtocols {
		m.timed.Add(1)
		m.nanos.Add(int64(took))
	}
}

// serveMetrics answers in Prometheus' text format. There are as many series as backends,
// and some ten more.
func (h *proxy) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.writeMetrics(w)
}

func (h *proxy) writeMetrics(w io.Writer) {
	metric := func(name, kind, help string) {
		fmt.Fprintf(w, "# HELP proxy_%s %s\n# TYPE proxy_%s %s\n", name, help, name, kind)
	}
	single := func(name, kind, help string, value any) {
		metric(name, kind, help)
		fmt.Fprintf(w, "proxy_%s %v\n", name, value)
	}
	m := &h.metrics
	metric("requests_total", "counter", "Requests by the class of the answer's status; none where the client has gone.")
	for digit, class := range []string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		fmt.Fprintf(w, "proxy_requests_total{code=%q} %d\n", class, m.answers[digit].Load())
	}
	metric("request_duration_seconds", "summary", "Time from the header of a request to the end of its answer, without tunnels.")
	fmt.Fprintf(w, "proxy_request_duration_seconds_sum %v\nproxy_request_duration_seconds_count %d\n",
		time.Duration(m.nanos.Load()).Seconds(), m.timed.Load())
	single("requests_in_flight", "gauge", "Requests that are not answered to the end.", m.inFlight.Load())
	single("response_bytes_total", "counter", "Bytes of the bodies of answers.", m.bytes.Load())

	stats := h.pool.transport.Stats()
	single("retries_total", "counter", "Attempts beyond the first of each request.", stats.Retries)
	single("retries_over_budget_total", "counter", "Retries that the budget did not allow.", stats.OverBudget)
	single("health_changes_total", "counter", "Changes of a backend's health.", h.pool.changes.Load())
	metric("backend_healthy", "gauge", "1 if a backend is healthy, 0 if it is unhealthy or draining.")
	for _, b := range h.pool.table.Backends() {
		healthy := 0
		if b.State == chash.Healthy {
			healthy = 1
		}
		fmt.Fprintf(w, "proxy_backend_healthy{backend=\"%s\"} %d\n", label(b.Name), healthy)
	}
	// contrib/chashprom has the same name, so that the command chash can compare processes.
	const name = "chash_fingerprint_info"
	fmt.Fprintf(w, "# HELP %s Always 1. Equal fingerprints mean equal mappings while all backends are healthy.\n# TYPE %s gauge\n", name, name)
	fmt.Fprintf(w, "%s{fingerprint=\"%016x\"} 1\n", name, h.pool.table.Fingerprint())
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label returns a name in the form of a label. A name that is not valid UTF-8 is quoted as
// in Go. A name that looks quoted is quoted too, so that no two labels are equal.
func label(name string) string {
	if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
		name = strconv.Quote(name)
	}
	return escapes.Replace(name)
}
