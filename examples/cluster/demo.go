package main

import (
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
	demoWorkers = 32              // requests at a time
	demoLimit   = 3 * time.Minute // for the whole
	demoPoll    = 10 * time.Millisecond
)

// errVerdict is returned by a demonstration that shows what it should not.
var errVerdict = errors.New("that should not be")

// demonstrate runs five nodes as processes, loads them, kills one, adds another,
// and prints what became of the keys. The error is errVerdict if one was lost, or the
// copies that moved are not those that the change of the ring demands.
func demonstrate(ctx context.Context, keys int, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	go cancelWithParent(ctx, cancel)
	d := &demo{keys: keys, stdout: stdout}
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
	)
}

// A demo is a demonstration under way.
type demo struct {
	nodes  []*process
	view   *view // which the nodes should have, but for their addresses
	keys   int
	client http.Client
	stdout io.Writer
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
	p, err := startProcess(ctx, name, join)
	if err != nil {
		return err
	}
	d.nodes = append(d.nodes, p)
	return d.know()
}

func (d *demo) kill(name string) error {
	i := slices.IndexFunc(d.nodes, func(p *process) bool { return p.name == name })
	d.nodes[i].kill()
	d.nodes = slices.Delete(d.nodes, i, i+1)
	return d.know()
}

// know makes the nodes the members.
func (d *demo) know() error {
	var members []chash.Backend[peer]
	for _, p := range d.nodes {
		members = append(members, chash.Backend[peer]{Name: p.name, Value: peer{name: p.name}})
	}
	ring, err := chash.NewRing(members)
	if err != nil {
		return err
	}
	d.view = newView("", ring, defaultCopies)
	return nil
}

// change makes a change, waits until the nodes have settled, and prints a line of
// what it did to the keys.
func (d *demo) change(ctx context.Context, what string, do func() error) error {
	view := d.view
	begin := time.Now()
	if err := do(); err != nil {
		return err
	}
	moved, err := d.settle(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	lost, fewest := d.keys-d.read(ctx), d.fewestMoves(view)
	fmt.Fprintf(d.stdout, "%-14s %10d %13d %16d %12.2f s\n", what, lost, moved, fewest, took.Seconds())
	if lost > 0 || moved != fewest {
		return fmt.Errorf("%s: %w", what, errVerdict)
	}
	return nil
}

// fewestMoves returns how many copies must be made since the view was another: those
// whose holder did not hold them then.
func (d *demo) fewestMoves(before *view) (fewest int) {
	for i := range d.keys {
		held := before.holders(demoKey(i))
		for _, p := range d.view.holders(demoKey(i)) {
			if !slices.Contains(held, p) {
				fewest++
			}
		}
	}
	return fewest
}

// settle waits until all nodes have the view that they should have and nothing left
// to do, and returns how many copies have moved since they had so before.
func (d *demo) settle(ctx context.Context) (moved int, err error) {
	for {
		states, err := d.states(ctx)
		if err == nil && !slices.ContainsFunc(states, func(s status) bool { return !s.Settled || s.Ring != d.view.id }) {
			for i, s := range states {
				moved += int(s.Moved - d.nodes[i].moved)
				d.nodes[i].moved = s.Moved
			}
			return moved, nil
		}
		if !pause(ctx, demoPoll) {
			return 0, fmt.Errorf("the nodes have not settled: %w", errors.Join(ctx.Err(), err))
		}
	}
}

func (d *demo) states(ctx context.Context) ([]status, error) {
	states := make([]status, len(d.nodes))
	for i, p := range d.nodes {
		_, body, err := do(ctx, &d.client, http.MethodGet, p.url+"/status", nil, nil)
		if err == nil {
			err = json.Unmarshal(body, &states[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}

func demoKey(i int) string   { return fmt.Sprintf("key-%05d", i) }
func demoValue(i int) string { return fmt.Sprintf("value %d", i) }

// load writes all keys.
func (d *demo) load(ctx context.Context) error {
	fmt.Fprintf(d.stdout, "%d nodes on loopback, %d keys in %d copies each,", len(d.nodes), d.keys, defaultCopies)
	begin := time.Now()
	written := d.each(ctx, func(i int, url string) bool {
		status, _, err := do(ctx, &d.client, http.MethodPut, url, nil, []byte(demoValue(i)))
		return err == nil && status == http.StatusNoContent
	})
	fmt.Fprintf(d.stdout, " written in %.1f s\n\n", time.Since(begin).Seconds())
	if written < d.keys {
		return fmt.Errorf("%d keys not written: %w", d.keys-written, errVerdict)
	}
	return nil
}

// read reads all keys and returns how many have their values.
func (d *demo) read(ctx context.Context) int {
	return d.each(ctx, func(i int, url string) bool {
		status, body, err := do(ctx, &d.client, http.MethodGet, url, nil, nil)
		return err == nil && status == http.StatusOK && string(body) == demoValue(i)
	})
}

// each calls do with each key's number and its address at one of the nodes in turn,
// from several goroutines until ctx is done, and returns how often that was true.
func (d *demo) each(ctx context.Context, do func(i int, url string) bool) int {
	var workers sync.WaitGroup
	var done atomic.Int64
	for w := range demoWorkers {
		workers.Go(func() {
			for i := w; i < d.keys && ctx.Err() == nil; i += demoWorkers {
				if do(i, d.nodes[i%len(d.nodes)].url+keyPath+demoKey(i)) {
					done.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(done.Load())
}
