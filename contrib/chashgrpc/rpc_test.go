package chashgrpc_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

var five = []string{"server-0", "server-1", "server-2", "server-3", "server-4"}

func TestKeysStayWithTheirServers(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping(five...)
		c := newCluster(t, policy, `{}`, five...)
		c.await(m)
		keys := keys(10_000)
		want := expected(t, m, keys)
		require.Equal(t, want, c.mapAll(keys))
		// Once more, in part: after an update that changes nothing, in another order.
		endpoints := endpointsAt(five...)
		slices.Reverse(endpoints)
		c.update(endpoints...)
		for key, name := range c.mapAll(keys[:2_000]) {
			require.Equal(t, want[key], name, key)
		}
	})
}

func TestServerKilledAndRestarted(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		const victim = "server-2"
		m := mapping(five...)
		c := newCluster(t, policy, `{}`, five...)
		c.await(m)
		keys := keys(1_000)
		before := c.mapAll(keys)
		require.Equal(t, expected(t, m, keys), before)

		c.kill(victim)
		require.NoError(t, m.SetState(victim, chash.Unhealthy))
		c.await(m)
		during := c.mapAll(keys)
		require.Equal(t, expected(t, m, keys), during)
		for _, key := range keys {
			if before[key] == victim {
				require.NotEqual(t, victim, during[key], key)
			} else {
				require.Equal(t, before[key], during[key], key)
			}
		}

		c.start(victim)
		require.NoError(t, m.SetState(victim, chash.Healthy))
		c.await(m)
		require.Equal(t, before, c.mapAll(keys))
	})
}

func TestEndpointsChangeUnderLoad(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		all := append(slices.Clone(five), "server-5", "server-6", "server-7")
		c := newCluster(t, policy, `{}`, all...)
		c.update(endpointsAt(five...)...)
		c.await(mapping(five...))

		stop := make(chan struct{})
		var load sync.WaitGroup
		var calls, failed atomic.Int64
		for worker := range 4 {
			load.Go(func() {
				for i := worker; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := c.callKey(fmt.Sprint("key-", i%500)); err != nil {
						failed.Add(1)
						t.Errorf("RPC failed: %v", err)
						return
					}
					calls.Add(1)
				}
			})
		}
		defer load.Wait()
		defer sync.OnceFunc(func() { close(stop) })()
		for round := range 12 {
			// All but one of them in turn, and at the end only new ones.
			names := slices.Clone(all)
			if round < 8 {
				names = slices.Delete(names, round, round+1)
			} else {
				names = names[(round%2)*4 : (round%2)*4+4]
			}
			c.update(endpointsAt(names...)...)
			c.await(mapping(names...))
			seen := calls.Load()
			eventually(t, "the load goes on", func() bool { return calls.Load() >= seen+50 || failed.Load() > 0 })
			require.Zero(t, failed.Load())
		}
	})
}

func TestWeights(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		names := five[:3]
		m := mapping()
		require.NoError(t, m.Set([]chash.Backend[string]{
			{Name: names[0], Value: names[0]},
			{Name: names[1], Value: names[1], Weight: 1},
			{Name: names[2], Value: names[2], Weight: 6},
		}))
		c := newCluster(t, policy, `{}`, names...)
		c.update(endpointAt(names[0]),
			chashgrpc.SetWeight(endpointAt(names[1]), 0),
			chashgrpc.SetWeight(endpointAt(names[2]), 6))
		c.await(m)
		keys := keys(1_000)
		got := c.mapAll(keys)
		require.Equal(t, expected(t, m, keys), got)
		heavy := 0
		for _, name := range got {
			if name == names[2] {
				heavy++
			}
		}
		// 750 are its share. 50 are over three standard deviations of a draw, and on
		// a ring as many of the share itself, sqrt(0.75*0.25/1280).
		assert.InDelta(t, 750, heavy, 50)
	})
}

