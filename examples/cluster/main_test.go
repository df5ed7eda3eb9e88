package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// Five processes, one killed, one added, and all keys are there. The race detector
// makes that slow, so with it there are fewer keys.
func TestDemo(t *testing.T) {
	args, keys := []string{}, 10000
	if raceDetector {
		args, keys = []string{"-keys=1000"}, 1000
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
	require.Equal(t, []int{5, keys, 3}, number(`(\d+) nodes on loopback, (\d+) keys in (\d+) copies each, written in `))
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
		a, err := first.GetN(demoKey(i), 3)
		require.NoError(t, err)
		c, err := last.GetN(demoKey(i), 3)
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

// The demonstration ends when it is told to.
func TestDemo_Interrupted(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-keys=10000000")
	p.waitFor(t, "5 nodes on loopback")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	status, _, log := p.exit(t)
	require.Equal(t, 1, status)
	require.Contains(t, log, "keys not written")
}

// A real node leaves when it is told to.
func TestNode_Leaves(t *testing.T) {
	t.Parallel()
	address := regexp.MustCompile(`^(\w+) answers at (127\.0\.0\.1:\d+)\n$`)
	start := func(name, join string) (p *program, addr string) {
		p = startProgram(t, "-name="+name, "-addr=127.0.0.1:0", "-replicas=1", "-join="+join)
		found := address.FindStringSubmatch(p.line(t))
		require.NotNil(t, found)
		require.Equal(t, name, found[1])
		return p, found[2]
	}
	a, addr := start("a", "")
	b, _ := start("b", addr)
	c, _ := start("c", addr)
	for i := range 50 {
		_, err := operate(testClient, addr, fmt.Sprint(i), operation{true, "v"}, patience)
		require.NoError(t, err)
	}
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGTERM))
	status, _, log := b.exit(t)
	require.Zero(t, status, log)
	for i := range 50 {
		value, err := operate(testClient, addr, fmt.Sprint(i), operation{}, patience)
		require.NoError(t, err)
		require.Equal(t, "v", value, "with one copy of each key, what b had was handed over")
	}
	require.NoError(t, c.cmd.Process.Kill())
	c.exit(t)
	// One of two that is dead leaves no majority, and what a holds cannot be handed over.
	require.NoError(t, a.cmd.Process.Signal(os.Interrupt))
	status, _, log = a.exit(t)
	require.Equal(t, 1, status)
	require.Contains(t, log, "a left before all was handed over")
}

// Bad input is named.
func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		status int
		stderr string
	}{
		"-name=a -replicas=0":   {1, "0 copies"},
		"-keys=-1":              {2, "-keys"},
		"-name=a extra":         {1, `"extra"`},
		"-name=a -addr=:0":      {1, `":0"`},
		"-name=a -addr=nowhere": {1, "nowhere"},
		"-unknown":              {2, "-unknown"},
		"-h":                    {0, "-replicas number"},
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
	w := startViewed(t, "a", "b")
	var out strings.Builder
	d := &demo{keys: 10, stdout: &out}
	d.nodes = w.nodes
	require.NoError(t, d.load(t.Context()))
	require.NoError(t, d.change(t.Context(), "nothing done", func() error { return nil }))

	for _, n := range w.nodes {
		n.store.keep(func(key string) bool { return key != demoKey(3) })
	}
	require.ErrorIs(t, d.change(t.Context(), "a key lost", func() error { return nil }), errVerdict)
	require.Regexp(t, `(?m)^a key lost +1 `, out.String())
	put(t, w.nodes[0], demoKey(3), demoValue(3))
	require.ErrorIs(t, d.change(t.Context(), "a copy too many", func() error { w.nodes[0].moved.Add(1); return nil }), errVerdict)
	require.NoError(t, d.change(t.Context(), "nothing done", func() error { return nil }))
	for _, n := range w.nodes {
		require.NoError(t, n.close())
	}
	require.ErrorIs(t, d.load(t.Context()), errVerdict)
}
