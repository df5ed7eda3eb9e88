package chash_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func fingerprintOf(t *testing.T, s structure, err error) uint64 {
	t.Helper()
	require.NoError(t, err)
	return s.(knower).Fingerprint()
}

func TestFingerprint_SameMapping(t *testing.T) {
	for _, kind := range structures {
		t.Run(kind.name, func(t *testing.T) {
			backends := numbered("b", 20)
			s, err := kind.make(backends)
			want := fingerprintOf(t, s, err)
			require.NotZero(t, want)

			// The order of calls, values and health do not count.
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(backends), func(i, j int) {
				backends[i], backends[j] = backends[j], backends[i]
			})
			other, err := kind.make(nil)
			require.NoError(t, err)
			for i := range backends {
				backends[i].Value = "other"
				require.NoError(t, other.Add(backends[i]))
			}
			require.NoError(t, other.Add(chash.Backend[string]{Name: "gone"}, chash.Backend[string]{Name: "drains", State: chash.Draining}))
			require.NoError(t, other.Remove("gone"))
			require.NoError(t, other.SetState("b7", chash.Unhealthy))
			require.Equal(t, want, fingerprintOf(t, other, nil))

			// Any other mapping has another.
			seen := map[uint64]string{want: "at first", 0: "none"}
			differs := func(what string, s structure, err error) {
				got := fingerprintOf(t, s, err)
				require.NotContains(t, seen, got, what)
				seen[got] = what
			}
			require.NoError(t, other.SetWeight("b3", 2))
			differs("another weight", other, nil)
			require.NoError(t, other.Remove("b3"))
			differs("one removed", other, nil)
			require.NoError(t, other.SetState("b4", chash.Draining))
			differs("one draining", other, nil)
			s, err = kind.make(backends, chash.WithSeed(1))
			differs("a seed", s, err)
			s, err = kind.make(backends, chash.WithSeed(2))
			differs("another seed", s, err)
			s, err = kind.make(backends, chash.WithHash(func(key string) uint64 { return 3 * xxhash.Sum64String(key) }))
			differs("another hash", s, err)
			backends[0].Name, backends[0].HashKey = "renamed", backends[0].Name
			s, err = kind.make(backends)
			differs("one renamed in its place", s, err)
		})
	}
}

// Weights in the same proportion make the same table, but not the same ring.
func TestFingerprint_Weights(t *testing.T) {
	light := []chash.Backend[string]{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}}
	heavy := []chash.Backend[string]{{Name: "a", Weight: 2}, {Name: "b", Weight: 4}}
	m1, err := newMaglev(light)
	require.NoError(t, err)
	m2, err := newMaglev(heavy)
	require.Equal(t, fingerprintOf(t, m1, nil), fingerprintOf(t, m2, err))
	r1, err := newRing(light)
	require.NoError(t, err)
	r2, err := newRing(heavy)
	require.NotEqual(t, fingerprintOf(t, r1, nil), fingerprintOf(t, r2, err))
}

func TestFingerprint_Sizes(t *testing.T) {
	seen := map[uint64]int{}
	for _, size := range []int{3, 5, 7, 251, 65537} {
		m, err := newMaglev(chash.Named("a", "b"), chash.WithTableSize(size))
		seen[fingerprintOf(t, m, err)]++
		r, err := newRing(chash.Named("a", "b"), chash.WithReplicas(size%300))
		seen[fingerprintOf(t, r, err)]++
	}
	require.Len(t, seen, 10)
}

// One backend has every key, so that nothing else counts; none has none.
func TestFingerprint_OneOrNone(t *testing.T) {
	s, err := newMaglev(chash.Named("a"))
	want := fingerprintOf(t, s, err)
	require.NotZero(t, want)
	s, err = newMaglev(chash.Named("a"), chash.WithTableSize(13), chash.WithSeed(5))
	require.Equal(t, want, fingerprintOf(t, s, err))
	s, err = newRing(chash.Named("a"), chash.WithReplicas(3))
	require.Equal(t, want, fingerprintOf(t, s, err))
	s.Clear()
	require.Zero(t, fingerprintOf(t, s, nil))
	require.NoError(t, s.Add(chash.Backend[string]{Name: "a", State: chash.Draining}))
	require.Zero(t, fingerprintOf(t, s, nil))
}

func TestLiveFingerprint_FollowsHealth(t *testing.T) {
	backends := append(numbered("b", 4), chash.Backend[string]{Name: "spare", HashKey: "b0"})
	knowers(t, backends, func(t *testing.T, s knower) {
		all := s.LiveFingerprint()
		require.Equal(t, s.Fingerprint(), all, "all are healthy")
		seen := map[uint64]string{all: "all healthy"}
		for _, name := range []string{"b0", "b1", "b2"} { // b0 gives way to spare, the others to all
			require.NoError(t, s.SetState(name, chash.Unhealthy))
			got := s.LiveFingerprint()
			require.NotContains(t, seen, got, name)
			seen[got] = name
			require.Equal(t, all, s.Fingerprint())
		}
		require.NoError(t, s.SetState("spare", chash.Unhealthy))
		alone, err := newMaglev(chash.Named("b3"))
		require.Equal(t, fingerprintOf(t, alone, err), s.LiveFingerprint(), "only b3 is left")
		require.NoError(t, s.SetState("b3", chash.Unhealthy))
		require.Zero(t, s.LiveFingerprint())
		for _, name := range []string{"b0", "b1", "b2", "b3", "spare"} {
			require.NoError(t, s.SetState(name, chash.Healthy))
		}
		require.Equal(t, all, s.LiveFingerprint(), "all are back")
	})
}

