package chashcompat

import "github.com/chash-go/chash"

// GRPCRingHash is the placement of a client of grpc-go with this service config:
//
//	{"loadBalancingConfig": [{"ring_hash_experimental": {"minRingSize": 1024, "maxRingSize": 4096, "requestHashHeader": "x-key"}}]}
//
// The size is those two numbers; the defaults are those of grpc-go, 1024 and 4096. grpc-go
// lowers both to 4096 unless the variable GRPC_RING_HASH_CAP is set; here they are what is
// given. A hash key is that of the endpoint's attribute (SetHashKey of resolver/ringhash), or
// else its first address. The weight is that of the attribute
// of experimental/balancer/weight. The order
// of the endpoints does not matter.
//
// A key is the value of the header; the values of several are joined by commas. A call
// without the header goes anywhere.
//
// An endpoint in TRANSIENT_FAILURE is an Unhealthy backend: its keys go to the next point. A
// backend may be so light that it has no point.
//
// The tests compare it with grpc-go 1.85.0, with clients and servers on real connections,
// random weights, hash keys, sizes and endpoints that cannot be reached. Other clients of
// gRPC, in C++ and Java, follow the same description but were not compared, and ring sizes
// of Envoy's xDS are capped as said.
func GRPCRingHash(size RingSize) chash.RingOption {
	return size.option("grpc ring_hash", RingSize{1024, 4096}, nil)
}
