package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

func mappingOf(t testing.TB, spec mapping.Spec, n int) *mapping.Mapping {
	t.Helper()
	backends := make([]mapping.Backend, n)
	for i := range backends {
		backends[i].Name = fmt.Sprintf("b-%d", i)
	}
	m, err := spec.Build(backends)
	require.NoError(t, err)
	return m
}

// zipf writes a log of keys of which some are heavy, and returns how often each is there.
func zipf(n int) (log []byte, counts map[string]int) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := rand.NewZipf(random, 1.2, 4, 1<<20)
	counts = map[string]int{}
	for range n {
		key := fmt.Sprintf("user:%d", keys.Uint64())
		counts[key]++
		log = append(append(log, key...), '\n')
	}
	return log, counts
}

// TestRun: the counts are those of a loop over the keys, whatever the number of workers,
// and the ends of chunks.
func TestRun(t *testing.T) {
	log, counts := zipf(400_000) // some four chunks
	for _, spec := range []mapping.Spec{{}, {Structure: mapping.Ring, Hash: mapping.HashXX}} {
		before, after := mappingOf(t, spec, 10), mappingOf(t, spec, 12)
		wantBefore, wantAfter, moved := make([]int64, 11), make([]int64, 13), int64(0)
		for key, n := range counts {
			a, err := before.Get(key)
			require.NoError(t, err)
			b, err := after.Get(key)
			require.NoError(t, err)
			wantBefore[a] += int64(n)
			wantAfter[b] += int64(n)
			if before.Name(a) != after.Name(b) {
				moved += int64(n)
			}
		}
		var bounds []Bounds
		for _, workers := range []int{1, 3} {
			result, err := Run(context.Background(), bytes.NewReader(log), before, after,
				Options{Workers: workers, Heavy: 5, Bound: &Bound{Factor: 1.25, Floor: 4, InFlight: 100}})
			require.NoError(t, err)
			require.Equal(t, int64(400_000), result.Requests)
			require.Equal(t, wantBefore, result.Before)
			require.Equal(t, wantAfter, result.After)
			require.Equal(t, moved, result.Moved)
			for i, k := range result.Heavy {
				require.Equal(t, fmt.Sprintf("user:%d", i), k.Key)
				require.InEpsilon(t, counts[k.Key], k.Requests, 0.1)
			}
			if bounds != nil {
				require.Equal(t, bounds, result.Bounds, "it does not depend on the workers")
			}
			bounds = result.Bounds
		}
	}
}

// A backend that goes, and one that comes: their requests move.
func TestRun_Renamed(t *testing.T) {
	before, err := mapping.Spec{}.Build([]mapping.Backend{{Name: "a"}})
	require.NoError(t, err)
	after, err := mapping.Spec{}.Build([]mapping.Backend{{Name: "b"}})
	require.NoError(t, err)
	result, err := Run(context.Background(), strings.NewReader("x\ny\n"), before, after, Options{})
	require.NoError(t, err)
	require.Equal(t, int64(2), result.Moved)
	require.Equal(t, []int64{2, 0}, result.Before)
}

// TestRun_Chunks: lines of any length are whole, whatever a read returns; those that are
// longer than a chunk are left out and counted.
func TestRun_Chunks(t *testing.T) {
	m := mappingOf(t, mapping.Spec{}, 3)
	long := strings.Repeat("x", 2*chunkSize+17)
	almost := strings.Repeat("y", chunkSize-1)
	for _, test := range []struct {
		log               string
		requests, skipped int64
	}{
		{"a", 1, 0},
		{"a\n", 1, 0},
		{"\n\n", 0, 2},
		{"a\n\nb\r\n\r\nc", 3, 2},
		{almost + "\n" + almost + "\na", 3, 0},
		{long + "\na\n", 1, 1},
		{"a\n" + long + "\nb\n" + long, 2, 1}, // the last one has room
		{strings.Repeat("key\n", chunkSize), chunkSize, 0},
	} {
		for _, reader := range []io.Reader{strings.NewReader(test.log), &trickle{data: test.log}} {
			result, err := Run(context.Background(), reader, m, nil, Options{Workers: 2})
			if test.requests == 0 {
				require.ErrorIs(t, err, ErrNoKeys)
			} else {
				require.NoError(t, err)
			}
			require.InDelta(t, test.requests, result.Requests, 1, "%.20q", test.log)
			require.InDelta(t, test.skipped, result.Skipped, 1, "%.20q", test.log)
			if len(test.log) < chunkSize {
				require.Equal(t, test.requests, result.Requests)
				require.Equal(t, test.skipped, result.Skipped)
			}
		}
	}
}