func TestHashKeysOutliveAddresses(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		pods := []string{"pod-0", "pod-1", "pod-2"}
		m := mapping(pods...)
		c := newCluster(t, policy, `{}`, five[:4]...)
		for _, names := range [][]string{five[:3], {five[3], five[1], five[2]}, {five[2], five[3], five[0]}} {
			endpoints := make([]resolver.Endpoint, len(names))
			at := map[string]string{}
			for i, name := range names {
				endpoints[i] = chashgrpc.SetHashKey(endpointAt(name), pods[i])
				at[pods[i]] = name
			}
			c.update(endpoints...)
			eventually(t, "keys lead to the pods of the mapping", func() bool {
				for _, key := range keys(100) {
					pod, err := m.Get(key)
					require.NoError(t, err)
					if got, err := c.callKey(key); err != nil || got != at[pod] {
						return false
					}
				}
				return true
			})
		}
	})
}

func TestSharedHashKey(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		// server-0 and server-1 share a place with server-2, which is heavier.
		m := mapping()
		backends := []chash.Backend[string]{
			{Name: five[0], Value: five[0], HashKey: "shared"},
			{Name: five[1], Value: five[1], HashKey: "shared"},
			{Name: five[2], Value: five[2], HashKey: "shared", Weight: 2},
			{Name: five[3], Value: five[3]},
		}
		require.NoError(t, m.Set(backends))
		c := newCluster(t, policy, `{}`, five[:4]...)
		endpoints := endpointsAt(five[:4]...)
		for i := range 3 {
			endpoints[i] = chashgrpc.SetHashKey(endpoints[i], "shared")
		}
		endpoints[2] = chashgrpc.SetWeight(endpoints[2], 2)
		c.update(endpoints...)
		c.await(m)
		key, other := keyOf(t, m, five[2]), keyOf(t, m, five[3])
		for _, leader := range []string{five[2], five[0], five[1], five[3]} {
			require.Equal(t, leader, expected(t, m, []string{key})[key])
			c.await(m)
			got := c.mapAll([]string{key, other})
			require.Equal(t, map[string]string{key: leader, other: five[3]}, got)
			if leader != five[3] {
				c.kill(leader)
				require.NoError(t, m.SetState(leader, chash.Unhealthy))
			}
		}
	})
}

func TestKeyOfAnRPC(t *testing.T) {
	want, err := policies[0].mapping(chash.Named(five...))
	require.NoError(t, err)
	c := newCluster(t, chashgrpc.MaglevName, `{"requestHashHeader": "X-Key"}`, five...)
	c.await(want)
	for _, name := range five { // so that RPCs without a key have all of them
		_, err := c.callKey(keyOf(t, want, name))
		require.NoError(t, err)
	}

	for _, test := range []struct {
		name string
		ctx  func(context.Context, string) context.Context
		key  func(string) string
	}{
		{"context", chashgrpc.WithKey, func(key string) string { return key }},
		{"metadata", func(ctx context.Context, key string) context.Context {
			return metadata.AppendToOutgoingContext(ctx, "x-key", key)
		}, func(key string) string { return key }},
		{"several values", func(ctx context.Context, key string) context.Context {
			return metadata.AppendToOutgoingContext(ctx, "x-key", key, "other", "z", "x-key", "b")
		}, func(key string) string { return key + ",b" }},
		{"context before metadata", func(ctx context.Context, key string) context.Context {
			return chashgrpc.WithKey(metadata.AppendToOutgoingContext(ctx, "x-key", "other"), key)
		}, func(key string) string { return key }},
		{"empty key", func(ctx context.Context, _ string) context.Context {
			return chashgrpc.WithKey(ctx, "")
		}, func(string) string { return "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, key := range keys(100) {
				got, err := c.call(test.ctx(t.Context(), key))
				require.NoError(t, err)
				name, err := want.Get(test.key(key))
				require.NoError(t, err)
				require.Equal(t, name, got, key)
			}
		})
	}
	for name, kv := range map[string][]string{
		"none":                {"other", "a"},
		"empty":               {"x-key", ""},
		"several empty":       {"x-key", "", "x-key", ""},
		"of another spelling": {"x_key", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			counts := map[string]int{}
			for range 20 * len(five) {
				name, err := c.call(metadata.AppendToOutgoingContext(t.Context(), kv...))
				require.NoError(t, err)
				counts[name]++
			}
			require.Equal(t, map[string]int{five[0]: 20, five[1]: 20, five[2]: 20, five[3]: 20, five[4]: 20}, counts)
		})
	}
	t.Run("some empty", func(t *testing.T) {
		got, err := c.call(metadata.AppendToOutgoingContext(t.Context(), "x-key", "", "x-key", "b"))
		require.NoError(t, err)
		name, err := want.Get(",b")
		require.NoError(t, err)
		require.Equal(t, name, got)
	})
}

