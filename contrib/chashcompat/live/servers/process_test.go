//go:build live && linux

package servers

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program returns the path of an installed program, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed", name)
	return ""
}

// start starts a program, which is killed at the end of the test, or when this process
// ends before.
func start(t *testing.T, path string, args ...string) {
	t.Helper()
	output := new(strings.Builder)
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s printed:\n%.3000s", path, output)
		}
	})
}

// dial connects to a server as soon as it listens.
func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	require.Eventually(t, func() bool {
		var err error
		conn, err = net.Dial(network, address)
		return err == nil
	}, 30*time.Second, 20*time.Millisecond, "nothing listens on %s", address)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// workDir returns a folder for a program, with a path that is short enough for sockets.
func workDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chash")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// writeFile writes a file of that folder and returns its path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// version returns what a program prints of itself, on one line.
func version(path string, args ...string) string {
	text, _ := exec.Command(path, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
