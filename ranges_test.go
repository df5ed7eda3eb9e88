package chash_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

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
	chashtest.Rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
		copies := 1 + rng.IntN(4)
		backends := chashtest.RandomBackends(rng, true, 1+rng.IntN(7))
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
					for _, key := range chashtest.SampleKeys[:200] {
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
			require.NoError(t, next.Set(chashtest.RandomChange(rng, true, backends, 7)))
			d, err := r.Diff(next)
			require.NoError(t, err)
			for c := range d.Changes(copies) {
				for _, key := range chashtest.SampleKeys[:200] {
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
		require.Equal(t, []chashtest.Held{{R: whole, Names: []string{"down"}}}, chashtest.Collect2(sick.Holders(n)))
		require.Equal(t, []chash.Range{whole}, slices.Collect(sick.Ranges("down", n)))
		for _, name := range []string{"", "draining", "upper", "unknown"} {
			require.Empty(t, slices.Collect(r.Ranges(name, n)), name)
		}
		for _, r := range []*chash.Ring[string]{empty, gone} {
			require.Empty(t, slices.Collect(r.Ranges("", n)))
			require.Empty(t, slices.Collect(r.Ranges("draining", n)))
			require.Empty(t, chashtest.Collect2(r.Holders(n)))
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
		require.Empty(t, chashtest.Collect2(r.Holders(n)))
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
	for _, key := range append(chashtest.SampleKeys[:50], strings.Repeat("long", 300)) {
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
			if got, want := chashtest.Must(test.r.GetHash(test.r.Position(key))), chashtest.Must(test.r.Get(key)); got != want {
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
