package chashcompat

import "github.com/chash-go/chash"

// GRPCRingHash is the placement of a grpc-go client with this service config:
//
//	{"loadBalancingConfig": [{"ring_hash_experimental": {"minRingSize": 1024, "maxRingSize": 4096, "requestHashHeader": "x-key"}}]}
//
// The size is these two numbers. The defaults are 1024 and 4096. grpc-go lowers both
// to 4096 unless the variable GRPC_RING_HASH_CAP is set, also those of Envoy's xDS.
// This option does not.
//
// A hash key is the endpoint's attribute (SetHashKey of resolver/ringhash), else its
// first address. The weight is the attribute of experimental/balancer/weight. A light
// backend may have no point. The order of the endpoints does not matter.
//
// A key is the value of the header, or all its values joined by commas. A call
// without the header goes anywhere.
//
// An endpoint in TRANSIENT_FAILURE is an Unhealthy backend: its keys go to the next
// point.
//
// The tests compare with clients and servers of grpc-go 1.85.0 on real connections,
// for random weights, hash keys and sizes, and endpoints that cannot be reached. They
// do not compare with gRPC in C++ and Java, which follow the same description.
func GRPCRingHash(size RingSize) chash.RingOption {
	return size.option("grpc ring_hash", RingSize{1024, 4096}, nil)
}
