package chashcompat

import (
	"fmt"
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// A RingSize bounds the number of points of a ring. A 0 is the system's default. If
// Min is above Max, or Max above 8388608, the constructor returns ErrSetting.
type RingSize struct {
	Min, Max uint64
}

// ringSizeLimit is the largest number of points in Envoy and grpc-go.
const ringSizeLimit = 8 << 20

// option returns the option for a ring of that size. The system's defaults replace
// bounds of 0.
func (s RingSize) option(name string, usual RingSize, o order) chash.RingOption {
	if s.Min == 0 {
		s.Min = usual.Min
	}
	if s.Max == 0 {
		s.Max = usual.Max
	}
	if s.Min > s.Max || s.Max > ringSizeLimit {
		return badRing(name, fmt.Errorf("%w: a ring of %d to %d points, the limit is %d", ErrSetting, s.Min, s.Max, ringSizeLimit))
	}
	return wideOption(fmt.Sprintf("%s %d %d", name, s.Min, s.Max), xxhash.Sum64String, s.points, anyName, o)
}

// points returns the points of a ring. The lightest backend has a whole number of
// points. The others have more in proportion, which may be a fraction. So the number
// of points up to each backend is rounded up, and a backend may have none.
func (s RingSize) points(placements []chash.Placement, arranged []int) (ring, error) {
	shares, least, err := sharesOf(placements)
	if err != nil {
		return nil, err
	}
	scale := min(math.Ceil(least*float64(s.Min))/least, float64(s.Max))
	r, err := newRing(uint64(math.Ceil(scale)))
	if err != nil {
		return nil, err
	}
	var buf []byte
	target := 0.0
	for _, p := range arranged {
		// The conversion keeps machines from fusing product and sum. That would round
		// once, while the systems round twice.
		target += float64(scale * shares[p])
		buf = append(append(buf[:0], placements[p].HashKey...), '_')
		label := len(buf)
		for i := int64(0); float64(len(r)) < target; i++ {
			buf = strconv.AppendInt(buf[:label], i, 10)
			r = append(r, chash.VirtualNode{Position: xxhash.Sum64(buf), Placement: p})
		}
	}
	return r, nil
}
