package chashgrpc

import (
	"math"

	"github.com/chash-go/chash"
)

// A layout is what a mapping is made with: another layout needs another mapping.
type layout struct {
	tableSize int    // of chash_maglev
	replicas  int    // of chash_ring
	unit      uint32 // of chash_ring: the weight of replicas points; 0 for one that suits the weights
	seed      uint64
}

// A mapping is what the policies need of a chash.Maglev or a chash.Ring.
type mapping interface {
	Get(key string) (*endpoint, error)
	GetN(key string, n int) ([]*endpoint, error)
	GetFunc(key string, accept func(*endpoint) bool) (*endpoint, error)
	Owner(key string) (chash.Backend[*endpoint], error)
	Acquire(key string, opts ...chash.LeaseOption) (chash.Lease[*endpoint], error)
	AcquireFunc(key string, accept func(*endpoint) bool, opts ...chash.LeaseOption) (chash.Lease[*endpoint], error)
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
	return chash.NewRing(b, chash.WithReplicas(l.replicas), chash.WithUnitWeight(max(l.unit, 1)), chash.WithSeed(l.seed))
}

// The most that the weights on a ring sum up to, in units: for each endpoint on average,
// and together, which is some four million points with the usual replicas.
const (
	maxMeanUnits = 64
	maxUnits     = 1 << 22 / chash.DefaultReplicas
)

// withUnit returns the layout with a unit weight that suits the members, if none is set.
//
// It is 1 as long as the ring is not too large with that. Otherwise it is the smallest
// weight, which then has as many points as a weight of 1 has elsewhere: so weights of
// which only the ratios mean anything, such as those of xDS, which always sum up to about
// 2^31, give the same points whatever their scale. Where that is still too small, it is
// doubled until the ring is not too large.
func (l layout) withUnit(members map[string]member) layout {
	if l.unit != 0 {
		return l
	}
	sum, least := uint64(0), uint32(math.MaxUint32)
	for _, m := range members {
		sum += uint64(m.weight)
		least = min(least, m.weight)
	}
	n := uint64(len(members))
	most := max(min(n*maxMeanUnits, maxUnits), 1)
	unit := uint64(1)
	if sum > most {
		unit = uint64(least)
	}
	for sum > most*unit && unit <= math.MaxUint32/2 {
		unit *= 2
	}
	l.unit = uint32(unit)
	return l
}
