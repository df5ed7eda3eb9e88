package chash

import "slices"

// This file exports tables for programs that look up without this package, such
// as an eBPF program or one in C.

// AppendTable appends, for each slot of the table, the index in Backends of the
// backend that owns it, as Owner has it: that of the slot's placement which
// outranks the others, whatever its health. So the table changes with a change of
// the membership only, and a program that reads it must know itself what is
// healthy. Without a backend that is not draining, nothing is appended.
//
// A key belongs to the slot of its hash modulo the number of slots; see GetHash.
// Draining backends have an index, but no slot. To have the table and Backends of
// one state while others change the structure, ask both of a Clone.
//
// It takes time for each slot and allocates only where dst has no room.
func (m *Maglev[T]) AppendTable(dst []uint32) []uint32 {
	t, r := m.frozen()
	dst = slices.Grow(dst, int(t.n))
	for slot := range t.n {
		dst = append(dst, uint32(r.owner(int(t.at(slot)))))
	}
	return dst
}

// A Point is one point of a ring.
type Point struct {
	Position uint64 // the first 64 bits of its hash
	Backend  uint32 // an index in Backends
}

// AppendPoints appends the points of the ring in order, each with the index in
// Backends of the backend that owns it, as Owner has it: that of the point's
// placement which outranks the others, whatever its health. So the points change
// with a change of the membership only, and a program that reads them must know
// itself what is healthy. Without a backend that is not draining, nothing is
// appended.
//
// A hash belongs to the first point whose position is at or after it, and after
// the last one to the first of all; see GetHash. Draining backends have an index,
// but no point. To have the points and Backends of one state while others change
// the structure, ask both of a Clone.
//
// It takes time for each point and allocates only where dst has no room.
func (r *Ring[T]) AppendPoints(dst []Point) []Point {
	l, members := r.frozen()
	dst = slices.Grow(dst, int(l.n))
	for position, owner := range l.all() {
		dst = append(dst, Point{position, uint32(members.owner(int(owner)))})
	}
	return dst
}

// frozen returns what there is at one moment.
func (c *core[T, L]) frozen() (L, *roster[T]) {
	s := c.now()
	return s.layout, s.roster
}
