package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func docsCommand(a *app) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "docs DIR",
		Short: "Write man pages or Markdown of all commands",
		Long:  "docs writes a man page of each command, or the same as Markdown, to a folder.",
		Example: `  chash docs --as man /usr/local/share/man/man1
  chash docs --as markdown docs`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			switch format {
			case "man":
				return doc.GenManTree(root, &doc.GenManHeader{Title: "CHASH", Section: "1", Source: "chash", Manual: "chash"}, args[0])
			case "markdown":
				return doc.GenMarkdownTree(root, args[0])
			}
			return fmt.Errorf("%w: --as %q; expected man or markdown", errUse, format)
		},
	}
	c.Flags().StringVar(&format, "as", "man", "`man` or markdown")
	completes(c, "as", "man", "markdown")
	return c
}
