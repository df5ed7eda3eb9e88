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

// GetN returns the values of the first n distinct healthy placements in the key's
// order of preference, of all where there are fewer; the first is that of Get. For
// an n of 0 or below it returns nothing and no error, whatever the backends are.
// Otherwise, on an empty structure the error is ErrNoBackends, without a healthy
// backend it is ErrNoHealthyBackends. It costs a read for each slot or point met
// and one allocation, with room for no more than there are; the slice is the
// caller's.
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

// AppendN is GetN that appends to dst, which on an error comes back as it was.
// It allocates only where dst has no room, or to tell more than 32 placements
// apart.
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
// preference, the order of GetN, for retries and for rules of the caller's own.
// Each is found when it is asked for. The sequence can be used again; each use
// sees the state of its beginning, whatever the caller changes in between, and
// yields nothing without a healthy backend. It costs a read for each slot or point met.
// A range over it allocates nothing for the first 32.
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
// preference, that accept takes: the caller's own choice for this call, such as a
// zone or a circuit breaker, without a rebuild. It asks accept at most once for
// each placement it meets; of backends that share one, about the healthy one that
// outranks the other healthy ones. A nil accept takes every one. It may call the
// structure, also to change it: the lookup keeps to the state that it began with. On an
// empty structure the error is ErrNoBackends, without a healthy backend it is
// ErrNoHealthyBackends, and where accept takes none it is ErrNoneAccepted. GetFunc costs
// a read for each slot or point met, of which it takes some N log N to meet all of N
// equal placements, and allocates nothing for the first 32.
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

// Owners returns the backends that own the first n distinct placements in the key's
// order of preference, whatever their health, of all where there are fewer: those that
// hold a key of which there are n copies. Each is the one that outranks the others of
// its placement, as in Owner, and the first is that of Owner. Its State says whether it
// is healthy; of backends with hash keys of their own, the healthy ones are those of
// GetN, in the same order. For an n of 0 or below it returns nothing and no error.
// Otherwise the errors are those of Owner. It takes no lock and costs a read for each
// slot or point met and one allocation, and one more where it is to tell more than 32
// placements apart; the slice is the caller's.
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

// Next returns the value of each healthy placement in turn: for a request that has no
// key. Turns follow the weights, each that of the backend whose value is returned. With
// equal weights, the placements come one after the other in the order of their hash
// keys, from the first. With others, each gets its share of any stretch of calls to
// within a few calls. On an empty structure the error is ErrNoBackends, without a
// healthy backend it is ErrNoHealthyBackends. It costs the same time for any number of
// backends, allocates nothing and takes no lock, but each call writes one shared
// counter.
func (c *core[T, L]) Next() (T, error) {
	s := c.now()
	if s.Live == 0 {
		return s.fail()
	}
	return s.values[s.rotation.At(c.turn.Add(1)-1)], nil
}
