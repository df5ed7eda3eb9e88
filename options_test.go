package chash_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// checkConfig compares all but the hash functions, of which it asks for one key.
func checkConfig(t *testing.T, want, got chash.Config) {
	t.Helper()
	require.Equal(t, want.Hash == nil, got.Hash == nil)
	if want.Hash != nil {
		require.Equal(t, want.Hash("key"), got.Hash("key"))
	}
	want.Hash, got.Hash = nil, nil
	require.Equal(t, want, got)
}

func TestConfig(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		defaults := kind.Make(t, nil).Config()
		if defaults.TableSize > 0 {
			require.Equal(t, chash.Config{TableSize: 65537, LoadFactor: 1.25}, defaults)
		} else {
			require.Equal(t, chash.Config{Replicas: 160, UnitWeight: 1, LoadFactor: 1.25}, defaults)
		}

		seeded := kind.Make(t, chash.Named("a", "b"), chash.WithSeed(7), chash.WithLoadFactor(2), chash.WithLoadFloor(4))
		want := defaults
		want.Seed, want.LoadFactor, want.LoadFloor = 7, 2, 4
		checkConfig(t, want, seeded.Config())
		require.NoError(t, seeded.Add(chash.Named("c")...))
		require.NoError(t, seeded.SetLoadFactor(3))
		require.NoError(t, seeded.SetLoadFloor(5))
		want.LoadFactor, want.LoadFloor = 3, 5
		checkConfig(t, want, seeded.Config())
		checkConfig(t, want, seeded.Clone().(interface{ Config() chash.Config }).Config())

		hashed := kind.Make(t, nil, chash.WithHash(xxhash.Sum64String))
		want = defaults
		want.Hash = xxhash.Sum64String
		checkConfig(t, want, hashed.Config())
	})

	m, err := chash.NewMaglev[string](nil, chash.WithTableSize(251))
	require.NoError(t, err)
	require.Equal(t, 251, m.Config().TableSize)
	r, err := chash.NewRing[string](nil, chash.WithReplicas(3))
	require.NoError(t, err)
	require.Equal(t, 3, r.Config().Replicas)
}

// The options of a structure make another one like it.
func TestConfig_AsAnOption(t *testing.T) {
	backends := chash.Named("a", "b", "c")
	for _, opts := range [][]chash.Option{
		nil, {chash.WithSeed(9)}, {chash.WithHash(chashtest.UpsideDown), chash.WithLoadFactor(1.5), chash.WithLoadFloor(2)},
	} {
		m, err := chash.NewMaglev(backends, chash.Options(opts...), chash.WithTableSize(251))
		require.NoError(t, err)
		r, err := chash.NewRing(backends, chash.Options(opts...), chash.WithReplicas(3), chash.WithUnitWeight(2), chash.WithMaxSize(100_000))
		require.NoError(t, err)

		alike, err := chash.NewMaglev(backends, m.Config())
		require.NoError(t, err)
		checkConfig(t, m.Config(), alike.Config())
		require.Equal(t, m.AppendTable(nil), alike.AppendTable(nil))
		circle, err := chash.NewRing(backends, r.Config())
		require.NoError(t, err)
		checkConfig(t, r.Config(), circle.Config())
		require.Equal(t, r.AppendPoints(nil), circle.AppendPoints(nil))

		// Between the structures, what both have is taken over.
		other, err := chash.NewRing(backends, m.Config())
		require.NoError(t, err)
		want := m.Config()
		want.TableSize, want.Replicas, want.UnitWeight = 0, chash.DefaultReplicas, 1
		checkConfig(t, want, other.Config())
		third, err := chash.NewMaglev(backends, r.Config())
		require.NoError(t, err)
		want = r.Config()
		want.Replicas, want.UnitWeight, want.TableSize = 0, 0, chash.DefaultTableSize
		checkConfig(t, want, third.Config())

		// What is given after it counts, and its zero values say nothing.
		m, err = chash.NewMaglev(backends, m.Config(), chash.WithTableSize(13), chash.Config{})
		require.NoError(t, err)
		require.Equal(t, 13, m.Config().TableSize)
	}

	_, err := chash.NewMaglev(backends, chash.Config{TableSize: 4})
	require.ErrorIs(t, err, chash.ErrTableSizeNotPrime)
	for _, c := range []chash.Config{{Replicas: -1}, {MaxSize: -1}, {LoadFactor: 1}, {LoadFloor: -1}, {Seed: 1, Hash: chashtest.UpsideDown}} {
		_, err = chash.NewRing(backends, c)
		require.ErrorIs(t, err, chash.ErrInvalidOption, "%+v", c)
	}
}

