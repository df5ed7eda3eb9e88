package chashhttp

import "sync/atomic"

// A budget bounds retries: it holds tokens, every request puts a share of one in and
// every retry takes one out. Since it holds no more than reserve, no row of n
// requests has more than reserve + n*ratio retries. So where all backends fail,
// retries add that share to their load and not a multiple of it. It is a token
// bucket that fills with requests rather than with time, as those of Finagle and of
// gRPC (gRFC A6) do.
type budget struct {
	reserve int64 // in units
	share   int64 // of a token, in units

	_     [64]byte // a deposit shall not take away the cache line of what never changes
	units atomic.Int64
}

// token is how many units one token has: a ratio is exact to a millionth.
const token = 1 << 20

func newBudget(ratio float64, reserve int) *budget {
	b := &budget{reserve: int64(reserve) * token, share: int64(ratio * token)}
	b.units.Store(b.reserve)
	return b
}

// deposit puts in the share of one request. A full budget costs only a read.
func (b *budget) deposit() {
	for {
		have := b.units.Load()
		if have >= b.reserve || b.units.CompareAndSwap(have, min(have+b.share, b.reserve)) {
			return
		}
	}
}

// withdraw takes out a token and reports whether there was one.
func (b *budget) withdraw() bool {
	for {
		have := b.units.Load()
		if have < token {
			return false
		}
		if b.units.CompareAndSwap(have, have-token) {
			return true
		}
	}
}
