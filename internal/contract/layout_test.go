package contract_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// tokensOf returns a ring layout that gives each placement the positions of a function.
func tokensOf(name string, positions func(hashKey string) []uint64) chash.RingLayout {
	return chash.RingLayout{
		Name: name,
		Points: func(placements []chash.Placement) ([]chash.VirtualNode, error) {
			var points []chash.VirtualNode
			for p, placement := range placements {
				for _, position := range positions(placement.HashKey) {
					points = append(points, chash.VirtualNode{Position: position, Placement: p})
				}
			}
			return points, nil
		},
	}
}

// spreadOf gives each placement a number of positions.
func spreadOf(n int) func(hashKey string) []uint64 {
	return func(hashKey string) (positions []uint64) {
		for i := range n {
			positions = append(positions, xxhash.Sum64String(fmt.Sprint(hashKey, "/", i)))
		}
		return positions
	}
}

// turnsOf returns a table layout in which slots take placements in turn, from a number on.
func turnsOf(name string, from int) chash.TableLayout {
	return chash.TableLayout{
		Name: name,
		Slots: func(placements []chash.Placement, size int) ([]uint32, error) {
			if len(placements) == 0 {
				return nil, nil
			}
			slots := make([]uint32, size)
			for i := range slots {
				slots[i] = uint32((i + from) % len(placements))
			}
			return slots, nil
		},
	}
}

// A ring with given points is the one that a plain search finds, also where many points
// are at one position: then the first of them counts.
func TestRingLayout_Twin(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	for range 60 {
		n, crowd := 1+r.IntN(300), uint64(1)<<r.IntN(64) // positions are multiples of the crowd
		var given []chash.VirtualNode
		names := make([]string, 1+r.IntN(300))
		for i := range names {
			names[i] = fmt.Sprintf("b%03d", i)
		}
		few := r.IntN(3) == 0 // positions, next to each other
		for range n {
			position := r.Uint64() / crowd * crowd
			if few {
				position = r.Uint64N(8)
			}
			given = append(given, chash.VirtualNode{Position: position, Placement: r.IntN(len(names))})
		}
		ring, err := chash.NewRing(chash.Named(names...), chash.WithRingLayout(chash.RingLayout{
			Name: "given",
			Hash: func(key string) uint64 { return xxhash.Sum64String(key) },
			Points: func(placements []chash.Placement) ([]chash.VirtualNode, error) {
				if len(placements) == 0 {
					return nil, nil
				}
				return given, nil
			},
		}))
		require.NoError(t, err)

		points := slices.Clone(given)
		slices.SortStableFunc(points, func(p, q chash.VirtualNode) int { return cmp.Compare(p.Position, q.Position) })
		points = slices.CompactFunc(points, func(p, q chash.VirtualNode) bool { return p.Position == q.Position })
		require.Equal(t, len(points), ring.Stats().Size)
		exported := ring.AppendPoints(nil)
		for i, p := range points {
			require.Equal(t, chash.Point{Position: p.Position, Backend: uint32(p.Placement)}, exported[i])
			for _, hash := range []uint64{p.Position - 1, p.Position, p.Position + 1, r.Uint64()} {
				at := sort.Search(len(points), func(i int) bool { return points[i].Position >= hash })
				got, err := ring.GetHash(hash)
				require.NoError(t, err)
				require.Equal(t, names[points[at%len(points)].Placement], got)
			}
		}
	}
}

// A table with given slots has them, whatever the number of placements.
func TestTableLayout_Twin(t *testing.T) {
	for _, n := range []int{1, 2, 255, 256, 257, 65536, 65537, 70000} {
		const size = 70001
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("b%06d", i)
		}
		layout := turnsOf("turns", 3)
		slotsOf := layout.Slots
		var given []uint32
		layout.Slots = func(placements []chash.Placement, size int) (_ []uint32, err error) {
			given, err = slotsOf(placements, size)
			return given, err
		}
		table, err := chash.NewMaglev(chash.Named(names...), chash.WithTableSize(size), chash.WithTableLayout(layout))
		require.NoError(t, err)
		clear(given) // it is the layout's
		for slot, owner := range table.AppendTable(nil) {
			if want := uint32((slot + 3) % n); owner != want {
				t.Fatalf("%d placements: slot %d is of %d, want %d", n, slot, owner, want)
			}
		}
		got, err := table.GetHash(size + 5)
		require.NoError(t, err)
		require.Equal(t, names[8%n], got)
	}
}

