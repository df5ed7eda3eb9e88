//go:build unix

package main

import (
	"os"
	"syscall"
)

// sigstop stops a process; it is nil where none can be stopped.
var sigstop os.Signal = syscall.SIGSTOP
