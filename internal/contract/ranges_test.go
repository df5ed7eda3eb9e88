package contract_test

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

func TestDiff_Twin(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		chashtest.Rounds(t, 120, func(t *testing.T, rng *rand.Rand) {
			n := rng.IntN(13)
			before := chashtest.RandomTwin(rng, ring, n)
			backends := chashtest.RandomBackends(rng, ring, n)
			if n > 0 {
				chashtest.RandomStates(rng, backends)
			}
			after := before.Clone()
			if ring && rng.IntN(4) == 0 {
				after.Size++ // replicas may differ
			}
			changed := chashtest.RandomChange(rng, ring, backends, n)
			s, next := chashtest.Twins(t, before, backends), chashtest.Twins(t, after, changed)
			require.NoError(t, chashtest.DifferInDiff(chashtest.MustDiff(t, s, next), before, after))
			require.NoError(t, chashtest.DifferInDiff(chashtest.MustDiff(t, next, s), after, before))
			require.NoError(t, before.Differ(s, nil, nil), "the first after Diff")
			require.NoError(t, after.Differ(next, nil, nil), "the second after Diff")
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
			backends := chashtest.Numbered("b", test.n)
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
					name = chashtest.Must(s.GetHash(chashtest.SampleHash(uint64(slot), uint64(test.size))))
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
		tape := chashtest.FuzzTape(data)
		ring := tape.Next(2) == 1
		before := chashtest.FuzzTwin(&tape, ring)
		after := before.Clone()
		make := func(w *chashtest.Twin) chashtest.Structure {
			var backends []chash.Backend[string]
			for _, name := range chashtest.FuzzNames[:8] {
				b := chash.Backend[string]{Name: name, Value: "value of " + name, Weight: 1}
				switch tape.Next(8) {
				case 0:
					continue
				case 1:
					b.State = chash.Unhealthy
				case 2:
					b.State = chash.Draining
				case 3:
					b.Weight = uint32(1 + tape.Next(7))
				case 4:
					b.HashKey = chashtest.FuzzNames[tape.Next(8)]
				case 5:
					b.HashKey, b.State = chashtest.FuzzNames[tape.Next(8)], chash.State(tape.Next(2))
				}
				backends = append(backends, b)
			}
			if w.Set(backends) != nil { // a table that is too small
				backends = nil
				w.Set(nil)
			}
			s, err := w.Build(backends)
			if err != nil {
				t.Fatalf("constructor with %+v: %v", backends, err)
			}
			return s
		}
		s, next := make(before), make(after)
		log := func(what string, err error) {
			if err != nil {
				t.Fatalf("ring=%t, size %d, seed %d, hash %t, from %+v to %+v: %s: %v",
					ring, before.Size, before.Seed, before.Hash != nil, before.List(), after.List(), what, err)
			}
		}
		d, err := chashtest.DiffOf(s, next)
		log("Diff", err)
		log("Diff", chashtest.DifferInDiff(d, before, after))
		if ring {
			r, next := s.(chashtest.RingOf[string]).Ring, next.(chashtest.RingOf[string]).Ring
			log("ranges before", before.DifferInRanges(r))
			log("ranges after", after.DifferInRanges(next))
			d, err := r.Diff(next)
			log("Diff", err)
			log("changes", chashtest.DifferInChanges(d, before, after))
		}
		log("the first after Diff", before.Differ(s, nil, before.Hashes()))
		log("the second after Diff", after.Differ(next, nil, after.Hashes()))
	})
}

