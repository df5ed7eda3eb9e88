package chash

import (
	"encoding/json"
	"fmt"
)

// String describes the structure in a line: its type, its size, and how many of its
// backends are healthy. It takes time for each backend.
func (c *core[T, L]) String() string {
	var l L
	s := c.current.Load()
	if s == nil {
		return fmt.Sprintf("%s that is not made", l.kind())
	}
	healthy := 0
	for _, b := range s.roster.members {
		if b.State == Healthy {
			healthy++
		}
	}
	return fmt.Sprintf("%s of %d %s, %d of %d backends healthy",
		l.kind(), s.owners.n, l.unit(), healthy, len(s.roster.members))
}

// Format implements fmt.Formatter: with every verb, what fmt prints is made of String,
// where it would otherwise read what other goroutines write.
func (c *core[T, L]) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), c.String())
}

// MarshalJSON returns the structure for a reader: its type, its size, and its backends
// sorted by name, without their values, which need not be data. Marshal is what a
// structure can be made from again. It takes time for each backend.
func (c *core[T, L]) MarshalJSON() ([]byte, error) {
	s := c.now()
	out := struct {
		Structure string              `json:"structure"`
		Size      int                 `json:"size"` // slots or points
		Backends  []Backend[struct{}] `json:"backends"`
	}{s.layout.kind(), int(s.owners.n), make([]Backend[struct{}], len(s.roster.members))}
	for i, b := range s.roster.members {
		out.Backends[i] = b.bare()
	}
	return json.Marshal(out)
}
