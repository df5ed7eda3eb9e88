package chashgrpc_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/resolver/ringhash"
)

// weighted returns the mapping of servers with weights.
func weighted(t *testing.T, mapping func(...string) mapping, weights map[string]uint32) mapping {
	m := mapping()
	var backends []chash.Backend[string]
	for name, w := range weights {
		backends = append(backends, chash.Backend[string]{Name: name, Value: name, Weight: w})
	}
	require.NoError(t, m.Set(backends))
	return m
}

func TestAnnotator(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		var mu sync.Mutex
		weights := map[string]uint32{five[0]: 1, five[1]: 3, five[2]: 1, five[3]: 1, five[4]: 1}
		annotator := chashgrpc.NewAnnotator(func(e resolver.Endpoint) resolver.Endpoint {
			mu.Lock()
			defer mu.Unlock()
			return chashgrpc.SetWeight(e, weights[e.Addresses[0].Addr])
		})
		c := newServers(t, five...)
		c.wrap = annotator.Wrap
		c.connectTo(policy, `{}`, endpointsAt(five...))
		check(t, weighted(t, mapping, weights), c.callAll(keys(300)))

		mu.Lock()
		weights[five[1]], weights[five[4]] = 1, 5
		mu.Unlock()
		annotator.Refresh()
		check(t, weighted(t, mapping, weights), c.callAll(keys(300)))

		// A resolver that gives addresses, as most did once.
		var addrs []resolver.Address
		for _, name := range five[1:] {
			addrs = append(addrs, resolver.Address{Addr: name})
		}
		c.resolver.UpdateState(resolver.State{Addresses: addrs})
		delete(weights, five[0])
		check(t, weighted(t, mapping, weights), c.callAll(keys(300)))

		require.NoError(t, c.conn.Close())
		annotator.Refresh() // of nothing
	})
}

// The endpoints that a resolver gave stay as they are.
func TestAnnotator_LeavesTheResolversEndpoints(t *testing.T) {
	annotator := chashgrpc.NewAnnotator(func(e resolver.Endpoint) resolver.Endpoint { return chashgrpc.SetWeight(e, 7) })
	given := endpointsAt("a", "b")
	cc := &stateRecorder{}
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(resolver.State{Endpoints: given})
	_, err := annotator.Wrap(r).Build(resolver.Target{}, cc, resolver.BuildOptions{})
	require.NoError(t, err)
	require.Len(t, cc.state.Endpoints, 2)
	require.NotNil(t, cc.state.Endpoints[0].Attributes)
	require.Nil(t, given[0].Attributes)
}

type stateRecorder struct {
	resolver.ClientConn
	state resolver.State
}

func (r *stateRecorder) UpdateState(s resolver.State) error {
	r.state = s
	return nil
}

// What a builder can beside building, the wrapped one can too, and nothing else.
func TestAnnotator_WrapsAll(t *testing.T) {
	annotator := chashgrpc.NewAnnotator(func(e resolver.Endpoint) resolver.Endpoint { return e })
	for _, scheme := range []string{"dns", "unix", "passthrough"} {
		builder := resolver.Get(scheme)
		wrapped := annotator.Wrap(builder)
		require.Equal(t, scheme, wrapped.Scheme())
		before, overrides := builder.(resolver.AuthorityOverrider)
		after, ok := wrapped.(resolver.AuthorityOverrider)
		require.Equal(t, overrides, ok, scheme)
		if overrides {
			require.Equal(t, before.OverrideAuthority(resolver.Target{}), after.OverrideAuthority(resolver.Target{}))
		}
	}
	failed := errors.New("failed")
	_, err := annotator.Wrap(failingBuilder{failed}).Build(resolver.Target{}, nil, resolver.BuildOptions{})
	require.ErrorIs(t, err, failed)
}

type failingBuilder struct{ err error }

func (b failingBuilder) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	return nil, b.err
}

func (failingBuilder) Scheme() string { return "failing" }

// The attributes that grpc-go has itself count where ours are not there.
func TestAttributesOfGRPC(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping()
		require.NoError(t, m.Set([]chash.Backend[string]{
			{Name: five[0], Value: five[0], HashKey: "pod-0", Weight: 3},
			{Name: five[1], Value: five[1], HashKey: "pod-1", Weight: 2},
			{Name: five[2], Value: five[2]},
		}))
		endpoints := endpointsAt(five[:3]...)
		set := func(i int, hashKey string, w uint32) {
			endpoints[i] = weight.Set(ringhash.SetHashKey(endpoints[i], hashKey), weight.EndpointInfo{Weight: w})
		}
		set(0, "pod-0", 3)
		set(1, "other", 9)
		endpoints[1] = chashgrpc.SetWeight(chashgrpc.SetHashKey(endpoints[1], "pod-1"), 2)
		endpoints[2] = chashgrpc.SetWeight(chashgrpc.SetHashKey(endpoints[2], ""), 0)
		c := newServers(t, five[:3]...)
		c.connectTo(policy, `{}`, endpoints)
		check(t, m, c.callAll(keys(300)))
	})
}

// The order of an endpoint's addresses moves no key.
func TestOrderOfAddresses(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping("a:1", "c:1", "e:1")
		c := newChannel(t, policy, `{}`, endpointAt("a:1", "b:1"), endpointAt("d:1", "c:1"), endpointAt("e:1"))
		c.connect()
		at := map[string]string{"a:1": "a:1", "d:1": "c:1", "e:1": "e:1"}
		where := func() map[string]string {
			all := map[string]string{}
			for _, key := range keys(300) {
				got, err := c.pick(keyed(t, key))
				require.NoError(t, err)
				all[key] = at[got]
			}
			return all
		}
		require.Equal(t, expected(t, m, keys(300)), where())
		rebuilds := chashgrpc.Stats(c.policy).Rebuilds
		require.NoError(t, c.update(endpointAt("c:1", "d:1"), endpointAt("b:1", "a:1"), endpointAt("e:1")))
		require.Equal(t, rebuilds, chashgrpc.Stats(c.policy).Rebuilds)
		require.Equal(t, expected(t, m, keys(300)), where())
	})
}