// On a ring a lookup goes from an unhealthy node's points to the next, so that the
// mapping is that of a ring without the node, and the print says so.
func TestLiveFingerprint_UnhealthyOnARingIsAsRemoved(t *testing.T) {
	down, err := newRing(numbered("b", 6), chash.WithReplicas(7))
	require.NoError(t, err)
	require.NoError(t, down.SetState("b2", chash.Unhealthy))
	removed := down.Clone()
	require.NoError(t, removed.Remove("b2"))
	require.Equal(t, fingerprintOf(t, removed, nil), down.(knower).LiveFingerprint())
}

// A fleet may run releases and architectures side by side: these never change.
func TestFingerprint_Golden(t *testing.T) {
	data, err := os.ReadFile("testdata/fingerprints.json")
	require.NoError(t, err)
	var golden []struct {
		Structure   string `json:"structure"`
		Size        int    `json:"size"`
		Seed        uint64 `json:"seed"`
		Count       int    `json:"count"`
		Fingerprint string `json:"fingerprint"`
		Live        string `json:"live"` // with the first of several unhealthy
	}
	require.NoError(t, json.Unmarshal(data, &golden))
	require.NotEmpty(t, golden)
	for _, g := range golden {
		var s structure
		if g.Structure == "ring" {
			s, err = newRing(numbered("backend-", g.Count), chash.WithReplicas(g.Size), chash.WithSeed(g.Seed))
		} else {
			s, err = newMaglev(numbered("backend-", g.Count), chash.WithTableSize(g.Size), chash.WithSeed(g.Seed))
		}
		require.NoError(t, err)
		require.Equal(t, g.Fingerprint, fmt.Sprintf("%016x", s.(knower).Fingerprint()), "%+v", g)
		require.NoError(t, s.SetState("backend-0", chash.Unhealthy))
		require.Equal(t, g.Live, fmt.Sprintf("%016x", s.(knower).LiveFingerprint()), "%+v", g)
	}
}

// The print of a small table and ring, computed from the mapping and the form in
// which it is hashed: of a table the name in each slot, of a ring the last
// position and the name of each run of points.
func TestFingerprint_Form(t *testing.T) {
	be64 := func(x uint64) []byte { return binary.BigEndian.AppendUint64(nil, x) }
	m, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(7))
	require.NoError(t, err)
	form := be64(xxhash.Sum64String("chash"))
	for slot := range uint64(7) {
		owner, err := m.GetHash(slot)
		require.NoError(t, err)
		form = append(form, be64(xxhash.Sum64String(owner))...)
	}
	require.Equal(t, xxhash.Sum64(form), m.Fingerprint())

	type run struct {
		end  uint64
		name string
	}
	tests := []struct {
		name   string
		points map[string]uint64
		runs   []run
	}{
		{
			"runs",
			map[string]uint64{"c#1": 5, "a#0": 10, "a#1": 20, "b#0": 30, "c#0": 40, "b#1": 50},
			[]run{{5, "c"}, {20, "a"}, {30, "b"}, {40, "c"}, {50, "b"}},
		},
		{
			"across the wrap",
			map[string]uint64{"a#0": 10, "b#1": 25, "b#0": 30, "c#0": 40, "c#1": 45, "a#1": 55},
			[]run{{10, "a"}, {30, "b"}, {45, "c"}},
		},
	}
	for _, test := range tests {
		place := func(label string) uint64 { return test.points[label] }
		r, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(2), chash.WithHash(place))
		require.NoError(t, err)
		form := be64(0) // the hash of the key that tells hash functions apart
		for _, run := range test.runs {
			form = append(append(form, be64(run.end)...), be64(xxhash.Sum64String(run.name))...)
		}
		require.Equal(t, xxhash.Sum64(form), r.Fingerprint(), test.name)
	}
}

// Points behind another one at their position have no keys and do not count.
func TestFingerprint_HiddenPoints(t *testing.T) {
	at := map[string]uint64{"a#0": 10, "b#0": 10, "c#0": 10, "d#0": 20}
	ring := func(names ...string) *chash.Ring[string] {
		r, err := chash.NewRing(chash.Named(names...), chash.WithReplicas(1), chash.WithHash(func(s string) uint64 { return at[s] }))
		require.NoError(t, err)
		return r
	}
	require.Equal(t, ring("a", "d").Fingerprint(), ring("a", "b", "d").Fingerprint())
	require.Equal(t, ring("a", "b", "d").Fingerprint(), ring("a", "c", "d").Fingerprint())
	require.Equal(t, ring("a").Fingerprint(), ring("a", "b").Fingerprint(), "a has every key")
	require.NotEqual(t, ring("a", "d").Fingerprint(), ring("b", "d").Fingerprint())
}