func TestConfigurationChanges(t *testing.T) {
	c := newCluster(t, chashgrpc.MaglevName, `{}`, five...)
	configure := func(service string) {
		parsed := c.resolver.CC().ParseServiceConfig(service)
		c.resolver.UpdateState(resolver.State{Endpoints: endpointsAt(five...), ServiceConfig: parsed})
	}
	maglev := func(opts ...chash.MaglevOption) mapping {
		m, err := chash.NewMaglev(chash.Named(five...), opts...)
		require.NoError(t, err)
		return m
	}
	ring := func(opts ...chash.RingOption) mapping {
		m, err := chash.NewRing(chash.Named(five...), opts...)
		require.NoError(t, err)
		return m
	}
	c.await(maglev())
	for _, step := range []struct {
		service string
		want    mapping
		misfit  string // a valid configuration that these endpoints do not fit
	}{
		{serviceConfig(chashgrpc.MaglevName, `{"seed": 18446744073709551615}`), maglev(chash.WithSeed(1<<64 - 1)), serviceConfig(chashgrpc.MaglevName, `{"tableSize": 3}`)},
		{serviceConfig(chashgrpc.MaglevName, `{"tableSize": 4099}`), maglev(chash.WithTableSize(4099)), serviceConfig(chashgrpc.MaglevName, `{"tableSize": 3}`)},
		{serviceConfig(chashgrpc.RingName, `{}`), ring(), serviceConfig(chashgrpc.RingName, `{"replicas": 67108864}`)},
		{serviceConfig(chashgrpc.RingName, `{"replicas": 3, "seed": 7}`), ring(chash.WithReplicas(3), chash.WithSeed(7)), serviceConfig(chashgrpc.RingName, `{"replicas": 67108864}`)},
	} {
		configure(step.service)
		c.await(step.want)
		keys := keys(200)
		require.Equal(t, expected(t, step.want, keys), c.mapAll(keys), step.service)
		for _, bad := range []string{serviceConfig(chashgrpc.MaglevName, `{"tableSize": 4096}`), step.misfit} {
			configure(bad)
			require.Equal(t, expected(t, step.want, keys), c.mapAll(keys), "%s after %s", bad, step.service)
		}
	}
}

func TestAllDownThenOneUp(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		c := newCluster(t, policy, `{}`, five...)
		c.await(mapping(five...))
		for _, name := range five {
			c.kill(name)
		}
		eventually(t, "RPCs fail with a connection error", func() bool {
			_, err := c.callKey("key")
			require.Error(t, err)
			s := status.Convert(err)
			require.Equal(t, codes.Unavailable, s.Code())
			for _, name := range five {
				if s.Message() == fmt.Sprintf("connection error: desc = \"transport: Error while dialing: %s is down\"", name) {
					return true
				}
			}
			return false
		})
		waiting := make(chan string)
		go func() {
			name, _ := c.callKey("key", grpc.WaitForReady(true))
			waiting <- name
		}()
		c.start(five[3])
		require.Equal(t, five[3], <-waiting)
		for _, name := range c.mapAll(keys(50)) {
			require.Equal(t, five[3], name)
		}
	})
}

func TestWaitsWhileOneConnects(t *testing.T) {
	c := newServers(t)
	c.listen("silent")
	c.connectTo(chashgrpc.MaglevName, `{}`, endpointsAt("silent", "down"))
	c.conn.Connect()
	eventually(t, "one connects and one has failed", func() bool {
		return c.open.Load() == 1 && c.refused.Load() > 2
	})
	ctx, cancel := context.WithTimeout(chashgrpc.WithKey(t.Context(), "key"), 100*time.Millisecond)
	defer cancel()
	_, err := c.client.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
}

