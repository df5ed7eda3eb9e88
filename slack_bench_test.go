package chash_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chash-go/chash"
)

func BenchmarkSlackBuild(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		for _, weights := range []uint32{1, 7, 1<<31} {
			backends := numbered("b", n)
			for i := range backends {
				backends[i].Weight = uint32(i)%weights + 1
			}
			for _, slack := range []float64{-1, 0, .01, .05, math.Inf(1)} {
				b.Run(fmt.Sprintf("backends=%d/weights=%d/slack=%v", n, weights, slack), func(b *testing.B) {
					opts := []chash.MaglevOption{}
					if slack >= 0 { opts = append(opts, chash.WithSlack(slack)) }
					b.ReportAllocs()
					for b.Loop() {
						if _, err := chash.NewMaglev(backends, opts...); err != nil { b.Fatal(err) }
					}
				})
			}
		}
	}
}
