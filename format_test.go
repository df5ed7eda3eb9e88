package chash_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestString(t *testing.T) {
	backends := numbered("b", 3)
	backends[1].State = chash.Unhealthy
	table, err := chash.NewMaglev(backends, chash.WithTableSize(251))
	require.NoError(t, err)
	ring, err := chash.NewRing(backends, chash.WithReplicas(7))
	require.NoError(t, err)
	for want, s := range map[string]fmt.Stringer{
		"Maglev of 251 slots, 2 of 3 backends healthy": table,
		"Ring of 21 points, 2 of 3 backends healthy":   ring,
	} {
		require.Equal(t, want, s.String())
		for _, verb := range []string{"%v", "%+v", "%s"} {
			require.Equal(t, want, fmt.Sprintf(verb, s), verb)
		}
		require.Equal(t, `"`+want+`"`, fmt.Sprintf("%q", s))
		require.Equal(t, "  "+want, fmt.Sprintf("%*s", len(want)+2, s))
	}
}

// TestFormat_WhileItChanges: what fmt prints, with any verb, and what encoding/json
// writes is no race with changes.
func TestFormat_WhileItChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, make maker) {
		s := make(t, numbered("b", 5))
		readWhile(t, func(int) error {
			for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x"} {
				_ = fmt.Sprintf(verb, structureIn(s))
			}
			_, err := json.Marshal(structureIn(s))
			return err
		}, func(i int) {
			if err := s.SetState("b1", chash.State(i%3)); err != nil {
				t.Errorf("SetState: %v", err)
			}
			_, _ = s.Get("key")
		})
	})
}

func TestStructure_JSON(t *testing.T) {
	type conn = chan int // which cannot be marshalled
	backends := []chash.Backend[conn]{{Name: "b", State: chash.Draining}, {Name: "a", HashKey: "k", Weight: 3}}
	table, err := chash.NewMaglev(backends, chash.WithTableSize(7))
	require.NoError(t, err)
	data, err := json.Marshal(table)
	require.NoError(t, err)
	require.JSONEq(t, `{"structure": "Maglev", "size": 7, "backends": [
		{"name": "a", "hash_key": "k", "weight": 3, "state": "healthy"}, {"name": "b", "weight": 1, "state": "draining"}]}`, string(data))
	ring, err := chash.NewRing[conn](nil)
	require.NoError(t, err)
	data, err = json.Marshal(ring)
	require.NoError(t, err)
	require.JSONEq(t, `{"structure": "Ring", "size": 0, "backends": []}`, string(data))
}

func TestBackend_JSON(t *testing.T) {
	for want, b := range map[string]chash.Backend[string]{
		`{"name":"a","state":"healthy"}`: {Name: "a"},
		`{"name":"a","hash_key":"k","weight":2,"state":"unhealthy","value":"10.0.0.1:8080"}`: {Name: "a", HashKey: "k", Weight: 2, State: 1, Value: "10.0.0.1:8080"},
	} {
		data, err := json.Marshal(b)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		var back chash.Backend[string]
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, b, back)
	}
}
