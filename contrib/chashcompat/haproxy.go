package chashcompat

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/chash-go/chash"
)

// A HAProxyFunction is the hash function in a hash-type line.
type HAProxyFunction string

// The hash functions of HAProxy. An empty function is HAProxySDBM.
const (
	HAProxySDBM  HAProxyFunction = "sdbm"
	HAProxyDJB2  HAProxyFunction = "djb2"
	HAProxyWT6   HAProxyFunction = "wt6"
	HAProxyCRC32 HAProxyFunction = "crc32"
)

// A HAProxyModifier is the last word of a hash-type line.
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
// The function and the modifiers are the words after consistent.
//
// A hash key is the id of a server in decimal. Unless a server line sets it, the id
// is the number of the line, from 1. Give the server's name as the Name and its id as
// the HashKey. The weight is the server's weight, from 1 to 256. The order of the
// servers does not matter.
//
// A key is what the balance line takes from the request:
//
//   - url_param: the parameter as written in the URL, with its escapes. RawParam
//     returns it.
//   - uri: the path as written in the URL, without the query.
//   - hdr: the value of the header up to the first comma.
//   - hash: the value of the expression.
//   - source: GetHash takes what HAProxySource returns.
//
// If the parameter is missing, or the header is missing or empty, HAProxy takes the
// servers in turn.
//
// A server that is down, disabled or of weight 0 is a Draining backend, not an
// Unhealthy one: HAProxy removes its points, and other points are then nearer to its
// keys.
//
// The tests compare with HAProxy 2.6.12, which forwards random keys to random
// servers, with all functions, weights, ids and disabled servers. Not covered are
// hash-key of HAProxy 3, which gives a server other points than its id does,
// hash-balance-factor, slowstart, backup servers and dynamic weights.
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

// HAProxySource returns the hash of a client's address under balance source. Pass it
// to GetHash of a ring with the placement of HAProxy. The modifiers are those of the
// hash-type. The function of the hash-type does not matter. The hash of an invalid
// address is 0.
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

// A haproxyPoint is a point in HAProxy's own form.
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

// nearest turns points into a ring for chash. HAProxy gives a key to the nearest
// point, at equal distance to the one before the key. A ring of chash gives a key to
// the first point at or after it. So each point moves half way towards the next one.
// No two points have the same position.
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
