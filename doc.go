// Package chash maps keys to backends by consistent hashing. A key, say the name
// of a client or of an object, leads to the same backend in every process that
// has the same backends, and when those change, few keys move.
//
//	table, err := chash.NewMaglev(chash.Named("10.0.0.1:80", "10.0.0.2:80"))
//	...
//	address, err := table.Get("user:42") // once per request
//
// A [Backend] has a name, a weight, a state of health, and a value of any type,
// which is what lookups return: a connection, say. Each key has an order of
// preference of its own. Get returns the first healthy backend in it, GetN and
// AppendN the first n, Candidates all of them one by one, and GetFunc the first
// that the caller accepts. Acquire returns the first whose load is below a bound, and
// AcquireFunc the first of these that the caller accepts.
//
// When a backend turns [Unhealthy], its keys go on to the next in their orders,
// and they come back with its health; no other key moves, and nothing is rebuilt.
// A [Draining] backend has given up its keys as if it were removed, but is still
// known by its name.
//
// Backends with the same HashKey (which is the Name where it is empty) share one
// place, a placement. Lookups meet it once and return the heaviest of its healthy
// backends, among equals the first by name. It weighs as much as the heaviest of
// its backends, whatever their health, the Draining ones left out.
//
// # Maglev or Ring
//
// There are two structures, [Maglev] and [Ring]. They hold the same backends,
// answer the same calls for lookups, changes, leases and statistics, and return the
// same errors, so that a service changes from one to the other by calling the other
// constructor; to leave it open, declare an interface of the methods that are called.
// Only the calls about slots or points differ: AppendTable of a Maglev; Ranges,
// Holders, Position and AppendPoints of a Ring, whose Diff also has ranges. [Options]
// makes options of both fit either constructor.
//
//	             Maglev                          Ring
//
//	lookup       one xxHash64 of the key,        one SHA-256 of the key, and a
//	             one slot read                   search of expected constant time
//
//	memory       a table of 65,537 slots, each   at most 16 bytes a point; a
//	             1 byte for up to 256            backend has 160 points for each
//	             placements, 2 bytes for up      unit of its weight
//	             to 65,536, else 4
//
//	load         as the weights say, to about    of equal backends, a standard
//	             a slot; no two equal backends   deviation of about 8 %, which
//	             differ by more than one         is 1/sqrt(160)
//
//	a change     lays all slots out anew, in     hashes the points that come or
//	             about M log M steps for M       go, and merges them with the
//	             slots                           rest
//
//	keys moved   those that must, and as a       those that must, and no other
//	             rule up to 1 % of all
//	             others; see below
//
// There is a way between. [WithSlack] fills a table so that a backend may have a
// little more than its fair share, and fewer keys move. Relative to the fewest
// possible, a removal from 100 equal backends moves
//
//	slack             none    0       1 %     5 %     no limit    Ring
//	keys moved        1.56    1.28    1.14    1.01    1.00        1.00
//	largest share     1.00    1.00    1.01    1.05    1.06        1.19
//
// The table size and the number of points are the defaults: [WithTableSize] and
// [WithReplicas] set others. Both structures take some 100 bytes more for each
// backend.
//
// Take a Maglev for balancing load: many lookups, and each backend as busy as its
// weight says. Of ten backends, a removal moves the 10 % of the keys that it must
// and on average 0.3 % more; of 1,000, the 0.1 % that it must and on average 0.6 % more.
// There is no bound for every set of names, which is in the nature of Maglev: of 16,000
// random sets of three or ten backends, 8 moved more than 1.2 % beyond those that must,
// and the worst 8 %. Sets are known of which half of the others move. Give
// the table at least 100 slots for each backend. With more slots the load is more
// even and fewer keys move, but less of the table fits into a processor's cache.
//
// Take a Maglev with slack where a key that moves costs something: with a slack of
// 0.01 where the load must be even, and without a limit for a cache. A table without
// a limit moves the keys that a ring would move, and a lookup costs what it costs in
// a table.
//
// Take a Ring for sharded stores, which must know the ranges of keys that a backend
// has, gains and loses, and where the backends may become very many: a ring grows
// with them, and a table does not.
//
// # The same mapping everywhere
//
// Which backend a key leads to follows from the backends and the options alone:
// not from the process, the machine or its byte order, nor from the order of the
// calls that led there. It is the same from release to release: one with another
// mapping would have a new major version. Only Next, and Acquire and AcquireNext
// where a backend is full, depend on the calls before them. The last section says
// exactly how keys are mapped.
//
// # Concurrency
//
// All methods of both types are safe for concurrent use by multiple goroutines.
// Whatever only reads takes no lock: lookups, and Backends, Stats, Explain, Diff or
// Marshal alike. Each sees one whole state, that before a change or that after it, and
// none waits for a rebuild: that happens inside the call which changes the backends.
// Such calls wait for each other. Two kinds of calls take a lock that is held only while
// a state is published: Stats, to read the loads, and the first Acquire or AcquireNext,
// which makes the counters.
//
// Lookups do not allocate, but for the slice that GetN returns, a sequence of
// Candidates that is kept and not just ranged over, and the set by which more
// than 32 placements are told apart.
//
// # Other layouts
//
// [WithRingLayout] and [WithTableLayout] let a function of the caller's place the points
// of a ring or fill the slots of a table. Lookups, health, leases and the rest are as
// before. The module contrib/chashcompat has layouts that place keys as nginx, HAProxy,
// Envoy, memcached clients and others do.
//
// # What it is not for
//
//   - It checks no health, opens no connection and moves no data. It is told what
//     is healthy, and it tells where a key belongs.
//   - It makes no processes agree: where they were told of different backends,
//     they map some keys differently until they are told the same.
//   - Get does not see load: all requests of one key go to one backend, however
//     many they are. Acquire and AcquireNext do.
//   - It keeps no secret: whoever knows the backends can compute keys that all
//     lead to one of them. Where clients choose their keys and cannot be trusted,
//     give [WithHash] a hash with a secret.
//   - For numbered shards that are never unhealthy and come and go only at the
//     end, jump consistent hashing (Lamping and Veach, 2014) needs no memory.
//
// # The mapping in detail
//
// This is for other programs that must agree with it, and for whoever writes a
// function for WithHash. ++ joins strings, 0xBA, 0xBC and 0xBE are one byte each, and
// mod is the remainder of a division.
//
// H is xxHash64. With a seed s other than 0, H(x) is mix(xxHash64(x) xor s). With
// WithHash, H is the function given. mix(x) is the finalizer of SplitMix64, in three
// steps on 64 bits: x becomes (x xor (x >> 30)) * 0xBF58476D1CE4E5B9, that becomes
// (x xor (x >> 27)) * 0x94D049BB133111EB, and the result is x xor (x >> 31).
//
// Backends make placements. The hash key of a backend is its HashKey, or its Name if
// HashKey is empty, and all backends with one hash key are one placement. A weight of 0
// is 1, and a placement weighs as much as the heaviest of its backends. Draining
// backends are left out throughout.
//
// On a Maglev of M slots, a key belongs to slot H(key) mod M. Preference j, from
// 0, of a placement with hash key p is slot (offset + j*skip) mod M, where offset
// is H(0xBA ++ p) mod M and skip is H(0xBE ++ p) mod (M-1) + 1. Placements claim
// slots in turn, each the first of its preferences that is free, until no slot
// is. Claim k, from 0, of a placement of weight w has rank 0 for k = 0 and
// (2k+1)/(2w) after that. Lower ranks claim first; at equal rank the heavier
// placement does, and then the one with the smaller hash key, in byte order. So
// each placement has a slot, equal weights give the plain table of the Maglev
// paper, and shares are rounded to whole slots by Webster's method.
//
// With a slack of e, offset, skip and the preferences are the same, and other claims
// win. Claim j of a placement of weight w is that for its preference j, for each j from
// 0 to M-1. It has the time T(j)/w, where T(j) = d(0) + ... + d(j-1) + floor(d(j)/2)
// and d(i) = floor(2^40/(M-i)). All claims are heard in the order of their times; at
// equal times that of the heavier placement is heard first, and then that of the smaller
// hash key. A claim wins its slot if the slot is free and the placement has fewer slots
// than its cap. So a placement may have no slot.
//
// Caps are these. Let W be the sum of the weights, and E the integer nearest to 65536*e,
// halves rounded up. The cap of a placement with hash key p is x, without its fraction,
// where x is an integer divided by 2^32: the integer is floor((65536+E)*M*w*65536/W) +
// floor(H(0xBC ++ p)/2^32). If E is 0, the caps are made to add up to M. Where they are
// too few, placements get one more each, the largest fraction of x first. Where they are
// too many, placements get one less each, but not less than 0, the smallest fraction
// first. Among equal fractions the smaller hash key is first. If E is not 0 and the caps
// add up to less than M, each is one more. Then each cap of 0 is 1. From an e of 2^31 on
// there are no caps.
//
// The order of preference of a key with h = H(key) is that in which placements are
// met on these slots: (h + i*stride) mod M for each i from 0 to 64, both included, where
// stride is mix(h) mod (M-1) + 1, and h + i*stride is not reduced to 64 bits; then all
// slots, one by one and wrapping, from slot s = (h * 0x9E3779B97F4A7C15 mod 2^64) mod M
// on. The n placements that have no slot come after those, in the order of their hash
// keys, wrapping, from number s mod n on. GetHash begins with h as it is given. Next is
// not a part of the mapping: with equal weights it begins with the placement of the
// smallest hash key, in byte order, and goes on in that order.
//
// On a Ring, a placement of weight w with hash key p has n points, where n is
// (w*replicas + unit div 2) div unit, or 1 if that is 0; the unit weight is 1 if none is
// given. They are the points i from 0 to n-1, each at SHA-256(p ++ "#" ++ i in decimal), a big-endian number
// of 256 bits. A key belongs to the first point at or after SHA-256(key), or, past
// the last one, to the first of all; its order of preference is that in which
// placements are met from there on. A seed other than 0 is put before each string
// that is hashed, as 8 big-endian bytes. With WithHash, H takes the place of
// SHA-256 and positions have 64 bits; points at one position are then in the order
// of their hash keys. GetHash begins with the first point whose first 64 bits are
// at or after the hash.
//
// Acquire goes through the healthy placements in the key's order of preference and takes
// the first that has room. Let n be the load of the backend that lookups return there,
// and w the weight of this backend. Let W be the sum of w over all healthy placements,
// and T the sum of n over them plus the cost of the lease. With the load factor c and
// the load floor f there is room if
//
//	n*W < (c*T)*w or n*W < (f*w)*W
//
// where n, T, w and W are float64 numbers and each product is rounded to one. AcquireFunc
// leaves out the placements that accept refuses. If none of the others has room, W and T
// are summed up over these alone, and the first of them in the order that has room by
// that is taken. AcquireNext begins with the placement whose turn it is, and goes on in
// the byte order of hash keys, after the last one with the first.
package chash
