package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The proxy answers for itself at a path of its own, which no backend sees.
func TestHealthz(t *testing.T) {
	t.Parallel()
	p, b := startOne(t)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		require.Equal(t, http.StatusOK, send(t, p.client, newRequest(t, method, p.proxy+"/healthz", "", nil)).status)
	}
	require.EqualValues(t, 1, b.checks.Load(), "of the proxy's own")
	send(t, p.client, newRequest(t, http.MethodPost, p.proxy+"/healthz", "", nil))
	require.EqualValues(t, 2, b.checks.Load(), "another method is for the backend")
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/a/drain", "", nil))
	require.Equal(t, http.StatusServiceUnavailable, send(t, p.client, newRequest(t, http.MethodGet, p.proxy+"/healthz", "", nil)).status)

	p, b = startOne(t, "-healthz=")
	require.Equal(t, http.StatusOK, send(t, p.client, newRequest(t, http.MethodGet, p.proxy+"/healthz", "", nil)).status)
	require.EqualValues(t, 2, b.checks.Load())

	p, b = startOne(t, "-healthz=/up")
	require.Equal(t, answer{http.StatusOK, "", "ok\n"}, send(t, p.client, newRequest(t, http.MethodGet, p.proxy+"/up", "", nil)))
	require.Zero(t, b.requests.Load())
}

// Backends without a health path are found at the start, and the log says why.
func TestHealth_Reasons(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "dead")
	backends.named("dead").kill()
	p := start(t, backends.flags("-health-path=/not/there")...)
	for _, b := range backends[:2] { // they answer all that is no check with 200
		require.Contains(t, p.log.String(), `level=INFO msg="backend is healthy" name=`+b.name+` url=`+b.url)
	}
	require.Regexp(t, `level=WARN msg="backend is unhealthy" name=dead url=\S+ reason="probe of /not/there: dial tcp .*refused`, p.log.String())

	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	p = start(t, "-backend=m="+missing.URL)
	require.Contains(t, p.log.String(), `name=m url=`+missing.URL+` reason="probe of /healthz: chashhttp: status 404 Not Found"`)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b")
	p := start(t, backends.flags("-attempts=1")...)
	for _, key := range keys(20) {
		require.Equal(t, http.StatusOK, p.get(t, key).status)
	}
	hook := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	backends.named("a").hook.Store(&hook)
	a := keyWith(t, newTable(t, []string{"a", "b"}), "a")
	p.get(t, a)
	arrived, release := backends.named("b").hold()
	got := p.sendLater(newRequest(t, http.MethodPost, p.proxy, keyWith(t, newTable(t, []string{"a", "b"}), "b"), strings.NewReader("12345")))
	<-arrived
	require.Equal(t, http.StatusCreated, p.request(t, "POST", "/members", `{"name":"\"n\\\n","url":"`+backends[0].url+`"}`, nil))
	require.Equal(t, http.StatusOK, p.request(t, "POST", "/members/b/drain", "", nil))
	resp := p.open(t, newRequest(t, http.MethodGet, p.admin+"/metrics", "", nil))
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", resp.Header.Get("Content-Type"))
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, line := range []string{
		`proxy_requests_total{code="2xx"} 20`,
		`proxy_requests_total{code="4xx"} 1`,
		`proxy_requests_total{code="5xx"} 0`,
		`proxy_requests_in_flight 1`,
		`proxy_request_duration_seconds_count 21`,
		`proxy_retries_total 0`,
		`proxy_backend_healthy{backend="a"} 1`,
		`proxy_backend_healthy{backend="b"} 0`,
		`proxy_backend_healthy{backend="\"\\\"n\\\\\\n\""} 1`,
		`# TYPE proxy_requests_total counter`,
		fmt.Sprintf(`chash_fingerprint_info{fingerprint="%016x"} 1`, newTable(t, []string{"a", "\"n\\\n"}).Fingerprint()),
	} {
		require.Contains(t, string(body), line+"\n")
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = strings.NewReader(string(body))
		out, err := check.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, string(out))
	}
	close(release)
	require.Equal(t, "12345", (<-got).body)
	eventually(t, "the request is counted", func() bool {
		a := send(t, p.client, newRequest(t, http.MethodGet, p.admin+"/metrics", "", nil))
		return strings.Contains(a.body, "proxy_requests_in_flight 0\n") && strings.Contains(a.body, "proxy_response_bytes_total 5\n")
	})
}

// No two names are one label, and none breaks the text.
func TestMetrics_Labels(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{"a", "a\xff", "a\xfe", `"a\xff"`, `"a\\xff"`, "\"a\xff\"", `a"`, `a\"`, `a\`, "a\n", `a\n`, "ü"} {
		got := label(name)
		require.NotContains(t, seen, got, "%q", name)
		seen[got] = name
		require.Regexp(t, `^([^"\\\n]|\\["\\n])*$`, got)
	}
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	p, b := startOne(t, "-access-log="+path)
	req := newRequest(t, http.MethodPost, p.proxy+"/path?q=a%20b", "key", strings.NewReader("12345"))
	require.Equal(t, http.StatusOK, send(t, p.client, req).status)
	b.kill()
	require.Equal(t, http.StatusBadGateway, p.get(t, "key").status)
	var lines []string
	eventually(t, "both requests are logged", func() bool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return len(lines) == 2
	})
	host := regexp.QuoteMeta(strings.TrimPrefix(b.url, "http://"))
	require.Regexp(t, `^time=\S+ level=INFO msg=request client=127.0.0.1:\d+ method=POST host=127.0.0.1:\d+ `+
		`uri="/path\?q=a%20b" status=200 bytes=5 took=\S+ backend=`+host+`$`, lines[0])
	require.Regexp(t, `method=GET .* uri=/ status=502 bytes=12 took=\S+ backend=""$`, lines[1])

	_, err := newService(t.Context(), config{accessLog: t.TempDir(), tableSize: 7, attempts: 1}, nil)
	require.Error(t, err, "a folder is no file")
}

// A backend with a certificate of a private authority is known by it, and only by it.
func TestPrivateCA(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Backend", "s") }))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of clients that do not trust it
	secure.StartTLS()
	defer secure.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, certificate, 0o600))
	p := start(t, "-backend=s="+secure.URL, "-ca="+path)
	require.Equal(t, "healthy", p.state(t, "s"))
	require.Equal(t, answer{http.StatusOK, "s", ""}, p.get(t, "key"))

	p = start(t, "-backend=s="+secure.URL)
	p.logs(t, `name=s .*reason="probe of /healthz: .*certificate`)
	require.Equal(t, http.StatusBadGateway, p.get(t, "key").status)

	require.NoError(t, os.WriteFile(path, []byte("nothing"), 0o600))
	for _, path := range []string{path, path + ".missing"} {
		_, err := parseFlags([]string{"-ca=" + path}, nil)
		require.ErrorIs(t, err, errUsage)
	}
	require.EqualValues(t, tls.VersionTLS12, newTLSConfig(nil).MinVersion)
}
