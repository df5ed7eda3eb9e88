//go:build unix

package main

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// stop stops the process and waits until the kernel says that it has.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for err := error(syscall.EINTR); err == syscall.EINTR; {
		_, err = syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
}

func (p *process) cont() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// stopOne starts a proxy before three processes, of which b is stopped.
func stopOne(t *testing.T, flags ...string) (p *program, b *process, table *chash.Maglev[string]) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		process := startProcess(t, name)
		flags = append(flags, "-backend="+name+"="+process.url)
		if name == "b" {
			b = process
		}
	}
	p = start(t, flags...)
	b.stop()
	return p, b, newTable(t, []string{"a", "b", "c"})
}

// A backend that hangs costs a request that can be repeated the time limit, and marks
// the backend.
func TestHang_HeaderTimeout(t *testing.T) {
	t.Parallel()
	p, _, table := stopOne(t, "-header-timeout=1s", "-health-down=2")
	key := keyWith(t, table, "b", "c")
	got := <-p.sendLater(newRequest(t, http.MethodPost, p.proxy, key, nil))
	require.Equal(t, http.StatusGatewayTimeout, got.status, "it may have been done")
	require.Equal(t, answer{http.StatusOK, "c", ""}, p.get(t, key))
	eventually(t, "b is unhealthy", func() bool { return p.state(t, "b") == "unhealthy" })
	p.logs(t, `msg="backend is unhealthy" name=b .*reason="chashhttp: no sign`)
}

// A request that waits at a backend goes on to the next when checks mark the backend,
// however long its own time limit is.
func TestHang_MarkedMeanwhile(t *testing.T) {
	t.Parallel()
	p, b, table := stopOne(t, "-header-timeout=0", "-health-interval=50ms", "-health-timeout=2s", "-health-down=1", "-health-up=1")
	key := keyWith(t, table, "b", "c")
	require.Equal(t, answer{http.StatusOK, "c", ""}, p.get(t, key))
	require.Equal(t, "unhealthy", p.state(t, "b"))
	p.logs(t, `msg="backend is unhealthy" name=b .*reason="probe of /healthz: .*deadline exceeded`)
	b.cont()
	eventually(t, "b is healthy", func() bool { return p.state(t, "b") == "healthy" })
	agree(t, p, table)
}
