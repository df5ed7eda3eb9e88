package chashgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/chash-go/chash/contrib/chashgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// Clients choose a policy in the service config. The RPCs of one user then go to
// one server.
func Example() {
	conn, err := grpc.NewClient("dns:///greeter.example.com:50051",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [
			{"chash_maglev": {"requestHashHeader": "x-user"}}
		]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-user", "42") // the key is sent
	ctx = chashgrpc.WithKey(ctx, "42")                                            // or it is not
	_ = ctx                                                                       // for the RPCs on conn
}

// A key can be given without sending it to the server.
func ExampleWithKey() {
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"chash_ring": {}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ctx := chashgrpc.WithKey(context.Background(), "user:42")
	reply, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Status)
	// Output: SERVING
}

// A resolver tells the policies of weights, and of names that outlive addresses.
func ExampleSetHashKey() {
	small := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "10.1.0.7:50051"}}}
	large := resolver.Endpoint{Addresses: []resolver.Address{{Addr: "10.1.0.9:50051"}}}
	small = chashgrpc.SetHashKey(small, "pod-0")
	large = chashgrpc.SetHashKey(large, "pod-1")
	large = chashgrpc.SetWeight(large, 3) // three times as many keys

	r := manual.NewBuilderWithScheme("pods")
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{small, large}})
	conn, err := grpc.NewClient("pods:///greeter",
		grpc.WithResolvers(r),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"chash_maglev": {}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}
