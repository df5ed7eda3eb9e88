package chashcompat_test

import (
	"fmt"
	"hash/crc32"
	"testing"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// benchKeys are made before, since their making is not what is measured.
var benchKeys = func() []string {
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d", i*7919)
	}
	return keys
}()

// benchNames are names that most systems take.
var benchNames = func() []string {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("10.0.0.%d:80", i+1)
	}
	return names
}()

// BenchmarkRing_Get is a lookup with the placement of a system, beside one on a ring of
// chash with the same hash of keys.
func BenchmarkRing_Get(b *testing.B) {
	crc := func(key string) uint64 {
		return uint64(crc32.ChecksumIEEE(unsafe.Slice(unsafe.StringData(key), len(key)))) << 32
	}
	for _, bench := range []struct {
		name   string
		option chash.RingOption
	}{
		{"system=none/hash=crc32", chash.WithHash(crc)},
		{"system=nginx/hash=crc32", chashcompat.Nginx()},
		{"system=groupcache/hash=crc32", chashcompat.Groupcache()},
		{"system=none/hash=xxhash", chash.WithHash(xxhash.Sum64String)},
		{"system=envoy/hash=xxhash", chashcompat.EnvoyRingHash(chashcompat.RingSize{Min: 16000})},
		{"system=thanos/hash=xxhash", chashcompat.Thanos()},
		{"system=libmemcached/hash=md5", chashcompat.LibmemcachedWeighted()},
		{"system=twemproxy/hash=fnv1a_64", chashcompat.Twemproxy("")},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ring, err := chash.NewRing(chash.Named(benchNames...), bench.option)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := ring.Get(benchKeys[i%len(benchKeys)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNew lays out the points or slots of 100 backends.
func BenchmarkNew(b *testing.B) {
	names := map[string]func(i int) string{
		"HAProxy":  func(i int) string { return fmt.Sprint(i + 1) },
		"Cilium":   func(i int) string { return fmt.Sprintf("10.0.0.%d:80/TCP", i) },
		"KatranV1": func(i int) string { return fmt.Sprint(i * 7919) },
		"KatranV2": func(i int) string { return fmt.Sprint(i * 7919) },
	}
	for _, s := range systems() {
		b.Run("system="+s.name, func(b *testing.B) {
			backends := chash.Named(benchNames...)
			for i := range backends {
				if name := names[s.name]; name != nil {
					backends[i].Name = name(i)
				}
			}
			if s.slots > 0 {
				s.slots = 16381
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.of(backends...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Lookups do not allocate, whatever the key.
func TestRing_DoesNotAllocate(t *testing.T) {
	long := string(make([]byte, 1000))
	for _, s := range systems() {
		name := good[s.name][0]
		built, err := s.of(chash.Named(name)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"", "user:42", long} {
			if n := testing.AllocsPerRun(100, func() { _, _ = built.Get(key) }); n != 0 {
				t.Errorf("%s: Get of %d bytes allocates %v times, want 0", s.name, len(key), n)
			}
		}
	}
}