// The function is given the placements: hash keys once each, sorted, without Draining
// backends, with the largest weight.
func TestLayout_Placements(t *testing.T) {
	var given []chash.Placement
	layout := tokensOf("given", spreadOf(1))
	points := layout.Points
	layout.Points = func(placements []chash.Placement) ([]chash.VirtualNode, error) {
		given = slices.Clone(placements)
		list, err := points(placements)
		clear(placements) // they are its own
		return list, err
	}
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "c", Weight: 2}, {Name: "a", HashKey: "z"}, {Name: "b", HashKey: "c", Weight: 7},
		{Name: "d", State: chash.Draining}, {Name: "e", State: chash.Unhealthy},
	}, chash.WithRingLayout(layout))
	require.NoError(t, err)
	want := []chash.Placement{{HashKey: "c", Weight: 7}, {HashKey: "e", Weight: 1}, {HashKey: "z", Weight: 1}}
	require.Equal(t, want, given)
	require.NoError(t, ring.SetState("c", chash.Unhealthy))
	require.NoError(t, ring.SetValue("c", "v"))
	require.Equal(t, uint64(1), ring.Stats().Rebuilds)
	require.NoError(t, ring.Remove("b"))
	want[0].Weight = 2
	require.Equal(t, want, given)
}

var errOfLayout = errors.New("the layout's own")

// An error of the function is in that of the change, which changes nothing; one that it
// has without placements is in that of the constructor.
func TestLayout_Errors(t *testing.T) {
	fail := false
	points, slots := tokensOf("picky", spreadOf(1)), turnsOf("picky", 0)
	pointsOf, slotsOf := points.Points, slots.Slots
	points.Points = func(placements []chash.Placement) ([]chash.VirtualNode, error) {
		if fail {
			return nil, errOfLayout
		}
		return pointsOf(placements)
	}
	slots.Slots = func(placements []chash.Placement, size int) ([]uint32, error) {
		if fail {
			return nil, errOfLayout
		}
		return slotsOf(placements, size)
	}
	ring, err := chashtest.NewRing(chash.Named("a", "b"), chash.WithRingLayout(points))
	require.NoError(t, err)
	table, err := chashtest.NewMaglev(chash.Named("a", "b"), chash.WithTableLayout(slots))
	require.NoError(t, err)

	fail = true
	for _, s := range []chashtest.Structure{ring, table} {
		before := s.Backends()
		for _, err := range []error{s.Add(chash.Named("c")...), s.Remove("a"), s.Set(chash.Named("c")), s.SetWeight("a", 9), s.SetState("a", chash.Draining)} {
			require.ErrorIs(t, err, errOfLayout)
			require.ErrorContains(t, err, `layout "picky"`)
		}
		require.Equal(t, before, s.Backends())
		require.NoError(t, s.SetState("a", chash.Unhealthy), "no placement changes")
		got, err := s.Get("key")
		require.NoError(t, err)
		require.Equal(t, "b", got)
		s.Clear() // asks no layout
		_, err = s.Get("key")
		require.ErrorIs(t, err, chash.ErrNoBackends)
	}
	_, err = chash.NewRing[string](nil, chash.WithRingLayout(points))
	require.ErrorIs(t, err, errOfLayout)
	_, err = chash.NewMaglev[string](nil, chash.WithTableLayout(slots))
	require.ErrorIs(t, err, errOfLayout)
}

