package chashcompat

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/chash-go/chash"
)

// A HAProxyFunction is the hash function of a hash-type.
type HAProxyFunction string

// The hash functions of HAProxy. An empty one is HAProxySDBM.
const (
	HAProxySDBM  HAProxyFunction = "sdbm"
	HAProxyDJB2  HAProxyFunction = "djb2"
	HAProxyWT6   HAProxyFunction = "wt6"
	HAProxyCRC32 HAProxyFunction = "crc32"
)

// A HAProxyModifier is the last word of a hash-type.
type HAProxyModifier string

// HAProxyAvalanche is the only modifier.
const HAProxyAvalanche HAProxyModifier = "avalanche"

// Numbers of HAProxy.
const (
	haproxyPerWeight = 16
	haproxyMaxWeight = 256
	haproxyPerID     = haproxyPerWeight * haproxyMaxWeight
)

var haproxyNames = form{"HAProxy", `the id of a server, from 1 to 2147483647, such as "7"`, func(name string) bool {
	id, ok := parseNumber(name, 31)
	return ok && id > 0
}}

// HAProxy is the placement of a HAProxy backend with lines such as these:
//
//	balance url_param k
//	hash-type consistent sdbm avalanche
//
// The function and the modifiers are the words after consistent. A hash key is the id of a
// server in decimal, which is a number from 1 in the order of the server lines unless they
// say otherwise. Give the server's name as the Name and its id as the HashKey. The weight is
// the server's weight, from 1 to 256. The order of the servers does not matter.
//
// A key is what the balance line takes from the request: for url_param the parameter as it
// stands in the URL, with its escapes, which RawParam returns; for uri the path as it stands
// there, without the query; for hdr the value of the header up to the first comma; for hash
// the value of the expression. For source, GetHash takes what HAProxySource returns. Where a
// request lacks the parameter, or where the header is missing or empty, HAProxy takes the
// servers in turn.
//
// A server that is down or disabled or weighs 0 is a Draining backend, not an Unhealthy one:
// HAProxy takes its points out, and then other points are nearer to its keys.
//
// The tests compare it with HAProxy 2.6.12, which forwards random keys to random servers,
// with all functions, weights, identifiers and servers that are disabled. Not covered are
// the hash-key of a server in HAProxy 3, which makes points of another number than the id,
// and hash-balance-factor, slowstart, backup servers and dynamic weights.
func HAProxy(function HAProxyFunction, modifiers ...HAProxyModifier) chash.RingOption {
	const name = "haproxy"
	function = cmp.Or(function, HAProxySDBM)
	hash := function.hash()
	if hash == nil {
		return badRing(name, fmt.Errorf("%w: the hash function %q of HAProxy; there are sdbm, djb2, wt6 and crc32", ErrSetting, function))
	}
	layout := name + " " + string(function)
	for _, m := range modifiers {
		if m != HAProxyAvalanche {
			return badRing(name, fmt.Errorf("%w: the modifier %q of HAProxy; there is avalanche", ErrSetting, m))
		}
	}
	if len(modifiers) > 0 {
		layout += " " + string(HAProxyAvalanche)
		plain := hash
		hash = func(key string) uint32 { return avalanche(plain(key)) }
	}
	return ringOption(layout, hash, haproxyPoints, haproxyNames, nil)
}

// hash returns the function of that name, or nil.
func (f HAProxyFunction) hash() func(key string) uint32 {
	switch f {
	case HAProxySDBM:
		return sdbm
	case HAProxyDJB2:
		return djb2
	case HAProxyWT6:
		return wt6
	case HAProxyCRC32:
		return crc32Sum
	}
	return nil
}

// HAProxySource returns the hash of a client's address for a backend with balance source, which
// GetHash of a ring with the placement of HAProxy takes. The modifiers are those of the
// hash-type; its function does not matter. The hash of an address that is not valid is 0.
func HAProxySource(client netip.Addr, modifiers ...HAProxyModifier) uint64 {
	h := uint32(0)
	for word := range slices.Chunk(client.AsSlice(), 4) {
		h ^= binary.BigEndian.Uint32(word)
	}
	if slices.Contains(modifiers, HAProxyAvalanche) {
		h = avalanche(h)
	}
	return uint64(h) << 32
}

// A haproxyPoint is a point as HAProxy has it.
type haproxyPoint struct {
	position  uint32
	placement int
}

func haproxyPoints(placements []chash.Placement, _ []int) (ring, error) {
	points := make([]haproxyPoint, 0, haproxyPerWeight*len(placements))
	blocks := make(map[uint32]string, len(placements))
	for p := range placements {
		id, weight := placements[p].HashKey, placements[p].Weight
		if weight > haproxyMaxWeight {
			return nil, fmt.Errorf("%w: %d of %q, HAProxy has 1 to %d", ErrWeight, weight, id, haproxyMaxWeight)
		}
		number, _ := parseNumber(id, 31)
		block := uint32(number) * haproxyPerID
		if other, found := blocks[block]; found {
			return nil, fmt.Errorf("%w: the servers %s and %s have the same points in HAProxy", ErrName, other, id)
		}
		blocks[block] = id
		for i := range haproxyPerWeight * weight {
			points = append(points, haproxyPoint{avalanche(block + i), p})
		}
	}
	return nearest(points)
}

// nearest returns the ring on which the first point at or after a key is of the nearest of
// the points, at equal distance of the one before: between each two neighbours, the
// first has what reaches up to half way. No two points are at one position.
func nearest(points []haproxyPoint) (ring, error) {
	r, err := newRing(uint64(len(points)))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(points, func(a, b haproxyPoint) int { return cmp.Compare(a.position, b.position) })
	for i, point := range points {
		next := points[(i+1)%len(points)]
		r.add(point.position+(next.position-point.position)/2, point.placement) // modulo 2^32
	}
	return r, nil
}
