// Package chashprom exports the statistics of chash structures as Prometheus
// metrics.
//
// A [Collector] has any number of structures, each under a name that becomes the
// label "structure". Metrics are computed when they are scraped, and lookups pay
// nothing for them: a scrape takes each structure's Stats, and its fingerprints,
// which take time for each slot of a table and each point of a ring (some 0.1 ms
// for a table of 65,537 slots).
//
// A structure has some 20 series, and with [PerBackend] three more for each of its
// backends. Nothing else adds any: neither keys and leases nor backends that are
// gone.
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

// PerBackend also exports the state, the share of the key space and the load of each
// backend, with a label "backend": three series for each backend that there is. A
// backend that is removed takes its series along. The label is the backend's name. A
// name that is not valid UTF-8, as a label must be, or that begins with a quotation
// mark appears quoted as in Go, so that no two names have one label.
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