// What is not a ring or a table is refused.
func TestLayout_Invalid(t *testing.T) {
	ring := func(points ...chash.VirtualNode) error {
		_, err := chash.NewRing(chash.Named("a", "b"), chash.WithRingLayout(chash.RingLayout{
			Name: "bad",
			Points: func(placements []chash.Placement) ([]chash.VirtualNode, error) {
				return points[:min(len(points), 1000*len(placements))], nil
			},
		}))
		return err
	}
	require.NoError(t, ring(chash.VirtualNode{Placement: 1}), "not every placement has a point")
	require.ErrorIs(t, ring(), chash.ErrInvalidLayout)
	require.ErrorIs(t, ring(chash.VirtualNode{Placement: 2}), chash.ErrInvalidLayout)
	require.ErrorIs(t, ring(chash.VirtualNode{}, chash.VirtualNode{Placement: -1}), chash.ErrInvalidLayout)

	table := func(slots ...uint32) error {
		_, err := chash.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(3), chash.WithTableLayout(chash.TableLayout{
			Name: "bad",
			Slots: func(placements []chash.Placement, _ int) ([]uint32, error) {
				return slots[:min(len(slots), 1000*len(placements))], nil
			},
		}))
		return err
	}
	require.NoError(t, table(1, 1, 1), "not every placement has a slot")
	require.ErrorIs(t, table(), chash.ErrInvalidLayout)
	require.ErrorIs(t, table(0, 1), chash.ErrInvalidLayout)
	require.ErrorIs(t, table(0, 1, 0, 1), chash.ErrInvalidLayout)
	require.ErrorIs(t, table(0, 1, 2), chash.ErrInvalidLayout)

	_, err := chash.NewRing[int](nil, chash.WithRingLayout(chash.RingLayout{
		Name:   "owners of nobody",
		Points: func([]chash.Placement) ([]chash.VirtualNode, error) { return make([]chash.VirtualNode, 1), nil },
	}))
	require.ErrorIs(t, err, chash.ErrInvalidLayout)
	_, err = chash.NewMaglev[int](nil, chash.WithTableLayout(chash.TableLayout{
		Name:  "owners of nobody",
		Slots: func(_ []chash.Placement, size int) ([]uint32, error) { return make([]uint32, size), nil },
	}))
	require.ErrorIs(t, err, chash.ErrInvalidLayout)
}

// TestLayout_Limit: a ring has as many points as WithMaxSize allows, and not one more.
func TestLayout_Limit(t *testing.T) {
	layout := chash.WithRingLayout(chash.RingLayout{
		Name: "two points a backend",
		Points: func(placements []chash.Placement) (points []chash.VirtualNode, err error) {
			for p := range placements {
				points = append(points,
					chash.VirtualNode{Position: uint64(p) << 60, Placement: p},
					chash.VirtualNode{Position: uint64(p)<<60 + 1, Placement: p})
			}
			return points, nil
		},
	})
	ring, err := chash.NewRing(chash.Named("a", "b"), layout, chash.WithMaxSize(4))
	require.NoError(t, err)
	require.ErrorIs(t, ring.Add(chash.Named("c")...), chash.ErrRingTooLarge)
	require.Equal(t, 4, ring.Stats().Size, "the refused change changed nothing")
}

func TestRingLayout_TooLarge(t *testing.T) {
	if testing.Short() || bits.UintSize == 32 {
		t.Skip("takes a GiB of address space")
	}
	points := make([]chash.VirtualNode, chash.MaxRingPoints+1)
	_, err := chash.NewRing(chash.Named("a"), chash.WithRingLayout(chash.RingLayout{
		Name: "large",
		Points: func(placements []chash.Placement) ([]chash.VirtualNode, error) {
			return points[:len(placements)*len(points)], nil
		},
	}))
	require.ErrorIs(t, err, chash.ErrRingTooLarge)
}

