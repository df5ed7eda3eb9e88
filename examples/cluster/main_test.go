package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// A program is this program as a process, which ends with the test.
type program struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr *os.File // has an end when neither it nor any process that it has started runs
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, os.Args[0], args...)
}

// startCommand starts a command that runs this program.
func startCommand(t *testing.T, command string, args ...string) *program {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	p := &program{cmd: exec.CommandContext(t.Context(), command, args...)}
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

// Five processes, one killed, one added, and all keys are there. The race detector
// makes that slow, so with it there are fewer keys.
func TestDemo(t *testing.T) {
	args, keys := []string{}, 20000
	if raceDetector {
		args, keys = []string{"-keys=5000"}, 5000
	}
	status, out, log := startProgram(t, args...).exit(t)
	require.Zero(t, status, "%s%s", out, log)

	number := func(pattern string) (numbers []int) {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + pattern).FindStringSubmatch(out)
		require.NotNil(t, found, "no %s in\n%s", pattern, out)
		for _, s := range found[1:] {
			n, err := strconv.Atoi(s)
			require.NoError(t, err)
			numbers = append(numbers, n)
		}
		return numbers
	}
	require.Equal(t, []int{5, keys, 2}, number(`(\d+) nodes on loopback, (\d+) keys in (\d+) copies each, written in `))
	const line = `\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+\.\d\d s$`
	killed, added := fewestMoves(t, keys)
	require.Equal(t, []int{0, killed, killed}, number("node-2 killed"+line), out)
	require.Equal(t, []int{0, added, added}, number("node-6 added"+line), out)
}

// fewestMoves returns how many copies must be made when node-2 is gone, and then
// when node-6 is there.
func fewestMoves(t *testing.T, keys int) (killed, added int) {
	t.Helper()
	ring := func(numbers ...int) *chash.Ring[string] {
		var names []string
		for _, n := range numbers {
			names = append(names, fmt.Sprintf("node-%d", n))
		}
		r, err := chash.NewRing(chash.Named(names...))
		require.NoError(t, err)
		return r
	}
	first, last := ring(1, 2, 3, 4, 5), ring(1, 3, 4, 5, 6)
	for i := range keys {
		a, err := first.GetN(demoKey(i), 2)
		require.NoError(t, err)
		c, err := last.GetN(demoKey(i), 2)
		require.NoError(t, err)
		// What the dead node had, another must have; what the new one has, it must get.
		if slices.Contains(a, "node-2") {
			killed++
		}
		if slices.Contains(c, "node-6") {
			added++
		}
	}
	return killed, added
}

// However the demonstration ends, its nodes end with it.
func TestDemo_LeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM, os.Interrupt} {
		p := startProgram(t, "-keys=10000000")
		p.waitFor(t, "5 nodes on loopback")
		require.NoError(t, p.cmd.Process.Signal(signal))
		status, _, _ := p.exit(t)
		require.NotZero(t, status, "%v", signal)
	}
}

// Nor does the demonstration run on when what it was started by is killed, which
// cannot pass that on: go run, say.
func TestDemo_EndsWithParent(t *testing.T) {
	t.Parallel()
	p := startCommand(t, "sh", "-c", `"$0" -keys=10000000; true`, os.Args[0])
	p.waitFor(t, "5 nodes on loopback")
	require.NoError(t, p.cmd.Process.Kill())
	p.allGone(t)
}

// A real node leaves when it is told to, and ends when its standard input does if
// that is what it was asked for.
func TestNode_Ends(t *testing.T) {
	t.Parallel()
	address := regexp.MustCompile(`^(\w+) answers at (http://127\.0\.0\.1:\d+) and gossips at (127\.0\.0\.1:\d+)\n$`)
	start := func(name, join string, args ...string) (p *program, url, gossip string) {
		p = startProgram(t, append([]string{"-name=" + name, "-bind=127.0.0.1:0", "-http=127.0.0.1:0", "-replicas=1", "-join=" + join}, args...)...)
		found := address.FindStringSubmatch(p.line(t))
		require.NotNil(t, found)
		require.Equal(t, name, found[1])
		return p, found[2], found[3]
	}
	a, url, gossip := start("a", "")
	b, _, _ := start("b", gossip)
	c, _, _ := start("c", gossip, "-until-eof")
	d := &demo{keys: 100, stdout: io.Discard, nodes: []*process{{url: url}}}
	members := func(want int) {
		t.Helper()
		eventually(t, "the members are known", func() bool {
			states, err := d.states(t.Context())
			return err == nil && len(states[0].Members) == want && states[0].Settled
		})
	}
	members(3)
	require.NoError(t, d.load(t.Context()))
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGTERM))
	status, _, log := b.exit(t)
	require.Zero(t, status, log)
	members(2)
	require.Equal(t, d.keys, d.read(t.Context()), "with one copy of each key, what b had was handed over")

	require.NoError(t, c.stdin.Close())
	status, _, _ = c.exit(t)
	require.Zero(t, status)
	require.NoError(t, a.cmd.Process.Signal(os.Interrupt))
	status, _, log = a.exit(t)
	require.Zero(t, status, log)
}

// Bad input is named.
func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		status int
		stderr string
	}{
		"-name=a -replicas=0":       {1, "0 copies"},
		"-keys=-1":                  {2, "-keys"},
		"-name=a extra":             {1, `"extra"`},
		"-name=a -http=:0":          {1, `":0"`},
		"-name=a -bind=localhost:1": {1, "localhost"},
		"-unknown":                  {2, "-unknown"},
		"-h":                        {0, "-replicas number"},
	} {
		status, stdout, stderr := startProgram(t, strings.Fields(args)...).exit(t)
		require.Equal(t, want.status, status, args)
		require.Contains(t, stderr, want.stderr, args)
		require.Empty(t, stdout)
	}
}

// The demonstration fails if a key is lost.
func TestDemo_Verdict(t *testing.T) {
	t.Parallel()
	ns := startAllApart(t, "a", "b")
	var out strings.Builder
	d := &demo{keys: 10, stdout: &out}
	for _, n := range ns {
		d.nodes = append(d.nodes, &process{name: n.name, url: "http://" + n.http})
	}
	require.NoError(t, d.know())
	require.NoError(t, d.load(t.Context()))
	require.NoError(t, d.change(t.Context(), "nothing done", func() error { return nil }))

	for _, n := range ns {
		e, _ := n.store.get(demoKey(3))
		n.store.drop(e)
	}
	require.ErrorIs(t, d.change(t.Context(), "a key lost", func() error { return nil }), errVerdict)
	require.Regexp(t, `(?m)^a key lost +1 `, out.String())
	put(t, ns[0], demoKey(3), demoValue(3))
	require.ErrorIs(t, d.change(t.Context(), "a copy too many", func() error { ns[0].moved.Add(1); return nil }), errVerdict)
	require.NoError(t, d.change(t.Context(), "nothing done", func() error { return nil }))
	for _, n := range ns {
		require.NoError(t, n.stop())
	}
	require.ErrorIs(t, d.load(t.Context()), errVerdict)
}
