package chash_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// A plainRing is a ring in the plainest way: whole positions, of 32 bytes for
// SHA-256 and 8 for a hash of the caller's.
type plainRing struct {
	position func(text string) []byte
	points   []plainPoint
	hashKeys int
}

type plainPoint struct {
	position []byte
	hashKey  string
	i        int
}

// newPlainRing has a node for each of the backends, which share no hash key.
func newPlainRing(backends []chash.Backend[string], replicas int, position func(string) []byte) *plainRing {
	r := &plainRing{position: position, hashKeys: len(backends)}
	for _, b := range backends {
		hashKey := cmp.Or(b.HashKey, b.Name)
		for i := range replicas * int(max(b.Weight, 1)) {
			r.points = append(r.points, plainPoint{position(fmt.Sprintf("%s#%d", hashKey, i)), hashKey, i})
		}
	}
	slices.SortFunc(r.points, func(a, b plainPoint) int {
		return cmp.Or(bytes.Compare(a.position, b.position), strings.Compare(a.hashKey, b.hashKey), cmp.Compare(a.i, b.i))
	})
	return r
}

// order returns the hash keys from a position on, each once.
func (r *plainRing) order(position []byte) []string {
	at := sort.Search(len(r.points), func(i int) bool { return bytes.Compare(r.points[i].position, position) >= 0 })
	var order []string
	met := map[string]bool{}
	for i := 0; len(order) < r.hashKeys; i++ {
		p := r.points[(at+i)%len(r.points)]
		if !met[p.hashKey] {
			met[p.hashKey] = true
			order = append(order, p.hashKey)
		}
	}
	return order
}

// check compares a ring whose backends are named like their hash keys.
func (r *plainRing) check(t *testing.T, s chashtest.Structure, keys []string) {
	t.Helper()
	for _, key := range keys {
		want := r.order(r.position(key))
		if got, err := s.Get(key); got != want[0] || err != nil {
			t.Fatalf("Get(%q) = %q, %v, want %q", key, got, err, want[0])
		}
		if got, err := s.GetBytes([]byte(key)); got != want[0] || err != nil {
			t.Fatalf("GetBytes(%q) = %q, %v, want %q", key, got, err, want[0])
		}
		if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, want) {
			t.Fatalf("Candidates(%q) = %q, want %q", key, got, want)
		}
		if got := chashtest.Must(s.GetN(key, 2)); !slices.Equal(got, want[:min(2, len(want))]) {
			t.Fatalf("GetN(%q, 2) = %q, want %q", key, got, want[:min(2, len(want))])
		}
	}
	// Hashes before, at and after points, and past both ends.
	hashes := []uint64{0, 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for i := 0; i < len(r.points); i += 1 + len(r.points)/50 {
		position := binary.BigEndian.Uint64(r.points[i].position)
		hashes = append(hashes, position-1, position, position+1)
	}
	for _, hash := range hashes {
		want := r.order(binary.BigEndian.AppendUint64(nil, hash))[0]
		if got, err := s.GetHash(hash); got != want || err != nil {
			t.Fatalf("GetHash(%#x) = %q, %v, want %q", hash, got, err, want)
		}
	}
}

// sha256Position is the position of a seeded ring, seed 0 being none.
func sha256Position(seed uint64) func(string) []byte {
	return func(text string) []byte {
		if seed != 0 {
			text = string(binary.BigEndian.AppendUint64(nil, seed)) + text
		}
		sum := sha256.Sum256([]byte(text))
		return sum[:]
	}
}

// hashPosition is the position of a ring with a hash of the caller's.
func hashPosition(hash func(string) uint64) func(string) []byte {
	return func(text string) []byte { return binary.BigEndian.AppendUint64(nil, hash(text)) }
}

// pointKeys are the labels of points, as keys: each hits its point exactly.
func pointKeys(names []string, replicas int) []string {
	var keys []string
	for _, name := range names {
		for i := range replicas {
			keys = append(keys, fmt.Sprintf("%s#%d", name, i))
		}
	}
	return keys
}

