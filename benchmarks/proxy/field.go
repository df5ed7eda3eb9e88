package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	roleEnv  = "PROXY_COMPARE_ROLE" // makes this program a backend or the bare proxy
	backends = 3
	header   = "X-Client" // has the key
)

// play is this program in a role: it says where it listens and serves until it is killed.
func play(role string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("proxy on http://%s\n", l.Addr())
	var handler http.Handler
	if size, err := strconv.Atoi(role); err == nil {
		body := bytes.Repeat([]byte("x"), size)
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	} else {
		handler = bare(strings.Fields(role))
	}
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // which ends with the parent
		os.Exit(0)
	}()
	_ = http.Serve(l, handler)
}

// bare returns a ReverseProxy that takes the backends in turn, and keeps as many idle
// connections as examples/proxy does. It is otherwise as it comes.
func bare(addresses []string) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 64
	transport.DisableCompression = true
	var urls []*url.URL
	for _, address := range addresses {
		urls = append(urls, &url.URL{Scheme: "http", Host: address})
	}
	turn := make(chan int, 1)
	turn <- 0
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		i := <-turn
		turn <- (i + 1) % len(urls)
		r.SetURL(urls[i])
		r.SetXForwarded()
	}}
}

// A field is what runs: backends and the proxies before them.
type field struct {
	folder  string
	body    int
	proxies []*contender
	running []*exec.Cmd
}

// A contender is one of the proxies.
type contender struct {
	name    string
	url     string
	pid     int
	results []result
}

func (f *field) start(ctx context.Context) error {
	var addresses []string
	for range backends {
		_, address, err := f.self(ctx, strconv.Itoa(f.body))
		if err != nil {
			return err
		}
		addresses = append(addresses, strings.TrimPrefix(address, "http://"))
	}
	pid, address, err := f.self(ctx, strings.Join(addresses, " "))
	if err != nil {
		return err
	}
	f.proxies = append(f.proxies, &contender{name: "bare `httputil.ReverseProxy`", url: address, pid: pid})
	if err := f.startProxy(ctx, addresses); err != nil {
		return err
	}
	for _, other := range []struct {
		name string
		args func(port int, addresses []string) ([]string, error)
	}{{"nginx", f.nginx}, {"haproxy", f.haproxy}} {
		if err := f.startOther(ctx, other.name, other.args, addresses); err != nil {
			return err
		}
	}
	return nil
}

// self starts this program in a role.
func (f *field) self(ctx context.Context, role string) (pid int, address string, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, "", err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return f.listening(cmd)
}

// listening starts a program that says where it listens.
func (f *field) listening(cmd *exec.Cmd) (pid int, address string, err error) {
	if _, err := cmd.StdinPipe(); err != nil {
		return 0, "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	f.running = append(f.running, cmd)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "proxy on ")
	if err != nil || !found {
		return 0, "", fmt.Errorf("%s does not say where it listens: %q", cmd.Path, line)
	}
	return cmd.Process.Pid, address, nil
}

// startProxy builds examples/proxy and starts it.
func (f *field) startProxy(ctx context.Context, addresses []string) error {
	path := filepath.Join(f.folder, "proxy")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/chash-go/chash/examples/proxy")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s (run this in the folder benchmarks)", err, out)
	}
	args := []string{"-listen=127.0.0.1:0", "-admin=", "-key=header:" + header, "-health-path=/"}
	for i, address := range addresses {
		args = append(args, fmt.Sprintf("-backend=b%d=http://%s", i, address))
	}
	pid, address, err := f.listening(exec.CommandContext(ctx, path, args...))
	f.proxies = append(f.proxies, &contender{name: "`examples/proxy`", url: address, pid: pid})
	return err
}

// startOther starts a proxy that is told its port.
func (f *field) startOther(ctx context.Context, name string, args func(int, []string) ([]string, error), addresses []string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			fmt.Fprintf(os.Stderr, "%s is not installed and left out\n", name)
			return nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	arguments, err := args(port, addresses)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, arguments...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	f.running = append(f.running, cmd)
	p := &contender{name: name, url: fmt.Sprintf("http://127.0.0.1:%d", port), pid: cmd.Process.Pid}
	f.proxies = append(f.proxies, p)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(p.url)
		if err == nil {
			resp.Body.Close()
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%s does not answer: %w", name, err), cmd.Cancel(), errors.New(out.String()))
		}
	}
}

func (f *field) nginx(port int, addresses []string) ([]string, error) {
	config := fmt.Sprintf(`daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr crit;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	upstream backends { hash $http_x_client consistent; server %[2]s; keepalive 64; }
	server {
		listen 127.0.0.1:%[3]d;
		keepalive_requests 1000000000;
		location / {
			proxy_pass http://backends; proxy_http_version 1.1; proxy_set_header Connection "";
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`, f.folder, strings.Join(addresses, "; server "), port)
	path := filepath.Join(f.folder, "nginx.conf")
	return []string{"-c", path, "-e", "stderr"}, os.WriteFile(path, []byte(config), 0o600)
}

func (f *field) haproxy(port int, addresses []string) ([]string, error) {
	var config strings.Builder
	fmt.Fprintf(&config, `global
	maxconn 1024
defaults
	mode http
	timeout connect 2s
	timeout client 1m
	timeout server 1m
	http-reuse always
	option forwardfor
frontend front
	bind 127.0.0.1:%d
	default_backend backends
backend backends
	balance hdr(%s)
	hash-type consistent
`, port, header)
	for i, address := range addresses {
		fmt.Fprintf(&config, "\tserver b%d %s check\n", i, address)
	}
	path := filepath.Join(f.folder, "haproxy.cfg")
	return []string{"-f", path}, os.WriteFile(path, []byte(config.String()), 0o600)
}

// stop ends all that was started.
func (f *field) stop() {
	for _, cmd := range f.running {
		_ = cmd.Process.Signal(syscall.SIGTERM) // nginx ends its workers
	}
	for _, cmd := range f.running {
		_ = cmd.Wait()
	}
}
