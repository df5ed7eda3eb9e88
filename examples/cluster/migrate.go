package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/chash-go/chash"
)

const (
	retryPause    = 50 * time.Millisecond // before what did not succeed is tried again
	tombstoneLife = time.Minute           // from a delete on
	bulkRanges    = 64                    // in one request
	bulkKeys      = 256                   // in one request
)

// wake makes migrate look at the backlog.
func (n *node) wake() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// migrate works off the backlog until ctx is done.
func (n *node) migrate(ctx context.Context) {
	for {
		pause := retryPause
		if n.workOff(ctx) {
			// Nothing that could bring a deleted key back is under way here.
			n.store.expire(time.Now().Add(-tombstoneLife))
			pause = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-n.woken:
		case <-time.After(pause):
		}
	}
}

// workOff does what it can of the backlog and reports whether nothing is left. Not
// everything succeeds at once: a node refuses while its view is another.
func (n *node) workOff(ctx context.Context) (settled bool) {
	v := n.current()
	n.pull(ctx, v)
	if err := n.handOver(ctx, v); err != nil {
		n.log.Debug("not handed over yet", "error", err)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.settled()
}

// pull fetches what is pending from the sources, a batch at a time. One that fails
// is left alone until the next call; the others are asked instead of it.
func (n *node) pull(ctx context.Context, v *view) {
	failed := map[string]bool{}
	for ctx.Err() == nil {
		n.mu.Lock()
		if n.view != v {
			n.mu.Unlock()
			return
		}
		source, batch := n.batch(v, bulkRanges, failed)
		n.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		rest, err := n.ask(ctx, n.bulk, v, source, batch)
		if err != nil {
			n.log.Debug("not fetched yet", "source", source, "error", err)
			failed[source] = true
			continue
		}
		n.mu.Lock()
		if n.view == v {
			n.replace(batch, rest)
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
// if in the end none had everything.
func (n *node) readThrough(ctx context.Context, v *view, key string) error {
	n.mu.RLock()
	p, pending := n.at(n.store.position(key))
	current := n.view
	n.mu.RUnlock()
	if current != v {
		return errOtherView
	}
	var failed error
	for pending {
		source, found := p.next(v)
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

// handOver sends what the node has to give up, and the writes that have not reached
// all holders, to the holders that lack them, and then drops what it does not hold.
// It offers versions first, so that nothing is sent twice and nothing is dropped
// that a holder has not got.
func (n *node) handOver(ctx context.Context, v *view) error {
	entries := n.toHandOver()
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
	n.handedOver(v, entries)
	return nil
}

// toHandOver returns the entries of the losing ranges and of unsent keys.
func (n *node) toHandOver() (entries []entry) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, r := range n.losing {
		entries = append(entries, n.store.scan(r)...)
	}
	for key := range n.unsent {
		if e, found := n.store.get(key); found {
			entries = append(entries, e)
		}
	}
	return entries
}

// offer sends a holder the entries that it lacks.
func (n *node) offer(ctx context.Context, v *view, holder string, entries []entry) error {
	var in offerRequest
	for _, e := range entries {
		in.Offers = append(in.Offers, entry{Key: e.Key, Version: e.Version})
	}
	var out offerAnswer
	if err := n.call(ctx, n.bulk, v, holder, offerPath, in, &out); err != nil {
		return err
	}
	if len(out.Wanted) == 0 {
		return nil
	}
	var send applyRequest
	for _, i := range out.Wanted {
		if i < 0 || i >= len(entries) {
			return fmt.Errorf("%s wants entry %d of %d", holder, i, len(entries))
		}
		send.Entries = append(send.Entries, entries[i])
	}
	send.Migration = true
	return n.call(ctx, n.bulk, v, holder, applyPath, send, new(applyAnswer))
}

// handedOver drops the entries that the node does not hold, and ends that part of
// the backlog, unless the view has changed: then there may be more to it.
func (n *node) handedOver(v *view, entries []entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view != v {
		return
	}
	for _, e := range entries {
		if v, found := n.unsent[e.Key]; found && v.compare(e.Version) <= 0 {
			delete(n.unsent, e.Key)
		}
		if !slices.ContainsFunc(v.holders(e.Key), isNode(n.name)) {
			n.store.drop(e)
		}
	}
	n.losing = nil
}

// The parts of the protocol between nodes that migration is made of. All are served
// while the view is that of the asking node, and does not change.
type (
	pullRequest struct{ Ranges []chash.Range }
	pullAnswer  struct {
		Entries []entry
		Missing []piece // of which the asked node may not have everything
	}

	offerRequest struct{ Offers []entry } // without their values
	offerAnswer  struct{ Wanted []int }   // which of them the asked node has not got

	applyRequest struct {
		Entries   []entry
		Migration bool // and not a client's write
	}
	applyAnswer struct{ Standing []version } // what the keys have then
)

func (n *node) servePull(v *view, in pullRequest) (out pullAnswer, err error) {
	for _, r := range in.Ranges {
		out.Entries = append(out.Entries, n.store.scan(r)...)
	}
	out.Missing = n.missing(n.name, v, in.Ranges)
	return out, nil
}

// serveOffer refuses while a piece is pending, since it would want all of that,
// which is on its way.
func (n *node) serveOffer(_ *view, in offerRequest) (out offerAnswer, err error) {
	for i, e := range in.Offers {
		if _, pending := n.at(n.store.position(e.Key)); pending {
			return out, errPending
		}
		if own, found := n.store.get(e.Key); !found || own.Version.compare(e.Version) < 0 {
			out.Wanted = append(out.Wanted, i)
		}
	}
	return out, nil
}

func (n *node) serveApply(_ *view, in applyRequest) (out applyAnswer, err error) {
	for _, e := range in.Entries {
		out.Standing = append(out.Standing, n.store.merge(e))
	}
	if in.Migration {
		n.received.Add(int64(len(in.Entries)))
	}
	return out, nil
}
