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

// next returns the first member that is still to be asked, but for some.
func (p piece) next(v *view, avoid map[string]bool) (source string, found bool) {
	for _, s := range p.open() {
		if _, member := v.ring.Backend(s); member && !avoid[s] {
			return s, true
		}
	}
	return "", false
}

// open returns the sources that were not asked.
func (p piece) open() []string {
	return slices.DeleteFunc(slices.Clone(p.Sources), func(s string) bool { return slices.Contains(p.asked, s) })
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
	start, last := max(a.Start, b.Start), min(a.End-1, b.End-1) // an End of 0 is 2^64
	return chash.Range{Start: start, End: last + 1}, start <= last
}

// at returns the range of one position.
func at(position uint64) chash.Range { return chash.Range{Start: position, End: position + 1} }

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

func newBacklog() backlog { return backlog{outgoing: map[chash.Range]int{}} }

// incoming returns what a node gains by a change. Who held it before comes in the
// order of GetN, and so the last to be pushed out by newcomers is asked first: it
// most likely holds it still.
func incoming(self string, v *view, diff chash.RingDiff) (gains []piece) {
	for r, sources := range diff.Gains(self, v.copies) {
		gains = append(gains, piece{r, sources, []string{self}})
	}
	return gains
}

// outgoing returns what a node has to hand over after a change: what it loses, and
// what others gain of that which it held and may go on to hold. They fetch it by
// themselves; but one that has missed the view by which a write was acknowledged, as
// when nodes come and go faster than it hears of them, does not know of it. It takes
// time for each point of both rings, for each node.
func outgoing(self string, v *view, diff chash.RingDiff) (ranges []chash.Range) {
	for r := range diff.Losses(self, v.copies) {
		ranges = append(ranges, r)
	}
	for _, other := range v.ring.Backends() {
		for r, before := range diff.Gains(other.Name, v.copies) {
			if slices.Contains(before, self) {
				ranges = append(ranges, r)
			}
		}
	}
	return ranges
}

// enter takes in what a change to a view brings. What earlier ones brought goes on,
// as far as the node still holds it: so a diff is always from the view before, and
// changes may follow each other at any speed.
func (b *backlog) enter(self string, v *view, in []piece, out []chash.Range) {
	for held := range v.ring.RangesN(self, v.copies) {
		for _, p := range b.incoming {
			if r, ok := overlap(held, p.Range); ok {
				in = append(in, piece{r, p.Sources, p.asked})
			}
		}
	}
	b.incoming = in
	b.handOver(out...)
}

// handOver enters what others may lack.
func (b *backlog) handOver(ranges ...chash.Range) {
	for _, r := range ranges {
		b.outgoing[r]++
	}
}

// handedOver ends what was outgoing, but for what was entered since.
func (b *backlog) handedOver(outgoing map[chash.Range]int) {
	maps.DeleteFunc(b.outgoing, func(r chash.Range, times int) bool { return outgoing[r] == times })
}

// at returns the incoming piece of a position, narrowed to that.
func (b *backlog) at(position uint64) (piece, bool) {
	for _, p := range b.incoming {
		if p.Contains(position) {
			p.Range = at(position)
			return p, true
		}
	}
	return piece{}, false
}

// missing returns the parts of ranges of which the node may not have everything:
// what it does not hold, for which it names the holders, and what is incoming.
func (b *backlog) missing(self string, v *view, ranges []chash.Range) (parts []piece) {
	add := func(within chash.Range, sources []string) {
		for _, r := range ranges {
			if o, ok := overlap(r, within); ok {
				parts = append(parts, piece{Range: o, Sources: sources})
			}
		}
	}
	for r, holders := range v.ring.Holders(v.copies) {
		if !slices.Contains(holders, self) {
			add(r, holders)
		}
	}
	for _, p := range b.incoming {
		add(p.Range, p.open())
	}
	return parts
}

// batch returns incoming pieces whose next source, but for some to be avoided, is the
// same, at most size of them, and that source. It ends those pieces about which
// nobody is left to be asked.
func (b *backlog) batch(v *view, size int, avoid map[string]bool) (source string, batch []piece) {
	b.incoming = slices.DeleteFunc(b.incoming, func(p piece) bool {
		s, found := p.next(v, avoid)
		if found && (source == "" || s == source) && len(batch) < size {
			source, batch = s, append(batch, p)
		}
		if found {
			return false
		}
		_, avoided := p.next(v, nil)
		return !avoided
	})
	return source, batch
}

// replace puts what is left of some incoming pieces in their place.
func (b *backlog) replace(batch, rest []piece) {
	done := map[chash.Range]bool{}
	for _, p := range batch {
		done[p.Range] = true
	}
	b.incoming = append(slices.DeleteFunc(b.incoming, func(p piece) bool { return done[p.Range] }), rest...)
}

// settled reports whether there is nothing to do.
func (b *backlog) settled() bool { return len(b.incoming)+len(b.outgoing) == 0 }
