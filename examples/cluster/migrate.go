package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/chash-go/chash"
)

const (
	migrationPause = 20 * time.Millisecond // between two looks at the backlog
	bulkKeys       = 256                   // in one request
)

// migrate works off the backlog until ctx is done. Not everything succeeds at once:
// a node refuses while its view is another.
func (n *node) migrate(ctx context.Context) {
	for pause(ctx, migrationPause) {
		n.workOff(ctx)
	}
}

// workOff does what it can of the backlog, until the view changes.
func (n *node) workOff(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.mu.Lock()
	v := n.view
	n.interrupt = cancel
	n.mu.Unlock()
	if err := errors.Join(n.pull(ctx, v), n.handOver(ctx, v)); err != nil {
		slog.Debug("not everything is where it should be yet", "error", err)
	}
}

// pull fetches what is incoming.
func (n *node) pull(ctx context.Context, v *view) (err error) {
	n.mu.RLock()
	incoming := slices.Clone(n.backlog.incoming)
	n.mu.RUnlock()
	failed := map[string]error{}
	for _, p := range incoming {
		if err = n.fetch(ctx, n.bulk, v, p.First, failed); errors.Is(err, errOtherView) {
			break
		}
	}
	return err
}

// readThrough makes sure that the store has all that was written to a key by the
// others before this node held it: if its range is incoming, it is fetched now.
func (n *node) readThrough(ctx context.Context, v *view, key string) error {
	return n.fetch(ctx, n.peers, v, n.store.position(key), map[string]error{})
}

// fetch asks for the incoming piece that has a position, if there is one, until a
// source had everything or nobody is left to be asked. A source that fails is passed
// over, and so is one that has failed before; the error is of one of them, if none of
// the others had everything. But if a source has another view it is only a matter of
// time: the next might not have everything, and what it has would come twice.
func (n *node) fetch(ctx context.Context, client *http.Client, v *view, position uint64, failed map[string]error) error {
	for {
		n.mu.RLock()
		p, incoming := n.backlog.at(position)
		n.mu.RUnlock()
		if !incoming {
			return nil
		}
		sources := p.open(v)
		if len(sources) == 0 {
			return n.arrive(v, p, nil, nil)
		}
		i := slices.IndexFunc(sources, func(s string) bool { return failed[s] == nil })
		if i < 0 {
			return failed[sources[0]]
		}
		err := n.ask(ctx, client, v, sources[i], p)
		if errors.Is(err, errOtherView) {
			return err
		}
		failed[sources[i]] = err
	}
}

// ask fetches a piece from a source, or what that has of it.
func (n *node) ask(ctx context.Context, client *http.Client, v *view, source string, p piece) error {
	var out pullAnswer
	if err := n.call(ctx, client, v, source, pullPath, pullRequest{Ranges: []chash.Range{p.Range}}, &out); err != nil {
		return err
	}
	return n.arrive(v, p, p.rest(source, out.Missing), out.Entries)
}

// arrive takes in entries of an incoming piece, and what is left of it. But if the
// view has changed, that may no longer be the node's to hold.
func (n *node) arrive(v *view, p piece, rest []piece, entries []entry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view != v {
		return errOtherView
	}
	for _, e := range entries {
		n.store.merge(e)
	}
	n.moved.Add(int64(len(entries)))
	n.backlog.replace(p, rest)
	return nil
}

// handOver sends what is outgoing to the holders that lack it, and then drops what the
// node does not hold. It asks for their versions first, so that nothing is sent to
// who has it, and nothing dropped that a holder has not got.
func (n *node) handOver(ctx context.Context, v *view) error {
	outgoing, entries := n.toHandOver()
	offers := map[string][]entry{}
	for _, e := range entries {
		holders := v.holders(e.Key)
		if len(holders) == 0 {
			return fmt.Errorf("%w to take %q", errNoNode, e.Key)
		}
		for _, h := range holders {
			if h.name != n.name {
				offers[h.name] = append(offers[h.name], e)
			}
		}
	}
	for holder, entries := range offers {
		for batch := range slices.Chunk(entries, bulkKeys) {
			if err := n.offer(ctx, v, holder, batch); err != nil {
				return err
			}
		}
	}
	n.handedOver(v, outgoing, entries)
	return nil
}

// toHandOver returns what is outgoing, and its entries by key: ranges may overlap.
func (n *node) toHandOver() (outgoing map[chash.Range]int, entries map[string]entry) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	entries = map[string]entry{}
	for r := range n.backlog.outgoing {
		for _, e := range n.store.scan(r) {
			entries[e.Key] = e
		}
	}
	return maps.Clone(n.backlog.outgoing), entries
}

// offer sends a holder the entries that it lacks. What it gained has to have
// arrived there: else it would lack all that is on its way.
func (n *node) offer(ctx context.Context, v *view, holder string, entries []entry) error {
	in := pullRequest{KeysOnly: true}
	for _, e := range entries {
		in.Ranges = append(in.Ranges, at(e.position))
	}
	var out pullAnswer
	if err := n.call(ctx, n.bulk, v, holder, pullPath, in, &out); err != nil {
		return err
	}
	if len(out.Missing) > 0 {
		return fmt.Errorf("what %s holds has not arrived there", holder)
	}
	has := map[string]version{}
	for _, e := range out.Entries {
		has[e.Key] = e.Version
	}
	lacks := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return has[e.Key].compare(e.Version) >= 0 })
	if len(lacks) == 0 {
		return nil
	}
	if err := n.call(ctx, n.bulk, v, holder, applyPath, lacks, new(version)); err != nil {
		return err
	}
	n.moved.Add(int64(len(lacks)))
	return nil
}

// handedOver drops the entries that the node does not hold, and ends that part of
// the backlog, unless the view has changed: then there may be more to it.
func (n *node) handedOver(v *view, outgoing map[chash.Range]int, entries map[string]entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view != v {
		return
	}
	for _, e := range entries {
		if !slices.ContainsFunc(v.holders(e.Key), isNode(n.name)) {
			n.store.drop(e)
		}
	}
	n.backlog.handedOver(outgoing)
}

// servePull returns what the node has of ranges, and what it may lack of them.
func (n *node) servePull(in pullRequest) (out pullAnswer) {
	for _, r := range in.Ranges {
		for _, e := range n.store.scan(r) {
			if in.KeysOnly {
				e.Value = nil
			}
			out.Entries = append(out.Entries, e)
		}
	}
	out.Missing = n.backlog.missing(n.view, in.Ranges)
	return out
}

// serveApply takes in entries and returns the latest version that any of their keys
// has then.
func (n *node) serveApply(entries []entry) (latest version) {
	for _, e := range entries {
		if v := n.store.merge(e); v.compare(latest) > 0 {
			latest = v
		}
	}
	return latest
}
