package parents_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/chash-go/chash/contrib/chashprom"
)

// chashprom collects from the Handle of a channel, before it connects and after.
func TestProm(t *testing.T) {
	servers := start(t, 1)
	target := "passthrough:///" + servers[0].address
	collector := chashprom.New(chashprom.PerBackend())
	require.NoError(t, collector.Add("greeter", chashgrpc.ForTarget(target)))
	collect := func(healthy int) error {
		return testutil.CollectAndCompare(collector, strings.NewReader(fmt.Sprintf(`
# HELP chash_backends Backends by state.
# TYPE chash_backends gauge
chash_backends{state="draining",structure="greeter"} 0
chash_backends{state="healthy",structure="greeter"} %d
chash_backends{state="unhealthy",structure="greeter"} 0
`, healthy)), "chash_backends")
	}
	require.NoError(t, collect(0))
	client := dial(t, target, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"chash_ring": {}}]}`))
	_, err := client.call("key")
	require.NoError(t, err)
	require.NoError(t, collect(1))
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(fmt.Sprintf(`
# HELP chash_backend_share_ratio Share of a backend in the key space, whatever its health.
# TYPE chash_backend_share_ratio gauge
chash_backend_share_ratio{backend=%q,structure="greeter"} 1
`, servers[0].address)), "chash_backend_share_ratio"))
}
