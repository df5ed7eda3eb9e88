package chashgrpc

import "github.com/chash-go/chash"

// A layout is what a mapping is made with: another layout needs another mapping.
type layout struct {
	tableSize int // of chash_maglev
	replicas  int // of chash_ring
	seed      uint64
}

// A mapping is what the policies need of a chash.Maglev or a chash.Ring.
type mapping interface {
	Get(key string) (*endpoint, error)
	GetN(key string, n int) ([]*endpoint, error)
	GetFunc(key string, accept func(*endpoint) bool) (*endpoint, error)
	Owner(key string) (chash.Backend[*endpoint], error)
	Acquire(key string, opts ...chash.LeaseOption) (chash.Lease[*endpoint], error)
	AcquireNext(opts ...chash.LeaseOption) (chash.Lease[*endpoint], error)
	Set(backends []chash.Backend[*endpoint]) error
	SetState(name string, state chash.State) error
	SetLoadFactor(factor float64) error
	Stats() chash.Stats
	Shares() []chash.Share
	Fingerprint() uint64
	LiveFingerprint() uint64
	Explain(key string) chash.Explanation
}

type backends = []chash.Backend[*endpoint]

func newMaglev(b backends, l layout) (mapping, error) {
	return chash.NewMaglev(b, chash.WithTableSize(l.tableSize), chash.WithSeed(l.seed))
}

func newRing(b backends, l layout) (mapping, error) {
	return chash.NewRing(b, chash.WithReplicas(l.replicas), chash.WithSeed(l.seed))
}
