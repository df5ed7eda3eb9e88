package chash

import "math"

// Why a backend has room: take a call that has added its cost k to the total T and
// sees, one after the other, every healthy placement p of its snapshot without room:
// load(p) >= c*T*weight(p)/W, where W is the sum of their weights. Suppose first that
// nothing moves. Then the loads of these placements are together c*T at least. But
// their counters are open, or the call would have turned to a newer snapshot, and the
// loads of open counters are together T-k at most (see ledger). So c*T <= T-k, which
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

// DefaultLoadFactor is the load factor without WithLoadFactor: a backend has at
// most a quarter more leases in flight than its fair share, rounded up.
const DefaultLoadFactor = 1.25

// A bound is what all bounds of a structure have in common.
type bound struct {
	factor float64 // c
	floor  float64
}

// leavesRoom reports whether a load is below the bound of a backend of that weight,
// among backends of those weights together and with that total in flight among them.
//
// With both sides times the sum of weights there is no division, and both are exact,
// while they fit 53 bits, for factors such as 1.25. The order of the operations is
// part of the mapping.
func (b *bound) leavesRoom(load, total int64, weight uint32, weights uint64) bool {
	w, all := float64(weight), float64(weights)
	have := float64(load) * all
	return have < b.factor*float64(total)*w || have < b.floor*w*all
}

func (b *bound) validate() error {
	if err := validateLoadFactor(b.factor); err != nil {
		return err
	}
	return validateLoadFloor(b.floor)
}

func validateLoadFactor(c float64) error {
	if !validLoadFactor(c) {
		return invalidOption("load factor %v, want a number above 1", c)
	}
	return nil
}

func validateLoadFloor(n float64) error {
	if !validLoadFloor(n) {
		return invalidOption("load floor %v, want a number from 0 on", n)
	}
	return nil
}

// Both are written so that NaN does not pass.
func validLoadFactor(c float64) bool { return c > 1 && c <= math.MaxFloat64 }
func validLoadFloor(n float64) bool  { return n >= 0 && n <= math.MaxFloat64 }

// SetLoadFactor sets the c of WithLoadFactor; c of 1 and below, infinity and NaN
// are ErrInvalidOption. Leases in flight stay, also where they are more than
// is now allowed. It rebuilds nothing.
func (c *core[T, L]) SetLoadFactor(factor float64) error {
	if err := validateLoadFactor(factor); err != nil {
		return err
	}
	c.publishBound(func(b *bound) { b.factor = factor })
	return nil
}

// SetLoadFloor sets the floor of WithLoadFloor; a negative one, infinity and NaN are
// ErrInvalidOption. Leases in flight stay, also where they are more than is now
// allowed. It rebuilds nothing.
func (c *core[T, L]) SetLoadFloor(n float64) error {
	if err := validateLoadFloor(n); err != nil {
		return err
	}
	c.publishBound(func(b *bound) { b.floor = n })
	return nil
}
