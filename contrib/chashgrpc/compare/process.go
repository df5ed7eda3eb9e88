package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

// serverVariable names the server that a process of this program is to be.
const serverVariable = "CHASHGRPC_COMPARE_SERVER"

// serveIfAsked makes this process a server until its input ends, and reports whether it was
// asked to be one.
func serveIfAsked() bool {
	name := os.Getenv(serverVariable)
	if name == "" {
		return false
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true
	}
	g := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(g, server{name: name})
	go func() { _ = g.Serve(l) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// startProcess puts a process of its own in the place of a server.
func (l *lab) startProcess(name string) (*os.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), serverVariable+"="+name)
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l.stop[name]()
	l.stop[name] = func() {
		_ = input.Close()
		_ = cmd.Process.Kill() // also where it was stopped
		_ = cmd.Wait()
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	l.address[name] = strings.TrimSpace(address)
	return cmd.Process, err
}

// withProcess runs a scenario with five servers, of which victim is a process. It is given the
// servers of the keys.
func withProcess(c contestant, keys []string, run func(l *lab, client *client, process *os.Process, want []string) ([]int, error), opts ...grpc.DialOption) ([]int, error) {
	l, err := newLab(names(5))
	if err != nil {
		return nil, err
	}
	defer l.close()
	process, err := l.startProcess(victim)
	if err != nil {
		return nil, err
	}
	client, err := l.connect(c, endpoints(names(5)...), opts...)
	if err != nil {
		return nil, err
	}
	defer client.close()
	want, err := client.settled(keys)
	if err != nil {
		return nil, err
	}
	return run(l, client, process, want)
}

const victim = "server-2"

// killed kills a server under load, until a round of RPCs has none that fails. It counts RPCs
// that failed, and those of other servers' keys that went astray.
func killed(c contestant, s scale) ([]int, error) {
	keys := keys(s.keys)
	return withProcess(c, keys, func(_ *lab, client *client, process *os.Process, want []string) ([]int, error) {
		kill := time.AfterFunc(20*time.Millisecond, func() { _ = process.Kill() })
		defer kill.Stop()
		lost, astray := 0, 0
		for began := time.Now(); time.Since(began) < patience; {
			got := client.callAll(keys, patience)
			lost += failed(got)
			moved := 0
			for i, name := range got {
				switch {
				case want[i] == victim && name != victim && name != "":
					moved++
				case want[i] != victim && name != want[i] && name != "":
					astray++
				}
			}
			if moved > 0 && failed(got) == 0 {
				return []int{lost, astray}, nil
			}
		}
		return nil, fmt.Errorf("the keys of a server that was killed stay with it")
	})
}

// stopped stops a server, which keeps its connections and says nothing, and makes RPCs of one
// of its keys, one a second with a second each. It counts those that failed.
func stopped(c contestant, s scale) ([]int, error) {
	all := keys(s.keys)
	return withProcess(c, all, func(_ *lab, client *client, process *os.Process, want []string) ([]int, error) {
		key := ""
		for i, name := range want {
			if name == victim {
				key = all[i]
			}
		}
		if err := process.Signal(sigstop); err != nil {
			return nil, err
		}
		var wait sync.WaitGroup
		var mu sync.Mutex
		lost := 0
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for range stoppedRPCs {
			wait.Go(func() {
				if _, err := client.call(key, time.Second); err != nil {
					mu.Lock()
					defer mu.Unlock()
					lost++
				}
			})
			<-second.C
		}
		wait.Wait()
		return []int{lost}, nil
	}, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}))
}

// stoppedRPCs are so many that most come after keepalive has found the server out, which takes
// 13 seconds at least.
const stoppedRPCs = 30
