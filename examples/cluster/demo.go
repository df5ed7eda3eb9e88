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
	demoLimit   = 3 * time.Minute // for the whole
	demoPoll    = 10 * time.Millisecond
)

// errVerdict is returned by a demonstration that shows what it should not.
var errVerdict = errors.New("the demonstration failed")

// demonstrate runs five nodes as processes, loads them, kills one, adds another,
// and prints what became of the keys. The error is errVerdict if one was lost, is
// not where the ring says, or more was moved than the change of the ring demands.
func demonstrate(ctx context.Context, keys int, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	go cancelWithParent(ctx, cancel)
	ring, err := chash.NewRing[string](nil)
	if err != nil {
		return err
	}
	d := &demo{ring: ring, keys: keys, stdout: stdout, stderr: stderr}
	d.client.Transport = &http.Transport{MaxIdleConnsPerHost: demoWorkers}
	defer d.close()
	for i := range demoNodes {
		if err := d.add(ctx, fmt.Sprintf("node-%d", i+1)); err != nil {
			return err
		}
	}
	if _, err := d.settle(ctx); err != nil {
		return err
	}
	if err := d.load(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%-14s %10s %13s %16s %14s\n", "", "keys lost", "copies moved", "fewest possible", "settled after")
	return errors.Join(
		d.change(ctx, "node-2 killed", func() error { return d.kill("node-2") }),
		d.change(ctx, "node-6 added", func() error { return d.add(ctx, "node-6") }),
		d.readAll(ctx),
	)
}

// A demo is a demonstration under way.
type demo struct {
	ring           *chash.Ring[string] // which the nodes should have
	nodes          []*process
	keys           int
	client         http.Client
	stdout, stderr io.Writer
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
	if err != nil {
		return err
	}
	d.nodes = append(d.nodes, p)
	return d.ring.Add(chash.Named(name)...)
}

func (d *demo) kill(name string) error {
	i := slices.IndexFunc(d.nodes, func(p *process) bool { return p.name == name })
	d.nodes[i].kill()
	d.nodes = slices.Delete(d.nodes, i, i+1)
	return d.ring.Remove(name)
}

// change makes a change, waits until the nodes have settled, and prints a line of
// what it did to the keys.
func (d *demo) change(ctx context.Context, what string, do func() error) error {
	ring := d.ring.Clone()
	before, err := d.states(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return err
	}
	after, err := d.settle(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	lost, misplaced, fewest, err := d.compare(ctx, ring)
	if err != nil {
		return err
	}
	moved := 0
	for name, s := range after {
		moved += int(s.Received - before[name].Received)
	}
	fmt.Fprintf(d.stdout, "%-14s %10d %13d %16d %12.2f s\n", what, lost, moved, fewest, took.Seconds())
	if lost > 0 || misplaced > 0 || moved > fewest {
		return fmt.Errorf("%w: %s: %d keys lost, %d not held where the ring says, %d copies moved instead of %d",
			errVerdict, what, lost, misplaced, moved, fewest)
	}
	return nil
}

// compare returns how many keys no node has a copy of, how many are not held by
// exactly those nodes that the ring says, and how many copies had to move since the
// ring was another: those whose holder did not hold them then.
func (d *demo) compare(ctx context.Context, before *chash.Ring[string]) (lost, misplaced, fewest int, err error) {
	held, err := d.census(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	for i := range d.keys {
		was, err := before.GetN(demoKey(i), demoCopies)
		if err != nil {
			return 0, 0, 0, err
		}
		is, err := d.ring.GetN(demoKey(i), demoCopies)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, name := range is {
			if !slices.Contains(was, name) {
				fewest++
			}
		}
		have := held[demoKey(i)]
		slices.Sort(have)
		slices.Sort(is)
		switch {
		case len(have) == 0:
			lost++
		case !slices.Equal(have, is):
			misplaced++
		}
	}
	return lost, misplaced, fewest, nil
}

// census returns the nodes that have a copy of each key.
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
	return held, nil
}

// settle waits until all nodes have the ring that they should have and nothing left
// to do, and returns their states by name.
func (d *demo) settle(ctx context.Context) (map[string]status, error) {
	for {
		states, err := d.states(ctx)
		settled := err == nil
		for _, s := range states {
			settled = settled && s.Settled && s.Ring == ringID(d.ring)
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

func (d *demo) states(ctx context.Context) (map[string]status, error) {
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

func demoKey(i int) string   { return fmt.Sprintf("key-%05d", i) }
func demoValue(i int) string { return fmt.Sprintf("value %d", i) }

// load writes all keys, each through one of the nodes in turn.
func (d *demo) load(ctx context.Context) error {
	begin := time.Now()
	fmt.Fprintf(d.stdout, "%d nodes on loopback, %d keys in %d copies each,", len(d.nodes), d.keys, demoCopies)
	err := d.each(func(i int, url string) error {
		status, body, err := d.do(ctx, http.MethodPut, url, demoValue(i))
		if err == nil && status != http.StatusNoContent {
			err = fmt.Errorf("PUT %s: %d %s", url, status, body)
		}
		return err
	})
	if err == nil {
		fmt.Fprintf(d.stdout, " written in %.1f s\n\n", time.Since(begin).Seconds())
	}
	return err
}

// readAll reads all keys, each through one of the nodes in turn.
func (d *demo) readAll(ctx context.Context) error {
	var right atomic.Int64
	err := d.each(func(i int, url string) error {
		status, body, err := d.do(ctx, http.MethodGet, url, "")
		if err == nil && status == http.StatusOK && string(body) == demoValue(i) {
			right.Add(1)
		}
		return err
	})
	fmt.Fprintf(d.stdout, "\n%d of %d keys read back, each through one of the nodes in turn\n", right.Load(), d.keys)
	if wrong := int64(d.keys) - right.Load(); wrong > 0 {
		return errors.Join(err, fmt.Errorf("%w: %d keys not read back", errVerdict, wrong))
	}
	return err
}

// each calls do with each key's number and its address at one of the nodes, from
// several goroutines that stop at an error.
func (d *demo) each(do func(i int, url string) error) error {
	var workers sync.WaitGroup
	errs := make([]error, demoWorkers)
	for w := range demoWorkers {
		workers.Go(func() {
			for i := w; i < d.keys && errs[w] == nil; i += demoWorkers {
				errs[w] = do(i, d.nodes[i%len(d.nodes)].url+"/kv/"+demoKey(i))
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func (d *demo) getJSON(ctx context.Context, url string, into any) error {
	status, body, err := d.do(ctx, http.MethodGet, url, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %s", url, status, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (d *demo) do(ctx context.Context, method, url, value string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(value)))
	if err != nil {
		return 0, nil, err
	}
	return do(&d.client, r)
}
