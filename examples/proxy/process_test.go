package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asBackend in the environment makes the test binary a backend of that name.
const asBackend = "PROXY_TEST_AS_BACKEND"

// serveAsProcess answers with its name until its input ends, which is when the test does.
func serveAsProcess(name string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Backend", name) }))
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// A process is a backend that can be stopped for real.
type process struct {
	name, url string
	cmd       *exec.Cmd
}

func startProcess(t *testing.T, name string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asBackend+"="+name)
	_, err := cmd.StdinPipe() // which ends with this process, however that ends
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return &process{name, "http://" + strings.TrimSpace(address), cmd}
}
