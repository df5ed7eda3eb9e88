package chash_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// elementary is the whole ring in ranges within which none of the twins has a
// point but at their ends, so that all their lookups are the same throughout.
func elementary(ws ...*twin) []chash.Range {
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

// sizeOf is the number of positions in a range.
func sizeOf(r chash.Range) *big.Int {
	size := new(big.Int).SetUint64(r.Last)
	size.Sub(size, new(big.Int).SetUint64(r.First))
	return size.Add(size, big.NewInt(1))
}

// positions is how many a ring has.
var positions = new(big.Int).Lsh(big.NewInt(1), 64)

// A held is a range with names.
type held struct {
	r     chash.Range
	names []string
}

// heldBy is the elementary ranges for which names says so, with what it says, and
// those that adjoin with the same names as one.
func heldBy(ranges []chash.Range, names func(h uint64) ([]string, bool)) []held {
	var all []held
	for _, r := range ranges {
		with, ok := names(r.First)
		if !ok {
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].r.Last+1 == r.First && slices.Equal(all[last].names, with) {
			all[last].r.Last = r.Last
			continue
		}
		all = append(all, held{r, with})
	}
	return all
}

// healed is the twin without regard to health: each placement is held by the one
// that outranks the others.
func (w *twin) healed() *twin {
	c := w.clone()
	for name, b := range c.backends {
		if b.State == chash.Unhealthy {
			b.State = chash.Healthy
			c.backends[name] = b
		}
	}
	c.answering = answeringOf(c.backends) // owners do not depend on health
	return c
}

// holders is the names of the backends that hold n copies of what a hash leads to;
// the twin is a healed one.
func (w *twin) holders(h uint64, n int) []string {
	var names []string
	for _, b := range w.prefer(w.metByHash(h), n) {
		names = append(names, b.Name)
	}
	return names
}

func equalHeld(a, b held) bool { return a.r == b.r && slices.Equal(a.names, b.names) }

func collect2(seq iter.Seq2[chash.Range, []string]) []held {
	var all []held
	for r, names := range seq {
		all = append(all, held{r, names})
	}
	return all
}

func collect1(seq iter.Seq[chash.Range]) []held {
	var all []held
	for r := range seq {
		all = append(all, held{r, nil})
	}
	return all
}

// collectChanges has the names before and after in one, apart by what is no name.
func collectChanges(seq iter.Seq[chash.Change]) []held {
	var all []held
	for c := range seq {
		all = append(all, held{c.Range, slices.Concat(c.Before, []string{""}, c.After)})
	}
	return all
}

// copyNumbers is every number of copies worth a try with so many placements.
func copyNumbers(live int) []int {
	return []int{math.MinInt, -1, 0, 1, 2, 3, live - 1, live, live + 1, math.MaxInt}
}

// differInRanges says where the ranges of a ring are not those of its twin, for
// names of backends, of others, and of nobody.
func (w *twin) differInRanges(r *chash.Ring[string]) error {
	ranges, w := elementary(w), w.healed()
	names := []string{"", "no such backend"}
	for name := range w.backends {
		names = append(names, name)
	}
	for _, n := range copyNumbers(len(w.answering)) {
		want := heldBy(ranges, func(h uint64) ([]string, bool) {
			holders := w.holders(h, n)
			return holders, len(holders) > 0
		})
		if got := collect2(r.Holders(n)); !slices.EqualFunc(got, want, equalHeld) {
			return fmt.Errorf("Holders(%d) = %v, want %v", n, got, want)
		}
		for _, name := range names {
			want := heldBy(ranges, func(h uint64) ([]string, bool) { return nil, slices.Contains(w.holders(h, n), name) })
			if got := collect1(r.Ranges(name, n)); !slices.EqualFunc(got, want, equalHeld) {
				return fmt.Errorf("Ranges(%q, %d) = %v, want %v", name, n, got, want)
			}
		}
	}
	return nil
}

// differInChanges says where the ranges of a diff are not what brute force over the
// twins makes them.
func differInChanges(d chash.RingDiff, before, after *twin) error {
	ranges := elementary(before, after)
	before, after = before.healed(), after.healed()
	for _, n := range append(copyNumbers(len(before.answering)), len(after.answering)) {
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
				return fmt.Errorf("Added, Removed of %v = %q, %q, want %q, %q", c, c.Added(), c.Removed(), added, removed)
			}
		}
	}
	return nil
}

