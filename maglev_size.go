package chash

import (
	"fmt"
	"math"
)

// slotsPerBackend keep the shares of equal backends within about 1 % of each
// other.
const slotsPerBackend = 100

// TableSizeFor returns a size for WithTableSize that suits a number of backends of
// equal weight: the smallest prime that gives each at least 100 slots, and no less
// than DefaultTableSize. It is MaxTableSize for more than MaxTableSize/100
// backends, which then have fewer slots each. A table does not grow with its
// backends, so ask for the most that there will ever be. For weights that differ,
// ask for their sum divided by the smallest.
//
// The size also decides how even the shares are WithSlack. Without a limit, those of
// 100 equal backends in 65,537 slots are within 7 % of the fair one or so, and with 100
// slots for each of 1,000 backends within 30 %. Ten times as many slots bring that down
// to a third.
func TableSizeFor(backends int) int {
	if backends > MaxTableSize/slotsPerBackend {
		return MaxTableSize
	}
	return primeFrom(max(slotsPerBackend*max(backends, 0), DefaultTableSize))
}

// primeFrom returns the smallest prime that is at least n, which is at most
// MaxTableSize, itself a prime.
func primeFrom(n int) int {
	n = max(n, 2)
	for !isPrime(n) {
		n++
	}
	return n
}

// isPrime reports whether n is a prime, by trial division: at most 46,340 steps
// for n up to MaxTableSize.
func isPrime(n int) bool {
	if n < 4 {
		return n == 2 || n == 3
	}
	if n%2 == 0 {
		return false
	}
	for d := 3; d <= n/d; d += 2 {
		if n%d == 0 {
			return false
		}
	}
	return true
}

// maxSlots is MaxTableSize, but where an int has 32 bits a table of 4 bytes a slot has
// to fit the address space.
const maxSlots = min(MaxTableSize, math.MaxInt>>3)

// validateTableSize checks a table size against the limit, which is at most maxSlots.
func validateTableSize(m, limit int) error {
	if m > limit {
		return invalidOption("table size %d, the limit is %d", m, limit)
	}
	if isPrime(m) {
		return nil
	}
	above := primeFrom(m)
	if m < 2 {
		return fmt.Errorf("%w: %d, the smallest prime is %d", ErrTableSizeNotPrime, m, above)
	}
	below := m
	for !isPrime(below) {
		below--
	}
	return fmt.Errorf("%w: %d, the nearest primes are %d and %d", ErrTableSizeNotPrime, m, below, above)
}
