package chashgrpc_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The snippet of the README is the first example.
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

// The tests that RING_HASH.md names as guards are there.
func TestRingHashList(t *testing.T) {
	list, err := os.ReadFile("RING_HASH.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	more, err := filepath.Glob("parents/*_test.go")
	require.NoError(t, err)
	var code strings.Builder
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(text)
	}
	name := regexp.MustCompile("`(Test\\w+)`")
	for line := range strings.Lines(string(list)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, guard := range name.FindAllStringSubmatch(cells[3], -1) {
			require.Contains(t, code.String(), "func "+guard[1]+"(", line)
		}
	}
}
