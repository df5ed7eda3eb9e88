package chashcompat

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/murmur3"

	"github.com/chash-go/chash"
)

var katranNames = form{"Katran", `the 64-bit hash of an address in decimal, such as "6238072747940578789"`, func(name string) bool {
	_, ok := parseNumber(name, 64)
	return ok
}}

// KatranV1 is the placement of a Katran balancer with its default hash function,
// Maglev. The table size is that of WithTableSize, Katran's chRingSize; the default
// is 65537.
//
// A hash key is the 64-bit hash of a real's address, in decimal. Take the hash from
// the library folly, as Katran does: folly does not promise the same hash for ever.
// The weight is the real's weight. The order is that in which Katran's MaglevHash
// gets the endpoints. Without one, it is the order of the numbers, as in Katran's
// balancer.
//
// Katran hashes a packet in the kernel. GetHash takes that hash, or the number of a
// slot.
//
// A real of weight 0 is a Draining backend.
//
// The tests compare every slot with a recording of Katran's sources, commit 19f08fec.
// They do not run the sources again. Not covered are the kernel's hash of a packet
// and Katran's table of connections.
func KatranV1(order ...string) chash.MaglevOption {
	return katranOption("katran v1", katranV1, order)
}

// KatranV2 is KatranV1 for the hash function MaglevV2. That function follows the
// weights: a light backend may have no slot.
func KatranV2(order ...string) chash.MaglevOption {
	return katranOption("katran v2", katranV2, order)
}

// katranOption returns the option for a table. Without an order, backends are sorted
// by their numbers.
func katranOption(name string, slots slotsFunc, o order) chash.MaglevOption {
	sorted := func(placements []chash.Placement, arranged []int, size int) ([]uint32, error) {
		if len(o) == 0 {
			slices.SortFunc(arranged, func(p, q int) int {
				return cmp.Compare(katranNumber(placements[p]), katranNumber(placements[q]))
			})
		}
		return slots(placements, arranged, size)
	}
	return tableOption(name, chash.DefaultTableSize, sorted, katranNames, o)
}

// katranNumber returns a hash key as a number.
func katranNumber(p chash.Placement) uint64 {
	number, _ := parseNumber(p.HashKey, 64) // arrange has checked the hash key
	return number
}

// newKatran returns a free table with the preferences of the placements. Katran's
// sums have 32 bits. They overflow in tables of more than 65,537 slots.
func newKatran(placements []chash.Placement, size int) *table {
	t := newTable(size, len(placements), 32)
	for p := range placements {
		hash := katranNumber(placements[p])
		t.prefer(p, katranHash(hash, 42, 0), katranHash(hash, 2718281828, 2307))
	}
	return t
}

func katranHash(hash, salt, seed uint64) uint64 {
	var text [16]byte
	binary.LittleEndian.PutUint64(text[:8], hash)
	binary.LittleEndian.PutUint64(text[8:], salt)
	first, _ := murmur3.SeedSum128(seed, seed, text[:])
	return first
}

// katranV1 gives each placement as many turns in the first round as its weight says,
// and one turn in each later round.
func katranV1(placements []chash.Placement, arranged []int, size int) ([]uint32, error) {
	t := newKatran(placements, size)
	turns := func(p int) uint64 { return uint64(placements[p].Weight) }
	for t.free > 0 {
		for _, p := range arranged {
			for range min(turns(p), uint64(t.free)) {
				if err := t.claim(p); err != nil {
					return nil, endlessKatran(err, size)
				}
			}
		}
		turns = func(int) uint64 { return 1 }
	}
	return t.slots, nil
}

// katranV2 adds up a placement's weight in each round. The placement has a turn
// whenever the sum reaches the largest weight once more.
func katranV2(placements []chash.Placement, arranged []int, size int) ([]uint32, error) {
	t := newKatran(placements, size)
	largest := uint64(0)
	for p := range placements {
		largest = max(largest, uint64(placements[p].Weight))
	}
	err := t.fill(arranged, func(p, n int) uint64 {
		weight := uint64(placements[p].Weight)
		return ((uint64(n)+1)*largest + weight - 1) / weight // rounded up
	})
	return t.slots, endlessKatran(err, size)
}

func endlessKatran(err error, size int) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: Katran does not end with a table of %d slots and these backends: %w", ErrSetting, size, err)
}
