package chashprom

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chash-go/chash"
)

// A metric is exported once for each structure.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*reading) float64
}

// A backendMetric is exported for each backend of a structure.
type backendMetric struct {
	desc  *prometheus.Desc
	value func(r *reading, b *chash.Share) float64
}

// A reading is the result of one scrape of a structure.
type reading struct {
	chash.Stats
	shares  []chash.Share
	removed int64 // load of removed backends
}

func read(s Structure) *reading {
	r := &reading{Stats: s.Stats(), shares: s.Shares()}
	r.removed = r.InFlight
	for _, b := range r.shares {
		r.removed -= r.Loads[b.Name]
	}
	return r
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("chash_"+name, help, append([]string{"structure"}, labels...), nil)
}

var (
	metrics = []metric{
		{newDesc("placements", "Distinct hash keys of the backends that are not draining."), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(r.Placements) }},
		{newDesc("size", "Slots of the table or points of the ring; 0 without a placement."), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(r.Size) }},
		{newDesc("share_min_ratio", "Smallest share of a placement in the key space, divided by its ideal one."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.MinShareRatio }},
		{newDesc("share_max_ratio", "Largest share of a placement in the key space, divided by its ideal one."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.MaxShareRatio }},
		{newDesc("rebuilds_total", "How often slots or points were laid out."), prometheus.CounterValue,
			func(r *reading) float64 { return float64(r.Rebuilds) }},
		{newDesc("last_rebuild_seconds", "How long slots or points took to lay out the last time."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.LastRebuild.Seconds() }},
		{newDesc("fallback_share", "Share of the key space whose placement has no healthy backend."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.FallbackShare }},
		{newDesc("sampled_fallbacks_total", "Lookups of Get, GetBytes and GetHash that went on from an unhealthy placement, of one key in 64."), prometheus.CounterValue,
			func(r *reading) float64 { return float64(r.SampledFallbacks) }},
		{newDesc("load", "Leases that are not released: their number, or the sum of their costs where they have some."), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(r.InFlight) }},
		{newDesc("removed_load", "Load of backends that are gone: of leases that are still in use, or were lost."), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(r.removed) }},
		{newDesc("load_factor", "How much load a backend may have, as a multiple of its fair share."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.LoadFactor }},
		{newDesc("load_floor", "Load that a backend may have for each unit of its weight, whatever its fair share."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.LoadFloor }},
	}
	backendMetrics = []backendMetric{
		{newDesc("backend_state", "State of a backend: 0 is healthy, 1 unhealthy, 2 draining.", "backend"),
			func(_ *reading, b *chash.Share) float64 { return float64(b.State) }},
		{newDesc("backend_share_ratio", "Share of a backend in the key space, whatever its health.", "backend"),
			func(_ *reading, b *chash.Share) float64 { return b.Share }},
		{newDesc("backend_load", "Leases of a backend that are not released: their number, or the sum of their costs where they have some.", "backend"),
			func(r *reading, b *chash.Share) float64 { return float64(r.Loads[b.Name]) }},
	}
	backends    = newDesc("backends", "Backends by state.", "state")
	fingerprint = newDesc("fingerprint_info", "Always 1. The label fingerprint has 16 hexadecimal digits: equal where keys map alike if all backends are healthy.", "fingerprint")

	liveFingerprint = newDesc("live_fingerprint_info", "Always 1. The label fingerprint has 16 hexadecimal digits: equal where keys map alike now, with the health that there is.", "fingerprint")
)

// collect exports one structure.
func (c *Collector) collect(ch chan<- prometheus.Metric, name string, s Structure) {
	r := read(s)
	for _, m := range metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(r), name)
	}
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name, label)
	}
	gauge(backends, float64(r.Healthy), chash.Healthy.String())
	gauge(backends, float64(r.Unhealthy), chash.Unhealthy.String())
	gauge(backends, float64(r.Draining), chash.Draining.String())
	gauge(fingerprint, 1, hex(s.Fingerprint()))
	gauge(liveFingerprint, 1, hex(s.LiveFingerprint()))
	if !c.perBackend {
		return
	}
	for i := range r.shares {
		b := &r.shares[i]
		for _, m := range backendMetrics {
			gauge(m.desc, m.value(r, b), label(b.Name))
		}
	}
}

// hex returns a fingerprint as text. As a Prometheus number, it would lose its last
// 11 bits.
func hex(fingerprint uint64) string { return fmt.Sprintf("%016x", fingerprint) }

// label returns the label of a backend: its name, quoted if it is not valid UTF-8 or
// looks quoted already.
func label(name string) string {
	if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}
