package maglev

import (
	"slices"

	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// This file changes a table without a limit instead of filling another one. Without caps,
// each slot belongs to its best claim, whatever happens to other slots. So the slots of a
// placement that goes or gets lighter fall to their best claims. A placement that comes or
// gets heavier takes the slots where its claim goes before that of the owner. With caps,
// one change leads to others: following them took as long as filling the table.

// A revision is the difference between two sets of placements.
type revision struct {
	numbers []uint32 // by old placement: the new one that it is, or none
	vacated []bool   // by old placement: whether its slots must be asked
	eager   []uint32 // new placements that may take slots from others
}

func revise(old, next []probe.Placement) revision {
	r := revision{
		numbers: make([]uint32, len(old)),
		vacated: make([]bool, len(old)),
	}
	q := 0
	for p := range old {
		for q < len(next) && next[q].HashKey < old[p].HashKey {
			r.eager = append(r.eager, uint32(q))
			q++
		}
		if q == len(next) || next[q].HashKey != old[p].HashKey {
			r.numbers[p], r.vacated[p] = probe.None, true
			continue
		}
		r.numbers[p] = uint32(q)
		r.vacated[p] = next[q].Weight < old[p].Weight
		if next[q].Weight > old[p].Weight {
			r.eager = append(r.eager, uint32(q))
		}
		q++
	}
	for ; q < len(next); q++ {
		r.eager = append(r.eager, uint32(q))
	}
	return r
}

// amend makes the slots from those of old, which has no limit either, if that costs
// less than to fill all. It reports whether it did.
func (c *contest[S]) amend(next, old *Table, oldSlots []S) bool {
	if len(oldSlots) == 0 || c.caps != nil { // old has no slots, or has them in another form
		return false
	}
	r := revise(old.placements, next.placements)
	c.latest = old.latest
	if !c.cheap(&r, old.Counts) {
		return false
	}
	for _, slot := range c.renumber(&r, oldSlots, old.Counts) {
		rank, index := c.best(slot)
		c.win(slot, rank, index)
	}
	for _, p := range r.eager {
		c.outbid(c.ranks[p])
	}
	return true
}

// cheap estimates whether a revision costs less than filling the table, which takes
// the time of at least 4*n claims. Comparing a claim with that of the owner takes as
// long as four claims.
func (c *contest[S]) cheap(r *revision, counts []uint32) bool {
	steps := int64(0)
	for p, vacated := range r.vacated {
		if vacated {
			steps += int64(counts[p]) * int64(c.price())
		}
	}
	for _, p := range r.eager {
		contender := &c.contenders[c.ranks[p]]
		steps += 4 * int64(c.clock.before(c.latest, contender.weight, true))
	}
	return steps <= 4*int64(c.N)
}

// renumber copies the old slots with the new numbers and returns the slots that are
// vacated.
func (c *contest[S]) renumber(r *revision, old []S, counts []uint32) []uint32 {
	numbers := make([]S, len(r.numbers))
	free, same := 0, true
	for p, number := range r.numbers {
		if r.vacated[p] {
			free += int(counts[p])
			continue
		}
		numbers[p] = S(number)
		same = same && int(number) == p
		c.contenders[c.ranks[number]].room -= counts[p]
	}
	vacated := make([]uint32, 0, free)
	if free > 0 {
		for slot, p := range old {
			if r.vacated[p] {
				vacated = append(vacated, uint32(slot))
			}
		}
	}
	c.slots = slices.Clone(old)
	if !same {
		for slot, p := range c.slots {
			c.slots[slot] = numbers[p]
		}
	}
	return vacated
}

// outbid gives a contender the slots of others for which it has the best claim.
func (c *contest[S]) outbid(rank uint32) {
	contender := &c.contenders[rank]
	until := c.clock.before(c.latest, contender.weight, true)
	slot := contender.offset
	for index := range until {
		owner := c.ranks[c.slots[slot]]
		if owner != rank && c.earlier(rank, index, owner, c.indexOf(&c.contenders[owner], slot)) {
			c.slots[slot] = S(contender.placement)
			contender.room--
			c.contenders[owner].room++
		}
		slot = modular.Step(slot, contender.skip, c.N)
	}
}
