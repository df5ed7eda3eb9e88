package chashgrpc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

func keyed(t testing.TB, key string) balancer.PickInfo {
	return balancer.PickInfo{Ctx: chashgrpc.WithKey(t.Context(), key)}
}

func TestRebuilds(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, _ func(...string) mapping) {
		addrs := addresses(6)
		c := newChannel(t, policy, `{}`, endpointsAt(addrs[:4]...)...)
		rebuilds := chashgrpc.Stats(c.policy).Rebuilds
		same := func(step string) {
			t.Helper()
			require.Equal(t, rebuilds, chashgrpc.Stats(c.policy).Rebuilds, step)
		}
		once := func(step string) {
			t.Helper()
			rebuilds++
			same(step)
		}
		c.connect()
		same("four connections")
		require.Equal(t, 4, chashgrpc.Stats(c.policy).Healthy)
		c.lose(addrs[1])
		same("a lost connection")
		require.Equal(t, 4, chashgrpc.Stats(c.policy).Healthy, "it may be back at once")
		c.fail(addrs[1])
		same("a server that does not answer")
		require.Equal(t, 3, chashgrpc.Stats(c.policy).Healthy)

		endpoints := endpointsAt(addrs[3], addrs[2], addrs[1], addrs[0])
		require.NoError(t, c.update(endpoints...))
		same("another order")
		endpoints = append(endpoints, endpointAt(addrs[0]), resolver.Endpoint{})
		endpoints[0] = chashgrpc.SetWeight(endpoints[0], 1)
		endpoints[1] = chashgrpc.SetHashKey(endpoints[1], addrs[2])
		require.NoError(t, c.update(endpoints...))
		same("defaults said aloud, a duplicate and an endpoint without address")

		endpoints = endpointsAt(addrs[2:]...)
		endpoints[0] = chashgrpc.SetWeight(endpoints[0], 3)
		endpoints[1] = chashgrpc.SetHashKey(endpoints[1], "other")
		require.NoError(t, c.update(endpoints...))
		once("two gone, two new, a weight and a hash key")
		require.Equal(t, 4, chashgrpc.Stats(c.policy).Healthy, "those that are new connect")
		require.Equal(t, 4, chashgrpc.Stats(c.policy).Backends)

		c.config = []byte(`{"requestHashHeader": "x-key"}`)
		require.NoError(t, c.update(endpoints...))
		same("a header")
		c.connect()
		addr, err := c.pick(keyed(t, "key"))
		require.NoError(t, err)
		info := balancer.PickInfo{Ctx: metadata.AppendToOutgoingContext(t.Context(), "x-key", "key")}
		for range 10 {
			got, err := c.pick(info)
			require.NoError(t, err)
			require.Equal(t, addr, got)
		}
	})
}

// The states by gRFC A42. IDLE does not last: see TestReconnects. An RPC waits for its
// own server while that connects, goes to the next one while that has failed, and fails
// with the error of its own where all have.
func TestAggregatedState(t *testing.T) {
	const (
		connecting, ready, failed = connectivity.Connecting, connectivity.Ready, connectivity.TransientFailure
	)
	for _, test := range []struct {
		states []connectivity.State
		want   connectivity.State
	}{
		{[]connectivity.State{connecting}, connecting},
		{[]connectivity.State{ready}, ready},
		{[]connectivity.State{failed}, failed},
		{[]connectivity.State{ready, failed, failed, connecting}, ready},
		{[]connectivity.State{connecting, failed, failed}, failed},
		{[]connectivity.State{connecting, connecting, failed}, connecting},
		{[]connectivity.State{failed, failed}, failed},
	} {
		t.Run(fmt.Sprint(test.states), func(t *testing.T) {
			addrs := addresses(len(test.states))
			c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt(addrs...)...)
			m, err := policies[0].mapping(chash.Named(addrs...))
			require.NoError(t, err)
			at := map[string]connectivity.State{}
			for i, s := range test.states {
				at[addrs[i]] = s
				c.conn(addrs[i]).become(connecting)
				switch s {
				case ready:
					c.conn(addrs[i]).become(ready)
				case failed:
					c.fail(addrs[i])
					require.NoError(t, m.SetState(addrs[i], chash.Unhealthy))
				}
			}
			require.Equal(t, test.want, c.state().ConnectivityState)
			for _, key := range keys(50) {
				got, err := c.pick(keyed(t, key))
				first, down := m.Get(key)
				switch {
				case down != nil:
					own, err2 := m.Owner(key)
					require.NoError(t, err2)
					require.EqualError(t, err, "cannot connect to "+own.Name)
				case at[first] == ready:
					require.NoError(t, err)
					require.Equal(t, first, got)
				default:
					require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
				}
			}
		})
	}
}