func TestOptions_Joined(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		config := func(opts ...chash.Option) chash.Config { return kind.Make(t, nil, opts...).Config() }
		none := config()
		require.Equal(t, none, config(chash.Options()))
		require.Equal(t, none, config(chash.Options(nil, nil)))
		seven := config(chash.WithSeed(7), chash.WithLoadFactor(2))
		require.Equal(t, uint64(7), seven.Seed)
		require.Equal(t, seven, config(chash.Options(chash.WithSeed(7), nil, chash.WithLoadFactor(2))))
		require.Equal(t, seven, config(chash.Options(chash.WithSeed(6), chash.Options(chash.WithSeed(7))), chash.WithLoadFactor(2)))
		require.Equal(t, seven, config(chash.Options(chash.WithSeed(6), chash.WithLoadFactor(2)), chash.WithSeed(7)))
	})
}

// countsOf is how many points each backend has, by name.
func countsOf(r *chash.Ring[string]) map[string]int {
	backends := r.Backends()
	counts := map[string]int{}
	for _, point := range r.AppendPoints(nil) {
		counts[backends[point.Backend].Name]++
	}
	return counts
}

// An independent program made the vectors.
func TestUnitWeight_Golden(t *testing.T) {
	data, err := os.ReadFile("testdata/unit_weights.json")
	require.NoError(t, err)
	var vectors []struct {
		Replicas   int
		UnitWeight uint32 `json:"unit_weight"`
		Seed       uint64
		Backends   []chash.Backend[string]
		Counts     map[string]int
		Points     []struct{ Position, Name string }
		SHA256     string
	}
	require.NoError(t, json.Unmarshal(data, &vectors))
	require.Len(t, vectors, 5)
	for _, v := range vectors {
		r, err := chash.NewRing(v.Backends, chash.WithReplicas(v.Replicas), chash.WithUnitWeight(v.UnitWeight), chash.WithSeed(v.Seed))
		require.NoError(t, err)
		require.Equal(t, v.Counts, countsOf(r))
		backends := r.Backends()
		var lines []string
		for i, p := range r.AppendPoints(nil) {
			line := fmt.Sprintf("%016x %s", p.Position, backends[p.Backend].Name)
			if v.Points != nil {
				require.Equal(t, v.Points[i].Position+" "+v.Points[i].Name, line)
			}
			lines = append(lines, line)
		}
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
		require.Equal(t, v.SHA256, hex.EncodeToString(sum[:]))
	}
}

// Points follow from a placement's own weight, and a unit of 1 is the ring without one.
func TestUnitWeight_Points(t *testing.T) {
	chashtest.Rounds(t, 60, func(t *testing.T, rng *rand.Rand) {
		unit := 1 + rng.Uint32N(300)
		if rng.IntN(4) == 0 {
			unit = 1 + rng.Uint32()
		}
		replicas := 1 + rng.IntN(40)
		opts := []chash.RingOption{chash.WithReplicas(replicas), chash.WithUnitWeight(unit)}
		backends := chashtest.Numbered("b", 1+rng.IntN(8))
		want := map[string]int{}
		var alone []chash.Backend[string] // with weights that are the points, of a ring without units
		for i := range backends {
			b := &backends[i]
			b.Weight = 1 + uint32(rng.Uint64N(min(math.MaxUint32, 50*uint64(unit)/uint64(replicas)+2)))
			want[b.Name] = max(1, int(math.Round(float64(replicas)*float64(b.Weight)/float64(unit)))) // exact: below 2^53
			alone = append(alone, chash.Backend[string]{Name: b.Name, Weight: uint32(want[b.Name]), Value: b.Value})
		}
		r, err := chash.NewRing(backends, opts...)
		require.NoError(t, err)
		require.Equal(t, want, countsOf(r))
		plain, err := chash.NewRing(alone, chash.WithReplicas(1))
		require.NoError(t, err)
		require.Equal(t, plain.AppendPoints(nil), r.AppendPoints(nil))
		require.Equal(t, plain.Fingerprint(), r.Fingerprint())

		// Rings of different units can be compared, and one that reached its state by
		// changes is that made at once.
		d, err := plain.Diff(r)
		require.NoError(t, err)
		require.Zero(t, d.Moved)
		grown, err := chash.NewRing[string](nil, opts...)
		require.NoError(t, err)
		for _, i := range rng.Perm(len(backends)) {
			require.NoError(t, grown.Add(backends[i]))
		}
		changed := backends[rng.IntN(len(backends))]
		require.NoError(t, grown.SetWeight(changed.Name, changed.Weight%7+1))
		require.NoError(t, grown.SetWeight(changed.Name, changed.Weight))
		require.Equal(t, r.AppendPoints(nil), grown.AppendPoints(nil))
		require.Equal(t, unit, grown.Clone().Config().UnitWeight)
		data, err := grown.Marshal(encodeString)
		require.NoError(t, err)
		back, err := chash.UnmarshalRing(data, decodeString)
		require.NoError(t, err)
		require.Equal(t, unit, back.Config().UnitWeight)
		require.Equal(t, r.AppendPoints(nil), back.AppendPoints(nil))
	})
	_, err := chash.NewRing(chash.Named("a"), chash.WithUnitWeight(0))
	chashtest.CheckError(t, "NewRing", err, chash.ErrInvalidOption, "unit weight 0")
}

