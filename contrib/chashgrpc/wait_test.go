package chashgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// An answer is the server that an RPC went to.
type answer struct {
	key, name string
	err       error
}

// callAll makes an RPC for each key at the same time, and returns where they went.
func (c *cluster) callAll(keys []string, opts ...grpc.CallOption) <-chan answer {
	answers := make(chan answer, len(keys))
	var wait sync.WaitGroup
	for _, key := range keys {
		wait.Go(func() {
			name, err := c.callKey(key, opts...)
			answers <- answer{key, name, err}
		})
	}
	go func() {
		wait.Wait()
		close(answers)
	}()
	return answers
}

// check requires that all RPCs went where the mapping says.
func check(t *testing.T, m mapping, answers <-chan answer) {
	t.Helper()
	for a := range answers {
		require.NoError(t, a.err, a.key)
		want, err := m.Get(a.key)
		require.NoError(t, err)
		require.Equal(t, want, a.name, a.key)
	}
}

// From the first RPC on, keys go to their own servers, also where one of them is slow
// to connect to, and keys of the others do not wait for it.
func TestStartUpWithASlowConnection(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		for _, config := range []string{`{}`, `{"loadFactor": 100}`, `{"lazy": true}`} {
			m := mapping(five...)
			c := newServers(t, five...)
			release := c.hold(five[2])
			c.connectTo(policy, config, endpointsAt(five...))
			var slow, others []string
			for _, key := range keys(300) {
				if name, err := m.Get(key); err == nil && name == five[2] {
					slow = append(slow, key)
				} else {
					others = append(others, key)
				}
			}
			waiting := c.callAll(slow)
			check(t, m, c.callAll(others))
			require.Empty(t, waiting)
			release(nil)
			check(t, m, waiting)
		}
	})
}

// Keys of a server go on to the next when the connection to it has failed.
func TestStartUpWithAFailingConnection(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping(five...)
		c := newServers(t, five...)
		release := c.hold(five[2])
		c.connectTo(policy, `{}`, endpointsAt(five...))
		key := keyOf(t, m, five[2])
		waiting := c.callAll([]string{key})
		check(t, m, c.callAll([]string{keyOf(t, m, five[0])}))
		require.Empty(t, waiting)
		require.NoError(t, m.SetState(five[2], chash.Unhealthy))
		release(errors.New("no route"))
		check(t, m, waiting)
		// From now on it is passed over, also while it connects.
		again := c.hold(five[2])
		check(t, m, c.callAll([]string{key, key, key}))
		again(nil)
		require.NoError(t, m.SetState(five[2], chash.Healthy))
		c.await(m)
	})
}

// A server that accepts connections and says nothing holds no RPC for longer than
// connectWait, nor until its deadline.
func TestSilentServer(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		for _, test := range []struct {
			config   string
			deadline time.Duration
		}{
			{`{}`, time.Second},
			{`{"connectWait": "50ms"}`, patience},
			{`{"connectWait": "0s"}`, patience},
			{`{"connectWait": "50ms", "loadFactor": 100}`, patience},
			{`{"connectWait": "50ms", "lazy": true}`, patience},
		} {
			c := newServers(t, five...)
			c.kill(five[2])
			c.listen(five[2])
			c.connectTo(policy, test.config, endpointsAt(five...))
			home := keyOf(t, mapping(five...), five[0])
			call := func(key string) answer {
				ctx, cancel := context.WithTimeout(chashgrpc.WithKey(t.Context(), key), test.deadline)
				defer cancel()
				name, err := c.call(ctx)
				return answer{key, name, err}
			}
			for _, key := range keys(40) {
				// A connection to another server may take its time too.
				_, err := c.callKey(home)
				require.NoError(t, err)
				a := call(key)
				require.NoError(t, a.err, test.config)
				require.NotEqual(t, five[2], a.name)
			}
		}
	})
}