// What a layout excludes, and what it lacks.
func TestLayout_Options(t *testing.T) {
	layout, slots := tokensOf("a", spreadOf(1)), turnsOf("a", 0)
	nameless, empty := layout, layout
	nameless.Name, empty.Points = "", nil
	for name, opts := range map[string][]chash.RingOption{
		"a hash":      {chash.WithRingLayout(layout), chash.WithHash(xxhash.Sum64String)},
		"a seed":      {chash.WithSeed(1), chash.WithRingLayout(layout)},
		"replicas":    {chash.WithRingLayout(layout), chash.WithReplicas(3)},
		"no name":     {chash.WithRingLayout(nameless)},
		"no function": {chash.WithRingLayout(empty)},
	} {
		_, err := chash.NewRing[int](nil, opts...)
		require.ErrorIs(t, err, chash.ErrInvalidOption, name)
	}
	namelessSlots, emptySlots := slots, slots
	namelessSlots.Name, emptySlots.Slots = "", nil
	for name, opts := range map[string][]chash.MaglevOption{
		"a hash":      {chash.WithTableLayout(slots), chash.WithHash(xxhash.Sum64String)},
		"a seed":      {chash.WithSeed(1), chash.WithTableLayout(slots)},
		"no name":     {chash.WithTableLayout(namelessSlots)},
		"slack":       {chash.WithSlack(1), chash.WithTableLayout(slots)},
		"no function": {chash.WithTableLayout(emptySlots)},
	} {
		_, err := chash.NewMaglev[int](nil, opts...)
		require.ErrorIs(t, err, chash.ErrInvalidOption, name)
	}
}

// The size of a layout is that of the table where no other is given, in any order.
func TestTableLayout_Size(t *testing.T) {
	layout := turnsOf("small", 0)
	layout.TableSize = 7
	size := func(opts ...chash.MaglevOption) int {
		table, err := chash.NewMaglev(chash.Named("a"), opts...)
		require.NoError(t, err)
		require.Equal(t, table.Config().TableSize, table.Stats().Size)
		return table.Stats().Size
	}
	require.Equal(t, 7, size(chash.WithTableLayout(layout)))
	require.Equal(t, 13, size(chash.WithTableLayout(layout), chash.WithTableSize(13)))
	require.Equal(t, 13, size(chash.WithTableSize(13), chash.WithTableLayout(layout)))
	require.Equal(t, chash.DefaultTableSize, size(chash.WithTableSize(chash.DefaultTableSize), chash.WithTableLayout(layout)))
	layout.TableSize = 8
	_, err := chash.NewMaglev(chash.Named("a"), chash.WithTableLayout(layout))
	require.ErrorIs(t, err, chash.ErrTableSizeNotPrime)
}

// Stats, Explain, Fingerprint, Config and what Marshal writes carry the name.
func TestLayout_Carried(t *testing.T) {
	backends := chash.Named("a", "b", "c")
	make1 := func(name string) *chash.Ring[string] {
		ring, err := chash.NewRing(backends, chash.WithRingLayout(tokensOf(name, spreadOf(5))))
		require.NoError(t, err)
		return ring
	}
	one, other := make1("one"), make1("other")
	require.Equal(t, one.AppendPoints(nil), other.AppendPoints(nil))
	require.NotEqual(t, one.Fingerprint(), other.Fingerprint())
	require.NotEqual(t, one.LiveFingerprint(), other.LiveFingerprint())
	require.Equal(t, one.Fingerprint(), make1("one").Fingerprint())
	require.Equal(t, "one", one.Stats().Layout)
	require.Contains(t, one.Explain("key").String(), `layout "one"`)
	data, err := json.Marshal(one.Stats())
	require.NoError(t, err)
	require.Contains(t, string(data), `"layout":"one"`)
	data, err = json.Marshal(one.Explain("key"))
	require.NoError(t, err)
	require.Contains(t, string(data), `"layout":"one"`)

	again, err := chash.NewRing(one.Backends(), one.Config())
	require.NoError(t, err)
	require.Equal(t, one.Fingerprint(), again.Fingerprint())
	require.Equal(t, "one", again.Config().RingLayout.Name)
	require.Equal(t, one.Fingerprint(), one.Clone().Fingerprint())
	plain, err := chash.NewRing(backends)
	require.NoError(t, err)
	require.Empty(t, plain.Stats().Layout)
	require.NotContains(t, plain.Explain("key").String(), "layout")

	table, err := chash.NewMaglev(backends, chash.WithTableLayout(turnsOf("turns", 1)))
	require.NoError(t, err)
	copied, err := chash.NewMaglev(table.Backends(), table.Config())
	require.NoError(t, err)
	require.Equal(t, table.Fingerprint(), copied.Fingerprint())
	require.Equal(t, "turns", copied.Stats().Layout)

	table.Clear()
	require.Zero(t, table.Fingerprint())
}

