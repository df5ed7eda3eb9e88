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
//	unitWeight         chash_ring only: the weight that has as many points as
//	                   replicas says; one that suits the weights by default
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
//	connectWait        how long RPCs wait for the connection to their key's
//	                   server, such as "0.5s", before they go to another one;
//	                   without a limit by default
//
//	lazy               true: a server is connected to when a key first needs it;
//	                   false by default: all are, from the start
//
// The text is the JSON form of a protocol buffer, in which a number may be a string
// and a 64-bit number always is one. An unknown field makes the service config invalid,
// as does a value that is out of range or a field of the other policy; the error lists
// the fields. grpc-go then keeps the service config that it has, and without one RPCs
// fail with the reason.
//
// Whether the servers fit the table or the ring shows only when they are known. If they
// do not, the policy logs why and asks for name resolution again. It keeps the
// configuration, the hash keys and the weights that it has, of the servers that are
// still in the list; those that are gone leave, and those that are new do not come. If
// no server is left, RPCs fail with the reason.
//
// No RPC is repeated by the policy: one whose connection is lost fails, unless a
// retryPolicy of the service config repeats it.
//
// Another seed, tableSize, replicas or unitWeight lays out another table or ring, for whose
// load the RPCs then in flight do not count. Another value of the other fields does
// not, but RPCs that began without any loadFactor never count.
//
// # The key of an RPC
//
// It is that of [WithKey]. Without one it is the value of the metadata named
// requestHashHeader that the RPC is sent with; if there are several, all of them,
// joined by commas; if all of them are empty, there is no key. RPCs without a key go to
// the READY servers in turn, whatever their weights. With a loadFactor they pass those
// that are full, and count towards the load like any other.
//
// # Servers
//
// An endpoint of the resolver is a backend of chash. Its hash key is that of
// [SetHashKey], its weight that of [SetWeight]. Without one of these, the attributes
// that grpc-go itself has for them count, and without those the hash key is the first of
// its addresses in byte order, and the weight is 1. Endpoints are the same from one
// update to the next if they have the same addresses, in whatever order. Of several in
// one update only the first counts, and one without an address does not.
//
// Resolvers such as DNS know of addresses only. An [Annotator] wraps any of them and
// gives endpoints weights, hash keys and other attributes from a function; a [File] is
// an Annotator that has them from a file, which it keeps watching.
//
// Endpoints that share a hash key share one place: its RPCs go to the heaviest of
// them that has not failed, among equals to the first by address. The place weighs as
// much as the heaviest of them, whatever its state.
//
// An update of the resolver that changes an endpoint, a hash key or a weight is one
// change of the table or the ring, however much it changes; one that does not,
// changes nothing. RPCs in flight to an endpoint that is gone end as they would
// have.
//
// # Weights on a ring
//
// A server of weight w has replicas*w/unitWeight points, rounded, and at least one. By
// default the unit is 1 as long as the weights are 64 or less on average and sum up to
// 26,214 or less. Otherwise it is the smallest weight, or that times the smallest power
// of two with which the same is true of the weights in units. So any weights fit, such as
// those of xDS, which sum up to about 2^31; and where weights have the same ratios, keys
// have the same servers. What it costs: when the smallest weight changes, or the sum
// passes one of these limits, many keys move, about half of them where the unit doubles.
// A unitWeight that is set moves none then. A table has no unit: its slots follow the
// ratios of the weights.
//
// # Connectivity
//
// Keys stay with their server while its connection is being made: when the channel
// starts, when it was idle, and when the server has closed the connection because of
// its age. Their RPCs wait. Once an attempt to connect has failed, which is
// TRANSIENT_FAILURE, the keys of that server go on to their next candidates, and they
// come back when the connection is READY; no other key moves, and nothing is laid out
// anew.
//
// An RPC with a deadline does not wait in vain. It goes to the next candidate that is
// READY once the connection has been under way three times as long as the RPC has left:
// one that begins together with the connection waits for three quarters of its time.
// So a server that accepts connections and says nothing makes RPCs slow, and fails none
// that have the last quarter of their time to spare. To wait less, set connectWait; with
// "0s", RPCs do not wait while any server is READY.
//
// There is one pick_first policy for each endpoint, which connects to its addresses,
// tells of its connectivity, and takes part in client-side health checking and outlier
// detection. A server is connected to again whenever the connection is lost.
//
// With lazy, a server is connected to when a key first leads there, together with the
// next candidate of that key, so that a failover finds it connected. A connection that
// is lost is made again when a key needs it. RPCs without a key have one more server
// connected, and then another, until all are. ClientConn.Connect connects one server.
//
// If all servers have failed, RPCs fail with the connection error of their key's own
// server, or wait if they are wait-for-ready.
//
// gRFC A42 and A61 describe ring_hash. As there,
//   - the state of the channel is READY if that of a server is, or else
//     TRANSIENT_FAILURE if that of two or more is, so that a policy above this one can
//     fail over, or else CONNECTING if that of one is, or if one failed and there
//     are others, or else IDLE if that of one is, or else TRANSIENT_FAILURE;
//   - a server in TRANSIENT_FAILURE stays there until it is READY, and RPCs pass
//     it over;
//   - while the state of the channel is TRANSIENT_FAILURE, or CONNECTING, some server
//     is being connected to, also without RPCs.
//
// Unlike there,
//   - all servers are connected to from the start, unless the policy is lazy: so a
//     server that is down is known before an RPC meets it;
//   - an RPC does not wait until its deadline where another server is READY;
//   - where a server's health checks fail again and again, RPCs do not wait for the
//     connection each time.
//
// # Observation
//
// A [Handle] shows which server has a key and why, the servers and their connections,
// and the statistics of the table or ring, which chashprom collects from it. What
// becomes of one RPC is what a stats.Handler of grpc-go sees, as with any policy: that
// it had to wait for a connection in DelayedPickComplete, and the server in the
// RemoteAddr of OutHeader.
//
// # Policies above
//
// The policies can be children of outlier_detection_experimental, priority_experimental
// and weighted_target_experimental, in a service config or by a custom policy of xDS. A
// server that is ejected as an outlier is one that has failed. Under weighted_target
// each child has its own table or ring: a key has one server in each, and which child an
// RPC goes to does not depend on the key. A hash policy of an xDS route does not give a
// key: grpc-go keeps the hash to itself.
//
// # Concurrency
//
// Picks take no lock and read the table or ring that all pickers share, of which
// each sees one whole state. They allocate nothing, except where requestHashHeader
// is read, which copies the values, and where an RPC waits.
package chashgrpc
