package chashcompat_test

import (
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// benchKeys are made before, since their making is not what is measured.
var benchKeys = func() []string {
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d", i*7919)
	}
	return keys
}()

// benchBackends returns backends whose names a system takes.
func benchBackends(system string) []chash.Backend[string] {
	names := make([]string, 100)
	for i := range names {
		switch system {
		case "HAProxy":
			names[i] = fmt.Sprint(i + 1)
		case "Cilium":
			names[i] = fmt.Sprintf("10.0.0.%d:80/TCP", i)
		case "KatranV1", "KatranV2":
			names[i] = fmt.Sprint(i * 7919)
		default:
			names[i] = fmt.Sprintf("10.0.0.%d:80", i+1)
		}
	}
	return chash.Named(names...)
}

// plainRing is a layout of chash's own kind with the same hash of keys and as many points.
func plainRing(ring *chash.Ring[string]) chash.RingOption {
	each := ring.Stats().Size / ring.Len()
	return chash.WithRingLayout(chash.RingLayout{
		Name: "plain",
		Hash: ring.Config().RingLayout.Hash,
		Points: func(placements []chash.Placement) ([]chash.VirtualNode, error) {
			var points []chash.VirtualNode
			for i, p := range placements {
				for n := range each {
					points = append(points, chash.VirtualNode{Position: xxhash.Sum64String(fmt.Sprint(p.HashKey, "#", n)), Placement: i})
				}
			}
			return points, nil
		},
	})
}

// BenchmarkGet is a lookup with the placement of each system (of=system), beside one on a ring
// or a table of chash with the same hash of keys and the same size (of=plain).
func BenchmarkGet(b *testing.B) {
	for _, s := range systems() {
		backends := benchBackends(s.name)
		s.slots = min(s.slots, 1) * 16381
		system, err := s.of(backends...)
		if err != nil {
			b.Fatal(err)
		}
		var plain structure
		if ring, ok := system.(*chash.Ring[string]); ok {
			plain, err = chash.NewRing(backends, plainRing(ring))
		} else {
			plain, err = chash.NewMaglev(backends, chash.WithTableSize(s.slots))
		}
		if err != nil {
			b.Fatal(err)
		}
		benchmarkGet(b, s.name, "plain", plain)
		benchmarkGet(b, s.name, "system", system)
	}
}

func benchmarkGet(b *testing.B, system, of string, built structure) {
	b.Run(fmt.Sprintf("system=%s/of=%s", system, of), func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := built.Get(benchKeys[i%len(benchKeys)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkNew lays out the points or slots of 100 backends.
func BenchmarkNew(b *testing.B) {
	for _, s := range systems() {
		b.Run("system="+s.name, func(b *testing.B) {
			backends := benchBackends(s.name)
			s.slots = min(s.slots, 1) * 16381
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
