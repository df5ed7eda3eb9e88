package chash_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// fuzzNames is every name that the fuzz targets use: they meet again and again.
var fuzzNames = []string{"a", "a#", "a#1", "1host", "host", "host1", "[::1]:443", "a b", "日本", "\xba", "\xbe\xff", "#"}

// fuzzSteps bounds the calls of one run.
const fuzzSteps = 24

// fuzzTape reads decisions from the bytes of the fuzzer: zeros after their end.
type fuzzTape []byte

func (t *fuzzTape) next(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

// name is one of the names, or an empty one.
func (t *fuzzTape) name() string {
	i := t.next(len(fuzzNames) + 1)
	if i == len(fuzzNames) {
		return ""
	}
	return fuzzNames[i]
}

// weight is one of a few: small ones, the largest, and one just too large for a ring.
func (t *fuzzTape) weight() uint32 {
	return []uint32{1, 0, 2, 3, 5, 1, 1, 2, 4, 1, 3, 7, 1, 2, math.MaxUint32, 1<<26 + 1}[t.next(16)]
}

// state is mostly healthy, now and then none that there is.
func (t *fuzzTape) state() chash.State {
	switch n := t.next(20); n {
	case 18:
		return chash.Draining + 1
	case 19:
		return math.MaxUint8
	default:
		return chash.State(n % 3)
	}
}

func (t *fuzzTape) backends(most, step int) []chash.Backend[string] {
	var backends []chash.Backend[string]
	for range t.next(most + 1) {
		b := chash.Backend[string]{Name: t.name(), Weight: t.weight()}
		if detail := t.next(4); detail > 0 { // else healthy and on its own
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

// fuzzTwin is an empty twin with options of the tape's choice.
func fuzzTwin(t *fuzzTape, ring bool) *twin {
	sizes := []int{7, 2, 3, 13, 31, 251}
	if ring {
		sizes = []int{1, 2, 3, 4}
	}
	w := newTwin(ring, sizes[t.next(len(sizes))], 0, nil)
	switch t.next(8) {
	case 1:
		w.seed = 1
	case 2:
		w.seed = math.MaxUint64
	case 3:
		w.hash = func(string) uint64 { return 7 }
	case 4:
		w.hash = func(key string) uint64 { return xxhash.Sum64String(key) % 10 * (math.MaxUint64 / 9) }
	case 5:
		w.hash = xxhash.Sum64String
	case 6:
		w.blind = math.MaxUint64
	case 7:
		w.blind = math.MaxUint64 >> 2
	}
	return w
}

// fuzzOperations runs the calls that the data stand for, on a structure and on
// clones that split off from it, each beside a twin. After each call everything
// that can be seen of the one called is as the twin says; in the end, of all.
func fuzzOperations(t *testing.T, ring bool, data []byte) {
	type pair struct {
		structure
		*twin
		log string
	}
	tape := fuzzTape(data)
	w := fuzzTwin(&tape, ring)
	backends := tape.backends(4, 0)
	want := w.set(backends)
	s, err := w.build(backends)
	if err := predicted(err, want); err != nil {
		t.Fatalf("constructor with %+v: %v", backends, err)
	}
	if err != nil { // go on with none
		if s, err = w.build(nil); err != nil {
			t.Fatal(err)
		}
	}
	pairs := []pair{{s, w, fmt.Sprintf("%+v", backends)}}
	check := func(p pair, keys []string, hashes []uint64) {
		if err := p.differ(p.structure, keys, hashes); err != nil {
			t.Fatalf("ring=%t, size %d, seed %d, hash %t: %v\nafter %s", ring, w.size, w.seed, w.hash != nil, err, p.log)
		}
	}

	for step := 1; step <= fuzzSteps && len(tape) > 0; step++ {
		p := &pairs[tape.next(len(pairs))]
		var call string
		var got error
		var want []error
		before := placementsOf(p.twin.backends)
		rebuilds := p.Rebuilds()
		switch tape.next(10) {
		case 0, 1:
			backends := tape.backends(3, step)
			call, got, want = fmt.Sprintf("Add(%+v)", backends), p.Add(backends...), p.add(backends...)
		case 2, 3:
			names := make([]string, tape.next(3))
			for i := range names {
				names[i] = tape.name()
			}
			call, got, want = fmt.Sprintf("Remove(%q)", names), p.Remove(names...), p.remove(names...)
		case 4:
			backends := tape.backends(len(fuzzNames), step)
			call, got, want = fmt.Sprintf("Set(%+v)", backends), p.Set(backends), p.set(backends)
		case 5, 6:
			name, state := tape.name(), tape.state()
			call, got, want = fmt.Sprintf("SetState(%q, %d)", name, state), p.SetState(name, state), p.setState(name, state)
		case 7:
			name, weight := tape.name(), tape.weight()
			call, got, want = fmt.Sprintf("SetWeight(%q, %d)", name, weight), p.SetWeight(name, weight), p.setWeight(name, weight)
		case 8:
			name, value := tape.name(), fmt.Sprintf("set in step %d", step)
			call, got, want = fmt.Sprintf("SetValue(%q, %q)", name, value), p.SetValue(name, value), p.setValue(name, value)
		case 9:
			switch {
			case tape.next(2) == 0:
				call = "Clear()"
				p.Clear()
				p.set(nil)
			case len(pairs) < 3:
				call = "Clone()"
				pairs = append(pairs, pair{p.structure.Clone(), p.twin.clone(), p.log + "\nClone()"})
				p = &pairs[len(pairs)-1]
				rebuilds = p.Rebuilds()
			}
		}
		p.log += "\n" + call
		if err := predicted(got, want); err != nil {
			t.Fatalf("ring=%t, size %d, seed %d, hash %t: %s: %v\nafter %s", ring, w.size, w.seed, w.hash != nil, call, err, p.log)
		}
		key := fuzzNames[tape.next(len(fuzzNames))]
		all := p.hashes()
		hashes, first := []uint64{xxhash.Sum64String(p.log)}, tape.next(len(all))
		for i := range min(12, len(all)) {
			hashes = append(hashes, all[(first+i)%len(all)])
		}
		check(*p, []string{key, key + "#0"}, hashes)

		// A rebuild happens where the placements changed, and only there.
		after := placementsOf(p.twin.backends)
		built := p.Rebuilds() - rebuilds
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
		check(p, fuzzNames[:4], p.hashes())
		anew, err := p.build(p.Backends())
		if err != nil {
			t.Fatalf("constructor with %+v: %v", p.Backends(), err)
		}
		p.structure = anew
		p.log += "\nbuilt anew"
		check(p, nil, p.hashes())
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

// addFuzzOperations is the seed corpus: tapes of random bytes for each choice of
// options, long enough for all steps, which reach every call and every error.
func addFuzzOperations(f *testing.F) {
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

func FuzzMaglev(f *testing.F) {
	addFuzzOperations(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzOperations(t, false, data) })
}

func FuzzRing(f *testing.F) {
	addFuzzOperations(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzOperations(t, true, data) })
}

// FuzzKeys: any key finds the twin's answer in every form of lookup, and while
// one backend is healthy no lookup fails.
func FuzzKeys(f *testing.F) {
	for _, key := range append(fuzzNames, "", "\x00", "\xff", "a#0", "a##0", "user:42", "http://host/?q=1#top", string(make([]byte, 300))) {
		f.Add(key)
	}
	type pair struct {
		structure
		*twin
	}
	var pairs []pair
	for _, ring := range []bool{false, true} {
		for _, seed := range []uint64{0, 1} {
			for _, alive := range []int{len(fuzzNames), 3, 1} {
				w := newTwin(ring, 251, seed, nil)
				if ring {
					w.size = 2
				}
				backends := chash.Named(fuzzNames...)
				for i := range backends {
					if i >= alive {
						backends[i].State = chash.Unhealthy
					}
				}
				s, err := w.build(backends)
				if errs := w.set(backends); err != nil || errs != nil {
					f.Fatal(err, errs)
				}
				pairs = append(pairs, pair{s, w})
			}
		}
	}
	f.Fuzz(func(t *testing.T, key string) {
		for _, p := range pairs {
			if _, err := p.Get(key); err != nil {
				t.Fatalf("Get(%q): %v", key, err)
			}
			if err := p.differInKey(p.structure, key); err != nil {
				t.Fatalf("ring=%t, seed %d, %d healthy: %v", p.ring, p.seed, len(p.answering), err)
			}
		}
	})
}
