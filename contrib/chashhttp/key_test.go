package chashhttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/contrib/chashhttp"
)

func TestKey_Header(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		header string
		values []string
		want   string
	}{
		{"one value", "X-User", []string{"a"}, "a"},
		{"any case", "x-user", []string{"a"}, "a"},
		{"several values", "X-User", []string{"a", "b", "a"}, "a,b,a"},
		{"a list is one value", "X-User", []string{"a, b"}, "a, b"},
		{"a comma", "X-User", []string{","}, ","},
		{"some are empty", "X-User", []string{"", "a", ""}, ",a,"},
		{"empty", "X-User", []string{""}, ""},
		{"all are empty", "X-User", []string{"", "", ""}, ""},
		{"absent", "X-Other", []string{"a"}, ""},
		{"no name", "", []string{"a"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{"X-User": test.values}}
			require.Equal(t, test.want, chashhttp.Header(test.header)(r))
		})
	}
	require.Empty(t, chashhttp.Header("X-User")(new(http.Request)), "of a request without headers")
}

// Host is no header to net/http, neither where it arrives nor where it is sent.
func TestKey_HeaderHost(t *testing.T) {
	t.Parallel()
	host := chashhttp.Header("host")
	require.Equal(t, "example.org:81", host(httptest.NewRequest("GET", "http://example.org:81/", nil)))
	require.Equal(t, "example.org", host(&http.Request{URL: &url.URL{Host: "example.org"}}))
	require.Equal(t, "other", host(&http.Request{Host: "other", URL: &url.URL{Host: "example.org"}}))
	require.Empty(t, host(new(http.Request)))
}

func TestKey_Cookie(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, header, want string }{
		{"among others", "a=1; session=2; b=3", "2"},
		{"the first of two", "session=2; session=3", "2"},
		{"in quotes", `session="2"`, "2"},
		{"empty", "session=", ""},
		{"another case", "Session=2", ""},
		{"absent", "a=1", ""},
		{"garbage", ";;=;session", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{"Cookie": {test.header}}}
			require.Equal(t, test.want, chashhttp.Cookie("session")(r))
		})
	}
	require.Empty(t, chashhttp.Cookie("")(&http.Request{Header: http.Header{"Cookie": {"a=1"}}}))
}

func TestKey_RemoteAddr(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, remote, want string }{
		{"IPv4", "10.0.0.1:1234", "10.0.0.1"},
		{"another port", "10.0.0.1:4321", "10.0.0.1"},
		{"no port", "10.0.0.1", "10.0.0.1"},
		{"mapped to IPv6", "[::ffff:10.0.0.1]:1234", "10.0.0.1"},
		{"mapped in hexadecimal", "[::FFFF:a00:1]:1234", "10.0.0.1"},
		{"mapped, no port", "::ffff:10.0.0.1", "10.0.0.1"},
		{"IPv6", "[2001:db8::1]:1234", "2001:db8::1"},
		{"IPv6 with zeros", "[2001:0DB8:0:0::0001]:1234", "2001:db8::1"},
		{"IPv6 without a port", "2001:db8::1", "2001:db8::1"},
		{"IPv6 in brackets without a port", "[2001:db8::1]", "2001:db8::1"},
		{"IPv6 with a zone", "[fe80::1%eth0]:1234", "fe80::1%eth0"},
		{"IPv6 with another zone", "[fe80::1%eth1]:1234", "fe80::1%eth1"},
		{"IPv6 with a zone, no port", "fe80::1%eth0", "fe80::1%eth0"},
		{"nothing", "", ""},
		{"a Unix socket", "@", ""},
		{"a path", "/run/socket", ""},
		{"a name", "localhost:80", ""},
		{"a port alone", ":80", ""},
		{"half a bracket", "[2001:db8::1", ""},
		{"empty brackets", "[]", ""},
		{"brackets and a colon", "[]:80", ""},
		{"not an address", "10.0.0.256:80", ""},
		{"a port past 65535", "10.0.0.1:65536", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, chashhttp.RemoteAddr()(&http.Request{RemoteAddr: test.remote}))
		})
	}
}

func TestKey_Path(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target string
		path   string
		first2 string // of PathSegments(2)
	}{
		{"/", "/", ""},
		{"//", "//", ""},
		{"/tenant", "/tenant", "/tenant"},
		{"/tenant/", "/tenant/", "/tenant"},
		{"/tenant/7", "/tenant/7", "/tenant/7"},
		{"/tenant/7/", "/tenant/7/", "/tenant/7"},
		{"/tenant/7/orders?page=2", "/tenant/7/orders", "/tenant/7"},
		{"//tenant///7//orders", "//tenant///7//orders", "/tenant/7"},
		{"/a%2Fb/c/d", "/a%2Fb/c/d", "/a%2Fb/c"},
		{"/a/b/c", "/a/b/c", "/a/b"},
		{"/%7Euser/%c3%a4", "/~user/%C3%A4", "/~user/%C3%A4"},
		{"/~user/ä", "/~user/%C3%A4", "/~user/%C3%A4"},
		{"/100%25/%2525", "/100%25/%2525", "/100%25/%2525"},
		{"/a b", "/a%20b", "/a%20b"},
		{"/./..", "/./..", "/./.."},
	}
	for _, test := range tests {
		t.Run(test.target, func(t *testing.T) {
			u, err := url.Parse("http://service" + test.target)
			require.NoError(t, err)
			r := &http.Request{URL: u}
			require.Equal(t, test.path, chashhttp.Path()(r))
			require.Equal(t, test.first2, chashhttp.PathSegments(2)(r))
		})
	}
	for name, r := range map[string]*http.Request{"no URL": {}, "no path": {URL: new(url.URL)}} {
		require.Equal(t, "/", chashhttp.Path()(r), name)
		require.Empty(t, chashhttp.PathSegments(1)(r), name)
	}
	r := httptest.NewRequest("GET", "/a/b/c", nil)
	require.Empty(t, chashhttp.PathSegments(0)(r))
	require.Empty(t, chashhttp.PathSegments(-1)(r))
	require.Equal(t, "/a/b/c", chashhttp.PathSegments(100)(r))
}

