package chashgrpc_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/ringhash"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
)

// benchmarked are the policies to compare, and the ways to give them a key.
var benchmarked = []struct {
	policy, key, config string
}{
	{roundrobin.Name, "none", `{}`},
	{chashgrpc.MaglevName, "none", `{}`},
	{chashgrpc.MaglevName, "context", `{}`},
	{chashgrpc.MaglevName, "header", `{"requestHashHeader": "x-key"}`},
	{chashgrpc.MaglevName, "bounded", `{"loadFactor": 1.25}`},
	{chashgrpc.RingName, "none", `{}`},
	{chashgrpc.RingName, "context", `{}`},
	{chashgrpc.RingName, "header", `{"requestHashHeader": "x-key"}`},
	{chashgrpc.RingName, "bounded", `{"loadFactor": 1.25}`},
	{ringhash.Name, "header", `{"requestHashHeader": "x-key"}`},
}

// pickInfos returns what 1024 RPCs are picked by. Their contexts are as in an RPC
// with a deadline.
func pickInfos(b *testing.B, key string) []balancer.PickInfo {
	infos := make([]balancer.PickInfo, 1024)
	for i := range infos {
		k := "user-" + strconv.Itoa(i)
		ctx := b.Context()
		switch key {
		case "header":
			ctx = metadata.AppendToOutgoingContext(ctx, "x-key", k)
		case "context", "bounded":
			ctx = chashgrpc.WithKey(ctx, k)
		}
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		b.Cleanup(cancel)
		infos[i] = balancer.PickInfo{FullMethodName: "/service/Method", Ctx: ctx}
	}
	return infos
}

// BenchmarkPick measures the pickers of these policies and of grpc-go's own, with
// 10 READY connections that are played, and so without gRPC around them.
func BenchmarkPick(b *testing.B) {
	for _, bench := range benchmarked {
		c := newChannel(b, bench.policy, bench.config, endpointsAt(addresses(10)...)...)
		infos := pickInfos(b, bench.key)
		connectAll(b, c, infos)
		run := func(next func() bool) {
			picker := c.state().Picker
			for i := 0; next(); i++ {
				result, err := picker.Pick(infos[i%len(infos)])
				if err != nil {
					panic(err)
				}
				if result.Done != nil {
					result.Done(balancer.DoneInfo{})
				}
			}
		}
		name := fmt.Sprintf("policy=%s/key=%s", bench.policy, bench.key)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			run(b.Loop)
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
		})
	}
}

// connectAll makes all connections READY; ring_hash asks for them only when a
// pick leads there.
func connectAll(tb testing.TB, c *channel, infos []balancer.PickInfo) {
	require.Eventually(tb, func() bool {
		c.connect()
		for _, info := range infos {
			_, _ = c.pick(info)
		}
		ready := 0
		for _, sc := range c.open() {
			if sc.last() == connectivity.Ready {
				ready++
			}
		}
		return ready == 10
	}, patience, time.Millisecond)
}

// BenchmarkRPC measures whole RPCs to five servers on loopback.
func BenchmarkRPC(b *testing.B) {
	for _, bench := range benchmarked {
		b.Run(fmt.Sprintf("policy=%s/key=%s", bench.policy, bench.key), func(b *testing.B) {
			c := newCluster(b, bench.policy, bench.config, five...)
			infos := pickInfos(b, bench.key)
			for _, info := range infos { // so that all servers are connected to
				_, err := c.call(info.Ctx)
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.call(infos[i%len(infos)].Ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
