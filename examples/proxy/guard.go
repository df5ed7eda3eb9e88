package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// A guard keeps the admin API to those whom it is for. A browser on this machine reaches
// it too, and any web page can have the browser send requests.
type guard struct {
	host  string // of the -admin flag
	token [sha256.Size]byte
	asks  bool // for the token
	next  http.Handler
}

func newGuard(next http.Handler, c config) *guard {
	host, _, _ := net.SplitHostPort(c.admin)
	return &guard{host, sha256.Sum256([]byte(c.adminToken)), c.adminToken != "", next}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.knows(r):
		refuse(w, http.StatusMisdirectedRequest, "the Host is not that of this API")
	case !g.allows(r.Header.Get("Authorization")):
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "the token is missing or wrong")
	case crossOrigin(r):
		refuse(w, http.StatusForbidden, "the request comes from a web page of another origin")
	case r.ContentLength != 0 && !isJSON(r):
		refuse(w, http.StatusUnsupportedMediaType, "the Content-Type is not application/json")
	default:
		g.next.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	writeJSON(w, status, map[string]string{"error": why})
}

// knows reports whether the Host is one by which the API is reached: the host of the
// -admin flag, localhost, a loopback address, or the address that the connection came to.
// A page whose own name leads to this machine's address, by DNS rebinding, has another.
func (g *guard) knows(r *http.Request) bool {
	u, err := url.Parse("http://" + r.Host)
	if err != nil || u.Host != r.Host || r.Host == "" {
		return false
	}
	host := u.Hostname()
	if host == "localhost" || g.host != "" && host == g.host {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return addr.IsLoopback() || local != nil && addr.Unmap() == local.AddrPort().Addr().Unmap()
}

// allows reports whether the token is right, in a time that does not tell how much of
// it is.
func (g *guard) allows(authorization string) bool {
	const scheme = "Bearer "
	if !g.asks {
		return true
	}
	if len(authorization) < len(scheme) || authorization[:len(scheme)] != scheme {
		return false
	}
	got := sha256.Sum256([]byte(authorization[len(scheme):]))
	return subtle.ConstantTimeCompare(got[:], g.token[:]) == 1
}

// crossOrigin reports whether a web page of another origin asks for a change. It is what
// the CrossOriginProtection of net/http does, which there is since Go 1.25.
func crossOrigin(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		origin := r.Header.Get("Origin")
		if origin == "" { // no browser
			return false
		}
		u, err := url.Parse(origin)
		return err != nil || u.Host != r.Host
	}
	return true
}

// isJSON reports whether the body says that it is JSON. A page of another origin cannot
// send it without asking first.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// isLoopback reports whether nobody but this machine reaches an address to listen on.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
