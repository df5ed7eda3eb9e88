// Chash plans changes of backends, says where keys go and why, and draws it. Run
//
//	chash help
//
// for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chash-go/chash/cmd/chash/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the command at once
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
