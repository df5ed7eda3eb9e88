package chashcompat

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/twmb/murmur3"

	"github.com/chash-go/chash"
)

var ciliumNames = form{"Cilium", `ADDR:PORT/PROTO, such as "10.0.0.1:8080/TCP" or "[fd00::1]:53/UDP"`, func(name string) bool {
	address, protocol, _ := strings.Cut(name, "/")
	addr, err := netip.ParseAddrPort(address)
	return err == nil && addr.String() == address && slices.Contains(ciliumProtocols, protocol)
}}

var (
	ciliumProtocols = []string{"TCP", "UDP", "SCTP", "ANY", "NONE"}
	ciliumSizes     = []int{251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521, 131071}
)

// Cilium is the placement of the services of a Cilium agent with these settings:
//
//	bpf-lb-algorithm: maglev
//	bpf-lb-maglev-table-size: "16381"
//	bpf-lb-maglev-hash-seed: JLfvgnHc2kaSUFaI
//
// The seed is bpf-lb-maglev-hash-seed (loadBalancer.maglev.hashSeed in Helm). The
// table size is that of WithTableSize. It must be one of Cilium's sizes; the default
// is 16381.
//
// A hash key is ADDR:PORT/PROTO: "10.0.0.1:8080/TCP" or "[fd00::1]:53/UDP". The
// address has the form of RFC 5952, an IPv6 address in brackets. The protocol is in
// capitals. The weight is at most 65535. As in Cilium, weights count only if their
// sum is at least twice the number of backends. The order of the backends does not
// matter.
//
// Cilium hashes a packet in the kernel. GetHash takes that hash, or the number of a
// slot.
//
// Cilium's table has active backends only. A terminating or quarantined one is a
// Draining backend.
//
// The tests compare every slot with Cilium's package pkg/maglev 1.20.2, for random
// backends, weights, seeds and sizes. Not covered are the kernel's hash of a packet,
// session affinity, and what the kernel does with a backend that is gone.
func Cilium(seed string) chash.MaglevOption {
	const name, usualSize = "cilium", 16381
	bytes, err := base64.StdEncoding.DecodeString(seed)
	if err != nil || len(bytes) != 12 {
		return badTable(name, fmt.Errorf("%w: the seed %q of Cilium; it is 12 bytes in base64, such as %q",
			ErrSetting, seed, "JLfvgnHc2kaSUFaI"))
	}
	hashSeed := binary.BigEndian.Uint32(bytes)
	slots := func(placements []chash.Placement, _ []int, size int) ([]uint32, error) {
		return ciliumSlots(uint64(hashSeed), placements, size)
	}
	return tableOption(fmt.Sprintf("%s %08x", name, hashSeed), usualSize, slots, ciliumNames, nil)
}

func ciliumSlots(seed uint64, placements []chash.Placement, size int) ([]uint32, error) {
	if !slices.Contains(ciliumSizes, size) {
		return nil, fmt.Errorf("%w: a table of %d slots, Cilium has one of %v", ErrSetting, size, ciliumSizes)
	}
	total, n := totalWeight(placements), len(placements)
	t := newTable(size, n, 64)
	credits := make([]float64, n)
	for p := range placements {
		weight := placements[p].Weight
		if weight > math.MaxUint16 {
			return nil, fmt.Errorf("%w: %d of %q, the limit of Cilium is %d", ErrWeight, weight, placements[p].HashKey, math.MaxUint16)
		}
		credits[p] = float64(weight) / float64(n)
		offset, skip := murmur3.SeedStringSum128(seed, seed, "["+placements[p].HashKey+",State:active]")
		t.prefer(p, offset, skip)
	}
	weighted := total/uint64(n) > 1
	for slot := range size {
		p := slot % n
		// This loop ends: the sum of all credits is below the sum of what they are
		// compared with.
		for weighted && uint64(slot+1)*uint64(placements[p].Weight) < uint64(credits[p]) {
			p = (p + 1) % n
		}
		credits[p] += float64(total)
		if err := t.claim(p); err != nil {
			return nil, err
		}
	}
	return t.slots, nil
}
