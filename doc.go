// Package chash maps keys to backends by consistent hashing. A key, such as the name of
// a client or an object, leads to the same backend in every process that has the same
// backends. When the backends change, few keys move.
//
//	table, err := chash.NewMaglev(chash.Named("10.0.0.1:80", "10.0.0.2:80"))
//	...
//	address, err := table.Get("user:42") // once per request
//
// A [Backend] has a name, a weight, a state of health and a value of any type. Lookups
// return the value: a connection, for example. Each key has its own order of preference
// over all backends. Get returns the first healthy backend in that order, GetN and
// AppendN the first n, Candidates all of them one by one, and GetFunc the first that
// the caller accepts. Acquire and AcquireFunc do the same for backends whose load is
// below a bound.
//
// The keys of an [Unhealthy] backend go on to the next backends in their orders, and
// return when it is healthy again. No other key moves, and nothing is rebuilt. A
// [Draining] backend has no keys, as if it were removed, but its name is still known:
// let its requests finish before you remove it.
//
// Backends with the same HashKey share one place, called a placement. The HashKey is
// the Name if none is set. Lookups return the heaviest healthy backend of a placement,
// among equals the first by name. A placement weighs as much as its heaviest backend
// that is not Draining, whatever its health.
//
// # Maglev or Ring
//
// A [Maglev] is a lookup table, a [Ring] is a hash ring with virtual nodes. Both have
// the same calls for lookups, changes, leases and statistics, and return the same
// errors. So code can change from one to the other by the constructor alone, with
// [Options] that fit both. Almost all keys then move, and GetHash of a Ring needs hashes
// of 64 bits. Only calls about slots and points differ.
//
//	             Maglev                          Ring
//
//	lookup       one xxHash64 and one read       one SHA-256 and a short search
//	memory       65,537 slots of 1 byte for up   160 points for each unit of
//	             to 256 placements, 2 bytes for  weight, of at most 16 bytes
//	             up to 65,536, else 4
//	load         as the weights say, to about    equal backends have a standard
//	             a slot                          deviation of about 8 %
//	a change     fills M slots again, in about   hashes the points that come or
//	             M log M steps                   go, and merges the rest
//	keys moved   those that must, and usually    those that must
//	             up to 1 % of the others
//
// [WithTableSize] and [WithReplicas] change the numbers of slots and points. Each
// backend costs about 100 bytes more. [WithSlack] lets a backend of a Maglev have a
// little more than its fair share, so that fewer keys move. For 100 equal backends, a
// removal moves this many times the fewest possible keys:
//
//	slack             none    0       1 %     5 %     no limit    Ring
//	keys moved        1.56    1.28    1.14    1.01    1.00        1.00
//	largest share     1.00    1.00    1.01    1.05    1.06        1.19
//
// Take a Maglev to balance load: many lookups, even shares. Give it at least 100 slots
// for each backend. More slots make shares more even and move fewer keys, but fit worse
// into a processor's cache. Of ten backends, a removal moves the 10 % that must move
// and 0.3 % of the others on average. Of 1,000 backends, it moves 0.1 % and 0.6 %.
// There is no bound for every set of names. Of 16,000 random sets of three or ten
// backends, 8 moved more than 1.2 % of the others, and the worst moved 8 %. For some
// known sets it is half of the others.
//
// Take a Maglev with slack if keys that move are costly, as in a cache: 0.01 keeps the
// load even, and no limit moves only the keys that must. Take a Ring for a sharded store
// that must know which ranges of keys a backend has, gets and gives. A ring grows with
// its backends; a table does not.
//
// # The same mapping everywhere
//
// The mapping depends on the backends and the options alone. The process, the machine,
// its byte order, the order of earlier calls and the release do not matter: a release
// with another mapping has a new major version. Only Next, and Acquire and AcquireNext
// at full backends, depend on earlier calls. The last section has the exact rules.
//
// # Concurrency
//
// All methods of both types are safe for concurrent use. Calls that only read see one
// whole state, from before or after a change. They take no lock and never wait for a
// rebuild. Only Stats and the first lease take a lock, which is held while a state is
// published. Calls that change the backends do the rebuild themselves
// and take turns. Lookups allocate nothing but the slice of GetN and Owners, a sequence
// of Candidates that is stored, and a set for more than 32 placements in one lookup.
//
// # Other layouts
//
// [WithRingLayout] and [WithTableLayout] let a function of yours place the points or
// fill the slots. Everything else stays the same. The module contrib/chashcompat has the
// layouts of nginx, HAProxy, Envoy, memcached clients and others.
//
// # What the package does not do
//
//   - It checks no health, opens no connections and moves no data.
//   - It does not coordinate processes. They agree once given the same backends.
//   - Get does not see load: all requests of a key go to one backend. Acquire and
//     AcquireNext see load.
//   - It keeps no secret. Whoever knows the backends can find keys for one of them. If
//     you do not trust those who choose keys, give [WithHash] a keyed hash.
//   - For numbered shards that are never unhealthy and change only at the end, jump
//     consistent hashing (Lamping and Veach, 2014) needs no memory.
//
// # The mapping in detail
//
// This section is for programs that must make the same mapping, and for functions given
// to WithHash. ++ joins strings; 0xBA, 0xBC and 0xBE are one byte each; mod is the
// remainder of a division; div is integer division.
//
// H is xxHash64. With a seed s other than 0, H(x) is mix(xxHash64(x) xor s). With
// WithHash, H is the given function. mix is the finalizer of SplitMix64, on 64 bits: x
// becomes (x xor (x >> 30)) * 0xBF58476D1CE4E5B9, then
// (x xor (x >> 27)) * 0x94D049BB133111EB, and the result is x xor (x >> 31).
//
// The hash key of a backend is its HashKey, or its Name if HashKey is empty. All
// backends with one hash key are one placement. A weight of 0 is 1. A placement weighs
// as much as its heaviest backend. Draining backends do not count.
//
// On a Maglev of M slots, a key belongs to slot H(key) mod M. Preference j, from 0, of a
// placement with hash key p is slot (offset + j*skip) mod M, where offset is
// H(0xBA ++ p) mod M and skip is H(0xBE ++ p) mod (M-1) + 1. Placements claim slots in
// turn until no slot is free. A claim takes the first preference that is free. Claim k,
// from 0, of a placement of weight w has rank 0 for k = 0, and rank (2k+1)/(2w) for
// others. The lowest rank claims first, at equal rank the heavier placement, then the
// smaller hash key in byte order. So each placement has a slot, equal weights give the
// table of the Maglev paper, and slots follow weights by Webster's method.
//
// With a slack of e, preferences are the same and claims are different. Claim j of a
// placement of weight w is for its preference j, for each j from 0 to M-1, and has the
// time T(j)/w, where T(j) = d(0) + ... + d(j-1) + floor(d(j)/2) and
// d(i) = floor(2^40/(M-i)). Earlier claims go first, at equal times those of the heavier
// placement, then those of the smaller hash key. A claim wins its slot if the slot is
// free and the placement has fewer slots than its cap. A placement may have no slot.
//
// Let W be the sum of the weights, and E the integer nearest to 65536*e, halves rounded
// up. The cap of a placement with hash key p is the integer part of x, where x is
// (floor((65536+E)*M*w*65536/W) + floor(H(0xBC ++ p)/2^32)) / 2^32. If E is 0, caps are
// changed until they add up to M: if they are too few, placements get one more each, the
// largest fraction of x first; if too many, placements get one less each, but not below
// 0, the smallest fraction first; at equal fractions, the smaller hash key first. If E
// is not 0 and caps add up to less than M, each gets one more. Then each cap of 0
// becomes 1. From an e of 2^31 on there are no caps.
//
// The order of preference of a key with h = H(key) is the order in which placements are
// met on these slots: (h + i*stride) mod M for each i from 0 to 64, both included, where
// stride is mix(h) mod (M-1) + 1 and h + i*stride is not reduced to 64 bits; then all
// slots one by one, wrapping, from slot s = (h * 0x9E3779B97F4A7C15 mod 2^64) mod M on.
// The n placements without a slot follow in the order of their hash keys, wrapping,
// from number s mod n on. GetHash begins with h as given. Next is not part of the
// mapping: with equal weights it begins at the smallest hash key and goes on in byte
// order.
//
// In the Diff of two tables, a slot whose placement is not healthy counts for the backend
// to which the hash slot + M*q leads. q is the high word of floor((2^64-1)/M) times the
// first output of SplitMix64 seeded with the slot. These hashes are spread like those of
// keys.
//
// On a Ring, a placement of weight w with hash key p has (w*replicas + unit div 2) div
// unit points, or 1 if that is 0. The unit weight is 1 by default. Point i, from 0, is at
// SHA-256(p ++ "#" ++ i in decimal), a big-endian number of 256 bits. A key belongs to
// the first point at or after SHA-256(key), and after the last point to the first. Its
// order of preference is the order in which placements are met from there on. A seed
// other than 0 is put before each hashed string, as 8 big-endian bytes. With WithHash, H
// replaces SHA-256 and positions have 64 bits; points at one position are in the order
// of their hash keys. GetHash begins with the first point whose first 64 bits are at or
// after the hash.
//
// Acquire takes the first healthy placement in the key's order of preference that has
// room. Let n be the load and w the weight of the backend that lookups return there. Let
// W be the sum of w over all healthy placements, and T the sum of n over them plus the
// cost of the lease. With load factor c and load floor f, a placement has room if
//
//	n*W < (c*T)*w or n*W < (f*w)*W
//
// in float64 numbers, each product rounded. AcquireFunc skips the placements that accept
// refuses. If none of the others has room, W and T are computed over these others alone,
// and the first in order that has room by that is taken. AcquireNext begins with the
// placement whose turn it is and goes on in the byte order of hash keys, wrapping.
package chash