func TestRing_Points(t *testing.T) {
	labels := []string{"a", "a#", "a#1", "a#11", "#", "1host", "host", "host1"}
	kinds := []string{"with space", " ", "host:80", "[2001:db8::1]:443", "ünïcode", "日本", "\x00", "\xff", strings.Repeat("n", 300)}
	weighted := chash.Named("light", "heavy", "heavier")
	weighted[1].Weight, weighted[2].Weight = 3, 7
	tests := []struct {
		name     string
		backends []chash.Backend[string]
		replicas int
		opts     []chash.RingOption
		position func(string) []byte
	}{
		{"one point", chash.Named("a"), 1, nil, sha256Position(0)},
		{"one backend", chash.Named("a"), 10, nil, sha256Position(0)},
		{"one point each", chash.Named(chashtest.ManyNames("b", 20)...), 1, nil, sha256Position(0)},
		{"two points", chash.Named("a", "b"), 1, nil, sha256Position(0)},
		{"as many points as a power of two", chash.Named(chashtest.ManyNames("b", 16)...), 1, nil, sha256Position(0)},
		{"labels that read alike", chash.Named(labels...), 13, nil, sha256Position(0)},
		{"names of every kind", chash.Named(kinds...), 13, nil, sha256Position(0)},
		{"weights", weighted, 10, nil, sha256Position(0)},
		{"more than 100 points each", chash.Named("a", "b", "c"), 1001, nil, sha256Position(0)},
		{"255 backends", chash.Named(chashtest.ManyNames("b", 255)...), 3, nil, sha256Position(0)},
		{"256 backends", chash.Named(chashtest.ManyNames("b", 256)...), 3, nil, sha256Position(0)},
		{"256 points", chash.Named(chashtest.ManyNames("b", 256)...), 1, nil, sha256Position(0)},
		{"257 backends", chash.Named(chashtest.ManyNames("b", 257)...), 3, nil, sha256Position(0)},
		{"seeded", weighted, 10, []chash.RingOption{chash.WithSeed(1)}, sha256Position(1)},
		{"seeded, all bytes differ", chash.Named(labels...), 10, []chash.RingOption{chash.WithSeed(0x0123456789ABCDEF)}, sha256Position(0x0123456789ABCDEF)},
		{"largest seed", chash.Named(kinds...), 10, []chash.RingOption{chash.WithSeed(math.MaxUint64)}, sha256Position(math.MaxUint64)},
		{"own hash", weighted, 10, []chash.RingOption{chash.WithHash(xxhash.Sum64String)}, hashPosition(xxhash.Sum64String)},
		{"own hash, labels that read alike", chash.Named(labels...), 13, []chash.RingOption{chash.WithHash(chashtest.UpsideDown)}, hashPosition(chashtest.UpsideDown)},
	}
	for name, hash := range chashtest.Clumsy {
		tests = append(tests, tests[0])
		test := &tests[len(tests)-1]
		test.name, test.backends, test.replicas = "own hash, "+name, weighted, 10
		test.opts, test.position = []chash.RingOption{chash.WithHash(hash)}, hashPosition(hash)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := chashtest.Must(chashtest.NewRing(test.backends, append(test.opts, chash.WithReplicas(test.replicas))...))
			var names []string
			for _, b := range test.backends {
				names = append(names, b.Name)
			}
			keys := append(pointKeys(names[:min(len(names), 20)], min(test.replicas, 20)), chashtest.SampleKeys[:100]...)
			keys = append(keys, strings.Repeat("k", 1000))
			plain := newPlainRing(test.backends, test.replicas, test.position)
			plain.check(t, s, keys)

			// Points merged in one by one make the same ring.
			t.Run("Add one by one", func(t *testing.T) {
				if len(test.backends) > 50 {
					t.Skip("enough with the smaller ones")
				}
				s := chashtest.Must(chashtest.NewRing[string](nil, append(test.opts, chash.WithReplicas(test.replicas))...))
				for i := range test.backends {
					require.NoError(t, s.Add(test.backends[len(test.backends)-1-i]))
				}
				plain.check(t, s, keys)
			})
			// And those taken out leave no trace, nor do changes of weight.
			t.Run("Add and Remove", func(t *testing.T) {
				require.NoError(t, s.Add(chashtest.Backend("transient", "", 2, 0), chashtest.Backend("a passer-by", "", 1, 0)))
				require.NoError(t, s.SetWeight(names[0], 5))
				require.NoError(t, s.Remove("transient"))
				require.NoError(t, s.SetState(names[0], chash.Draining))
				require.NoError(t, s.Remove("a passer-by"))
				require.NoError(t, s.SetWeight(names[0], max(test.backends[0].Weight, 1)))
				require.NoError(t, s.SetState(names[0], chash.Healthy))
				plain.check(t, s, keys)
			})
		})
	}
}

