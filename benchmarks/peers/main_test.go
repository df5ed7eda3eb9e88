package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/benchmarks/peers/internal/peer"
)

// TestMeasure: each library answers, and moves at least the keys that the newcomer or the
// leaver has. Every run measures the same.
func TestMeasure(t *testing.T) {
	for _, p := range peer.All {
		t.Run(p.Name, func(t *testing.T) {
			r, err := measure(p, 10, 1, 5_000, false)
			require.NoError(t, err)
			require.GreaterOrEqual(t, r.RemovedTimes, 1.0)
			require.GreaterOrEqual(t, r.AddedTimes, 1.0)
			require.LessOrEqual(t, r.Least, 1.0)
			require.GreaterOrEqual(t, r.Most, 1.0)
			again, err := measure(p, 10, 1, 5_000, false)
			require.NoError(t, err)
			require.Equal(t, r, again)
		})
	}
}

// answerOfNone says what a lookup without backends does.
func answerOfNone(p peer.Peer) (answer string) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = "panics"
		}
	}()
	get, err := p.New(nil)
	if err != nil {
		return "error"
	}
	backend, err := get("key")
	if err != nil {
		return "error"
	}
	return fmt.Sprintf("%q", backend)
}

// TestNone: what the README says of lookups without backends.
func TestNone(t *testing.T) {
	got := map[string]string{}
	for _, p := range peer.All {
		got[p.Name] = answerOfNone(p)
	}
	require.Equal(t, map[string]string{
		"kkdai/maglev": "error", "buraksezer/consistent": "error", "serialx/hashring": "error",
		"authzed/consistent": "error", "grpc ring_hash": "error", "rendezvous": `""`,
	}, got)
}
