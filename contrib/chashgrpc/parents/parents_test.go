package parents_test

import (
	"fmt"
	"testing"
	"time"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"

	_ "google.golang.org/grpc/xds" // the resolver, and the policies that are parents here
)

var policies = []struct {
	name    string
	mapping func([]chash.Backend[string]) (mapping, error)
}{
	{chashgrpc.MaglevName, func(b []chash.Backend[string]) (mapping, error) { return chash.NewMaglev(b) }},
	{chashgrpc.RingName, func(b []chash.Backend[string]) (mapping, error) { return chash.NewRing(b) }},
}

type mapping interface {
	Get(key string) (string, error)
	SetState(name string, state chash.State) error
}

var config = map[string]any{"requestHashHeader": "x-key"}

func addresses(servers []*server) []string {
	addresses := make([]string, len(servers))
	for i, s := range servers {
		addresses[i] = s.address
	}
	return addresses
}

// check requires that keys are where the mapping says.
func check(t *testing.T, m mapping, at map[string]string) {
	t.Helper()
	for key, got := range at {
		want, err := m.Get(key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
}

// priority_experimental fails over to the next priority while the servers of the first
// one are down, and comes back, also where the policy is lazy.
func TestPriority(t *testing.T) {
	for _, p := range policies {
		for _, lazy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lazy=%t", p.name, lazy), func(t *testing.T) {
				first, second := start(t, 2), start(t, 3)
				c := newControl(t)
				c.serve(custom(t, p.name, map[string]any{"requestHashHeader": "x-key", "lazy": lazy}), nil,
					locality{name: "here", servers: first}, locality{name: "there", priority: 1, servers: second})
				client := dial(t, c.target())
				m, err := p.mapping(chash.Named(addresses(first)...))
				require.NoError(t, err)
				check(t, m, client.servers(100))
				for _, s := range first {
					s.stop()
				}
				eventually(t, "the second priority has all keys", func() bool { return client.only(20, second...) })
				m2, err := p.mapping(chash.Named(addresses(second)...))
				require.NoError(t, err)
				check(t, m2, client.servers(100))
				for _, s := range first {
					s.start(t)
				}
				eventually(t, "the first priority has all keys", func() bool { return client.only(20, first...) })
				eventually(t, "and each at its own server", func() bool {
					for key, got := range client.servers(100) {
						if want, err := m.Get(key); err != nil || want != got {
							return false
						}
					}
					return true
				})
			})
		}
	}
}

// Below weighted_target_experimental each locality has a policy of its own: a key has one
// server in each, and the parent chooses the locality anew for each RPC. Weights of xDS
// are those of the mapping.
func TestWeightedTarget(t *testing.T) {
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			here, there := start(t, 3), start(t, 3)
			c := newControl(t)
			weights := []uint32{1, 5, 2}
			c.serve(perLocality(t, custom(t, p.name, config)), nil,
				locality{name: "here", servers: here, weights: weights}, locality{name: "there", servers: there, weights: weights})
			client := dial(t, c.target())
			mappings := make([]mapping, 2)
			for i, servers := range [][]*server{here, there} {
				var backends []chash.Backend[string]
				for j, s := range servers {
					backends = append(backends, chash.Backend[string]{Name: s.address, Value: s.address, Weight: weights[j]})
				}
				var err error
				mappings[i], err = p.mapping(backends)
				require.NoError(t, err)
			}
			met := map[int]int{}
			for range 5 {
				for key, got := range client.servers(60) {
					one, err := mappings[0].Get(key)
					require.NoError(t, err)
					other, err := mappings[1].Get(key)
					require.NoError(t, err)
					switch got {
					case one:
						met[0]++
					case other:
						met[1]++
					default:
						require.Fail(t, "a key at neither of its servers")
					}
				}
			}
			require.Len(t, met, 2, "both localities have RPCs")
			// A server of one locality fails: its keys have the next one there.
			here[1].stop()
			require.NoError(t, mappings[0].SetState(here[1].address, chash.Unhealthy))
			eventually(t, "keys are at one of their two servers", func() bool {
				for i := range 60 {
					key := fmt.Sprint("user-", i)
					got, err := client.call(key)
					one, _ := mappings[0].Get(key)
					other, _ := mappings[1].Get(key)
					if err != nil || got != one && got != other {
						return false
					}
				}
				return true
			})
		})
	}
}

// outlier_detection_experimental ejects a server that fails RPCs: its keys go on to their
// next servers, no other key moves, and they come back with it. Through xDS it stands
// below priority.
func TestOutlierDetection_XDS(t *testing.T) {
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			servers := start(t, 5)
			c := newControl(t)
			c.serve(custom(t, p.name, config), &clusterpb.OutlierDetection{
				Interval:                       durationpb.New(50 * time.Millisecond),
				BaseEjectionTime:               durationpb.New(time.Second),
				MaxEjectionTime:                durationpb.New(time.Second),
				MaxEjectionPercent:             wrapperspb.UInt32(50),
				FailurePercentageThreshold:     wrapperspb.UInt32(50),
				EnforcingFailurePercentage:     wrapperspb.UInt32(100),
				FailurePercentageMinimumHosts:  wrapperspb.UInt32(1),
				FailurePercentageRequestVolume: wrapperspb.UInt32(1),
				EnforcingSuccessRate:           wrapperspb.UInt32(0),
			}, locality{name: "here", servers: servers})
			ejects(t, dial(t, c.target()), p.mapping, servers)
		})
	}
}

// The same as the channel's own policy, from a service config.
func TestOutlierDetection_ServiceConfig(t *testing.T) {
	for _, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			servers := start(t, 5)
			r := manual.NewBuilderWithScheme("test")
			var all []resolver.Endpoint
			for _, s := range servers {
				all = append(all, resolver.Endpoint{Addresses: []resolver.Address{{Addr: s.address}}})
			}
			r.InitialState(resolver.State{Endpoints: all})
			ejects(t, dial(t, "test:///service", grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(fmt.Sprintf(`{
				"loadBalancingConfig": [{"outlier_detection_experimental": {
					"interval": "0.05s", "baseEjectionTime": "1s", "maxEjectionTime": "1s", "maxEjectionPercent": 50,
					"failurePercentageEjection": {
						"threshold": 50, "enforcementPercentage": 100, "minimumHosts": 1, "requestVolume": 1
					},
					"childPolicy": [{%q: {"requestHashHeader": "x-key"}}]
				}}]}`, p.name))), p.mapping, servers)
		})
	}
}

// ejects breaks a server and requires that its keys go elsewhere and come back.
func ejects(t *testing.T, client *client, mapping func([]chash.Backend[string]) (mapping, error), servers []*server) {
	m, err := mapping(chash.Named(addresses(servers)...))
	require.NoError(t, err)
	check(t, m, client.servers(100))
	servers[2].broken.Store(true)
	others := append(append([]*server{}, servers[:2]...), servers[3:]...)
	eventually(t, "the broken server is ejected", func() bool { return client.only(50, others...) })
	servers[2].broken.Store(false)
	eventually(t, "all keys are back", func() bool {
		for i := range 100 {
			key := fmt.Sprint("user-", i)
			want, _ := m.Get(key)
			if got, err := client.call(key); err != nil || got != want {
				return false
			}
		}
		return true
	})
}