// A42 once more, word by word, for all that up to four endpoints can be.
func TestAggregatedState_Rules(t *testing.T) {
	const idle, connecting, ready, failed = connectivity.Idle, connectivity.Connecting, connectivity.Ready, connectivity.TransientFailure
	rule := func(states []connectivity.State) connectivity.State {
		count := map[connectivity.State]int{}
		for _, s := range states {
			count[s]++
		}
		if count[ready] >= 1 {
			return ready
		}
		if count[failed] >= 2 {
			return failed
		}
		if count[connecting] >= 1 {
			return connecting
		}
		if count[failed] == 1 && len(states) > 1 {
			return connecting
		}
		if count[idle] >= 1 {
			return idle
		}
		return failed
	}
	var check func(states []connectivity.State)
	check = func(states []connectivity.State) {
		require.Equal(t, rule(states), chashgrpc.Aggregate(states...), "%v", states)
		if len(states) == 4 {
			return
		}
		for _, s := range []connectivity.State{idle, connecting, ready, failed} {
			check(append(states[:len(states):len(states)], s))
		}
	}
	check(nil)
}

// A connection may tell of its state after an update has taken its endpoint away.
func TestStatesOfEndpointsThatAreGone(t *testing.T) {
	addrs := addresses(3)
	c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt(addrs...)...)
	c.connect()
	gone := c.conn(addrs[0])
	require.NoError(t, c.update(endpointsAt(addrs[1:]...)...))
	before := c.state()
	gone.become(connectivity.Idle)
	gone.become(connectivity.TransientFailure)
	require.Equal(t, before, c.state())
	require.Equal(t, 2, chashgrpc.Stats(c.policy).Healthy)
	for _, key := range keys(50) {
		got, err := c.pick(keyed(t, key))
		require.NoError(t, err)
		require.NotEqual(t, addrs[0], got)
	}
}

func TestReconnects(t *testing.T) {
	addrs := addresses(2)
	c := newChannel(t, chashgrpc.RingName, `{}`, endpointsAt(addrs...)...)
	c.connect()
	own, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	other := addrs[0]
	if own == other {
		other = addrs[1]
	}
	c.lose(other)
	got, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	require.Equal(t, own, got)
	c.lose(own)
	_, err = c.pick(keyed(t, "key"))
	require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
	require.Equal(t, connectivity.Connecting, c.state().ConnectivityState)
	c.connect()
	got, err = c.pick(keyed(t, "key"))
	require.NoError(t, err)
	require.Equal(t, own, got)
}

// An RPC without a key fails with the last error, one with a key with that of its own
// server.
func TestConnectionErrors(t *testing.T) {
	addrs := addresses(3)
	c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt(addrs...)...)
	m, err := policies[0].mapping(chash.Named(addrs...))
	require.NoError(t, err)
	own, err := m.Get("key")
	require.NoError(t, err)
	for _, i := range []int{2, 0, 1, 0, 2} {
		c.fail(addrs[i])
	}
	_, err = c.pick(balancer.PickInfo{Ctx: t.Context()})
	require.EqualError(t, err, "cannot connect to "+addrs[2])
	_, err = c.pick(keyed(t, "key"))
	require.EqualError(t, err, "cannot connect to "+own)
	c.conn(addrs[0]).become(connectivity.Idle)
	c.fail(addrs[0])
	_, err = c.pick(balancer.PickInfo{Ctx: t.Context()})
	require.EqualError(t, err, "cannot connect to "+addrs[0])
	_, err = c.pick(keyed(t, "key"))
	require.EqualError(t, err, "cannot connect to "+own)
}

