package modular

// PrimeFrom returns the smallest prime that is at least n. There must be one up to
// MaxTableSize.
func PrimeFrom(n int) int {
	n = max(n, 2)
	for !IsPrime(n) {
		n++
	}
	return n
}

// IsPrime reports whether n is a prime, by trial division: at most 46,340 steps
// for n up to MaxTableSize.
func IsPrime(n int) bool {
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