func TestStreamStays(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		few, all := five[:2], five
		c := newCluster(t, policy, `{}`, all...)
		c.update(endpointsAt(few...)...)
		before, after := mapping(few...), mapping(all...)
		c.await(before)
		// A key that is to move, and whose server is to go.
		key := ""
		for _, k := range keys(1000) {
			old, new := expected(t, before, []string{k})[k], expected(t, after, []string{k})[k]
			if old == few[0] && new != few[0] {
				key = k
				break
			}
		}
		require.NotEmpty(t, key)
		ctx, cancel := context.WithTimeout(chashgrpc.WithKey(t.Context(), key), patience)
		defer cancel()
		stream, err := c.client.FullDuplexCall(ctx)
		require.NoError(t, err)
		speak := func() string {
			require.NoError(t, stream.Send(&grpc_testing.StreamingOutputCallRequest{}))
			response, err := stream.Recv()
			require.NoError(t, err)
			return string(response.GetPayload().GetBody())
		}
		require.Equal(t, few[0], speak())

		c.update(endpointsAt(all...)...)
		c.await(after)
		require.Equal(t, few[0], speak())

		c.update(endpointsAt(all[1:]...)...)
		c.await(mapping(all[1:]...))
		require.Equal(t, few[0], speak())
		require.NoError(t, stream.CloseSend())
	})
}

func TestBoundedLoad(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		names := five[:4]
		m := mapping(names...)
		c := newCluster(t, policy, `{"loadFactor": 1.5}`, names...)
		c.await(m)
		const streams = 41
		ctx, cancel := context.WithTimeout(chashgrpc.WithKey(t.Context(), "key"), patience)
		defer cancel()
		counts := map[string]int{}
		home := expected(t, m, []string{"key"})["key"]
		for i := range streams {
			stream, err := c.client.FullDuplexCall(ctx)
			require.NoError(t, err)
			require.NoError(t, stream.Send(&grpc_testing.StreamingOutputCallRequest{}))
			response, err := stream.Recv()
			require.NoError(t, err)
			name := string(response.GetPayload().GetBody())
			counts[name]++
			// ceil(1.5*(i+1)/4)
			require.LessOrEqual(t, counts[name], (3*(i+1)+7)/8, counts)
		}
		require.Equal(t, 16, counts[home], counts)
		require.Len(t, counts, 3, "of four, three have room for all")
		got, err := c.callKey("key")
		require.NoError(t, err)
		require.NotEqual(t, home, got)

		cancel() // ends the streams
		eventually(t, "the key goes home", func() bool {
			got, err := c.callKey("key")
			require.NoError(t, err)
			return got == home
		})
		_, err = c.call(t.Context())
		require.NoError(t, err, "without a key")
	})
}

// It must not run beside other tests, for it looks at all goroutines.
func TestNothingIsLeftBehind(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		c := newCluster(t, policy, `{"loadFactor": 2}`, five...)
		c.await(mapping(five...))
		c.update(endpointsAt(five[1:]...)...)
		c.kill(five[4]) // it is being connected to at the end
		eventually(t, "a connection is gone for good", func() bool { return c.open.Load() == 3 })
		require.NoError(t, c.conn.Close())
		eventually(t, "all connections are closed", func() bool { return c.open.Load() == 0 })
		for _, name := range slices.Collect(maps.Keys(c.servers)) {
			c.kill(name)
		}
		eventually(t, "no goroutine is left", func() bool { return len(grpcGoroutines()) == 0 })
	})
}

// An endpoint of two addresses uses the second one while the first one is down, and its
// keys stay.
func TestFallBackWithinEndpoint(t *testing.T) {
	m, err := policies[0].mapping(chash.Named(five[0], five[2]))
	require.NoError(t, err)
	c := newServers(t, five[:3]...)
	c.connectTo(chashgrpc.MaglevName, `{}`, []resolver.Endpoint{endpointAt(five[0], five[1]), endpointAt(five[2])})
	check(t, m, c.callAll(keys(100)))
	c.kill(five[0])
	key, other := keyOf(t, m, five[0]), keyOf(t, m, five[2])
	eventually(t, "the second address has the key", func() bool {
		got, err := c.callKey(key)
		return err == nil && got == five[1]
	})
	got, err := c.callKey(other)
	require.NoError(t, err)
	require.Equal(t, five[2], got)
}
