package chashhttp

import (
	"net/http"
	"net/url"
	"strings"
)

// Host returns a Key that is the host which a request is for, in lower case and without
// the port: of virtual hosts, each has a backend. Unlike Header("Host") it does not tell
// spellings of one name apart.
func Host() Key {
	return func(r *http.Request) string {
		name, _ := splitPort(strings.ToLower(host(r)))
		return strings.TrimSuffix(name, ".")
	}
}

// Query returns a Key that is the value of a parameter in the query, of the first if
// there are several of that name. Case matters. It reads no more of the query than it
// takes to find that.
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

// URI returns a Key that is the path, as that of Path, and the query as it is, after a
// question mark if there is one.
func URI() Key {
	return func(r *http.Request) string {
		if r.URL == nil || r.URL.RawQuery == "" {
			return path(r)
		}
		return path(r) + "?" + r.URL.RawQuery
	}
}

// Join returns a Key that is made of several: requests that agree in each of them go to
// one backend. A request that has none of them has no key; one that has some has one. A
// nil Key is left out.
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
