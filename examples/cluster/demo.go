package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chash-go/chash"
)

const (
	demoNodes   = 5
	demoCopies  = 2
	demoWorkers = 32              // requests at a time
	demoLimit   = 4 * time.Minute // for the whole
	demoPoll    = 10 * time.Millisecond
)

// demonstrate runs five nodes as processes, loads them, kills one, adds another,
// and prints what became of the keys. It returns an error if one was lost, or more
// copies were moved than the change of the ring demands.
func demonstrate(ctx context.Context, keys int, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	d := &demo{stderr: stderr, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: demoWorkers}}}
	defer d.close()
	for i := range keys {
		d.keys = append(d.keys, fmt.Sprintf("key-%05d", i))
	}
	for i := range demoNodes {
		if err := d.add(ctx, fmt.Sprintf("node-%d", i+1)); err != nil {
			return err
		}
	}
	if _, err := d.settle(ctx); err != nil {
		return err
	}
	took, err := d.load(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d nodes on loopback, %d keys in %d copies each, written in %.1f s\n\n", demoNodes, keys, demoCopies, took.Seconds())
	fmt.Fprintf(stdout, "%-14s %10s %13s %16s %13s\n", "", "keys lost", "copies moved", "fewest possible", "settled after")
	killed := d.change(ctx, stdout, "node-2 killed", func() error { d.kill("node-2"); return nil })
	if killed != nil && !errors.Is(killed, errVerdict) {
		return killed
	}
	added := d.change(ctx, stdout, "node-6 added", func() error { return d.add(ctx, "node-6") })
	if added != nil && !errors.Is(added, errVerdict) {
		return added
	}
	read, err := d.readAll(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\n%d of %d keys read back, each through one of the nodes in turn\n", read, keys)
	if read < keys {
		err = fmt.Errorf("%w: %d keys not read back", errVerdict, keys-read)
	}
	return errors.Join(killed, added, err)
}

// errVerdict is returned by a demonstration that shows what it should not.
var errVerdict = errors.New("the demonstration failed")

// A demo is a demonstration under way.
type demo struct {
	stderr io.Writer
	client *http.Client
	keys   []string
	nodes  []*process
}

func (d *demo) close() {
	d.client.CloseIdleConnections()
	for _, p := range d.nodes {
		p.kill()
	}
}

func (d *demo) add(ctx context.Context, name string) error {
	join := ""
	if len(d.nodes) > 0 {
		join = d.nodes[0].gossip
	}
	p, err := startProcess(ctx, d.stderr, name, join)
	if err == nil {
		d.nodes = append(d.nodes, p)
	}
	return err
}

func (d *demo) kill(name string) {
	d.nodes = slices.DeleteFunc(d.nodes, func(p *process) bool {
		if p.name != name {
			return false
		}
		p.kill()
		return true
	})
}

// change makes a change, waits until the nodes have settled, and prints a line of
// what it did to the keys.
func (d *demo) change(ctx context.Context, stdout io.Writer, what string, do func() error) error {
	before, err := d.placement()
	if err != nil {
		return err
	}
	received, err := d.received(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return err
	}
	now, err := d.settle(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := d.placement()
	if err != nil {
		return err
	}
	fewest, moved := 0, int64(0)
	for _, key := range d.keys {
		fewest += len(after[key]) - len(common(before[key], after[key]))
	}
	for name, s := range now {
		moved += s.Received - received[name].Received
	}
	held, err := d.census(ctx)
	if err != nil {
		return err
	}
	lost, misplaced := 0, 0
	for _, key := range d.keys {
		if len(held[key]) == 0 {
			lost++
		}
		if !slices.Equal(held[key], slices.Sorted(slices.Values(after[key]))) {
			misplaced++
		}
	}
	fmt.Fprintf(stdout, "%-14s %10d %13d %16d %11.2f s\n", what, lost, moved, fewest, took.Seconds())
	if lost > 0 || misplaced > 0 || moved > int64(fewest) {
		return fmt.Errorf("%w: %s: %d keys lost, %d not held where the ring says, %d copies moved instead of %d",
			errVerdict, what, lost, misplaced, moved, fewest)
	}
	return nil
}

func common(a, b []string) (both []string) {
	for _, s := range a {
		if slices.Contains(b, s) {
			both = append(both, s)
		}
	}
	return both
}

// ring returns the ring that the nodes should have.
func (d *demo) ring() (*chash.Ring[string], error) {
	var names []string
	for _, p := range d.nodes {
		names = append(names, p.name)
	}
	return chash.NewRing(chash.Named(names...))
}

// placement returns the nodes that should hold each key.
func (d *demo) placement() (map[string][]string, error) {
	ring, err := d.ring()
	if err != nil {
		return nil, err
	}
	nodes := map[string][]string{}
	for _, key := range d.keys {
		if nodes[key], err = ring.GetN(key, demoCopies); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// settle waits until all nodes have the ring that they should have and nothing left
// to do, and returns their states by name.
func (d *demo) settle(ctx context.Context) (map[string]status, error) {
	ring, err := d.ring()
	if err != nil {
		return nil, err
	}
	view := viewID(ring, demoCopies)
	for {
		states, err := d.received(ctx)
		settled := err == nil
		for _, s := range states {
			settled = settled && s.Settled && s.View == view
		}
		if settled {
			return states, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the nodes have not settled: %w", errors.Join(ctx.Err(), err))
		case <-time.After(demoPoll):
		}
	}
}

// received returns the states of all nodes by name.
func (d *demo) received(ctx context.Context) (map[string]status, error) {
	states := map[string]status{}
	for _, p := range d.nodes {
		var s status
		if err := d.getJSON(ctx, p.url+"/status", &s); err != nil {
			return nil, err
		}
		states[p.name] = s
	}
	return states, nil
}

// census returns the nodes that have a copy of each key, sorted.
func (d *demo) census(ctx context.Context) (map[string][]string, error) {
	held := map[string][]string{}
	for _, p := range d.nodes {
		var keys []string
		if err := d.getJSON(ctx, p.url+"/keys", &keys); err != nil {
			return nil, err
		}
		for _, key := range keys {
			held[key] = append(held[key], p.name)
		}
	}
	for _, names := range held {
		slices.Sort(names)
	}
	return held, nil
}

// load writes all keys, each through one of the nodes in turn.
func (d *demo) load(ctx context.Context) (took time.Duration, err error) {
	begin := time.Now()
	err = d.each(func(key, url string) error {
		status, _, err := d.do(ctx, http.MethodPut, url, []byte(demoValue(key)))
		if err == nil && status != http.StatusNoContent {
			err = fmt.Errorf("PUT %s: status %d", url, status)
		}
		return err
	})
	return time.Since(begin), err
}

// readAll returns how many keys have the value that was written.
func (d *demo) readAll(ctx context.Context) (int, error) {
	var right atomic.Int64
	err := d.each(func(key, url string) error {
		status, body, err := d.do(ctx, http.MethodGet, url, nil)
		if err == nil && status == http.StatusOK && string(body) == demoValue(key) {
			right.Add(1)
		}
		return err
	})
	return int(right.Load()), err
}

func demoValue(key string) string { return "the value of " + key }

// each calls do for all keys with the address of each at one of the nodes, from
// several goroutines, and returns the first error.
func (d *demo) each(do func(key, url string) error) error {
	var workers sync.WaitGroup
	errs := make([]error, demoWorkers)
	for w := range demoWorkers {
		workers.Go(func() {
			for i := w; i < len(d.keys) && errs[w] == nil; i += demoWorkers {
				key := d.keys[i]
				errs[w] = do(key, d.nodes[i%len(d.nodes)].url+"/kv/"+key)
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func (d *demo) getJSON(ctx context.Context, url string, into any) error {
	status, body, err := d.do(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: status %d", url, status)
	}
	return json.Unmarshal(body, into)
}

func (d *demo) do(ctx context.Context, method, url string, value []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(value))
	if err != nil {
		return 0, nil, err
	}
	return do(d.client, r)
}
