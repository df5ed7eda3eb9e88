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
	bulkRanges     = 64                    // in one request
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
	n.pull(ctx, v)
	if err := n.handOver(ctx, v); err != nil {
		slog.Debug("not handed over yet", "error", err)
	}
}

// pull fetches what is incoming from the sources, a batch at a time. If one fails,
// the others are asked instead of it. If one has another view it is only a matter of
// time: it is waited for, since another source might not have everything, and what
// that has would come twice.
func (n *node) pull(ctx context.Context, v *view) {
	failed := map[string]bool{}
	for ctx.Err() == nil {
		n.mu.Lock()
		if n.view != v {
			n.mu.Unlock()
			return
		}
		source, batch := n.backlog.batch(v, bulkRanges, failed)
		n.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		rest, err := n.ask(ctx, n.bulk, v, source, batch)
		if errors.Is(err, errOtherView) {
			return
		}
		if err != nil {
			slog.Debug("not fetched yet", "source", source, "error", err)
			failed[source] = true
			continue
		}
		n.mu.Lock()
		if n.view == v {
			n.backlog.replace(batch, rest)
		}
		n.mu.Unlock()
	}
}

// ask fetches pieces from a source and returns what is left to be asked of others.
func (n *node) ask(ctx context.Context, client *http.Client, v *view, source string, pieces []piece) (rest []piece, err error) {
	var in pullRequest
	for _, p := range pieces {
		in.Ranges = append(in.Ranges, p.Range)
	}
	var out pullAnswer
	if err := n.call(ctx, client, v, source, pullPath, in, &out); err != nil {
		return nil, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.view != v {
		return nil, errOtherView // the pieces may no longer be this node's to hold
	}
	for _, e := range out.Entries {
		n.store.merge(e)
	}
	n.received.Add(int64(len(out.Entries)))
	for _, p := range pieces {
		rest = append(rest, p.rest(source, out.Missing)...)
	}
	return rest, nil
}

// readThrough makes sure that the store has all that was written to a key by the
// others before this node held it: it asks for that one key what migration asks for
// whole ranges. A source that does not answer is passed over; the error is its one
// if in the end none had everything. If the view has changed, the caller finds out.
func (n *node) readThrough(ctx context.Context, v *view, key string) error {
	n.mu.RLock()
	p, incoming := n.backlog.at(n.store.position(key))
	n.mu.RUnlock()
	var failed error
	for incoming {
		source, found := p.next(v, nil)
		if !found {
			return failed
		}
		rest, err := n.ask(ctx, n.peers, v, source, []piece{p})
		switch {
		case err != nil:
			failed = err
			p.asked = append(slices.Clone(p.asked), source)
		case len(rest) == 0:
			return nil
		default:
			p = rest[0] // of one position there is one part
		}
	}
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
		return fmt.Errorf("%w at %s", errPending, holder)
	}
	has := map[string]version{}
	for _, e := range out.Entries {
		has[e.Key] = e.Version
	}
	lacks := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return has[e.Key].compare(e.Version) >= 0 })
	if len(lacks) == 0 {
		return nil
	}
	return n.call(ctx, n.bulk, v, holder, applyPath, applyRequest{lacks, true}, new(applyAnswer))
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

func (n *node) servePull(in pullRequest) (out pullAnswer) {
	for _, r := range in.Ranges {
		for _, e := range n.store.scan(r) {
			if in.KeysOnly {
				e.Value = nil
			}
			out.Entries = append(out.Entries, e)
		}
	}
	out.Missing = n.backlog.missing(n.name, n.view, in.Ranges)
	return out
}

func (n *node) serveApply(in applyRequest) (out applyAnswer) {
	for _, e := range in.Entries {
		if v := n.store.merge(e); v.compare(out.Latest) > 0 {
			out.Latest = v
		}
	}
	if in.Migration {
		n.received.Add(int64(len(in.Entries)))
	}
	return out
}
