package chashgrpc_test

import (
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// handles returns both kinds of Handle of a channel, which is yet to be made.
func handles(c *cluster) map[string]*chashgrpc.Handle {
	own := new(chashgrpc.Handle)
	c.wrap = own.Wrap
	return map[string]*chashgrpc.Handle{"own": own, "of the target": chashgrpc.ForTarget("test:///service")}
}

func TestHandle(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		c := newServers(t, five...)
		all := handles(c)
		for _, h := range all {
			_, err := h.Endpoint("key")
			require.ErrorIs(t, err, chash.ErrNoBackends)
			require.ErrorIs(t, h.Explain("key").Err, chash.ErrNoBackends)
			require.Empty(t, h.Endpoints())
			require.Empty(t, h.Shares())
			require.Zero(t, h.Stats().Backends)
			require.Zero(t, h.Fingerprint())
			require.Zero(t, h.LiveFingerprint())
			require.NoError(t, h.Refused())
		}
		m := mapping(five...)
		c.connectTo(policy, `{}`, endpointsAt(five...))
		check(t, m, c.callAll(keys(100)))
		c.kill(five[2])
		require.NoError(t, m.SetState(five[2], chash.Unhealthy))
		c.await(m)
		eventually(t, "the server has failed", func() bool {
			return all["own"].Stats().Unhealthy == 1
		})
		for name, h := range all {
			for _, key := range keys(100) {
				got, err := h.Endpoint(key)
				require.NoError(t, err)
				want, err := m.Get(key)
				require.NoError(t, err)
				require.Equal(t, want, got, name)
				require.Equal(t, want, h.Explain(key).Backend)
			}
			endpoints := h.Endpoints()
			require.Len(t, endpoints, 5)
			for i, e := range endpoints {
				require.Equal(t, five[i], e.Name)
				require.Equal(t, []string{five[i]}, e.Addresses)
				require.Equal(t, five[i], e.HashKey)
				require.EqualValues(t, 1, e.Weight)
				if i == 2 {
					require.Equal(t, connectivity.TransientFailure, e.State)
					require.ErrorContains(t, e.Err, "server-2 is down")
				} else {
					require.NoError(t, e.Err)
				}
			}
			require.Len(t, h.Shares(), 5)
			require.Equal(t, 5, h.Stats().Backends)
			require.NotZero(t, h.Fingerprint())
			require.NotEqual(t, h.Fingerprint(), h.LiveFingerprint())
		}
	})
}

// A Handle outlives the policies that idleness ends, and sees those that follow.
func TestHandle_FollowsTheChannel(t *testing.T) {
	c := newServers(t, five...)
	all := handles(c)
	c.connectTo(chashgrpc.RingName, `{}`, endpointsAt(five...), grpc.WithIdleTimeout(1))
	var fingerprint uint64
	for range 3 {
		ctx := chashgrpc.WithKey(t.Context(), "key")
		stream, err := c.client.FullDuplexCall(ctx) // keeps the channel busy
		require.NoError(t, err)
		for name, h := range all {
			require.Equal(t, 5, h.Stats().Backends, name)
			if fingerprint == 0 {
				fingerprint = h.Fingerprint()
			}
			require.Equal(t, fingerprint, h.Fingerprint(), name)
		}
		require.NoError(t, stream.CloseSend())
		_, _ = stream.Recv()
		eventually(t, "the policy has ended", func() bool {
			return all["own"].Stats().Backends == 0 && all["of the target"].Stats().Backends == 0
		})
	}
	require.Positive(t, all["own"].Picks().Waited)
}

func TestHandle_CountsPicks(t *testing.T) {
	c := newServers(t, five...)
	c.kill(five[2])
	c.listen(five[2])
	h := handles(c)["own"]
	c.connectTo(chashgrpc.MaglevName, `{"connectWait": "0s"}`, endpointsAt(five...))
	m, err := policies[0].mapping(chash.Named(five...))
	require.NoError(t, err)
	_, err = c.callKey(keyOf(t, m, five[2]))
	require.NoError(t, err)
	picks := h.Picks()
	require.EqualValues(t, 1, picks.Elsewhere)
	require.Zero(t, picks.Failed)
	for _, name := range five {
		c.kill(name)
	}
	eventually(t, "RPCs fail", func() bool {
		_, err := c.callKey("key")
		return err != nil && h.Picks().Failed > 0
	})
}

// Handles of targets without a channel do not pile up, other than those that were asked
// for.
func TestHandle_RegistryIsBounded(t *testing.T) {
	asked := chashgrpc.ForTarget("test:///asked")
	before := chashgrpc.Targets()
	for range 3 {
		c := newServers(t, five[0])
		c.target = "test:///unasked"
		c.connectTo(chashgrpc.MaglevName, `{}`, endpointsAt(five[0]))
		_, err := c.callKey("key")
		require.NoError(t, err)
		require.Equal(t, before+1, chashgrpc.Targets())
		require.NoError(t, c.conn.Close())
		eventually(t, "the target is forgotten", func() bool { return chashgrpc.Targets() == before })
	}
	require.Same(t, asked, chashgrpc.ForTarget("test:///asked"))
}

// An update that does not fit says so, and takes those away that are gone.
func TestUpdateThatDoesNotFit_LeavesNoDeadEndpoints(t *testing.T) {
	c := newServers(t, five...)
	h := handles(c)["own"]
	c.connectTo(chashgrpc.MaglevName, `{"tableSize": 3}`, endpointsAt(five[:3]...))
	m, err := chash.NewMaglev(chash.Named(five[:3]...), chash.WithTableSize(3))
	require.NoError(t, err)
	check(t, m, c.callAll(keys(100)))
	c.update(endpointsAt(five[1:]...)...)
	require.ErrorIs(t, h.Refused(), chash.ErrTooManyBackends)
	require.NoError(t, m.Remove(five[0]))
	check(t, m, c.callAll(keys(100)))
	eventually(t, "the connection of the one that is gone is closed", func() bool { return c.open.Load() == 2 })
	c.update(endpointsAt(five[2:]...)...)
	require.NoError(t, h.Refused())
	require.NoError(t, m.Set(chash.Named(five[2:]...)))
	check(t, m, c.callAll(keys(100)))
}
