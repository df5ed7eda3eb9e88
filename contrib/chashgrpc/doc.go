// Package chashgrpc adds two load-balancing policies to grpc-go, chash_maglev and
// chash_ring. All RPCs of one key go to one server. When servers come, go or fail,
// few keys move. The policies differ like the Maglev and the Ring of chash. The
// package comment of chash helps to choose.
//
// Importing the package registers both policies. The service config chooses one. It
// comes from the resolver or from the program:
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
//	                   replicas says; by default, one that suits the weights
//
//	seed               gives keys and servers another, unrelated mapping; an
//	                   integer, 0 by default
//
//	requestHashHeader  the metadata with the key of an RPC, as in ring_hash;
//	                   none by default
//
//	loadFactor         bounded load: a server has at most this many times its
//	                   fair share of the RPCs in flight, rounded up; keys of a
//	                   full server go on to the next; a number above 1, no
//	                   bound by default
//
//	connectWait        how long RPCs wait for the connection to their key's
//	                   server before they go to another server, such as
//	                   "0.5s"; no limit by default
//
//	lazy               true: a server is connected when a key first needs it;
//	                   false by default: all servers are, from the start
//
// The text is the JSON form of a protocol buffer: a number may be a string, and a
// 64-bit number always is one. The service config is invalid if a field is unknown,
// has a value out of range, or belongs to the other policy. The error lists the
// fields. grpc-go then keeps its present service config. Without one, RPCs fail with
// the reason.
//
// The policy learns whether the servers fit the table or ring only when it knows
// them. If they do not fit, the policy logs why and asks for name resolution again.
// It keeps its configuration, hash keys and weights. Servers that left the list
// leave; new servers do not come. If no server is left, RPCs fail with the reason.
//
// The policy repeats no RPC. An RPC that loses its connection fails, unless a
// retryPolicy of the service config repeats it.
//
// Another seed, tableSize, replicas or unitWeight makes a new table or ring. RPCs
// then in flight do not count towards its load. Changes of the other fields keep the
// load, but RPCs that began without a loadFactor never count.
//
// # The key of an RPC
//
// The key is that of WithKey. Without one, it is the RPC's metadata named
// requestHashHeader: several values are joined by commas. If all values are empty,
// there is no key.
//
// RPCs without a key go to the READY servers in turn, whatever their weights. With a
// loadFactor, they pass full servers, and count towards the load.
//
// # Servers
//
// An endpoint of the resolver is a backend of chash. Its hash key is the first of
// these that is set: SetHashKey, the attribute of grpc-go's resolver/ringhash, the
// first of its addresses in byte order. Its weight is the first of these: SetWeight,
// the attribute of grpc-go's experimental/balancer/weight, 1. Endpoints with the same
// addresses, in any order, are the same endpoint. Of several in one update, the first
// counts. An endpoint without an address does not count.
//
// Resolvers such as DNS know only addresses. An Annotator wraps any resolver and
// gives its endpoints weights, hash keys and other attributes from a function. A File
// is an Annotator that watches a file instead.
//
// Endpoints with the same hash key share one place. Its RPCs go to the heaviest of
// them that has not failed, among equals to the first by address. The place weighs as
// much as its heaviest endpoint, whatever its state.
//
// An update of the resolver is one change of the table or ring, or none if endpoints,
// hash keys and weights stay the same. RPCs in flight to a removed endpoint end
// normally.
//
// # Weights on a ring
//
// A server of weight w has replicas*w/unitWeight points, rounded, and at least one.
// The default unit is 1 if the weights are at most 64 on average and 26,214 in sum.
// Otherwise the unit is the smallest weight. It is doubled until the weights, in
// units, are within these limits. So any weights fit, such as those of xDS, whose sum
// is about 2^31. Above the limits, only the ratios of the weights matter.
//
// The price: if the smallest weight changes, or the sum passes a limit, many keys
// move. About half of them move if the unit doubles. A fixed unitWeight avoids this.
// A table has no unit: its slots follow the ratios of the weights.
//
// # Connectivity
//
// Keys stay with their server while it connects, and their RPCs wait. A server
// connects when the channel starts, after idleness, and after it has closed an old
// connection. When an attempt to connect fails (TRANSIENT_FAILURE), the server's keys
// go on to their next candidates. The keys return when the connection is READY. No
// other key moves, and the table or ring is not rebuilt.
//
// An RPC with a deadline goes to the next READY candidate when the connection has
// been under way three times as long as the RPC has left. An RPC that begins together
// with the connection waits for three quarters of its time. So a server that accepts
// connections and says nothing makes RPCs slow, but fails none that can finish in the
// last quarter of their time. To wait less, set connectWait. With "0s", RPCs do not
// wait while any server is READY.
//
// Each endpoint has a pick_first policy of its own. This policy connects to the
// addresses, reports connectivity, and takes part in client-side health checking and
// outlier detection. A lost connection is made again.
//
// With lazy, a server connects when a key first needs it, together with the next
// candidate of that key, so that a failover finds a connection. A lost connection is
// made again when a key needs it. RPCs without a key make servers connect one after
// the other, until all are connected. ClientConn.Connect connects one server.
//
// If all servers have failed, RPCs fail with the connection error of their key's own
// server. RPCs that are wait-for-ready wait.
//
// gRFC A42 and A61 describe ring_hash. As in ring_hash,
//   - the channel has the first state that applies: READY if a server is;
//     TRANSIENT_FAILURE if two or more are, so that a policy above can fail over;
//     CONNECTING if a server is, or if one failed and others are IDLE; IDLE if a
//     server is; else TRANSIENT_FAILURE;
//   - a server in TRANSIENT_FAILURE stays there until it is READY, and RPCs pass it;
//   - while the channel is in TRANSIENT_FAILURE or CONNECTING, some server is
//     connecting, even without RPCs.
//
// Unlike in ring_hash,
//   - all servers connect from the start, unless the policy is lazy: so a server that
//     is down is known before an RPC meets it;
//   - an RPC does not wait until its deadline if another server is READY;
//   - if the health checks of a server fail repeatedly, RPCs do not wait for its
//     connection each time.
//
// # Observation
//
// A Handle shows which server has a key and why, the servers and their connections,
// and the statistics of the table or ring. chashprom collects the statistics from it.
// A stats.Handler of grpc-go sees single RPCs, as with any policy:
// DelayedPickComplete if an RPC had to wait, and the server in the RemoteAddr of
// OutHeader.
//
// # Policies above
//
// The policies can be children of outlier_detection_experimental,
// priority_experimental and weighted_target_experimental, in a service config or in a
// custom policy of xDS. An ejected outlier is a failed server. Under weighted_target,
// each child has its own table or ring: a key has one server in each child, and the
// key does not choose the child. Hash policies of xDS routes give no key: grpc-go
// does not pass on their hash.
//
// # Concurrency
//
// Picks take no lock. All pickers share the table or ring, and each pick sees one
// whole state. A pick allocates nothing, unless it waits or reads requestHashHeader,
// which copies the values.
package chashgrpc
