package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// What a node answers instead of doing something. Whoever asked may ask again.
var (
	errNoView    = errors.New("the node is not a member yet")
	errOtherView = errors.New("the nodes do not have the same members at the moment")
	errNotHere   = errors.New("the key has not arrived yet")
)

// The messages about a key, to each of its holders.
type (
	askRequest struct {
		View  uint64 // by which the receiver is a holder
		Key   string
		Value bool // is wanted
	}
	askAnswer struct {
		Entry  entry
		Ticket uint64 // above all those that the holder has given before
	}
	storeRequest struct {
		View  uint64
		Entry entry
	}
)

// read returns the latest entry of a key, by one attempt.
//
// All holders answer by one view. So none of them has gone on to the next view, and
// there is no later write that only others know of. If the holders differ, a write is
// under way or was given up: it is completed first, or the next read might miss it.
func (n *node) read(ctx context.Context, key string) (entry, error) {
	v, err := n.current()
	if err != nil {
		return entry{}, err
	}
	answers, err := all(ctx, n, v.holders(key), askPath, askRequest{v.version, key, true}, n.serveAsk)
	if err != nil {
		return entry{}, err
	}
	older := func(a, b askAnswer) int { return a.Entry.Version.compare(b.Entry.Version) }
	latest := slices.MaxFunc(answers, older)
	if older(slices.MinFunc(answers, older), latest) == 0 {
		return latest.Entry, nil
	}
	return latest.Entry, n.storeAtAll(ctx, v, latest.Entry)
}

// write makes one attempt to write an entry. It gives the entry its version, if no
// attempt has done that before, and returns nil when all holders have the entry.
//
// The version has the view and the highest of the holders' tickets. So it is above
// those of all writes that had ended, or were given up, before this one began: they
// were in an earlier view, or some holder gave them a lower ticket. And a write has one
// version for all attempts. So it takes place once or not at all, however late a
// message about it arrives.
func (n *node) write(ctx context.Context, e *entry) error {
	v, err := n.current()
	if err != nil {
		return err
	}
	if e.Version == (version{}) {
		answers, err := all(ctx, n, v.holders(e.Key), askPath, askRequest{View: v.version, Key: e.Key}, n.serveAsk)
		if err != nil {
			return err
		}
		e.Version = version{View: v.version, Writer: fmt.Sprintf("%s/%d", n.self.birth, n.writes.Add(1))}
		for _, a := range answers {
			e.Version.Ticket = max(e.Version.Ticket, a.Ticket)
		}
	}
	return n.storeAtAll(ctx, v, *e)
}

func (n *node) storeAtAll(ctx context.Context, v *view, e entry) error {
	_, err := all(ctx, n, v.holders(e.Key), storePath, storeRequest{v.version, e}, n.serveStore)
	return err
}

// serveAsk and serveStore are what a holder does. The view stays while they do it.

func (n *node) serveAsk(in askRequest) (out askAnswer, err error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if err := n.ready(in.View, in.Key); err != nil {
		return askAnswer{}, err
	}
	out = askAnswer{n.store.get(in.Key), n.tickets.Add(1)}
	if !in.Value {
		out.Entry.Value = nil
	}
	return out, nil
}

func (n *node) serveStore(in storeRequest) (bool, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if err := n.ready(in.View, in.Entry.Key); err != nil {
		return false, err
	}
	n.store.merge(in.Entry)
	return true, nil
}

// ready returns nil if the node can act as a holder of a key by that view. It cannot
// once it has told somebody of a later view what it has. Nor can it by a view of which
// it is no member: a new run passes through those of the run before.
func (n *node) ready(version uint64, key string) error {
	if len(n.views) == 0 {
		return errNoView
	}
	v := n.views.current()
	if v.version != version || n.sealed > version || !slices.Contains(v.holders(key), n.self) {
		return errOtherView
	}
	position := n.store.position(key)
	if slices.ContainsFunc(n.lacks, func(p *piece) bool { return p.Contains(position) }) {
		return errNotHere
	}
	return nil
}