// TestRanges_Twin: every range of any ring, and of any change, is the one that
// brute force finds.
func TestRanges_Twin(t *testing.T) {
	rounds(t, 120, func(t *testing.T, rng *rand.Rand) {
		n := rng.IntN(9)
		before := randomTwin(rng, true, n)
		before.size = min(before.size, 5)
		backends := randomBackends(rng, true, n)
		if n > 0 {
			randomStates(rng, backends)
		}
		after := before.clone()
		after.size += rng.IntN(2)
		changed := randomChange(rng, true, backends, n)
		r := twins(t, before, backends).(ringOf[string]).Ring
		next := twins(t, after, changed).(ringOf[string]).Ring
		require.NoError(t, before.differInRanges(r))
		d, err := r.Diff(next)
		require.NoError(t, err)
		require.NoError(t, differInChanges(d, before, after))
		require.NoError(t, differInDiff(d.Diff, before, after))
	})
}

// TestDiff_RingFewHealthy: rings on which the healthy points are so few that they
// are indexed, and that are held as if all were healthy.
func TestDiff_RingFewHealthy(t *testing.T) {
	backends := chash.Named(manyNames("b", 40)...)
	for i := range backends {
		if i%20 != 7 {
			backends[i].State = chash.Unhealthy
		}
	}
	before := newTwin(true, 2, 0, nil)
	r := twins(t, before, backends).(ringOf[string]).Ring
	require.NoError(t, before.differInRanges(r))
	backends[7].State, backends[8].State = chash.Unhealthy, chash.Healthy
	after := newTwin(true, 2, 0, nil)
	next := twins(t, after, backends).(ringOf[string]).Ring
	d, err := r.Diff(next)
	require.NoError(t, err)
	require.NoError(t, differInDiff(d.Diff, before, after))
	require.NotEmpty(t, d.Flows)
	for n := range 3 {
		require.Empty(t, slices.Collect(d.Changes(n)), "no data moves for health")
	}
}

// TestRanges_Ends: on a ring as users have them, lookups agree with the ranges at
// their ends and next to them, and the ranges are the whole ring, once.
func TestRanges_Ends(t *testing.T) {
	backends := chash.Named(manyNames("b", 30)...)
	for i := range backends {
		backends[i].Weight = uint32(1 + i%3)
		backends[i].Value = "value of " + backends[i].Name
	}
	backends[5].State = chash.Draining
	backends[6].HashKey, backends[7].HashKey, backends[8].HashKey = "x", "x", "x"
	r, err := chash.NewRing(backends)
	require.NoError(t, err)
	lookup := func(h uint64) string { return must(r.GetHash(h)) }

	var all []held
	for _, b := range backends {
		for _, h := range collect1(r.Ranges(b.Name, 1)) {
			h.names = []string{b.Value}
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.r.First, b.r.First) })
	next, share := uint64(0), 0.0
	for i, h := range all {
		if h.r.First != next || i > 0 && h.r.First == 0 || h.r.Last < h.r.First {
			t.Fatalf("range %d of %d is %v, want it to begin behind the one before, at %#x", i, len(all), h.r, next)
		}
		next = h.r.Last + 1
		share += h.r.Share()
		for _, inside := range []uint64{h.r.First, h.r.First + (h.r.Last-h.r.First)/2, h.r.Last} {
			if got := lookup(inside); got != h.names[0] {
				t.Errorf("GetHash(%#x) = %q, want %q, whose range is %v", inside, got, h.names[0], h.r)
			}
		}
		for _, outside := range []uint64{h.r.First - 1, h.r.Last + 1} {
			crosses := outside == 0 || outside == math.MaxUint64 // where a range may go on
			if got := lookup(outside); got == h.names[0] && !crosses {
				t.Errorf("GetHash(%#x) = %q, want another, for its range is %v", outside, got, h.r)
			}
		}
	}
	if next != 0 {
		t.Errorf("the last range goes up to %#x, want the last position", next-1)
	}
	require.InDelta(t, 1, share, 1e-12)
	for _, key := range sampleKeys {
		owner, position := must(r.Get(key)), r.Position(key)
		in := slices.IndexFunc(all, func(h held) bool { return h.r.Contains(position) })
		if in < 0 || all[in].names[0] != owner {
			t.Errorf("Get(%q) = %q, want it to have position %#x in its ranges", key, owner, position)
		}
	}
	for n := range 5 {
		for one, names := range r.Holders(n) {
			if len(names) != n {
				t.Fatalf("Holders(%d) has %q for %v, want %d names", n, names, one, n)
			}
		}
	}
}

