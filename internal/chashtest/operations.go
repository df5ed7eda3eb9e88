package chashtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// FuzzNames is every name that the fuzz targets use: they meet again and again.
var FuzzNames = []string{"a", "a#", "a#1", "1host", "host", "host1", "[::1]:443", "a b", "日本", "\xba", "\xbe\xff", "#"}

// fuzzSteps bounds the calls of one run.
const fuzzSteps = 24

// FuzzTape reads decisions from the bytes of the fuzzer: zeros after their end.
type FuzzTape []byte

func (t *FuzzTape) Next(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

// name is one of the names, or an empty one.
func (t *FuzzTape) name() string {
	i := t.Next(len(FuzzNames) + 1)
	if i == len(FuzzNames) {
		return ""
	}
	return FuzzNames[i]
}

// weight is one of a few: small ones, the largest, and one just too large for a ring.
func (t *FuzzTape) weight() uint32 {
	return []uint32{1, 0, 2, 3, 5, 1, 1, 2, 4, 1, 3, 7, 1, 2, math.MaxUint32, 1<<26 + 1}[t.Next(16)]
}

// state is mostly healthy, now and then none that there is.
func (t *FuzzTape) state() chash.State {
	switch n := t.Next(20); n {
	case 18:
		return chash.Draining + 1
	case 19:
		return math.MaxUint8
	default:
		return chash.State(n % 3)
	}
}

func (t *FuzzTape) Backends(most, step int) []chash.Backend[string] {
	var backends []chash.Backend[string]
	for range t.Next(most + 1) {
		b := chash.Backend[string]{Name: t.name(), Weight: t.weight()}
		if detail := t.Next(4); detail > 0 { // else healthy and on its own
			b.State = t.state()
			if detail > 1 {
				b.HashKey = t.name()
			}
		}
		b.Value = fmt.Sprintf("%s, of step %d", b.Name, step)
		backends = append(backends, b)
	}
	return backends
}

// FuzzTwin is an empty twin with options of the tape's choice.
func FuzzTwin(t *FuzzTape, ring bool) *Twin {
	sizes := []int{7, 2, 3, 13, 31, 251}
	if ring {
		sizes = []int{1, 2, 3, 4}
	}
	w := NewTwin(ring, sizes[t.Next(len(sizes))], 0, nil)
	switch t.Next(8) {
	case 1:
		w.Seed = 1
	case 2:
		w.Seed = math.MaxUint64
	case 3:
		w.Hash = func(string) uint64 { return 7 }
	case 4:
		w.Hash = func(key string) uint64 { return xxhash.Sum64String(key) % 10 * (math.MaxUint64 / 9) }
	case 5:
		w.Hash = xxhash.Sum64String
	case 6:
		w.withTiesOrSlack(math.MaxUint64, math.Inf(1))
	case 7:
		w.withTiesOrSlack(math.MaxUint64>>2, 0.25)
	}
	return w
}

// withTiesOrSlack makes a ring blind to bits of its digests, and gives a table a slack.
func (w *Twin) withTiesOrSlack(bits uint64, slack float64) {
	switch {
	case !w.Ring:
		w.Slack = &slack
	case BlindDigests != nil:
		w.Blind = bits
	}
}

// FuzzOperations runs the calls that the data encode, on a structure and on clones of it,
// each with a twin. After each call, the structure that was called agrees with its twin in
// all that a caller can see. In the end, all of them do.
func FuzzOperations(t *testing.T, ring bool, data []byte) {
	type pair struct {
		s   Structure
		w   *Twin
		log string
	}
	tape := FuzzTape(data)
	w := FuzzTwin(&tape, ring)
	backends := tape.Backends(4, 0)
	want := w.Set(backends)
	s, err := w.Build(backends)
	if err := Predicted(err, want); err != nil {
		t.Fatalf("constructor with %+v: %v", backends, err)
	}
	if err != nil { // go on with none
		if s, err = w.Build(nil); err != nil {
			t.Fatal(err)
		}
	}
	pairs := []pair{{s, w, fmt.Sprintf("%+v", backends)}}
	check := func(p pair, keys []string, hashes []uint64) {
		if err := p.w.Differ(p.s, keys, hashes); err != nil {
			t.Fatalf("ring=%t, size %d, seed %d, hash %t: %v\nafter %s", ring, w.Size, w.Seed, w.Hash != nil, err, p.log)
		}
	}

	for step := 1; step <= fuzzSteps && len(tape) > 0; step++ {
		p := &pairs[tape.Next(len(pairs))]
		var call string
		var got error
		var want []error
		before := PlacementsOf(p.w.Backends)
		rebuilds := p.s.Rebuilds()
		switch tape.Next(10) {
		case 0, 1:
			backends := tape.Backends(3, step)
			call, got, want = fmt.Sprintf("Add(%+v)", backends), p.s.Add(backends...), p.w.Add(backends...)
		case 2, 3:
			names := make([]string, tape.Next(3))
			for i := range names {
				names[i] = tape.name()
			}
			call, got, want = fmt.Sprintf("Remove(%q)", names), p.s.Remove(names...), p.w.Remove(names...)
		case 4:
			backends := tape.Backends(len(FuzzNames), step)
			call, got, want = fmt.Sprintf("Set(%+v)", backends), p.s.Set(backends), p.w.Set(backends)
		case 5, 6:
			name, state := tape.name(), tape.state()
			call, got, want = fmt.Sprintf("SetState(%q, %d)", name, state), p.s.SetState(name, state), p.w.SetState(name, state)
		case 7:
			name, weight := tape.name(), tape.weight()
			call, got, want = fmt.Sprintf("SetWeight(%q, %d)", name, weight), p.s.SetWeight(name, weight), p.w.SetWeight(name, weight)
		case 8:
			name, value := tape.name(), fmt.Sprintf("set in step %d", step)
			call, got, want = fmt.Sprintf("SetValue(%q, %q)", name, value), p.s.SetValue(name, value), p.w.SetValue(name, value)
		case 9:
			switch {
			case tape.Next(2) == 0:
				call = "Clear()"
				p.s.Clear()
				p.w.Set(nil)
			case len(pairs) < 3:
				call = "Clone()"
				pairs = append(pairs, pair{p.s.Clone(), p.w.Clone(), p.log + "\nClone()"})
				p = &pairs[len(pairs)-1]
				rebuilds = p.s.Rebuilds()
			}
		}
		p.log += "\n" + call
		if err := Predicted(got, want); err != nil {
			t.Fatalf("ring=%t, size %d, seed %d, hash %t: %s: %v\nafter %s", ring, w.Size, w.Seed, w.Hash != nil, call, err, p.log)
		}
		key := FuzzNames[tape.Next(len(FuzzNames))]
		all := p.w.Hashes()
		hashes, first := []uint64{xxhash.Sum64String(p.log)}, tape.Next(len(all))
		for i := range min(12, len(all)) {
			hashes = append(hashes, all[(first+i)%len(all)])
		}
		check(*p, []string{key, key + "#0"}, hashes)

		// A rebuild happens where the placements changed, and only there.
		after := PlacementsOf(p.w.Backends)
		built := p.s.Rebuilds() - rebuilds
		switch {
		case equalWeights(before, after):
			if built != 0 {
				t.Fatalf("%s rebuilt %d times, want none\nafter %s", call, built, p.log)
			}
		case built > 1 || built == 0 && len(after) > 0:
			t.Fatalf("%s rebuilt %d times, want once\nafter %s", call, built, p.log)
		}
	}
	for _, p := range pairs {
		check(p, FuzzNames[:4], p.w.Hashes())
		anew, err := p.w.Build(p.s.Backends())
		if err != nil {
			t.Fatalf("constructor with %+v: %v", p.s.Backends(), err)
		}
		p.s = anew
		p.log += "\nbuilt anew"
		check(p, nil, p.w.Hashes())
	}
}

func equalWeights(a, b map[string]uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for hashKey, weight := range a {
		if b[hashKey] != weight { // 0, which is no weight, where it is missing
			return false
		}
	}
	return true
}

// AddFuzzOperations is the seed corpus: tapes of random bytes for each choice of
// options, long enough for all steps, which reach every call and every error.
func AddFuzzOperations(f *testing.F) {
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(0, 0))
	for size := range byte(6) {
		for hash := range byte(8) {
			for range 3 {
				tape := []byte{size, hash}
				for range 400 {
					tape = append(tape, byte(rng.Uint32()))
				}
				f.Add(tape)
			}
		}
	}
}
