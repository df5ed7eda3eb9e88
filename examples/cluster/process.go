package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// A process is a node of the demonstration: this program once more, with flags.
type process struct {
	name   string
	url    string
	gossip string
	moved  int64 // copies, when it was last asked
	cmd    *exec.Cmd
}

// startProcess starts one on free ports of the loopback interface, and returns when
// it has joined the others. It does not outlive ctx, nor this process, whatever way
// that ends: its standard input is a pipe from here.
func startProcess(ctx context.Context, name, join string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "-name="+name, "-bind=127.0.0.1:0", "-http=127.0.0.1:0", "-join="+join, "-until-eof")
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // which cmd keeps
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: cmd}
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

// kill ends the process with SIGKILL and waits for that.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	_ = p.cmd.Wait()         // reports the signal
}

// cancelWithParent calls cancel when what started this process has ended. A go run
// that is killed cannot tell, and the demonstration would run on without it.
func cancelWithParent(ctx context.Context, cancel func()) {
	parent := os.Getppid()
	for os.Getppid() == parent && pause(ctx, 100*time.Millisecond) {
	}
	cancel()
}
