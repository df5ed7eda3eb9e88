package chashhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/contrib/chashhttp"
)

func TestKey_URI(t *testing.T) {
	t.Parallel()
	request := func(target, host string) *http.Request {
		u, err := url.Parse(target)
		require.NoError(t, err)
		return &http.Request{URL: u, Host: host}
	}
	for _, test := range []struct {
		name string
		key  chashhttp.Key
		r    *http.Request
		want string
	}{
		{"Query", chashhttp.Query("id"), request("/?x=1&id=a%20b&id=2", ""), "a b"},
		{"Query, its name escaped", chashhttp.Query("i d"), request("/?i+d=1", ""), "1"},
		{"Query, another case", chashhttp.Query("ID"), request("/?id=1", ""), ""},
		{"Query, empty", chashhttp.Query("id"), request("/?id=", ""), ""},
		{"Query, none", chashhttp.Query("id"), request("/", ""), ""},
		{"Query, a wrong escape", chashhttp.Query("id"), request("/?id=%zz", ""), "%zz"},
		{"URI", chashhttp.URI(), request("/%7Ea/b?x=%7E", ""), "/~a/b?x=%7E"},
		{"URI, no query", chashhttp.URI(), request("/a", ""), "/a"},
		{"Host", chashhttp.Host(), request("/", "WWW.Example.org:8080"), "www.example.org"},
		{"Host, with a dot", chashhttp.Host(), request("/", "www.example.org."), "www.example.org"},
		{"Host, of the URL", chashhttp.Host(), request("http://A:80/", ""), "a"},
		{"Host, IPv6", chashhttp.Host(), request("/", "[::1]:80"), "[::1]"},
		{"Join", chashhttp.Join(chashhttp.Host(), nil, chashhttp.Path()), request("/bc", "a"), "\x01a\x03/bc"},
		{"Join, one missing", chashhttp.Join(chashhttp.Query("q"), chashhttp.Path()), request("/bc", "a"), "\x00\x03/bc"},
		{"Join, none", chashhttp.Join(chashhttp.Query("q")), request("/bc", "a"), ""},
		{"Join, long", chashhttp.Join(chashhttp.Path()), request("/"+strings.Repeat("a", 299), ""), "\xac\x02/" + strings.Repeat("a", 299)},
	} {
		require.Equal(t, test.want, test.key(test.r), test.name)
	}
	for _, key := range []chashhttp.Key{chashhttp.Query("id"), chashhttp.URI(), chashhttp.Host()} {
		require.NotPanics(t, func() { key(&http.Request{}) })
	}
}

