//go:build unix

package chashhttp_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/contrib/chashhttp"
)

var compare = flag.Bool("compare", false, "let nginx and HAProxy meet the same faults, and print the table of the README")

// TestCompare has proxies meet the same faults before the same kind of backends: killed,
// stopped, restarted one after the other, and closing idle connections. Without -compare
// it is this package alone, and briefly.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds of faults")
	}
	fronts := map[string]func(*testing.T, []*process) string{"chashhttp": frontChash}
	order := []string{"chashhttp"}
	if *compare {
		fronts["nginx"], fronts["HAProxy"] = frontNginx, frontHAProxy
		order = append(order, "nginx", "HAProxy")
	}
	table := new(strings.Builder)
	for _, fault := range faults {
		for _, name := range order {
			if fault.long && !*compare {
				continue
			}
			t.Run(fault.name+"/"+name, func(t *testing.T) {
				got := fault.measure(t, fronts[name])
				fmt.Fprintf(table, "| %s | %s | %d of %d | %d of %d | %s | %s |\n", fault.name, name,
					got.failed[0].Load(), got.sent[0].Load(), got.failed[1].Load(), got.sent[1].Load(), brief(got.moved), brief(got.back))
				if name == "chashhttp" && !fault.posts {
					require.Zero(t, got.failed[0].Load(), "GETs that failed")
				}
			})
		}
	}
	if *compare {
		t.Logf("\n| fault | proxy | GETs failed | POSTs failed | keys elsewhere after | keys back after |\n|---|---|---|---|---|---|\n%s", table)
	}
}

func brief(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// A measurement is what users of a front saw, of GETs and of POSTs.
type measurement struct {
	sent, failed [2]atomic.Int64
	moved, back  time.Duration // after the fault, and after its end
}

type fault struct {
	name    string
	posts   bool // half of the requests are POSTs
	long    bool
	measure func(*testing.T, func(*testing.T, []*process) string) *measurement
}

var faults = []fault{
	{"killed, then started again", false, true, func(t *testing.T, front func(*testing.T, []*process) string) *measurement {
		return oneFault(t, front, func(p *process) { p.kill() }, func(t *testing.T, p *process) *process {
			return startProcess(t, p.name, p.url.Host)
		})
	}},
	{"stopped, then continued", false, true, func(t *testing.T, front func(*testing.T, []*process) string) *measurement {
		return oneFault(t, front, func(p *process) { p.stop(t) }, func(_ *testing.T, p *process) *process {
			p.cont()
			return p
		})
	}},
	{"restarted one after the other", false, false, rollingRestart},
	{"idle connections closed", true, true, staleConnections},
}

// users send requests to a front until stop.
func users(front string, n int, pause time.Duration, posts bool, m *measurement) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	for worker := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
				kind := 0
				if posts && i%2 == 1 {
					kind = 1
				}
				m.sent[kind].Add(1)
				if _, ok := askFront(client, front, []string{http.MethodGet, http.MethodPost}[kind], fmt.Sprint(worker, "-", i%100)); !ok {
					m.failed[kind].Add(1)
				}
			}
		}()
	}
	return sync.OnceFunc(func() {
		close(done)
		all.Wait()
		client.CloseIdleConnections()
	})
}

// askFront sends one request and returns the backend that answered it.
func askFront(client *http.Client, front, method, key string) (backend string, ok bool) {
	req, err := http.NewRequest(method, front, nil)
	if err != nil {
		return "", false
	}
	req.Header.Set(keyHeader, key)
	resp, err := client.Do(req)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("Backend"), resp.StatusCode == http.StatusOK
}

