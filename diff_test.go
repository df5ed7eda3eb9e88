package chash_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// diffOf is the Diff of two structures of one type.
func diffOf(before, after structure) (chash.Diff, error) {
	if r, ok := before.(ringOf[string]); ok {
		d, err := r.Diff(after.(ringOf[string]).Ring)
		return d.Diff, err
	}
	return before.(maglevOf[string]).Diff(after.(maglevOf[string]).Maglev)
}

// mustDiff is diffOf for structures that can be compared.
func mustDiff(t *testing.T, before, after structure) chash.Diff {
	t.Helper()
	d, err := diffOf(before, after)
	require.NoError(t, err)
	return d
}

// sampleHash is the hash that stands for a slot whose placement is unhealthy, as
// the doc comment of Diff has it.
func sampleHash(slot, m uint64) uint64 {
	z := slot + 0x9e3779b97f4a7c15 // SplitMix64, as published
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	q, _ := bits.Mul64(z, math.MaxUint64/m)
	over, h := bits.Mul64(q, m)
	h, carry := bits.Add64(h, slot, 0)
	if over+carry != 0 {
		panic(fmt.Sprintf("the hash of slot %d of %d has more than 64 bits", slot, m))
	}
	return h
}

// nameOf is the name of the backend that a hash leads to, empty for nobody.
func (w *twin) nameOf(h uint64) string {
	if preferred := w.prefer(w.metByHash(h), 1); len(preferred) > 0 {
		return preferred[0].Name
	}
	return ""
}

// A part is a piece of the key space with its owners before and after.
type part struct {
	size     *big.Int
	from, to string
}

// parts is the key space in pieces that move as one: slots, or stretches of a ring.
func parts(before, after *twin) (all []part, total *big.Int) {
	if before.ring {
		for _, r := range elementary(before, after) {
			all = append(all, part{sizeOf(r), before.nameOf(r.First), after.nameOf(r.First)})
		}
		return all, positions
	}
	for slot := range uint64(before.size) {
		name := func(w *twin) string {
			if len(w.owners) > 0 {
				if b, ok := w.answering[w.owners[slot]]; ok {
					return b.Name
				}
			}
			return w.nameOf(sampleHash(slot, uint64(before.size)))
		}
		all = append(all, part{big.NewInt(1), name(before), name(after)})
	}
	return all, big.NewInt(int64(before.size))
}

