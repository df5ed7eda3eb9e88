package chashcompat_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The snippet of the README is that of an example, and it names every option.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, snippets, 1)
	indented := "\t" + strings.ReplaceAll(strings.TrimSpace(string(snippets[0][1])), "\n", "\n\t")
	require.Contains(t, string(examples), indented)
	for _, s := range systems() {
		require.Contains(t, string(readme), "`"+s.name+"`")
		require.Regexp(t, `func Example`+s.name+`\b`, string(examples))
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllSubmatch(readme, -1) {
		_, err := os.Stat(string(link[1]))
		require.NoError(t, err)
	}
}