// TestHolders_GetN: copies of keys are where GetN says while all are healthy, the
// first where Owner says, and health changes nothing.
func TestHolders_GetN(t *testing.T) {
	backends := chash.Named(manyNames("b", 12)...)
	backends[4].State = chash.Draining
	backends[5].HashKey = "b6"
	r, err := chash.NewRing(backends, chash.WithSeed(9))
	require.NoError(t, err)
	sick := r.Clone()
	for _, name := range []string{"b3", "b5", "b7"} {
		require.NoError(t, sick.SetState(name, chash.Unhealthy))
	}
	for _, n := range []int{1, 2, 3, 9, 10, 11} {
		all := collect2(r.Holders(n))
		require.Equal(t, all, collect2(sick.Holders(n)))
		byName := map[string][]held{}
		for _, b := range backends {
			byName[b.Name] = collect1(r.Ranges(b.Name, n))
			require.Equal(t, byName[b.Name], collect1(sick.Ranges(b.Name, n)), b.Name)
		}
		for _, key := range sampleKeys[:300] {
			want, position := must(r.GetN(key, n)), r.Position(key)
			require.Equal(t, must(sick.Owner(key)).Name, want[0])
			in := slices.IndexFunc(all, func(h held) bool { return h.r.Contains(position) })
			if in < 0 || !slices.Equal(all[in].names, want) {
				t.Fatalf("Holders(%d) does not have GetN(%q, %d) = %q at %#x", n, key, n, want, position)
			}
			for name, ranges := range byName {
				holds := slices.ContainsFunc(ranges, func(h held) bool { return h.r.Contains(position) })
				if holds != slices.Contains(want, name) {
					t.Fatalf("Ranges(%q, %d) has %#x: %t, but GetN(%q, %d) = %q", name, n, position, holds, key, n, want)
				}
			}
		}
	}
}

