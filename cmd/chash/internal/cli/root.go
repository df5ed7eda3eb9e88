// Package cli is the command line of chash: its commands, their flags and what they print.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitDiffers     = 1   // A and B differ, or the limits are not met
	ExitUsage       = 2   // bad use: flags, files, what is in them
	ExitInterrupted = 130 // of a replay that Ctrl-C stopped, as shells have it
)

// errDiffers is returned where compare finds a difference. It has been printed.
var errDiffers = errors.New("the mappings differ")

// errInterrupted is returned by a replay that was stopped. What it had is printed.
var errInterrupted = errors.New("interrupted")

// Main runs the command and returns its exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(longFlags(root, args))
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "chash:", err)
		return ExitInterrupted
	}
	fmt.Fprintln(stderr, "chash:", err)
	if errors.Is(err, errDiffers) || errors.Is(err, plan.ErrLimits) {
		return ExitDiffers
	}
	return ExitUsage
}

// An app is what all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	format         string
	color          string
}

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:   "chash",
		Short: "Plan changes of consistent hashing, ask where keys go, and see it",
		Long: `chash answers questions about consistent hashing with the library
github.com/chash-go/chash: how much a change of the backends moves and which
structure to take (plan, size, study), where a key goes and why (where), what
real keys do to the load (replay), whether two processes map alike (compare).

Backends come from a file or from standard input ("-"): lines of NAME [WEIGHT]
[STATE], CSV, JSON, YAML, or the configuration of nginx (upstream), HAProxy
(backend) or Envoy (a cluster). Flags may have one dash or two.

Exit codes: 0; 1 if mappings differ or limits are not met; 2 for bad use;
130 for a replay that was interrupted.`,
		Example: `  chash plan backends.txt --add web-41,web-42
  chash where user:42 --backends backends.txt
  chash replay access.log.gz --backends backends.txt --field 3
  chash compare http://10.0.0.1:9090/metrics backends.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	flags := root.PersistentFlags()
	flags.StringVarP(&a.format, "output", "o", "table", "`format` of the result: table, json, csv or markdown")
	flags.StringVar(&a.color, "color", "auto", "`when` to use colours: auto, always or never")
	completes(root, "output", "table", "json", "csv", "markdown")
	completes(root, "color", "auto", "always", "never")
	root.AddCommand(planCommand(a), whereCommand(a), replayCommand(a), compareCommand(a), sizeCommand(a), studyCommand(a),
		vectorsCommand(a), docsCommand(a))
	return root
}

// completes lets shells complete the values of a flag.
func completes(c *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that is not there, which the tests would show.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// longFlags gives a second dash to long flags that have one, as -max-moved: both are in
// use for commands of Go.
func longFlags(root *cobra.Command, args []string) []string {
	names := map[string]bool{}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { names[f.Name] = true }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	names["help"] = true
	long := make([]string, len(args))
	for i, arg := range args {
		long[i] = arg
		if arg == "--" {
			copy(long[i:], args[i:])
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && len(name) > 1 && names[name] {
			long[i] = "-" + arg
		}
	}
	return long
}

// printer returns the printer that the flags ask for.
func (a *app) printer() (output.Printer, error) {
	format, err := output.ParseFormat(a.format)
	if err != nil {
		return output.Printer{}, err
	}
	p := output.Printer{Out: a.stdout, Format: format}
	switch a.color {
	case "auto":
		p.Color = format == output.Text && output.HasColor(a.stdout)
	case "always":
		p.Color = format == output.Text
	case "never":
	default:
		return p, fmt.Errorf("--color %q; expected auto, always or never", a.color)
	}
	return p, nil
}

// print prints a document as the flags ask.
func (a *app) print(d output.Document) error {
	p, err := a.printer()
	if err != nil {
		return err
	}
	return p.Print(d)
}
