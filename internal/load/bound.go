package load

import "math"

// Why a backend has room: take a call that has added its cost k to the total T and
// sees, one after the other, every healthy placement p of its snapshot without room:
// load(p) >= c*T*weight(p)/W, where W is the sum of their weights. Suppose first that
// nothing moves. Then the loads of these placements are together c*T at least. But
// their counters are open, or the call would have turned to a newer snapshot, and the
// loads of open counters are together T-k at most (see Counter). So c*T <= T-k, which
// c > 1 and k >= 1 do not allow. A floor only adds room.
//
// float64 does not spoil that. T is at most 2^50 where a backend is asked for room, so
// that it and the loads are exact. Four operations round, each by 2^-53 of its result
// at most: W, its product with the load, and the two products on the other side. So
// T-k >= (1-2^-51)*c*T, which with the smallest c there is, 1+2^-52, is T >= k*2^52 or
// so, and T is not.
//
// So where a whole search finds no room another call has moved something meanwhile,
// and the search begins again: of all calls one always gets on, and nobody waits.

// MaxInFlight is what leases in flight may cost together. Up to there, and for another as
// much that is being taken, float64 has the exact numbers, and no counter is anywhere near
// its end.
const MaxInFlight = 1 << 50

// A Bound is what all bounds of a structure have in common.
type Bound struct {
	Factor float64 // c
	Floor  float64
}

// LeavesRoom reports whether a load is below the bound of a backend of that weight,
// among backends of those weights together and with that total in flight among them.
//
// With both sides times the sum of weights there is no division, and both are exact,
// while they fit 53 bits, for factors such as 1.25. The order of the operations is
// part of the mapping.
func (b *Bound) LeavesRoom(load, total int64, weight uint32, weights uint64) bool {
	w, all := float64(weight), float64(weights)
	have := float64(load) * all
	return have < b.Factor*float64(total)*w || have < b.Floor*w*all
}

// ValidFactor reports whether c can be a load factor.
func ValidFactor(c float64) bool { return c > 1 && c <= math.MaxFloat64 } // not NaN

// ValidFloor reports whether n can be a load floor.
func ValidFloor(n float64) bool { return n >= 0 && n <= math.MaxFloat64 } // not NaN