// TestRanges_Twin: every range of any ring, and of any change, is the one that
// brute force finds.
func TestRanges_Twin(t *testing.T) {
	chashtest.Rounds(t, 120, func(t *testing.T, rng *rand.Rand) {
		n := rng.IntN(9)
		before := chashtest.RandomTwin(rng, true, n)
		before.Size = min(before.Size, 5)
		backends := chashtest.RandomBackends(rng, true, n)
		if n > 0 {
			chashtest.RandomStates(rng, backends)
		}
		after := before.Clone()
		after.Size += rng.IntN(2)
		changed := chashtest.RandomChange(rng, true, backends, n)
		r := chashtest.Twins(t, before, backends).(chashtest.RingOf[string]).Ring
		next := chashtest.Twins(t, after, changed).(chashtest.RingOf[string]).Ring
		require.NoError(t, before.DifferInRanges(r))
		d, err := r.Diff(next)
		require.NoError(t, err)
		require.NoError(t, chashtest.DifferInChanges(d, before, after))
		require.NoError(t, chashtest.DifferInDiff(d.Diff, before, after))
	})
}

// TestDiff_RingFewHealthy: rings on which the healthy points are so few that they
// are indexed, and that are held as if all were healthy.
func TestDiff_RingFewHealthy(t *testing.T) {
	backends := chash.Named(chashtest.ManyNames("b", 40)...)
	for i := range backends {
		if i%20 != 7 {
			backends[i].State = chash.Unhealthy
		}
	}
	before := chashtest.NewTwin(true, 2, 0, nil)
	r := chashtest.Twins(t, before, backends).(chashtest.RingOf[string]).Ring
	require.NoError(t, before.DifferInRanges(r))
	backends[7].State, backends[8].State = chash.Unhealthy, chash.Healthy
	after := chashtest.NewTwin(true, 2, 0, nil)
	next := chashtest.Twins(t, after, backends).(chashtest.RingOf[string]).Ring
	d, err := r.Diff(next)
	require.NoError(t, err)
	require.NoError(t, chashtest.DifferInDiff(d.Diff, before, after))
	require.NotEmpty(t, d.Flows)
	for n := range 3 {
		require.Empty(t, slices.Collect(d.Changes(n)), "no data moves for health")
	}
}

