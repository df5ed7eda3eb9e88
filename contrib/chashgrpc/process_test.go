//go:build unix

package chashgrpc_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

// serverVariable names the server that this program is to be, in place of the tests.
const serverVariable = "CHASHGRPC_TEST_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(serverVariable); name != "" {
		serveProcess(name)
		return
	}
	os.Exit(m.Run())
}

// serveProcess serves until its input ends, as it does at the latest with the tests.
func serveProcess(name string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	g := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(g, &server{name: name})
	go func() { _ = g.Serve(l) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startProcess starts a server in a process of its own.
func (c *cluster) startProcess(name string) *os.Process {
	program, err := os.Executable()
	require.NoError(c, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), serverVariable+"="+name)
	input, err := cmd.StdinPipe()
	require.NoError(c, err)
	output, err := cmd.StdoutPipe()
	require.NoError(c, err)
	require.NoError(c, cmd.Start())
	address, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(c, err)
	stop := sync.OnceFunc(func() {
		_ = input.Close()
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c.Cleanup(stop)
	c.add(&server{name: name, address: strings.TrimSpace(address), stop: stop})
	return cmd.Process
}

// When a server's process is killed, RPCs that were on their way to it fail. No other
// RPC does, and no key of another server goes astray.
func TestProcessKilled(t *testing.T) {
	forEachPolicy(t, func(t *testing.T, policy string, mapping func(...string) mapping) {
		m := mapping(five...)
		c := newServers(t, append(five[:2:2], five[3:]...)...)
		victim := c.startProcess(five[2])
		h := handles(c)["own"]
		c.connectTo(policy, `{}`, endpointsAt(five...))
		check(t, m, c.callAll(keys(200)))
		stop := c.load(t, m, ofVictim(t, m, five[2]))
		require.NoError(t, victim.Kill())
		eventually(t, "the server has failed", func() bool { return h.Stats().Unhealthy == 1 })
		stop()
		require.NoError(t, m.SetState(five[2], chash.Unhealthy))
		check(t, m, c.callAll(keys(200)))
		// It comes back under another port.
		c.startProcess(five[2])
		require.NoError(t, m.SetState(five[2], chash.Healthy))
		c.await(m)
	})
}

// ofVictim forgives RPCs of one server's keys.
func ofVictim(t *testing.T, m mapping, victim string) func(string, error) bool {
	own := map[string]bool{}
	for i := range 500 {
		key := fmt.Sprint("key-", i)
		name, err := m.Get(key)
		require.NoError(t, err)
		own[key] = name == victim
	}
	return func(key string, _ error) bool { return own[key] }
}

// A process that is stopped keeps its connections and says nothing. Keepalive closes
// them, and from then on RPCs go elsewhere before their deadlines.
func TestProcessStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("gRPC's shortest time of keepalive is 10 seconds")
	}
	m, err := policies[0].mapping(chash.Named(five...))
	require.NoError(t, err)
	c := newServers(t, append(five[:2:2], five[3:]...)...)
	victim := c.startProcess(five[2])
	h := handles(c)["own"]
	c.connectTo(chashgrpc.MaglevName, `{"connectWait": "4s"}`, endpointsAt(five...), grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true,
	}))
	check(t, m, c.callAll(keys(200)))
	stop := c.load(t, m, ofVictim(t, m, five[2]))
	before := h.Picks().Elsewhere
	require.NoError(t, victim.Signal(syscall.SIGSTOP))
	eventually(t, "keys of the server go elsewhere", func() bool { return h.Picks().Elsewhere > before })
	stop()
	require.NoError(t, m.SetState(five[2], chash.Unhealthy))
	check(t, m, c.callAll(keys(200)))
	require.NoError(t, victim.Signal(syscall.SIGCONT))
	require.NoError(t, m.SetState(five[2], chash.Healthy))
	c.await(m)
}
