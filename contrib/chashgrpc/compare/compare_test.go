package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if !serveIfAsked() {
		os.Exit(m.Run())
	}
}

// What the README's table says in counts of chashgrpc's policies holds in a small run
// too. Times and the other policies are not judged.
func TestCounts(t *testing.T) {
	rows, err := run(scale{keys: 100, aging: 500 * time.Millisecond, rounds: 1, updates: 50})
	require.NoError(t, err)
	print(io.Discard, rows)
	most := func(what, title string, limit string) {
		t.Helper()
		found := false
		for _, r := range rows {
			for i, c := range contestants {
				if strings.HasPrefix(r.what, what) && strings.HasPrefix(c.title, title) {
					found = true
					require.LessOrEqual(t, len(r.values[i]), len(limit))
					require.LessOrEqual(t, r.values[i], limit, "%s, %s", r.what, c.title)
				}
			}
		}
		require.True(t, found, "%s, %s", what, title)
	}
	most("RPCs astray", "chash_", "0")
	most("RPCs failed meanwhile", "chash_", "0")
	most("RPCs failed of 40", "chash_", "0")
	most("RPCs failed when one of 5 servers is killed", "chash_", "99")
	most("keys moved between", "chash_ring", "0")
	most("keys moved between", "chash_maglev", "3")
	most("keys moved by endpoints", "chash_", "0")
	most("connections", "chash_maglev, lazy", "2")
}
