package chashgrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// contextKey is the key of the context's value. It is a pointer, so that contexts
// compare it quickly.
var contextKey = new(struct{ _ byte })

// WithKey returns a context that gives its RPCs a key. It goes before a key in the
// metadata. Any string is a key, also the empty one. The key is not sent to the
// server.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey, key)
}

// keyOf returns the key of an RPC, and reports whether the RPC has one. The header
// may be empty. Empty metadata is no key, as in gRFC A76. Otherwise all RPCs with
// empty metadata would go to one server.
func keyOf(ctx context.Context, header string) (key string, found bool) {
	if key, found = ctx.Value(contextKey).(string); found || header == "" {
		return key, found
	}
	values := metadata.ValueFromOutgoingContext(ctx, header)
	if len(values) == 1 {
		return values[0], values[0] != ""
	}
	for _, value := range values {
		if value != "" {
			return strings.Join(values, ","), true
		}
	}
	return "", false
}
