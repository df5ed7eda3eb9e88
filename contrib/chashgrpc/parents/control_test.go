package parents_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	xdstype "github.com/cncf/xds/go/xds/type/v3"
	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	localitypb "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	node             = "tests"
	bootstrapVar     = "GRPC_XDS_BOOTSTRAP"
	bootstrapContent = `{
	"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
	"node": {"id": %q, "locality": {"zone": "here"}}
}`
)

// TestMain runs the tests in a process of their own: grpc-go reads the name of xDS's
// bootstrap file when it starts, and the file when it first needs it.
func TestMain(m *testing.M) {
	if os.Getenv(bootstrapVar) == "" {
		os.Exit(again())
	}
	stop, err := startControl()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

func again() int {
	dir, err := os.MkdirTemp("", "parents")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Env = append(os.Environ(), bootstrapVar+"="+filepath.Join(dir, "bootstrap.json"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

var (
	snapshots = cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	version   atomic.Int64
)

// startControl starts the control plane on loopback.
func startControl() (stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(g, xds.NewServer(ctx, snapshots, nil))
	go func() { _ = g.Serve(listener) }()
	bootstrap := fmt.Sprintf(bootstrapContent, listener.Addr(), node)
	return func() { cancel(); g.Stop() }, os.WriteFile(os.Getenv(bootstrapVar), []byte(bootstrap), 0o600)
}

// A control has the control plane know of one service, which is a cluster of servers.
type control struct {
	testing.TB
	service string
}

func newControl(tb testing.TB) *control {
	return &control{tb, fmt.Sprint("service-", version.Add(1))}
}

func (c *control) target() string { return "xds:///" + c.service }

// A locality is servers of one locality and priority.
type locality struct {
	name     string
	priority uint32
	servers  []*server
	weights  []uint32 // of the servers; nil for all alike
}

// serve has the cluster consist of the localities, with a policy for its endpoints.
func (c *control) serve(policy *anypb.Any, outliers *clusterpb.OutlierDetection, localities ...locality) {
	assignment := &endpointpb.ClusterLoadAssignment{ClusterName: c.service}
	for _, l := range localities {
		group := &endpointpb.LocalityLbEndpoints{
			Locality:            &corepb.Locality{Zone: l.name},
			Priority:            l.priority,
			LoadBalancingWeight: wrapperspb.UInt32(1),
		}
		for i, s := range l.servers {
			e := &endpointpb.LbEndpoint{
				HostIdentifier: &endpointpb.LbEndpoint_Endpoint{Endpoint: &endpointpb.Endpoint{Address: socket(c, s.address)}},
			}
			if l.weights != nil {
				e.LoadBalancingWeight = wrapperspb.UInt32(l.weights[i])
			}
			group.LbEndpoints = append(group.LbEndpoints, e)
		}
		assignment.Endpoints = append(assignment.Endpoints, group)
	}
	eds := &corepb.ConfigSource{ConfigSourceSpecifier: &corepb.ConfigSource_Ads{Ads: &corepb.AggregatedConfigSource{}}}
	snapshot, err := cache.NewSnapshot(strconv.FormatInt(version.Add(1), 10), map[resource.Type][]types.Resource{
		resource.ListenerType: {listener(c)},
		resource.ClusterType: {&clusterpb.Cluster{
			Name:                 c.service,
			ClusterDiscoveryType: &clusterpb.Cluster_Type{Type: clusterpb.Cluster_EDS},
			EdsClusterConfig:     &clusterpb.Cluster_EdsClusterConfig{EdsConfig: eds, ServiceName: c.service},
			OutlierDetection:     outliers,
			LoadBalancingPolicy:  one(policy),
		}},
		resource.EndpointType: {assignment},
	})
	require.NoError(c, err)
	require.NoError(c, snapshots.SetSnapshot(context.Background(), node, snapshot))
}

func listener(c *control) *listenerpb.Listener {
	route := &routepb.RouteConfiguration{
		Name: c.service,
		VirtualHosts: []*routepb.VirtualHost{{Name: c.service, Domains: []string{"*"}, Routes: []*routepb.Route{{
			Match: &routepb.RouteMatch{PathSpecifier: &routepb.RouteMatch_Prefix{Prefix: ""}},
			Action: &routepb.Route_Route{Route: &routepb.RouteAction{
				ClusterSpecifier: &routepb.RouteAction_Cluster{Cluster: c.service},
			}},
		}}}},
	}
	manager := pack(c, &managerpb.HttpConnectionManager{
		RouteSpecifier: &managerpb.HttpConnectionManager_RouteConfig{RouteConfig: route},
		HttpFilters: []*managerpb.HttpFilter{{
			Name: "router", ConfigType: &managerpb.HttpFilter_TypedConfig{TypedConfig: pack(c, &routerpb.Router{})},
		}},
	})
	return &listenerpb.Listener{Name: c.service, ApiListener: &listenerpb.ApiListener{ApiListener: manager}}
}

// custom returns a policy of grpc-go's registry, as xDS names it.
func custom(tb testing.TB, policy string, config map[string]any) *anypb.Any {
	value, err := structpb.NewStruct(config)
	require.NoError(tb, err)
	return pack(tb, &xdstype.TypedStruct{TypeUrl: "type.googleapis.com/" + policy, Value: value})
}

// perLocality returns the policy that has one of the given kind in each locality, below
// weighted_target.
func perLocality(tb testing.TB, policy *anypb.Any) *anypb.Any {
	return pack(tb, &localitypb.WrrLocality{EndpointPickingPolicy: one(policy)})
}

func one(policy *anypb.Any) *clusterpb.LoadBalancingPolicy {
	return &clusterpb.LoadBalancingPolicy{Policies: []*clusterpb.LoadBalancingPolicy_Policy{
		{TypedExtensionConfig: &corepb.TypedExtensionConfig{Name: "policy", TypedConfig: policy}},
	}}
}

func pack(tb testing.TB, m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	require.NoError(tb, err)
	return packed
}

func socket(tb testing.TB, address string) *corepb.Address {
	host, port, err := net.SplitHostPort(address)
	require.NoError(tb, err)
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(tb, err)
	return &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
		Address: host, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(n)},
	}}}
}
