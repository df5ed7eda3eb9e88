package chashgrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// contextKey is the key of the context's value: a pointer, of which contexts find out at once
// whether it is theirs.
var contextKey = new(struct{ _ byte })

// WithKey returns a context that gives the RPCs made with it a key, before any
// metadata does. Any string is a key, also the empty one. It stays in this process
// and is not sent to the server.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey, key)
}

// keyOf returns the key of the RPC with that context and reports whether it has
// one. The header may be empty. Metadata without any text is no key, as gRFC A76 has
// it: all RPCs that lack what the header is meant for would go to one server.
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