// oneFault has one backend of three fail under load, and come back.
func oneFault(t *testing.T, start func(*testing.T, []*process) string, fail func(*process), mend func(*testing.T, *process) *process) *measurement {
	processes, _ := startProcesses(t, "a", "b", "c")
	front := start(t, processes)
	m := new(measurement)
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	key := ""
	for i := 0; key == "" && i < 1000; i++ {
		if backend, _ := askFront(client, front, http.MethodGet, fmt.Sprint("key-", i)); backend == "a" {
			key = fmt.Sprint("key-", i)
		}
	}
	require.NotEmpty(t, key, "no key of a")
	defer users(front, 8, 5*time.Millisecond, false, m)()
	time.Sleep(time.Second)
	until := func(elsewhere bool) time.Duration {
		began := time.Now()
		for time.Since(began) < 30*time.Second {
			sent := time.Now()
			backend, ok := askFront(client, front, http.MethodGet, key)
			quick := time.Since(sent) < 300*time.Millisecond // not by way of a backend that hangs
			if ok && quick && (backend != "a") == elsewhere {
				return time.Since(began)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return time.Since(began)
	}
	fail(processes[0])
	m.moved = until(true)
	time.Sleep(3 * time.Second)
	mend(t, processes[0])
	m.back = until(false)
	time.Sleep(time.Second)
	return m
}

// rollingRestart kills each backend in turn and starts it again, each when the one
// before has been up for a moment.
func rollingRestart(t *testing.T, start func(*testing.T, []*process) string) *measurement {
	processes, _ := startProcesses(t, "a", "b", "c")
	front := start(t, processes)
	m := new(measurement)
	defer users(front, 8, 5*time.Millisecond, false, m)()
	for _, p := range processes {
		time.Sleep(300 * time.Millisecond)
		p.kill()
		time.Sleep(300 * time.Millisecond)
		startProcess(t, p.name, p.url.Host)
	}
	time.Sleep(300 * time.Millisecond)
	return m
}

// staleConnections has the requests come as backends close their idle connections.
func staleConnections(t *testing.T, start func(*testing.T, []*process) string) *measurement {
	var processes []*process
	for _, name := range []string{"a", "b", "c"} {
		processes = append(processes, startProcess(t, name, "", serveEnv+"_IDLE=1s"))
	}
	front := start(t, processes)
	m := new(measurement)
	for round := range 15 {
		stop := users(front, 40, time.Duration(990+round)*time.Millisecond, true, m)
		time.Sleep(2050 * time.Millisecond)
		stop()
	}
	return m
}

// frontChash starts a ReverseProxy over a Transport, in this process.
func frontChash(t *testing.T, processes []*process) string {
	servers := make([]*server, len(processes))
	for i, p := range processes {
		servers[i] = &p.server
	}
	transport, err := chashhttp.NewTransport(newMaglev(t, servers...), chashhttp.Header(keyHeader), chashhttp.Options{
		AttemptTimeout: time.Second,
	})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	front := &http.Server{Handler: &httputil.ReverseProxy{
		Transport:    transport,
		Rewrite:      func(*httputil.ProxyRequest) {},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	go func() { _ = front.Serve(l) }()
	t.Cleanup(func() {
		front.Close()
		transport.Close()
	})
	return "http://" + l.Addr().String() + "/"
}

// freeAddr returns an address on which nobody listens.
func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// run runs a program with a configuration until the test ends, and waits until it listens.
func run(t *testing.T, addr, config string, command func(file string) *exec.Cmd) string {
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(config, "DIR", dir)), 0o600))
	cmd := command(file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, "%s listens", cmd.Path)
	return "http://" + addr + "/"
}

func frontNginx(t *testing.T, processes []*process) string {
	addr := freeAddr(t)
	var upstream strings.Builder
	for _, p := range processes {
		fmt.Fprintf(&upstream, "server %s;\n", p.url.Host)
	}
	return run(t, addr, `daemon off; pid DIR/pid; error_log /dev/null; worker_processes 2;
events { worker_connections 1024; }
http {
	access_log off; client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
	upstream backends { hash $http_x_key consistent; `+upstream.String()+` keepalive 64; }
	server {
		listen `+addr+`;
		location / {
			proxy_pass http://backends; proxy_http_version 1.1; proxy_set_header Connection "";
			proxy_connect_timeout 1s; proxy_read_timeout 1s;
		}
	}
}`, func(file string) *exec.Cmd { return exec.Command("nginx", "-p", filepath.Dir(file), "-c", file) })
}

func frontHAProxy(t *testing.T, processes []*process) string {
	addr := freeAddr(t)
	var backends strings.Builder
	for _, p := range processes {
		fmt.Fprintf(&backends, "	server %s %s check inter 1s\n", p.name, p.url.Host)
	}
	return run(t, addr, `defaults
	mode http
	timeout client 30s
	timeout connect 1s
	timeout server 1s
	retries 3
	option redispatch 1
	retry-on conn-failure empty-response response-timeout
frontend front
	bind `+addr+`
	http-request disable-l7-retry if METH_POST
	default_backend backends
backend backends
	option httpchk GET /
	balance hdr(X-Key)
	hash-type consistent
`+backends.String(), func(file string) *exec.Cmd { return exec.Command("haproxy", "-db", "-f", file) })
}
