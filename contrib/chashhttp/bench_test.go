package chashhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashhttp"
)

// BenchmarkTransport measures what a Transport adds to a request that succeeds, in
// parallel: its Base only answers. /direct is that Base without a Transport.
func BenchmarkTransport(b *testing.B) {
	answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	base := roundTripper(func(*http.Request) (*http.Response, error) { return answer, nil })
	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{
		{Name: "a", Value: &url.URL{Scheme: "http", Host: "a"}},
		{Name: "b", Value: &url.URL{Scheme: "http", Host: "b"}},
	})
	require.NoError(b, err)
	transport, err := chashhttp.NewTransport(table, chashhttp.Header(keyHeader), chashhttp.Options{Base: base})
	require.NoError(b, err)
	defer transport.Close()
	for _, bench := range []struct {
		name      string
		transport http.RoundTripper
		key       string
	}{{"direct", base, "key"}, {"key", transport, "key"}, {"no-key", transport, ""}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req, err := http.NewRequest(http.MethodGet, "http://service/path?x=1", nil)
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set(keyHeader, bench.key)
				req.Header.Set("Accept", "*/*")
				for pb.Next() {
					if _, err := bench.transport.RoundTrip(req); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkBackends measures the same with many backends: a request that succeeds, and two of
// which the first is the first failure of its backend and the other ends the streak. /direct is
// the Base alone.
func BenchmarkBackends(b *testing.B) {
	answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	lost := errors.New("connection refused")
	for _, n := range []int{10, 5000, 10_000} {
		list := make([]chash.Backend[*url.URL], n)
		for i := range list {
			host := fmt.Sprintf("10.0.%d.%d:80", i/256, i%256)
			list[i] = chash.Backend[*url.URL]{Name: host, Value: &url.URL{Scheme: "http", Host: host}}
		}
		table, err := chash.NewMaglev(list, chash.WithTableSize(chash.TableSizeFor(n)))
		require.NoError(b, err)
		failing := false
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			if failing {
				return nil, lost
			}
			return answer, nil
		})
		transport, err := chashhttp.NewTransport(table, chashhttp.Header(keyHeader), chashhttp.Options{
			Base: base, MaxAttempts: 1, FailureRatio: 1, // so that none is marked
		})
		require.NoError(b, err)
		defer transport.Close()
		req, err := http.NewRequest(http.MethodGet, "http://service/path?x=1", nil)
		require.NoError(b, err)
		req.Header.Set(keyHeader, "key")
		for _, bench := range []struct {
			name      string
			transport http.RoundTripper
		}{{"direct", base}, {"success", transport}} {
			b.Run(fmt.Sprintf("backends=%d/%s", n, bench.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := bench.transport.RoundTrip(req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("backends=%d/failure+success", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				failing = true
				if _, err := transport.RoundTrip(req); !errors.Is(err, lost) {
					b.Fatal(err)
				}
				failing = false
				if _, err := transport.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