// Data of a layout are read with that layout alone.
func TestLayout_Marshal(t *testing.T) {
	backends := chash.Named("a", "b", "c")
	layout := chash.WithRingLayout(tokensOf("one", spreadOf(5)))
	ring, err := chash.NewRing(backends, layout)
	require.NoError(t, err)
	data, err := ring.Marshal(nil)
	require.NoError(t, err)
	again, err := chash.UnmarshalRing[string](data, nil, layout)
	require.NoError(t, err)
	require.Equal(t, ring.Fingerprint(), again.Fingerprint())
	require.Equal(t, "one", again.Stats().Layout)
	twice, err := again.Marshal(nil)
	require.NoError(t, err)
	require.Equal(t, data, twice)

	plain, err := chash.NewRing(backends)
	require.NoError(t, err)
	plainData, err := plain.Marshal(nil)
	require.NoError(t, err)
	otherHash := tokensOf("one", spreadOf(5))
	otherHash.Hash = func(key string) uint64 { return xxhash.Sum64String(key) << 32 }
	picky := tokensOf("one", spreadOf(5))
	picky.Points = func(placements []chash.Placement) ([]chash.VirtualNode, error) {
		if len(placements) > 0 {
			return nil, errOfLayout
		}
		return nil, nil
	}
	for name, read := range map[string]struct {
		data []byte
		opts []chash.RingOption
	}{
		"another name":              {data, []chash.RingOption{chash.WithRingLayout(tokensOf("other", spreadOf(5)))}},
		"no layout":                 {data, nil},
		"no layout but a hash":      {data, []chash.RingOption{chash.WithHash(xxhash.Sum64String)}},
		"another hash":              {data, []chash.RingOption{chash.WithRingLayout(otherHash)}},
		"other points":              {data, []chash.RingOption{chash.WithRingLayout(tokensOf("one", spreadOf(6)))}},
		"a function that refuses":   {data, []chash.RingOption{chash.WithRingLayout(picky)}},
		"replicas":                  {data, []chash.RingOption{layout, chash.WithReplicas(7)}},
		"a layout for a plain ring": {plainData, []chash.RingOption{layout}},
	} {
		_, err := chash.UnmarshalRing[string](read.data, nil, read.opts...)
		require.ErrorIs(t, err, chash.ErrOptionsDiffer, name)
	}
	_, err = chash.UnmarshalRing[string](data, nil, chash.WithRingLayout(tokensOf("other", spreadOf(5))))
	require.ErrorContains(t, err, `"one"`)
	_, err = chash.UnmarshalRing[string](data, nil, chash.WithRingLayout(picky))
	require.ErrorIs(t, err, errOfLayout)

	slots := turnsOf("turns", 1)
	slots.TableSize = 7
	table, err := chash.NewMaglev(backends, chash.WithTableLayout(slots), chash.WithTableSize(13))
	require.NoError(t, err)
	data, err = table.Marshal(nil)
	require.NoError(t, err)
	back, err := chash.UnmarshalMaglev[string](data, nil, chash.WithTableLayout(slots))
	require.NoError(t, err)
	require.Equal(t, 13, back.Stats().Size, "of the data, not of the layout")
	require.Equal(t, table.Fingerprint(), back.Fingerprint())
	_, err = chash.UnmarshalMaglev[string](data, nil)
	require.ErrorIs(t, err, chash.ErrOptionsDiffer)
	_, err = chash.UnmarshalMaglev[string](data, nil, chash.WithTableLayout(turnsOf("turns", 2)))
	require.ErrorIs(t, err, chash.ErrOptionsDiffer)
}