// TestRanges_Ends: on a ring as users have them, lookups agree with the ranges at
// their ends and next to them, and the ranges are the whole ring, once.
func TestRanges_Ends(t *testing.T) {
	backends := chash.Named(chashtest.ManyNames("b", 30)...)
	for i := range backends {
		backends[i].Weight = uint32(1 + i%3)
		backends[i].Value = "value of " + backends[i].Name
	}
	backends[5].State = chash.Draining
	backends[6].HashKey, backends[7].HashKey, backends[8].HashKey = "x", "x", "x"
	r, err := chash.NewRing(backends)
	require.NoError(t, err)
	lookup := func(h uint64) string { return chashtest.Must(r.GetHash(h)) }

	var all []chashtest.Held
	for _, b := range backends {
		for _, h := range chashtest.Collect1(r.Ranges(b.Name, 1)) {
			h.Names = []string{b.Value}
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b chashtest.Held) int { return cmp.Compare(a.R.First, b.R.First) })
	next, share := uint64(0), 0.0
	for i, h := range all {
		if h.R.First != next || i > 0 && h.R.First == 0 || h.R.Last < h.R.First {
			t.Fatalf("range %d of %d is %v, want it to begin behind the one before, at %#x", i, len(all), h.R, next)
		}
		next = h.R.Last + 1
		share += h.R.Share()
		for _, inside := range []uint64{h.R.First, h.R.First + (h.R.Last-h.R.First)/2, h.R.Last} {
			if got := lookup(inside); got != h.Names[0] {
				t.Errorf("GetHash(%#x) = %q, want %q, whose range is %v", inside, got, h.Names[0], h.R)
			}
		}
		for _, outside := range []uint64{h.R.First - 1, h.R.Last + 1} {
			crosses := outside == 0 || outside == math.MaxUint64 // where a range may go on
			if got := lookup(outside); got == h.Names[0] && !crosses {
				t.Errorf("GetHash(%#x) = %q, want another, for its range is %v", outside, got, h.R)
			}
		}
	}
	if next != 0 {
		t.Errorf("the last range goes up to %#x, want the last position", next-1)
	}
	require.InDelta(t, 1, share, 1e-12)
	for _, key := range chashtest.SampleKeys {
		owner, position := chashtest.Must(r.Get(key)), r.Position(key)
		in := slices.IndexFunc(all, func(h chashtest.Held) bool { return h.R.Contains(position) })
		if in < 0 || all[in].Names[0] != owner {
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
	backends := chash.Named(chashtest.ManyNames("b", 12)...)
	backends[4].State = chash.Draining
	backends[5].HashKey = "b6"
	r, err := chash.NewRing(backends, chash.WithSeed(9))
	require.NoError(t, err)
	sick := r.Clone()
	for _, name := range []string{"b3", "b5", "b7"} {
		require.NoError(t, sick.SetState(name, chash.Unhealthy))
	}
	for _, n := range []int{1, 2, 3, 9, 10, 11} {
		all := chashtest.Collect2(r.Holders(n))
		require.Equal(t, all, chashtest.Collect2(sick.Holders(n)))
		byName := map[string][]chashtest.Held{}
		for _, b := range backends {
			byName[b.Name] = chashtest.Collect1(r.Ranges(b.Name, n))
			require.Equal(t, byName[b.Name], chashtest.Collect1(sick.Ranges(b.Name, n)), b.Name)
		}
		for _, key := range chashtest.SampleKeys[:300] {
			want, position := chashtest.Must(r.GetN(key, n)), r.Position(key)
			require.Equal(t, chashtest.Must(sick.Owner(key)).Name, want[0])
			in := slices.IndexFunc(all, func(h chashtest.Held) bool { return h.R.Contains(position) })
			if in < 0 || !slices.Equal(all[in].Names, want) {
				t.Fatalf("Holders(%d) does not have GetN(%q, %d) = %q at %#x", n, key, n, want, position)
			}
			for name, ranges := range byName {
				holds := slices.ContainsFunc(ranges, func(h chashtest.Held) bool { return h.R.Contains(position) })
				if holds != slices.Contains(want, name) {
					t.Fatalf("Ranges(%q, %d) has %#x: %t, but GetN(%q, %d) = %q", name, n, position, holds, key, n, want)
				}
			}
		}
	}
}

// TestHolders_Owners: on any ring, with placements without points too, the holders of
// a position are the owners of the keys there, whatever the health.
func TestHolders_Owners(t *testing.T) {
	chashtest.Rounds(t, 12, func(t *testing.T, rng *rand.Rand) {
		option := chash.WithReplicas(3)
		if rng.IntN(3) > 0 {
			option = chashtest.SparseLayout
		}
		backends := chashtest.RandomBackends(rng, true, 1+rng.IntN(9))
		chashtest.RandomStates(rng, backends)
		r, err := chash.NewRing(backends, option)
		require.NoError(t, err)
		next := r.Clone()
		changed := chashtest.RandomChange(rng, true, backends, 9)
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
			all, changes := chashtest.Collect2(r.Holders(n)), slices.Collect(d.Changes(n))
			for _, key := range chashtest.SampleKeys[:60] {
				position, want, after := r.Position(key), owners(r, key, n), owners(next, key, n)
				in := slices.IndexFunc(all, func(h chashtest.Held) bool { return h.R.Contains(position) })
				if in < 0 {
					require.Empty(t, want)
				} else {
					require.Equal(t, want, all[in].Names, "%d holders of %#x", n, position)
				}
				for _, b := range backends {
					holds := slices.ContainsFunc(chashtest.Collect1(r.Ranges(b.Name, n)), func(h chashtest.Held) bool { return h.R.Contains(position) })
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
	r, err := chash.NewRing(chash.Named(chashtest.ManyNames("b", 12)...), chashtest.SparseLayout)
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
		name := chashtest.Must(r.GetHash(last))
		if want[name] == nil {
			want[name] = new(big.Int)
		}
		want[name].Add(want[name], chashtest.SizeOf(chash.Range{First: first, Last: last}))
		first = last + 1
	}
	empty, err := chash.NewRing[string](nil, chashtest.SparseLayout)
	require.NoError(t, err)
	d, err := empty.Diff(r)
	require.NoError(t, err)
	require.Len(t, d.Flows, len(want))
	require.Len(t, want, 8)
	for _, f := range d.Flows {
		require.Equal(t, chashtest.Share(want[f.To], chashtest.Positions), f.Share, f.To)
	}
	require.Equal(t, 1.0, d.Moved)
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
			sum.Add(sum, chashtest.SizeOf(one))
			if len(names) != min(n, 5) {
				t.Fatalf("Holders(%d) has %q for %v, want %d names", n, names, one, min(n, 5))
			}
		}
		require.Equal(t, chashtest.Positions, sum)
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
	r, err = chash.NewRing(chash.Named(chashtest.ManyNames("b", 2000)...), chash.WithReplicas(100))
	require.NoError(t, err)
	sum := new(big.Int)
	for one := range r.Ranges("b7", 1999) {
		sum.Add(sum, chashtest.SizeOf(one))
	}
	if sum.Cmp(chashtest.Positions) > 0 || sum.BitLen() < 64 {
		t.Errorf("b7 has one of 1999 copies of %v positions, want nearly all", sum)
	}
}

// TestOwners_Twin: they are the twin's order of preference as if all were healthy.
func TestOwners_Twin(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		chashtest.Rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
			n := 1 + rng.IntN(60)
			w, backends := chashtest.RandomTwin(rng, ring, n), chashtest.RandomBackends(rng, ring, n)
			chashtest.RandomStates(rng, backends)
			s := chashtest.Twins(t, w, backends)
			owning := w.Clone()
			for name, b := range owning.Backends {
				if b.State != chash.Draining {
					b.State = chash.Healthy
					owning.Backends[name] = b
				}
			}
			owning.Rebuild()
			for _, key := range chashtest.RandomKeys(rng, 10) {
				all := owning.Prefer(w.MetByKey(key), math.MaxInt)
				for i := range all { // with the states that there are
					all[i] = w.Backends[all[i].Name]
				}
				for _, n := range []int{math.MinInt, -1, 0, 1, 2, len(all) - 1, len(all), len(all) + 1, math.MaxInt} {
					want, wantErr := all[:max(0, min(n, len(all)))], owning.Err()
					if n <= 0 {
						wantErr = nil
					}
					got, err := s.Owners(key, n)
					require.Equal(t, wantErr, err)
					if !slices.Equal(got, want) {
						t.Fatalf("Owners(%q, %d) = %v, want %v", key, n, got, want)
					}
				}
			}
		})
	})
}

// TestOwners_AgreeWithHolders: on a ring they are the holders of the range that the key
// is in, whatever the health.
func TestOwners_AgreeWithHolders(t *testing.T) {
	backends := append(chashtest.Numbered("b", 20), chash.Backend[string]{Name: "stand-in", HashKey: "b3"})
	for i := range backends {
		backends[i].State = chash.State(i % 3 % 2)
	}
	ring, err := chash.NewRing(backends, chash.WithReplicas(10))
	require.NoError(t, err)
	for _, n := range []int{1, 3, 19, 20, 25} {
		met := 0
		for k := range 100 {
			key := fmt.Sprint("key", k)
			var got []string
			for _, b := range chashtest.Must(ring.Owners(key, n)) {
				got = append(got, b.Name)
			}
			for r, holders := range ring.Holders(n) {
				if r.Contains(ring.Position(key)) {
					require.Equal(t, holders, got, "key %q in %v", key, r)
					met++
				}
			}
		}
		require.Equal(t, 100, met)
	}
}