// differInDiff says where a Diff is not what brute force over the twins makes it.
func differInDiff(got chash.Diff, before, after *twin) error {
	all, total := parts(before, after)
	moved, sum := new(big.Int), new(big.Int)
	flows := map[[2]string]*big.Int{}
	growth := map[string]*big.Int{}
	add := func(name string) *big.Int {
		if growth[name] == nil {
			growth[name] = new(big.Int)
		}
		return growth[name]
	}
	for _, p := range all {
		sum.Add(sum, p.size)
		add(p.from).Sub(add(p.from), p.size)
		add(p.to).Add(add(p.to), p.size)
		if p.from == p.to {
			continue
		}
		moved.Add(moved, p.size)
		pair := [2]string{p.from, p.to}
		if flows[pair] == nil {
			flows[pair] = new(big.Int)
		}
		flows[pair].Add(flows[pair], p.size)
	}
	if sum.Cmp(total) != 0 {
		return fmt.Errorf("the parts are %v of %v", sum, total)
	}
	least := new(big.Int)
	for _, n := range growth {
		if n.Sign() > 0 {
			least.Add(least, n)
		}
	}
	pairs := slices.SortedFunc(maps.Keys(flows), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	if len(got.Flows) != len(pairs) {
		return fmt.Errorf("Flows = %v, want %v", got.Flows, pairs)
	}
	for i, pair := range pairs {
		f := got.Flows[i]
		if [2]string{f.From, f.To} != pair || f.Share != share(flows[pair], total) {
			return fmt.Errorf("flow %d = %+v, want %q, share %v", i, f, pair, share(flows[pair], total))
		}
	}
	if got.Moved != share(moved, total) || got.Least != share(least, total) {
		return fmt.Errorf("Moved, Least = %v, %v, want %v, %v", got.Moved, got.Least, share(moved, total), share(least, total))
	}
	return nil
}

// share is n as a share of the total, correctly rounded.
func share(n, total *big.Int) float64 {
	f, _ := new(big.Rat).SetFrac(n, total).Float64()
	return f
}

// randomChange makes a second set of backends from a first: another one, the same
// in other states, or one that differs in a few of them.
func randomChange(rng *rand.Rand, ring bool, backends []chash.Backend[string], n int) []chash.Backend[string] {
	next := slices.Clone(backends)
	switch rng.IntN(4) {
	case 0:
		next = randomBackends(rng, ring, rng.IntN(n+1))
	case 1:
		if len(next) > 0 {
			next = next[1:]
		}
	case 2:
		for i := range next {
			if rng.IntN(3) == 0 {
				next[i].Weight = 1 + rng.Uint32N(4)
			}
			if rng.IntN(4) == 0 && len(next[i].HashKey) == 0 {
				next[i].HashKey = next[rng.IntN(len(next))].Name
			}
		}
	}
	if len(next) > 0 && rng.IntN(3) > 0 {
		randomStates(rng, next)
	}
	return next
}

func TestDiff_Twin(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 120, func(t *testing.T, rng *rand.Rand) {
			n := rng.IntN(13)
			before := randomTwin(rng, ring, n)
			backends := randomBackends(rng, ring, n)
			if n > 0 {
				randomStates(rng, backends)
			}
			after := before.clone()
			if ring && rng.IntN(4) == 0 {
				after.size++ // replicas may differ
			}
			changed := randomChange(rng, ring, backends, n)
			s, next := twins(t, before, backends), twins(t, after, changed)
			require.NoError(t, differInDiff(mustDiff(t, s, next), before, after))
			require.NoError(t, differInDiff(mustDiff(t, next, s), after, before))
			require.NoError(t, before.differ(s, nil, nil), "the first after Diff")
			require.NoError(t, after.differ(next, nil, nil), "the second after Diff")
		})
	})
}

// TestDiff_FewHealthy: the slots of a table in which few are healthy, or all that are
// lie far away, count for the backends to which GetHash leads their hashes.
func TestDiff_FewHealthy(t *testing.T) {
	// Placements that begin in one slot after the other and claim the next one each
	// time own a block of slots each.
	blocks := func(size, n uint64) chash.Option {
		return chash.WithHash(func(key string) uint64 {
			switch {
			case strings.HasPrefix(key, "\xbe"):
				return 0 // a skip of 1
			case strings.HasPrefix(key, "\xbab"):
				i, _ := strconv.ParseUint(key[2:], 10, 64)
				return i * (size / n) // its offset
			}
			return xxhash.Sum64String(key)
		})
	}
	tests := []struct {
		size, n int
		healthy []int
		option  chash.Option
	}{
		{2, 2, []int{1}, chash.WithSeed(0)},
		{61, 20, []int{3}, chash.WithSeed(1)},
		{67, 60, []int{59}, chash.WithSeed(0)},
		{4099, 4000, []int{7}, chash.WithSeed(0)},
		{4099, 1000, []int{7, 8, 999}, chash.WithSeed(7)},
		{65537, 40, []int{0, 39}, chash.WithSeed(0)},                     // not rare enough for an index
		{65537, 2000, []int{3, 700, 701}, chash.WithSeed(0)},             // rare
		{65537, 1000, []int{1}, blocks(65537, 1000)},                     // one block
		{65537, 2000, []int{0, 3}, blocks(65537, 2000)},                  // the first in the first 64 slots
		{65537, 40, []int{3, 4, 5}, blocks(65537, 40)},                   // one block, not rare
		{270001, 300, []int{0}, blocks(270001, 300)},                     // three levels, the block in the first word
		{270001, 300, []int{299}, blocks(270001, 300)},                   // or in the last
		{65537, 10, []int{0, 1, 2, 3, 5, 6, 7, 8, 9}, chash.WithSeed(0)}, // nearly all
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%v of %d in %d", test.healthy, test.n, test.size), func(t *testing.T) {
			backends := numbered("b", test.n)
			for i := range backends {
				backends[i].Value = backends[i].Name
				if !slices.Contains(test.healthy, i) {
					backends[i].State = chash.Unhealthy
				}
			}
			s, err := chash.NewMaglev(backends, chash.WithTableSize(test.size), test.option)
			require.NoError(t, err)
			want := map[string]int{}
			backends = s.Backends() // sorted, as numbers of owners are
			for slot, owner := range s.AppendTable(nil) {
				name := backends[owner].Name
				if backends[owner].State == chash.Unhealthy {
					name = must(s.GetHash(sampleHash(uint64(slot), uint64(test.size))))
				}
				want[name]++
			}
			empty, err := chash.NewMaglev[string](nil, chash.WithTableSize(test.size), test.option)
			require.NoError(t, err)
			d, err := empty.Diff(s)
			require.NoError(t, err)
			got := map[string]int{}
			for _, f := range d.Flows {
				require.Empty(t, f.From)
				got[f.To] = int(math.Round(f.Share * float64(test.size)))
			}
			require.Equal(t, want, got)
			require.Equal(t, 1.0, d.Moved)
		})
	}
}