// After idleness all connections are made anew, and no key goes astray meanwhile.
func TestIdleness(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping(five...)
		c := newServers(t, five...)
		c.connectTo(policy, `{}`, endpointsAt(five...), grpc.WithIdleTimeout(time.Millisecond))
		for range 5 {
			check(t, m, c.callAll(keys(100)))
			eventually(t, "the channel is idle", func() bool {
				return c.conn.GetState() == connectivity.Idle && c.open.Load() == 0
			})
		}
	})
}

// Servers that let connections grow old send GOAWAY, the commonest setting there is. No
// RPC fails, and none goes to another server than its key's.
func TestConnectionsAge(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping(five...)
		c := newServers(t)
		var connected atomic.Int64
		for _, name := range five {
			c.start(name, grpc.KeepaliveParams(keepalive.ServerParameters{
				MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: patience,
			}))
			c.dial[name] = func(ctx context.Context, address string) (conn net.Conn, err error) {
				connected.Add(1)
				return dialTCP(ctx, address)
			}
		}
		c.connectTo(policy, `{}`, endpointsAt(five...))
		stop := c.load(t, m, nil)
		eventually(t, "connections have grown old many times", func() bool {
			return connected.Load() > 50
		})
		stop()
	})
}

// load makes RPCs of many keys until stop is called, which requires that each went to
// its key's server. Those of forgiven servers may fail.
func (c *cluster) load(t *testing.T, m mapping, forgiven func(key string, err error) bool) (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	var made atomic.Int64
	astray := map[string]int{}
	var mu sync.Mutex
	for worker := range 8 {
		wait.Go(func() {
			for i := worker; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key := fmt.Sprint("key-", i%500)
				want, err := m.Get(key)
				if err != nil {
					panic(err)
				}
				got, err := c.callKey(key)
				made.Add(1)
				if got != want && (forgiven == nil || !forgiven(key, err)) {
					mu.Lock()
					astray[fmt.Sprintf("%s at %s: %v", want, got, err)]++
					mu.Unlock()
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(done)
		wait.Wait()
		require.Empty(t, slices.Sorted(maps.Keys(astray)), "of %d RPCs", made.Load())
		require.Positive(t, made.Load())
	})
}

// An RPC that begins with the connection waits for three quarters of its time, unless
// connectWait is shorter.
func TestPatience(t *testing.T) {
	since := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), since.Add(8*time.Second))
	defer cancel()
	for _, test := range []struct {
		ctx   context.Context
		limit time.Duration
		want  time.Duration // 0 for ever
	}{
		{t.Context(), chashgrpc.Unlimited, 0},
		{t.Context(), time.Second, time.Second},
		{ctx, chashgrpc.Unlimited, 6 * time.Second},
		{ctx, 7 * time.Second, 6 * time.Second},
		{ctx, 5 * time.Second, 5 * time.Second},
	} {
		end, ends := chashgrpc.Patience(test.ctx, since, test.limit)
		require.Equal(t, test.want > 0, ends)
		if ends {
			require.Equal(t, test.want, end.Sub(since))
		}
	}
}

// An endpoint's own picker is asked for each RPC as soon as its results have something of one
// RPC: what is to be called at its end, or metadata for it.
func TestPicksOfOneRPC(t *testing.T) {
	ends := 0
	for name, result := range map[string]balancer.PickResult{
		"Done":     {Done: func(balancer.DoneInfo) { ends++ }},
		"Metadata": {Metadata: metadata.Pairs("a", "b")},
	} {
		c := newChannel(t, chashgrpc.MaglevName, `{}`, endpointsAt("a:1")...)
		picks := 0
		chashgrpc.SetPicker(c.policy, picker(func(balancer.PickInfo) (balancer.PickResult, error) {
			picks++
			return result, nil
		}))
		before := picks
		for range 3 {
			got, err := c.state().Picker.Pick(keyed(t, "key"))
			require.NoError(t, err, name)
			require.Equal(t, result.Metadata, got.Metadata)
			if got.Done != nil {
				got.Done(balancer.DoneInfo{})
			}
		}
		require.Equal(t, before+3, picks, name)
	}
	require.Equal(t, 3, ends)
}
