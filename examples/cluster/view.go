package main

import (
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/chash-go/chash"
)

// A peer is one run of a node. A node that is started again under its name is another
// peer: it remembers nothing, so nobody may count on what the run before has promised.
type peer struct{ birth, addr, name string }

// id returns what the peer is called among nodes. Only the name may have spaces.
func (p peer) id() string { return p.birth + " " + p.addr + " " + p.name }

func parsePeer(id string) (p peer) {
	p.birth, id, _ = strings.Cut(id, " ")
	p.addr, p.name, _ = strings.Cut(id, " ")
	return p
}

// A view is a set of members, on which all nodes agree by its version. It is immutable.
type view struct {
	version uint64 // its place in Raft's log
	copies  int    // of each key
	ring    *chash.Ring[peer]
}

// newView returns the view of a Raft configuration. Its voters hold the data. The
// others come or go: they are draining on the ring, known but without a share.
//
// The name places a peer on the ring, so that a node has the same keys after a restart.
// The id tells holders apart: the new run lacks what the old one had.
func newView(version uint64, copies int, c raft.Configuration) (*view, error) {
	backends := make([]chash.Backend[peer], len(c.Servers))
	for i, s := range c.Servers {
		p := parsePeer(string(s.ID))
		backends[i] = chash.Backend[peer]{Name: p.id(), HashKey: p.name, Value: p}
		if s.Suffrage != raft.Voter {
			backends[i].State = chash.Draining
		}
	}
	ring, err := chash.NewRing(backends)
	return &view{version, copies, ring}, err
}

// holders returns the peers that hold a key.
func (v *view) holders(key string) []peer {
	holders, err := v.ring.GetN(key, v.copies)
	if err != nil {
		return nil // there is always a voter
	}
	return holders
}

// state returns that of a peer: Healthy if it holds data, Draining if it comes or goes,
// and Unhealthy if it is no member.
func (v *view) state(id string) chash.State {
	if b, member := v.ring.Backend(id); member {
		return b.State
	}
	return chash.Unhealthy
}

// peers returns all members.
func (v *view) peers() (peers []peer) {
	for _, b := range v.ring.Backends() {
		peers = append(peers, b.Value)
	}
	return peers
}

// A history is the views since the last one in which all data were where they belong:
// that one, those that were replaced too soon, and the current one.
//
// A write that was acknowledged in one of them is with all peers that held its key
// then. These keep it until the history begins with a later view.
type history []*view

func (h history) current() *view { return h[len(h)-1] }

// A piece is a range of keys that a peer holds in the current view and did not hold in
// an earlier one. It needs the range from one of those that held it.
type piece struct {
	chash.Range
	sources []string
}

// lacking returns the pieces that a peer needs. Each earlier view counts by itself:
// any holder of that time has what was written then.
func (h history) lacking(self string) (lacks []*piece, err error) {
	for _, before := range h[:len(h)-1] {
		diff, err := before.ring.Diff(h.current().ring)
		if err != nil {
			return nil, err
		}
		for c := range diff.Changes(before.copies) {
			if slices.Contains(c.Added(), self) {
				lacks = append(lacks, &piece{c.Range, c.Before})
			}
		}
	}
	return lacks, nil
}

// survives reports whether a member can be dropped: for each range of each view one
// of the other members must have held it.
func (h history) survives(without string) bool {
	for _, v := range h {
		for _, holders := range v.ring.Holders(v.copies) {
			if !slices.ContainsFunc(holders, func(id string) bool {
				return id != without && h.current().state(id) != chash.Unhealthy
			}) {
				return false
			}
		}
	}
	return true
}
