package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A backend whose checks pass while its requests hang is found by the requests, and
// left alone for longer each time: its checks do not bring it back at once.
func TestHang_ChecksPass(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	p := start(t, backends.flags("-header-timeout=500ms", "-health-interval=1s", "-health-up=1")...)
	_, release := backends.named("b").hold()
	defer close(release)
	key := keyWith(t, newTable(t, []string{"a", "b", "c"}), "b")
	late := 0
	for range 60 {
		switch got := <-p.sendLater(newRequest(t, http.MethodPost, p.proxy, key, nil)); got.status {
		case http.StatusGatewayTimeout:
			late++
		default:
			require.Equal(t, http.StatusOK, got.status)
		}
	}
	require.GreaterOrEqual(t, late, 3, "so many mark it")
	require.LessOrEqual(t, late, 9, "and one more each time that it returns")
	require.Equal(t, http.StatusOK, p.get(t, key).status)
}
