//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// findBrowser returns where a Chromium is, or its like, under one of its names.
func findBrowser() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// browse has a real browser open a page, and ends the browser once done is closed. Names
// under .test are this machine.
func browse(t *testing.T, page string, done <-chan struct{}, flags ...string) string {
	t.Helper()
	chromium, err := findBrowser()
	if err != nil || testing.Short() {
		t.Skip("there is no chromium, or no time for it")
	}
	profile, err := os.MkdirTemp("", "proxy-test-chromium-")
	require.NoError(t, err)
	var out bytes.Buffer
	cmd := exec.Command(chromium, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
		"--host-resolver-rules=MAP *.test 127.0.0.1", "--user-data-dir=" + profile,
	}, append(flags, page)...)...)
	cmd.Stdout = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children
	cmd.WaitDelay = 10 * time.Second                      // they may have its output open
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	select {
	case <-done:
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the browser is not done after a minute")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	for os.RemoveAll(profile) != nil && !t.Failed() { // a child may still write as it dies
	}
	return out.String()
}

// The page of an attacker sends what a page can send without being asked: by fetch and by
// a form. All keys went to the backend that it added.
func TestBrowser_CrossSite(t *testing.T) { // not parallel: a browser takes all of a machine
	backends := startTestBackends(t, "a", "b")
	evil := startTestBackend(t, "evil")
	p := start(t, backends.flags()...)
	tried := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form id=f method=post enctype="text/plain" action="%[1]s/members" target=i>
<input name='{"name":"form","url":"%[2]s","weight":4294967295,"x":"' value='"}'></form><iframe name=i></iframe><script>
const send = (path, method, body) => fetch("%[1]s" + path, {method, mode: "no-cors", headers: {"Content-Type": "text/plain"}, body}).catch(e => e)
document.getElementById("f").submit()
Promise.all([
	send("/members", "POST", '{"name":"evil","url":"%[2]s","weight":4294967295}'),
	send("/members/a/drain", "POST"),
	fetch("%[1]s/members", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"name":"cors","url":"%[2]s"}'}).catch(e => e),
	fetch("%[1]s/members/b", {method: "DELETE"}).catch(e => e),
	new Promise(loaded => document.getElementsByName("i")[0].onload = loaded),
]).then(() => fetch("/tried"))
</script>`, p.admin, evil.url)
	})
	mux.HandleFunc("/tried", func(http.ResponseWriter, *http.Request) { close(tried) })
	attacker := httptest.NewServer(mux)
	defer attacker.Close()
	page := strings.Replace(attacker.URL, "127.0.0.1", "attacker.test", 1)
	browse(t, page, tried)

	for _, m := range p.members(t) {
		require.Contains(t, "ab", m.Name)
		require.Equal(t, "healthy", m.State)
	}
	agree(t, p, newTable(t, []string{"a", "b"}))
}

// A name of the attacker's that leads to this machine, as after DNS rebinding, is another
// origin to the browser, whose pages could read and change everything.
func TestBrowser_Rebinding(t *testing.T) { // likewise
	p := start(t, startTestBackends(t, "secret").flags()...)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.admin, "http://"))
	require.NoError(t, err)
	got := browse(t, "http://"+net.JoinHostPort("attacker.test", port)+"/members", nil, "--dump-dom")
	require.NotContains(t, got, "secret")
	require.Contains(t, got, "the Host is not that of this API")
}