func TestNoEndpoints(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, _ func(...string) mapping) {
		addrs := addresses(2)
		c := &channel{builder: balancer.Get(policy), config: []byte(`{}`)}
		c.policy = c.builder.Build(c, balancer.BuildOptions{})
		defer c.policy.Close()
		fails := func(want string) {
			t.Helper()
			require.Equal(t, connectivity.TransientFailure, c.state().ConnectivityState)
			_, err := c.pick(keyed(t, "key"))
			require.EqualError(t, err, want)
		}
		c.policy.ResolverError(errors.New("no such host"))
		fails("name resolver error: no such host")
		require.ErrorIs(t, c.update(), balancer.ErrBadResolverState)
		fails("chashgrpc: no endpoints")
		require.NoError(t, c.update(endpointsAt(addrs...)...))
		c.connect()
		c.policy.ResolverError(errors.New("no such host"))
		_, err := c.pick(keyed(t, "key"))
		require.NoError(t, err)
		require.ErrorIs(t, c.update(resolver.Endpoint{}), balancer.ErrBadResolverState)
		fails("chashgrpc: no endpoints")
		require.Empty(t, c.open())
	})
}

func TestUpdateThatDoesNotFit(t *testing.T) {
	addrs := addresses(4)
	c := newChannel(t, chashgrpc.MaglevName, `{"tableSize": 3}`, endpointsAt(addrs[:3]...)...)
	c.connect()
	before, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	require.ErrorIs(t, c.update(endpointsAt(addrs...)...), balancer.ErrBadResolverState)
	require.Len(t, c.open(), 3)
	after, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	require.Equal(t, before, after)

	c = &channel{builder: balancer.Get(chashgrpc.MaglevName), config: []byte(`{"tableSize": 3}`)}
	c.policy = c.builder.Build(c, balancer.BuildOptions{})
	defer c.policy.Close()
	require.ErrorIs(t, c.update(endpointsAt(addrs...)...), balancer.ErrBadResolverState)
	require.Equal(t, connectivity.TransientFailure, c.state().ConnectivityState)
	_, err = c.pick(keyed(t, "key"))
	require.ErrorIs(t, err, chash.ErrTooManyBackends)
	require.NoError(t, c.update(endpointsAt(addrs[:3]...)...))
	c.connect()
	_, err = c.pick(keyed(t, "key"))
	require.NoError(t, err)
}

// A policy above this one may give it no configuration, or a wrong one.
func TestConfigurationOfAParent(t *testing.T) {
	c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt(addresses(2)...)...)
	c.connect()
	s := balancer.ClientConnState{ResolverState: resolver.State{Endpoints: endpointsAt(addresses(3)...)}}
	require.NoError(t, c.policy.UpdateClientConnState(s))
	require.Equal(t, 3, chashgrpc.Stats(c.policy).Backends)
	s.BalancerConfig = struct {
		serviceconfig.LoadBalancingConfig
	}{}
	require.ErrorIs(t, c.policy.UpdateClientConnState(s), balancer.ErrBadResolverState)
	_, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
}

// Endpoints with the same addresses are the same, and with others are not.
func TestEndpointsOfSeveralAddresses(t *testing.T) {
	c := newChannel(t, chashgrpc.MaglevName, `{}`,
		endpointAt("a", "b"), endpointAt("a,b"), endpointAt(`"a","b"`), endpointAt(`a","b`), endpointAt(""), endpointAt("b", "a"))
	require.Equal(t, 5, chashgrpc.Stats(c.policy).Backends)
	require.Equal(t, 5, chashgrpc.Stats(c.policy).Placements)
	rebuilds := chashgrpc.Stats(c.policy).Rebuilds
	require.NoError(t, c.update(
		chashgrpc.SetHashKey(endpointAt("b", "a"), "a"), endpointAt("a,b"), endpointAt(`"a","b"`), endpointAt(`a","b`), endpointAt("")))
	require.Equal(t, rebuilds, chashgrpc.Stats(c.policy).Rebuilds)
}

