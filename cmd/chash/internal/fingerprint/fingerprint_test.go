package fingerprint

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sum = 0x74325b1fbafb86ba

func TestParse(t *testing.T) {
	whole := []Fingerprint{{Structure: "s", Home: Whole(sum), Live: Whole(1)}}
	for name, body := range map[string]string{
		"info":   "# TYPE chash_fingerprint_info gauge\nchash_fingerprint_info{structure=\"s\",fingerprint=\"74325b1fbafb86ba\"} 1\nchash_live_fingerprint_info{structure=\"s\",fingerprint=\"0000000000000001\"} 1\n",
		"json":   `{"name":"s","fingerprint":"74325b1fbafb86ba","live_fingerprint":"0x1"}`,
		"nested": `{"uptime":3,"structures":[{"name":"s","fingerprint":"74325b1fbafb86ba","live_fingerprint":"0000000000000001"}]}`,
		"named":  `{"s":{"fingerprint":"74325b1fbafb86ba","live_fingerprint":"0000000000000001"}}`,
	} {
		found, err := Parse([]byte(body), false)
		require.NoError(t, err, name)
		require.Equal(t, whole, found, name)
	}
	found, err := Parse([]byte("chash_fingerprint_info{structure=\"b\",fingerprint=\"2\"} 1\nchash_fingerprint_info{structure=\"a\",fingerprint=\"1\"} 1\n"), false)
	require.NoError(t, err)
	require.Equal(t, []Fingerprint{{Structure: "a", Home: Whole(1)}, {Structure: "b", Home: Whole(2)}}, found)
	for _, body := range []string{"", "{}", "[1,", "go_goroutines 3\n", "<html>", `{"fingerprint":"none"}`, `{"fingerprint":"74325b1fbafb86ba0"}`} {
		_, err := Parse([]byte(body), false)
		require.Error(t, err, body)
	}
}

func TestValue(t *testing.T) {
	require.True(t, Whole(sum).Same(Whole(sum)))
	require.False(t, Whole(sum).Same(Whole(sum+1)))
	require.False(t, Value{}.Same(Value{}), "nothing is known")
	require.Equal(t, "74325b1fbafb86ba", Whole(sum).String())
	require.Equal(t, "none", Value{}.String())
}

// TestFetch asks a real server on loopback.
func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, "chash_fingerprint_info{structure=\"s\",fingerprint=\"74325b1fbafb86ba\"} 1\n")
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for range MaxBytes/1024 + 2 {
			if _, err := io.WriteString(w, strings.Repeat("# "+strings.Repeat("x", 61)+"\n", 16)); err != nil {
				return
			}
		}
	})
	hang := make(chan struct{})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(hang)

	found, _, err := Fetch(context.Background(), server.URL+"/metrics", time.Minute)
	require.NoError(t, err)
	require.Equal(t, Whole(sum), found[0].Home)
	_, _, err = Fetch(context.Background(), server.URL+"/missing", time.Minute)
	require.ErrorIs(t, err, ErrFetch)
	require.ErrorContains(t, err, "404")
	_, _, err = Fetch(context.Background(), server.URL+"/endless", time.Minute)
	require.ErrorContains(t, err, "more than 16 MiB")
	_, _, err = Fetch(context.Background(), server.URL+"/hang", 50*time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ErrFetch)
	_, _, err = Fetch(context.Background(), "http://127.0.0.1:1/", time.Minute)
	require.ErrorIs(t, err, ErrFetch)
}
