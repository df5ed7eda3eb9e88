package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// A keyFunc returns what identifies the client of a request, empty if nothing
// does.
type keyFunc func(*http.Request) string

// parseKey parses header:name, cookie:name or address.
func parseKey(s string) (keyFunc, error) {
	kind, name, named := strings.Cut(s, ":")
	switch {
	case kind == "header" && name != "":
		return headerKey(name), nil
	case kind == "cookie" && name != "":
		return cookieKey(name), nil
	case kind == "address" && !named:
		return addressKey, nil
	}
	return nil, fmt.Errorf("%q is none of header:name, cookie:name and address", s)
}

// headerKey is a header's value, or its values with commas between them.
func headerKey(name string) keyFunc {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "Host" { // which net/http keeps apart
		return func(r *http.Request) string { return r.Host }
	}
	return func(r *http.Request) string { return strings.Join(r.Header[name], ",") }
}

// cookieKey is the value of a cookie, of the first one if there are several.
func cookieKey(name string) keyFunc {
	return func(r *http.Request) string {
		cookie, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return cookie.Value
	}
}

// addressKey is the address of the client without its port, which changes with
// every connection. A client has one key whether its IPv4 address arrives as such
// or mapped to IPv6.
func addressKey(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return address.Addr().Unmap().String()
}
