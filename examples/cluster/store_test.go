package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func newTestStore(t *testing.T) *store {
	t.Helper()
	ring, err := chash.NewRing[string](nil)
	require.NoError(t, err)
	return newStore(ring.Position)
}

// live returns the value of a key, empty if it has none.
func live(s *store, key string) string {
	e, found := s.get(key)
	if !found || e.Deleted {
		return ""
	}
	return string(e.Value)
}

func TestVersion_TotalOrder(t *testing.T) {
	t.Parallel()
	order := []version{{}, {1, ""}, {1, "a"}, {1, "b"}, {2, "a"}, {math.MaxInt64, ""}}
	for i, v := range order {
		for j, w := range order {
			require.Equal(t, i < j, v.compare(w) < 0, "%v %v", v, w)
			require.Equal(t, i == j, v.compare(w) == 0, "%v %v", v, w)
		}
	}
}

func TestStore_LastWriterWins(t *testing.T) {
	t.Parallel()
	writes := []entry{
		{Key: "k", Value: []byte("first"), Version: version{1, "a"}},
		{Key: "k", Value: []byte("second"), Version: version{1, "b"}},
		{Key: "k", Deleted: true, Version: version{2, "a"}},
		{Key: "k", Value: []byte("last"), Version: version{3, "a"}},
	}
	for range 50 { // in whatever order they arrive, and however often
		s := newTestStore(t)
		arriving := append(slices.Clone(writes), writes[rand.N(len(writes))])
		rand.Shuffle(len(arriving), func(i, j int) { arriving[i], arriving[j] = arriving[j], arriving[i] })
		var newest version
		for _, e := range arriving {
			if e.Version.compare(newest) > 0 {
				newest = e.Version
			}
			require.Equal(t, newest, s.merge(e))
		}
		require.Equal(t, "last", live(s, "k"))
	}
}

func TestStore_TombstoneKeepsKeyDeleted(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	written := s.put("a", "k", []byte("v"), false)
	deleted := s.put("a", "k", nil, true)
	require.Positive(t, deleted.Version.compare(written.Version))
	require.Equal(t, deleted.Version, s.merge(written))
	require.Empty(t, live(s, "k"))
}

// A write is past all that was seen, even from a node whose clock is far ahead.
func TestStore_PutIsPastAllSeen(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	ahead := time.Now().Add(time.Hour).UnixNano()
	s.merge(entry{Key: "k", Version: version{ahead, "z"}})
	require.Equal(t, version{ahead + 1, "a"}, s.put("a", "k", nil, false).Version)
	s.observe(version{ahead + 10, "z"})
	require.Equal(t, version{ahead + 11, "a"}, s.put("a", "other", nil, false).Version)
	s.observe(version{1, "z"})
	require.Equal(t, version{ahead + 12, "a"}, s.put("a", "other", nil, false).Version)
}

func TestStore_DropOnlyTheSame(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	old := s.put("a", "k", []byte("old"), false)
	s.put("a", "k", []byte("new"), false)
	s.drop(old)
	require.Equal(t, "new", live(s, "k"))
	e, _ := s.get("k")
	s.drop(e)
	_, found := s.get("k")
	require.False(t, found)
	s.drop(e) // which is not there
}

func TestStore_Scan(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	var positions []uint64
	for i := range 2000 {
		positions = append(positions, s.put("a", fmt.Sprint(i), nil, i%2 == 0).position)
	}
	slices.Sort(positions)
	const last = math.MaxUint64
	ranges := []chash.Range{
		everything, {First: 1, Last: last}, at(0), at(last),
		{First: 1 << 56, Last: 2<<56 - 1}, {First: 1<<56 - 1, Last: 1 << 56}, {First: 255 << 56, Last: last},
		at(positions[7]), {First: positions[7] + 1, Last: positions[8] - 1},
		{First: positions[0], Last: positions[1999]}, {First: positions[0], Last: last},
	}
	for range 200 {
		a, b := rand.Uint64(), rand.Uint64()
		ranges = append(ranges, chash.Range{First: min(a, b), Last: max(a, b)})
	}
	for _, r := range ranges {
		var want, got []uint64
		for _, p := range positions {
			if r.Contains(p) {
				want = append(want, p)
			}
		}
		for _, e := range s.scan(r) {
			got = append(got, e.position)
		}
		slices.Sort(got)
		require.Equal(t, want, got, "%v", r)
	}
}
