package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raceDetector is whether the race detector is on.
var raceDetector = false

// asProgram in the environment makes the test binary the program.
const asProgram = "CLUSTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		go func() { // it ends with the test, whatever way that ends
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		main()
		return
	}
	m.Run()
}

// patience bounds what a test waits for.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 10*time.Millisecond, what)
}

// testConfig returns that of a node with a port of its own.
func testConfig(name string) config {
	return config{name: name, addr: "127.0.0.1:0", copies: defaultCopies}
}

// start starts a node in this process that has joined those that are there.
func start(t *testing.T, c config, there ...*node) *node {
	t.Helper()
	for _, n := range there {
		c.join = append(c.join, n.addr)
	}
	n, err := startNode(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.close() })
	return n
}

type nodes []*node

// startAll starts nodes in this process.
func startAll(t *testing.T, copies int, names ...string) (ns nodes) {
	t.Helper()
	for _, name := range names {
		c := testConfig(name)
		c.copies = copies
		ns = append(ns, start(t, c, ns...))
	}
	ns.settle(t)
	return ns
}

// settle waits until the nodes are the members, and all data are where they belong.
func (ns nodes) settle(t *testing.T) {
	t.Helper()
	var names []string
	for _, n := range ns {
		names = append(names, n.name)
	}
	slices.Sort(names)
	eventually(t, fmt.Sprintf("%v settle", names), func() bool {
		return !slices.ContainsFunc(ns, func(n *node) bool {
			s := n.status()
			return !s.Settled || s.Version != ns[0].status().Version || !slices.Equal(s.Members, names)
		})
	})
}

// without returns the others.
func (ns nodes) without(gone *node) nodes {
	return slices.DeleteFunc(slices.Clone(ns), func(n *node) bool { return n == gone })
}

// hold checks that each key has its value on exactly its holders, none if it is empty.
func (ns nodes) hold(t *testing.T, values map[string]string) {
	t.Helper()
	v, err := ns[0].current()
	require.NoError(t, err)
	for key, value := range values {
		holders := v.holders(key)
		require.Len(t, holders, min(v.copies, len(ns)))
		for _, n := range ns {
			e, want := n.store.get(key), ""
			if slices.Contains(holders, n.self) {
				want = value
			}
			require.Equal(t, want, string(e.Value), "%s on %s, holders %v", key, n.name, holders)
		}
	}
}

// A reply is what a client gets.
type reply struct {
	status int
	body   string
}

func found(value string) reply { return reply{http.StatusOK, value} }

var (
	notFound = reply{http.StatusNotFound, ""}
	done     = reply{http.StatusNoContent, ""}
)

var testClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// exchange sends a request for a key to an address.
func exchange(ctx context.Context, client *http.Client, method, addr, key, value string) (reply, error) {
	status, body, err := do(ctx, client, method, "http://"+addr+keyPath+url.PathEscape(key), nil, []byte(value))
	return reply{status, string(body)}, err
}

func send(t *testing.T, method string, n *node, key, value string) reply {
	t.Helper()
	r, err := exchange(t.Context(), testClient, method, n.addr, key, value)
	require.NoError(t, err)
	return r
}

func put(t *testing.T, n *node, key, value string) {
	t.Helper()
	require.Equal(t, done, send(t, http.MethodPut, n, key, value))
}

func get(t *testing.T, n *node, key string) reply {
	t.Helper()
	return send(t, http.MethodGet, n, key, "")
}

// load writes that many keys, through the nodes in turn.
func (ns nodes) load(t *testing.T, count int) map[string]string {
	t.Helper()
	values := map[string]string{}
	for i := range count {
		key := fmt.Sprintf("key-%d", i)
		values[key] = fmt.Sprintf("value %d", i)
		put(t, ns[i%len(ns)], key, values[key])
	}
	return values
}

var errStatus = errors.New("not done")

// operate does an operation at an address, unless that takes too long.
func operate(client *http.Client, addr, key string, op operation, patience time.Duration) (value string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	method := http.MethodGet
	switch {
	case op.write && op.value == "":
		method = http.MethodDelete
	case op.write:
		method = http.MethodPut
	}
	r, err := exchange(ctx, client, method, addr, key, op.value)
	switch {
	case err != nil:
		return "", err
	case r.status == http.StatusOK || r.status == http.StatusNoContent || r.status == http.StatusNotFound:
		return r.body, nil
	}
	return "", fmt.Errorf("%w: %v", errStatus, r)
}

// A program is this program as a process, which ends with the test.
type program struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr *os.File // has an end when neither it nor any process that it has started runs
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, append([]string{os.Args[0]}, args...)...)
}

// startCommand starts a command that runs this program.
func startCommand(t *testing.T, command ...string) *program {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	p := &program{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdout = bufio.NewReader(stdout)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	p.stderr, p.cmd.Stderr = reader, writer
	require.NoError(t, p.cmd.Start())
	require.NoError(t, writer.Close())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails only if it has ended
		_ = p.cmd.Wait()
		_ = reader.Close()
	})
	return p
}

// waitFor waits until the program writes that at the beginning of its standard output.
func (p *program) waitFor(t *testing.T, text string) {
	t.Helper()
	begin, err := p.stdout.Peek(len(text))
	require.NoError(t, err)
	require.Equal(t, text, string(begin))
}

// line reads a line from the program's standard output.
func (p *program) line(t *testing.T) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	require.NoError(t, err)
	return line
}

// allGone waits until no process runs that the program has started, nor itself, and
// returns what they wrote to standard error.
func (p *program) allGone(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.stderr.SetReadDeadline(time.Now().Add(patience)))
	log, err := io.ReadAll(p.stderr)
	require.NoError(t, err, "a process is still there")
	return string(log)
}

// exit waits until the program and what it has started are gone, and returns its
// exit status and what it wrote.
func (p *program) exit(t *testing.T) (status int, stdout, stderr string) {
	t.Helper()
	out, err := io.ReadAll(p.stdout)
	require.NoError(t, err)
	_ = p.cmd.Wait() // says what the status does
	return p.cmd.ProcessState.ExitCode(), string(out), p.allGone(t)
}

// freeAddress returns an address of the loopback interface where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
