package chashtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// elementary is the whole ring in ranges within which none of the twins has a
// point but at their ends, so that all their lookups are the same throughout.
func elementary(ws ...*Twin) []chash.Range {
	lasts := []uint64{math.MaxUint64}
	for _, w := range ws {
		for _, position := range w.positions {
			lasts = append(lasts, binary.BigEndian.Uint64([]byte(position)))
		}
	}
	slices.Sort(lasts)
	lasts = slices.Compact(lasts)
	ranges := make([]chash.Range, len(lasts))
	for i, last := range lasts {
		ranges[i].Last = last
		if i > 0 {
			ranges[i].First = lasts[i-1] + 1
		}
	}
	return ranges
}

// SizeOf is the number of positions in a range.
func SizeOf(r chash.Range) *big.Int {
	size := new(big.Int).SetUint64(r.Last)
	size.Sub(size, new(big.Int).SetUint64(r.First))
	return size.Add(size, big.NewInt(1))
}

// A Held is a range with names.
type Held struct {
	R     chash.Range
	Names []string
}

// heldBy is the elementary ranges for which names says so, with what it says, and
// those that adjoin with the same names as one.
func heldBy(ranges []chash.Range, names func(h uint64) ([]string, bool)) []Held {
	var all []Held
	for _, r := range ranges {
		with, ok := names(r.First)
		if !ok {
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].R.Last+1 == r.First && slices.Equal(all[last].Names, with) {
			all[last].R.Last = r.Last
			continue
		}
		all = append(all, Held{r, with})
	}
	return all
}

// healed is the twin without regard to health: each placement is held by the one
// that outranks the others.
func (w *Twin) healed() *Twin {
	c := w.Clone()
	for name, b := range c.Backends {
		if b.State == chash.Unhealthy {
			b.State = chash.Healthy
			c.Backends[name] = b
		}
	}
	c.Answering = AnsweringOf(c.Backends) // owners do not depend on health
	return c
}

// holders is the names of the backends that hold n copies of what a hash leads to;
// the twin is a healed one.
func (w *Twin) holders(h uint64, n int) []string {
	var names []string
	for _, b := range w.Prefer(w.MetByHash(h), n) {
		names = append(names, b.Name)
	}
	return names
}

func equalHeld(a, b Held) bool { return a.R == b.R && slices.Equal(a.Names, b.Names) }

func Collect2(seq iter.Seq2[chash.Range, []string]) []Held {
	var all []Held
	for r, names := range seq {
		all = append(all, Held{r, names})
	}
	return all
}

func Collect1(seq iter.Seq[chash.Range]) []Held {
	var all []Held
	for r := range seq {
		all = append(all, Held{r, nil})
	}
	return all
}

// collectChanges has the names before and after in one, apart by what is no name.
func collectChanges(seq iter.Seq[chash.Change]) []Held {
	var all []Held
	for c := range seq {
		all = append(all, Held{c.Range, slices.Concat(c.Before, []string{""}, c.After)})
	}
	return all
}

// copyNumbers is every number of copies worth a try with so many placements.
func copyNumbers(live int) []int {
	return []int{math.MinInt, -1, 0, 1, 2, 3, live - 1, live, live + 1, math.MaxInt}
}

// DifferInRanges says where the ranges of a ring are not those of its twin, for
// names of backends, of others, and of nobody.
func (w *Twin) DifferInRanges(r *chash.Ring[string]) error {
	ranges, w := elementary(w), w.healed()
	names := []string{"", "no such backend"}
	for name := range w.Backends {
		names = append(names, name)
	}
	for _, n := range copyNumbers(len(w.Answering)) {
		want := heldBy(ranges, func(h uint64) ([]string, bool) {
			holders := w.holders(h, n)
			return holders, len(holders) > 0
		})
		if got := Collect2(r.Holders(n)); !slices.EqualFunc(got, want, equalHeld) {
			return fmt.Errorf("Holders(%d) = %v, want %v", n, got, want)
		}
		for _, name := range names {
			want := heldBy(ranges, func(h uint64) ([]string, bool) { return nil, slices.Contains(w.holders(h, n), name) })
			if got := Collect1(r.Ranges(name, n)); !slices.EqualFunc(got, want, equalHeld) {
				return fmt.Errorf("Ranges(%q, %d) = %v, want %v", name, n, got, want)
			}
		}
	}
	return nil
}