// TestRing_KeyAtAPoint has keys whose digest is that of a point: a key belongs
// to the first point at or after it.
func TestRing_KeyAtAPoint(t *testing.T) {
	names := chashtest.ManyNames("node-", 5)
	for name, opts := range map[string][]chash.RingOption{
		"SHA-256":  nil,
		"seeded":   {chash.WithSeed(11)},
		"own hash": {chash.WithHash(xxhash.Sum64String)},
	} {
		t.Run(name, func(t *testing.T) {
			s := chashtest.Must(chashtest.NewRing(chash.Named(names...), opts...))
			for _, node := range names {
				for i := range chash.DefaultReplicas {
					key := fmt.Sprintf("%s#%d", node, i)
					if got := chashtest.Must(s.Get(key)); got != node {
						t.Errorf("Get(%q) = %q, want %q", key, got, node)
					}
				}
			}
		})
	}
}

// TestRing_ManyPointsAtOnePosition changes a ring of 192,000 points that are all
// at one position: it takes milliseconds, or minutes where each point that comes
// or goes looks at all the others there.
func TestRing_ManyPointsAtOnePosition(t *testing.T) {
	backends := chash.Named("a", "b", "c", "d")
	for i := range backends {
		backends[i].Weight = 300
	}
	for name, hash := range chashtest.Clumsy {
		if strings.HasPrefix(name, "always") {
			t.Run(name, func(t *testing.T) {
				s := chashtest.Must(chashtest.NewRing(backends, chash.WithHash(hash)))
				check := func(want ...string) {
					t.Helper()
					for _, key := range chashtest.SampleKeys[:3] {
						if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, want) {
							t.Errorf("Candidates(%q) = %q, want %q", key, got, want)
						}
					}
				}
				check("a", "b", "c", "d")
				require.NoError(t, s.Remove("b"))
				check("a", "c", "d")
				require.NoError(t, s.SetWeight("a", 1))
				require.NoError(t, s.Add(backends[1]))
				check("a", "b", "c", "d")
				require.NoError(t, s.SetState("a", chash.Unhealthy))
				check("b", "c", "d")
			})
		}
	}
}

func init() { chashtest.BlindDigests = chash.WithBlindDigests }

// TestRing_HashPanics: the caller's hash is called on the goroutine of the caller, also
// for many points, so that who makes the ring can recover.
func TestRing_HashPanics(t *testing.T) {
	for _, n := range []int{1, 100_000} {
		calls := 0 // without a lock
		require.PanicsWithValue(t, "of the hash", func() {
			_, _ = chash.NewRing(chash.Named("a"), chash.WithReplicas(n), chash.WithHash(func(string) uint64 {
				if calls++; calls >= n/2 {
					panic("of the hash")
				}
				return 0
			}))
		})
	}
}

// TestRing_LargestPasses: exactly MaxRingPoints points are not too many. That they are
// placed shows in a call of the hash, which ends it there.
func TestRing_LargestPasses(t *testing.T) {
	reached := func(string) uint64 { panic("placed") }
	for replicas, weight := range map[int]uint32{chash.MaxRingPoints: 1, 1 << 13: 1 << 13} {
		require.PanicsWithValue(t, "placed", func() {
			_, _ = chash.NewRing([]chash.Backend[string]{{Name: "a", Weight: weight}}, chash.WithReplicas(replicas), chash.WithHash(reached))
		})
		_, err := chash.NewRing([]chash.Backend[string]{{Name: "a", Weight: weight}, {Name: "b"}}, chash.WithReplicas(replicas), chash.WithHash(reached))
		require.ErrorIs(t, err, chash.ErrRingTooLarge)
	}
}

// TestRing_TwinWithTies is TestProperty_Twin and TestProperty_Operations with rings of
// which many have points at one position.
func TestRing_TwinWithTies(t *testing.T) {
	t.Run("Twin", func(t *testing.T) {
		chashtest.Rounds(t, 64, func(t *testing.T, rng *rand.Rand) { chashtest.CheckTwin(t, rng, true) })
	})
	t.Run("Operations", func(t *testing.T) {
		chashtest.Rounds(t, 28, func(t *testing.T, rng *rand.Rand) { chashtest.CheckCalls(t, rng, true) })
	})
}

