// Package replay sends the keys of a log through mappings, and counts what each backend
// gets. It reads once, in constant memory, on all processors.
package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// Options say how to replay.
type Options struct {
	Extract Extractor // nil for whole lines
	Heavy   int       // how many of the heaviest keys to find
	Workers int       // 0 for one a processor
	Bound   *Bound    // nil for no simulation of bounded loads
}

// A Result is what a log has done.
type Result struct {
	Requests  int64    `json:"requests"`
	Skipped   int64    `json:"skipped"`                   // lines without a key
	Example   string   `json:"skipped_example,omitempty"` // the first of them
	Before    []int64  `json:"-"`                         // requests by backend, in the order of the file; the last is nobody
	After     []int64  `json:"-"`                         // likewise; nil without a second mapping
	Moved     int64    `json:"moved"`                     // requests with another backend after
	Heavy     []Key    `json:"heavy"`
	HeavyRate int      `json:"heavy_sampled"` // one request in so many was looked at for Heavy
	Bounds    []Bounds `json:"bounded,omitempty"`
	Stopped   bool     `json:"interrupted"` // by the context, so that there is more in the log
}

// A Key is one that is asked for often.
type Key struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"` // about
}

// ErrNoKeys is returned for a log of which no line has a key.
var ErrNoKeys = errors.New("no line has a key")

// Run replays a log. When the context ends it returns what it has, with Stopped set. The
// second mapping may be nil. The errors are those of the reader, and ErrNoKeys.
func Run(ctx context.Context, log io.Reader, before, after *mapping.Mapping, o Options) (*Result, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	r := newReader(log, o.Workers)
	ended := make(chan struct{})
	defer close(ended)
	go r.run(ended)

	workers := make([]*worker, o.Workers)
	var running sync.WaitGroup
	for i := range workers {
		w := newWorker(before, after, o)
		workers[i] = w
		running.Go(func() { w.run(ctx, r) })
	}
	running.Wait()
	result := merge(workers, before, after, o)
	result.Stopped = ctx.Err() != nil
	if result.Stopped {
		return result, nil // the reader may wait for its next bytes
	}
	if r.err != nil {
		return result, r.err
	}
	result.Skipped += r.long
	if result.Requests == 0 {
		if result.Skipped == 0 {
			return result, fmt.Errorf("%w: it is empty", ErrNoKeys)
		}
		return result, fmt.Errorf("%w: of %d lines, the first of which is %q", ErrNoKeys, result.Skipped, result.Example)
	}
	return result, nil
}

// A router says which backend a key goes to: an index, or that of nobody.
type router func(key []byte) int

func routerOf(m *mapping.Mapping) router {
	nobody := len(m.Backends)
	if table := m.Table(); table != nil {
		return func(key []byte) int {
			value, err := table.GetBytes(key)
			if err != nil {
				return nobody
			}
			return value
		}
	}
	ring := m.Ring()
	return func(key []byte) int {
		value, err := ring.GetBytes(key)
		if err != nil {
			return nobody
		}
		return value
	}
}

// A worker counts the requests of its chunks.
type worker struct {
	extract       Extractor
	before, after router // after may be nil

	counts, later  []int64
	moved          int64
	requests       int64
	skipped        int64
	example        string
	exampleInChunk int

	stays []int // by index before: the index of the same name after, or -1
	heavy *heavy
	bound *simulation // nil without one
}

func newWorker(before, after *mapping.Mapping, o Options) *worker {
	w := &worker{
		extract: o.Extract, before: routerOf(before), counts: make([]int64, len(before.Backends)+1),
		heavy: newHeavy(o.Heavy),
	}
	if w.extract == nil {
		w.extract = Line
	}
	mappings := []*mapping.Mapping{before}
	if after != nil {
		w.after, w.later = routerOf(after), make([]int64, len(after.Backends)+1)
		w.stays = stays(before, after)
		mappings = append(mappings, after)
	}
	if o.Bound != nil {
		w.bound = newSimulation(*o.Bound, mappings)
	}
	return w
}

// stays returns for each index before, that of nobody too, the index after of the backend
// of the same name, or -1.
func stays(before, after *mapping.Mapping) []int {
	byName := map[string]int{"": len(after.Backends)}
	for i, b := range after.Backends {
		byName[b.Name] = i
	}
	indices := make([]int, len(before.Backends)+1)
	indices[len(before.Backends)] = len(after.Backends)
	for i, b := range before.Backends {
		at, found := byName[b.Name]
		if !found {
			at = -1
		}
		indices[i] = at
	}
	return indices
}

func (w *worker) run(ctx context.Context, r *reader) {
	for {
		select {
		case <-ctx.Done():
			return
		case c, more := <-r.chunks:
			if !more || ctx.Err() != nil {
				return
			}
			w.count(c)
			r.free <- c.buffer
		}
	}
}

// count counts the requests of a chunk.
func (w *worker) count(c chunk) {
	stretch := w.bound != nil && w.bound.begin(c.number)
	for data := c.data; len(data) > 0; {
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		key, ok := w.extract(line)
		if !ok {
			w.skip(line, c.number)
			continue
		}
		w.requests++
		home := w.before(key)
		w.counts[home]++
		if w.after != nil {
			later := w.after(key)
			w.later[later]++
			if w.stays[home] != later {
				w.moved++
			}
		}
		w.heavy.add(key)
		if stretch {
			w.bound.request(key)
		}
	}
	if stretch {
		w.bound.end()
	}
}

// skip notes a line without a key.
func (w *worker) skip(line []byte, chunk int) {
	if w.skipped == 0 {
		w.example, w.exampleInChunk = string(line[:min(len(line), 200)]), chunk
	}
	w.skipped++
}

// merge adds up what the workers have counted.
func merge(workers []*worker, before, after *mapping.Mapping, o Options) *Result {
	result := &Result{Before: make([]int64, len(before.Backends)+1)}
	if after != nil {
		result.After = make([]int64, len(after.Backends)+1)
	}
	var heavies []*heavy
	exampleIn := -1
	for _, w := range workers {
		result.Requests += w.requests
		result.Skipped += w.skipped
		result.Moved += w.moved
		if w.skipped > 0 && (exampleIn < 0 || w.exampleInChunk < exampleIn) {
			result.Example, exampleIn = w.example, w.exampleInChunk
		}
		for i, n := range w.counts {
			result.Before[i] += n
		}
		for i, n := range w.later {
			result.After[i] += n
		}
		heavies = append(heavies, w.heavy)
	}
	result.Heavy, result.HeavyRate = heaviest(heavies, o.Heavy)
	if o.Bound != nil {
		var simulations []*simulation
		for _, w := range workers {
			simulations = append(simulations, w.bound)
		}
		result.Bounds = outcome(simulations)
	}
	return result
}