// Two layouts with one hash of keys can be compared: what a change of the layout moves.
func TestLayout_Diff(t *testing.T) {
	backends := chash.Named("a", "b")
	first, err := chash.NewRing(backends, chash.WithRingLayout(tokensOf("first", func(hashKey string) []uint64 {
		return map[string][]uint64{"a": {1 << 62}, "b": {2 << 62}}[hashKey]
	})))
	require.NoError(t, err)
	second, err := chash.NewRing(backends, chash.WithRingLayout(tokensOf("second", func(hashKey string) []uint64 {
		return map[string][]uint64{"a": {2 << 62}, "b": {1 << 62}}[hashKey]
	})))
	require.NoError(t, err)
	diff, err := first.Diff(second)
	require.NoError(t, err)
	require.InDelta(t, 1.0, diff.Moved, 1e-9)

	plain, err := chash.NewRing(backends)
	require.NoError(t, err)
	_, err = plain.Diff(first)
	require.ErrorIs(t, err, chash.ErrIncomparable)

	table, err := chash.NewMaglev(backends, chash.WithTableSize(13))
	require.NoError(t, err)
	turns, err := chash.NewMaglev(backends, chash.WithTableSize(13), chash.WithTableLayout(turnsOf("turns", 0)))
	require.NoError(t, err)
	got, err := table.Diff(turns)
	require.NoError(t, err)
	differ, owners := 0, turns.AppendTable(nil)
	for slot, owner := range table.AppendTable(nil) {
		if owners[slot] != owner {
			differ++
		}
	}
	require.InDelta(t, float64(differ)/13, got.Moved, 1e-9)
}

// A backend's keys move to those that have the next points, and no other key moves.
func TestRingLayout_Health(t *testing.T) {
	ring, err := chash.NewRing(chashtest.Numbered("b", 10), chash.WithRingLayout(tokensOf("given", spreadOf(20))))
	require.NoError(t, err)
	before := ring.Clone()
	require.NoError(t, ring.SetState("b3", chash.Unhealthy))
	for i := range 2000 {
		key := fmt.Sprint("key", i)
		order, err := before.GetN(key, 2)
		require.NoError(t, err)
		got, err := ring.Get(key)
		require.NoError(t, err)
		if order[0] == "b3" {
			order = order[1:]
		}
		require.Equal(t, order[0], got)
	}
}

// A placement without points or slots has no keys, and is last in every key's order of
// preference.
func TestLayout_Idle(t *testing.T) {
	backends := chash.Named("a", "b", "c", "d")
	ring, err := chashtest.NewRing(backends, chash.WithRingLayout(tokensOf("without b and d", func(hashKey string) []uint64 {
		return map[string][]uint64{"a": {1 << 62, 3 << 62}, "c": {2 << 62}}[hashKey]
	})))
	require.NoError(t, err)
	table, err := chashtest.NewMaglev(backends, chash.WithTableSize(13), chash.WithTableLayout(chash.TableLayout{
		Name: "without b and d",
		Slots: func(placements []chash.Placement, size int) ([]uint32, error) {
			slots := make([]uint32, min(size, size*len(placements)))
			for i := range slots {
				slots[i] = uint32(i % 2 * 2)
			}
			return slots, nil
		},
	}))
	require.NoError(t, err)
	for _, s := range []chashtest.Structure{ring, table} {
		met := map[string]bool{}
		for i := range 100 {
			key := fmt.Sprint("key", i)
			order, err := s.GetN(key, 9)
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"a", "c"}, order[:2])
			require.ElementsMatch(t, []string{"b", "d"}, order[2:])
			met[order[0]] = true
			require.NotEmpty(t, s.Explain(key).Backend)
		}
		require.Len(t, met, 2)
		shares := s.Shares()
		require.Zero(t, shares[1].Share+shares[3].Share)
		require.Zero(t, s.Stats().MinShareRatio)
		require.NotZero(t, s.Fingerprint())

		require.NoError(t, s.SetState("a", chash.Unhealthy))
		require.NoError(t, s.SetState("c", chash.Unhealthy))
		met = map[string]bool{}
		for i := range 100 {
			got, err := s.Get(fmt.Sprint("key", i))
			require.NoError(t, err)
			require.Contains(t, []string{"b", "d"}, got)
			met[got] = true
		}
		got, err := s.Next()
		require.NoError(t, err)
		require.Contains(t, []string{"b", "d"}, got)
		require.NotZero(t, s.LiveFingerprint())
		require.NoError(t, s.SetState("b", chash.Draining))
		got, err = s.Get("key")
		require.NoError(t, err)
		require.Equal(t, "d", got)
	}
}

