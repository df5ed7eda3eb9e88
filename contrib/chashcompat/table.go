package chashcompat

import (
	"errors"
	"slices"
)

// A table is slots being filled. The order of preference of a backend is offset,
// offset + skip, offset + 2*skip, ... modulo the number of slots. In a turn, the
// backend takes the first free slot in its order.
type table struct {
	slots []uint32
	free  int
	next  []uint64 // by backend: the next preference, before the modulo
	skip  []uint64
	mask  uint64 // the bits of the sums
}

// unclaimed marks a free slot.
const unclaimed = ^uint32(0)

// newTable returns a free table, for sums of that many bits.
func newTable(size, backends, bits int) *table {
	return &table{
		slots: slices.Repeat([]uint32{unclaimed}, size),
		free:  size,
		next:  make([]uint64, backends),
		skip:  make([]uint64, backends),
		mask:  ^uint64(0) >> (64 - bits),
	}
}

// prefer sets the order of preference of a backend by two hashes.
func (t *table) prefer(backend int, offset, skip uint64) {
	size := uint64(len(t.slots))
	t.next[backend] = offset % size
	t.skip[backend] = skip%(size-1) + 1
}

// errEndless is returned if a backend never meets a free slot. This takes sums that
// overflow.
var errEndless = errors.New("a backend never meets the slots that are free")

// claim gives a backend a turn. The table must have a free slot.
func (t *table) claim(backend int) error {
	size, skip := uint64(len(t.slots)), t.skip[backend]
	first := t.next[backend]
	for at, slot := first, first%size; ; {
		taken := t.slots[slot] != unclaimed
		if !taken {
			t.slots[slot] = uint32(backend)
		}
		if slot += skip; slot >= size {
			slot -= size
		}
		if at += skip; at > t.mask {
			at &= t.mask
			slot = at % size
		}
		t.next[backend] = at
		if !taken {
			t.free--
			return nil
		}
		if at == first {
			return errEndless
		}
	}
}

// fill gives the backends their turns in rounds, from 1 on, until no slot is free. In
// a round, each backend has at most one turn, in the given order. The function
// returns the round of turn n of a backend, from 0, and is called for each n in
// sequence. The heaviest backend has a turn in every round.
func (t *table) fill(arranged []int, round func(backend, n int) uint64) error {
	s := newSchedule(len(t.slots), len(arranged))
	turns := make([]int, len(arranged))
	for rank, backend := range arranged {
		s.enter(rank, round(backend, 0))
	}
	for now := uint64(1); t.free > 0; now++ {
		ranks := s.take(now)
		for _, rank := range ranks[:min(len(ranks), t.free)] {
			if err := t.claim(arranged[rank]); err != nil {
				return err
			}
			turns[rank]++
			s.enter(int(rank), round(arranged[rank], turns[rank]))
		}
	}
	return nil
}

// A schedule keeps the ranks of the backends by the round of their next turn.
// Otherwise each round would have to look at all backends. If one backend is far
// heavier than the others, that takes backends times slots.
type schedule struct {
	first []int32 // by round: the first of a list of ranks, or -1
	next  []int32 // by rank: the next in its list
	taken []int32
}

// newSchedule returns an empty schedule. Each round has a turn, so no round is later
// than the number of slots.
func newSchedule(slots, backends int) *schedule {
	return &schedule{
		first: slices.Repeat([]int32{-1}, slots+1),
		next:  make([]int32, backends),
	}
}

// enter enters the next turn of a rank. A turn after the last round never comes.
func (s *schedule) enter(rank int, round uint64) {
	if round < uint64(len(s.first)) {
		s.next[rank], s.first[round] = s.first[round], int32(rank)
	}
}

// take returns the ranks that have a turn in a round, in order.
func (s *schedule) take(round uint64) []int32 {
	s.taken = s.taken[:0]
	for rank := s.first[round]; rank >= 0; rank = s.next[rank] {
		s.taken = append(s.taken, rank)
	}
	slices.Sort(s.taken)
	return s.taken
}
