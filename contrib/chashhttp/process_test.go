package chashhttp_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveEnv makes the test binary a server with that name, and the address to listen on
// after a space.
const serveEnv = "CHASHHTTP_TEST_SERVE"

func TestMain(m *testing.M) {
	if what := os.Getenv(serveEnv); what != "" {
		serveProcess(what)
		return
	}
	os.Exit(m.Run())
}

// serveProcess answers with its name until its input ends, which is when the test does.
func serveProcess(what string) {
	name, addr, _ := strings.Cut(what, " ")
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	server := &http.Server{IdleTimeout: idleTime(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pause, err := time.ParseDuration(r.URL.Query().Get("pause")); err == nil {
			time.Sleep(pause)
		}
		w.Header().Set("Backend", name)
	})}
	_ = server.Serve(l)
}

// idleTime is after what time a process closes idle connections, 0 for never.
func idleTime() time.Duration {
	d, _ := time.ParseDuration(os.Getenv(serveEnv + "_IDLE"))
	return d
}

// A process is a server that can be stopped and killed for real.
type process struct {
	server
	cmd *exec.Cmd
}

// startProcess starts one on a port of its own, or on that of addr.
func startProcess(t testing.TB, name, addr string, env ...string) *process {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), serveEnv+"="+name+" "+addr), env...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd}
	t.Cleanup(func() {
		stdin.Close()
		p.kill()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	u, err := url.Parse("http://" + strings.TrimSpace(line))
	require.NoError(t, err, line)
	p.name, p.url = name, u
	return p
}

func (p *process) kill() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() }

func startProcesses(t testing.TB, names ...string) (processes []*process, servers []*server) {
	t.Helper()
	for _, name := range names {
		p := startProcess(t, name, "")
		processes, servers = append(processes, p), append(servers, &p.server)
	}
	return processes, servers
}
