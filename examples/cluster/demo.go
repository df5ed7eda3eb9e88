package main

import (
	"context"
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
	demoWorkers = 16              // requests at a time
	demoLimit   = 3 * time.Minute // for the whole
	demoPoll    = 10 * time.Millisecond
)

// errVerdict is returned by a demonstration that shows what it should not.
var errVerdict = errors.New("that should not be")

// demonstrate runs five nodes on loopback, loads them, kills one, adds another, and
// prints what became of the keys. The error is errVerdict if one was lost, or the
// copies that moved are not those that the change of the ring demands.
func demonstrate(ctx context.Context, keys int, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	d := &demo{keys: keys, stdout: stdout}
	d.client.Transport = &http.Transport{MaxIdleConnsPerHost: demoWorkers}
	defer d.close()
	for i := range demoNodes {
		if err := d.add(ctx, fmt.Sprintf("node-%d", i+1)); err != nil {
			return err
		}
	}
	if err := d.settle(ctx); err != nil {
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
	nodes  []*node
	dead   []*node
	keys   int
	client http.Client
	stdout io.Writer
}

func (d *demo) close() {
	d.client.CloseIdleConnections()
	for _, n := range d.nodes {
		_ = n.close()
	}
}

func (d *demo) add(ctx context.Context, name string) error {
	c := config{name: name, addr: "127.0.0.1:0", copies: defaultCopies}
	for _, n := range d.nodes {
		c.join = append(c.join, n.addr)
	}
	n, err := startNode(ctx, c)
	if err == nil {
		d.nodes = append(d.nodes, n)
	}
	return err
}

// kill ends a node without a word to the others.
func (d *demo) kill(name string) error {
	i := slices.IndexFunc(d.nodes, func(n *node) bool { return n.name == name })
	n := d.nodes[i]
	d.nodes, d.dead = slices.Delete(d.nodes, i, i+1), append(d.dead, n)
	return n.close()
}

// names returns those of the nodes that there are.
func (d *demo) names() (names []string) {
	for _, n := range d.nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	return names
}

// moved returns how many copies the nodes have fetched so far.
func (d *demo) moved() (moved int64) {
	for _, n := range slices.Concat(d.nodes, d.dead) {
		moved += n.moved.Load()
	}
	return moved
}

// change makes a change, waits until the nodes have settled, and prints a line of
// what it did to the keys.
func (d *demo) change(ctx context.Context, what string, do func() error) error {
	begin, names, movedBefore := time.Now(), d.names(), d.moved()
	if err := do(); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	took, moved := time.Since(begin), d.moved()-movedBefore
	fewest, err := d.fewestMoves(names)
	if err != nil {
		return err
	}
	lost := d.keys - d.read(ctx)
	fmt.Fprintf(d.stdout, "%-14s %10d %13d %16d %12.2f s\n", what, lost, moved, fewest, took.Seconds())
	if lost > 0 || moved != fewest {
		return fmt.Errorf("%s: %w", what, errVerdict)
	}
	return nil
}

// fewestMoves returns how many copies must be made since the nodes were others: those
// whose holder did not hold them then.
func (d *demo) fewestMoves(names []string) (fewest int64, err error) {
	before, err := chash.NewRing(chash.Named(names...))
	if err != nil {
		return 0, err
	}
	after, err := chash.NewRing(chash.Named(d.names()...))
	if err != nil {
		return 0, err
	}
	var held, holders []string
	for i := range d.keys {
		held, _ = before.AppendN(held[:0], demoKey(i), defaultCopies) // there are nodes
		holders, _ = after.AppendN(holders[:0], demoKey(i), defaultCopies)
		for _, name := range holders {
			if !slices.Contains(held, name) {
				fewest++
			}
		}
	}
	return fewest, nil
}

// settle waits until the nodes are the members, and all data are where they belong.
func (d *demo) settle(ctx context.Context) error {
	names := d.names()
	for slices.ContainsFunc(d.nodes, func(n *node) bool {
		s := n.status()
		return !s.Settled || !slices.Equal(s.Members, names)
	}) {
		if !pause(ctx, demoPoll) {
			return fmt.Errorf("the nodes have not settled: %w", ctx.Err())
		}
	}
	return nil
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
				if do(i, "http://"+d.nodes[i%len(d.nodes)].addr+keyPath+demoKey(i)) {
					done.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(done.Load())
}