// TestDiff_Nothing: states between which no lookup can tell.
func TestDiff_Nothing(t *testing.T) {
	onBoth(t, func(t *testing.T, make maker) {
		abc := chash.Named("a", "b", "c")
		sick := slices.Clone(abc)
		for i := range sick {
			sick[i].State = chash.Unhealthy
		}
		drained := slices.Clone(abc)
		drained[1].State = chash.Draining
		valued := slices.Clone(abc)
		valued[1].Value = "another"
		behind := append(slices.Clone(abc), chash.Backend[string]{Name: "d", HashKey: "a"})
		tests := []struct {
			name          string
			before, after []chash.Backend[string]
		}{
			{"equal", abc, abc},
			{"both empty", nil, nil},
			{"empty and none healthy", nil, sick},
			{"none healthy", sick, sick},
			{"draining and removed", drained, chash.Named("a", "c")},
			{"another value", abc, valued},
			{"one behind another at its placement", abc, behind},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				before, after := make(t, test.before), make(t, test.after)
				for _, d := range []chash.Diff{
					mustDiff(t, before, after), mustDiff(t, after, before),
					mustDiff(t, before, before), mustDiff(t, before, before.Clone()),
				} {
					if d.Moved != 0 || d.Least != 0 || len(d.Flows) != 0 {
						t.Errorf("Diff = %+v, want nothing", d)
					}
				}
			})
		}
	})
}

// TestDiff_Everything: the whole key space moves, from one, to one, or from and
// to nobody, and the counts are whole.
func TestDiff_Everything(t *testing.T) {
	onBoth(t, func(t *testing.T, make maker) {
		sick := chash.Named("a")
		sick[0].State = chash.Unhealthy
		tests := []struct {
			name          string
			before, after []chash.Backend[string]
			from, to      string
		}{
			{"the first arrives", nil, chash.Named("a"), "", "a"},
			{"the last goes", chash.Named("a"), nil, "a", ""},
			{"the last fails", chash.Named("a"), sick, "a", ""},
			{"the only one recovers", sick, chash.Named("a"), "", "a"},
			{"one for another", chash.Named("a"), chash.Named("b"), "a", "b"},
			{"the same place under another name", chash.Named("a"), []chash.Backend[string]{{Name: "b", HashKey: "a"}}, "a", "b"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				got := mustDiff(t, make(t, test.before), make(t, test.after))
				want := chash.Diff{Moved: 1, Least: 1, Flows: []chash.Flow{{From: test.from, To: test.to, Share: 1}}}
				require.Equal(t, want, got)
			})
		}
	})
}

