package chashhttp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The snippet of the README is part of an example.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, snippet, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	snippet, _, found = strings.Cut(snippet, "```\n")
	require.True(t, found)
	code := strings.ReplaceAll("\n"+string(examples), "\n\t", "\n")
	require.Contains(t, code, "\n"+snippet)
}
