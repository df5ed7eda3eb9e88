// Command cluster is a sharded, replicated key-value store in memory. The processes
// agree on the members by hashicorp/raft. Each keeps a ring of them, which says where
// each key is held. When the members change, the difference of two rings says which
// ranges of keys have to move, and from whom to whom.
//
// Without -name it demonstrates that with processes on loopback; -h lists the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const defaultCopies = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal makes a node leave. With the handler gone, a second one kills.
	context.AfterFunc(ctx, stop)
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context) error {
	var c config
	flag.StringVar(&c.name, "name", "", "run one node, of this `name`, which no other may have")
	flag.StringVar(&c.addr, "addr", "127.0.0.1:8080", "answer at this `address`, which the other nodes must reach; port 0 takes a free one")
	flag.IntVar(&c.copies, "replicas", defaultCopies, "hold each key on this many nodes, the same `number` on all of them")
	join := flag.String("join", "", "join the nodes at these `addresses`, separated by commas; without, found a cluster")
	keys := flag.Uint("keys", 10000, "`number` of keys of the demonstration, which runs without -name")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("%q is no flag", flag.Arg(0))
	case c.name == "":
		return demonstrate(ctx, int(*keys), os.Stdout)
	}
	if *join != "" {
		c.join = strings.Split(*join, ",")
	}
	return runNode(ctx, c)
}

// runNode runs one node until ctx is done, when it leaves.
func runNode(ctx context.Context, c config) error {
	n, err := startNode(ctx, c)
	if err != nil {
		return err
	}
	fmt.Printf("%s answers at %s\n", c.name, n.addr)
	<-ctx.Done()
	return errors.Join(n.leave(), n.close())
}

// pause waits, and reports whether ctx is not done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
