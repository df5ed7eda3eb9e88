// Package modular calculates modulo the size of a table.
package modular

import "math/bits"

// A Divisor divides by n, from 1 to 2^31, without a division instruction.
type Divisor struct {
	N          uint32
	Reciprocal uint64 // floor((2^64-1) / n)
}

func NewDivisor(n uint32) Divisor { return Divisor{n, ^uint64(0) / uint64(n)} }

// Divmod returns x/n and x%n.
//
// The estimate x*Reciprocal/2^64 is at most the quotient, and at most 1 below it:
// n*Reciprocal is at least 2^64-n, so that x/n exceeds the estimate before rounding
// by at most x/2^64, which is below 1.
func (d *Divisor) Divmod(x uint64) (quotient uint64, remainder uint32) {
	quotient, _ = bits.Mul64(x, d.Reciprocal)
	rest := x - quotient*uint64(d.N)
	if rest >= uint64(d.N) {
		rest -= uint64(d.N)
		quotient++
	}
	return quotient, uint32(rest)
}

// Step returns (pos + stride) mod n, for pos and stride below n and n below 2^31. A
// processor cannot predict whether the sum wraps, so there is no branch: the sign of
// sum-n, which fits 32 bits, selects whether n is added again.
func Step(pos, stride, n uint32) uint32 {
	past := pos + stride - n
	return past + n&uint32(int32(past)>>31)
}

// Inverse returns the x below the prime n with a*x mod n = 1, for an a from 1 to n-1,
// by the extended Euclidean algorithm.
func Inverse(a, n uint32) uint32 {
	r, next := int64(n), int64(a)
	x, nextX := int64(0), int64(1) // r = x*a and next = nextX*a, modulo n
	for next != 0 {
		q := r / next
		r, next = next, r-q*next
		x, nextX = nextX, x-q*nextX
	}
	if x < 0 {
		x += int64(n)
	}
	return uint32(x)
}
