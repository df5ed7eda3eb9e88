//go:build unix

package chashhttp

import (
	"net"
	"syscall"
)

// closing reports whether the peer of a connection that waits for a request has closed
// it, or has sent something, which no server does that goes on using it. It looks at
// what has arrived without reading it. net/http learns of that too, but by a goroutine
// that may not have run yet.
func closing(conn net.Conn) bool {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	plain, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) { // Read would wait for the one of net/http
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		closed = err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err != nil || closed
}