// A plain layout of the caller's is the default ring with a hash: what is laid out at once
// and what changes bring about is the same.
func TestRingLayout_AsDefault(t *testing.T) {
	layout := chash.RingLayout{
		Name: "as the default",
		Points: func(placements []chash.Placement) (points []chash.VirtualNode, _ error) {
			for p, placement := range placements {
				for i := range 160 * int(placement.Weight) {
					points = append(points, chash.VirtualNode{
						Position:  xxhash.Sum64String(fmt.Sprintf("%s#%d", placement.HashKey, i)),
						Placement: p,
					})
				}
			}
			return points, nil
		},
	}
	custom, err := chash.NewRing(chashtest.Numbered("b", 20), chash.WithRingLayout(layout))
	require.NoError(t, err)
	plain, err := chash.NewRing(chashtest.Numbered("b", 20), chash.WithHash(xxhash.Sum64String))
	require.NoError(t, err)
	for _, ring := range []*chash.Ring[string]{custom, plain} {
		require.NoError(t, ring.SetWeight("b7", 3))
		require.NoError(t, ring.Remove("b2", "b11"))
		require.NoError(t, ring.Add(chashtest.Numbered("c", 5)...))
	}
	require.Equal(t, plain.AppendPoints(nil), custom.AppendPoints(nil))
	require.Equal(t, plain.Shares(), custom.Shares())
	diff, err := plain.Diff(custom)
	require.NoError(t, err)
	require.Zero(t, diff.Moved)
}

// Data of a layout with any byte changed are refused, or are those of another structure
// with that layout.
func TestLayout_AnyByte(t *testing.T) {
	layout := chash.WithRingLayout(tokensOf("one", spreadOf(2)))
	ring, err := chash.NewRing(chash.Named("a", "b"), layout)
	require.NoError(t, err)
	data, err := ring.Marshal(nil)
	require.NoError(t, err)
	for at := range len(data) - 8 {
		for value := range 256 {
			changed := slices.Clone(data)
			changed[at] = byte(value)
			body := changed[:len(changed)-8]
			binary.BigEndian.PutUint64(changed[len(body):], xxhash.Sum64(body))
			got, err := chash.UnmarshalRing[string](changed, nil, layout)
			if err != nil {
				require.True(t, errors.Is(err, chash.ErrCorrupt) || errors.Is(err, chash.ErrOptionsDiffer), "byte %d = %d: %v", at, value, err)
				continue
			}
			again, err := got.Marshal(nil)
			require.NoError(t, err)
			require.Equal(t, changed, again, "byte %d = %d", at, value)
		}
	}
}

