package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A network is a network namespace for each of some nodes, joined by a switch in one of
// its own. A node that is cut off is on another switch, with others that are.
type network struct {
	prefix string
}

var networks atomic.Int64 // made by this process

// newNetwork returns a network for nodes 0 to count-1, or nil where the system lets the
// process make none.
func newNetwork(t *testing.T, count int) *network {
	t.Helper()
	w := &network{fmt.Sprintf("chash-%d-%d-", os.Getpid(), networks.Add(1))}
	if os.Getuid() != 0 || exec.Command("ip", "netns", "add", w.name("switch")).Run() != nil {
		return nil
	}
	t.Cleanup(func() {
		for i := range count {
			_ = exec.Command("ip", "netns", "del", w.name(i)).Run()
		}
		_ = exec.Command("ip", "netns", "del", w.name("switch")).Run()
	})
	for _, name := range []string{"whole", "apart"} {
		if exec.Command("ip", "-n", w.name("switch"), "link", "add", name, "type", "bridge").Run() != nil {
			return nil // a kernel without bridges
		}
		w.ip(t, "-n %s link set %s up", w.name("switch"), name)
	}
	for i := range count {
		w.ip(t, "netns add %s", w.name(i))
		w.ip(t, "-n %s link add port%d type veth peer name eth0 netns %s", w.name("switch"), i, w.name(i))
		w.ip(t, "-n %s link set port%d up master whole", w.name("switch"), i)
		w.ip(t, "-n %s addr add %s/24 dev eth0", w.name(i), w.address(i))
		w.ip(t, "-n %s link set lo up", w.name(i))
		w.ip(t, "-n %s link set eth0 up", w.name(i))
	}
	return w
}

func (w *network) name(of any) string      { return fmt.Sprint(w.prefix, of) }
func (w *network) address(node int) string { return fmt.Sprintf("10.77.0.%d", node+1) }

func (w *network) ip(t *testing.T, format string, args ...any) {
	t.Helper()
	command := fmt.Sprintf(format, args...)
	out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", command, out)
}

// command returns the command that runs another one where a node is.
func (w *network) command(node int, command ...string) []string {
	return append([]string{"ip", "netns", "exec", w.name(node)}, command...)
}

// cut parts some nodes from the rest. They still reach each other.
func (w *network) cut(t *testing.T, nodes ...int) { w.connect(t, "apart", nodes) }

// heal ends that.
func (w *network) heal(t *testing.T, nodes ...int) { w.connect(t, "whole", nodes) }

func (w *network) connect(t *testing.T, to string, nodes []int) {
	t.Helper()
	for _, i := range nodes {
		w.ip(t, "-n %s link set port%d master %s", w.name("switch"), i, to)
	}
}

// dialer returns a function that dials from where a node is.
func (w *network) dialer(node int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		there, err := os.Open("/run/netns/" + w.name(node))
		if err != nil {
			return nil, err
		}
		defer there.Close()
		// The thread is in the other namespace from here on, so it is not used again.
		// A socket stays where it was made.
		type result struct {
			conn net.Conn
			err  error
		}
		results := make(chan result)
		go func() {
			runtime.LockOSThread()
			var r result
			if r.err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); r.err == nil {
				r.conn, r.err = (&net.Dialer{}).DialContext(ctx, network, address)
			}
			results <- r
		}()
		r := <-results
		return r.conn, r.err
	}
}
