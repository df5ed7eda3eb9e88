package chashhttp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The snippets of the README are parts of examples.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	code := strings.ReplaceAll("\n"+string(examples), "\n\t", "\n")
	parts := strings.Split(string(readme), "```go\n")
	require.Len(t, parts, 3)
	for _, part := range parts[1:] {
		snippet, _, found := strings.Cut(part, "```\n")
		require.True(t, found)
		require.Contains(t, code, "\n"+snippet)
	}
}