func TestLoadIsReleased(t *testing.T) {
	c := newChannel(t, chashgrpc.MaglevName, `{"loadFactor": 1.5}`, endpointsAt(addresses(4)...)...)
	c.connect()
	picker := c.state().Picker
	var results []balancer.PickResult
	for range 8 {
		result, err := picker.Pick(keyed(t, "key"))
		require.NoError(t, err)
		results = append(results, result)
	}
	require.EqualValues(t, 8, chashgrpc.Stats(c.policy).InFlight)
	for range 4 {
		result, err := picker.Pick(balancer.PickInfo{Ctx: t.Context()})
		require.NoError(t, err)
		results = append(results, result)
	}
	require.EqualValues(t, 12, chashgrpc.Stats(c.policy).InFlight, "RPCs without a key count too")
	for _, result := range results {
		result.Done(balancer.DoneInfo{Err: errors.New("failed")})
	}
	require.Zero(t, chashgrpc.Stats(c.policy).InFlight)
}

// What an endpoint's own policy says of a pick stands, and the load is released.
func TestLoadIsReleased_ByTheEndpointsOwnPolicy(t *testing.T) {
	c := newChannel(t, chashgrpc.MaglevName, `{"loadFactor": 1.5}`, endpointsAt(addresses(4)...)...)
	c.connect()
	failed := errors.New("failed")
	chashgrpc.SetPicker(c.policy, base.NewErrPicker(failed))
	_, err := c.pick(keyed(t, "key"))
	require.ErrorIs(t, err, failed)
	require.Zero(t, chashgrpc.Stats(c.policy).InFlight)

	var told []balancer.DoneInfo
	chashgrpc.SetPicker(c.policy, picker(func(balancer.PickInfo) (balancer.PickResult, error) {
		return balancer.PickResult{Done: func(info balancer.DoneInfo) { told = append(told, info) }}, nil
	}))
	result, err := c.state().Picker.Pick(keyed(t, "key"))
	require.NoError(t, err)
	require.EqualValues(t, 1, chashgrpc.Stats(c.policy).InFlight)
	info := balancer.DoneInfo{Err: failed, BytesSent: true}
	result.Done(info)
	require.Equal(t, []balancer.DoneInfo{info}, told)
	require.Zero(t, chashgrpc.Stats(c.policy).InFlight)
}

// RPCs without a key are counted while endpoints connect too, and go to READY ones.
func TestLoadWhileOthersConnect(t *testing.T) {
	for _, config := range []string{`{"loadFactor": 1.5}`, `{"loadFactor": 1.5, "lazy": true}`, `{"loadFactor": 1.5, "connectWait": "0s"}`} {
		forEachPolicy(t, func(t *testing.T, policy string, _ func(...string) mapping) {
			addrs := addresses(6)
			c := newChannel(t, policy, config, endpointsAt(addrs...)...)
			none := balancer.PickInfo{Ctx: t.Context()}
			_, err := c.pick(none)
			require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
			eventually(t, "a connection is asked for", func() bool { return len(c.open()) > 0 })
			ready := c.open()[0]
			ready.become(connectivity.Connecting)
			ready.become(connectivity.Ready)
			for i := range 12 {
				result, err := c.state().Picker.Pick(none)
				require.NoError(t, err)
				require.Equal(t, ready, result.SubConn)
				require.EqualValues(t, i+1, chashgrpc.Stats(c.policy).InFlight)
				defer result.Done(balancer.DoneInfo{})
			}
			if config != `{"loadFactor": 1.5, "connectWait": "0s"}` {
				return
			}
			for _, key := range keys(20) {
				got, err := c.pick(keyed(t, key))
				require.NoError(t, err)
				require.Equal(t, ready.addr, got)
			}
			require.EqualValues(t, 12, chashgrpc.Stats(c.policy).InFlight)
		})
	}
}