// Weights of a hundred millicores and more are as cheap as weights of a few.
func TestUnitWeight_MakesHeavyBackendsCheap(t *testing.T) {
	backends := chashtest.Numbered("pod-", 100)
	for i := range backends {
		backends[i].Weight = 1000
	}
	r, err := chash.NewRing(backends, chash.WithUnitWeight(1000))
	require.NoError(t, err)
	require.Len(t, r.AppendPoints(nil), 100*160)
	small, err := chash.NewRing(chashtest.Numbered("pod-", 100))
	require.NoError(t, err)
	require.Equal(t, small.Fingerprint(), r.Fingerprint())

	// Many of one unit and more are refused without it, and the error names the way out.
	_, err = chash.NewRing(chashtest.Numbered("b", 3), chash.WithMaxSize(479))
	chashtest.CheckError(t, "NewRing", err, chash.ErrRingTooLarge, "160 replicas for each 1 of a total weight of 3", "limit is 479")
}

func TestWithMaxSize(t *testing.T) {
	for _, max := range []int{479, 480, 481} {
		r, err := chash.NewRing(chashtest.Numbered("b", 2), chash.WithMaxSize(max))
		require.NoError(t, err)
		require.Equal(t, max, r.Config().MaxSize)
		for name, s := range map[string]interface {
			Add(...chash.Backend[string]) error
			SetWeight(string, uint32) error
			Len() int
		}{"original": r.Clone(), "clone": r} {
			for _, err := range []error{s.SetWeight("b0", 2), s.SetWeight("b0", 1), s.Add(chash.Named("c")...)} {
				if max < 480 && err != nil {
					chashtest.CheckError(t, name, err, chash.ErrRingTooLarge, "limit is 479 points")
				} else {
					require.NoError(t, err)
				}
			}
			if max < 480 {
				require.Equal(t, 2, s.Len())
			} else {
				require.Equal(t, 3, s.Len())
			}
		}
	}
	for _, size := range []int{251, 257} {
		m, err := chash.NewMaglev(chash.Named("a"), chash.WithTableSize(size), chash.WithMaxSize(251))
		if size > 251 {
			chashtest.CheckError(t, "NewMaglev", err, chash.ErrInvalidOption, "table size 257, the limit is 251")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 251, m.Config().MaxSize)
		require.NoError(t, m.Add(chash.Named("b")...))
		require.Equal(t, 251, m.Config().MaxSize)
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		require.Zero(t, kind.Make(t, nil, chash.WithMaxSize(0)).Config().MaxSize)
		require.Equal(t, math.MaxInt, kind.Make(t, nil, chash.WithMaxSize(math.MaxInt)).Config().MaxSize)
	})
	for _, kind := range chashtest.Kinds {
		_, err := kind.New(nil, chash.WithMaxSize(-1))
		chashtest.CheckError(t, kind.Name, err, chash.ErrInvalidOption, "maximum size -1")
	}
}

