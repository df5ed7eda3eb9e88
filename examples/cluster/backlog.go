package main

import (
	"slices"

	"github.com/chash-go/chash"
)

// A piece is a range of positions of which a node may not have everything, and who
// may have the rest. Those are asked in that order; one that has not got all of it
// either names others, which are added, and it is done when one that has all of it
// was asked, or nobody is left to be.
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
//   - Every acknowledged write of a key that the node holds is in its store, or the
//     key is in a pending piece and the write is at one of its open sources or of
//     those whom they will name. The pieces are apart, and within what it holds.
//   - Every key in its store that it does not hold is in a losing range.
//   - A key whose latest write by this node may not be at all holders is unsent.
type backlog struct {
	pending []piece
	losing  []chash.Range
	unsent  map[string]version
}

// enter takes in a change to a view. What of earlier changes is not done goes on,
// within what the node still holds: so a diff is always from the view before, and
// changes may follow each other at any speed.
func (b *backlog) enter(self string, v *view, diff chash.RingDiff) {
	var pending []piece
	for held := range v.ring.RangesN(self, v.copies) {
		for _, p := range b.pending {
			if r, ok := overlap(held, p.Range); ok {
				pending = append(pending, piece{r, p.Sources, p.asked})
			}
		}
	}
	// Who held a range before comes in the order of GetN, so the first to be asked is
	// the last to have been pushed out by newcomers: it most likely holds it still.
	for r, sources := range diff.Gains(self, v.copies) {
		pending = append(pending, piece{r, sources, []string{self}})
	}
	b.pending = pending
	for r := range diff.Losses(self, v.copies) {
		b.losing = append(b.losing, r)
	}
}

// at returns the pending piece of a position, narrowed to that.
func (b *backlog) at(position uint64) (piece, bool) {
	for _, p := range b.pending {
		if p.Contains(position) {
			p.Range = at(position)
			return p, true
		}
	}
	return piece{}, false
}

// missing returns the parts of ranges of which the node may not have everything:
// what it does not hold, for which it names the holders, and what is pending.
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
	for _, p := range b.pending {
		add(p.Range, p.open())
	}
	return parts
}

// batch returns pending pieces whose next source, but for some to be avoided, is the
// same, at most size of them, and that source. It ends those pieces about which
// nobody is left to be asked.
func (b *backlog) batch(v *view, size int, avoid map[string]bool) (source string, batch []piece) {
	b.pending = slices.DeleteFunc(b.pending, func(p piece) bool {
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

// replace puts what is left of some pending pieces in their place.
func (b *backlog) replace(batch, rest []piece) {
	done := map[chash.Range]bool{}
	for _, p := range batch {
		done[p.Range] = true
	}
	b.pending = append(slices.DeleteFunc(b.pending, func(p piece) bool { return done[p.Range] }), rest...)
}

// settled reports whether there is nothing to do.
func (b *backlog) settled() bool { return len(b.pending)+len(b.losing)+len(b.unsent) == 0 }
