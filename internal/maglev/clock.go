package maglev

import (
	"cmp"
	"math/bits"
	"sort"
)

// This file has the times of claims in a table with slack. Claim j of a placement
// of weight w has the time T(j) / w, where T(j) = d(0) + ... + d(j-1) + floor(d(j)/2)
// and d(i) = floor(2^40 / (n-i)) for n slots. So a placement has tried the share
// 1 - exp(-t*w/2^40) of all slots by the time t. T grows with j and is below 2^46.

// A claim is a placement's claim of that index, as far as its time matters.
type claim struct {
	weight uint32
	index  uint32
}

// A clock computes the times of claims. It grows as it is asked for later claims.
type clock struct {
	n    uint32   // slots
	sums []uint64 // of the d(i) before each stride of the clock
}

// clockStride is the number of claims between two sums of a clock. The sums in between
// are computed when needed, so that a clock takes at most half a byte a slot.
const clockStride = 16

// wait returns d(i). The quotient of two floats rounds down to the right integer: its
// error is below 2^-12/(n-i), and a quotient that is not an integer is at least
// 1/(n-i) below the next integer. It is several times as fast as a quotient of
// integers.
func (c *clock) wait(i uint32) uint64 {
	if i >= c.n {
		return 1 << 40 // of no claim, but a sum may end there
	}
	return uint64(float64(1<<40) / float64(c.n-i))
}

// reach computes the sums that claim j needs.
func (c *clock) reach(j uint32) {
	if len(c.sums) == 0 {
		c.sums = append(c.sums, 0)
	}
	for uint32(len(c.sums)) <= j/clockStride+2 {
		first := uint32(len(c.sums)-1) * clockStride
		sum := c.sums[len(c.sums)-1]
		for i := range uint32(clockStride) {
			sum += c.wait(first + i)
		}
		c.sums = append(c.sums, sum)
	}
}

// time returns T(j).
func (c *clock) time(j uint32) uint64 {
	c.reach(j)
	first := j &^ (clockStride - 1)
	sum := c.sums[j/clockStride]
	for i := first; i < j; i++ {
		sum += c.wait(i)
	}
	return sum + c.wait(j)/2
}

// compare returns a negative number if the time of a is before that of b, a positive
// number if it is after, and 0 if they are equal.
func (c *clock) compare(a, b claim) int {
	switch {
	case a == b:
		return 0
	case a.weight >= b.weight && a.index <= b.index:
		return -1
	case a.weight <= b.weight && a.index >= b.index:
		return 1
	}
	least, most := c.about(a.index)
	least2, most2 := c.about(b.index)
	switch {
	case compareProducts(most, b.weight, least2, a.weight) < 0:
		return -1
	case compareProducts(least, b.weight, most2, a.weight) > 0:
		return 1
	}
	return compareProducts(c.time(a.index), b.weight, c.time(b.index), a.weight)
}

// compareProducts compares a*x and b*y.
func compareProducts(a uint64, x uint32, b uint64, y uint32) int {
	high, low := bits.Mul64(a, uint64(x))
	high2, low2 := bits.Mul64(b, uint64(y))
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}

// about returns bounds of T(j). They decide most comparisons and take less time than
// T(j).
//
// They lie around the straight line from one sum to the next. The d(i) never
// decrease. So between two sums the line is above T by at most the sum of the
// differences of the d(i) to their mean. Each difference is at most what the d(i)
// gain until the next sum, and d(j) differs from the mean by no more than that.
func (c *clock) about(j uint32) (least, most uint64) {
	c.reach(j)
	sums := c.sums[j/clockStride:][:3]
	rise := sums[1] - sums[0]
	line := sums[0] + rise*uint64(2*(j%clockStride)+1)/(2*clockStride)
	off := 2*(sums[2]-sums[1]-rise) + 2
	return line - min(line, off), line + off
}

// before returns how many claims of a weight have an earlier time than limit; with
// orAt, those of its very time count too.
func (c *clock) before(limit claim, weight uint32, orAt bool) uint32 {
	if weight == limit.weight {
		if orAt {
			return limit.index + 1
		}
		return limit.index
	}
	// T(j)/weight is before T(limit)/limit.weight if T(j) is below the quotient of
	// T(limit)*weight and limit.weight, rounded up.
	high, low := bits.Mul64(c.time(limit.index), uint64(weight))
	if high >= uint64(limit.weight) {
		return c.n
	}
	least, rest := bits.Div64(high, low, uint64(limit.weight))
	if rest > 0 || orAt {
		least++
	}
	return c.atOrAfter(least)
}

// atOrAfter returns the first claim whose T is at least that, or n.
func (c *clock) atOrAfter(least uint64) uint32 {
	c.reach(0)
	for end := uint32(len(c.sums) - 1); c.sums[end] <= least; end = uint32(len(c.sums) - 1) {
		if end > c.n/clockStride {
			return c.n
		}
		c.reach(end * clockStride)
	}
	// The claim before a sum that is at most least is before that, and the claim
	// after a sum that is above least is not.
	after := sort.Search(len(c.sums), func(i int) bool { return c.sums[i] > least })
	j := uint32(after-1) * clockStride
	for sum := c.sums[after-1]; j < c.n && sum+c.wait(j)/2 < least; j++ {
		sum += c.wait(j)
	}
	return j
}
