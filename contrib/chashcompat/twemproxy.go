package chashcompat

import (
	"fmt"
	"strings"

	"github.com/chash-go/chash"
)

// A TwemproxyHash is the hash of a pool.
type TwemproxyHash string

// The hashes of twemproxy that are covered. An empty one is twemproxy's default,
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

// twemproxyMaxName is the length of the longest name. With a number of 10 digits, it
// has 272 bytes. twemproxy cuts off the rest.
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
// The hash is that of the pool. An empty one is the default, fnv1a_64.
//
// A hash key is the name at the end of a servers line. Without a name, it is
// HOST:PORT as written there, also with the port 11211, or the path of a socket. A
// name must not end in :11211, which is cut off here, and must not begin with a
// slash, which means a socket here. The weight is that of the line. All weights
// together are below 2^32. The order is that of the lines. If two servers have a
// point at the same position, the first server has it.
//
// A key is the key of the request. If the pool has a hash_tag, it is what
// TwemproxyKey returns. The hash of an empty key is 0 for every hash of the pool.
// Redis has such keys.
//
// A server that auto_eject_hosts has ejected is a Draining backend: twemproxy then
// places the others without it.
//
// The tests compare with twemproxy 0.5.0, which stores random keys on real memcached
// servers, with all hashes above, weights, names and hash tags. Characters are
// signed, as on x86. Not covered are the hashes crc16, murmur, hsieh and jenkins, and
// other distributions.
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

// twemproxyLabel is the name of a server as twemproxy reads it from its line. The
// name of a socket keeps the colon before the weight.
func twemproxyLabel(name string) string {
	if isSocket(name) {
		return name + ":-"
	}
	return strings.TrimSuffix(name, memcachedPort) + "-"
}

// TwemproxyKey returns the part of a key that twemproxy hashes in a pool with that
// hash_tag, such as "{}": the text between the first "{" and the next "}". The result
// is the whole key if one of them is missing, if nothing is between them, or if the
// hashTag does not have two bytes.
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
