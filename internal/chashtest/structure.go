// Package chashtest is what tests of the package chash share: both structures behind one
// interface, a twin of them that is written for plainness, and random data.
package chashtest

import (
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// StructureOf is what Maglev and Ring have in common: tests of common behaviour run over
// both through it.
type StructureOf[T any] interface {
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

	Acquire(key string, opts ...chash.LeaseOption) (chash.Lease[T], error)
	AcquireBytes(key []byte, opts ...chash.LeaseOption) (chash.Lease[T], error)
	AcquireHash(hash uint64, opts ...chash.LeaseOption) (chash.Lease[T], error)
	AcquireFunc(key string, accept func(T) bool, opts ...chash.LeaseOption) (chash.Lease[T], error)
	AcquireNext(opts ...chash.LeaseOption) (chash.Lease[T], error)
	SetLoadFactor(factor float64) error
	SetLoadFloor(n float64) error

	Backends() []chash.Backend[T]
	Backend(name string) (chash.Backend[T], bool)
	Len() int
	Owner(key string) (chash.Backend[T], error)
	Owners(key string, n int) ([]chash.Backend[T], error)
	Config() chash.Config
	Stats() chash.Stats
	Shares() []chash.Share
	Explain(key string) chash.Explanation
	Fingerprint() uint64
	LiveFingerprint() uint64
	Marshal(encode func(value T) ([]byte, error)) ([]byte, error)
	fmt.Formatter
	fmt.Stringer
	json.Marshaler

	Clone() StructureOf[T]
	Rebuilds() int
}

// Structure is what most tests use: values are strings.
type Structure = StructureOf[string]

// maglevOf and ringOf give both types one Clone and one Rebuilds.
type (
	MaglevOf[T any] struct{ *chash.Maglev[T] }
	RingOf[T any]   struct{ *chash.Ring[T] }
)

func (m MaglevOf[T]) Clone() StructureOf[T] { return MaglevOf[T]{m.Maglev.Clone()} }

func (r RingOf[T]) Clone() StructureOf[T] { return RingOf[T]{r.Ring.Clone()} }

func (m MaglevOf[T]) Rebuilds() int { return int(m.Stats().Rebuilds) }

func (r RingOf[T]) Rebuilds() int { return int(r.Stats().Rebuilds) }

// StructureIn returns the Maglev or the Ring in a structure.
func StructureIn[T any](s StructureOf[T]) any {
	switch s := s.(type) {
	case MaglevOf[T]:
		return s.Maglev
	case RingOf[T]:
		return s.Ring
	}
	panic("neither of the two")
}

// NewMaglev and newRing are the constructors seen as structures: nil on an error.
func NewMaglev[T any](backends []chash.Backend[T], opts ...chash.MaglevOption) (StructureOf[T], error) {
	m, err := chash.NewMaglev(backends, opts...)
	if m == nil {
		return nil, err
	}
	return MaglevOf[T]{m}, err
}

func NewRing[T any](backends []chash.Backend[T], opts ...chash.RingOption) (StructureOf[T], error) {
	r, err := chash.NewRing(backends, opts...)
	if r == nil {
		return nil, err
	}
	return RingOf[T]{r}, err
}

// A Kind is one of the two structures.
type Kind struct {
	Name string
	Ring bool
}

// Kinds are both.
var Kinds = []Kind{{"maglev", false}, {"ring", true}}

// New makes a structure of the default size. For another size, call newMaglev or newRing.
func (k Kind) New(backends []chash.Backend[string], opts ...chash.Option) (Structure, error) {
	if k.Ring {
		return NewRing(backends, chash.Options(opts...))
	}
	return NewMaglev(backends, chash.Options(opts...))
}

// Make is new that fails the test instead.
func (k Kind) Make(t testing.TB, backends []chash.Backend[string], opts ...chash.Option) Structure {
	t.Helper()
	s, err := k.New(backends, opts...)
	require.NoError(t, err)
	return s
}

// OnBoth runs a test of common behaviour over both structures.
func OnBoth(t *testing.T, test func(t *testing.T, kind Kind)) {
	t.Helper()
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) { test(t, k) })
	}
}
