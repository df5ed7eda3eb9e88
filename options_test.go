package chash_test

import (
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// configured is what both structures have of options.
type configured interface {
	structure
	Config() chash.Config
	SetLoadFactor(c float64) error
	SetLoadFloor(n float64) error
}

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
	onBoth(t, func(t *testing.T, make maker) {
		defaults := make(t, nil).(configured).Config()
		if defaults.TableSize > 0 {
			require.Equal(t, chash.Config{TableSize: 65537, LoadFactor: 1.25}, defaults)
		} else {
			require.Equal(t, chash.Config{Replicas: 160, LoadFactor: 1.25}, defaults)
		}

		seeded := make(t, chash.Named("a", "b"), chash.WithSeed(7), chash.WithLoadFactor(2), chash.WithLoadFloor(4)).(configured)
		want := defaults
		want.Seed, want.LoadFactor, want.LoadFloor = 7, 2, 4
		checkConfig(t, want, seeded.Config())
		require.NoError(t, seeded.Add(chash.Named("c")...))
		require.NoError(t, seeded.SetLoadFactor(3))
		require.NoError(t, seeded.SetLoadFloor(5))
		want.LoadFactor, want.LoadFloor = 3, 5
		checkConfig(t, want, seeded.Config())
		checkConfig(t, want, seeded.Clone().(interface{ Config() chash.Config }).Config())

		hashed := make(t, nil, chash.WithHash(xxhash.Sum64String)).(configured)
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
		nil, {chash.WithSeed(9)}, {chash.WithHash(upsideDown), chash.WithLoadFactor(1.5), chash.WithLoadFloor(2)},
	} {
		m, err := chash.NewMaglev(backends, chash.Options(opts...), chash.WithTableSize(251))
		require.NoError(t, err)
		r, err := chash.NewRing(backends, chash.Options(opts...), chash.WithReplicas(3))
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
		want.TableSize, want.Replicas = 0, chash.DefaultReplicas
		checkConfig(t, want, other.Config())
		third, err := chash.NewMaglev(backends, r.Config())
		require.NoError(t, err)
		want = r.Config()
		want.Replicas, want.TableSize = 0, chash.DefaultTableSize
		checkConfig(t, want, third.Config())

		// What is given after it counts, and its zero values say nothing.
		m, err = chash.NewMaglev(backends, m.Config(), chash.WithTableSize(13), chash.Config{})
		require.NoError(t, err)
		require.Equal(t, 13, m.Config().TableSize)
	}

	_, err := chash.NewMaglev(backends, chash.Config{TableSize: 4})
	require.ErrorIs(t, err, chash.ErrTableSizeNotPrime)
	for _, c := range []chash.Config{{Replicas: -1}, {LoadFactor: 1}, {LoadFloor: -1}, {Seed: 1, Hash: upsideDown}} {
		_, err = chash.NewRing(backends, c)
		require.ErrorIs(t, err, chash.ErrInvalidOption, "%+v", c)
	}
}

func TestOptions_Joined(t *testing.T) {
	onBoth(t, func(t *testing.T, make maker) {
		config := func(opts ...chash.Option) chash.Config { return make(t, nil, opts...).(configured).Config() }
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
