package chashhttp_test

import (
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
