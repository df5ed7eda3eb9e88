package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/chash-go/chash"
)

const (
	leadPause    = 100 * time.Millisecond // between two rounds of a leader
	silentRounds = 5                      // after which a member is dropped
	memberPause  = 50 * time.Millisecond  // between two looks at what a node is
	joinTimeout  = 10 * time.Second
	leaveTimeout = 10 * time.Second // to hand everything over
)

// A joinRequest asks to make a peer a member.
type joinRequest struct {
	ID      string
	Copies  int
	Founder string // of the sender's cluster, if it was a member before
}

// join returns when the node is a member that holds data, and keeps it one from then
// on: others that could not reach it for a while have dropped it, and it knows only that
// it hears of no leader.
func (n *node) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for n.state() != chash.Healthy {
		err := n.askToJoin(ctx)
		if errors.Is(err, errRefused) || !pause(ctx, memberPause) {
			return errors.Join(ctx.Err(), err)
		}
	}
	n.running.Go(func() {
		for pause(n.life, memberPause) {
			if _, leader := n.raft.LeaderWithID(); (leader == "" || n.state() != chash.Healthy) && !n.leaving.Load() {
				_ = n.askToJoin(n.life) // or again
			}
		}
	})
	return nil
}

// askToJoin asks those that the node knows, until one has passed it on to the leader. A
// founder has nobody to ask at first.
func (n *node) askToJoin(ctx context.Context) error {
	var errs error
	for _, address := range n.addresses() {
		soon, cancel := context.WithTimeout(ctx, 2*askTimeout)
		_, err := post[bool](soon, n, address, joinPath, "", joinRequest{n.self.id(), n.copies, n.status().Founder})
		cancel()
		if err == nil {
			return nil
		}
		errs = errors.Join(errs, fmt.Errorf("%s: %w", address, err))
	}
	return errs
}

// serveJoin makes a peer a member that is known and holds nothing yet. Only the leader
// can: others pass it on.
func (n *node) serveJoin(in joinRequest) (bool, error) {
	founder := n.status().Founder
	_, leader := n.raft.LeaderWithID()
	switch {
	case founder == "" || leader == "":
		return false, errNoView
	case in.Founder != "" && in.Founder != founder:
		return false, fmt.Errorf("%w: %s is of another cluster", errRefused, n.name)
	case in.Copies != n.copies:
		return false, fmt.Errorf("%w: %s holds %d copies of each key, not %d", errRefused, n.name, n.copies, in.Copies)
	case string(leader) != n.self.id():
		return call[bool](n.life, n, parsePeer(string(leader)), joinPath, in)
	}
	n.joining.Lock()
	defer n.joining.Unlock()
	members := n.raft.GetConfiguration()
	if err := members.Error(); err != nil {
		return false, err
	}
	p := parsePeer(in.ID)
	for _, s := range members.Configuration().Servers {
		other := parsePeer(string(s.ID))
		if other == p {
			return true, nil
		}
		if other.name != p.name {
			continue
		}
		if _, err := n.ask(n.life, other); err == nil {
			return false, fmt.Errorf("%w: the name %q is that of the node at %s", errRefused, other.name, other.addr)
		}
		// Whoever starts a node again says that the run before is over.
		if err := n.raft.RemoveServer(s.ID, 0, raftTimeout).Error(); err != nil {
			return false, err
		}
	}
	return true, n.raft.AddNonvoter(raft.ServerID(in.ID), raft.ServerAddress(in.ID), 0, raftTimeout).Error()
}

// leave returns when others hold what the node held. They drop it when it is silent. On
// an error some copies were not handed over. The last of the nodes cannot do that.
func (n *node) leave() error {
	n.leaving.Store(true)
	for begin := time.Now(); time.Since(begin) < leaveTimeout; pause(n.life, memberPause) {
		views := n.history()
		if len(views.current().peers()) == 1 || n.state() != chash.Healthy && len(views) == 1 {
			return nil
		}
	}
	return fmt.Errorf("%s left before all was handed over", n.name)
}

// state returns that of the node in its current view: Healthy if it holds data,
// Draining if it comes or leaves, and Unhealthy if it is no member.
func (n *node) state() chash.State {
	if v, err := n.current(); err == nil {
		return v.state(n.self.id())
	}
	return chash.Unhealthy
}

// lead does what a leader has to, while the node is one.
func (n *node) lead() {
	silent := map[string]int{}
	for pause(n.life, leadPause) {
		views := n.history()
		if n.raft.State() != raft.Leader || len(views) == 0 {
			clear(silent)
			continue
		}
		if err := n.round(views, silent); err != nil {
			slog.Debug("the members stay as they are", "error", err)
		}
	}
}

// round asks all members how they are, and makes one change that they need: the next
// round sees what that has changed. It counts rounds of silence, and not time: when the
// leader was paused, nobody else was silent.
func (n *node) round(views history, silent map[string]int) error {
	v := views.current()
	peers := v.peers()
	answers := make([]status, len(peers))
	var asking sync.WaitGroup
	for i, p := range peers {
		asking.Go(func() { answers[i], _ = n.ask(n.life, p) }) // the zero value has no ID
	}
	asking.Wait()
	settled, active := true, 0
	for i, p := range peers {
		s, id := answers[i], p.id()
		if silent[id]++; s.ID == id {
			delete(silent, id)
		}
		if v.state(id) == chash.Healthy {
			active++
			settled = settled && s.ID == id && s.Version == v.version && s.Incoming == 0
		}
	}
	for i, p := range peers {
		s, state := answers[i], v.state(p.id())
		id, address := raft.ServerID(p.id()), raft.ServerAddress(p.id())
		switch {
		case silent[p.id()] >= silentRounds && views.survives(p.id()):
			slog.Info("dropped", "node", p.name)
			return n.raft.RemoveServer(id, 0, raftTimeout).Error()
		case s.Leaving && state == chash.Healthy && active > 1:
			return n.raft.DemoteVoter(id, 0, raftTimeout).Error()
		case !s.Leaving && state == chash.Draining && s.Version == v.version:
			// It has the log. One that has not would count, and the rest be no majority.
			return n.raft.AddVoter(id, address, 0, raftTimeout).Error()
		}
	}
	if settled && len(views) > 1 {
		return n.raft.Apply(settle(v), raftTimeout).Error()
	}
	return nil
}
