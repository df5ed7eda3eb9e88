package chashcompat_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// A setting that the system does not have is found by the constructor.
func TestSettings(t *testing.T) {
	for name, option := range map[string]chash.RingOption{
		"a function of HAProxy":         chashcompat.HAProxy("md5"),
		"a modifier of HAProxy":         chashcompat.HAProxy("sdbm", "avalanche", "other"),
		"a hash of libmemcached":        chashcompat.Libmemcached("crc"),
		"a hash of twemproxy":           chashcompat.Twemproxy("murmur"),
		"a large ring of Envoy":         chashcompat.EnvoyRingHash(chashcompat.RingSize{Max: 8<<20 + 1}),
		"a ring of Envoy, upside down":  chashcompat.EnvoyRingHash(chashcompat.RingSize{Min: 2, Max: 1}),
		"a ring of gRPC, upside down":   chashcompat.GRPCRingHash(chashcompat.RingSize{Max: 1023}),
		"a ring of gRPC of many points": chashcompat.GRPCRingHash(chashcompat.RingSize{Min: math.MaxUint64, Max: math.MaxUint64}),
	} {
		_, err := chash.NewRing[string](nil, option)
		require.ErrorIs(t, err, chashcompat.ErrSetting, name)
	}
	for name, seed := range map[string]string{
		"no seed": "", "not base64": "JLfvgnHc2kaSUFa!", "eleven bytes": "JLfvgnHc2kaSUFY=", "thirteen bytes": "JLfvgnHc2kaSUFaIAA==",
	} {
		_, err := chash.NewMaglev[string](nil, chashcompat.Cilium(seed))
		require.ErrorIs(t, err, chashcompat.ErrSetting, name)
	}
}

// The words of a configuration file can be given as they are.
func TestSettings_Words(t *testing.T) {
	for _, option := range []chash.RingOption{
		chashcompat.HAProxy("crc32", "avalanche"),
		chashcompat.Twemproxy("fnv1a_64"),
		chashcompat.Libmemcached("md5"),
	} {
		_, err := chash.NewRing[string](nil, option)
		require.NoError(t, err)
	}
}

// Tables have the size that is usual, and only sizes that the system has.
func TestTableSizes(t *testing.T) {
	const seed = "JLfvgnHc2kaSUFaI"
	backends := chash.Named("10.0.0.1:80/TCP", "10.0.0.2:80/TCP")
	cilium, err := chash.NewMaglev(backends, chashcompat.Cilium(seed))
	require.NoError(t, err)
	require.Equal(t, 16381, cilium.Stats().Size)
	_, err = chash.NewMaglev(backends, chashcompat.Cilium(seed), chash.WithTableSize(257))
	require.ErrorIs(t, err, chashcompat.ErrSetting)
	require.ErrorContains(t, err, "16381", "the error has the sizes")

	envoy, err := chash.NewMaglev(backends, chashcompat.EnvoyMaglev())
	require.NoError(t, err)
	require.Equal(t, 65537, envoy.Stats().Size)
	_, err = chash.NewMaglev(backends, chashcompat.EnvoyMaglev(), chash.WithTableSize(5000077))
	require.ErrorIs(t, err, chashcompat.ErrSetting)

	katran, err := chash.NewMaglev(chash.Named("1", "2"), chashcompat.KatranV2())
	require.NoError(t, err)
	require.Equal(t, 65537, katran.Stats().Size)
}

// weighted returns two backends, of which the first has a weight.
func weighted(weight uint32, names ...string) []chash.Backend[string] {
	backends := chash.Named(names...)
	backends[0].Weight = weight
	return backends
}

