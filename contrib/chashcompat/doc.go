// Package chashcompat tells where ten other systems send a key. Each of its options
// gives a [chash] structure the placement of one system. The structure has all calls
// of chash: lookups, health, GetN, Diff, Explain and the rest.
//
//	ring, err := chash.NewRing(backends, chashcompat.Nginx())
//	...
//	server, err := ring.Get(key) // the server to which nginx sends the key
//
// The table lists the systems, the setting of each option, and the hash key of a
// backend. The hash key is the HashKey of a Backend, or its Name if the HashKey is
// empty.
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
// The comment of each option says what the tests compare, and with which version of
// the system. For most systems they replay 1,200 recorded decisions or more, for some
// whole tables. The folder live compares with systems that run. No option covers what
// a system does when several backends fail, with retries, zones, bounded loads and
// the like.
//
// # Backends
//
// The hash key must have the form that the comment of the option gives. Any other
// form is an ErrName, whose text shows the right one. The Weight is that of the
// system's configuration. The Value, and the Name beside a HashKey, are free.
//
// Some options take an order: the hash keys in the order of the system's
// configuration. The order usually matters for a few keys only: the comment of the
// option says which. An order may name more hash keys than there are backends, so
// that backends can come and go. A change that adds a backend missing in the order
// returns ErrOrder.
//
// # Keys
//
// Get hashes a key as the system does. The comment of the option says what a key is
// in the system. RawParam, HAProxySource, TwemproxyKey and ThanosKey help.
//
// The rings of Envoy, grpc-go and Thanos have 64 bits. All other rings have 32 bits:
// there, GetHash takes the hash shifted left by 32. On the tables of Cilium and
// Katran, GetHash takes the hash of a packet. Get hashes strings there in a way that
// these systems do not know.
//
// # Cost
//
// A lookup costs the hash of the system, plus the same search as in any ring or table
// of chash. It allocates nothing. A change lays out all points or slots anew.
//
// [chash]: https://pkg.go.dev/github.com/chash-go/chash
package chashcompat
