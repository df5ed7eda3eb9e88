//go:build !unix

package chashhttp

import "net"

// closing reports whether the peer of a connection has closed it, of which nothing is
// known here.
func closing(net.Conn) bool { return false }
