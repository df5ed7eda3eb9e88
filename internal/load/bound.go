package load

import "math"

// Why a search finds room. A call adds its cost k to the total T, and then looks at every
// healthy placement p of its snapshot. Suppose that none has room, so that
// load(p) >= c*T*weight(p)/W, where W is the sum of their weights, and that no other call
// changes a load meanwhile. Then the sum of these loads is at least c*T. But the counters
// of these placements are open, since the call would otherwise have taken a newer
// snapshot, and the loads of open counters are at most T-k (see Counter). So c*T <= T-k,
// which is impossible for c > 1 and k >= 1. A floor only adds room.
//
// The proof holds for float64 too. T is at most 2^50 when a backend is asked for room, so
// that T and the loads are exact. Four operations round their results, each by at most
// 2^-53 of it: W, W times the load, and the two products on the other side. So
// T-k >= (1-2^-51)*c*T. With the smallest c, 1+2^-52, this means T >= k*2^52 or so, which
// is false.
//
// So if a whole search finds no room, another call has changed a load meanwhile, and the
// search begins again. One of all calls always succeeds, and none waits.

// MaxInFlight is the largest cost of all leases in flight together. Up to twice that,
// float64 numbers are exact, and no counter can overflow.
const MaxInFlight = 1 << 50

// A Bound has the options from which the bound of each backend follows.
type Bound struct {
	Factor float64 // c
	Floor  float64
}

// LeavesRoom reports whether a load is below the bound of a backend. It gets the
// weight of the backend, the sum of the weights of all candidates, and the total of
// their loads.
//
// Both sides are multiplied by the sum of the weights, so that nothing is divided.
// Both are exact while they fit 53 bits, for factors such as 1.25. The order of the
// operations is part of the mapping.
func (b *Bound) LeavesRoom(load, total int64, weight uint32, weights uint64) bool {
	w, all := float64(weight), float64(weights)
	have := float64(load) * all
	return have < b.Factor*float64(total)*w || have < b.Floor*w*all
}

// ValidFactor reports whether c can be a load factor.
func ValidFactor(c float64) bool { return c > 1 && c <= math.MaxFloat64 } // not NaN

// ValidFloor reports whether n can be a load floor.
func ValidFloor(n float64) bool { return n >= 0 && n <= math.MaxFloat64 } // not NaN
