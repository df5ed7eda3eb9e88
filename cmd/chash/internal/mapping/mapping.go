package mapping

import (
	"fmt"
	"iter"

	"github.com/chash-go/chash"
)

// A Backend is one as a file or a flag names it.
type Backend struct {
	Name    string      `json:"name"`
	HashKey string      `json:"hash_key,omitempty"`
	Weight  uint32      `json:"weight,omitempty"`
	State   chash.State `json:"state"`
	ID      string      `json:"-"` // the number of a server of HAProxy, empty elsewhere
}

// A Structure is what a Maglev and a Ring have in common. Their values are the indices
// of the backends that they were built from.
type Structure interface {
	Get(key string) (int, error)
	GetBytes(key []byte) (int, error)
	GetN(key string, n int) ([]int, error)
	Candidates(key string) iter.Seq[int]
	Explain(key string) chash.Explanation
	Backends() []chash.Backend[int]
	Stats() chash.Stats
	Shares() []chash.Share
	Fingerprint() uint64
	LiveFingerprint() uint64
	Config() chash.Config
	Set(backends []chash.Backend[int]) error
	SetState(name string, state chash.State) error
	SetLoadFactor(factor float64) error
	SetLoadFloor(n float64) error
	AcquireBytes(key []byte, opts ...chash.LeaseOption) (chash.Lease[int], error)
}

// A Mapping is a structure with the backends it was built from. It is safe for
// concurrent use by multiple goroutines as long as none of them changes it.
type Mapping struct {
	Structure
	Spec     Spec
	Backends []Backend // in the order of the file
}

// Build returns the structure of some backends. The errors are ErrSpec and those of the
// constructors of chash.
func (s Spec) Build(backends []Backend) (*Mapping, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	ringOptions, tableOptions := s.ringOptions(), s.maglevOptions()
	isRing := s.Structure == Ring
	if s.Like != "" {
		backends = s.adapted(backends)
		ring, table, err := s.likeOptions(backends)
		if err != nil {
			return nil, err
		}
		isRing = ring != nil
		ringOptions, tableOptions = append(ringOptions, ring), append(tableOptions, table)
	}
	m := &Mapping{Spec: s, Backends: backends}
	values := indexed(backends)
	var err error
	if isRing {
		m.Structure, err = orNil(chash.NewRing(values, ringOptions...))
	} else {
		m.Structure, err = orNil(chash.NewMaglev(values, tableOptions...))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return m, nil
}

func orNil[S Structure](s S, err error) (Structure, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// indexed returns the backends with their indices as values.
func indexed(backends []Backend) []chash.Backend[int] {
	values := make([]chash.Backend[int], len(backends))
	for i, b := range backends {
		values[i] = chash.Backend[int]{Name: b.Name, HashKey: b.HashKey, Weight: b.Weight, State: b.State, Value: i}
	}
	return values
}

// Table returns the structure if it is a table, else nil.
func (m *Mapping) Table() *chash.Maglev[int] {
	table, _ := m.Structure.(*chash.Maglev[int])
	return table
}

// Ring returns the structure if it is a ring, else nil.
func (m *Mapping) Ring() *chash.Ring[int] {
	ring, _ := m.Structure.(*chash.Ring[int])
	return ring
}

// Clone returns a copy whose changes do not show in the mapping.
func (m *Mapping) Clone() *Mapping {
	clone := *m
	if table := m.Table(); table != nil {
		clone.Structure = table.Clone()
	} else {
		clone.Structure = m.Ring().Clone()
	}
	return &clone
}

// Diff compares two mappings. The error is chash.ErrIncomparable where they place keys
// differently whatever their backends are.
func (m *Mapping) Diff(next *Mapping) (chash.Diff, error) {
	a, b := m.Table(), next.Table()
	switch {
	case a != nil && b != nil:
		return a.Diff(b)
	case a == nil && b == nil:
		d, err := m.Ring().Diff(next.Ring())
		return d.Diff, err
	}
	return chash.Diff{}, fmt.Errorf("%w: a table and a ring", chash.ErrIncomparable)
}

// Name returns the name of a value.
func (m *Mapping) Name(value int) string { return m.Backends[value].Name }
