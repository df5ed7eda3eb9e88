package chashgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

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

// The resolver is DNS, which knows of no weights: a function gives them.
func ExampleAnnotator() {
	annotator := chashgrpc.NewAnnotator(func(e resolver.Endpoint) resolver.Endpoint {
		if strings.HasPrefix(e.Addresses[0].Addr, "10.2.") { // the zone of the large machines
			return chashgrpc.SetWeight(e, 3)
		}
		return e
	})
	conn, err := grpc.NewClient("dns:///greeter.example.com:50051",
		grpc.WithResolvers(annotator.Wrap(resolver.Get("dns"))),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"chash_maglev": {}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}

// Weights come from a file, and follow it while the program runs.
func ExampleFile() {
	path := filepath.Join(os.TempDir(), "endpoints.json")
	if err := os.WriteFile(path, []byte(`{"10.1.0.9:50051": {"weight": 3, "hashKey": "pod-1"}}`), 0o600); err != nil {
		log.Fatal(err)
	}
	defer os.Remove(path)

	file, err := chashgrpc.OpenFile(path, 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	var handle chashgrpc.Handle // shows what the policy has made of it
	pods := manual.NewBuilderWithScheme("pods")
	pods.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "10.1.0.7:50051"}, {Addr: "10.1.0.9:50051"}}})
	conn, err := grpc.NewClient("pods:///greeter",
		grpc.WithResolvers(handle.Wrap(file.Wrap(pods))),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"chash_ring": {"lazy": true}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	conn.Connect()
	for len(handle.Endpoints()) == 0 { // the resolver has yet to answer
		runtime.Gosched()
	}
	for _, e := range handle.Endpoints() {
		fmt.Println(e.Name, e.HashKey, e.Weight)
	}
	// Output:
	// 10.1.0.7:50051 10.1.0.7:50051 1
	// 10.1.0.9:50051 pod-1 3
}

// A Handle answers why the RPCs of a key go where they go.
func ExampleForTarget() {
	conn, err := grpc.NewClient("dns:///greeter.example.com:50051",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"chash_maglev": {}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	handle := chashgrpc.ForTarget(conn.CanonicalTarget())
	fmt.Println(handle.Explain("user:42")) // no RPC was made yet
	// Output:
	// key "user:42", hash , home -1
	// result: chash: no backends
}
