package chashcompat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/chash-go/chash"
)

// A LibmemcachedHash is a hash function of libmemcached.
type LibmemcachedHash string

// The hash functions of libmemcached that are covered. An empty one is libmemcached's
// default, LibmemcachedOneAtATime.
const (
	LibmemcachedOneAtATime LibmemcachedHash = "one_at_a_time" // MEMCACHED_HASH_DEFAULT
	LibmemcachedMD5        LibmemcachedHash = "md5"           // MEMCACHED_HASH_MD5
)

func (h LibmemcachedHash) function() (func(key string) uint32, error) {
	switch h {
	case LibmemcachedOneAtATime, "":
		return oneAtATime[string], nil
	case LibmemcachedMD5:
		return md5Word, nil
	}
	return nil, fmt.Errorf("%w: the hash %q of libmemcached; there are one_at_a_time and md5", ErrSetting, h)
}

// memcachedPort is the port that libmemcached and twemproxy leave out.
const memcachedPort = ":11211"

var libmemcachedNames = form{"libmemcached", `HOST:PORT or the path of a socket, such as "10.0.0.1:11211" or "/run/memcached"`, func(name string) bool {
	return isHostPort(name) || isSocket(name)
}}

// isSocket reports whether a name is the path of a socket.
func isSocket(name string) bool { return strings.HasPrefix(name, "/") && isPlain(name) }

// Libmemcached is the placement of a libmemcached client with a consistent
// distribution:
//
//	memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_CONSISTENT);
//
// MEMCACHED_BEHAVIOR_KETAMA gives the same. The hash is MEMCACHED_BEHAVIOR_HASH.
// libmemcached uses it for servers and keys. MEMCACHED_BEHAVIOR_KETAMA_HASH does not
// matter.
//
// A hash key is HOST:PORT as given to the client, also with the port 11211, or the
// path of a socket. The weight is the server's weight, of any size. If any server
// weighs more than 1, all servers have other points, as in libmemcached. The order is
// that of the servers. If two servers have a point at the same position, the first
// server has it.
//
// A key is the key without the prefix of MEMCACHED_CALLBACK_NAMESPACE, unless
// MEMCACHED_BEHAVIOR_HASH_WITH_PREFIX_KEY is set.
//
// With MEMCACHED_BEHAVIOR_REMOVE_FAILED_SERVERS, a failed server is as good as
// removed.
//
// The tests compare with libmemcached 1.1.4, for random servers, weights and keys,
// and look on real servers for keys that its client stored. They set the distribution
// before they add servers. Characters are signed, as on x86. Not covered are other
// hashes, and the server that a client takes after one has failed.
func Libmemcached(hash LibmemcachedHash, order ...string) chash.RingOption {
	const name = "libmemcached consistent"
	h, err := hash.function()
	if err != nil {
		return badRing(name, err)
	}
	if hash == "" {
		hash = LibmemcachedOneAtATime
	}
	return ringOption(name+" "+string(hash), h, libmemcachedPoints(h, libmemcachedLabel), libmemcachedNames, order)
}

// libmemcachedPoints returns the function for the points of a consistent
// distribution: 100 for each backend or, if any backend has a weight, as many as in
// the weighted distribution.
func libmemcachedPoints(hash func(key string) uint32, label func(name string) string) pointsFunc {
	equal := labelled(hash, label)
	return func(placements []chash.Placement, arranged []int) (ring, error) {
		if totalWeight(placements) == uint64(len(placements)) {
			return equal(placements, arranged)
		}
		return ketama(placements, arranged, label)
	}
}

func libmemcachedLabel(name string) string {
	if isSocket(name) {
		return name + ":0-" // its port
	}
	return strings.TrimSuffix(name, memcachedPort) + "-"
}

// labelled returns the function that gives each placement 100 points: the hashes of
// its label and a number.
func labelled(hash func(key string) uint32, label func(name string) string) pointsFunc {
	const perBackend = 100
	return func(placements []chash.Placement, arranged []int) (ring, error) {
		r, err := newRing(perBackend * uint64(len(placements)))
		if err != nil {
			return nil, err
		}
		for _, p := range arranged {
			text := label(placements[p].HashKey)
			for i := range perBackend {
				r.add(hash(text+strconv.Itoa(i)), p)
			}
		}
		return r, nil
	}
}

// LibmemcachedWeighted is the placement of a libmemcached client with weighted
// ketama:
//
//	memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
//
// PHP's OPT_LIBKETAMA_COMPATIBLE sets it too. MD5 hashes points and keys. All else is
// as with Libmemcached.
func LibmemcachedWeighted(order ...string) chash.RingOption {
	return ringOption("libmemcached weighted", md5Word, libmemcachedWeighted, libmemcachedNames, order)
}

func libmemcachedWeighted(placements []chash.Placement, arranged []int) (ring, error) {
	return ketama(placements, arranged, libmemcachedLabel)
}

// Spymemcached is the placement of a libmemcached client that imitates the Java
// client spymemcached:
//
//	memcached_behavior_set_distribution(pool, MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY);
//	memcached_behavior_set(pool, MEMCACHED_BEHAVIOR_HASH, MEMCACHED_HASH_MD5);
//
// All else is as with Libmemcached. The tests compare with libmemcached, not with
// spymemcached: its points also contain the host's name if it knows one.
func Spymemcached(order ...string) chash.RingOption {
	label := func(name string) string {
		if isSocket(name) {
			name += ":0"
		}
		return "/" + name + "-"
	}
	return ringOption("spymemcached", md5Word, libmemcachedPoints(md5Word, label), form{"spymemcached", libmemcachedNames.shape, libmemcachedNames.fits}, order)
}

// ketama returns a ring on which a placement of average weight has about 160 points,
// in groups of four. libmemcached and twemproxy compute the number in float32. They
// also add 1e-10 before they round down. This never matters: a number below an
// integer is farther from it.
func ketama(placements []chash.Placement, arranged []int, label func(name string) string) (ring, error) {
	n := float32(len(placements))
	r, err := newRing(160 * uint64(len(placements)))
	if err != nil {
		return nil, err
	}
	total := totalWeight(placements)
	var buf []byte
	for _, p := range arranged {
		text := label(placements[p].HashKey)
		share := float32(placements[p].Weight) / float32(total)
		for i := range int(float32(share*160/4) * n) {
			buf = strconv.AppendInt(append(buf[:0], text...), int64(i), 10)
			r.addMD5(buf, p)
		}
	}
	return r, nil
}
