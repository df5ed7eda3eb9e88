package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const parentPoll = 100 * time.Millisecond

// A process is a node of the demonstration: this program once more, with flags.
type process struct {
	name   string
	url    string
	gossip string
	cmd    *exec.Cmd
	stdin  io.Closer
}

// startProcess starts one on free ports of the loopback interface, and returns when
// it has joined the others. It does not outlive ctx, nor this process, whatever way
// that ends: its standard input is a pipe from here.
func startProcess(ctx context.Context, stderr io.Writer, name, join string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name}
	p.cmd = exec.CommandContext(ctx, program, "-name="+name, "-bind=127.0.0.1:0", "-http=127.0.0.1:0", "-join="+join, fmt.Sprintf("-replicas=%d", demoCopies), "-until-eof")
	p.cmd.Stderr = stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(line, name+" answers at %s and gossips at %s\n", &p.url, &p.gossip)
	}
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("%s did not start: %w", name, errors.Join(err, ctx.Err()))
	}
	return p, nil
}

// cancelWithParent calls cancel when what started this process has ended. A go run
// that is killed cannot tell, and the demonstration would run on without it.
func cancelWithParent(ctx context.Context, cancel func()) {
	defer cancel()
	parent := os.Getppid()
	for os.Getppid() == parent {
		select {
		case <-ctx.Done():
			return
		case <-time.After(parentPoll):
		}
	}
}

// kill ends the process with SIGKILL and waits for that.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	_ = p.cmd.Wait()         // reports the signal
	_ = p.stdin.Close()
}