// TestRing_Ties blinds the first 64 bits of all digests, in part or altogether,
// so that keys and points share positions by the dozen: whole digests decide, as
// they do on the plain ring. It stands for ties between the first 64 bits of
// real digests, which nobody has ever seen.
func TestRing_Ties(t *testing.T) {
	backends := chash.Named("a", "b", "c", "d", "a#", "a#1")
	backends[1].Weight = 3
	var names []string
	for _, b := range backends {
		names = append(names, b.Name)
	}
	const replicas = 7
	keys := append(pointKeys(names, 3*replicas), chashtest.SampleKeys[:300]...)
	for name, blind := range map[string]uint64{
		"none":              0,
		"the low 32 bits":   math.MaxUint32,
		"all but 4":         math.MaxUint64 >> 4,
		"all but the last":  math.MaxUint64 - 1,
		"all":               math.MaxUint64,
		"the high 60 bits":  ^uint64(15),
		"the bits between":  0x0FFFFFFFFFFFFFF0,
		"every second byte": 0x00FF00FF00FF00FF,
	} {
		for _, seed := range []uint64{0, 5} {
			t.Run(fmt.Sprintf("%s blind/seed=%d", name, seed), func(t *testing.T) {
				whole := sha256Position(seed)
				plain := newPlainRing(backends, replicas, func(text string) []byte {
					position := whole(text)
					binary.BigEndian.PutUint64(position, binary.BigEndian.Uint64(position)&^blind)
					return position
				})
				opts := []chash.RingOption{chash.WithReplicas(replicas), chash.WithSeed(seed), chash.WithBlindDigests(blind)}

				s := chashtest.Must(chashtest.NewRing(backends, opts...))
				plain.check(t, s, keys)

				// The order of the calls that led to a set has no say.
				grown := chashtest.Must(chashtest.NewRing(backends[2:3], opts...))
				require.NoError(t, grown.Add(backends[5], backends[0]))
				require.NoError(t, grown.Add(backends[4], backends[1]))
				require.NoError(t, grown.Add(backends[3]))
				plain.check(t, grown, keys)

				shrunk := chashtest.Must(chashtest.NewRing(append(chash.Named("more", "a#0", "0"), backends...), opts...))
				require.NoError(t, shrunk.Remove("more"))
				require.NoError(t, shrunk.Remove("0", "a#0"))
				plain.check(t, shrunk, keys)

				// Add then Remove, and weight up and down, restore all exactly.
				require.NoError(t, s.Add(chash.Named("another")...))
				require.NoError(t, s.SetWeight("c", 4))
				require.NoError(t, s.SetWeight("b", 1))
				require.NoError(t, s.Remove("another"))
				require.NoError(t, s.SetWeight("b", 3))
				require.NoError(t, s.SetWeight("c", 1))
				plain.check(t, s, keys)

				// Without one of them the order of the others is the same.
				require.NoError(t, s.SetState("b", chash.Unhealthy))
				for _, key := range keys[:40] {
					want := slices.DeleteFunc(plain.order(plain.position(key)), func(name string) bool { return name == "b" })
					if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, want) {
						t.Fatalf("Candidates(%q) without b = %q, want %q", key, got, want)
					}
				}
			})
		}
	}
}

func TestNewRing_BadReplicas(t *testing.T) {
	for _, replicas := range []int{0, -1, -160, math.MinInt, chash.MaxRingPoints + 1, math.MaxInt32, math.MaxInt} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			for _, backends := range [][]chash.Backend[string]{nil, chash.Named("a")} {
				s, err := chashtest.NewRing(backends, chash.WithReplicas(replicas))
				call := fmt.Sprintf("NewRing(%d backends, WithReplicas(%d))", len(backends), replicas)
				chashtest.CheckError(t, call, err, chash.ErrInvalidOption)
				chashtest.CheckNumbers(t, call, err, int64(replicas))
				if s != nil {
					t.Errorf("%s = %v with an error, want nil", call, s)
				}
			}
		})
	}
}

