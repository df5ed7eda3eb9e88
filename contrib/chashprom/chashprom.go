// Package chashprom exports the statistics of chash structures as Prometheus
// metrics.
//
// A [Collector] has any number of structures, each under a name that becomes the
// label "structure". Metrics are computed when they are scraped, and lookups pay
// nothing for them: a scrape takes each structure's Stats, and its fingerprints,
// which take time for each slot of a table and each point of a ring (some 0.1 ms
// for a table of 65,537 slots).
package chashprom

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chash-go/chash"
)

// A Structure is what is exported of a *chash.Maglev or a *chash.Ring, whatever
// the type of its values.
type Structure interface {
	Stats() chash.Stats
	Shares() []chash.Share
	Fingerprint() uint64
	LiveFingerprint() uint64
}

// Errors of Add, found with errors.Is.
var (
	// ErrExists is returned for a name that the collector has.
	ErrExists = errors.New("chashprom: structure exists")

	// ErrInvalidName is returned for a name that is not valid UTF-8, which a label
	// must be.
	ErrInvalidName = errors.New("chashprom: name is not valid UTF-8")

	// ErrNilStructure is returned for nil.
	ErrNilStructure = errors.New("chashprom: structure is nil")
)

// A Collector is a prometheus.Collector of structures, to be registered once.
// Make one with New; it is safe for concurrent use by multiple goroutines and must
// not be copied.
type Collector struct {
	perBackend bool

	mu         sync.RWMutex
	structures map[string]Structure
}

// An Option sets something of a Collector. A nil option sets nothing.
type Option func(*Collector)

// PerBackend also exports the share of the key space and the leases in flight of
// each backend, with a label "backend": as many series more as there are backends,
// times two. Of backends that were removed with leases in flight, it exports those.
// A name that is not valid UTF-8, as a label must be, appears quoted as in Go.
func PerBackend() Option { return func(c *Collector) { c.perBackend = true } }

// New returns a collector without structures.
func New(opts ...Option) *Collector {
	c := &Collector{structures: make(map[string]Structure)}
	for _, opt := range opts {
		if opt != nil {
			opt(c)
		}
	}
	return c
}

// Add exports a structure under a name, from the next scrape on. The errors are
// ErrExists, ErrInvalidName and ErrNilStructure.
func (c *Collector) Add(name string, s Structure) error {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: %q", ErrNilStructure, name)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: %q", ErrInvalidName, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.structures[name]; found {
		return fmt.Errorf("%w: %q", ErrExists, name)
	}
	c.structures[name] = s
	return nil
}

// Remove exports the structure of that name no longer, and reports whether there
// was one.
func (c *Collector) Remove(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.structures[name]
	delete(c.structures, name)
	return found
}

// A metric is one that is exported for each structure.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*reading) float64
}

// A reading is what one scrape has read of a structure.
type reading struct {
	chash.Stats
	fingerprint, live uint64
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("chash_"+name, help, append([]string{"structure"}, labels...), nil)
}

// A float64 holds 53 bits of a fingerprint exactly. Two that differ still differ
// in those, but for one pair in 2^53.
func float53(fingerprint uint64) float64 { return float64(fingerprint >> 11) }

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
		{newDesc("load_factor", "How many leases a backend may have, as a multiple of its fair share."), prometheus.GaugeValue,
			func(r *reading) float64 { return r.LoadFactor }},
		{newDesc("leases_in_flight", "Leases of Acquire that are not released."), prometheus.GaugeValue,
			func(r *reading) float64 { return float64(r.InFlight) }},
		{newDesc("fingerprint", "Upper 53 bits of the fingerprint of the mapping: equal where keys map alike if all backends are healthy."), prometheus.GaugeValue,
			func(r *reading) float64 { return float53(r.fingerprint) }},
		{newDesc("live_fingerprint", "Upper 53 bits of the fingerprint with states: equal where keys map alike now."), prometheus.GaugeValue,
			func(r *reading) float64 { return float53(r.live) }},
	}
	backends = newDesc("backends", "Backends by state.", "state")
	share    = newDesc("backend_share_ratio", "Share of a backend in the key space, whatever its health.", "backend")
	load     = newDesc("backend_leases_in_flight", "Leases of Acquire that a backend has and that are not released.", "backend")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		ch <- m.desc
	}
	ch <- backends
	if c.perBackend {
		ch <- share
		ch <- load
	}
}

// Collect implements prometheus.Collector. It holds no lock of the collector while
// it reads a structure.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.RLock()
	names := make([]string, 0, len(c.structures))
	for name := range c.structures {
		names = append(names, name)
	}
	slices.Sort(names)
	structures := make([]Structure, len(names))
	for i, name := range names {
		structures[i] = c.structures[name]
	}
	c.mu.RUnlock()
	for i, s := range structures {
		c.collect(ch, names[i], s)
	}
}

func (c *Collector) collect(ch chan<- prometheus.Metric, name string, s Structure) {
	r := reading{s.Stats(), s.Fingerprint(), s.LiveFingerprint()}
	for _, m := range metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&r), name)
	}
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name, label)
	}
	gauge(backends, float64(r.Healthy), chash.Healthy.String())
	gauge(backends, float64(r.Unhealthy), chash.Unhealthy.String())
	gauge(backends, float64(r.Draining), chash.Draining.String())
	if !c.perBackend {
		return
	}
	loads := maps.Clone(r.Loads)
	for _, b := range s.Shares() {
		gauge(share, b.Share, label(b.Name))
		gauge(load, float64(loads[b.Name]), label(b.Name))
		delete(loads, b.Name)
	}
	for name, n := range loads { // removed meanwhile
		gauge(load, float64(n), label(name))
	}
}

// label returns a backend's name as a label: itself, unless it is not valid UTF-8.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}
