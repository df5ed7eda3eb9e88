package chash_test

import (
	"fmt"
	"log"

	"github.com/chash-go/chash"
)

// Tokens are explicit positions for each node, as Cassandra and dskit have them in their
// own rings, or a configuration file names them.
func ExampleWithRingLayout() {
	tokens := map[string][]uint64{
		"node-1": {0x2000_0000_0000_0000, 0xA000_0000_0000_0000},
		"node-2": {0x6000_0000_0000_0000, 0xE000_0000_0000_0000},
	}
	layout := chash.RingLayout{
		Name: "tokens",
		Points: func(placements []chash.Placement) (points []chash.VirtualNode, err error) {
			for i, placement := range placements {
				positions, found := tokens[placement.HashKey]
				if !found {
					return nil, fmt.Errorf("%s has no tokens", placement.HashKey)
				}
				for _, position := range positions {
					points = append(points, chash.VirtualNode{Position: position, Placement: i})
				}
			}
			return points, nil
		},
	}
	ring, err := chash.NewRing(chash.Named("node-1", "node-2"), chash.WithRingLayout(layout))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.GetHash(0x7000_0000_0000_0000))
	fmt.Println(ring.Add(chash.Named("node-3")...))
	// Output:
	// node-1 <nil>
	// chash: layout "tokens": node-3 has no tokens
}

// Slots are handed out by hand, as shards are that a team moves one by one.
func ExampleWithTableLayout() {
	owners := []string{"old", "old", "new", "old", "new"} // by shard
	layout := chash.TableLayout{
		Name:      "by hand",
		TableSize: len(owners),
		Slots: func(placements []chash.Placement, size int) ([]uint32, error) {
			if len(placements) == 0 {
				return nil, nil
			}
			slots := make([]uint32, size)
			for slot, owner := range owners {
				for i, placement := range placements {
					if placement.HashKey == owner {
						slots[slot] = uint32(i)
					}
				}
			}
			return slots, nil
		},
	}
	table, err := chash.NewMaglev(chash.Named("old", "new"), chash.WithTableLayout(layout))
	if err != nil {
		log.Fatal(err)
	}
	for shard := range uint64(5) {
		owner, err := table.GetHash(shard)
		fmt.Println(shard, owner, err)
	}
	// Output:
	// 0 old <nil>
	// 1 old <nil>
	// 2 new <nil>
	// 3 old <nil>
	// 4 new <nil>
}