func TestRing_Replicas(t *testing.T) {
	if got := chash.DefaultReplicas; got != 160 {
		t.Errorf("DefaultReplicas = %d, want 160", got)
	}
	if got := chash.MaxRingPoints; got != 1<<26 {
		t.Errorf("MaxRingPoints = %d, want %d", got, 1<<26)
	}
	backends := chash.Named("a", "b", "c")
	weighing := func(weight uint32) []chash.Backend[string] {
		weighted := slices.Clone(backends)
		for i := range weighted {
			weighted[i].Weight = weight
		}
		return weighted
	}
	t.Run("the default", func(t *testing.T) {
		want := chashtest.Owners(t, chashtest.Must(chashtest.NewRing(backends, chash.WithReplicas(160))))
		chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewRing(backends)), want)
		chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewRing(backends, nil)), want)
		chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewRing(backends, chash.WithReplicas(7), chash.WithReplicas(160))), want)
	})
	t.Run("weight times replicas", func(t *testing.T) {
		want := chashtest.Owners(t, chashtest.Must(chashtest.NewRing(backends, chash.WithReplicas(60))))
		for weight, replicas := range map[uint32]int{1: 60, 2: 30, 60: 1} {
			chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewRing(weighing(weight), chash.WithReplicas(replicas))), want)
		}
	})
	t.Run("as many as there may be, and no backends", func(t *testing.T) {
		var s chashtest.Structure
		var err error
		used := allocated(func() { s, err = chashtest.NewRing[string](nil, chash.WithReplicas(chash.MaxRingPoints)) })
		require.NoError(t, err)
		if used > 1<<20 {
			t.Errorf("bytes allocated for an empty ring = %d, want under a MiB", used)
		}
		chashtest.CheckLookupsFail(t, s, chash.ErrNoBackends)
		require.NoError(t, s.Add(chashtest.Backend("a", "", math.MaxUint32, chash.Draining)))
		chashtest.CheckLookupsFail(t, s, chash.ErrNoHealthyBackends)
	})
}