// sparseLayout is a layout in which every third placement alone has points, so that
// the others are last in every order, and not all in the same one.
var sparseLayout = chash.WithRingLayout(chash.RingLayout{
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

// TestHolders_Owners: on any ring, with placements without points too, the holders of
// a position are the owners of the keys there, whatever the health.
func TestHolders_Owners(t *testing.T) {
	rounds(t, 12, func(t *testing.T, rng *rand.Rand) {
		option := chash.WithReplicas(3)
		if rng.IntN(3) > 0 {
			option = sparseLayout
		}
		backends := randomBackends(rng, true, 1+rng.IntN(9))
		randomStates(rng, backends)
		r, err := chash.NewRing(backends, option)
		require.NoError(t, err)
		next := r.Clone()
		changed := randomChange(rng, true, backends, 9)
		require.NoError(t, next.Set(changed))
		d, err := r.Diff(next)
		require.NoError(t, err)
		owners := func(r *chash.Ring[string], key string, n int) []string {
			names := []string{}
			backends, _ := r.Owners(key, n) // an error is nobody
			for _, b := range backends {
				names = append(names, b.Name)
			}
			return names
		}
		for _, n := range []int{1, 2, 3, 4, 7, 9, 10} {
			all, changes := collect2(r.Holders(n)), slices.Collect(d.Changes(n))
			for _, key := range sampleKeys[:60] {
				position, want, after := r.Position(key), owners(r, key, n), owners(next, key, n)
				in := slices.IndexFunc(all, func(h held) bool { return h.r.Contains(position) })
				if in < 0 {
					require.Empty(t, want)
				} else {
					require.Equal(t, want, all[in].names, "%d holders of %#x", n, position)
				}
				for _, b := range backends {
					holds := slices.ContainsFunc(collect1(r.Ranges(b.Name, n)), func(h held) bool { return h.r.Contains(position) })
					require.Equal(t, slices.Contains(want, b.Name), holds, "%s holds one of %d copies at %#x", b.Name, n, position)
				}
				in = slices.IndexFunc(changes, func(c chash.Change) bool { return c.Contains(position) })
				require.Equal(t, !slices.Equal(want, after), in >= 0, "%#x of %d copies changes", position, n)
				if in >= 0 {
					require.Equal(t, want, changes[in].Before)
					require.Equal(t, after, changes[in].After)
				}
			}
		}
	})
}

// TestDiff_RingIdle: where every backend with points is down, keys lead to those
// without, and Diff counts what GetHash returns at every point.
func TestDiff_RingIdle(t *testing.T) {
	r, err := chash.NewRing(chash.Named(manyNames("b", 12)...), sparseLayout)
	require.NoError(t, err)
	for _, share := range r.Shares() {
		if share.Size > 0 {
			require.NoError(t, r.SetState(share.Name, chash.Unhealthy))
		}
	}
	var lasts []uint64
	for _, p := range r.AppendPoints(nil) {
		lasts = append(lasts, p.Position)
	}
	want := map[string]*big.Int{}
	first := uint64(0)
	for _, last := range append(lasts, math.MaxUint64) {
		name := must(r.GetHash(last))
		if want[name] == nil {
			want[name] = new(big.Int)
		}
		want[name].Add(want[name], sizeOf(chash.Range{First: first, Last: last}))
		first = last + 1
	}
	empty, err := chash.NewRing[string](nil, sparseLayout)
	require.NoError(t, err)
	d, err := empty.Diff(r)
	require.NoError(t, err)
	require.Len(t, d.Flows, len(want))
	require.Len(t, want, 8)
	for _, f := range d.Flows {
		require.Equal(t, share(want[f.To], positions), f.Share, f.To)
	}
	require.Equal(t, 1.0, d.Moved)
}

// placedAt is a hash by which points, and keys, lie where the map says.
func placedAt(positions map[string]uint64) chash.Option {
	return chash.WithHash(func(key string) uint64 { return positions[key] })
}

// TestRanges_ByHand: small rings that are worked out by hand.
func TestRanges_ByHand(t *testing.T) {
	const last = math.MaxUint64
	type ranges map[string][]chash.Range
	tests := []struct {
		name   string
		points map[string]uint64
		ranges ranges
	}{
		{"one", map[string]uint64{"a#0": 10}, ranges{"a": {{0, last}}}},
		{"two", map[string]uint64{"a#0": 10, "b#0": 20}, ranges{
			"a": {{0, 10}, {21, last}},
			"b": {{11, 20}},
		}},
		{"at the ends", map[string]uint64{"a#0": 0, "b#0": last}, ranges{
			"a": {{0, 0}},
			"b": {{1, last}},
		}},
		{"one before the last position", map[string]uint64{"a#0": 0, "b#0": last - 1}, ranges{
			"a": {{0, 0}, {last, last}},
			"b": {{1, last - 1}},
		}},
		{"at one position", map[string]uint64{"a#0": 7, "b#0": 7, "c#0": 9}, ranges{
			"a": {{0, 7}, {10, last}},
			"b": nil,
			"c": {{8, 9}},
		}},
		{"all at the last position", map[string]uint64{"a#0": last, "b#0": last}, ranges{
			"a": {{0, last}},
			"b": nil,
		}},
		{"points of one side by side", map[string]uint64{"a#0": 10, "a#1": 15, "b#0": 20, "b#1": 30}, ranges{
			"a": {{0, 15}, {31, last}},
			"b": {{16, 30}},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			replicas := len(test.points) / len(test.ranges)
			if test.name != "points of one side by side" {
				replicas = 1
			}
			var names []string
			for name := range test.ranges {
				names = append(names, name)
			}
			r, err := chash.NewRing(chash.Named(names...), placedAt(test.points), chash.WithReplicas(replicas))
			require.NoError(t, err)
			for name, want := range test.ranges {
				if got := slices.Collect(r.Ranges(name, 1)); !slices.Equal(got, want) {
					t.Errorf("Ranges(%q, 1) = %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestChanges_ByHand: a backend arrives on a small ring, with copies and without.
func TestChanges_ByHand(t *testing.T) {
	const last = math.MaxUint64
	points := map[string]uint64{"a#0": 100, "b#0": 200, "c#0": 300, "d#0": 250}
	r, err := chash.NewRing(chash.Named("a", "b", "c"), placedAt(points), chash.WithReplicas(1))
	require.NoError(t, err)
	before := r.Clone()
	require.NoError(t, r.Add(chash.Named("d")...))
	d, err := before.Diff(r)
	require.NoError(t, err)

	total := math.Exp2(64)
	require.Equal(t, chash.Diff{
		Moved: 50 / total, Least: 50 / total,
		Flows: []chash.Flow{{From: "c", To: "d", Share: 50 / total}},
	}, d.Diff)
	require.Equal(t, []chash.Change{{chash.Range{First: 201, Last: 250}, []string{"c"}, []string{"d"}}}, slices.Collect(d.Changes(1)))

	// With two copies d takes over for those that had their second on c, too.
	changes := slices.Collect(d.Changes(2))
	require.Equal(t, []chash.Change{
		{chash.Range{First: 101, Last: 200}, []string{"b", "c"}, []string{"b", "d"}},
		{chash.Range{First: 201, Last: 250}, []string{"c", "a"}, []string{"d", "c"}},
	}, changes)
	for i, lost := range []string{"c", "a"} {
		require.Equal(t, []string{"d"}, changes[i].Added())
		require.Equal(t, []string{lost}, changes[i].Removed())
	}

	// With four copies d has one of everything, which nobody loses.
	changes = slices.Collect(d.Changes(4))
	require.Len(t, changes, 5) // before as after, the range past the last point is one of its own
	for _, c := range changes {
		require.Equal(t, []string{"d"}, c.Added())
		require.Nil(t, c.Removed())
	}
	require.Equal(t, []chash.Range{{0, last}}, slices.Collect(r.Ranges("d", 4)))

	// Nobody before: all of it, from nowhere.
	empty, err := chash.NewRing(chash.Named(), placedAt(points), chash.WithReplicas(1))
	require.NoError(t, err)
	d, err = empty.Diff(before)
	require.NoError(t, err)
	none := []string{}
	require.Equal(t, []chash.Change{
		{chash.Range{First: 0, Last: 100}, none, []string{"a"}},
		{chash.Range{First: 101, Last: 200}, none, []string{"b"}},
		{chash.Range{First: 201, Last: 300}, none, []string{"c"}},
		{chash.Range{First: 301, Last: last}, none, []string{"a"}},
	}, slices.Collect(d.Changes(1)))
}

// TestChanges_Order: two backends that change places hold what they held, in another
// order.
func TestChanges_Order(t *testing.T) {
	at := func(a, b uint64) *chash.Ring[string] {
		backends := []chash.Backend[string]{{Name: "a", HashKey: fmt.Sprint(a)}, {Name: "b", HashKey: fmt.Sprint(b)}}
		r, err := chash.NewRing(backends, placedAt(map[string]uint64{"1#0": 100, "2#0": 200}), chash.WithReplicas(1))
		require.NoError(t, err)
		return r
	}
	d, err := at(1, 2).Diff(at(2, 1))
	require.NoError(t, err)
	ab, ba := []string{"a", "b"}, []string{"b", "a"}
	changes := slices.Collect(d.Changes(2))
	require.Equal(t, []chash.Change{
		{chash.Range{First: 0, Last: 100}, ab, ba},
		{chash.Range{First: 101, Last: 200}, ba, ab},
		{chash.Range{First: 201, Last: math.MaxUint64}, ab, ba},
	}, changes)
	for _, c := range changes {
		require.Nil(t, c.Added())
		require.Nil(t, c.Removed())
	}
}

// TestChanges_Data: whoever follows the changes has, in a store of any number of
// copies, every key where its owners are, and nothing else.
func TestChanges_Data(t *testing.T) {
	rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
		copies := 1 + rng.IntN(4)
		backends := randomBackends(rng, true, 1+rng.IntN(7))
		r, err := chash.NewRing(backends, chash.WithReplicas(4))
		require.NoError(t, err)
		stores := map[string]map[uint64]bool{}
		held := func(r *chash.Ring[string]) map[string]map[uint64]bool {
			held := map[string]map[uint64]bool{}
			for one, names := range r.Holders(copies) {
				for _, name := range names {
					if held[name] == nil {
						held[name] = map[uint64]bool{}
					}
					for _, key := range sampleKeys[:200] {
						if position := r.Position(key); one.Contains(position) {
							held[name][position] = true
						}
					}
				}
			}
			return held
		}
		stores = held(r)
		for range 4 {
			next := r.Clone()
			require.NoError(t, next.Set(randomChange(rng, true, backends, 7)))
			d, err := r.Diff(next)
			require.NoError(t, err)
			for c := range d.Changes(copies) {
				for _, key := range sampleKeys[:200] {
					position := r.Position(key)
					if !c.Contains(position) {
						continue
					}
					for _, name := range c.Before {
						require.True(t, stores[name][position])
					}
					for _, name := range c.Added() {
						if stores[name] == nil {
							stores[name] = map[uint64]bool{}
						}
						require.False(t, stores[name][position])
						stores[name][position] = true
					}
					for _, name := range c.Removed() {
						require.True(t, stores[name][position])
						delete(stores[name], position)
					}
				}
			}
			r = next
			want := held(r)
			for name, store := range stores {
				require.Len(t, want[name], len(store), name)
			}
			for name, store := range want {
				require.Equal(t, len(store), len(stores[name]), name)
				for position := range store {
					require.True(t, stores[name][position])
				}
			}
		}
	})
}

// TestRanges_None: names that have no ranges, and rings that have none.
func TestRanges_None(t *testing.T) {
	r, err := chash.NewRing([]chash.Backend[string]{
		{Name: "up"},
		{Name: "down", State: chash.Unhealthy},
		{Name: "draining", State: chash.Draining},
		{Name: "upper", HashKey: "up"},
	})
	require.NoError(t, err)
	empty, err := chash.NewRing(chash.Named())
	require.NoError(t, err)
	sick, err := chash.NewRing([]chash.Backend[string]{{Name: "down", State: chash.Unhealthy}})
	require.NoError(t, err)
	gone, err := chash.NewRing([]chash.Backend[string]{{Name: "draining", State: chash.Draining}})
	require.NoError(t, err)
	whole := chash.Range{Last: math.MaxUint64}
	for _, n := range []int{1, 2, 9} {
		require.Equal(t, []held{{whole, []string{"down"}}}, collect2(sick.Holders(n)))
		require.Equal(t, []chash.Range{whole}, slices.Collect(sick.Ranges("down", n)))
		for _, name := range []string{"", "draining", "upper", "unknown"} {
			require.Empty(t, slices.Collect(r.Ranges(name, n)), name)
		}
		for _, r := range []*chash.Ring[string]{empty, gone} {
			require.Empty(t, slices.Collect(r.Ranges("", n)))
			require.Empty(t, slices.Collect(r.Ranges("draining", n)))
			require.Empty(t, collect2(r.Holders(n)))
		}
		d, err := empty.Diff(gone)
		require.NoError(t, err)
		require.Empty(t, slices.Collect(d.Changes(n)))
		d, err = sick.Diff(gone)
		require.NoError(t, err)
		require.Empty(t, d.Flows, "nobody answers before or after")
		require.Equal(t, []chash.Change{{whole, []string{"down"}, []string{}}}, slices.Collect(d.Changes(n)))
		var none chash.RingDiff
		require.Empty(t, slices.Collect(none.Changes(n)))
	}
	for _, n := range []int{0, -1, math.MinInt} {
		require.Empty(t, slices.Collect(r.Ranges("up", n)))
		require.Empty(t, collect2(r.Holders(n)))
		d, err := r.Diff(empty)
		require.NoError(t, err)
		require.Empty(t, slices.Collect(d.Changes(n)))
	}
}

// TestRanges_Use: sequences can be left early and used again, when those of a ring
// follow it and those of a diff do not.
func TestRanges_Use(t *testing.T) {
	r, err := chash.NewRing(chash.Named("a", "b"))
	require.NoError(t, err)
	ranges, holders := r.Ranges("a", 1), r.Holders(2)
	first := func() (chash.Range, []string) {
		for one := range ranges {
			for two, names := range holders {
				require.Equal(t, uint64(0), two.First)
				return one, names
			}
		}
		t.Fatal("no ranges")
		return chash.Range{}, nil
	}
	one, names := first()
	again, same := first()
	require.Equal(t, one, again)
	require.Equal(t, names, same)
	names[0] = "the caller's"
	_, same = first()
	require.NotEqual(t, names, same)

	all := slices.Collect(ranges)
	require.NotEmpty(t, all)
	require.NoError(t, r.SetState("b", chash.Unhealthy))
	require.Equal(t, all, slices.Collect(ranges))
	require.NoError(t, r.SetState("b", chash.Draining))
	require.Equal(t, []chash.Range{{Last: math.MaxUint64}}, slices.Collect(ranges))
	require.NoError(t, r.SetState("b", chash.Healthy))
	before := r.Clone()
	require.NoError(t, r.Remove("b"))
	d, err := before.Diff(r)
	require.NoError(t, err)
	changes := d.Changes(1)
	was := slices.Collect(changes)
	require.NoError(t, r.Add(chash.Named("c", "d")...))
	before.Clear()
	require.Equal(t, was, slices.Collect(changes))
	for c := range changes {
		require.Equal(t, was[0], c)
		c.Before[0], c.After[0] = "the caller's", "the caller's"
		break
	}
	require.Equal(t, was, slices.Collect(changes))
	for range before.Ranges("a", 1) {
		t.Error("a range on an empty ring")
	}
	for _, c := range was {
		require.Equal(t, []string{"b", "a"}, []string{c.Before[0], c.After[0]})
		for _, one := range all {
			require.False(t, one.Contains(c.First), "%v is in %v, which a had before", c, one)
		}
	}
}

// TestRanges_WhileChanged: a sequence that is used while the ring changes is that
// of one state, and a change inside it does not wait for itself.
func TestRanges_WhileChanged(t *testing.T) {
	r, err := chash.NewRing(chash.Named("a", "b", "c"))
	require.NoError(t, err)
	want := slices.Collect(r.Ranges("a", 1))
	var got []chash.Range
	for one := range r.Ranges("a", 1) {
		got = append(got, one)
		require.NoError(t, r.SetState("a", chash.State(len(got)%3)))
	}
	require.Equal(t, want, got)
}

// TestRanges_Uneven: rings on which it takes many points to meet one more
// placement, in time of the number of points.
func TestRanges_Uneven(t *testing.T) {
	backends := []chash.Backend[string]{
		{Name: "a", Weight: 50000}, {Name: "b", Weight: 50000},
		{Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"},
	}
	r, err := chash.NewRing(backends, chash.WithReplicas(1))
	require.NoError(t, err)
	next := r.Clone()
	require.NoError(t, next.Remove("c"))
	d, err := r.Diff(next)
	require.NoError(t, err)
	total := 0
	for n := 1; n <= 6; n++ {
		sum := new(big.Int)
		for one, names := range next.Holders(n) {
			sum.Add(sum, sizeOf(one))
			if len(names) != min(n, 5) {
				t.Fatalf("Holders(%d) has %q for %v, want %d names", n, names, one, min(n, 5))
			}
		}
		require.Equal(t, positions, sum)
		gained := 0
		for c := range d.Changes(n) {
			if !slices.Contains(c.Added(), "d") {
				continue
			}
			gained++
			if len(c.Before) != n || slices.Contains(c.Before, "d") || !slices.Contains(c.Before, "c") {
				t.Fatalf("Changes(%d) has %v, want %d names before, with c and without d", n, c, n)
			}
		}
		if n == 6 && gained > 0 {
			t.Errorf("Changes(6) has %d ranges that d gains, want none", gained)
		}
		total += gained
	}
	require.Positive(t, total)
	// Many placements, of which nearly all hold a copy.
	r, err = chash.NewRing(chash.Named(manyNames("b", 2000)...), chash.WithReplicas(100))
	require.NoError(t, err)
	sum := new(big.Int)
	for one := range r.Ranges("b7", 1999) {
		sum.Add(sum, sizeOf(one))
	}
	if sum.Cmp(positions) > 0 || sum.BitLen() < 64 {
		t.Errorf("b7 has one of 1999 copies of %v positions, want nearly all", sum)
	}
}

func TestRing_Position(t *testing.T) {
	of := func(s string) uint64 {
		sum := sha256.Sum256([]byte(s))
		return binary.BigEndian.Uint64(sum[:])
	}
	plain, err := chash.NewRing(chash.Named("a", "b"))
	require.NoError(t, err)
	seeded, err := chash.NewRing(chash.Named("a", "b"), chash.WithSeed(3))
	require.NoError(t, err)
	hashed, err := chash.NewRing(chash.Named("a", "b"), chash.WithHash(func(key string) uint64 { return ^of(key) }))
	require.NoError(t, err)
	for _, key := range append(sampleKeys[:50], strings.Repeat("long", 300)) {
		for name, test := range map[string]struct {
			r    *chash.Ring[string]
			want uint64
		}{
			"plain":  {plain, of(key)},
			"seeded": {seeded, of("\x00\x00\x00\x00\x00\x00\x00\x03" + key)},
			"hashed": {hashed, ^of(key)},
		} {
			if got := test.r.Position(key); got != test.want {
				t.Errorf("Position(%q) of the %s ring = %#x, want %#x", key, name, got, test.want)
			}
			if got, want := must(test.r.GetHash(test.r.Position(key))), must(test.r.Get(key)); got != want {
				t.Errorf("GetHash(Position(%q)) of the %s ring = %q, want %q", key, name, got, want)
			}
		}
	}
	if got := testing.AllocsPerRun(20, func() { plain.Position("user:42") }); got != 0 {
		t.Errorf("allocations of Position = %v, want 0", got)
	}
}

func TestRange(t *testing.T) {
	const last = math.MaxUint64
	tests := []struct {
		r       chash.Range
		in, out []uint64
		share   float64
		text    string
	}{
		{chash.Range{First: 0, Last: last}, []uint64{0, 1, last}, nil, 1, "[0x0000000000000000, 0xffffffffffffffff]"},
		{chash.Range{First: 5, Last: 7}, []uint64{5, 6, 7}, []uint64{0, 4, 8, last}, 0x3p-64, "[0x0000000000000005, 0x0000000000000007]"},
		{chash.Range{}, []uint64{0}, []uint64{1, last}, 0x1p-64, "[0x0000000000000000, 0x0000000000000000]"},
		{chash.Range{First: last, Last: last}, []uint64{last}, []uint64{0, last - 1}, 0x1p-64, "[0xffffffffffffffff, 0xffffffffffffffff]"},
		{chash.Range{First: 1, Last: last}, []uint64{1, last}, []uint64{0}, 1, "[0x0000000000000001, 0xffffffffffffffff]"},
		{chash.Range{First: 1 << 63, Last: last}, []uint64{1 << 63}, []uint64{1<<63 - 1}, 0.5, "[0x8000000000000000, 0xffffffffffffffff]"},
		{chash.Range{First: 1, Last: 1<<53 + 3}, nil, nil, 0x1p-11 + 0x1p-62, "[0x0000000000000001, 0x0020000000000003]"}, // 2^53+3 is a tie
	}
	for _, test := range tests {
		for _, h := range test.in {
			if !test.r.Contains(h) {
				t.Errorf("%v.Contains(%#x) = false, want true", test.r, h)
			}
		}
		for _, h := range test.out {
			if test.r.Contains(h) {
				t.Errorf("%v.Contains(%#x) = true, want false", test.r, h)
			}
		}
		if got := test.r.Share(); got != test.share {
			t.Errorf("%v.Share() = %v, want %v", test.r, got, test.share)
		}
		if got := test.r.String(); got != test.text {
			t.Errorf("String() = %s, want %s", got, test.text)
		}
	}
	c := chash.Change{Range: chash.Range{First: 5, Last: 7}, Before: []string{"a", "b"}}
	if got, want := c.String(), `[0x0000000000000005, 0x0000000000000007] from ["a" "b"] to []`; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}
