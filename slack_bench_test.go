package chash_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chash-go/chash"
)

func BenchmarkSlackBuild(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		for _, weights := range []uint32{1, 7, 1 << 31} {
			backends := numbered("b", n)
			for i := range backends {
				backends[i].Weight = uint32(i)%weights + 1
			}
			for _, slack := range []float64{-1, 0, .01, .05, math.Inf(1)} {
				b.Run(fmt.Sprintf("backends=%d/weights=%d/slack=%v", n, weights, slack), func(b *testing.B) {
					opts := []chash.MaglevOption{}
					if slack >= 0 {
						opts = append(opts, chash.WithSlack(slack))
					}
					b.ReportAllocs()
					for b.Loop() {
						if _, err := chash.NewMaglev(backends, opts...); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func BenchmarkSlackChange(b *testing.B) {
	backends := numbered("b", 100)
	m, err := chash.NewMaglev(backends[:99], chash.WithSlack(math.Inf(1)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := m.Add(backends[99]); err != nil {
			b.Fatal(err)
		}
		if err := m.Remove(backends[99].Name); err != nil {
			b.Fatal(err)
		}
	}
}