func TestWeights(t *testing.T) {
	ring := func(backends []chash.Backend[string], option chash.RingOption) error {
		_, err := chash.NewRing(backends, option)
		return err
	}
	require.NoError(t, ring(weighted(256, "1", "2"), chashcompat.HAProxy("")))
	require.ErrorIs(t, ring(weighted(257, "1", "2"), chashcompat.HAProxy("")), chashcompat.ErrWeight)
	for _, option := range []chash.RingOption{
		chashcompat.EnvoyRingHash(chashcompat.RingSize{Max: 2000}), chashcompat.GRPCRingHash(chashcompat.RingSize{}),
		chashcompat.Twemproxy(""),
	} {
		require.NoError(t, ring(weighted(math.MaxUint32-1, "a:1", "b:1"), option))
		require.ErrorIs(t, ring(weighted(math.MaxUint32, "a:1", "b:1"), option), chashcompat.ErrWeight)
	}
	for _, option := range []chash.RingOption{chashcompat.LibmemcachedWeighted(), chashcompat.Libmemcached(""), chashcompat.Spymemcached()} {
		require.NoError(t, ring(weighted(math.MaxUint32, "a:1", "b:1"), option), "the sum has 64 bits")
	}
	require.ErrorIs(t, ring(weighted(math.MaxUint32, "a:1"), chashcompat.Nginx()), chash.ErrRingTooLarge)

	cilium := chashcompat.Cilium("JLfvgnHc2kaSUFaI")
	_, err := chash.NewMaglev(weighted(65535, "10.0.0.1:80/TCP", "10.0.0.2:80/TCP"), cilium)
	require.NoError(t, err)
	_, err = chash.NewMaglev(weighted(65536, "10.0.0.1:80/TCP", "10.0.0.2:80/TCP"), cilium)
	require.ErrorIs(t, err, chashcompat.ErrWeight)
	_, err = chash.NewMaglev(weighted(math.MaxUint32, "a", "b"), chashcompat.EnvoyMaglev())
	require.ErrorIs(t, err, chashcompat.ErrWeight)
}

// Two servers of HAProxy whose points are the same are told from each other.
func TestHAProxy_SamePoints(t *testing.T) {
	_, err := chash.NewRing(chash.Named("1", "1048577"), chashcompat.HAProxy(""))
	require.ErrorIs(t, err, chashcompat.ErrName)
	require.ErrorContains(t, err, "1 and 1048577")
}

// A change that takes a system's ring beyond what it has fails and changes nothing.
func TestWeights_ChangeNothing(t *testing.T) {
	ring, err := chash.NewRing(chash.Named("1", "2"), chashcompat.HAProxy(""))
	require.NoError(t, err)
	before := ring.Fingerprint()
	require.ErrorIs(t, ring.SetWeight("1", 300), chashcompat.ErrWeight)
	require.Equal(t, before, ring.Fingerprint())
}

// Layouts with different settings have different names, which Marshal writes: they must not
// change.
func TestLayoutNames(t *testing.T) {
	for want, option := range map[string]chash.RingOption{
		"nginx":                                 chashcompat.Nginx(),
		"haproxy sdbm":                          chashcompat.HAProxy(""),
		"haproxy sdbm avalanche":                chashcompat.HAProxy(chashcompat.HAProxySDBM, chashcompat.HAProxyAvalanche),
		"haproxy djb2":                          chashcompat.HAProxy(chashcompat.HAProxyDJB2),
		"haproxy wt6":                           chashcompat.HAProxy(chashcompat.HAProxyWT6),
		"haproxy crc32":                         chashcompat.HAProxy(chashcompat.HAProxyCRC32),
		"libmemcached consistent one_at_a_time": chashcompat.Libmemcached(""),
		"libmemcached consistent md5":           chashcompat.Libmemcached(chashcompat.LibmemcachedMD5),
		"libmemcached weighted":                 chashcompat.LibmemcachedWeighted(),
		"spymemcached":                          chashcompat.Spymemcached(),
		"twemproxy fnv1a_64":                    chashcompat.Twemproxy(""),
		"twemproxy one_at_a_time":               chashcompat.Twemproxy(chashcompat.TwemproxyOneAtATime),
		"envoy ring_hash 1024 8388608":          chashcompat.EnvoyRingHash(chashcompat.RingSize{}),
		"envoy ring_hash 1 2":                   chashcompat.EnvoyRingHash(chashcompat.RingSize{Min: 1, Max: 2}),
		"grpc ring_hash 1024 4096":              chashcompat.GRPCRingHash(chashcompat.RingSize{}),
		"thanos":                                chashcompat.Thanos(),
		"groupcache":                            chashcompat.Groupcache(),
	} {
		ring, err := chash.NewRing[string](nil, option)
		require.NoError(t, err)
		require.Equal(t, want, ring.Stats().Layout)
	}
	for want, option := range map[string]chash.MaglevOption{
		"envoy maglev":    chashcompat.EnvoyMaglev(),
		"cilium 24b7ef82": chashcompat.Cilium("JLfvgnHc2kaSUFaI"),
		"katran v1":       chashcompat.KatranV1(),
		"katran v2":       chashcompat.KatranV2(),
	} {
		table, err := chash.NewMaglev[string](nil, option)
		require.NoError(t, err)
		require.Equal(t, want, table.Stats().Layout)
	}
}
