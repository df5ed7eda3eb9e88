package chash

// slotsPerBackend keep the shares of equal backends within about 1 % of each
// other.
const slotsPerBackend = 100

// TableSize returns a size for WithTableSize that suits a number of backends of
// equal weight: the smallest prime that gives each at least 100 slots, and no less
// than DefaultTableSize. It is MaxTableSize for more than MaxTableSize/100
// backends, which then have fewer slots each. A table does not grow with its
// backends, so ask for the most that there will ever be. For weights that differ,
// ask for their sum divided by the smallest.
func TableSize(backends int) int {
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
