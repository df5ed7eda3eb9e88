package chashgrpc

import (
	"math"

	"github.com/chash-go/chash"
)

// A layout has the options of a mapping. Another layout needs another mapping.
type layout struct {
	tableSize int    // of chash_maglev
	replicas  int    // of chash_ring
	unit      uint32 // of chash_ring; 0 for a unit that suits the weights
	seed      uint64
}

// A mapping has the calls of a chash.Maglev or a chash.Ring that the policies need.
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

// The limits for the sum of the weights on a ring, in units: on average, and in
// total. The total is about four million points with the default replicas.
const (
	maxMeanUnits = 64
	maxUnits     = 1 << 22 / chash.DefaultReplicas
)

// withUnit returns the layout with a unit weight that suits the members, unless one
// is set.
//
// The unit is 1 if the ring is then within the limits. Otherwise it is the smallest
// weight, which then has as many points as a weight of 1 usually has. So only the
// ratios of the weights matter, not their scale. The weights of xDS, for example,
// always have a sum of about 2^31. If the ring is still too large, the unit is
// doubled until it fits.
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
