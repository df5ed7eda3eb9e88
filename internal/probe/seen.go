package probe

import "slices"

// bitmap is a set of placements.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

// put adds i and reports whether it was not there.
func (b bitmap) put(i uint32) bool {
	word, bit := &b[i/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// seen is a set of placements. It is a list while it is short, so that most lookups
// allocate nothing, and then a bitmap.
type seen struct {
	n    int
	list [32]uint32
	set  bitmap
}

// add adds p and reports whether it was not there.
func (s *seen) add(p uint32, placements int) bool {
	if s.set == nil {
		if slices.Contains(s.list[:s.n], p) {
			return false
		}
		if s.n < len(s.list) {
			s.list[s.n] = p
			s.n++
			return true
		}
		s.set = newBitmap(placements)
		for _, q := range s.list {
			s.set.put(q)
		}
	}
	return s.set.put(p)
}
