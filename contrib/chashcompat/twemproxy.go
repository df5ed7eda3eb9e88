package chashcompat

import (
	"fmt"
	"strings"

	"github.com/chash-go/chash"
)

// A TwemproxyHash is the hash of a pool.
type TwemproxyHash string

// The hashes of twemproxy that are covered. An empty one is its default,
// TwemproxyFNV1a64.
const (
	TwemproxyFNV1a64    TwemproxyHash = "fnv1a_64"
	TwemproxyFNV164     TwemproxyHash = "fnv1_64"
	TwemproxyFNV1a32    TwemproxyHash = "fnv1a_32"
	TwemproxyFNV132     TwemproxyHash = "fnv1_32"
	TwemproxyMD5        TwemproxyHash = "md5"
	TwemproxyCRC32      TwemproxyHash = "crc32"
	TwemproxyCRC32a     TwemproxyHash = "crc32a"
	TwemproxyOneAtATime TwemproxyHash = "one_at_a_time"
)

func (h TwemproxyHash) function() func(key string) uint32 {
	switch h {
	case TwemproxyFNV1a64:
		return fnv1aLow
	case TwemproxyFNV164:
		return fnv1Low
	case TwemproxyFNV1a32:
		return fnv1a
	case TwemproxyFNV132:
		return fnv1
	case TwemproxyMD5:
		return md5Word
	case TwemproxyCRC32:
		return func(key string) uint32 { return crc32Sum(key) >> 16 & 0x7FFF }
	case TwemproxyCRC32a:
		return crc32Sum
	case TwemproxyOneAtATime:
		return oneAtATime[string]
	}
	return nil
}

// twemproxyMaxName is the length of the longest name that fits: with a number of 10 digits
// it has 272 bytes, and twemproxy cuts off what is beyond them.
const twemproxyMaxName = 261

var twemproxyNames = form{"twemproxy", `HOST:PORT without the weight, the path of a socket, or the name that follows them, of up to 261 bytes, such as "10.0.0.1:11211" or "alpha"`, func(name string) bool {
	rest, _, found := splitPort(name)
	host, _, twice := splitPort(rest)
	withWeight := found && (twice && !strings.Contains(host, ":") || isSocket(name))
	return isPlain(name) && !withWeight && len(name) <= twemproxyMaxName
}}

// Twemproxy is the placement of a twemproxy (nutcracker) pool with these settings:
//
//	hash: fnv1a_64
//	distribution: ketama
//
// The hash is that of the pool; an empty one is the default, fnv1a_64. A hash key is the
// name at the end of a line of servers. If there is none, it is HOST:PORT as it stands there,
// also with the port 11211, or the path of a socket. A name at the end of a line must not end
// in :11211, which is cut off here, and must not begin with a slash, which is a socket here.
// The weight is the weight of that line. All weights together are below 2^32. The order is
// that of the lines. It matters where two servers have a point at one position: then the
// first server has it.
//
// A key is the key of the request. If the pool has a hash_tag, it is what TwemproxyKey
// returns. Whatever the hash of the pool is, that of an empty key is 0. Redis has such a key.
//
// A server that auto_eject_hosts has ejected is a Draining backend, since the others are then
// placed without it.
//
// The tests compare it with twemproxy 0.5.0, which stores random keys on real memcached
// servers, with all these hashes, weights, names and hash tags. Like twemproxy on x86, it
// takes characters for signed. Not covered are the hashes crc16, murmur, hsieh and jenkins
// and the other distributions.
func Twemproxy(hash TwemproxyHash, order ...string) chash.RingOption {
	const name = "twemproxy"
	if hash == "" {
		hash = TwemproxyFNV1a64
	}
	keys := hash.function()
	if keys == nil {
		return badRing(name, fmt.Errorf("%w: the hash %q of twemproxy", ErrSetting, hash))
	}
	hashOrZero := func(key string) uint32 {
		if key == "" {
			return 0
		}
		return keys(key)
	}
	return ringOption(name+" "+string(hash), hashOrZero, twemproxyPoints, twemproxyNames, order)
}

func twemproxyPoints(placements []chash.Placement, arranged []int) (ring, error) {
	if _, err := boundedWeight(placements); err != nil {
		return nil, err
	}
	return ketama(placements, arranged, twemproxyLabel)
}

// twemproxyLabel is the name of a server as twemproxy reads it from its line. That of a socket
// has the colon before the weight.
func twemproxyLabel(name string) string {
	if isSocket(name) {
		return name + ":-"
	}
	return strings.TrimSuffix(name, memcachedPort) + "-"
}

// TwemproxyKey returns the part of a key that twemproxy hashes for a pool with that hash_tag,
// such as "{}": what is between the first of its first character and the next of its
// second. It is the whole key where one of them is missing, where nothing is between them, and
// for a hashTag that has not two bytes.
func TwemproxyKey(key, hashTag string) string {
	if len(hashTag) != 2 {
		return key
	}
	begin := strings.IndexByte(key, hashTag[0]) + 1
	if begin == 0 {
		return key
	}
	n := strings.IndexByte(key[begin:], hashTag[1])
	if n <= 0 {
		return key
	}
	return key[begin : begin+n]
}
