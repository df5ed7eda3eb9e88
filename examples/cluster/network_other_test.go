//go:build unix && !linux

package main

import (
	"context"
	"net"
	"testing"
)

// A network is made on Linux only.
type network struct{}

func newNetwork(*testing.T, int) *network                    { return nil }
func (w *network) address(int) string                        { return "" }
func (w *network) command(_ int, command ...string) []string { return command }
func (w *network) cut(*testing.T, ...int)                    {}
func (w *network) heal(*testing.T, ...int)                   {}
func (w *network) dialer(int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return nil
}
