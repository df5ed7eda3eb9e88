package chashgrpc_test

import (
	"testing"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/balancer"
)

func TestParseConfig(t *testing.T) {
	const maglev, ring = chashgrpc.MaglevName, chashgrpc.RingName
	for _, test := range []struct {
		policy, config string
		want           error
	}{
		{maglev, `{}`, nil},
		{ring, `{}`, nil},
		{maglev, `{"tableSize": 2039, "seed": 18446744073709551615, "requestHashHeader": "X-User_id.2", "loadFactor": 1.01}`, nil},
		{ring, `{"replicas": 1, "seed": 0, "requestHashHeader": "", "loadFactor": 2}`, nil},
		{maglev, `{"tableSize": null, "loadFactor": null}`, nil},
		{maglev, `{"somethingNew": true}`, nil},
		{ring, `{"requestHashHeader": "azAZ09-_."}`, nil},

		{maglev, `{"tableSize": 4096}`, chash.ErrTableSizeNotPrime},
		{maglev, `{"tableSize": 0}`, chash.ErrTableSizeNotPrime},
		{maglev, `{"tableSize": -7}`, chash.ErrTableSizeNotPrime},
		{maglev, `{"tableSize": 2147483659}`, chash.ErrTableSizeTooLarge},
		{ring, `{"replicas": 0}`, chash.ErrInvalidReplicas},
		{ring, `{"replicas": -1}`, chash.ErrInvalidReplicas},
		{maglev, `{"loadFactor": 1}`, chash.ErrInvalidLoadFactor},
		{ring, `{"loadFactor": 0}`, chash.ErrInvalidLoadFactor},
		{ring, `{"loadFactor": -2}`, chash.ErrInvalidLoadFactor},

		{maglev, `{"replicas": 160}`, chashgrpc.ErrInvalidConfig},
		{ring, `{"tableSize": 65537}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": -1}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": 18446744073709551616}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": 1.5}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": "65537"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"loadFactor": 1e999}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": "key-bin"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": "KEY-BIN"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": ":path"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": "a key"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": "kéy"}`, chashgrpc.ErrInvalidConfig},
		{maglev, "{\"requestHashHeader\": \"`\"}", chashgrpc.ErrInvalidConfig}, // what is next to letters and digits
		{maglev, `{"requestHashHeader": "{"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": "/"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": ":"}`, chashgrpc.ErrInvalidConfig},
		{ring, `[]`, chashgrpc.ErrInvalidConfig},
		{ring, `{`, chashgrpc.ErrInvalidConfig},
		{ring, ``, chashgrpc.ErrInvalidConfig},
	} {
		t.Run(test.policy+test.config, func(t *testing.T) {
			c, err := balancer.Get(test.policy).(balancer.ConfigParser).ParseConfig([]byte(test.config))
			if test.want == nil {
				require.NoError(t, err)
				require.NotNil(t, c)
				return
			}
			require.ErrorIs(t, err, test.want)
			require.Contains(t, err.Error(), test.policy)
			require.True(t, c == nil, "a nil pointer in it would pass for a configuration")
		})
	}
}
