//go:build live && linux

package grpcgo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/ringhash" // registers the policy
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/resolver/ringhash"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

// A client of grpc-go calls the server that the ring says for each value of the header,
// on real connections, also where one of the servers cannot be reached.
func TestGRPC(t *testing.T) {
	const pools, keys = 24, 900
	s := live.NewSource(t)
	servers := serve(t, s, 24)
	var count live.Tally
	for i := range pools {
		p := s.Pool(servers, 20, []int{1, 5, 1000, 200_000_000}[s.IntN(4)])
		if s.IntN(2) == 0 {
			for j := range p {
				p[j].HashKey = fmt.Sprintf("pod-%d", s.IntN(1_000_000)*100+j)
			}
		}
		if i%3 == 0 {
			p = append(p, chash.Named(nobody(t, s))...)
			p[len(p)-1].State = chash.Unhealthy
		}
		size := chashcompat.RingSize{}
		if i > 0 {
			size.Min = uint64(s.Between(1, 2000))
			size.Max = size.Min + uint64(s.IntN(int(4097-size.Min)))
		}
		ring, err := chash.NewRing(p, chashcompat.GRPCRingHash(size))
		require.NoError(t, err)
		compare(t, client(t, p, size), ring, append(s.Keys(keys, live.Long), ""))
		count.Keys += keys + 1
		count.Pools++
	}
	count.Done(t, "grpc-go "+grpc.Version)
}

// serve starts servers on the loopback interface and returns their addresses. Each
// answers every call with an empty message.
func serve(t *testing.T, s live.Source, n int) []string {
	t.Helper()
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
		return stream.SendMsg(new(emptypb.Empty))
	}))
	t.Cleanup(server.Stop)
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", s.Loopback()+":0")
		require.NoError(t, err)
		go server.Serve(l)
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// nobody returns an address on which nobody listens.
func nobody(t *testing.T, s live.Source) string {
	t.Helper()
	l, err := net.Listen("tcp", s.Loopback()+":0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// client returns a client of the backends with the policy ring_hash.
func client(t *testing.T, p live.Pool, size chashcompat.RingSize) *grpc.ClientConn {
	t.Helper()
	r := manual.NewBuilderWithScheme("live")
	var endpoints []resolver.Endpoint
	for _, b := range p {
		endpoint := resolver.Endpoint{Addresses: []resolver.Address{{Addr: b.Name}}}
		if b.HashKey != "" {
			endpoint = ringhash.SetHashKey(endpoint, b.HashKey)
		}
		endpoints = append(endpoints, weight.Set(endpoint, weight.EndpointInfo{Weight: b.Weight}))
	}
	r.InitialState(resolver.State{Endpoints: endpoints})
	config := fmt.Sprintf(`{"loadBalancingConfig": [{"ring_hash_experimental": {"minRingSize": %d, "maxRingSize": %d, "requestHashHeader": "x-k"}}]}`, size.Min, size.Max)
	conn, err := grpc.NewClient("live:///", grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// compare calls with each key and checks which server has answered.
func compare(t *testing.T, conn *grpc.ClientConn, ring *chash.Ring[string], keys []string) {
	t.Helper()
	const callers = 8
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for first := range callers {
		wg.Go(func() {
			for i := first; i < len(keys) && errs[first] == nil; i += callers {
				errs[first] = compareOne(ctx, conn, ring, keys[i])
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// compareOne compares the server of one key. Headers are ASCII, so that other bytes of it
// are left out; a few keys are sent as several values.
func compareOne(ctx context.Context, conn *grpc.ClientConn, ring *chash.Ring[string], key string) error {
	key = strings.Map(func(r rune) rune {
		if r >= 0x7F {
			return -1
		}
		return r
	}, key)
	values := strings.SplitAfter(key, ":")
	for _, value := range values {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-k", value)
	}
	want, err := ring.Get(strings.Join(values, ","))
	if err != nil {
		return err
	}
	var server peer.Peer
	for {
		err = conn.Invoke(ctx, "/live/Call", new(emptypb.Empty), new(emptypb.Empty), grpc.Peer(&server), grpc.WaitForReady(true))
		if status.Code(err) != codes.Unavailable {
			break
		}
	}
	if err != nil {
		return err
	}
	if got := server.Addr.String(); got != want {
		return fmt.Errorf("values %q: %s, want %s", values, got, want)
	}
	return nil
}