// A trickle returns few bytes for each read.
type trickle struct {
	data string
	step int
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.data == "" {
		return 0, io.EOF
	}
	r.step = r.step*7%1009 + 1
	n := copy(p[:min(len(p), r.step)], r.data)
	r.data = r.data[n:]
	return n, nil
}

// TestRun_Stops: an interrupt returns what there is, also where the log gives nothing more.
func TestRun_Stops(t *testing.T) {
	m := mappingOf(t, mapping.Spec{}, 3)
	log, w := io.Pipe()
	defer w.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.WriteString(w, strings.Repeat("key\n", 3*chunkSize/4))
		stop() // the last chunk is not full, and the log does not end
	}()
	result, err := Run(ctx, log, m, nil, Options{Workers: 2})
	require.NoError(t, err)
	require.True(t, result.Stopped)
	require.LessOrEqual(t, result.Requests, int64(3*chunkSize/4))
}

// TestRun_ReadError: an error of the log is the result.
func TestRun_ReadError(t *testing.T) {
	broken := errors.New("broken")
	m := mappingOf(t, mapping.Spec{}, 3)
	_, err := Run(context.Background(), io.MultiReader(strings.NewReader("a\n"), &failing{broken}), m, nil, Options{})
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// TestRun_Memory: the memory in use does not grow with the log: neither with its length
// nor with the number of its keys.
func TestRun_Memory(t *testing.T) {
	m := mappingOf(t, mapping.Spec{}, 10)
	peak := func(lines int) uint64 {
		most := uint64(0)
		log := &counting{left: lines, each: func(n int) {
			if n%100_000 == 0 {
				var stats runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapAlloc)
			}
		}}
		_, err := Run(context.Background(), log, m, nil, Options{Heavy: 10, Workers: 2, Bound: &Bound{Factor: 1.25, Floor: 1, InFlight: 100}})
		require.NoError(t, err)
		return most
	}
	short := peak(300_000)
	require.Less(t, peak(1_200_000), short+2<<20)
}

// A counting is a log of different keys.
type counting struct {
	left, n int
	each    func(n int)
}

func (c *counting) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	filled := 0
	for c.left > 0 && filled+32 < len(p) || filled == 0 && c.left > 0 {
		filled += copy(p[filled:], fmt.Sprintf("%015d\n", c.n))
		c.left--
		c.n++
		c.each(c.n)
		if len(p) < 48 {
			break
		}
	}
	return filled, nil
}

// TestBound: a bound keeps the most in flight at its factor, and sends some requests
// elsewhere; the floor sends fewer.
func TestBound(t *testing.T) {
	log, _ := zipf(100_000)
	m := mappingOf(t, mapping.Spec{}, 10)
	result, err := Run(context.Background(), bytes.NewReader(log), m, nil, Options{Bound: &Bound{Factor: 1.25, Floor: 40, InFlight: 200}})
	require.NoError(t, err)
	plain, bounded, floor := result.Bounds[0], result.Bounds[1], result.Bounds[2]
	require.Equal(t, int64(100_000-200), max(int64(100_000-200), min(plain.Requests, 100_000)-200), "all but the first of a stretch")
	require.Zero(t, plain.Elsewhere)
	require.Greater(t, plain.Peak, 1.5)
	require.LessOrEqual(t, bounded.Peak, (1.25*20+1)/20.0)
	require.Greater(t, bounded.Elsewhere, 0.05)
	require.Less(t, bounded.Largest, plain.Largest)
	require.LessOrEqual(t, floor.Peak, 2.0+1/20.0)
	require.Less(t, floor.Elsewhere, bounded.Elsewhere)
	require.Greater(t, floor.Elsewhere, 0.0)
}

// TestBound_Twin: on one stretch the shares are those of a plain loop with leases.
func TestBound_Twin(t *testing.T) {
	log, _ := zipf(20_000)
	m := mappingOf(t, mapping.Spec{}, 5)
	const inFlight = 50
	result, err := Run(context.Background(), bytes.NewReader(log), m, nil, Options{Bound: &Bound{Factor: 1.5, InFlight: inFlight}})
	require.NoError(t, err)
	twin := m.Clone()
	require.NoError(t, twin.SetLoadFactor(1.5))
	var releases []func()
	elsewhere, total := 0, 0
	for key := range strings.FieldsSeq(string(log)) {
		if len(releases) == inFlight {
			releases[0]()
			releases = releases[1:]
		}
		home, err := twin.Get(key)
		require.NoError(t, err)
		lease, err := twin.AcquireBytes([]byte(key))
		require.NoError(t, err)
		held := &lease
		releases = append(releases, held.Release)
		total++
		if held.Value != home {
			elsewhere++
		}
	}
	require.Equal(t, int64(total), result.Bounds[1].Requests)
	require.InDelta(t, float64(elsewhere)/float64(total), result.Bounds[1].Elsewhere, 1e-9)
	require.Positive(t, elsewhere)
}