// DifferInChanges says where the ranges of a diff are not what brute force over the
// twins makes them.
func DifferInChanges(d chash.RingDiff, before, after *Twin) error {
	ranges := elementary(before, after)
	before, after = before.healed(), after.healed()
	for _, n := range append(copyNumbers(len(before.Answering)), len(after.Answering)) {
		want := heldBy(ranges, func(h uint64) ([]string, bool) {
			had, has := before.holders(h, n), after.holders(h, n)
			return slices.Concat(had, []string{""}, has), !slices.Equal(had, has)
		})
		if got := collectChanges(d.Changes(n)); !slices.EqualFunc(got, want, equalHeld) {
			return fmt.Errorf("Changes(%d) = %v, want %v", n, got, want)
		}
		for c := range d.Changes(n) {
			had, has := before.holders(c.First, n), after.holders(c.First, n)
			added := slices.DeleteFunc(slices.Clone(has), func(name string) bool { return slices.Contains(had, name) })
			removed := slices.DeleteFunc(slices.Clone(had), func(name string) bool { return slices.Contains(has, name) })
			if !slices.Equal(c.Added(), added) || !slices.Equal(c.Removed(), removed) {
				return fmt.Errorf("got Added, Removed of %v = %q, %q, want %q, %q", c, c.Added(), c.Removed(), added, removed)
			}
		}
	}
	return nil
}

// DiffOf is the Diff of two structures of one type.
func DiffOf(before, after Structure) (chash.Diff, error) {
	if r, ok := before.(RingOf[string]); ok {
		d, err := r.Diff(after.(RingOf[string]).Ring)
		return d.Diff, err
	}
	return before.(MaglevOf[string]).Diff(after.(MaglevOf[string]).Maglev)
}

// MustDiff is diffOf for structures that can be compared.
func MustDiff(t *testing.T, before, after Structure) chash.Diff {
	t.Helper()
	d, err := DiffOf(before, after)
	require.NoError(t, err)
	return d
}

// SampleHash is the hash that stands for a slot whose placement is unhealthy, as
// the doc comment of Diff has it.
func SampleHash(slot, m uint64) uint64 {
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
func (w *Twin) nameOf(h uint64) string {
	if preferred := w.Prefer(w.MetByHash(h), 1); len(preferred) > 0 {
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
func parts(before, after *Twin) (all []part, total *big.Int) {
	if before.Ring {
		for _, r := range elementary(before, after) {
			all = append(all, part{SizeOf(r), before.nameOf(r.First), after.nameOf(r.First)})
		}
		return all, Positions
	}
	for slot := range uint64(before.Size) {
		name := func(w *Twin) string {
			if len(w.Owners) > 0 {
				if b, ok := w.Answering[w.Owners[slot]]; ok {
					return b.Name
				}
			}
			return w.nameOf(SampleHash(slot, uint64(before.Size)))
		}
		all = append(all, part{big.NewInt(1), name(before), name(after)})
	}
	return all, big.NewInt(int64(before.Size))
}

// DifferInDiff says where a Diff is not what brute force over the twins makes it.
func DifferInDiff(got chash.Diff, before, after *Twin) error {
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
		return fmt.Errorf("got Flows = %v, want %v", got.Flows, pairs)
	}
	for i, pair := range pairs {
		f := got.Flows[i]
		if [2]string{f.From, f.To} != pair || f.Share != Share(flows[pair], total) {
			return fmt.Errorf("flow %d = %+v, want %q, share %v", i, f, pair, Share(flows[pair], total))
		}
	}
	if got.Moved != Share(moved, total) || got.Least != Share(least, total) {
		return fmt.Errorf("got Moved, Least = %v, %v, want %v, %v", got.Moved, got.Least, Share(moved, total), Share(least, total))
	}
	return nil
}

// Share is n as a share of the total, correctly rounded.
func Share(n, total *big.Int) float64 {
	f, _ := new(big.Rat).SetFrac(n, total).Float64()
	return f
}

// RandomChange makes a second set of backends from a first: another one, the same
// in other states, or one that differs in a few of them.
func RandomChange(rng *rand.Rand, ring bool, backends []chash.Backend[string], n int) []chash.Backend[string] {
	next := slices.Clone(backends)
	switch rng.IntN(4) {
	case 0:
		next = RandomBackends(rng, ring, rng.IntN(n+1))
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
		RandomStates(rng, next)
	}
	return next
}

// Positions is how many a ring has.
var Positions = new(big.Int).Lsh(big.NewInt(1), 64)

// SparseLayout is a layout in which every third placement alone has points, so that
// the others are last in every order, and not all in the same one.
var SparseLayout = chash.WithRingLayout(chash.RingLayout{
	Name: "sparse",
	Points: func(placements []chash.Placement) (points []chash.VirtualNode, err error) {
		for i, p := range placements {
			for j := range 4 {
				if i%3 == 0 {
					points = append(points, chash.VirtualNode{Position: xxhash.Sum64String(fmt.Sprint(p.HashKey, j)), Placement: i})
				}
			}
		}
		return points, nil
	},
})
