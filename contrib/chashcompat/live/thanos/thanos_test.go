//go:build live

package thanos

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/thanos-io/thanos/pkg/receive"
	"github.com/thanos-io/thanos/pkg/store/labelpb"
	"github.com/thanos-io/thanos/pkg/store/storepb/prompb"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
	"github.com/chash-go/chash/contrib/chashcompat/live"
)

type source struct{ live.Source }

// text returns a text that is now and then empty.
func (s source) text() string {
	if s.IntN(20) == 0 {
		return ""
	}
	return s.Key(live.Long)
}

// The hashring of Thanos has the same endpoints for each series and replica.
func TestThanos(t *testing.T) {
	const pools, series = 12, 1000
	s := source{live.NewSource(t)}
	var names []string
	for i := range 40 {
		host := fmt.Sprintf("thanos-receive-%d.thanos", i)
		if i%4 == 0 {
			host = fmt.Sprintf("[fd00::%x]", i+1)
		}
		names = append(names, fmt.Sprintf("%s:%d", host, 10901+i%3))
	}
	var count live.Tally
	for range pools {
		p := s.Pool(names, 20, 1)
		replicas := s.Between(1, min(3, len(p)))
		var endpoints []receive.Endpoint
		for _, b := range p {
			endpoints = append(endpoints, receive.Endpoint{Address: b.Name})
		}
		want, err := receive.NewMultiHashring(receive.AlgorithmKetama, uint64(replicas),
			[]receive.HashringConfig{{Endpoints: endpoints}}, prometheus.NewRegistry())
		require.NoError(t, err)
		ring, err := chash.NewRing(p, chashcompat.Thanos())
		require.NoError(t, err)
		for range series {
			tenant := s.text()
			var labels []labelpb.ZLabel
			var key []chashcompat.ThanosLabel
			for range s.Between(0, 12) {
				l := chashcompat.ThanosLabel{Name: s.text(), Value: s.text()}
				labels = append(labels, labelpb.ZLabel(l))
				key = append(key, l)
			}
			got, err := ring.GetN(chashcompat.ThanosKey(tenant, key...), replicas)
			require.NoError(t, err)
			for n := range replicas {
				endpoint, err := want.GetN(tenant, &prompb.TimeSeries{Labels: labels}, uint64(n))
				require.NoError(t, err)
				require.Equal(t, endpoint.Address, got[n], "replica %d of tenant %q, labels %q", n, tenant, key)
			}
			count.Keys += replicas
		}
		want.Close()
		count.Pools++
	}
	count.Done(t, "Thanos")
}
