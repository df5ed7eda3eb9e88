package chashhttp

import (
	"net/netip"
	"net/url"
	"strings"
)

// An address is what tells servers apart: a backend's URL without the user, in the
// form that RFC 3986, section 6, makes of all that mean the same. Requests that two
// URLs of one address get are the same. The zero address is that of a nil URL. To make
// the address of a URL that is in that form already, as most are, allocates nothing.
type address struct{ scheme, host, path, query string }

func addressOf(u *url.URL) address {
	if u == nil {
		return address{}
	}
	scheme := strings.ToLower(u.Scheme)
	host := authority(scheme, u.Host)
	if u.Opaque != "" { // localhost:80, say: a scheme and something opaque
		host = u.Opaque
	}
	return address{scheme, host, normalPath(u), normalEscapes(u.RawQuery)}
}

// authority returns the host in lower case and without the port that its scheme has
// anyway (RFC 3986, sections 6.2.2.1 and 6.2.3), an IPv6 address in its shortest form.
func authority(scheme, host string) string {
	host = strings.ToLower(host)
	name, port := splitPort(host)
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		host, port = name, ""
	}
	if strings.HasPrefix(name, "[") {
		if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
			host = "[" + addr.String() + "]"
			if port != "" {
				host += ":" + port
			}
		}
	}
	return host
}

// splitPort splits a port off a host, which keeps its brackets.
func splitPort(host string) (name, port string) {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host, ""
	}
	return host[:colon], host[colon+1:]
}

// normalPath returns the escaped path without dots that lead nowhere and without a
// slash at its end, where the path of a request is joined in any case.
func normalPath(u *url.URL) string {
	path := normalEscapes(u.EscapedPath())
	if strings.Contains(path, "/.") {
		path = withoutDots(path)
	}
	return strings.TrimSuffix(path, "/")
}

// withoutDots resolves the segments . and .. of a path (RFC 3986, section 5.2.4).
func withoutDots(path string) string {
	var kept []string
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		switch segment {
		case "..":
			kept = kept[:max(min(1, len(kept)), len(kept)-1)]
			fallthrough
		case ".":
			if i == len(segments)-1 { // what is left ends with a slash
				kept = append(kept, "")
			}
		default:
			kept = append(kept, segment)
		}
	}
	return strings.Join(kept, "/")
}

// normalEscapes returns s with each escape in upper case, and those of characters
// that need none undone (RFC 3986, sections 6.2.2.1 and 6.2.2.2).
func normalEscapes(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		c, ok := unescape(s, i)
		switch {
		case !ok:
			out.WriteByte(s[i])
			continue
		case isUnreserved(c):
			out.WriteByte(c)
		default:
			writeEscape(&out, c)
		}
		i += 2
	}
	return out.String()
}

// unescape returns the byte that an escape at s[i:] stands for, if there is one.
func unescape(s string, i int) (c byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	high, low := fromHex(s[i+1]), fromHex(s[i+2])
	return high<<4 | low, high < 16 && low < 16
}

func fromHex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

func writeEscape(out *strings.Builder, c byte) {
	const hex = "0123456789ABCDEF"
	out.WriteByte('%')
	out.WriteByte(hex[c>>4])
	out.WriteByte(hex[c&15])
}

// isUnreserved reports whether c needs no escape anywhere: RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
