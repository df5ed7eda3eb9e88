package chashhttp

import (
	"net/http"
	"strings"
)

// sendable reports whether a request can be written down at all. Where it cannot,
// net/http returns an error without having sent anything, whichever backend it is
// for. Were that a failure of the backend, a caller who puts into a header what users
// type could be made to take all of them out. It is only asked after an error, and
// leaves the trailers alone: the body may still be read by then, and fill them in.
func sendable(out *http.Request) bool {
	return (out.Method == "" || isToken(out.Method)) && !hasControl(out.URL.RequestURI()) && validHeader(out.Header) &&
		(out.Body != nil || out.ContentLength == 0)
}

// validHeader reports whether names and values are as RFC 9110, section 5, has them,
// the values to the extent that net/http looks at them.
func validHeader(header http.Header) bool {
	for name, values := range header {
		if !isToken(name) {
			return false
		}
		for _, value := range values {
			if hasControl(strings.ReplaceAll(value, "\t", " ")) {
				return false
			}
		}
	}
	return true
}

func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !isTokenRune(r) }) < 0
}

// isTokenRune reports whether r is a tchar of RFC 9110, section 5.6.2.
func isTokenRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func hasControl(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0
}
