package chash

import (
	"iter"

	"github.com/chash-go/chash/internal/probe"
)

// firstOf returns the value of the first healthy placement of a walk.
func (s *snapshot[T, L]) firstOf(w probe.Walk) (T, error) {
	if s.Live > 0 {
		if p, found := w.Next(&s.View); found {
			return s.values[p], nil
		}
	}
	return s.fail()
}

func (s *snapshot[T, L]) fail() (T, error) {
	var zero T
	return zero, s.empty
}

// GetN returns the values of the first n healthy placements in the key's order of
// preference, each once, or all if there are fewer. The first is that of Get. An n of
// 0 or below is nothing and no error. Otherwise the errors are those of Get. It costs
// a read for each slot or point met, and one allocation, two for over 32 placements.
func (c *core[T, L]) GetN(key string, n int) ([]T, error) {
	s := c.now()
	switch {
	case n <= 0:
		return nil, nil
	case s.Live == 0:
		return nil, s.empty
	}
	return s.appendN(make([]T, 0, min(n, s.Live)), key, n), nil
}

// AppendN is GetN that appends to dst; on an error it returns dst as it was. It
// allocates only if dst has no room, or for more than 32 placements.
func (c *core[T, L]) AppendN(dst []T, key string, n int) ([]T, error) {
	s := c.now()
	switch {
	case n <= 0:
		return dst, nil
	case s.Live == 0:
		return dst, s.empty
	}
	return s.appendN(dst, key, n), nil
}

// appendN appends the first n values in the key's order.
func (s *snapshot[T, L]) appendN(dst []T, key string, n int) []T {
	cursor := s.Cursor(s.layout.Walk(key))
	for ; n > 0; n-- {
		p, found := cursor.Next(&s.View)
		if !found {
			break
		}
		dst = append(dst, s.values[p])
	}
	return dst
}

// Candidates returns the values of all healthy placements in the key's order of
// preference, for retries: none without a healthy backend. A loop stops the search
// when it ends, and pays a read for each slot or point met. The sequence can be used
// again; each use sees one state. A range allocates nothing for the first 32.
func (c *core[T, L]) Candidates(key string) iter.Seq[T] {
	return func(yield func(T) bool) { c.candidates(key, yield) }
}

func (c *core[T, L]) candidates(key string, yield func(T) bool) {
	s := c.now()
	if s.Live == 0 {
		return
	}
	cursor := s.Cursor(s.layout.Walk(key))
	for {
		p, found := cursor.Next(&s.View)
		if !found || !yield(s.values[p]) {
			return
		}
	}
}

// GetFunc returns the value of the first healthy placement, in the key's order of
// preference, that accept takes: of a zone, for example. It calls accept at most once
// for each placement; a nil accept takes all. The function may call and change the
// structure; the lookup keeps to its first state. The errors are those of Get, and
// ErrNoneAccepted. It costs a read for each slot or point met: about N log N to meet
// all of N equal placements. It allocates nothing for the first 32.
func (c *core[T, L]) GetFunc(key string, accept func(T) bool) (T, error) {
	s := c.now()
	if s.Live == 0 {
		return s.fail()
	}
	if accept == nil {
		return s.firstOf(s.layout.Walk(key))
	}
	cursor := s.Cursor(s.layout.Walk(key))
	for {
		p, found := cursor.Next(&s.View)
		if !found {
			var zero T
			return zero, ErrNoneAccepted
		}
		if accept(s.values[p]) {
			return s.values[p], nil
		}
	}
}

// ownerOf returns the backend that owns a placement.
func (s *snapshot[T, L]) ownerOf(placement uint32) *Backend[T] {
	return s.roster.members[s.roster.owner(int(placement))]
}

// Owners returns the backends that own the first n placements in the key's order of
// preference, whatever their health, or all if there are fewer: the holders of a key
// with n copies. The first is that of Owner. If no backends share a HashKey, the
// healthy ones are those of GetN. An n of 0 or below is nothing and no error, else
// the errors are those of Owner. It costs a read for each slot or point met, and one
// allocation, two for over 32 placements.
func (c *core[T, L]) Owners(key string, n int) ([]Backend[T], error) {
	s := c.now()
	switch {
	case n <= 0:
		return nil, nil
	case s.Owners.N == 0:
		return nil, s.empty
	}
	n = min(n, len(s.roster.placements))
	backends := make([]Backend[T], 0, n)
	for p := range s.Placements(s.layout.Walk(key)) {
		if backends = append(backends, *s.ownerOf(p)); len(backends) == n {
			break
		}
	}
	return backends, nil
}

// Next returns the values of the healthy placements in turn, for requests without a
// key. The turns follow the weights, to within a few calls in any number of
// successive calls. With equal weights they follow the order of the hash keys. The
// errors are those of Get. Next costs the same for any number of backends and
// allocates nothing. It takes no lock, but every call writes a shared counter.
func (c *core[T, L]) Next() (T, error) {
	s := c.now()
	if s.Live == 0 {
		return s.fail()
	}
	return s.values[s.rotation.At(c.turn.Add(1)-1)], nil
}
