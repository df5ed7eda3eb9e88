package main

import (
	"maps"
	"slices"

	"github.com/chash-go/chash"
)

// A piece is a range of positions of which a node may not have everything, and who
// may have the rest. They are asked in that order. One that may not have everything
// either says who may have the rest, and those are added. The piece is done when one
// that has everything was asked, or nobody is left to be.
type piece struct {
	chash.Range
	Sources []string
	asked   []string // those of them that were
}

// open returns the sources that are members and were not asked.
func (p piece) open(v *view) []string {
	return slices.DeleteFunc(slices.Clone(p.Sources), func(s string) bool {
		_, member := v.ring.Backend(s)
		return !member || slices.Contains(p.asked, s)
	})
}

// rest returns what is left of a piece after a source was asked that said which
// parts it had not got all of.
func (p piece) rest(source string, missing []piece) (parts []piece) {
	asked := append(slices.Clone(p.asked), source)
	for _, m := range missing {
		if r, ok := overlap(p.Range, m.Range); ok {
			sources := slices.Clone(p.Sources)
			for _, s := range m.Sources {
				if !slices.Contains(sources, s) {
					sources = append(sources, s)
				}
			}
			parts = append(parts, piece{r, sources, asked})
		}
	}
	return parts
}

// overlap returns the positions that are in both ranges, if there are any.
func overlap(a, b chash.Range) (chash.Range, bool) {
	both := chash.Range{First: max(a.First, b.First), Last: min(a.Last, b.Last)}
	return both, both.First <= both.Last
}

// at returns the range of one position.
func at(position uint64) chash.Range { return chash.Range{First: position, Last: position} }

// A backlog is what a node has to do until its data is where its view says. It is
// guarded by the node's lock, as the view is, and these hold whenever that is free:
//
//   - The pieces of incoming are apart, and within what the node holds. Outside of
//     them its store has every acknowledged write of a key that it holds, and inside
//     of them the store and those who are asked have it together, as far as the nodes
//     have had the same views one after the other; else it is outgoing where it is.
//   - Every key in the store that the node does not hold is outgoing, and so is every
//     one that others hold who were not yet seen to have it, be it that they have
//     become holders or that a write has failed halfway.
type backlog struct {
	incoming []piece
	outgoing map[chash.Range]int // how often each was entered: a write may fail while it is handed over
}

// newBacklog returns what a node has to do after a change. It takes time for each
// point of both rings.
//
// Who held what it gains comes in the order of GetN, and so the last to be pushed out
// by newcomers is asked first: it most likely holds it still. Outgoing is what it
// loses, and what others gain of that which it held and may go on to hold. They fetch
// it by themselves; but one that has missed the view by which a write was
// acknowledged, as when nodes come and go faster than it hears of them, does not know
// of it.
func newBacklog(self string, v *view, diff chash.RingDiff) backlog {
	b := backlog{outgoing: map[chash.Range]int{}}
	for c := range diff.Changes(v.copies) {
		held, holds := slices.Contains(c.Before, self), slices.Contains(c.After, self)
		switch {
		case holds && !held:
			b.incoming = append(b.incoming, piece{c.Range, c.Before, []string{self}})
		case held && (!holds || len(c.Added()) > 0):
			b.handOver(c.Range)
		}
	}
	return b
}

// goOn takes in what was to do before the change, as far as the node still holds it:
// so a diff is always from the view before, and changes may follow each other at any
// speed.
func (b *backlog) goOn(self string, v *view, before backlog) {
	for held := range v.ring.Ranges(self, v.copies) {
		for _, p := range before.incoming {
			if r, ok := overlap(held, p.Range); ok {
				b.incoming = append(b.incoming, piece{r, p.Sources, p.asked})
			}
		}
	}
	for r := range before.outgoing {
		b.handOver(r)
	}
}

// handOver enters a range that others may lack.
func (b *backlog) handOver(r chash.Range) { b.outgoing[r]++ }

// handedOver ends what was outgoing, but for what was entered since.
func (b *backlog) handedOver(outgoing map[chash.Range]int) {
	maps.DeleteFunc(b.outgoing, func(r chash.Range, times int) bool { return outgoing[r] == times })
}

// at returns the incoming piece that has a position.
func (b *backlog) at(position uint64) (piece, bool) {
	i := slices.IndexFunc(b.incoming, func(p piece) bool { return p.Contains(position) })
	if i < 0 {
		return piece{}, false
	}
	return b.incoming[i], true
}

// replace puts what is left of an incoming piece in its place, if it still has one.
func (b *backlog) replace(p piece, rest []piece) {
	i := slices.IndexFunc(b.incoming, func(q piece) bool { return q.Range == p.Range })
	if i >= 0 {
		b.incoming = slices.Replace(b.incoming, i, i+1, rest...)
	}
}

// missing returns the parts of ranges of which the node may not have everything, what
// it does not hold and what is incoming, with who may have it.
func (b *backlog) missing(v *view, ranges []chash.Range) (parts []piece) {
	for _, p := range slices.Concat(v.elsewhere, b.incoming) {
		for _, r := range ranges {
			if o, ok := overlap(r, p.Range); ok {
				parts = append(parts, piece{Range: o, Sources: p.open(v)})
			}
		}
	}
	return parts
}

// settled reports whether there is nothing to do.
func (b *backlog) settled() bool { return len(b.incoming)+len(b.outgoing) == 0 }
