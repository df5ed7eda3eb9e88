package chashhttp

import (
	"context"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// A Key returns the client or the object of a request. Requests of one key go to one
// backend. The empty string means that the request has no key. Many goroutines call a
// Key at once. It must not change the request; the Keys of bodies are the exception.
//
// For the Keys of this package, a value that is present but empty is no key.
// Otherwise all requests with an empty header would go to one backend.
type Key func(*http.Request) string

// Header returns a Key that is the value of a header. Case does not matter in the
// name. Several values are joined by commas, as RFC 9110, section 5.3, allows. "Host"
// is the host of the request, with its port if there is one, although net/http keeps
// it apart from the headers.
func Header(name string) Key {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "Host" {
		return host
	}
	return func(r *http.Request) string {
		joined := strings.Join(r.Header[name], ",")
		if len(joined) == len(r.Header[name])-1 { // nothing but the commas: all are empty
			return ""
		}
		return joined
	}
}

// host returns what the Host header of a request is or, for one that is yet to be
// sent, will be.
func host(r *http.Request) string {
	if r.Host == "" && r.URL != nil {
		return r.URL.Host
	}
	return r.Host
}

// Cookie returns a Key that is the value of the first cookie with that name. Case
// matters.
func Cookie(name string) Key {
	return func(r *http.Request) string {
		cookie, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return cookie.Value
	}
}

// RemoteAddr returns a Key that is the IP address in Request.RemoteAddr, where a
// server puts the origin of the request. A request that a client makes has none. The
// port is left out, since it changes with every connection. An address has one key in
// every spelling: IPv4 plain or mapped to IPv6, IPv6 with or without zeros, in either
// case. A zone is part of the key. What is no IP address, such as the name of a Unix
// socket, is no key.
//
// Behind another proxy, this is the address of that proxy. Use a header in which the
// proxy passes on the client's address, if you can trust it.
func RemoteAddr() Key { return remoteAddr }

func remoteAddr(r *http.Request) string {
	addr, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return ""
	}
	return addr.Unmap().String()
}

// parseAddr parses host:port, or a host alone, in brackets or not.
func parseAddr(s string) (netip.Addr, bool) {
	if addrPort, err := netip.ParseAddrPort(s); err == nil {
		return addrPort.Addr(), true
	}
	if bare, found := strings.CutPrefix(s, "["); found {
		if s, found = strings.CutSuffix(bare, "]"); !found {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(s)
	return addr, err == nil
}

// Path returns a Key that is the path of the URL, without the query. Slashes count: a
// trailing slash makes another path. Escapes do not count: /~a and /%7Ea are one
// path. But /a%2Fb, where the slash is part of a segment, and /a/b are two. An empty
// path is /, so that every request has a key.
func Path() Key { return path }

func path(r *http.Request) string {
	if r.URL == nil || r.URL.Path == "" {
		return "/"
	}
	return respell(r.URL.EscapedPath())
}

// PathSegments returns a Key that is the first n segments of the path, or all if
// there are fewer, each after a slash: of /tenant/7/orders, PathSegments(2) is
// /tenant/7. Empty segments are skipped, so that //tenant/7/ has the same key.
// Escapes are as in Path: an escaped slash does not divide. Dots are ordinary
// segments. A path without a segment has no key. For an n of 0 or below, no request
// has one.
func PathSegments(n int) Key {
	return func(r *http.Request) string {
		if r.URL == nil {
			return ""
		}
		var key strings.Builder
		left := n
		for segment := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
			if left <= 0 {
				break
			}
			if segment != "" {
				key.WriteByte('/')
				key.WriteString(respell(segment))
				left--
			}
		}
		return key.String()
	}
}

// respell returns the one spelling of all that mean the same escaped path: what is
// escaped that need not be, and the other way round. A path that is spelled so already is
// returned as it is.
func respell(path string) string {
	plain := 0
	for plain < len(path) && (path[plain] == '/' || isPlain(path[plain])) {
		plain++
	}
	if plain == len(path) {
		return path
	}
	var out strings.Builder
	out.Grow(len(path) + len(path)/8)
	out.WriteString(path[:plain])
	for i := plain; i < len(path); i++ {
		c, escaped := unescape(path, i)
		if escaped {
			i += 2
		} else {
			c = path[i]
		}
		switch {
		case isPlain(c), c == '/' && !escaped:
			out.WriteByte(c)
		default:
			writeEscape(&out, c)
		}
	}
	return out.String()
}

// isPlain reports whether url.PathEscape leaves c as it is. What else means the same
// is escaped in a key.
func isPlain(c byte) bool {
	return isUnreserved(c) || strings.IndexByte("$&+:=@", c) >= 0
}

// First returns a Key that is the first key that the request has. Nil Keys are
// skipped. Without Keys, no request has a key.
func First(keys ...Key) Key {
	present := withoutNil(keys)
	return func(r *http.Request) string {
		for _, key := range present {
			if found := key(r); found != "" {
				return found
			}
		}
		return ""
	}
}

func withoutNil(keys []Key) (present []Key) {
	for _, key := range keys {
		if key != nil {
			present = append(present, key)
		}
	}
	return present
}

type contextKey struct{}

// WithKey returns a context with a key, for the Key of FromContext. An empty key
// means that the request has no key.
//
// So a request can have a key that is no part of it. A key also gets through an
// httputil.ReverseProxy this way: the outgoing request has lost headers such as
// X-Forwarded-For, so the key must come from the incoming one.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey{}, key)
}

// FromContext returns a Key that is the key of WithKey in the request's context.
func FromContext() Key { return fromContext }

func fromContext(r *http.Request) string {
	key, _ := r.Context().Value(contextKey{}).(string)
	return key
}
