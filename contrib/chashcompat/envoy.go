package chashcompat

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// EnvoyRingHash is the placement of an Envoy cluster with this policy:
//
//	lb_policy: RING_HASH
//	ring_hash_lb_config: {minimum_ring_size: 1024, maximum_ring_size: 8388608}
//
// The size is these two numbers. The defaults are 1024 and 8388608. The hash function
// is Envoy's default, XX_HASH.
//
// A hash key is the hash_key in the endpoint's metadata (filter envoy.lb), else the
// host name if use_hostname_for_hashing is set, else IP:PORT. The weight is the
// load_balancing_weight. A light backend may have no point. The order is that of the
// endpoints, without one that of the hash keys. It decides how weights are rounded.
//
// A key is the value of the header that the route's hash_policy names. The route must
// have one policy, and the request one such header.
//
// An unhealthy endpoint is a Draining backend, since Envoy then places the others
// anew.
//
// The tests compare with what Envoy's own tests expect. No Envoy has run. Not covered
// are several hash policies, MURMUR_HASH_2, localities, priorities, subsets, panic
// thresholds, hash_balance_factor and retries.
func EnvoyRingHash(size RingSize, order ...string) chash.RingOption {
	return size.option("envoy ring_hash", RingSize{1024, ringSizeLimit}, order)
}

// envoyTableLimit is the size of Envoy's largest table.
const envoyTableLimit = 5000011

// EnvoyMaglev is the placement of an Envoy cluster with this policy:
//
//	lb_policy: MAGLEV
//	maglev_lb_config: {table_size: 65537}
//
// The table size is that of WithTableSize, up to 5000011. The order of the endpoints
// does not matter. All else is as with EnvoyRingHash: hash keys, weights, keys,
// health and what is covered.
func EnvoyMaglev() chash.MaglevOption {
	return tableOption("envoy maglev", chash.DefaultTableSize, envoySlots, anyName, nil)
}

func envoySlots(placements []chash.Placement, arranged []int, size int) ([]uint32, error) {
	if size > envoyTableLimit {
		return nil, fmt.Errorf("%w: a table of %d slots, Envoy has up to %d", ErrSetting, size, envoyTableLimit)
	}
	shares, _, err := sharesOf(placements)
	if err != nil {
		return nil, err
	}
	t := newTable(size, len(placements), 64)
	largest := 0.0
	for p := range placements {
		t.prefer(p, xxhash.Sum64String(placements[p].HashKey), xxhash1(placements[p].HashKey))
		largest = max(largest, shares[p])
	}
	// The target of turn n is the sum of n times the largest share, rounded each time.
	targets := []float64{0}
	rounds := make([]uint64, len(placements)) // of each placement's last turn
	err = t.fill(arranged, func(p, n int) uint64 {
		if n == len(targets) {
			targets = append(targets, targets[n-1]+largest)
		}
		rounds[p] = firstRound(shares[p], targets[n], rounds[p])
		return rounds[p]
	})
	return t.slots, err
}

// firstRound returns the first round after another one in which round*share reaches
// the target, in the arithmetic of float64.
func firstRound(share, target float64, after uint64) uint64 {
	round := max(after+1, uint64(target/share)) // no earlier round: rounding errors are far below 1
	for float64(round)*share < target {
		round++
	}
	return round
}

// xxhash1 is xxHash64 with the seed 1.
func xxhash1(text string) uint64 {
	d := xxhash.NewWithSeed(1)
	_, _ = d.WriteString(text) // never fails
	return d.Sum64()
}

// sharesOf returns the weights divided by their sum, and the least of these shares.
// The sum is at most 2^32-1.
func sharesOf(placements []chash.Placement) (shares []float64, least float64, err error) {
	total, err := boundedWeight(placements)
	if err != nil {
		return nil, 0, err
	}
	least = 1
	shares = make([]float64, len(placements))
	for p := range placements {
		shares[p] = float64(placements[p].Weight) / float64(total)
		least = min(least, shares[p])
	}
	return shares, least, nil
}
