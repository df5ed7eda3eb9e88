package chash_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chash-go/chash"
)

// BenchmarkSlackBuild measures how long a table takes to fill with slack, beside one
// without (slack=none), with equal weights and with those from 1 to 7.
func BenchmarkSlackBuild(b *testing.B) {
	slacks := []struct {
		name string
		opts []chash.MaglevOption
	}{
		{"none", nil},
		{"0", []chash.MaglevOption{chash.WithSlack(0)}},
		{"1%", []chash.MaglevOption{chash.WithSlack(0.01)}},
		{"unlimited", []chash.MaglevOption{chash.WithSlack(math.Inf(1))}},
	}
	for _, n := range []int{10, 100, 1000, 10000} {
		for _, weights := range []uint32{1, 7} {
			backends := numbered("b", n)
			for i := range backends {
				backends[i].Weight = 1 + uint32(i)%weights
			}
			for _, slack := range slacks {
				b.Run(fmt.Sprintf("backends=%d/weights=%d/slack=%s", n, weights, slack.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := chash.NewMaglev(backends, slack.opts...); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkSlackChange measures changes of a table without a limit among 100
// backends, beside filling it anew.
func BenchmarkSlackChange(b *testing.B) {
	backends := numbered("b", 100)
	one, rest := backends[50], append(numbered("b", 100)[:50], backends[51:]...)
	noLimit := chash.WithSlack(math.Inf(1))
	m, err := chash.NewMaglev(rest, noLimit)
	if err != nil {
		b.Fatal(err)
	}
	measure := func(name string, change, undo func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := change(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := undo(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	fill := func() error {
		_, err := chash.NewMaglev(rest, noLimit)
		return err
	}
	add := func() error { return m.Add(one) }
	remove := func() error { return m.Remove(one.Name) }
	measure("fill", fill, func() error { return nil })
	measure("Add", add, remove)
	if err := add(); err != nil {
		b.Fatal(err)
	}
	measure("Remove", remove, add)
	heavier := func() error { return m.SetWeight(one.Name, 2) }
	lighter := func() error { return m.SetWeight(one.Name, 1) }
	measure("SetWeight heavier", heavier, lighter)
	if err := heavier(); err != nil {
		b.Fatal(err)
	}
	measure("SetWeight lighter", lighter, heavier)
}
