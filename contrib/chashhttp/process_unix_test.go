//go:build unix

package chashhttp_test

import (
	"syscall"
	"testing"
)

// stop stops the process and waits until the kernel says that it has: a signal that was
// sent need not have arrived.
func (p *process) stop(testing.TB) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for err := error(syscall.EINTR); err == syscall.EINTR; {
		_, err = syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
}

func (p *process) cont() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