func TestConstructor_Errors(t *testing.T) {
	hash := xxhash.Sum64String
	tests := []struct {
		name     string
		backends []chash.Backend[string]
		opts     []chash.Option
		want     error
		text     []string
	}{
		{"empty name", chash.Named("a", ""), nil, chash.ErrEmptyName, nil},
		{"empty name with a hash key", []chash.Backend[string]{{HashKey: "k"}}, nil, chash.ErrEmptyName, nil},
		{"a name twice", chash.Named("a", "dup", "b", "dup"), nil, chash.ErrBackendExists, []string{`"dup"`}},
		{"a name twice, other fields differ", []chash.Backend[string]{
			{Name: "dup", HashKey: "1", State: chash.Draining}, {Name: "dup", HashKey: "2", Weight: 2},
		}, nil, chash.ErrBackendExists, []string{`"dup"`}},
		{"a name quoted", chash.Named("sp ace\n", "sp ace\n"), nil, chash.ErrBackendExists, []string{`"sp ace\n"`}},
		{"unknown state", []chash.Backend[string]{{Name: "odd", State: chash.Draining + 1}}, nil, chash.ErrInvalidState, []string{`"odd"`, "3"}},
		{"the largest unknown state", []chash.Backend[string]{{Name: "odd", State: 255}}, nil, chash.ErrInvalidState, []string{`"odd"`, "255"}},
		{"nil hash", nil, []chash.Option{chash.WithHash(nil)}, chash.ErrInvalidOption, []string{"hash function is nil"}},
		{"nil hash after a hash", nil, []chash.Option{chash.WithHash(hash), chash.WithHash(nil)}, chash.ErrInvalidOption, []string{"hash function is nil"}},
		{"seed and hash", nil, []chash.Option{chash.WithSeed(1), chash.WithHash(hash)}, chash.ErrInvalidOption, []string{"seed", "hash function"}},
		{"hash and seed", chash.Named("a"), []chash.Option{chash.WithHash(hash), chash.WithSeed(math.MaxUint64)}, chash.ErrInvalidOption, []string{"seed", "hash function"}},
	}
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s, err := kind.New(test.backends, test.opts...)
				chashtest.CheckError(t, "the constructor", err, test.want, test.text...)
				if s != nil {
					t.Errorf("the constructor = %v with an error, want nil", s)
				}
			})
		}
	})
}

func TestOptions_Accepted(t *testing.T) {
	backends := chash.Named("a", "b", "c")
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		plain := chashtest.Owners(t, kind.Make(t, backends))
		hashed := chashtest.Owners(t, kind.Make(t, backends, chash.WithHash(chashtest.UpsideDown)))
		tests := []struct {
			name string
			opts []chash.Option
			want []string
		}{
			{"nil option", []chash.Option{nil}, plain},
			{"seed 0", []chash.Option{chash.WithSeed(0)}, plain},
			{"seed 0 with a hash", []chash.Option{chash.WithSeed(0), chash.WithHash(chashtest.UpsideDown)}, hashed},
			{"a hash with seed 0", []chash.Option{chash.WithHash(chashtest.UpsideDown), nil, chash.WithSeed(0)}, hashed},
			{"the last of two hashes", []chash.Option{chash.WithHash(xxhash.Sum64String), chash.WithHash(chashtest.UpsideDown)}, hashed},
			{"the last of two seeds", []chash.Option{chash.WithSeed(1), chash.WithSeed(7)}, chashtest.Owners(t, kind.Make(t, backends, chash.WithSeed(7)))},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				chashtest.CheckSameOwners(t, kind.Make(t, backends, test.opts...), test.want)
			})
		}
		mappings := [][]string{plain, hashed}
		for _, seed := range []uint64{1, 2, 1 << 63} {
			mappings = append(mappings, chashtest.Owners(t, kind.Make(t, backends, chash.WithSeed(seed))))
		}
		for i, a := range mappings {
			for j, b := range mappings[:i] {
				// Unrelated mappings over three backends agree on a third.
				if same := chashtest.Agreeing(a, b); same > len(a)/2 {
					t.Errorf("mappings %d and %d agree on %d of %d keys, want about a third", i, j, same, len(a))
				}
			}
		}
	})
}
