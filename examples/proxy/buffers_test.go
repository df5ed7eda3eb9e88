package main

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A writer throws an answer away.
type writer struct{ header http.Header }

func (w writer) Header() http.Header         { return w.header }
func (w writer) Write(p []byte) (int, error) { return len(p), nil }
func (w writer) WriteHeader(int)             {}

// The buffers that answers are copied through are used again: each is 32 KiB, and was
// most of what the proxy allocated.
func TestBuffers(t *testing.T) { // not parallel: it counts what all tests allocate
	if raceDetector {
		t.Skip("a sync.Pool forgets at random under the race detector")
	}
	b := startTestBackend(t, "a")
	c, err := parseFlags([]string{"-backend=a=" + b.url}, nil)
	require.NoError(t, err)
	p, err := newPool(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer p.close()
	require.NoError(t, p.wait(t.Context()))
	h, err := newProxy(p, c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	serve := func(times int) {
		for range times {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
			require.NoError(t, err)
			h.ServeHTTP(writer{http.Header{}}, r)
		}
	}
	serve(50)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 200
	serve(times)
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/times, uint64(bufferSize), "bytes of a request, with what the client and the backend take")

	buffer := h.reverse.BufferPool.Get()
	require.Len(t, buffer, bufferSize)
	h.reverse.BufferPool.Put(buffer)
}
