package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that asks for http:path, which a server takes, is told that it is wrong.
func TestProxy_OpaqueURL(t *testing.T) {
	h, err := newProxy(newTestPool(t), config{health: healthConfig{down: 1}, key: func(*http.Request) string { return "" }}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer h.close()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.Opaque = "path"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusBadRequest, w.Code)
}