// TestRing_TooLarge asks for rings of which the smallest would take a gigabyte.
func TestRing_TooLarge(t *testing.T) {
	weights := func(weights ...uint32) []chash.Backend[string] {
		backends := chash.Named(chashtest.ManyNames("b", len(weights))...)
		for i := range backends {
			backends[i].Weight = weights[i]
		}
		return backends
	}
	tests := []struct {
		name     string
		backends []chash.Backend[string]
		replicas int64
	}{
		{"one point too many by weight", weights(5), 13421773},
		{"two points too many by replicas", weights(2), 1<<25 + 1},
		{"one backend too many", weights(1<<25, 1<<25, 1), 1},
		{"two halves and a bit", weights(1, 1), 1<<25 + 1},
		{"default replicas", weights(419431), 160},
		{"largest weight", weights(math.MaxUint32), 1},
		{"largest weights", weights(math.MaxUint32, math.MaxUint32), 160},
		{"2^32 points", weights(1 << 16), 1 << 16},
		{"2^32 points in two", weights(1<<15, 1<<15), 1 << 16},
		{"2^57 points", weights(1 << 31), 1 << 26},
		{"2^64 points", weights(slices.Repeat([]uint32{1 << 31}, 1<<7)...), 1 << 26},
		{"2^64 points and one unit", weights(append(slices.Repeat([]uint32{1 << 31}, 1<<7), 1)...), 1 << 26},
		{"largest replicas twice", weights(1, 1), 1 << 26},
		{"largest of all", weights(slices.Repeat([]uint32{math.MaxUint32}, 100)...), 1 << 26},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			replicas := int(test.replicas)
			if int64(replicas) != test.replicas {
				t.Skip("int has 32 bits here: the number cannot be given")
			}
			weight := int64(0)
			for _, b := range test.backends {
				weight += int64(b.Weight)
			}
			wantError := func(call string, do func() error) {
				t.Helper()
				var err error
				used := allocated(func() { err = do() })
				chashtest.CheckError(t, call, err, chash.ErrRingTooLarge)
				chashtest.CheckNumbers(t, call, err, test.replicas, weight, chash.MaxRingPoints)
				if used > 1<<20 {
					t.Errorf("bytes allocated by %s = %d, want under a MiB", call, used)
				}
			}
			wantError("NewRing", func() error {
				placed := func(string) uint64 { panic("points are placed, which takes minutes for so many") }
				s, err := chashtest.NewRing(test.backends, chash.WithReplicas(replicas), chash.WithHash(placed))
				if s != nil {
					t.Errorf("NewRing = %v with an error, want nil", s)
				}
				return err
			})

			// What drains has no points, and then there are too many at once.
			drained := slices.Clone(test.backends)
			for i := range drained {
				drained[i].State = chash.Draining
			}
			s := chashtest.Must(chashtest.NewRing(drained, chash.WithReplicas(replicas)))
			before := chashtest.StateOf(s)
			wantError("Set", func() error { return s.Set(test.backends) })
			chashtest.CheckState(t, s, "Set", before)
			s.Clear()
			before = chashtest.StateOf(s)
			wantError("Add", func() error { return s.Add(test.backends...) })
			chashtest.CheckState(t, s, "Add", before)
		})
	}

	t.Run("calls on one that has points", func(t *testing.T) {
		s := chashtest.Must(chashtest.NewRing([]chash.Backend[string]{
			chashtest.Backend("a", "", 1, 0), chashtest.Backend("b", "", 2, chash.Unhealthy), chashtest.Backend("shared", "a", 1, chash.Unhealthy),
			chashtest.Backend("huge", "", math.MaxUint32, chash.Draining), chashtest.Backend("huge too", "a", 1<<20, chash.Draining),
		}, chash.WithReplicas(100)))
		before := chashtest.StateOf(s)
		for call, do := range map[string]func() error{
			"Add":                           func() error { return s.Add(chashtest.Backend("c", "", 1<<20, 0)) },
			"Add of an unhealthy one":       func() error { return s.Add(chashtest.Backend("c", "", 1<<20, chash.Unhealthy)) },
			"Add of small ones and one":     func() error { return s.Add(chashtest.Backend("c", "", 1, 0), chashtest.Backend("d", "", 1<<20, 0)) },
			"Add to a shared place":         func() error { return s.Add(chashtest.Backend("c", "a", 1<<20, 0)) },
			"Set":                           func() error { return s.Set([]chash.Backend[string]{chashtest.Backend("a", "", 1<<20, 0)}) },
			"SetWeight":                     func() error { return s.SetWeight("a", math.MaxUint32) },
			"SetWeight of an unhealthy one": func() error { return s.SetWeight("b", 1<<20) },
			"SetWeight in a shared place":   func() error { return s.SetWeight("shared", 1<<20) },
			"SetState Healthy":              func() error { return s.SetState("huge", chash.Healthy) },
			"SetState Unhealthy":            func() error { return s.SetState("huge", chash.Unhealthy) },
			"SetState in a shared place":    func() error { return s.SetState("huge too", chash.Healthy) },
		} {
			var err error
			if used := allocated(func() { err = do() }); used > 1<<20 {
				t.Errorf("bytes allocated by %s = %d, want under a MiB", call, used)
			}
			chashtest.CheckError(t, call, err, chash.ErrRingTooLarge)
			chashtest.CheckNumbers(t, call, err, chash.MaxRingPoints)
			chashtest.CheckState(t, s, call, before)
		}
		// What drains may weigh anything.
		require.NoError(t, s.SetWeight("huge too", math.MaxUint32))
		require.NoError(t, s.Add(chashtest.Backend("third", "", math.MaxUint32, chash.Draining)))
		require.NoError(t, s.Remove("huge", "huge too", "third"))
	})

	t.Run("a shared place counts once", func(t *testing.T) {
		if testing.Short() {
			t.Skip("slow")
		}
		// A hundred of 700,000 points would be too many; one is not.
		var backends []chash.Backend[string]
		for _, name := range chashtest.ManyNames("b", 100) {
			backends = append(backends, chashtest.Backend(name, "shared", 7, 0))
		}
		s, err := chashtest.NewRing(backends, chash.WithReplicas(100_000), chash.WithHash(xxhash.Sum64String))
		require.NoError(t, err)
		if got := chashtest.Must(s.Get("key")); got != "b0" {
			t.Errorf("Get(key) = %q, want b0", got)
		}
	})
}