func TestKey_Client(t *testing.T) {
	t.Parallel()
	trusted := chashhttp.ForwardedForTrusted(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"))
	prefix := func(bits4, bits6 int) chashhttp.Key { return chashhttp.Network(chashhttp.RemoteAddr(), bits4, bits6) }
	for _, test := range []struct {
		name      string
		key       chashhttp.Key
		remote    string
		forwarded []string
		want      string
	}{
		{"the nearest", chashhttp.ForwardedFor(1), "10.0.0.1:1", []string{"1.1.1.1, 2.2.2.2"}, "2.2.2.2"},
		{"the second", chashhttp.ForwardedFor(2), "10.0.0.1:1", []string{"9.9.9.9", "1.1.1.1,2.2.2.2"}, "1.1.1.1"},
		{"over two lines", chashhttp.ForwardedFor(3), "10.0.0.1:1", []string{"9.9.9.9", "1.1.1.1,2.2.2.2"}, "9.9.9.9"},
		{"too few", chashhttp.ForwardedFor(4), "10.0.0.1:1", []string{"9.9.9.9", "1.1.1.1,2.2.2.2"}, ""},
		{"none", chashhttp.ForwardedFor(1), "10.0.0.1:1", nil, ""},
		{"no hops", chashhttp.ForwardedFor(0), "10.0.0.1:1", []string{"1.1.1.1"}, ""},
		{"no address", chashhttp.ForwardedFor(1), "10.0.0.1:1", []string{"1.1.1.1, unknown"}, ""},
		{"with a port, mapped", chashhttp.ForwardedFor(1), "", []string{"[::ffff:1.1.1.1]:80"}, "1.1.1.1"},

		{"a client's own claim", trusted, "1.1.1.1:1", []string{"2.2.2.2"}, "1.1.1.1"},
		{"past the trusted", trusted, "10.0.0.1:1", []string{"9.9.9.9, 1.1.1.1, 10.0.0.2, fd00::1"}, "1.1.1.1"},
		{"all are trusted", trusted, "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"up to nonsense", trusted, "10.0.0.1:1", []string{"1.1.1.1, x, 10.0.0.2"}, "10.0.0.2"},
		{"trusted and mapped", trusted, "[::ffff:10.0.0.1]:1", []string{"1.1.1.1"}, "1.1.1.1"},
		{"no remote address", trusted, "", []string{"1.1.1.1"}, ""},

		{"a /64", prefix(32, 64), "[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::/64"},
		{"IPv4 whole", prefix(32, 64), "1.2.3.4:1", nil, "1.2.3.4"},
		{"a /24", prefix(24, 64), "1.2.3.4:1", nil, "1.2.3.0/24"},
		{"mapped", prefix(24, 64), "[::ffff:1.2.3.4]:1", nil, "1.2.3.0/24"},
		{"no address at all", prefix(24, 64), "", nil, ""},
	} {
		r := &http.Request{RemoteAddr: test.remote, Header: http.Header{"X-Forwarded-For": test.forwarded}}
		require.Equal(t, test.want, test.key(r), test.name)
	}
	require.Panics(t, func() { chashhttp.ForwardedForTrusted(netip.Prefix{}) })
	require.Panics(t, func() { chashhttp.Network(chashhttp.RemoteAddr(), 33, 64) })
	require.Panics(t, func() { chashhttp.Network(nil, 32, 64) })
}

func TestKey_Body(t *testing.T) {
	t.Parallel()
	field := chashhttp.BodyField("user.id", 40)
	for _, test := range []struct {
		name string
		key  chashhttp.Key
		body string
		want string
	}{
		{"a prefix", chashhttp.BodyPrefix(3), "abcdef", "abc"},
		{"a short body", chashhttp.BodyPrefix(3), "a", "a"},
		{"none", chashhttp.BodyPrefix(0), "a", ""},
		{"a text", field, `{"a":[1,{"user":2}],"user":{"id":"x\n"}}`, "x\n"},
		{"a number", field, ` {"user":{"id":12345678901234567890}}`, "12345678901234567890"},
		{"true", field, `{"user":{"id":true}}`, "true"},
		{"an object", field, `{"user":{"id":{}}}`, ""},
		{"null", field, `{"user":{"id":null}}`, ""},
		{"not there", field, `{"user":{}}`, ""},
		{"no object", field, `{"user":[]}`, ""},
		{"no JSON", field, `user`, ""},
		{"nothing", field, ``, ""},
		{"past the limit", field, `{"a":"` + strings.Repeat("x", 100) + `","user":{"id":1}}`, ""},
		{"cut off by it", field, `{"a":"` + strings.Repeat("x", 16) + `","user":{"id":12345678}}`, ""},
		{"just before it", field, `{"a":"` + strings.Repeat("x", 14) + `","user":{"id":123}}      `, "123"},
		{"broken after it", field, `{"user":{"id":"1"},`, "1"},
	} {
		for _, again := range []func() (io.ReadCloser, error){
			nil, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(test.body)), nil },
		} {
			r := &http.Request{Body: io.NopCloser(io.MultiReader(strings.NewReader(test.body))), GetBody: again}
			require.Equal(t, test.want, test.key(r), test.name)
			require.Equal(t, test.want, test.key(r), "%s, asked twice", test.name)
			rest, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, test.body, string(rest), test.name)
		}
	}
	require.Empty(t, chashhttp.BodyPrefix(5)(&http.Request{}))
}