func TestExtractors(t *testing.T) {
	const access = `10.0.0.7 - ann [01/Dec/2026:03:00:00 +0000] "GET /cart?id=3 HTTP/1.1" 200 17 "-" "curl/8"`
	must := func(e Extractor, err error) Extractor {
		require.NoError(t, err)
		return e
	}
	for _, test := range []struct {
		name    string
		extract Extractor
		line    string
		want    string // empty for none
	}{
		{"line", Line, "a b\r", "a b"},
		{"empty line", Line, "\r", ""},
		{"field 1", must(Field(1, "")), "  a\tb", "a"},
		{"field 2", must(Field(2, "")), "a \t b\r", "b"},
		{"field 3", must(Field(3, "")), "a b ", ""},
		{"separator", must(Field(2, "||")), "a||b c||d", "b c"},
		{"separator, empty", must(Field(2, "|")), "a||d", ""},
		{"separator, last", must(Field(2, "|")), "a|b\r", "b"},
		{"csv", must(CSV(2)), "a,b,c", "b"},
		{"csv quotes", must(CSV(2)), `"a,a","b ""b"""`, `b "b"`},
		{"csv broken", must(CSV(2)), `"a,b`, ""},
		{"csv short", must(CSV(2)), `"a"`, ""},
		{"json", must(JSON("user.id")), `{"user":{"id":"a\nb"}}`, "a\nb"},
		{"json number", must(JSON("n")), `{"n":1e3}`, "1e3"},
		{"json missing", must(JSON("n")), `{"m":1}`, ""},
		{"json object", must(JSON("n")), `{"n":{}}`, ""},
		{"json broken", must(JSON("n")), `{"n":"a"`, ""},
		{"pattern", must(Pattern(`id=(?P<key>\d+)`)), access, "3"},
		{"pattern, first group", must(Pattern(`id=(\d+)`)), access, "3"},
		{"pattern, whole", must(Pattern(`id=\d+`)), access, "id=3"},
		{"pattern, none", must(Pattern(`xx`)), access, ""},
		{"pattern, group not met", must(Pattern(`GET|(?P<key>POST)`)), access, ""},
		{"address", must(Pattern("address")), access, "10.0.0.7"},
		{"user", must(Pattern("user")), access, "ann"},
		{"path", must(Pattern("path")), access, "/cart"},
		{"url", must(Pattern("url")), access, "/cart?id=3"},
		{"agent", must(Pattern("agent")), access, "curl/8"},
	} {
		key, ok := test.extract([]byte(test.line))
		require.Equal(t, test.want != "", ok, test.name)
		if ok {
			require.Equal(t, test.want, string(key), test.name)
		}
	}
	for _, err := range []error{
		second(Field(0, "")), second(CSV(0)), second(JSON("")), second(Pattern("(")),
	} {
		require.ErrorIs(t, err, ErrExtract)
	}
	column, err := CSVColumn([]byte("a,\"b c\"\r\n"), "b c")
	require.NoError(t, err)
	require.Equal(t, 2, column)
	_, err = CSVColumn([]byte("a,b\n"), "c")
	require.ErrorContains(t, err, "the first line has a, b")
}

func second[T any](_ T, err error) error { return err }

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "plain.gz"), filepath.Join(dir, "packed")
	require.NoError(t, os.WriteFile(plain, []byte("a\nb\n"), 0o600))
	var buffer bytes.Buffer
	for _, part := range []string{"a\n", "b\n"} { // two members, as cat makes them
		z := gzip.NewWriter(&buffer)
		io.WriteString(z, part)
		require.NoError(t, z.Close())
	}
	require.NoError(t, os.WriteFile(packed, buffer.Bytes(), 0o600))
	for path, size := range map[string]int{plain: 4, packed: buffer.Len()} {
		read := 0
		log, err := Open(path, nil, func(n int) { read += n })
		require.NoError(t, err)
		text, err := io.ReadAll(log)
		require.NoError(t, err)
		require.Equal(t, "a\nb\n", string(text))
		require.Equal(t, int64(size), log.Size)
		require.Equal(t, size, read)
		require.NoError(t, log.Close())
	}
	log, err := Open("-", strings.NewReader(""), nil)
	require.NoError(t, err)
	require.Equal(t, int64(-1), log.Size)
	require.NoError(t, log.Close())
	_, err = Open(dir, nil, nil)
	require.ErrorContains(t, err, "folder")
	require.NoError(t, os.WriteFile(packed, buffer.Bytes()[:20], 0o600))
	log, err = Open(packed, nil, nil)
	require.NoError(t, err)
	_, err = Run(context.Background(), log, mappingOf(t, mapping.Spec{}, 2), nil, Options{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a file that is cut short is said to be")
}
