package input

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// A backend in short.
func backend(name string, weight uint32, state chash.State) mapping.Backend {
	return mapping.Backend{Name: name, Weight: weight, State: state}
}

func TestParse(t *testing.T) {
	a, b := backend("a", 0, chash.Healthy), backend("b", 2, chash.Unhealthy)
	keyed := backend("b", 2, chash.Draining)
	keyed.HashKey = "k"
	numbered := func(b mapping.Backend, id string) mapping.Backend {
		b.ID = id
		return b
	}
	for _, test := range []struct {
		name, file, text string
		format           Format
		want             []mapping.Backend
	}{
		{"lines", "x", "# all\na\n\n  b\t2 unhealthy # down\r\n", Lines, []mapping.Backend{a, b}},
		{"addresses", "x.txt", "10.0.0.1:80\n[::1]:80 2\nlocalhost:80\n", Lines, []mapping.Backend{backend("10.0.0.1:80", 0, 0), backend("[::1]:80", 2, 0), backend("localhost:80", 0, 0)}},
		{"mark of order", "x", "\xEF\xBB\xBFa\n", Lines, []mapping.Backend{a}},
		{"csv", "x", "a,\nb,2,unhealthy\n", CSV, []mapping.Backend{a, b}},
		{"csv with names", "x.csv", "weight,name,hash_key,state\n,a,,\n2,b,k,draining\n", CSV, []mapping.Backend{a, keyed}},
		{"csv with quotes", "x.csv", "\"a,1\",3\n", CSV, []mapping.Backend{backend("a,1", 3, 0)}},
		{"json names", "x", ` ["a"]`, JSON, []mapping.Backend{a}},
		{"json", "x", `{"backends":[{"name":"a","value":{"x":[1]}},{"name":"b","weight":2,"hash_key":"k","state":"draining"}]}`, JSON, []mapping.Backend{a, keyed}},
		{"json escapes", "x.json", `["\ud83d\ude00\/\n"]`, JSON, []mapping.Backend{backend("😀/\n", 0, 0)}},
		{"yaml names", "x", "- a\n", YAML, []mapping.Backend{a}},
		{"yaml", "x", "---\n# c\nbackends:\n- name: a\n- {name: b, weight: 2, state: unhealthy}\n", YAML, []mapping.Backend{a, b}},
		{"yaml numbers and quotes", "x.yml", "- 17\n- 'b: 1'\n- \"c\\n\"\n- true\n- null\n- ~\n", YAML, nil},
		{"yaml anchors", "x.yaml", "base: &w {weight: 2, state: unhealthy}\nbackends:\n- name: a\n- name: b\n  <<: *w\n", YAML, []mapping.Backend{a, b}},
		{"nginx", "x", "upstream u {\n server a;\n server b weight=2 down;\n server c backup;\n}\n", Nginx, []mapping.Backend{a, b}},
		{"haproxy", "x", "backend u\n  server a 1.1.1.1:80 # c\n  server b 1.1.1.2:80 weight 2 disabled id 9\n  server c 1.1.1.3:80 backup\n  server d 1.1.1.4:80 weight 0\n", HAProxy,
			[]mapping.Backend{numbered(a, "1"), numbered(b, "9"), numbered(backend("d", 0, chash.Draining), "4")}},
		{"envoy json", "x", `{"cluster_name":"u","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"socket_address":{"address":"a","port_value":1}}},"load_balancing_weight":{"value":2}}]}]}`, Envoy,
			[]mapping.Backend{backend("a:1", 2, 0)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := Parse(test.file, []byte(test.text), Auto, "")
			if test.want == nil {
				require.ErrorIs(t, err, ErrInput)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.format, list.Format)
			require.Equal(t, test.want, list.Backends)
		})
	}
}

// TestParse_Errors: an error says the file, the line and what was expected.
func TestParse_Errors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		format     Format
		want       string
	}{
		{"lines words", "a\nb 1 healthy what\n", Lines, "f:2: expected NAME [WEIGHT] [STATE], found 4 words"},
		{"lines weight", "a 1.5\n", Lines, `f:1: weight "1.5"; expected a whole number from 1 to 4294967295`},
		{"lines weight too large", "a 4294967296\n", Lines, `f:1: weight "4294967296"`},
		{"lines state", "\na 1 up\n", Lines, `f:2: state "up"; expected healthy, unhealthy or draining`},
		{"csv column", "name,size\na,1\n", CSV, `f:1: column "size"; expected some of name, weight, state, hash_key`},
		{"csv quotes", "a,1\n\"b,1\n", CSV, "f:2: expected CSV"},
		{"csv fields", "a,1,healthy,k,more\n", CSV, "f:1: expected name, weight, state, hash_key, found 5 fields"},
		{"csv name", "a\n,1\n", CSV, "f:2: expected the name of a backend, found an empty one"},
		{"json cut", "[\n\"a\",", JSON, "f:2: expected JSON"},
		{"json more", "[\"a\"]\n[]", JSON, "f:2: expected JSON"},
		{"json kind", "{\"backends\": 3}", JSON, "f:1: expected a list of backends"},
		{"json weight", "[\n{\"name\":\"a\",\n\"weight\":-1}]", JSON, `f:3: weight "-1"`},
		{"json deep", strings.Repeat("[", 1000), JSON, "expected at most 100 levels"},
		{"yaml syntax", "backends:\n- a\n b: [\n", YAML, "expected YAML"},
		{"yaml field", "- name: a\n- name: b\n  colour: red\n", YAML, `f:3: field "colour" of a backend`},
		{"yaml deep", strings.Repeat("[", 5000), YAML, "expected at most 100 levels"},
		{"yaml alias", "- *x\n", YAML, "alias"},
		{"spec", "structure: ring\ntable_size: 13\nbackends: [a]\n", YAML, "table size is an option of a maglev"},
		{"spec number", "table_size: many\nbackends: [a]\n", YAML, `f:1: table_size "many"; expected a whole number`},
		{"nginx none", "events {}\n", Nginx, `f: expected a section "upstream", found none`},
		{"nginx weight", "upstream u {\n server a weight=x;\n}\n", Nginx, `weight "x"`},
		{"haproxy name", "backend\n", HAProxy, "f:1: expected backend NAME"},
		{"haproxy server", "backend u\n  server a\n", HAProxy, "f:2: expected server NAME ADDRESS"},
		{"haproxy weight", "backend u\n  server a 1:1 weight 300\n", HAProxy, "f:2: weight 300; expected a whole number from 0 to 256"},
		{"envoy address", `{"endpoints":[{"lb_endpoints":[{}]}]}`, Envoy, "f:1: expected an endpoint with address.socket_address"},
		{"envoy none", "a: 1\n", Envoy, "expected a list of backends under backends, or the endpoints of an Envoy cluster"},
		{"format", "a", "toml", "expected one of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f", []byte(test.text), test.format, "")
			require.ErrorIs(t, err, ErrInput)
			require.Contains(t, err.Error(), test.want)
		})
	}
}

