package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/chash-go/chash"
)

const (
	transferPause = 20 * time.Millisecond // between two looks at what the node lacks
	bulkRanges    = 32                    // in one message
)

// A fetchRequest asks a peer for what it has of ranges.
type fetchRequest struct {
	Seal   uint64 // the sender's view: the receiver acts by no earlier one from now on
	Ranges []chash.Range
	Has    map[string]version // what the sender has of them
}

// transfer fetches what the node lacks. The sources of a piece are asked in turn, since
// one may be down.
func (n *node) transfer() {
	for round := 0; pause(n.life, transferPause); round++ {
		n.mu.RLock()
		views, lacks := n.views, n.lacks
		n.mu.RUnlock()
		bySource := map[string][]*piece{}
		for _, p := range lacks {
			source := "" // the range is lost: all its holders were dropped, see serveJoin
			if members := slices.DeleteFunc(slices.Clone(p.sources), func(id string) bool {
				return views.current().state(id) == chash.Unhealthy
			}); len(members) > 0 {
				source = members[round%len(members)]
			}
			bySource[source] = append(bySource[source], p)
		}
		for source, pieces := range bySource {
			if _, err := n.ask(n.life, parsePeer(source)); err != nil && source != "" {
				continue // it would take a message with ranges long to find that out
			}
			for chunk := range slices.Chunk(pieces, bulkRanges) {
				if err := n.fetch(views.current(), source, chunk); err != nil {
					slog.Debug("a range did not arrive", "error", err)
					break
				}
			}
		}
	}
}

// fetch fetches pieces from a source.
func (n *node) fetch(v *view, source string, pieces []*piece) (err error) {
	in := fetchRequest{Seal: v.version, Has: map[string]version{}}
	for _, p := range pieces {
		in.Ranges = append(in.Ranges, p.Range)
		for _, e := range n.store.scan(p.Range) {
			in.Has[e.Key] = e.Version
		}
	}
	var entries []entry
	if source == "" {
		slog.Error("all who held them are gone", "ranges", len(pieces))
	} else if entries, err = call[[]entry](n.life, n, parsePeer(source), fetchPath, in); err != nil {
		return err
	}
	for _, e := range entries {
		n.store.merge(e)
	}
	n.moved.Add(int64(len(entries)))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.views.current() == v { // else what the node lacks was found anew
		n.lacks = slices.DeleteFunc(slices.Clone(n.lacks), func(p *piece) bool { return slices.Contains(pieces, p) })
	}
	return nil
}

// serveFetch returns what the node has of ranges and the sender has not. From then on
// the node refuses to act by an earlier view than the sender's. So no write can be
// acknowledged by such a view any more that the sender does not get.
func (n *node) serveFetch(in fetchRequest) (entries []entry, err error) {
	n.mu.Lock()
	n.sealed = max(n.sealed, in.Seal)
	n.mu.Unlock()
	for _, r := range in.Ranges {
		for _, e := range n.store.scan(r) {
			if in.Has[e.Key].compare(e.Version) < 0 {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}
