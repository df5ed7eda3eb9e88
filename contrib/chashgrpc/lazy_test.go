package chashgrpc_test

import (
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

const lazy = `{"lazy": true}`

// One key connects to its server and the one that stands in, however many there are.
func TestLazy_ConnectsWhatKeysNeed(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping(five...)
		c := newCluster(t, policy, lazy, five...)
		key := keyOf(t, m, five[1])
		for range 10 {
			check(t, m, c.callAll([]string{key}))
		}
		eventually(t, "two servers are connected to", func() bool { return c.open.Load() == 2 })
		c.kill(five[1])
		require.NoError(t, m.SetState(five[1], chash.Unhealthy))
		c.awaitKey(m, key)
		eventually(t, "the one that stands in is connected, as it was before, and no other", func() bool { return c.open.Load() == 1 })
		check(t, m, c.callAll(keys(300)))
		eventually(t, "all that are up are connected", func() bool { return c.open.Load() == 4 })
	})
}

// awaitKey waits until one key leads where the mapping says.
func (c *cluster) awaitKey(m mapping, key string) {
	c.Helper()
	eventually(c, "the key leads where it should", func() bool {
		want, err := m.Get(key)
		require.NoError(c, err)
		got, err := c.callKey(key)
		return err == nil && got == want
	})
}

// A connection that is lost stays IDLE until a key needs it.
func TestLazy_StaysIdle(t *testing.T) {
	addrs := addresses(3)
	c := newChannel(t, chashgrpc.RingName, lazy, endpointsAt(addrs...)...)
	require.Empty(t, c.open())
	require.Equal(t, connectivity.Idle, c.state().ConnectivityState)
	_, err := c.pick(keyed(t, "key"))
	require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
	eventually(t, "two connections are asked for", func() bool { return len(c.open()) == 2 })
	c.connect()
	own, err := c.pick(keyed(t, "key"))
	require.NoError(t, err)
	c.conn(own).become(connectivity.Idle)
	require.False(t, c.conn(own).connecting())
	_, err = c.pick(keyed(t, "key"))
	require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
	eventually(t, "the connection is asked for again", func() bool { return c.conn(own).connecting() })
}

// RPCs without a key go to what is READY, and have one more endpoint connect at a time.
func TestLazy_WithoutAKey(t *testing.T) {
	addrs := addresses(4)
	c := newChannel(t, chashgrpc.MaglevName, lazy, endpointsAt(addrs...)...)
	none := balancer.PickInfo{Ctx: t.Context()}
	_, err := c.pick(none)
	require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
	for n := 1; n <= 4; n++ {
		eventually(t, "one more connection is asked for", func() bool { return len(c.open()) == n })
		for range 10 {
			_, _ = c.pick(none)
		}
		require.Len(t, c.open(), n, "while it connects, no other does")
		c.connect()
		seen := map[string]bool{}
		for range 4 * n {
			got, err := c.pick(none)
			require.NoError(t, err)
			seen[got] = true
		}
		require.Len(t, seen, n)
	}
}

// Where servers fail, one is always being connected to: so gRFC A42 wants it for a
// policy above this one, which turns to another and sends no more RPCs.
func TestLazy_KeepsTrying(t *testing.T) {
	addrs := addresses(3)
	c := newChannel(t, chashgrpc.MaglevName, lazy, endpointsAt(addrs...)...)
	_, err := c.pick(keyed(t, "key"))
	require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
	eventually(t, "two connections are asked for", func() bool { return len(c.open()) == 2 })
	for _, sc := range c.open() {
		c.fail(sc.addr)
	}
	require.Equal(t, connectivity.TransientFailure, c.state().ConnectivityState)
	eventually(t, "the third is asked for", func() bool { return len(c.open()) == 3 })
}

func TestLazy_ExitIdle(t *testing.T) {
	c := newChannel(t, chashgrpc.MaglevName, lazy, endpointsAt(addresses(3)...)...)
	for range 5 {
		c.policy.ExitIdle()
	}
	eventually(t, "one connection is asked for", func() bool { return len(c.open()) == 1 })
	c.connect()
	require.Equal(t, connectivity.Ready, c.state().ConnectivityState)
	c.policy.ExitIdle()
	require.Len(t, c.open(), 1)
}

// A policy that is lazy no more connects to all, and one that becomes lazy closes none.
func TestLazy_Changes(t *testing.T) {
	addrs := addresses(3)
	c := newChannel(t, chashgrpc.MaglevName, lazy, endpointsAt(addrs...)...)
	c.policy.ExitIdle()
	eventually(t, "one connection is asked for", func() bool { return len(c.open()) == 1 })
	c.connect()
	c.open()[0].become(connectivity.Idle)
	c.config = []byte(`{}`)
	require.NoError(t, c.update(endpointsAt(addrs...)...))
	eventually(t, "all connect", func() bool {
		c.connect()
		for _, sc := range c.open() {
			if sc.last() != connectivity.Ready {
				return false
			}
		}
		return len(c.open()) == 3
	})
	c.config = []byte(lazy)
	require.NoError(t, c.update(endpointsAt(addrs...)...))
	require.Len(t, c.open(), 3)
}

// After A42: where the one endpoint that was connecting enters IDLE, or the resolver takes
// it away, while others have failed, another one connects, without an RPC.
func TestLazy_Recovers(t *testing.T) {
	addrs := addresses(4)
	for name, leave := range map[string]func(c *channel, addr string){
		"removed": func(c *channel, addr string) {
			var rest []string
			for _, a := range addrs {
				if a != addr {
					rest = append(rest, a)
				}
			}
			require.NoError(t, c.update(endpointsAt(rest...)...))
		},
		"idle": func(c *channel, addr string) {
			c.conn(addr).become(connectivity.Ready)
			c.conn(addr).become(connectivity.Idle)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChannel(t, chashgrpc.RingName, lazy, endpointsAt(addrs...)...)
			_, err := c.pick(keyed(t, "key"))
			require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
			eventually(t, "two connections are asked for", func() bool { return len(c.open()) == 2 })
			for _, sc := range c.open() {
				c.fail(sc.addr)
			}
			eventually(t, "a third one is asked for", func() bool { return len(c.open()) == 3 })
			third := c.open()[2]
			require.True(t, third.connecting())
			third.become(connectivity.Connecting)
			leave(c, third.addr)
			eventually(t, "one is asked for again", func() bool {
				for _, sc := range c.open() {
					if (sc != third || name == "idle") && sc.last() == connectivity.Idle && sc.connecting() {
						return true
					}
				}
				return false
			})
		})
	}
}
