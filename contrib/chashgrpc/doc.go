// Package chashgrpc makes the consistent hashing of chash two load-balancing
// policies of grpc-go, chash_maglev and chash_ring: all RPCs of one key go to one
// server, and when servers come, go or fail, few keys move. They differ as the
// Maglev and the Ring of chash do; its package comment helps to choose.
//
// Importing the package registers both. As with any policy, the service config
// chooses one, whether a resolver brings it or the program does:
//
//	conn, err := grpc.NewClient(target, grpc.WithDefaultServiceConfig(
//		`{"loadBalancingConfig": [{"chash_maglev": {"requestHashHeader": "x-user"}}]}`))
//
// # Configuration
//
//	tableSize          chash_maglev only: the number of slots, a prime;
//	                   65537 by default
//
//	replicas           chash_ring only: points for each unit of weight;
//	                   160 by default
//
//	seed               gives keys and servers another, unrelated mapping; an
//	                   integer, 0 by default
//
//	requestHashHeader  the metadata that an RPC's key is taken from, as in
//	                   ring_hash; none by default
//
//	loadFactor         bounded load: a server has at most this many times its
//	                   fair share of the RPCs in flight, rounded up, and keys
//	                   that find theirs full go on to the next; a number above
//	                   1, no bound by default
//
// Other fields are ignored, as grpc-go wants it. A value that is out of range, or
// a field of the other policy, makes the service config invalid: grpc-go then
// keeps the one it has, and without one RPCs fail with the reason. Whether the
// servers fit the table or the ring shows only when they are known; if they do not,
// the policy logs why, keeps the servers and the configuration that it has, and
// asks for name resolution again. If it has none yet, RPCs fail with the reason,
// also where another policy was in use before.
//
// No RPC is repeated by the policy: one whose connection is lost fails, unless a
// retryPolicy of the service config repeats it.
//
// Another seed, tableSize or replicas lays out another table or ring, for whose
// load the RPCs then in flight do not count. Another requestHashHeader or loadFactor
// does not, but RPCs that began without any loadFactor never count.
//
// # The key of an RPC
//
// It is that of [WithKey]. Without one it is the value of the metadata named
// requestHashHeader that the RPC is sent with; if there are several, all of them,
// joined by commas. RPCs without either go to the READY servers in turn, whatever
// their weights, but with a loadFactor past those that are full; they count towards
// the load like any other.
//
// # Servers
//
// An endpoint of the resolver is a backend of chash. Its hash key is that of
// [SetHashKey], by default its first address; its weight is that of [SetWeight],
// by default 1. Endpoints are the same from one update to the next if they have
// the same addresses, in whatever order. Of several in one update only the first
// counts, and one without an address does not.
//
// Endpoints that share a hash key share one place: its RPCs go to the heaviest of
// them that is READY, among equals to the first by address. The place weighs as
// much as the heaviest of them, READY or not.
//
// An update of the resolver that changes an endpoint, a hash key or a weight is one
// change of the table or the ring, however much it changes; one that does not,
// changes nothing. RPCs in flight to an endpoint that is gone end as they would
// have.
//
// # Connectivity
//
// A server is healthy to chash while its connection is READY, and unhealthy
// otherwise. So where a connection is lost, the keys of that server go on to
// their next READY candidates, and come back with the connection; no other key
// moves, and nothing is laid out anew. There is one pick_first policy for each
// endpoint, which connects to its addresses, tells of its connectivity, and takes part
// in client-side health checking and outlier detection. As in round_robin, it
// connects at once and again whenever the connection is lost.
//
// If no server is READY, RPCs wait as long as one is connecting for the first time
// or after it was READY, and otherwise fail with the last connection error, or wait
// if they are wait-for-ready.
//
// gRFC A42 describes ring_hash. As there,
//   - the state of the channel is READY if that of a server is, or else
//     TRANSIENT_FAILURE if that of two or more is, so that a policy above this one can
//     fail over, or else CONNECTING if that of one is, or if one failed and there
//     are others, or else IDLE if that of one is, or else TRANSIENT_FAILURE;
//   - a server in TRANSIENT_FAILURE stays there until it is READY, and RPCs pass
//     it over.
//
// Unlike there,
//   - all servers are connected to from the start, and not when a key first leads
//     to one: then each key can go to its own server at once, and a server that is
//     down is known before an RPC meets it;
//   - so an RPC does not wait for a server that is IDLE or CONNECTING while
//     another is READY, but goes to its next candidate. While a channel starts up,
//     the first servers to be READY take all keys until the others are;
//   - when all have failed, the error is the last one, not that of the key's own
//     server.
//
// # Concurrency
//
// Picks take no lock and read the table or ring that all pickers share, of which
// each sees one whole state. They allocate nothing, except where requestHashHeader
// is read, which copies the values, and with a loadFactor, for what gives the
// load back when the RPC ends.
package chashgrpc