// TestLoadFactorChanges: the load stays what it is, and nothing is laid out anew.
func TestLoadFactorChanges(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, _ func(...string) mapping) {
		endpoints := endpointsAt(addresses(4)...)
		c := newChannel(t, policy, `{"loadFactor": 4}`, endpoints...)
		c.connect()
		rebuilds := chashgrpc.Stats(c.policy).Rebuilds
		home, err := c.pick(keyed(t, "key"))
		require.NoError(t, err)
		for range 8 { // at most as many as there are RPCs: no bound
			result, err := c.state().Picker.Pick(keyed(t, "key"))
			require.NoError(t, err)
			require.Equal(t, home, result.SubConn.(*conn).addr)
		}
		configure := func(config string) {
			c.config = []byte(config)
			require.NoError(t, c.update(endpoints...))
		}
		goesHome := func(want bool, step string) {
			got, err := c.pick(keyed(t, "key"))
			require.NoError(t, err)
			require.Equal(t, want, got == home, step)
		}
		goesHome(true, "no bound")
		configure(`{"loadFactor": 1.5}`)
		goesHome(false, "ceil(1.5*9/4) = 4 at most")
		configure(`{}`)
		goesHome(true, "without a load factor")
		configure(`{"loadFactor": 2}`)
		goesHome(false, "ceil(2*9/4) = 5 at most")
		c.config = []byte(`{"loadFactor": 4, "requestHashHeader": "x-key"}`)
		require.NoError(t, c.update(endpoints[:3]...))
		require.Equal(t, rebuilds+1, chashgrpc.Stats(c.policy).Rebuilds, "an endpoint is gone")
		require.EqualValues(t, 8, chashgrpc.Stats(c.policy).InFlight)
		require.Equal(t, 4.0, chashgrpc.Stats(c.policy).LoadFactor)
	})
}

func TestPickAllocatesNothing(t *testing.T) {
	for _, test := range []struct {
		config string
		ctx    balancer.PickInfo
		want   float64
	}{
		{`{}`, keyed(t, "key"), 0},
		{`{"requestHashHeader": "x-key"}`, keyed(t, "key"), 0},
		{`{}`, balancer.PickInfo{Ctx: t.Context()}, 0},
		{`{"requestHashHeader": "x-key"}`, balancer.PickInfo{Ctx: metadata.AppendToOutgoingContext(t.Context(), "x-key", "key")}, 1},
		{`{"loadFactor": 1.25}`, keyed(t, "key"), 0},
		{`{"loadFactor": 1.25}`, balancer.PickInfo{Ctx: t.Context()}, 0},
	} {
		forEachPolicy(t, func(t *testing.T, policy string, _ func(...string) mapping) {
			c := newChannel(t, policy, test.config, endpointsAt(addresses(10)...)...)
			c.connect()
			picker := c.state().Picker
			require.Equal(t, test.want, testing.AllocsPerRun(100, func() {
				result, err := picker.Pick(test.ctx)
				if err != nil {
					panic(err)
				}
				if result.Done != nil {
					result.Done(balancer.DoneInfo{})
				}
			}), test.config)
		})
	}
}

// gRPC closes what a policy leaves open, but only where the policy is the outermost.
func TestCloseClosesConnections(t *testing.T) {
	c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt(addresses(3)...)...)
	c.connect()
	require.Len(t, c.open(), 3)
	c.policy.Close()
	require.Empty(t, c.open())
}

// A server whose health checks fail again and again is passed over all the while, also
// while its connection is READY and the next check is under way.
func TestFailingHealthChecks(t *testing.T) {
	addrs := addresses(2)
	c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt(addrs...)...)
	c.connect()
	own, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	sc := c.conn(own)
	sick := balancer.SubConnState{ConnectivityState: connectivity.TransientFailure, ConnectionError: errors.New("not serving")}
	for range 3 {
		sc.health(sick)
		for _, state := range []connectivity.State{connectivity.Connecting, connectivity.TransientFailure} {
			got, err := c.pick(keyed(t, "key"))
			require.NoError(t, err)
			require.NotEqual(t, own, got)
			sc.health(balancer.SubConnState{ConnectivityState: state, ConnectionError: sick.ConnectionError})
		}
	}
	sc.health(balancer.SubConnState{ConnectivityState: connectivity.Connecting})
	got, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	require.NotEqual(t, own, got)
	sc.health(balancer.SubConnState{ConnectivityState: connectivity.Ready})
	got, err = c.pick(keyed(t, "key"))
	require.NoError(t, err)
	require.Equal(t, own, got)
}