func TestRing_ChangesMoveOnlyTheirKeys(t *testing.T) {
	backends := chash.Named(chashtest.ManyNames("node-", 10)...)
	backends[3].Weight = 4
	for _, replicas := range []int{1, 10, 160} {
		t.Run(fmt.Sprintf("replicas=%d", replicas), func(t *testing.T) {
			s := chashtest.Must(chashtest.NewRing(backends, chash.WithReplicas(replicas)))
			for _, b := range backends {
				before := chashtest.Owners(t, s)
				require.NoError(t, s.Remove(b.Name))
				without := chashtest.Owners(t, s)
				for i := range without {
					if before[i] != b.Name && without[i] != before[i] {
						t.Errorf("Get(%q) = %q after Remove(%q), want still %q", chashtest.SampleKeys[i], without[i], b.Name, before[i])
					}
				}
				require.NoError(t, s.Add(b))
				chashtest.CheckSameOwners(t, s, before)

				require.NoError(t, s.SetWeight(b.Name, max(b.Weight, 1)+1))
				for i, owner := range chashtest.Owners(t, s) {
					if owner != before[i] && owner != b.Name {
						t.Errorf("Get(%q) = %q after more weight for %q, want %q or that", chashtest.SampleKeys[i], owner, b.Name, before[i])
					}
				}
				require.NoError(t, s.SetWeight(b.Name, max(b.Weight, 1)))
				chashtest.CheckSameOwners(t, s, before)
			}
		})
	}
}

// TestRing_HashIsUsedThroughout records what the caller's hash is asked for: a
// change hashes the points that come, and at most those that go, a lookup its
// key.
func TestRing_HashIsUsedThroughout(t *testing.T) {
	var mu sync.Mutex // a hash must be safe for concurrent use
	var asked []string
	s := chashtest.Must(chashtest.NewRing(chash.Named("b", "a"), chash.WithReplicas(3), chash.WithHash(func(key string) uint64 {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, strings.Clone(key))
		return xxhash.Sum64String(key)
	})))
	require.NoError(t, s.Add(chash.Named("x", "y", "z")...)) // so that no change below is most of the ring
	if want := pointKeys([]string{"a", "b", "x", "y", "z"}, 3); !slices.Equal(slices.Sorted(slices.Values(asked)), want) {
		t.Errorf("NewRing(b, a) and Add(x, y, z) hash %q, want %q", asked, want)
	}
	tests := []struct {
		call       string
		do         func() error
		come, gone []string
	}{
		{"Add(c)", func() error { return s.Add(chash.Named("c")...) }, []string{"c"}, nil},
		{"Remove(a)", func() error { return s.Remove("a") }, nil, []string{"a"}},
		{"Set(c, d, x, y, z)", func() error { return s.Set(chash.Named("c", "d", "x", "y", "z")) }, []string{"d"}, []string{"b"}},
		{"SetState(c, Unhealthy)", func() error { return s.SetState("c", chash.Unhealthy) }, nil, nil},
		{"SetState(c, Draining)", func() error { return s.SetState("c", chash.Draining) }, nil, []string{"c"}},
		{"SetState(c, Healthy)", func() error { return s.SetState("c", chash.Healthy) }, []string{"c"}, nil},
		{"SetValue(c)", func() error { return s.SetValue("c", "x") }, nil, nil},
		{"GetHash", func() error { _, err := s.GetHash(7); return err }, nil, nil},
		{"Next", func() error { _, err := s.Next(); return err }, nil, nil},
		{"Clone", func() error { s.Clone(); return nil }, nil, nil},
	}
	for _, test := range tests {
		asked = nil
		require.NoError(t, test.do())
		come := pointKeys(test.come, 3)
		may := append(pointKeys(test.gone, 3), come...)
		for _, label := range come {
			if !slices.Contains(asked, label) {
				t.Errorf("%s hashes %q, want %q among them", test.call, asked, label)
			}
		}
		for _, label := range asked {
			if !slices.Contains(may, label) {
				t.Errorf("%s hashes %q, want only what came or went", test.call, label)
			}
		}
	}
	t.Run("SetWeight", func(t *testing.T) {
		asked = nil
		require.NoError(t, s.SetWeight("x", 2))
		for _, want := range []string{"x#3", "x#4", "x#5"} {
			if !slices.Contains(asked, want) {
				t.Errorf("SetWeight(x, 2) hashes %q, want %q among them", asked, want)
			}
		}
		for _, label := range asked {
			if !strings.HasPrefix(label, "x#") {
				t.Errorf("SetWeight(x, 2) hashes %q, want only points of x", label)
			}
		}
	})
	for call, do := range map[string]func(){
		"Get":        func() { _, _ = s.Get("key") },
		"GetBytes":   func() { _, _ = s.GetBytes([]byte("key")) },
		"GetN":       func() { _, _ = s.GetN("key", 2) },
		"AppendN":    func() { _, _ = s.AppendN(nil, "key", 2) },
		"GetFunc":    func() { _, _ = s.GetFunc("key", nil) },
		"Candidates": func() { _ = slices.Collect(s.Candidates("key")) },
	} {
		asked = nil
		do()
		if want := []string{"key"}; !slices.Equal(asked, want) {
			t.Errorf("%s(key) hashes %q, want %q", call, asked, want)
		}
	}
}

