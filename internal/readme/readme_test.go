package readme_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests check what the documents say against what is there, so that a
// reader can trust it. The examples are compiled and run, so what stands in one
// of them compiles and does what its output says.

// readme and examples are files of the module's folder.
var readme, examples = inModule("README.md"), inModule("example_test.go")

func inModule(name string) string {
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// inRepository goes to the folder of the module.
func inRepository(t *testing.T) {
	t.Helper()
	t.Chdir(filepath.Join("..", ".."))
	_, err := os.Stat("go.mod")
	require.NoError(t, err)
}

// readDocument returns a document with the line ends that Go has.
func readDocument(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return unix(string(text))
}

func unix(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// codeBlocks are the fenced blocks of the README in a language, in order.
func codeBlocks(language string) []string {
	var blocks []string
	for _, block := range fenced.FindAllStringSubmatch(unix(readme), -1) {
		if block[1] == language {
			blocks = append(blocks, block[2])
		}
	}
	return blocks
}

// functionBody is the body of a function up to the comment with the output of an
// example, and that output.
func functionBody(t *testing.T, source, name string) (body, output string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", unix(source), parser.ParseComments)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
			text := unix(source)[files.Position(f.Body.Lbrace).Offset+1 : files.Position(f.Body.Rbrace).Offset]
			body, comment, _ := strings.Cut(text, "\t// Output:\n")
			for line := range strings.Lines(comment) {
				line = strings.TrimPrefix(strings.TrimSpace(line), "//")
				output += strings.TrimPrefix(line, " ") + "\n"
			}
			return strings.TrimSpace(body), strings.TrimSpace(output)
		}
	}
	t.Fatalf("there is no function %s", name)
	return "", ""
}

// TestReadme_Program: the program of the README is the first example, so that it
// does what it says, and imports just what it uses, so that it compiles.
func TestReadme_Program(t *testing.T) {
	program := codeBlocks("go")[0]
	formatted, err := format.Source([]byte(program))
	require.NoError(t, err)
	require.Equal(t, string(formatted), program, "gofmt would change the program")

	body, _ := functionBody(t, program, "main")
	example, output := functionBody(t, examples, "Example")
	require.Equal(t, example, body)
	require.Equal(t, output, strings.TrimSpace(codeBlocks("text")[0]))

	file, err := parser.ParseFile(token.NewFileSet(), "", program, 0)
	require.NoError(t, err)
	require.Equal(t, "main", file.Name.Name)
	imports := map[string]string{} // name to path
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		imports[path[strings.LastIndex(path, "/")+1:]] = path
	}
	used := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			// The parser resolves what the file declares, and a package is not.
			if name, ok := selector.X.(*ast.Ident); ok && name.Obj == nil {
				used[name.Name] = imports[name.Name]
			}
		}
		return true
	})
	require.Equal(t, used, imports)
	for _, path := range imports {
		require.Contains(t, examples, strconv.Quote(path), "the examples import another package of that name")
	}
}

// TestReadme_Snippets: every other piece of Go in the README stands in an
// example, line by line.
func TestReadme_Snippets(t *testing.T) {
	unindented := func(text string) string {
		var lines bytes.Buffer
		for line := range strings.Lines(text) {
			lines.WriteString(strings.TrimSpace(line) + "\n")
		}
		return lines.String()
	}
	snippets := codeBlocks("go")[1:]
	require.NotEmpty(t, snippets)
	for _, snippet := range snippets {
		require.Contains(t, unindented(unix(examples)), "\n"+unindented(snippet))
	}
	languages := map[string]bool{"go": true, "sh": true, "text": true}
	for _, block := range fenced.FindAllStringSubmatch(unix(readme), -1) {
		require.True(t, languages[block[1]], "a block in %q is checked by no test", block[1])
	}
}

// TestReadme_Commands: the two commands for a fresh clone are there, and every
// program that is to be run exists.
func TestReadme_Commands(t *testing.T) {
	inRepository(t)
	commands := strings.Join(codeBlocks("sh"), "")
	for _, command := range []string{"go run ./examples/proxy\n", "go test ./...\n"} {
		require.Contains(t, commands, command)
	}
	for _, run := range regexp.MustCompile(`go run (\S+)`).FindAllStringSubmatch(commands, -1) {
		sources, err := filepath.Glob(filepath.Join(run[1], "*.go"))
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(sources, func(path string) bool {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
			return err == nil && file.Name.Name == "main"
		}), "%s is no program", run[1])
	}

	module := readDocument(t, "go.mod")
	path := regexp.MustCompile(`(?m)^module (\S+)$`).FindStringSubmatch(module)[1]
	for _, use := range []string{"go get " + path + "\n", "-replace=" + path + "="} {
		require.Contains(t, commands, use)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(module)[1]
	require.Contains(t, readme, "Go "+version+" or later")
}

// documents are those that the tests of links and names read.
var documents = []string{"README.md", "ROADMAP.md", "CHANGELOG.md"}

// TestReadme_Links: every relative link leads to a file or folder, and every
// anchor to a heading.
func TestReadme_Links(t *testing.T) {
	inRepository(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, document := range documents {
		for _, match := range link.FindAllStringSubmatch(readDocument(t, document), -1) {
			target := match[1]
			if strings.HasPrefix(target, "https://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			if path == "" {
				path = document
			}
			if _, err := os.Stat(filepath.FromSlash(path)); err != nil {
				t.Errorf("%s links to %s: %v", document, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readDocument(t, path)), anchor) {
				t.Errorf("%s links to %s, where no heading has that name", document, target)
			}
		}
	}
}

// anchors are the names under which GitHub makes headings known.
func anchors(document string) []string {
	var anchors []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(document, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(name, " ", "-"))
	}
	return anchors
}

// TestReadme_Names: every test, fuzz target and example that a document names
// exists, and the README names every example.
func TestReadme_Names(t *testing.T) {
	inRepository(t)
	var sources []string
	for _, pattern := range []string{"*_test.go", "internal/*/*_test.go", "contrib/*/*_test.go", "examples/*/*_test.go"} {
		matches, err := filepath.Glob(pattern)
		require.NoError(t, err)
		sources = append(sources, matches...)
	}
	functions := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	for _, path := range sources {
		for _, function := range declared.FindAllStringSubmatch(readDocument(t, path), -1) {
			functions[function[1]] = true
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Example)\\w*)`")
	for _, document := range documents {
		for _, name := range named.FindAllStringSubmatch(readDocument(t, document), -1) {
			if !functions[name[1]] {
				t.Errorf("%s names %s, and there is no such function", document, name[1])
			}
		}
	}
	for _, example := range declared.FindAllStringSubmatch(unix(examples), -1) {
		if !strings.Contains(readme, "`"+example[1]+"`") {
			t.Errorf("the README does not name %s", example[1])
		}
	}
}