// TestDiff_Least: what the ones that grow gain together, which on a ring is all
// that moves when backends come or go.
func TestDiff_Least(t *testing.T) {
	onBoth(t, func(t *testing.T, make maker) {
		s := make(t, chash.Named(manyNames("b", 20)...))
		_, ring := s.(ringOf[string])
		compare := func(name string, change func(s structure) error) chash.Diff {
			next := s.Clone()
			require.NoError(t, change(next))
			d := mustDiff(t, s, next)
			if d.Moved < d.Least || d.Least == 0 {
				t.Errorf("%s: Moved, Least = %v, %v, want Moved >= Least > 0", name, d.Moved, d.Least)
			}
			if ring && name != "both" && d.Moved != d.Least {
				t.Errorf("%s: Moved, Least = %v, %v, want them to be the same", name, d.Moved, d.Least)
			}
			return d
		}
		compare("arrival", func(s structure) error { return s.Add(chash.Named("new", "newer")...) })
		compare("departure", func(s structure) error { return s.Remove("b3", "b4") })
		compare("heavier", func(s structure) error { return s.SetWeight("b3", 3) })
		down := compare("failure", func(s structure) error { return s.SetState("b3", chash.Unhealthy) })
		for _, f := range down.Flows {
			if f.From != "b3" {
				t.Errorf("flow of b3's failure = %+v, want it from b3", f)
			}
		}
		if down.Moved != down.Least {
			t.Errorf("failure: Moved, Least = %v, %v, want them to be the same", down.Moved, down.Least)
		}

		// Two that change places: all moves, and what must is the difference.
		before := make(t, []chash.Backend[string]{{Name: "a", Weight: 3}, {Name: "b"}})
		after := make(t, []chash.Backend[string]{{Name: "a", HashKey: "b"}, {Name: "b", HashKey: "a", Weight: 3}})
		d := mustDiff(t, before, after)
		require.Len(t, d.Flows, 2)
		if want := math.Abs(d.Flows[0].Share - d.Flows[1].Share); d.Moved != 1 || math.Abs(d.Least-want) > 1e-15 {
			t.Errorf("Moved, Least = %v, %v, want 1, %v", d.Moved, d.Least, want)
		}
		if d.Least < 0.3 || d.Least > 0.7 {
			t.Errorf("Least = %v, want about 0.5 for weights of 3 and 1 that change places", d.Least)
		}
	})
}

// TestDiff_SharedHashKey: at a placement that two backends share, the second takes
// over all that the first had, and nobody else anything.
func TestDiff_SharedHashKey(t *testing.T) {
	onBoth(t, func(t *testing.T, make maker) {
		s := make(t, []chash.Backend[string]{{Name: "a1", HashKey: "a"}, {Name: "a2", HashKey: "a"}, {Name: "b"}})
		before := s.Clone()
		require.NoError(t, s.SetState("a1", chash.Unhealthy))
		d := mustDiff(t, before, s)
		require.Len(t, d.Flows, 1)
		if f := d.Flows[0]; f.From != "a1" || f.To != "a2" || d.Moved != f.Share || d.Moved < 0.3 || d.Moved > 0.7 {
			t.Errorf("Diff = %+v, want about half to go from a1 to a2", d)
		}
		down := s.Clone()
		require.NoError(t, s.SetState("a2", chash.Unhealthy))
		d = mustDiff(t, down, s)
		require.Len(t, d.Flows, 1)
		if f := d.Flows[0]; f.From != "a2" || f.To != "b" {
			t.Errorf("Diff = %+v, want all of a2 to go to b", d)
		}
	})
}

// TestDiff_Fallbacks: the slots of an unhealthy backend count for the others as
// evenly as their keys spread: those of a table of 65,537 slots within 5 standard
// deviations of the mean, as for dice.
func TestDiff_Fallbacks(t *testing.T) {
	for _, dead := range []int{1, 5} {
		s, err := newMaglev(chash.Named(manyNames("b", 10)...))
		require.NoError(t, err)
		before := s.Clone()
		for i := range dead {
			require.NoError(t, s.SetState(fmt.Sprintf("b%d", i), chash.Unhealthy))
		}
		d := mustDiff(t, before, s)
		require.Len(t, d.Flows, dead*(10-dead))
		for _, f := range d.Flows {
			slots, p := 6553.7, 1/float64(10-dead)
			mean, sigma := slots*p, math.Sqrt(slots*p*(1-p))
			if got := f.Share * 65537; math.Abs(got-mean) > 5*sigma {
				t.Errorf("%d dead: %+v, want %.0f slots, give or take %.0f", dead, f, mean, 5*sigma)
			}
		}
	}
}