// TestRing_CandidatesDoesNotAllocate has the range over the type itself, for
// only then the compiler can see into it.
func TestRing_CandidatesDoesNotAllocate(t *testing.T) {
	for _, c := range chashtest.AllocationCases() {
		t.Run(c.Name, func(t *testing.T) {
			r, err := chash.NewRing(c.Backends, chash.Options(c.Opts...))
			require.NoError(t, err)
			for _, key := range chashtest.AllocationKeys {
				if got := testing.AllocsPerRun(20, func() {
					left := 3
					for range r.Candidates(key) {
						if left--; left == 0 {
							break
						}
					}
				}); got != 0 {
					t.Errorf("allocations of a range over Candidates with a key of %d bytes = %v, want 0", len(key), got)
				}
			}
		})
	}
}

func TestRing_LookupsOfPointersDoNotAllocate(t *testing.T) {
	checkPointerAllocations(t, chashtest.Must(chashtest.NewRing(halfOfNodes())))
}

// TestRing_HashesWhatChanges: a change hashes the points that come and go, or, where
// more go than stay, those that come and stay; however many are at one position.
func TestRing_HashesWhatChanges(t *testing.T) {
	hashes := maps.Clone(chashtest.Clumsy)
	hashes["xxHash64"] = xxhash.Sum64String
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			calls := 0
			counting := func(text string) uint64 {
				calls++
				return hash(text)
			}
			named := func(names ...string) []chash.Backend[string] {
				backends := chash.Named(names...)
				for i := range backends {
					backends[i].Weight = 2
				}
				return backends
			}
			s := chashtest.Must(chashtest.NewRing[string](nil, chash.WithReplicas(10), chash.WithHash(counting)))
			for _, test := range []struct {
				call   string
				change func() error
				points int
			}{
				{"Add of five", func() error { return s.Add(named("b", "c", "d", "f", "g")...) }, 100},
				{"Add of three more", func() error { return s.Add(named("a", "e", "h")...) }, 60},
				{"Add of a draining one", func() error { return s.Add(chashtest.Backend("i", "", 9, chash.Draining)) }, 0},
				{"Remove of four of eight", func() error { return s.Remove("a", "c", "e", "g") }, 80},
				{"SetWeight from 2 to 5", func() error { return s.SetWeight("d", 5) }, 30},
				{"SetWeight from 5 to 3", func() error { return s.SetWeight("d", 3) }, 20},
				{"Set", func() error { return s.Set(append(named("a", "b", "d", "e", "h"), chashtest.Backend("f", "", 3, 0))) }, 20 + 10 + 20 + 10},
				{"Remove of all but one", func() error { return s.Remove("a", "b", "d", "f", "h") }, 20},
			} {
				calls = 0
				require.NoError(t, test.change())
				if calls != test.points {
					t.Errorf("points hashed by %s = %d, want %d", test.call, calls, test.points)
				}
				fresh := chashtest.Must(chashtest.NewRing(s.Backends(), chash.WithReplicas(10), chash.WithHash(hash)))
				chashtest.CheckSameOwners(t, s, chashtest.Owners(t, fresh))
			}
		})
	}
}

// A hash that does not keep to its word gives some mapping, but no panic.
func TestRing_HashThatChangesItsMind(t *testing.T) {
	n := uint64(0)
	fickle := func(string) uint64 { n += 0x9E3779B97F4A7C15; return n }
	r, err := chash.NewRing(chash.Named("a", "b", "c", "d"), chash.WithReplicas(10), chash.WithHash(fickle))
	require.NoError(t, err)
	require.NoError(t, r.Remove("b"))
	require.NoError(t, r.SetWeight("a", 3))
	require.NoError(t, r.SetWeight("a", 2))
	got, err := r.GetN("key", 4)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "c", "d"}, got)
}

func FuzzRing(f *testing.F) {
	chashtest.AddFuzzOperations(f)
	f.Fuzz(func(t *testing.T, data []byte) { chashtest.FuzzOperations(t, true, data) })
}
