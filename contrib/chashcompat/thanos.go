package chashcompat

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// Thanos is the placement of a Thanos receiver with this flag:
//
//	--receive.hashrings-algorithm=ketama
//
// A hash key is the address of an endpoint of the hashring, HOST:PORT. Weights do not
// count: Thanos has none. The order of the endpoints does not matter.
//
// A key is what ThanosKey returns for a tenant and the labels of a series. GetN
// returns the endpoints of the replicas if n is --receive.replication-factor.
//
// A receiver that fails stays on the ring.
//
// The tests compare with the hashring of Thanos 0.41.0, for random endpoints,
// tenants, series and replicas. Not covered are zones (az), shuffle sharding, the
// algorithm hashmod and the choice of a tenant's hashring.
func Thanos() chash.RingOption {
	return wideOption("thanos", xxhash.Sum64String, thanosPoints, form{"Thanos", `HOST:PORT, such as "thanos-receive-0.thanos:10901"`, isHostPort}, nil)
}

func thanosPoints(placements []chash.Placement, _ []int) (ring, error) {
	const perBackend = 1000
	r, err := newRing(perBackend * uint64(len(placements)))
	if err != nil {
		return nil, err
	}
	var buf []byte
	for p := range placements {
		for i := range perBackend {
			buf = strconv.AppendInt(append(append(buf[:0], placements[p].HashKey...), ':'), int64(i)+1, 10)
			r = append(r, chash.VirtualNode{Position: xxhash.Sum64(buf), Placement: p})
		}
	}
	return r, nil
}

// A ThanosLabel is a label of a series.
type ThanosLabel struct{ Name, Value string }

// ThanosKey returns the key of a series for a ring with the placement of Thanos. The
// labels must be in the order of the series, sorted by name.
func ThanosKey(tenant string, labels ...ThanosLabel) string {
	const end = '\xFF'
	var b strings.Builder
	b.WriteString(tenant)
	b.WriteByte(end)
	for _, l := range labels {
		b.WriteString(l.Name)
		b.WriteByte(end)
		b.WriteString(l.Value)
		b.WriteByte(end)
	}
	return b.String()
}
