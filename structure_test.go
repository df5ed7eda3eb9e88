package chash_test

import (
	"iter"

	"github.com/chash-go/chash"
)

// structureOf is what Maglev and Ring have in common to look up and to change: tests of
// common behaviour run over both through it. Tests of what else they have in common,
// such as Acquire or Stats, say so by interfaces of their own.
type structureOf[T any] interface {
	Get(key string) (T, error)
	GetBytes(key []byte) (T, error)
	GetHash(hash uint64) (T, error)
	GetN(key string, n int) ([]T, error)
	AppendN(dst []T, key string, n int) ([]T, error)
	Candidates(key string) iter.Seq[T]
	GetFunc(key string, accept func(T) bool) (T, error)
	Next() (T, error)

	Add(backends ...chash.Backend[T]) error
	Remove(names ...string) error
	Set(backends []chash.Backend[T]) error
	Reconcile(backends []chash.Backend[T]) error
	Clear()
	SetState(name string, state chash.State) error
	CompareAndSwapState(name string, old, state chash.State) (swapped bool, err error)
	SetWeight(name string, weight uint32) error
	SetValue(name string, value T) error

	Backends() []chash.Backend[T]
	Backend(name string) (chash.Backend[T], bool)
	Len() int

	Clone() structureOf[T]
	Rebuilds() int
}

// structure is what most tests use: values are strings.
type structure = structureOf[string]

// maglevOf and ringOf give both types one Clone and one Rebuilds.
type (
	maglevOf[T any] struct{ *chash.Maglev[T] }
	ringOf[T any]   struct{ *chash.Ring[T] }
)

func (m maglevOf[T]) Clone() structureOf[T] { return maglevOf[T]{m.Maglev.Clone()} }
func (r ringOf[T]) Clone() structureOf[T]   { return ringOf[T]{r.Ring.Clone()} }
func (m maglevOf[T]) Rebuilds() int         { return int(m.Maglev.Rebuilds()) }
func (r ringOf[T]) Rebuilds() int           { return int(r.Ring.Rebuilds()) }

// structureIn returns the Maglev or the Ring in a structure.
func structureIn[T any](s structureOf[T]) any {
	switch s := s.(type) {
	case maglevOf[T]:
		return s.Maglev
	case ringOf[T]:
		return s.Ring
	}
	panic("neither of the two")
}

// newMaglev and newRing are the constructors seen as structures: nil on an error.
func newMaglev[T any](backends []chash.Backend[T], opts ...chash.MaglevOption) (structureOf[T], error) {
	m, err := chash.NewMaglev(backends, opts...)
	if m == nil {
		return nil, err
	}
	return maglevOf[T]{m}, err
}

func newRing[T any](backends []chash.Backend[T], opts ...chash.RingOption) (structureOf[T], error) {
	r, err := chash.NewRing(backends, opts...)
	if r == nil {
		return nil, err
	}
	return ringOf[T]{r}, err
}

// structures makes each of the two with its default size and common options.
// For another size, call newMaglev or newRing.
var structures = []struct {
	name string
	make func(backends []chash.Backend[string], opts ...chash.Option) (structure, error)
}{
	{"maglev", func(backends []chash.Backend[string], opts ...chash.Option) (structure, error) {
		return newMaglev(backends, chash.Options(opts...))
	}},
	{"ring", func(backends []chash.Backend[string], opts ...chash.Option) (structure, error) {
		return newRing(backends, chash.Options(opts...))
	}},
}
