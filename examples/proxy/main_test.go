package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func TestFlags_Table(t *testing.T) {
	t.Parallel()
	backends := startTestBackends(t, "a", "b", "c")
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "a", Value: "a"}, {Name: "b", Value: "b", Weight: 2}, {Name: "c", Value: "c", Weight: 5},
	}, chash.WithTableSize(251), chash.WithSeed(7))
	require.NoError(t, err)
	p := start(t, "-table-size=251", "-seed=7",
		"-backend=a="+backends[0].url, "-backend=b="+backends[1].url+",2", "-backend=c="+backends[2].url+",5")
	agree(t, p, table)

	slots := map[string]int{}
	for slot := range 251 {
		owner, err := table.GetHash(uint64(slot))
		require.NoError(t, err)
		slots[owner]++
	}
	var want []shownMember
	for i, weight := range []uint32{1, 2, 5} {
		b := backends[i]
		want = append(want, shownMember{b.name, b.url, "healthy", weight, slots[b.name], float64(slots[b.name]) / 251})
	}
	require.Equal(t, want, p.members(t))
}

func TestFlags_Wrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		flags []string
		want  error
	}{
		{"unknown flag", []string{"-nonsense"}, errUsage},
		{"argument", []string{"-admin=", "nonsense"}, errUsage},
		{"key", []string{"-key=nonsense"}, errUsage},
		{"key without a name", []string{"-key=header:"}, errUsage},
		{"address with a name", []string{"-key=address:x"}, errUsage},
		{"backend without a url", []string{"-backend=a"}, errUsage},
		{"backend of another scheme", []string{"-backend=a=ftp://host"}, errUsage},
		{"backend without a host", []string{"-backend=a=http:///path"}, errUsage},
		{"backend with a password", []string{"-backend=a=http://u:p@host"}, errUsage},
		{"weight 0", []string{"-backend=a=http://host,0"}, errUsage},
		{"weight past uint32", []string{"-backend=a=http://host,4294967296"}, errUsage},
		{"no attempt", []string{"-attempts=0"}, errUsage},
		{"no interval", []string{"-health-interval=0"}, errUsage},
		{"few clients", []string{"-demo", "-demo-clients=1"}, errUsage},
		{"few requests", []string{"-demo", "-demo-requests=100"}, errUsage},
		{"no name", []string{"-backend==http://host"}, chash.ErrEmptyName},
		{"a name twice", []string{"-backend=a=http://host", "-backend=a=http://other"}, chash.ErrBackendExists},
		{"size not prime", []string{"-table-size=65536"}, chash.ErrTableSizeNotPrime},
		{"more than slots", []string{"-table-size=2", "-backend=a=http://h", "-backend=b=http://h", "-backend=c=http://h"}, chash.ErrTooManyBackends},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // it shall not get to serve
			err := run(ctx, test.flags, io.Discard, io.Discard)
			require.ErrorIs(t, err, test.want)
		})
	}
}

func TestFlags_Help(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-h"}, &out, io.Discard))
	for _, flag := range []string{"-backend", "-key", "-table-size", "-listen", "-admin"} {
		require.Contains(t, out.String(), "  "+flag+" ")
	}
}

func refuses(address string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		return true
	}
	conn.Close()
	return false
}

func TestDrain(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	p := start(t, "-backend=a="+b.url)
	arrived, release := b.hold()
	got := p.sendLater(newRequest(t, http.MethodPost, p.proxy, "key", strings.NewReader("body")))
	<-arrived
	p.quit()
	eventually(t, "the proxy accepts no more", func() bool { return refuses(p.proxy) })
	require.Equal(t, "healthy", p.state(t, "a"), "the admin address answers until the end")
	close(release)
	require.Equal(t, answer{http.StatusOK, "a", "body"}, <-got)
	require.NoError(t, <-p.ended)
	require.True(t, refuses(p.admin))
}

func TestDrain_TimeLimit(t *testing.T) {
	t.Parallel()
	b := startTestBackend(t, "a")
	p := start(t, "-backend=a="+b.url, "-drain-timeout=50ms")
	arrived, _ := b.hold()
	got := p.sendLater(newRequest(t, http.MethodGet, p.proxy, "key", nil))
	<-arrived
	p.quit()
	require.ErrorIs(t, <-p.ended, context.DeadlineExceeded)
	require.Zero(t, (<-got).status)
}

// asProcess returns the program with those flags as a process to be.
func asProcess(ctx context.Context, flags ...string) (cmd *exec.Cmd, stderr *lockedBuffer) {
	cmd = exec.CommandContext(ctx, os.Args[0], flags...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stderr = new(lockedBuffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

func TestProcess_Interrupt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt here")
	}
	b := startTestBackend(t, "a")
	cmd, stderr := asProcess(t.Context(), "-listen=127.0.0.1:0", "-admin=127.0.0.1:0", "-backend=a="+b.url)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill() // in case the test fails before its end
	p := &program{client: new(http.Client)}
	p.proxy, _ = readAddresses(t, stdout)
	arrived, release := b.hold()
	got := p.sendLater(newRequest(t, http.MethodGet, p.proxy, "", nil))
	<-arrived
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	eventually(t, "the proxy accepts no more", func() bool { return refuses(p.proxy) })
	close(release)
	require.Equal(t, answer{http.StatusOK, "a", ""}, <-got)
	require.NoError(t, cmd.Wait(), "%s", stderr)
}

func TestProcess_ExitCodes(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]int{"-h": 0, "-nonsense": 2, "-table-size=4": 1} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			cmd, stderr := asProcess(t.Context(), flag)
			err := cmd.Run()
			require.Equal(t, want, cmd.ProcessState.ExitCode(), "%v: %s", err, stderr)
			require.Equal(t, want == 0, stderr.String() == "", "%s", stderr)
		})
	}
}
