// Package chashprom exports the statistics of chash structures as Prometheus metrics.
//
// A [Collector] has any number of structures. Each has a name, the label "structure".
// Lookups pay nothing: the Collector computes all metrics during a scrape. A scrape
// takes time for each slot of a table and each point of a ring, about 0.1 ms for a
// table of 65,537 slots.
//
// A structure has 17 series. [PerBackend] adds three for each of its backends. Keys,
// leases and removed backends add none.
package chashprom

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chash-go/chash"
)

// A Structure is a *chash.Maglev or a *chash.Ring with values of any type, or
// anything else with these statistics.
type Structure interface {
	Stats() chash.Stats
	Shares() []chash.Share
	Fingerprint() uint64
	LiveFingerprint() uint64
}

// Add returns these errors. Find them with errors.Is.
var (
	// ErrExists is returned for a name that the Collector already has.
	ErrExists = errors.New("chashprom: structure exists")

	// ErrInvalidName is returned for a name that is not valid UTF-8. A label must be.
	ErrInvalidName = errors.New("chashprom: name is not valid UTF-8")

	// ErrNilStructure is returned for a nil Structure.
	ErrNilStructure = errors.New("chashprom: structure is nil")
)

// A Collector is a prometheus.Collector of structures. Make one with New and register
// it once. It is safe for concurrent use by multiple goroutines and must not be
// copied.
type Collector struct {
	perBackend bool

	mu         sync.RWMutex
	structures map[string]Structure
}

// An Option sets something of a Collector. A nil Option sets nothing.
type Option func(*Collector)

// PerBackend also exports the state, the share of the key space and the load of each
// backend, with the label "backend". These series end when the backend is removed.
// The label is the backend's name. A name that is not valid UTF-8 or begins with a
// quotation mark is quoted as in Go, so no two names have the same label.
func PerBackend() Option { return func(c *Collector) { c.perBackend = true } }

// New returns a Collector without structures.
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

// Remove stops the export of a structure, and reports whether the name was there.
func (c *Collector) Remove(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.structures[name]
	delete(c.structures, name)
	return found
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		ch <- m.desc
	}
	for _, desc := range []*prometheus.Desc{backends, fingerprint, liveFingerprint} {
		ch <- desc
	}
	if c.perBackend {
		for _, m := range backendMetrics {
			ch <- m.desc
		}
	}
}

// Collect implements prometheus.Collector. It does not block Add and Remove while it
// reads a structure.
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
