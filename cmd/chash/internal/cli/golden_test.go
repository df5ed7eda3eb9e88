package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// run runs the command in the folder of the test data.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Chdir("testdata")
	var out, errs bytes.Buffer
	code = Main(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), code
}

// TestGolden: each subcommand prints what it printed. Times and memory are left out, so
// that the files are the same on every machine.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name  string
		args  string
		stdin string
	}{
		{"plan", "plan web.txt -add web-13,web-14=2 -measure=false", ""},
		{"plan_json", "plan web.txt -remove web-3 -structure ring -measure=false -o json", ""},
		{"plan_csv", "plan web.txt -weight web-1=3 -down web-2 -measure=false -o csv", ""},
		{"plan_markdown", "plan web.txt -drain web-1 -measure=false -o markdown", ""},
		{"plan_to", "plan state.yaml --to weighted.csv -measure=false -slack inf,none", ""},
		{"plan_rollout", "plan web.txt -rollout 4 -structure maglev -slack 0.01 -measure=false", ""},
		{"plan_surge", "plan web.txt -rollout 6 -surge -replicas 40 -measure=false -max-moved 60%", ""},
		{"plan_places", "plan web.txt -rollout 6 -keep-places -structure maglev -measure=false", ""},
		{"plan_nothing", "plan web.txt -measure=false -structure maglev", ""},
		{"plan_moved_met", "plan web.txt -add x -structure maglev -measure=false -max-moved 0.09 -max-share 1.01", ""},
		{"plan_moved_missed", "plan web.txt -add x -structure maglev -measure=false -max-moved 7%", ""},
		{"plan_share_missed", "plan web.txt -add x -structure ring -measure=false -max-share 1.05", ""},
		{"where", "where user:42 user:43 --backends web.txt --down web-9", ""},
		{"where_keys", "where -b weighted.csv -n 2", "one\ntwo\nthree\nfour\n"},
		{"where_json", "where user:42 -b state.yaml -o json", ""},
		{"where_csv", "where user:42 -b state.json -o csv", ""},
		{"where_nginx", "where /a /b /c /d -b nginx.conf --pool app --like nginx -n 2", ""},
		{"where_haproxy", "where a b c d -b haproxy.cfg --like haproxy:sdbm:avalanche -n 2", ""},
		{"where_envoy", "where a b c d -b envoy.yaml --pool app --like envoy-maglev -n 2", ""},
		{"where_ketama", "where a b --from lines -b - --like ketama", "10.0.0.1:11211 2\n10.0.0.2:11211\n"},
		{"where_none", "where a -b - --down x", "x\n"},
		{"where_terminal", "where --color always -b - k\x1b[2J", "evil\u009b \n"},
		{"compare_same", "compare web.txt -", strings.Join(strings.Fields(strings.Repeat("x ", 0)+"web-12 web-1 web-2 web-3 web-4 web-5 web-6 web-7 web-8 web-9 web-10 web-11"), "\n")},
		{"compare_differ", "compare state.yaml - -structure maglev", "web-1\nweb-2 3\nweb-4\n"},
		{"compare_live", "compare state.yaml - -live -o json", `{"structure":"maglev","table_size":1009,"slack":0.01,"backends":["web-1",{"name":"web-2","weight":3},"web-3",{"name":"web-4","hash_key":"slot-4"}]}`},
		{"compare_sampled", "compare state.yaml state.json -samples 10000", ""},
		{"size", "size 50 -sets 2 -measure=false", ""},
		{"size_csv", "size 20 -sets 1 -measure=false -o csv -table-size 1009 -slack none,1%", ""},
		{"study", "study -backends 5,20 -sets 2 -measure=false -o markdown -table-size 1009 -replicas 40", ""},
		{"vectors_table", "vectors state.yaml -table-size 13 -keys 3", ""},
		{"vectors_ring", "vectors state.json -replicas 2 -keys 2", ""},
		{"replay", "replay access.log -b web.txt -pattern path -in-flight 12 -heavy 4", ""},
		{"replay_gzip", "replay access.log.gz -b web.txt -pattern address -add web-13 -down web-1 -in-flight 12 -heavy 2", ""},
		{"replay_csv", "replay events.csv -b web.txt --csv -field user -simulate=false -o csv", ""},
		{"replay_json", "replay events.jsonl -b state.yaml -json user.id -to web.txt -in-flight 4 -heavy 1 -o json", ""},
		{"replay_field", "replay - -b web.txt -field 2 -separator ; -heavy 0 -simulate=false", "a;x\nb;x\nc\n"},
		{"replay_like", "replay - -b nginx.conf --pool app -like nginx -simulate=false -heavy 0", "/a\n/b\n"},
		{"replay_empty", "replay - -b web.txt", ""},
		{"replay_nothing", "replay - -b web.txt -json x", "a\n{}\n"},
		{"replay_column", "replay events.csv -b web.txt --csv -field colour", ""},
		{"replay_pattern", "replay - -b web.txt -pattern (", "a\n"},
		{"replay_ways", "replay - -b web.txt -pattern a -json b", "a\n"},
		{"replay_factor", "replay - -b web.txt -factor 1", "a\n"},
		{"help", "help", ""},
		{"help_where", "where -h", ""},

		{"error_flag", "plan web.txt -frob", ""},
		{"error_command", "frob", ""},
		{"error_file", "plan missing.txt", ""},
		{"error_weight", "plan -", "a 1\nb 0\n"},
		{"error_twice", "plan -", "a\nb\na\n"},
		{"error_binary", "plan -", "a\nb\x00\n"},
		{"error_empty", "plan -", "# nothing\n"},
		{"error_json", "where k -b - --from json", "[{\"name\": \"a\"},\n {\"nmae\": \"b\"}]"},
		{"error_pool", "plan nginx.conf", ""},
		{"error_remove", "plan web.txt -remove nobody", ""},
		{"error_prime", "plan web.txt -table-size 100 -measure=false", ""},
		{"error_like", "where k -b web.txt -like squid", ""},
		{"error_like_name", "where k -b - -like nginx", "no/host\n"},
		{"error_slack", "plan web.txt -slack -1", ""},
		{"error_structure", "where k -b web.txt -structure maglev -replicas 3", ""},
		{"error_output", "size 3 -o xml", ""},
		{"error_share", "plan web.txt -max-moved much", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := run(t, test.stdin, strings.Fields(test.args)...)
			got := fmt.Sprintf("$ chash %s\n%s", strings.ReplaceAll(test.args, "\x1b", "^["), stdout)
			if stderr != "" {
				got += "--- stderr\n" + stderr
			}
			got += fmt.Sprintf("--- exit %d\n", code)
			path := filepath.Join("golden", test.name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got)
		})
	}
}
