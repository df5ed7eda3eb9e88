package chashgrpc_test

import (
	"encoding/json"
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
		{maglev, `{"tableSize": "65537", "seed": "12", "loadFactor": "1.5", "connectWait": "1.5s", "lazy": true}`, nil},
		{ring, `{"unitWeight": "4294967295"}`, nil},
		{ring, `{"replicas": 1e2, "seed": 7.0, "connectWait": "0s", "lazy": null}`, nil},
		{ring, `{"seed": "18446744073709551615", "replicas": "1.6E2"}`, nil},
		{ring, `{"requestHashHeader": "azAZ09-_."}`, nil},

		{maglev, `{"tableSize": 4096}`, chash.ErrTableSizeNotPrime},
		{maglev, `{"tableSize": 0}`, chash.ErrTableSizeNotPrime},
		{maglev, `{"tableSize": -7}`, chash.ErrTableSizeNotPrime},
		{maglev, `{"tableSize": 2147483659}`, chash.ErrInvalidOption},
		{ring, `{"replicas": 0}`, chash.ErrInvalidOption},
		{ring, `{"replicas": 0, "unitWeight": 5}`, chash.ErrInvalidOption},
		{ring, `{"replicas": -1}`, chash.ErrInvalidOption},
		{maglev, `{"loadFactor": 1}`, chash.ErrInvalidOption},
		{ring, `{"loadFactor": 0}`, chash.ErrInvalidOption},
		{ring, `{"loadFactor": -2}`, chash.ErrInvalidOption},

		{maglev, `{"replicas": 160}`, chashgrpc.ErrInvalidConfig},
		{ring, `{"tableSize": 65537}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": -1}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": 18446744073709551616}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": 1.5}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": "many"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": ""}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": "\"3\""}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": " 3"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": "null"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": 1e20}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": 3.5}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": [3]}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": "-1"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"unitWeight": 1}`, chashgrpc.ErrInvalidConfig},
		{ring, `{"unitWeight": 0}`, chashgrpc.ErrInvalidConfig},
		{ring, `{"unitWeight": 4294967296}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": -1.0}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": "0x10"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": 1e99999999}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"seed": true}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"loadFactor": "NaN"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"connectWait": 1}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"connectWait": "1"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"connectWait": "-1s"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"lazy": "true"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"lazy": 1}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"requestHashHeader": 1}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"somethingNew": true}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"table_size": 3}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"TableSize": 3}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": 3, "tableSize": 5}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": 3} {}`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize": 3`, chashgrpc.ErrInvalidConfig},
		{maglev, `{"tableSize"}`, chashgrpc.ErrInvalidConfig},
		{maglev, `null`, chashgrpc.ErrInvalidConfig},
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

func TestUnknownField(t *testing.T) {
	for policy, want := range map[string]string{
		chashgrpc.MaglevName: "the fields are connectWait, lazy, loadFactor, requestHashHeader, seed, tableSize",
		chashgrpc.RingName:   "the fields are connectWait, lazy, loadFactor, replicas, requestHashHeader, seed, unitWeight",
	} {
		_, err := balancer.Get(policy).(balancer.ConfigParser).ParseConfig([]byte(`{"table_size": 3}`))
		require.ErrorContains(t, err, "table_size: unknown field; "+want)
	}
}

// A policy above writes a configuration out and has it parsed again.
func TestConfigAsJSON(t *testing.T) {
	const text = `{"requestHashHeader":"x-key","seed":"12","connectWait":"1s","loadFactor":1.5,"lazy":true}`
	parser := balancer.Get(chashgrpc.RingName).(balancer.ConfigParser)
	c, err := parser.ParseConfig([]byte(text))
	require.NoError(t, err)
	again, err := json.Marshal(c)
	require.NoError(t, err)
	require.JSONEq(t, text, string(again))
	d, err := parser.ParseConfig(again)
	require.NoError(t, err)
	require.Equal(t, c, d)
}

func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{`{}`, `{"seed": "12", "loadFactor": 1.5}`, `{"tableSize": 3, "connectWait": "1s"}`, `{"lazy": true`, `[{}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, policy := range []string{chashgrpc.MaglevName, chashgrpc.RingName} {
			c, err := balancer.Get(policy).(balancer.ConfigParser).ParseConfig(text)
			if (c == nil) != (err != nil) {
				t.Fatalf("ParseConfig(%q) = %v, %v", text, c, err)
			}
			var object map[string]any
			if err == nil && json.Unmarshal(text, &object) != nil {
				t.Fatalf("ParseConfig(%q) takes what is no JSON object", text)
			}
		}
	})
}