// A key of the body leads to a backend, which gets all of it; the caller's request
// stays as it is.
func TestKey_BodySent(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	table := newMaglev(t, servers...)
	transport, err := chashhttp.NewTransport(table, chashhttp.BodyPrefix(4), chashhttp.Options{})
	require.NoError(t, err)
	defer transport.Close()
	for i := range 20 {
		text := fmt.Sprintf("%04d%s", i, strings.Repeat(" and more", 1000))
		want, err := table.Get(text[:4])
		require.NoError(t, err)
		body := io.NopCloser(io.MultiReader(strings.NewReader(text)))
		req := newRequest(t, http.MethodPost, "http://service/", "", body)
		got, err := do(transport, req)
		require.NoError(t, err)
		require.Equal(t, answer{http.StatusOK, nameOf(servers, want), text}, got)
		require.Equal(t, body, req.Body)
	}
	// One that does not come is not waited for when the caller gives up.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	reader, writer := io.Pipe()
	defer writer.Close()
	_, err = do(transport, newRequest(t, http.MethodPost, "http://service/", "", reader).WithContext(ctx))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The key of a path costs little for each byte of it.
func TestKey_LongPath(t *testing.T) { // not parallel: it counts allocations
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection allocates too
	key := chashhttp.Path()
	for _, path := range []string{strings.Repeat("/a", 1<<19), strings.Repeat("/%41", 1<<18), strings.Repeat("/ü", 1<<18)} {
		r := newRequest(t, http.MethodGet, "http://service"+path, "", nil)
		require.LessOrEqual(t, testing.AllocsPerRun(3, func() { key(r) }), 4.0)
	}
}

// The first request of a browser goes where the next ones will.
func TestStickyCookie(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c", "d")
	transport, err := chashhttp.NewTransport(newMaglev(t, servers...), chashhttp.FromContext(), chashhttp.Options{})
	require.NoError(t, err)
	defer transport.Close()
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(pr *httputil.ProxyRequest) { chashhttp.SetKey(pr, nil) }}
	start := func(c chashhttp.StickyCookie) *httptest.Server {
		front := httptest.NewTLSServer(c.Handler(proxy))
		t.Cleanup(front.Close)
		return front
	}
	front := start(chashhttp.StickyCookie{Name: "route"})
	met := make(map[string]bool)
	for range 20 {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		client := &http.Client{Transport: front.Client().Transport, Jar: jar}
		first := ""
		for i := range 5 {
			resp, err := client.Get(front.URL)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, i == 0, resp.Header.Get("Set-Cookie") != "")
			if i == 0 {
				first = resp.Header.Get("Backend")
			}
			require.Equal(t, first, resp.Header.Get("Backend"))
		}
		met[first] = true
	}
	require.Greater(t, len(met), 1)
	for want, c := range map[string]chashhttp.StickyCookie{
		"Path=/; HttpOnly; Secure; SameSite=Lax": {Name: "r"},
		"Path=/app; Domain=example.org; Max-Age=2; SameSite=Strict": {
			Name: "r", MaxAge: 1500 * time.Millisecond, Path: "/app", Domain: "example.org",
			Insecure: true, Scripts: true, SameSite: http.SameSiteStrictMode,
		},
	} {
		resp, err := front.Client().Get(start(c).URL)
		require.NoError(t, err)
		resp.Body.Close()
		require.Regexp(t, "^r=[A-Z2-7]{26}; "+want+"$", resp.Header.Get("Set-Cookie"))
	}
	require.Panics(t, func() { chashhttp.StickyCookie{}.Handler(proxy) })
}

// Trailers of a client reach the backend through a ReverseProxy, and a key of the body
// leaves it whole.
func TestSetKey(t *testing.T) {
	t.Parallel()
	s := startServer(t, "a")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("Sum"))
	})
	transport, err := chashhttp.NewTransport(newMaglev(t, s), chashhttp.FromContext(), chashhttp.Options{})
	require.NoError(t, err)
	defer transport.Close()
	keys := make(chan string, 1)
	front := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(pr *httputil.ProxyRequest) {
		chashhttp.SetKey(pr, chashhttp.BodyPrefix(2))
		keys <- chashhttp.FromContext()(pr.Out)
	}})
	defer front.Close()
	req := newRequest(t, http.MethodPost, front.URL, "", nil)
	req.Trailer = http.Header{"Sum": nil}
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), atEOF(func() { req.Trailer.Set("Sum", "42") })))
	req.ContentLength = -1
	got, err := do(http.DefaultTransport, req)
	require.NoError(t, err)
	require.Equal(t, "body 42", got.body)
	require.Equal(t, "bo", <-keys)
}