func TestDiff_Incomparable(t *testing.T) {
	ten := func(key string) uint64 { return xxhash.Sum64String(key) % 10 }
	reversed := func(key string) uint64 { return ^xxhash.Sum64String(key) }
	tests := []struct {
		name          string
		before, after []chash.Option
		parts         []string
	}{
		{"seeds", []chash.Option{chash.WithSeed(5)}, []chash.Option{chash.WithSeed(77)}, []string{"5", "77"}},
		{"a seed and none", nil, []chash.Option{chash.WithSeed(77)}, []string{"0", "77"}},
		{"a hash and none", nil, []chash.Option{chash.WithHash(xxhash.Sum64String)}, []string{"hash function"}},
		{"a hash and a seed", []chash.Option{chash.WithHash(ten)}, []chash.Option{chash.WithSeed(1)}, nil},
		{"hashes", []chash.Option{chash.WithHash(ten)}, []chash.Option{chash.WithHash(reversed)}, []string{"hash function", `""`}},
	}
	onBoth(t, func(t *testing.T, make maker) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				before := make(t, chash.Named("a", "b"), test.before...)
				after := make(t, chash.Named("a", "b"), test.after...)
				for _, pair := range [][2]structure{{before, after}, {after, before}} {
					d, err := diffOf(pair[0], pair[1])
					checkError(t, "Diff", err, chash.ErrIncomparable, test.parts...)
					require.Zero(t, d)
				}
			})
		}
		// Functions that agree are taken for one.
		again := func(key string) uint64 { return xxhash.Sum64([]byte(key)) }
		a, b := make(t, chash.Named("a"), chash.WithHash(xxhash.Sum64String)), make(t, chash.Named("a"), chash.WithHash(again))
		require.Empty(t, mustDiff(t, a, b).Flows)
	})
	t.Run("table sizes", func(t *testing.T) {
		before, err := newMaglev(chash.Named("a", "b"), chash.WithTableSize(13))
		require.NoError(t, err)
		after, err := newMaglev(chash.Named("a", "b"), chash.WithTableSize(251))
		require.NoError(t, err)
		for _, pair := range [][2]structure{{before, after}, {after, before}} {
			d, err := diffOf(pair[0], pair[1])
			checkError(t, "Diff", err, chash.ErrIncomparable, "13", "251")
			require.Zero(t, d)
		}
	})
	t.Run("nil", func(t *testing.T) {
		m, err := chash.NewMaglev(chash.Named("a"))
		require.NoError(t, err)
		_, err = m.Diff(nil)
		checkError(t, "Diff(nil)", err, chash.ErrIncomparable)
		r, err := chash.NewRing(chash.Named("a"))
		require.NoError(t, err)
		_, err = r.Diff(nil)
		checkError(t, "Diff(nil)", err, chash.ErrIncomparable)
	})
}