// A form with what no structure with a layout has is corrupt.
func TestLayout_Form(t *testing.T) {
	layout := chash.WithRingLayout(tokensOf("one", spreadOf(2)))
	ring, err := chash.NewRing[string](nil, layout)
	require.NoError(t, err)
	data, err := ring.Marshal(nil)
	require.NoError(t, err)
	const head = "chash\x00R\x01"
	name := []byte("\x08\x03one")
	at := bytes.Index(data, name)
	require.Positive(t, at)
	number := func(option byte, value uint64) []byte {
		return binary.BigEndian.AppendUint64([]byte{option}, value)
	}
	for what, options := range map[string][]byte{
		"an empty name":             []byte("\x08\x00"),
		"two names":                 slices.Concat(name, name),
		"a name that is cut short":  []byte("\x08\xFF\x01one"),
		"an option after the name":  slices.Concat(name, number(2, 7)),
		"a seed beside the name":    slices.Concat(number(2, 7), name),
		"replicas beside the name":  nil, // below
		"a name without its option": []byte("\x03one"),
	} {
		form := slices.Concat(data[:at], options, data[at+len(name):len(data)-8])
		if what == "replicas beside the name" {
			form = slices.Clone(data[:len(data)-8])
			copy(form[len(head):], number(1, 160))
		}
		form = binary.BigEndian.AppendUint64(form, xxhash.Sum64(form))
		_, err := chash.UnmarshalRing[string](form, nil, layout)
		require.ErrorIs(t, err, chash.ErrCorrupt, what)
	}
}

// TestLayout_ConfigIsACopy: what a caller writes to a Config changes no structure, neither
// the one that it came from nor the one that was made with it.
func TestLayout_ConfigIsACopy(t *testing.T) {
	ring, err := chash.NewRing(chash.Named("a", "b"), chash.WithRingLayout(tokensOf("one", spreadOf(5))))
	require.NoError(t, err)
	config := ring.Config()
	again, err := chash.NewRing(chash.Named("a", "b"), config)
	require.NoError(t, err)
	*config.RingLayout = chash.RingLayout{}
	for _, r := range []*chash.Ring[string]{ring, again} {
		require.Equal(t, "one", r.Stats().Layout)
		require.NoError(t, r.Add(chash.Named("c")...))
	}
	slots := func(_ []chash.Placement, size int) ([]uint32, error) { return make([]uint32, size), nil }
	table, err := chash.NewMaglev(chash.Named("a"), chash.WithTableLayout(chash.TableLayout{
		Name: "one",
		Slots: func(placements []chash.Placement, size int) ([]uint32, error) {
			if len(placements) == 0 {
				return nil, nil
			}
			return slots(placements, size)
		},
	}))
	require.NoError(t, err)
	*table.Config().TableLayout = chash.TableLayout{}
	require.Equal(t, "one", table.Stats().Layout)
	require.NoError(t, table.Add(chash.Named("b")...))
}

// TestLayout_MarshalHasOneForm: data without a size, or with options that a layout excludes,
// are corrupt, although their checksum is right.
func TestLayout_MarshalHasOneForm(t *testing.T) {
	layout := chash.WithRingLayout(tokensOf("one", spreadOf(5)))
	ring, err := chash.NewRing(chash.Named("a", "b"), layout)
	require.NoError(t, err)
	data, err := ring.Marshal(nil)
	require.NoError(t, err)
	const head, option = 8, 9 // bytes; the options are the size, the hash and the name
	sum := func(parts ...[]byte) []byte {
		all := slices.Concat(parts...)
		return binary.BigEndian.AppendUint64(all, xxhash.Sum64(all))
	}
	body := data[:len(data)-8]
	_, err = chash.UnmarshalRing[string](sum(body), nil, layout)
	require.NoError(t, err)
	_, err = chash.UnmarshalRing[string](sum(body[:head], body[head+option:]), nil, layout)
	require.ErrorIs(t, err, chash.ErrCorrupt)
	require.ErrorContains(t, err, "no size")
	unit := []byte{6, 0, 0, 0, 0, 0, 0, 0, 5}
	_, err = chash.UnmarshalRing[string](sum(body[:head+2*option], unit, body[head+2*option:]), nil, layout)
	require.ErrorIs(t, err, chash.ErrCorrupt)
	require.ErrorContains(t, err, "unit weight and a layout")
}
