package chash_test

import (
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

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// elementary is the whole ring in ranges within which none of the twins has a
// point but at their ends, so that all their lookups are the same throughout.
func elementary(ws ...*twin) []chash.Range {
	starts := []uint64{0}
	for _, w := range ws {
		for _, position := range w.positions {
			starts = append(starts, binary.BigEndian.Uint64([]byte(position))+1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	ranges := make([]chash.Range, len(starts))
	for i, start := range starts {
		ranges[i].Start = start
		if i > 0 {
			ranges[i-1].End = start
		}
	}
	return ranges
}

// sizeOf is the number of positions in a range.
func sizeOf(r chash.Range) *big.Int {
	end := new(big.Int).SetUint64(r.End)
	if r.End == 0 {
		end.Lsh(big.NewInt(1), 64)
	}
	return end.Sub(end, new(big.Int).SetUint64(r.Start))
}

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
		with, ok := names(r.Start)
		if !ok {
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].r.End == r.Start && slices.Equal(all[last].names, with) {
			all[last].r.End = r.End
			continue
		}
		all = append(all, held{r, with})
	}
	return all
}

// holders is the names of the backends that hold n copies of what a hash leads to.
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

func collectMoves(seq iter.Seq[chash.Move]) []held {
	var all []held
	for m := range seq {
		all = append(all, held{m.Range, []string{m.From, m.To}})
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
	ranges := elementary(w)
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
			if got := collect1(r.RangesN(name, n)); !slices.EqualFunc(got, want, equalHeld) {
				return fmt.Errorf("RangesN(%q, %d) = %v, want %v", name, n, got, want)
			}
			if n != 1 {
				continue
			}
			if got := collect1(r.Ranges(name)); !slices.EqualFunc(got, want, equalHeld) {
				return fmt.Errorf("Ranges(%q) = %v, want %v", name, got, want)
			}
		}
	}
	return nil
}

// differInMoves says where the ranges of a diff are not what brute force over the
// twins makes them.
func differInMoves(d chash.RingDiff, before, after *twin) error {
	ranges := elementary(before, after)
	want := heldBy(ranges, func(h uint64) ([]string, bool) {
		from, to := before.nameOf(h), after.nameOf(h)
		return []string{from, to}, from != to
	})
	if got := collectMoves(d.Moves()); !slices.EqualFunc(got, want, equalHeld) {
		return fmt.Errorf("Moves() = %v, want %v", got, want)
	}
	names := map[string]bool{"": true, "no such backend": true}
	for _, w := range []*twin{before, after} {
		for name := range w.backends {
			names[name] = true
		}
	}
	for _, n := range append(copyNumbers(len(before.answering)), len(after.answering)) {
		for name := range names {
			want := heldBy(ranges, func(h uint64) ([]string, bool) {
				had, has := before.holders(h, n), after.holders(h, n)
				return had, slices.Contains(has, name) && !slices.Contains(had, name)
			})
			if got := collect2(d.Gains(name, n)); !slices.EqualFunc(got, want, equalHeld) {
				return fmt.Errorf("Gains(%q, %d) = %v, want %v", name, n, got, want)
			}
			want = heldBy(ranges, func(h uint64) ([]string, bool) {
				had, has := before.holders(h, n), after.holders(h, n)
				return has, slices.Contains(had, name) && !slices.Contains(has, name)
			})
			if got := collect2(d.Losses(name, n)); !slices.EqualFunc(got, want, equalHeld) {
				return fmt.Errorf("Losses(%q, %d) = %v, want %v", name, n, got, want)
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
		require.NoError(t, differInMoves(d, before, after))
		require.NoError(t, differInDiff(d.Diff, before, after))
	})
}

// TestRanges_FewHealthy: rings on which the healthy points are so few that they
// are indexed.
func TestRanges_FewHealthy(t *testing.T) {
	backends := chash.Named(manyNames("b", 70)...)
	for i := range backends {
		if i%35 != 7 {
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
	require.NoError(t, differInMoves(d, before, after))
}

// TestRanges_Ends: on a ring as users have them, lookups agree with the ranges at
// their ends and next to them, and the ranges are the whole ring, once.
func TestRanges_Ends(t *testing.T) {
	backends := chash.Named(manyNames("b", 30)...)
	for i := range backends {
		backends[i].Weight = uint32(1 + i%3)
		backends[i].Value = "value of " + backends[i].Name
	}
	backends[3].State, backends[4].State, backends[5].State = chash.Unhealthy, chash.Unhealthy, chash.Draining
	backends[6].HashKey, backends[7].HashKey, backends[8].HashKey = "x", "x", "x"
	backends[6].State = chash.Unhealthy
	r, err := chash.NewRing(backends)
	require.NoError(t, err)
	lookup := func(h uint64) string { return must(r.GetHash(h)) }

	var all []held
	for _, b := range backends {
		for _, h := range collect1(r.Ranges(b.Name)) {
			h.names = []string{b.Value}
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b held) int { return sizeOf(a.r).Cmp(sizeOf(b.r)) })
	require.NotZero(t, sizeOf(all[0].r).Sign(), "%v is empty", all[0].r)
	slices.SortFunc(all, func(a, b held) int {
		return new(big.Int).SetUint64(a.r.Start).Cmp(new(big.Int).SetUint64(b.r.Start))
	})
	end := uint64(0)
	for i, h := range all {
		if h.r.Start != end || i > 0 && h.r.Start == 0 {
			t.Fatalf("range %d of %d begins at %#x, want it at the end of the one before, %#x", i, len(all), h.r.Start, end)
		}
		end = h.r.End
		for _, inside := range []uint64{h.r.Start, h.r.Start + (h.r.End-h.r.Start)/2, h.r.End - 1} {
			if got := lookup(inside); got != h.names[0] {
				t.Errorf("GetHash(%#x) = %q, want %q, whose range is %v", inside, got, h.names[0], h.r)
			}
		}
		for _, outside := range []uint64{h.r.Start - 1, h.r.End} {
			crosses := outside == 0 || outside == math.MaxUint64 // where a range may go on
			if got := lookup(outside); got == h.names[0] && !crosses {
				t.Errorf("GetHash(%#x) = %q, want another, for its range is %v", outside, got, h.r)
			}
		}
	}
	if end != 0 {
		t.Errorf("the last range ends at %#x, want 0", end)
	}
	for _, key := range sampleKeys {
		owner, position := must(r.Get(key)), r.Position(key)
		in := slices.IndexFunc(all, func(h held) bool { return h.r.Contains(position) })
		if in < 0 || all[in].names[0] != owner {
			t.Errorf("Get(%q) = %q, want it to have position %#x in its ranges", key, owner, position)
		}
	}
	for n := range 5 {
		for r2, names := range r.Holders(n) {
			if len(names) != n {
				t.Fatalf("Holders(%d) has %q for %v, want %d names", n, names, r2, n)
			}
		}
	}
}

// TestHolders_GetN: copies of keys are where GetN says, and nowhere else.
func TestHolders_GetN(t *testing.T) {
	backends := chash.Named(manyNames("b", 12)...)
	backends[3].State, backends[4].State = chash.Unhealthy, chash.Draining
	r, err := chash.NewRing(backends, chash.WithSeed(9))
	require.NoError(t, err)
	for _, n := range []int{1, 2, 3, 9, 10, 11} {
		all := collect2(r.Holders(n))
		byName := map[string][]held{}
		for _, b := range backends {
			byName[b.Name] = collect1(r.RangesN(b.Name, n))
		}
		for _, key := range sampleKeys[:300] {
			want, position := must(r.GetN(key, n)), r.Position(key)
			in := slices.IndexFunc(all, func(h held) bool { return h.r.Contains(position) })
			if in < 0 || !slices.Equal(all[in].names, want) {
				t.Fatalf("Holders(%d) does not have GetN(%q, %d) = %q at %#x", n, key, n, want, position)
			}
			for name, ranges := range byName {
				holds := slices.ContainsFunc(ranges, func(h held) bool { return h.r.Contains(position) })
				if holds != slices.Contains(want, name) {
					t.Fatalf("RangesN(%q, %d) has %#x: %t, but GetN(%q, %d) = %q", name, n, position, holds, key, n, want)
				}
			}
		}
	}
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
		{"one", map[string]uint64{"a#0": 10}, ranges{"a": {{}}}},
		{"two", map[string]uint64{"a#0": 10, "b#0": 20}, ranges{
			"a": {{0, 11}, {21, 0}},
			"b": {{11, 21}},
		}},
		{"at the ends", map[string]uint64{"a#0": 0, "b#0": last}, ranges{
			"a": {{0, 1}},
			"b": {{1, 0}},
		}},
		{"one before the last position", map[string]uint64{"a#0": 0, "b#0": last - 1}, ranges{
			"a": {{0, 1}, {last, 0}},
			"b": {{1, last}},
		}},
		{"at one position", map[string]uint64{"a#0": 7, "b#0": 7, "c#0": 9}, ranges{
			"a": {{0, 8}, {10, 0}},
			"b": nil,
			"c": {{8, 10}},
		}},
		{"all at the last position", map[string]uint64{"a#0": last, "b#0": last}, ranges{
			"a": {{}},
			"b": nil,
		}},
		{"points of one side by side", map[string]uint64{"a#0": 10, "a#1": 15, "b#0": 20, "b#1": 30}, ranges{
			"a": {{0, 16}, {31, 0}},
			"b": {{16, 31}},
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
				if got := slices.Collect(r.Ranges(name)); !slices.Equal(got, want) {
					t.Errorf("Ranges(%q) = %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestMoves_ByHand: a backend arrives on a small ring, with copies and without.
func TestMoves_ByHand(t *testing.T) {
	points := map[string]uint64{"a#0": 100, "b#0": 200, "c#0": 300, "d#0": 250}
	r, err := chash.NewRing(chash.Named("a", "b", "c"), placedAt(points), chash.WithReplicas(1))
	require.NoError(t, err)
	before := r.Clone()
	require.NoError(t, r.Add(chash.Named("d")...))
	d, err := before.Diff(r)
	require.NoError(t, err)

	count, total := chash.Count{Lo: 50}, math.Exp2(64)
	require.Equal(t, chash.Diff{
		Moved: 50 / total, Least: 50 / total,
		Flows: []chash.Flow{{From: "c", To: "d", Count: count, Share: 50 / total}},
	}, d.Diff)
	require.Equal(t, []chash.Move{{Range: chash.Range{Start: 201, End: 251}, From: "c", To: "d"}}, slices.Collect(d.Moves()))

	// With two copies d takes over for those that had their second on c, too: 101
	// to 201 was b and c and is b and d, 201 to 251 was c and a and is d and c.
	require.Equal(t, []held{
		{chash.Range{Start: 101, End: 201}, []string{"b", "c"}},
		{chash.Range{Start: 201, End: 251}, []string{"c", "a"}},
	}, collect2(d.Gains("d", 2)))
	require.Equal(t, []held{{chash.Range{Start: 101, End: 201}, []string{"b", "d"}}}, collect2(d.Losses("c", 2)))
	require.Equal(t, []held{{chash.Range{Start: 201, End: 251}, []string{"d", "c"}}}, collect2(d.Losses("a", 2)))
	require.Empty(t, collect2(d.Losses("b", 2)))
	require.Empty(t, collect2(d.Gains("c", 2)))

	// With four copies d has one of everything, which nobody loses.
	require.Len(t, collect2(d.Gains("d", 4)), 4)
	require.Equal(t, []chash.Range{{}}, slices.Collect(r.RangesN("d", 4)))
	require.Empty(t, collect2(d.Losses("a", 4)))

	// Nobody before: all of it, from nowhere.
	empty, err := chash.NewRing(chash.Named(), placedAt(points), chash.WithReplicas(1))
	require.NoError(t, err)
	d, err = empty.Diff(before)
	require.NoError(t, err)
	require.Equal(t, []chash.Move{
		{Range: chash.Range{End: 101}, From: "", To: "a"},
		{Range: chash.Range{Start: 101, End: 201}, From: "", To: "b"},
		{Range: chash.Range{Start: 201, End: 301}, From: "", To: "c"},
		{Range: chash.Range{Start: 301}, From: "", To: "a"},
	}, slices.Collect(d.Moves()))
	require.Equal(t, []held{{chash.Range{}, []string{}}}, collect2(d.Gains("b", 3)))
	require.Empty(t, collect2(d.Losses("b", 3)))
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
	for _, n := range []int{1, 2, 9} {
		require.Equal(t, []chash.Range{{}}, slices.Collect(r.RangesN("up", n)))
		for _, name := range []string{"", "down", "draining", "upper", "unknown"} {
			require.Empty(t, slices.Collect(r.RangesN(name, n)), name)
		}
		require.Empty(t, slices.Collect(empty.RangesN("", n)))
		require.Empty(t, slices.Collect(sick.RangesN("down", n)))
		require.Empty(t, collect2(empty.Holders(n)))
		require.Empty(t, collect2(sick.Holders(n)))
	}
	var none chash.RingDiff
	require.Empty(t, slices.Collect(none.Moves()))
	require.Empty(t, collect2(none.Gains("up", 1)))
	require.Empty(t, collect2(none.Losses("up", 1)))
}

// TestRanges_Use: sequences can be left early and used again, when those of a ring
// follow it and those of a diff do not.
func TestRanges_Use(t *testing.T) {
	r, err := chash.NewRing(chash.Named("a", "b"))
	require.NoError(t, err)
	ranges, holders := r.Ranges("a"), r.Holders(2)
	first := func() (chash.Range, []string) {
		for one := range ranges {
			for two, names := range holders {
				require.Equal(t, uint64(0), two.Start)
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
	require.NoError(t, r.SetState("b", chash.Unhealthy))
	require.Equal(t, []chash.Range{{}}, slices.Collect(ranges))
	require.NoError(t, r.SetState("b", chash.Healthy))
	before := r.Clone()
	require.NoError(t, r.Remove("b"))
	d, err := before.Diff(r)
	require.NoError(t, err)
	moves := d.Moves()
	was := slices.Collect(moves)
	require.NoError(t, r.Add(chash.Named("c", "d")...))
	before.Clear()
	require.Equal(t, was, slices.Collect(moves))
	for m := range moves {
		require.Equal(t, was[0], m)
		break
	}
	for range d.Gains("a", 1) {
		break
	}
	for range before.Ranges("a") {
		t.Error("a range on an empty ring")
	}
	require.NotEmpty(t, all)
	for i, m := range was {
		require.Equal(t, []string{"b", "a"}, []string{m.From, m.To}, "move %d", i)
		for _, range_ := range all {
			require.False(t, range_.Contains(m.Start), "%v is in %v, which a had before", m, range_)
		}
	}
}

// TestRanges_WhileChanged: a sequence that is used while the ring changes is that
// of one state, and a change inside it does not wait for itself.
func TestRanges_WhileChanged(t *testing.T) {
	r, err := chash.NewRing(chash.Named("a", "b", "c"))
	require.NoError(t, err)
	want := slices.Collect(r.Ranges("a"))
	var got []chash.Range
	for one := range r.Ranges("a") {
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
	before := r.Clone()
	require.NoError(t, r.SetState("c", chash.Unhealthy))
	d, err := before.Diff(r)
	require.NoError(t, err)
	total := 0
	for n := 1; n <= 6; n++ {
		sum := new(big.Int)
		for one, names := range r.Holders(n) {
			sum.Add(sum, sizeOf(one))
			if len(names) != min(n, 5) {
				t.Fatalf("Holders(%d) has %q for %v, want %d names", n, names, one, min(n, 5))
			}
		}
		require.Equal(t, "18446744073709551616", sum.String())
		gained := 0
		for one, names := range d.Gains("d", n) {
			gained++
			if len(names) != n || slices.Contains(names, "d") || !slices.Contains(names, "c") {
				t.Fatalf("Gains(d, %d) has %q for %v, want %d names with c", n, names, one, n)
			}
		}
		if n == 6 && gained > 0 {
			t.Errorf("Gains(d, 6) has %d ranges, want none", gained)
		}
		total += gained
	}
	require.Positive(t, total)
	// Many placements, of which nearly all hold a copy.
	r, err = chash.NewRing(chash.Named(manyNames("b", 2000)...), chash.WithReplicas(100))
	require.NoError(t, err)
	sum := new(big.Int)
	for one := range r.RangesN("b7", 1999) {
		sum.Add(sum, sizeOf(one))
	}
	if whole := new(big.Int).Lsh(big.NewInt(1), 64); sum.Cmp(whole) > 0 || sum.BitLen() < 64 {
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
		size    chash.Count
		text    string
	}{
		{chash.Range{}, []uint64{0, 1, last}, nil, chash.Count{Hi: 1}, "[0x0000000000000000, 0x10000000000000000)"},
		{chash.Range{Start: 5, End: 7}, []uint64{5, 6}, []uint64{0, 4, 7, last}, chash.Count{Lo: 2}, "[0x0000000000000005, 0x0000000000000007)"},
		{chash.Range{End: 1}, []uint64{0}, []uint64{1, last}, chash.Count{Lo: 1}, "[0x0000000000000000, 0x0000000000000001)"},
		{chash.Range{Start: last}, []uint64{last}, []uint64{0, last - 1}, chash.Count{Lo: 1}, "[0xffffffffffffffff, 0x10000000000000000)"},
		{chash.Range{Start: 1}, []uint64{1, last}, []uint64{0}, chash.Count{Lo: last}, "[0x0000000000000001, 0x10000000000000000)"},
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
		if got := test.r.Size(); got != test.size {
			t.Errorf("%v.Size() = %v, want %v", test.r, got, test.size)
		}
		if got := test.r.String(); got != test.text {
			t.Errorf("String() = %s, want %s", got, test.text)
		}
	}
	m := chash.Move{Range: chash.Range{Start: 5, End: 7}, From: "a", To: ""}
	if got, want := m.String(), `[0x0000000000000005, 0x0000000000000007) from "a" to ""`; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}
