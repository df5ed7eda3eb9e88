package chashhttp

import (
	"net/http"
	"net/url"
	"strings"
)

// Host returns a Key that is the host of the request, in lower case and without the
// port. So each virtual host has a backend. Header("Host") would tell spellings
// apart.
func Host() Key {
	return func(r *http.Request) string {
		name, _ := splitPort(strings.ToLower(host(r)))
		return strings.TrimSuffix(name, ".")
	}
}

// Query returns a Key that is the value of the first query parameter with that name.
// Case matters. It reads the query only up to there.
func Query(name string) Key {
	return func(r *http.Request) string {
		if r.URL == nil {
			return ""
		}
		for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
			key, value, _ := strings.Cut(pair, "=")
			if unescaped(key) == name {
				return unescaped(value)
			}
		}
		return ""
	}
}

// unescaped returns what a part of a query means, or the part itself where it means
// nothing.
func unescaped(part string) string {
	plain, err := url.QueryUnescape(part)
	if err != nil {
		return part
	}
	return plain
}

// URI returns a Key that is the path, as in Path, and the query as it is, after a
// question mark if there is a query.
func URI() Key {
	return func(r *http.Request) string {
		if r.URL == nil || r.URL.RawQuery == "" {
			return path(r)
		}
		return path(r) + "?" + r.URL.RawQuery
	}
}

// Join returns a Key made of several Keys: requests that agree in all of them go to
// one backend. A request that has none of the keys has no key. Nil Keys are skipped.
func Join(keys ...Key) Key {
	present := withoutNil(keys)
	return func(r *http.Request) string {
		var joined strings.Builder
		found := false
		for _, key := range present {
			part := key(r)
			found = found || part != ""
			// With the length of each, "ab" and "c" are not "a" and "bc".
			writeLength(&joined, len(part))
			joined.WriteString(part)
		}
		if !found {
			return ""
		}
		return joined.String()
	}
}

// writeLength writes a length as 7 bits a byte, of which each but the last has the eighth.
func writeLength(out *strings.Builder, n int) {
	for ; n >= 0x80; n >>= 7 {
		out.WriteByte(byte(n) | 0x80)
	}
	out.WriteByte(byte(n))
}
