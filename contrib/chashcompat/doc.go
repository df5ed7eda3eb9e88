// Package chashcompat has the placements of ten other systems, for [chash] to say where
// each of them sends a key. A structure that is made with one of its options has all that
// others have: lookups, health, GetN, Diff, Explain and the rest.
//
//	ring, err := chash.NewRing(backends, chashcompat.Nginx())
//	...
//	server, err := ring.Get(key) // the server to which nginx sends the key
//
// The systems, the setting that each option is for, and what a hash key of a backend is,
// which is its Name where its HashKey is empty:
//
//	nginx         hash ... consistent      Nginx                 HOST:PORT of the server line
//	HAProxy       hash-type consistent     HAProxy               the id of the server
//	libmemcached  consistent, KETAMA       Libmemcached          HOST:PORT
//	              KETAMA_WEIGHTED          LibmemcachedWeighted  HOST:PORT
//	              CONSISTENT_KETAMA_SPY    Spymemcached          HOST:PORT
//	twemproxy     distribution: ketama     Twemproxy             the name of the line or HOST:PORT
//	Envoy         RING_HASH                EnvoyRingHash         hash_key, host name or IP:PORT
//	              MAGLEV                   EnvoyMaglev           likewise
//	grpc-go       ring_hash_experimental   GRPCRingHash          hash key or address
//	Cilium        maglev                   Cilium                ADDR:PORT/PROTO
//	Katran        Maglev, MaglevV2         KatranV1, KatranV2    the hash of the address
//	Thanos        ketama                   Thanos                HOST:PORT
//	groupcache    NewHTTPPool              Groupcache            the URL of the peer
//
// The comment of each option says what is promised: which version of the system was
// compared, and how. The tests have 1,200 decisions or more for most systems, and for some
// whole tables, all recorded from the real ones; a comparison with programs and packages
// that run beside it is in the folder live. What a system does when several of its
// backends fail, with retries, zones, bounded loads and the like, is not promised.
//
// # Backends
//
// A backend has the HashKey that the system hashes, in the form that the comment says, and
// the Weight that the system's configuration has. Another form is an ErrName, which shows the
// right one. Name and Value are the caller's.
//
// Where the result depends on the order of the system's configuration, the option takes
// the hash keys in that order. It may name more than there are, so that backends can come
// and go. If it lacks one, the change that adds the backend returns ErrOrder. Most often
// the order matters for a few keys only; the comment of the option says for which.
//
// # Keys
//
// Get hashes a key as the system does, and the comment says what the system takes for a
// key. RawParam, HAProxySource, TwemproxyKey and ThanosKey help. On rings of 32 bits, which are all but
// those of Envoy, grpc-go and Thanos, GetHash takes the hash shifted left by 32. On the
// tables of Cilium and Katran, GetHash takes the hash of a packet, and Get hashes a string
// in a way that those systems do not know.
//
// # Cost
//
// A lookup costs what one on a ring or a table of chash costs, with the hash of the system,
// and allocates nothing. A change lays out all points or slots anew.
//
// [chash]: https://pkg.go.dev/github.com/chash-go/chash
package chashcompat