func TestKey_First(t *testing.T) {
	t.Parallel()
	all := []chashhttp.Key{nil, chashhttp.Header("X-User"), chashhttp.Cookie("session"), chashhttp.RemoteAddr()}
	first := chashhttp.First(all...)
	all[1] = nil // what was given is not kept
	r := &http.Request{Header: http.Header{"X-User": {"u"}, "Cookie": {"session=s"}}, RemoteAddr: "10.0.0.1:1"}
	require.Equal(t, "u", first(r))
	r.Header.Set("X-User", "")
	require.Equal(t, "s", first(r))
	r.Header.Del("Cookie")
	require.Equal(t, "10.0.0.1", first(r))
	r.RemoteAddr = ""
	require.Empty(t, first(r))
	require.Empty(t, chashhttp.First()(r))
	require.Empty(t, chashhttp.First(nil)(r))
}

func TestKey_FromContext(t *testing.T) {
	t.Parallel()
	r := new(http.Request)
	require.Empty(t, chashhttp.FromContext()(r))
	ctx := chashhttp.WithKey(t.Context(), "a")
	require.Equal(t, "a", chashhttp.FromContext()(r.WithContext(ctx)))
	require.Equal(t, "b", chashhttp.FromContext()(r.WithContext(chashhttp.WithKey(ctx, "b"))))
	require.Empty(t, chashhttp.FromContext()(r.WithContext(chashhttp.WithKey(ctx, ""))))
}

// Of any RemoteAddr comes nothing or an address, which is its own key with a port
// and without, and mapped to IPv6.
func FuzzRemoteAddr(f *testing.F) {
	for _, seed := range []string{
		"", "@", "10.0.0.1:80", "10.0.0.1", "[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1%eth0", "[2001:DB8::1]:80", "[::1]", "fe80::1%a]:b", "[fe80::1%[]:1",
	} {
		f.Add(seed)
	}
	key := func(remote string) string { return chashhttp.RemoteAddr()(&http.Request{RemoteAddr: remote}) }
	f.Fuzz(func(t *testing.T, remote string) {
		got := key(remote)
		if got == "" {
			_, err := netip.ParseAddrPort(remote)
			require.Error(t, err, "the address of %q", remote)
			return
		}
		addr, err := netip.ParseAddr(got)
		require.NoError(t, err)
		require.Equal(t, got, addr.Unmap().String(), "the one spelling")
		require.Equal(t, got, key(got), "without a port")
		if !strings.Contains(addr.Zone(), "]") { // which no port can follow
			require.Equal(t, got, key(netip.AddrPortFrom(addr, 1).String()), "with a port")
		}
		if addr.Is4() {
			require.Equal(t, got, key("[::ffff:"+got+"]:1"), "mapped")
		}
	})
}

// The segments of any path are its first ones that are not empty, and nothing but
// these decides.
func FuzzPathSegments(f *testing.F) {
	for _, seed := range []string{"", "/", "//", "/a/b", "a//b/", "/a%2Fb/c", "/%zz", "/ä/%C3%A4", "*", "/%25", "/a;b,c"} {
		f.Add(seed, 2)
	}
	f.Fuzz(func(t *testing.T, target string, n int) {
		u, err := url.Parse(target)
		if err != nil || u.Opaque != "" {
			return
		}
		segments := func(u *url.URL, n int) string { return chashhttp.PathSegments(n)(&http.Request{URL: u}) }
		got := segments(u, n)
		parts := strings.Split(strings.TrimPrefix(got, "/"), "/")
		if got == "" {
			parts = nil
		}
		require.LessOrEqual(t, len(parts), max(n, 0))

		var want []string // decoded
		for part := range strings.SplitSeq(u.EscapedPath(), "/") {
			if part != "" && len(want) < n {
				plain, err := url.PathUnescape(part)
				require.NoError(t, err)
				want = append(want, plain)
			}
		}
		require.Len(t, parts, len(want))
		for i := range parts {
			plain, err := url.PathUnescape(parts[i])
			require.NoError(t, err)
			require.Equal(t, want[i], plain)
		}
		if got == "" {
			return
		}
		again, err := url.Parse("http://service" + got + "/more?x")
		require.NoError(t, err)
		require.Equal(t, got, segments(again, len(parts)), "the key as a path has the key")
	})
}
