package chashhttp

import (
	"context"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// A Key returns what identifies the client or the object of a request: requests of
// one key go to one backend. The empty string means that the request has no key.
// A Key is called by many goroutines at once and must not change the request, but for
// those of a body.
//
// Those of this package take a value that is present but empty as no key. Else all
// requests whose header is empty, say, would meet at one backend.
type Key func(*http.Request) string

// Header returns a Key that is the value of a header, whatever the case of name. The
// values of a header that is there more than once are joined by commas, as RFC 9110,
// section 5.3, allows any recipient to. "Host" is the host that the request is for,
// with its port if it names one, although net/http keeps it apart from the headers.
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

// Cookie returns a Key that is the value of a cookie, of the first one if there are
// several of that name. Case matters.
func Cookie(name string) Key {
	return func(r *http.Request) string {
		cookie, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return cookie.Value
	}
}

// RemoteAddr returns a Key that is the IP address in Request.RemoteAddr, which a
// server has set to where the request came from; a request that a client makes has
// none. The port, which changes with every connection, is left out, and may be
// missing. An address has one key however it is written: IPv4 as such or mapped to
// IPv6, IPv6 with or without its zeros, in upper or lower case. A zone is part of
// the key, since link-local addresses of different zones are different hosts. What
// is no IP address, such as the name of a Unix socket, is no key.
//
// Behind another proxy the address is that proxy's: take the header in which it
// passes the client's on, if it can be trusted.
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

// Path returns a Key that is the path of the URL, without the query. Slashes count as
// they are; a trailing one makes another path. Escapes do not: /~a and /%7Ea are one
// path, but /a%2Fb, where the slash is part of a segment, and /a/b are two. Every
// request has such a key: no path at all is /.
func Path() Key { return path }

func path(r *http.Request) string {
	if r.URL == nil || r.URL.Path == "" {
		return "/"
	}
	return respell(r.URL.EscapedPath())
}

// PathSegments returns a Key that is the first n segments of the path, or all where
// there are fewer, each with a slash before it: of /tenant/7/orders, PathSegments(2)
// makes /tenant/7. Empty segments, as between two slashes and after a trailing one,
// do not count and are left out, so that //tenant/7/ has that key too. Escapes are
// as in Path: an escaped slash does not divide. Dots are segments like others. A
// path without a segment has no key, and for an n of 0 or below no request has.
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

// First returns a Key that is the first of keys which the request has. A nil one is
// left out. Without any, no request has a key.
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

// WithKey returns a context that carries a key, for the Key of FromContext. The
// empty one makes a request have no key, whatever the context had before.
//
// That is how a request is given a key that is no part of it, and how the key gets
// past a httputil.ReverseProxy: the request that leaves it has lost headers such as
// X-Forwarded-For, so that the key must be taken from the one that came in.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey{}, key)
}

// FromContext returns a Key that is the one of WithKey in the request's context.
func FromContext() Key { return fromContext }

func fromContext(r *http.Request) string {
	key, _ := r.Context().Value(contextKey{}).(string)
	return key
}
