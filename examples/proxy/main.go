// Command proxy is an HTTP reverse proxy that sends every client to a backend of
// its own: what identifies the client is the key of a lookup in a Maglev table.
// It checks its backends' health, repeats at the key's next candidate what a
// backend left without an answer, and takes backends in and out while it runs.
//
// Without flags it demonstrates that on loopback; -h lists the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains. With the handler gone, a second one kills.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
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

// run is the program: it returns when ctx is done and the requests in flight
// have ended, or at the end of the demonstration.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.demo {
		return demonstrate(ctx, c, stdout, stderr)
	}
	s, err := newService(ctx, c, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "proxy on %s\n", s.front.url())
	if s.back != nil {
		fmt.Fprintf(stdout, "admin on %s\n", s.back.url())
	}
	return s.run(ctx)
}