// TestDiff_Concurrent: while a backend fails and recovers, each Diff with the
// state of before is that of one whole state, and no two wait for each other.
func TestDiff_Concurrent(t *testing.T) {
	onBoth(t, func(t *testing.T, create maker) {
		s := create(t, []chash.Backend[string]{{Name: "a1", HashKey: "a"}, {Name: "a2", HashKey: "a"}, {Name: "b"}, {Name: "c"}})
		before := s.Clone()
		down := s.Clone()
		require.NoError(t, down.SetState("a1", chash.Unhealthy))
		gone := s.Clone()
		require.NoError(t, gone.Remove("b"))
		possible := []chash.Diff{mustDiff(t, before, before), mustDiff(t, before, down), mustDiff(t, before, gone)}

		var readers, writer sync.WaitGroup
		done := make(chan struct{})
		writer.Add(1)
		go func() {
			defer writer.Done()
			for {
				for _, err := range []error{
					s.SetState("a1", chash.Unhealthy), s.SetState("a1", chash.Healthy),
					s.Remove("b"), s.Add(chash.Backend[string]{Name: "b"}),
				} {
					if err != nil {
						t.Errorf("change = %v, want no error", err)
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		}()
		for range 3 {
			readers.Add(1)
			go func() {
				defer readers.Done()
				for range 20 {
					got, err := diffOf(before, s)
					if err != nil || !slices.ContainsFunc(possible, func(d chash.Diff) bool { return fmt.Sprint(d) == fmt.Sprint(got) }) {
						t.Errorf("Diff = %v, %v, want that of a state there was", got, err)
					}
					if _, err := diffOf(s, before); err != nil {
						t.Errorf("Diff = %v, want no error", err)
					}
					if d, err := diffOf(s, s); err != nil {
						t.Errorf("Diff with itself = %v, %v, want no error", d, err)
					}
				}
			}()
		}
		readers.Wait()
		close(done)
		writer.Wait()
	})
}

func TestDiff_JSON(t *testing.T) {
	data, err := json.Marshal(chash.Diff{Moved: 1, Least: 0.5, Flows: []chash.Flow{{From: "", To: "a", Share: 1}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"moved":1,"least":0.5,"flows":[{"from":"","to":"a","share":1}]}`, string(data))

	// Positions are more than a JSON number holds in many a language, so they are
	// strings.
	change := chash.Change{Range: chash.Range{First: 1 << 63, Last: math.MaxUint64}, Before: []string{}, After: []string{"a", "b"}}
	data, err = json.Marshal(change)
	require.NoError(t, err)
	require.JSONEq(t, `{"first":"9223372036854775808","last":"18446744073709551615","before":[],"after":["a","b"]}`, string(data))
	var back chash.Change
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, change, back)
}

// FuzzDiff compares any two sets of backends, on either structure: counts and
// ranges are those that brute force over the twins finds, and nothing changes.
func FuzzDiff(f *testing.F) {
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(0, 0))
	for kind := range byte(2) {
		for size := range byte(3) {
			for hash := range byte(8) {
				tape := []byte{kind, size, hash}
				for range 100 {
					tape = append(tape, byte(rng.Uint32()))
				}
				f.Add(tape)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tape := fuzzTape(data)
		ring := tape.next(2) == 1
		before := fuzzTwin(&tape, ring)
		after := before.clone()
		make := func(w *twin) structure {
			var backends []chash.Backend[string]
			for _, name := range fuzzNames[:8] {
				b := chash.Backend[string]{Name: name, Value: "value of " + name, Weight: 1}
				switch tape.next(8) {
				case 0:
					continue
				case 1:
					b.State = chash.Unhealthy
				case 2:
					b.State = chash.Draining
				case 3:
					b.Weight = uint32(1 + tape.next(7))
				case 4:
					b.HashKey = fuzzNames[tape.next(8)]
				case 5:
					b.HashKey, b.State = fuzzNames[tape.next(8)], chash.State(tape.next(2))
				}
				backends = append(backends, b)
			}
			if w.set(backends) != nil { // a table that is too small
				backends = nil
				w.set(nil)
			}
			s, err := w.build(backends)
			if err != nil {
				t.Fatalf("constructor with %+v: %v", backends, err)
			}
			return s
		}
		s, next := make(before), make(after)
		log := func(what string, err error) {
			if err != nil {
				t.Fatalf("ring=%t, size %d, seed %d, hash %t, from %+v to %+v: %s: %v",
					ring, before.size, before.seed, before.hash != nil, before.list(), after.list(), what, err)
			}
		}
		d, err := diffOf(s, next)
		log("Diff", err)
		log("Diff", differInDiff(d, before, after))
		if ring {
			r, next := s.(ringOf[string]).Ring, next.(ringOf[string]).Ring
			log("ranges before", before.differInRanges(r))
			log("ranges after", after.differInRanges(next))
			d, err := r.Diff(next)
			log("Diff", err)
			log("changes", differInChanges(d, before, after))
		}
		log("the first after Diff", before.differ(s, nil, before.hashes()))
		log("the second after Diff", after.differ(next, nil, after.hashes()))
	})
}