func TestParse_Pool(t *testing.T) {
	const two = "upstream a { server x; }\nupstream b { server y; }\n"
	list, err := Parse("f", []byte(two), Auto, "b")
	require.NoError(t, err)
	require.Equal(t, "b", list.Pool)
	require.Equal(t, []mapping.Backend{backend("y", 0, 0)}, list.Backends)
	_, err = Parse("f", []byte(two), Auto, "c")
	require.ErrorContains(t, err, `upstream "c"; expected one of "a", "b"`)
}

func TestParse_Spec(t *testing.T) {
	list, err := Parse("f", []byte("slack: inf\nseed: 7\nbackends: [a]\n"), Auto, "")
	require.NoError(t, err)
	require.Equal(t, uint64(7), list.Spec.Seed)
	require.Equal(t, "inf", list.Spec.Slack.String())
}

// A file that is too long is refused before it is looked into.
func TestRead_TooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("a\n"), MaxBytes/2+1), 0o600))
	_, err := Read(path, nil, Auto, "")
	require.ErrorContains(t, err, "longer than 64 MiB")
}

func TestEdits(t *testing.T) {
	backends := []mapping.Backend{backend("a", 0, 0), backend("b", 0, 0), backend("c", 0, 0)}
	edited, err := Edits{
		Add: []string{"d=4", "e"}, Remove: []string{"a"}, Weight: []string{"b=3"}, Down: []string{"c"}, Drain: []string{"d"},
	}.Apply(backends)
	require.NoError(t, err)
	require.Equal(t, []mapping.Backend{
		backend("b", 3, 0), backend("c", 0, chash.Unhealthy), backend("d", 4, chash.Draining), backend("e", 0, 0),
	}, edited)
	require.Len(t, backends, 3)
	for _, bad := range []Edits{
		{Add: []string{"a"}}, {Add: []string{"=1"}}, {Add: []string{"x=0"}}, {Remove: []string{"x"}}, {Weight: []string{"a"}},
		{Weight: []string{"x=1"}}, {Down: []string{"x"}}, {Remove: []string{"a", "b", "c"}},
	} {
		_, err := bad.Apply(backends)
		require.ErrorIs(t, err, ErrInput, "%+v", bad)
	}
}

// FuzzParse: whatever the bytes, there is a list that can be used, or an error about the
// file.
func FuzzParse(f *testing.F) {
	for i, text := range []string{
		"a\nb 2 draining\n", "name,weight\na,1\n", `{"backends":[{"name":"a"}]}`, "- a\n- {name: b}\n",
		"upstream u { server a weight=2; server unix:/x down; }", "backend u\n server a 1:1 weight 2 id 3\n",
		"clusters: &a [*a]\n", "{{{{", "\x00", "a: &x\n  <<: *x\n", "\"\\", "server a b\nlisten x\n server y z ssl verify\n",
		`{"resources":[{"endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"pipe":{"path":"/x"}}}}]}]}]}`,
	} {
		for format := range Formats {
			f.Add([]byte(text), uint8(format), i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, format uint8, pool bool) {
		if len(data) > 1<<12 {
			return
		}
		name := ""
		if pool {
			name = "u"
		}
		watchdog := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("it hangs: %s %q", Formats[int(format)%len(Formats)], data)) })
		list, err := Parse("file", data, Formats[int(format)%len(Formats)], name)
		watchdog.Stop()
		if err != nil {
			var where *Error
			require.True(t, errors.As(err, &where), "%v", err)
			require.Equal(t, "file", where.File)
			require.LessOrEqual(t, where.Line, bytes.Count(data, []byte("\n"))+2)
			return
		}
		require.NotEmpty(t, list.Backends)
		seen := map[string]bool{}
		for _, b := range list.Backends {
			require.NotEmpty(t, b.Name)
			require.False(t, seen[b.Name], "%q twice", b.Name)
			seen[b.Name] = true
		}
		spec := mapping.Spec{TableSize: 4099}
		if _, err := spec.Build(list.Backends); err != nil {
			require.ErrorIs(t, err, chash.ErrTooManyBackends)
		}
	})
}
