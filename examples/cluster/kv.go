package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// What a node answers instead of doing something; whoever asked may ask again.
var (
	errNoNode    = errors.New("there is no node")
	errOtherView = errors.New("the nodes do not have the same members at the moment")
)

// read returns the entry of a key that the node holds, and whether there is one.
func (n *node) read(ctx context.Context, v *view, key string) (e entry, found bool, err error) {
	if err := n.readThrough(ctx, v, key); err != nil {
		return entry{}, false, err
	}
	// With another view the entry may have been handed over and dropped by now.
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.view != v {
		return entry{}, false, errOtherView
	}
	e, found = n.store.get(key)
	return e, found && !e.Deleted, nil
}

// write writes a key of which the node is the first holder: it gives the write its
// place in the order and returns when all holders have it. On an error some may
// have it; they all will have it, or a later one, when the backlog is done.
func (n *node) write(ctx context.Context, v *view, key string, value []byte, deleted bool) error {
	// The version must be past those of the holders before, whatever the clocks say.
	if err := n.readThrough(ctx, v, key); err != nil {
		return err
	}
	e, err := n.order(ctx, v, key, value, deleted)
	if err != nil {
		return err
	}
	if err := n.replicate(ctx, v, e); err != nil {
		n.mu.Lock()
		n.backlog.handOver(at(e.position))
		n.mu.Unlock()
		return err
	}
	return nil
}

// order takes a write into the store, if the view is still the same: so a node that
// has come to the next view has ordered nothing by the one before that it would not
// show to those who then ask for the range. Nor does it take in one that was given
// up meanwhile: that would come after the next attempt, and after what followed it.
func (n *node) order(ctx context.Context, v *view, key string, value []byte, deleted bool) (entry, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.view != v {
		return entry{}, errOtherView
	}
	if err := ctx.Err(); err != nil {
		return entry{}, err
	}
	return n.store.put(n.name, key, value, deleted), nil
}

// replicate sends a write to the key's other holders, all at once, and waits for
// them. They refuse if they have another view.
func (n *node) replicate(ctx context.Context, v *view, e entry) error {
	others := slices.DeleteFunc(v.holders(e.Key), isNode(n.name))
	errs := make(chan error, len(others))
	for _, h := range others {
		go func() { errs <- n.replicateTo(ctx, v, h.name, e) }()
	}
	var err error
	for range others {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (n *node) replicateTo(ctx context.Context, v *view, holder string, e entry) error {
	var latest version
	if err := n.call(ctx, n.peers, v, holder, applyPath, []entry{e}, &latest); err != nil {
		return err
	}
	own, _ := n.store.get(e.Key)
	if latest.compare(e.Version) > 0 && latest.compare(own.Version) > 0 {
		// A write that this node never saw, say of a holder before that failed halfway.
		// The next attempt is past it.
		n.store.observe(latest)
		return fmt.Errorf("%s has a later write", holder)
	}
	return nil
}
