package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask sends a request to the admin address, with headers as name, value and so on.
func ask(t *testing.T, p *program, method, path, body string, headers ...string) int {
	t.Helper()
	req := newRequest(t, method, p.admin+path, "", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return send(t, p.client, req).status
}

// What a web page of another origin can have a browser send is refused, one sign at a
// time, and changes nothing.
func TestGuard_CrossOrigin(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends[:1].flags()...)
	own := strings.TrimPrefix(p.admin, "http://")
	port := own[strings.LastIndexByte(own, ':'):]
	body := `{"name":"b","url":"` + backends[1].url + `"}`
	const kind, json = "Content-Type", "application/json"
	for _, test := range []struct {
		name    string
		want    int
		headers []string
	}{
		{"a form", http.StatusUnsupportedMediaType, []string{kind, "text/plain"}},
		{"no type", http.StatusUnsupportedMediaType, nil},
		{"nearly that type", http.StatusUnsupportedMediaType, []string{kind, "application/jsonx"}},
		{"cross-site", http.StatusForbidden, []string{kind, json, "Sec-Fetch-Site", "cross-site"}},
		{"same-site", http.StatusForbidden, []string{kind, json, "Sec-Fetch-Site", "same-site"}},
		{"nonsense", http.StatusForbidden, []string{kind, json, "Sec-Fetch-Site", "x"}},
		{"origin", http.StatusForbidden, []string{kind, json, "Origin", "http://evil.example"}},
		{"origin of another port", http.StatusForbidden, []string{kind, json, "Origin", "http://127.0.0.1:1"}},
		{"null origin", http.StatusForbidden, []string{kind, json, "Origin", "null"}},
		{"foreign host", http.StatusMisdirectedRequest, []string{kind, json, "Host", "evil.example" + port}},
		{"foreign host, same origin", http.StatusMisdirectedRequest,
			[]string{kind, json, "Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}},
		{"name that begins like an address", http.StatusMisdirectedRequest, []string{kind, json, "Host", "127.0.0.1.evil.example" + port}},
		{"another address", http.StatusMisdirectedRequest, []string{kind, json, "Host", "192.0.2.1" + port}},
		{"host with a user", http.StatusMisdirectedRequest, []string{kind, json, "Host", "evil@127.0.0.1" + port}},
	} {
		require.Equal(t, test.want, ask(t, p, "POST", "/members", body, test.headers...), test.name)
		require.Len(t, p.members(t), 1, test.name)
	}
	// Neither does a page change what is there, nor read it by a name of its own.
	require.Equal(t, http.StatusForbidden, ask(t, p, "POST", "/members/a/drain", "", "Sec-Fetch-Site", "cross-site"))
	require.Equal(t, http.StatusForbidden, ask(t, p, "DELETE", "/members/a", "", "Origin", "http://evil.example"))
	for _, path := range []string{"/members", "/metrics", "/"} {
		require.Equal(t, http.StatusMisdirectedRequest, ask(t, p, "GET", path, "", "Host", "evil.example"+port), path)
	}

	for i, headers := range [][]string{
		{kind, json},
		{kind, json + "; charset=utf-8", "Host", "localhost" + port},
		{kind, json, "Host", "127.0.0.1"},
		{kind, json, "Host", "[::1]:1234"}, // through a forwarded port, say
		{kind, json, "Sec-Fetch-Site", "same-origin"},
		{kind, json, "Sec-Fetch-Site", "none"},
		{kind, json, "Origin", p.admin},
	} {
		body := fmt.Sprintf(`{"name":"n%d","url":%q}`, i, backends[1].url)
		require.Equal(t, http.StatusCreated, ask(t, p, "POST", "/members", body, headers...), "%q", headers)
	}
}

func TestGuard_Token(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("secret\n"), 0o600))
	for _, flag := range []string{"secret", "@" + path} {
		p := start(t, "-admin-token="+flag)
		for header, want := range map[string]int{
			"":               http.StatusUnauthorized,
			"Bearer ":        http.StatusUnauthorized,
			"Bearer secrets": http.StatusUnauthorized,
			"Bearer secre":   http.StatusUnauthorized,
			"Basic secret":   http.StatusUnauthorized,
			"secret":         http.StatusUnauthorized,
			"Bearer secret":  http.StatusOK,
		} {
			for _, path := range []string{"/members", "/metrics"} {
				require.Equal(t, want, ask(t, p, "GET", path, "", "Authorization", header), "%q", header)
			}
		}
	}
}

// Whoever reaches the admin address changes the backends: it is on loopback, or asks for
// a token.
func TestGuard_Loopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:0", "[::]:0", "example.com:0", "nonsense"} {
		_, err := parseFlags([]string{"-admin=" + address}, nil)
		require.ErrorIs(t, err, errUsage, address)
		require.ErrorContains(t, err, "-admin-token", address)
		_, err = parseFlags([]string{"-admin=" + address, "-admin-token=x"}, nil)
		require.NoError(t, err, address)
	}
	for _, address := range []string{"127.0.0.1:0", "127.1.2.3:0", "localhost:0", "[::1]:0", ""} {
		_, err := parseFlags([]string{"-admin=" + address}, nil)
		require.NoError(t, err, address)
	}
	for _, token := range []string{"", "@", "@/does/not/exist"} {
		_, err := parseFlags([]string{"-admin-token=" + token}, nil)
		require.ErrorIs(t, err, errUsage, token)
	}
}

// Each change is logged, with who asked for it.
func TestGuard_Log(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "b")
	p := start(t)
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"b","url":"`+b.url+`"}`, nil))
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/drain", "", nil))
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/undrain", "", nil))
	require.Equal(t, http.StatusNoContent, p.request(t, "DELETE", "/members/b", "", nil))
	require.Equal(t, http.StatusNotFound, p.request(t, "DELETE", "/members/b", "", nil))
	for _, change := range []string{"add", "drain", "undrain", "remove"} {
		p.logs(t, `msg="admin request" change=`+change+` name=b client=127.0.0.1:\d+$`)
	}
	p.logs(t, `msg="admin request failed" change=remove name=b client=127.0.0.1:\d+ error="chash: .*not found`)
}
