// Command cluster is a sharded, replicated key-value store in memory. Each process
// gossips with the others by hashicorp/memberlist and keeps a ring of them, which
// says where each key is held; when the members change, the difference of two rings
// says which ranges of keys have to move, and from whom to whom.
//
// Without -name it demonstrates that with processes on loopback; -h lists the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal makes a node leave. With the handler gone, a second one kills.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	}
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	return 1
}

// run is the program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c, err := parseFlags(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case c.name == "":
		return demonstrate(ctx, c.keys, stdout, stderr)
	}
	c.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: c.level}))
	return runNode(ctx, c, stdin, stdout)
}

// A config is what a node is started with.
type config struct {
	name      string
	bind      string   // where it gossips
	http      string   // where it answers
	join      []string // where some of the others gossip
	copies    int      // of each key
	untilEOF  bool     // it ends when standard input does
	keys      int      // of the demonstration
	level     slog.Level
	log       *slog.Logger
	migration http.RoundTripper // carries what migration sends
}

const longestName = 128

// errUsage is returned for flags that make no sense.
var errUsage = errors.New("usage")

func parseFlags(args []string, stdout io.Writer) (config, error) {
	c := config{migration: &http.Transport{}}
	join := ""
	fs := flag.NewFlagSet("cluster", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are returned, and printed once
	fs.StringVar(&c.name, "name", "", "run one node, of this `name`, which no other may have")
	fs.StringVar(&c.bind, "bind", "127.0.0.1:7946", "gossip at this `address`, TCP and UDP; port 0 takes a free one")
	fs.StringVar(&c.http, "http", "127.0.0.1:8080", "answer at this `address`, which the other nodes must reach")
	fs.StringVar(&join, "join", "", "join the nodes that gossip at these `addresses`, separated by commas")
	fs.IntVar(&c.copies, "replicas", 2, "hold each key on this many nodes, the same `number` on all of them")
	fs.BoolVar(&c.untilEOF, "until-eof", false, "end at once when standard input ends")
	fs.TextVar(&c.level, "log", slog.LevelWarn, "log from this `level` on: DEBUG, INFO, WARN or ERROR")
	fs.IntVar(&c.keys, "keys", 20000, "`number` of keys of the demonstration, which runs without -name")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(stdout)
		fs.Usage()
		return config{}, err
	} else if err != nil {
		return config{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	if join != "" {
		c.join = strings.Split(join, ",")
	}
	return c, c.check(fs)
}

func (c config) check(fs *flag.FlagSet) error {
	var err error
	fs.Visit(func(f *flag.Flag) {
		switch demo := f.Name == "keys"; {
		case demo && c.name != "":
			err = fmt.Errorf("%w: -keys is for the demonstration, and -name runs a node", errUsage)
		case !demo && c.name == "":
			err = fmt.Errorf("%w: -%s is for a node, which needs a -name", errUsage, f.Name)
		}
	})
	switch {
	case err != nil:
		return err
	case fs.NArg() > 0:
		return fmt.Errorf("%w: %q is no flag", errUsage, fs.Arg(0))
	case len(c.name) > longestName:
		return fmt.Errorf("%w: -name of %d bytes, at most %d fit into the gossip", errUsage, len(c.name), longestName)
	case c.copies < 1:
		return fmt.Errorf("%w: -replicas=%d", errUsage, c.copies)
	case c.keys < 1:
		return fmt.Errorf("%w: -keys=%d", errUsage, c.keys)
	}
	for _, address := range []string{c.bind, c.http} {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && (ip == nil || ip.IsUnspecified()) {
			err = fmt.Errorf("%q is no IP address that others can reach", host)
		}
		if err != nil {
			return fmt.Errorf("%w: %q: %w", errUsage, address, err)
		}
	}
	return nil
}

// runNode runs one node until ctx is done, when it leaves, or standard input ends.
func runNode(ctx context.Context, c config, stdin io.Reader, stdout io.Writer) error {
	n, err := startNode(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s answers at http://%s and gossips at %s\n", c.name, n.http, n.bind)
	eof := make(chan struct{})
	if c.untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			close(eof)
		}()
	}
	select {
	case <-ctx.Done():
		err = n.leave()
	case <-eof:
	}
	return errors.Join(err, n.close())
}
