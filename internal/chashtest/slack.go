package chashtest

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// TwinClaim is a claim in a table with slack.
type TwinClaim struct {
	HashKey string
	weight  uint64
	Slot    uint64
	time    uint64 // T of its index
}

// Compare puts claims in the order in which they are heard.
func (c TwinClaim) Compare(d TwinClaim) int {
	high, low := bits.Mul64(c.time, d.weight)
	high2, low2 := bits.Mul64(d.time, c.weight)
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2),
		cmp.Compare(d.weight, c.weight), cmp.Compare(c.HashKey, d.HashKey))
}

// Claims are all claims of the placements, in the order in which they are heard.
func (w *Twin) Claims(weights map[string]uint32) []TwinClaim {
	m := uint64(w.Size)
	var claims []TwinClaim
	for hashKey, weight := range weights {
		offset, skip := w.sum("\xba"+hashKey)%m, w.sum("\xbe"+hashKey)%(m-1)+1
		sum := uint64(0)
		for j := range m {
			wait := (1 << 40) / (m - j)
			claims = append(claims, TwinClaim{hashKey, uint64(weight), (offset + j*skip) % m, sum + wait/2})
			sum += wait
		}
	}
	slices.SortFunc(claims, TwinClaim.Compare)
	return claims
}

// fillWithSlack hears all claims.
func (w *Twin) fillWithSlack(weights map[string]uint32) {
	w.Owners = make([]string, w.Size)
	caps := w.Caps(weights)
	won := map[string]int{}
	for _, c := range w.Claims(weights) {
		if w.Owners[c.Slot] == "" && won[c.HashKey] < caps[c.HashKey] {
			w.Owners[c.Slot] = c.HashKey
			won[c.HashKey]++
		}
	}
}

// Caps are how many slots the placements may have.
func (w *Twin) Caps(weights map[string]uint32) map[string]int {
	type quota struct {
		hashKey  string
		cap      int
		fraction uint64
	}
	units := new(big.Float).Mul(big.NewFloat(min(*w.Slack, math.MaxFloat64)), big.NewFloat(1<<16))
	share, _ := units.Add(units, big.NewFloat(1<<16+0.5)).Int(nil) // of the fair one, in 1/65536, the nearest
	even := share.Cmp(big.NewInt(1<<16)) == 0
	total := new(big.Int)
	for _, weight := range weights {
		total.Add(total, big.NewInt(int64(weight)))
	}
	var quotas []quota
	sum := 0
	for hashKey, weight := range weights {
		exact := new(big.Int).Mul(share, big.NewInt(int64(w.Size)))
		exact.Mul(exact, big.NewInt(int64(weight)))
		exact.Lsh(exact, 16) // 32 bits of a fraction, without the 16 of share
		exact.Div(exact, total)
		exact.Add(exact, new(big.Int).SetUint64(w.sum("\xbc"+hashKey)>>32))
		fraction := new(big.Int).And(exact, big.NewInt(math.MaxUint32)).Uint64()
		whole := exact.Rsh(exact, 32)
		q := quota{hashKey, w.Size, fraction}
		if whole.IsInt64() {
			q.cap = int(min(whole.Int64(), int64(w.Size)))
		}
		sum += q.cap
		quotas = append(quotas, q)
	}
	slices.SortFunc(quotas, func(a, b quota) int {
		byFraction := cmp.Compare(a.fraction, b.fraction)
		if sum < w.Size {
			byFraction = -byFraction
		}
		return cmp.Or(byFraction, cmp.Compare(a.hashKey, b.hashKey))
	})
	short := w.Size - sum
	caps := map[string]int{}
	for _, q := range quotas {
		switch {
		case even && short > 0:
			q.cap++
			short--
		case even && short < 0 && q.cap > 0:
			q.cap--
			short++
		case !even && short > 0:
			q.cap++
		}
		caps[q.hashKey] = max(q.cap, 1)
	}
	return caps
}
