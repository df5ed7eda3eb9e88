package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// TestCompare_Process: the fingerprint that a process shows is that of the file, or not.
func TestCompare_Process(t *testing.T) {
	m, err := mapping.Spec{TableSize: 1009}.Build([]mapping.Backend{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "chash_fingerprint_info{structure=\"x\",fingerprint=\"%016x\"} 1\n", m.Fingerprint())
	})
	mux.HandleFunc("/two", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `[{"name":"x","fingerprint":"00000000000000ff"},{"name":"y","fingerprint":"0000000000000001"}]`)
	})
	mux.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, jsonOf(map[string]any{"structure": "Maglev", "size": 1009, "table_size": 1009, "backends": m.Structure.Backends()}))
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, test := range []struct {
		args, stdin string
		code        int
		says        string
	}{
		{server.URL + "/metrics - -table-size 1009", "a\nb\nc\n", ExitOK, "Same"},
		{server.URL + "/metrics - -table-size 1009", "a\nb\n", ExitDiffers, "not known from fingerprints alone"},
		{server.URL + "/two -", "a\n", ExitUsage, `structures "x", "y": say which by --name`},
		{server.URL + "/two - -name y", "a\n", ExitDiffers, "They differ"},
		{server.URL + "/two - -name y -live", "a\n", ExitUsage, "does not show the fingerprint"},
		{server.URL + "/state - -table-size 1009", "a\nb\nc\n", ExitOK, "Same"},
		{server.URL + "/state - -table-size 1009", "a\nb\n", ExitDiffers, "They differ in 3"},
		{server.URL + "/missing -", "a\n", ExitUsage, "404"},
		{"- -", "a\n", ExitUsage, "both A and B"},
	} {
		var out, errs bytes.Buffer
		code := Main(context.Background(), append([]string{"compare"}, strings.Fields(test.args)...), strings.NewReader(test.stdin), &out, &errs)
		require.Equal(t, test.code, code, "%s: %s%s", test.args, out.String(), errs.String())
		require.Contains(t, out.String()+errs.String(), test.says, test.args)
	}
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestVectors_Check: chash agrees with the vectors it writes, for all structures, and sees
// each thing that is changed in them.
func TestVectors_Check(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors.json")
	check := func() (string, int) {
		var out, errs bytes.Buffer
		code := Main(context.Background(), []string{"vectors", "--check", path}, nil, &out, &errs)
		return out.String() + errs.String(), code
	}
	for _, args := range []string{"-table-size 101 -seed 9", "-table-size 101 -slack inf", "-replicas 5", "-replicas 5 -hash xxhash", "-like ketama"} {
		var out, errs bytes.Buffer
		code := Main(context.Background(), strings.Fields("vectors - -keys 20 "+args), strings.NewReader("a:1 2\nb:1\nc:1\n"), &out, &errs)
		require.Zero(t, code, errs.String())
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
		says, code := check()
		require.Zero(t, code, says)
		require.Contains(t, says, "chash agrees: 3 backends")
	}
	for from, to := range map[string]string{
		`"fingerprint": "`: `"fingerprint": "f`, `"candidates":["a:1"`: `"candidates":["b:1"`, `"owners": [`: `"owners": [2,`,
		`"hash":"`: `"hash":"0`,
	} {
		var v vectors
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &v))
		broken := strings.Replace(string(data), from, to, 1)
		require.NotEqual(t, string(data), broken, from)
		require.NoError(t, os.WriteFile(path, []byte(broken), 0o600))
		says, code := check()
		require.Equal(t, ExitDiffers, code, "%s: %s", from, says)
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}

// TestVectors_Golden: the command writes what the golden vectors of the library have.
func TestVectors_Golden(t *testing.T) {
	stdout, _, code := run(t, "backend-0\nbackend-1\nbackend-2\nbackend-3\nbackend-4\n", "vectors", "-", "-table-size", "13", "-keys", "0")
	require.Zero(t, code)
	var v vectors
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	table, err := chash.NewMaglev(chash.Named("backend-0", "backend-1", "backend-2", "backend-3", "backend-4"), chash.WithTableSize(13))
	require.NoError(t, err)
	require.Equal(t, table.AppendTable(nil), v.Slots)
}

func TestLongFlags(t *testing.T) {
	root := newRoot(nil, io.Discard, io.Discard)
	for _, test := range []struct{ in, want string }{
		{"plan x -max-moved 5%", "plan x --max-moved 5%"},
		{"plan x -max-moved=5% --add y", "plan x --max-moved=5% --add y"},
		{"where -n 3 -b x -o json", "where -n 3 -b x -o json"},
		{"where -n3 -- -add", "where -n3 -- -add"},
		{"where -unknown -1 -", "where -unknown -1 -"},
		{"-help", "--help"},
	} {
		require.Equal(t, strings.Fields(test.want), longFlags(root, strings.Fields(test.in)))
	}
}

// TestDocs: there are a man page and a Markdown file of each command.
func TestDocs(t *testing.T) {
	for format, ending := range map[string]string{"man": "-plan.1", "markdown": "_plan.md"} {
		dir := t.TempDir()
		var errs bytes.Buffer
		code := Main(context.Background(), []string{"docs", "--as", format, dir}, nil, io.Discard, &errs)
		require.Zero(t, code, errs.String())
		text, err := os.ReadFile(filepath.Join(dir, "chash"+ending))
		require.NoError(t, err)
		require.Contains(t, string(text), "max-moved")
	}
	code := Main(context.Background(), []string{"docs", "--as", "info", t.TempDir()}, nil, io.Discard, io.Discard)
	require.Equal(t, ExitUsage, code)
}

// TestCompletion: shells complete commands and the values of flags.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out bytes.Buffer
		require.Zero(t, Main(context.Background(), []string{"completion", shell}, nil, &out, io.Discard))
		require.Contains(t, out.String(), "chash")
	}
	var out bytes.Buffer
	require.Zero(t, Main(context.Background(), []string{"__complete", "plan", "x", "--from", ""}, nil, &out, io.Discard))
	require.Contains(t, out.String(), "haproxy\n")
}

// TestColor: colours only where they are asked for, since a buffer is no terminal.
func TestColor(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, Main(context.Background(), strings.Fields("size 3 -table-size 101 -measure=false"), nil, &out, &errs))
	require.NotContains(t, out.String(), "\x1b")
	require.Equal(t, ExitUsage, Main(context.Background(), strings.Fields("size 3 --color sometimes"), nil, &out, &errs))
	require.Contains(t, errs.String(), "expected auto, always or never")
}

// TestColor_Always: the recommended row stands out.
func TestColor_Always(t *testing.T) {
	stdout, _, _ := run(t, "a\nb\n", "plan", "-", "-add", "c", "-table-size", "101", "-measure=false", "--color", "always")
	require.Contains(t, stdout, "\x1b[32m")
}

// TestReplay_Interrupted: Ctrl-C prints what there is, with an exit code of its own.
func TestReplay_Interrupted(t *testing.T) {
	log, w := io.Pipe()
	defer w.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.WriteString(w, strings.Repeat("key\n", 1<<18)+"key\n") // more than a chunk
		stop()
	}()
	path := filepath.Join(t.TempDir(), "backends")
	require.NoError(t, os.WriteFile(path, []byte("a\nb\n"), 0o600))
	var out, errs bytes.Buffer
	code := Main(ctx, []string{"replay", "-", "-b", path}, log, &out, &errs)
	require.Equal(t, ExitInterrupted, code, errs.String())
	require.Contains(t, out.String(), " requests on maglev 65537")
	require.Contains(t, errs.String(), "interrupted: this is of the first")
}
