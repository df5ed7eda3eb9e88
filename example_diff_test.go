package chash_test

import (
	"errors"
	"fmt"
	"log"
	"maps"
	"math"
	"slices"

	"github.com/chash-go/chash"
)

// What would a change move? It is tried out on a clone, which lookups never see.
func ExampleMaglev_Diff() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	next := table.Clone()
	if err := next.Remove("d"); err != nil {
		log.Fatal(err)
	}
	diff, err := table.Diff(next)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f %% moves, at least %.2f %% must\n", 100*diff.Moved, 100*diff.Least)
	for _, flow := range diff.Flows {
		fmt.Printf("%s to %s: %.0f slots\n", flow.From, flow.To, flow.Share*chash.DefaultTableSize)
	}
	// Output:
	// 25.13 % moves, at least 25.00 % must
	// a to b: 27 slots
	// a to c: 9 slots
	// b to a: 8 slots
	// b to c: 16 slots
	// c to a: 22 slots
	// c to b: 5 slots
	// d to a: 5467 slots
	// d to b: 5454 slots
	// d to c: 5463 slots
}

// What did an outage move? The clone keeps the state of before.
func ExampleRing_Diff() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	before := ring.Clone()
	if err := ring.SetState("d", chash.Unhealthy); err != nil {
		log.Fatal(err)
	}
	diff, err := before.Diff(ring)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f %% moved\n", 100*diff.Moved)
	for _, flow := range diff.Flows {
		fmt.Printf("%.1f %% from %s to %s\n", 100*flow.Share, flow.From, flow.To)
	}
	// Output:
	// 24.5 % moved
	// 7.9 % from d to a
	// 7.6 % from d to b
	// 9.0 % from d to c
}

// A guard refuses a change that moves too much.
func ExampleDiff() {
	tooMuch := errors.New("the change moves too much")
	replace := func(table *chash.Maglev[string], backends []chash.Backend[string]) error {
		next := table.Clone()
		if err := next.Set(backends); err != nil {
			return err
		}
		diff, err := table.Diff(next)
		if err != nil {
			return err
		}
		if diff.Moved > 0.3 {
			return fmt.Errorf("%w: %.0f %%", tooMuch, 100*diff.Moved)
		}
		return table.Set(backends)
	}
	table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(replace(table, chash.Named("a", "b", "c", "d", "e")))
	fmt.Println(replace(table, chash.Named("a")))
	// Output:
	// <nil>
	// the change moves too much: 80 %
}

// What moves from whom to whom when a node arrives, in a store of one copy?
func ExampleRingDiff() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(2))
	if err != nil {
		log.Fatal(err)
	}
	next := ring.Clone()
	if err := next.Add(chash.Named("d")...); err != nil {
		log.Fatal(err)
	}
	diff, err := ring.Diff(next)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f %% of the keys move\n", 100*diff.Moved)
	for change := range diff.Changes(1) {
		fmt.Println(change.Range, "moves from", change.Before, "to", change.After)
	}
	// Output:
	// 28.3 % of the keys move
	// [0x1362ad7ec170f920, 0x27688c2dd951da58] moves from [b] to [d]
	// [0xa090a256cb93456b, 0xd502335fa04615b1] moves from [c] to [d]
}

// A sharded store of three copies moves its data when a node arrives. The ring that
// serves requests changes after the data has been fetched and before the old copies
// are deleted, so that every key is where it is looked for at any time.
func ExampleRingDiff_Changes() {
	const copies = 3
	ring, err := chash.NewRing(chash.Named("a", "b", "c", "d", "e"))
	if err != nil {
		log.Fatal(err)
	}
	stores := map[string]store{"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}}
	for i := range 1000 {
		key := fmt.Sprintf("user:%d", i)
		nodes, err := ring.GetN(key, copies)
		if err != nil {
			log.Fatal(err)
		}
		for _, node := range nodes {
			stores[node][ring.Position(key)] = "data of " + key
		}
	}

	arrival := chash.Named("f")
	next := ring.Clone()
	if err := next.Add(arrival...); err != nil {
		log.Fatal(err)
	}
	diff, err := ring.Diff(next)
	if err != nil {
		log.Fatal(err)
	}
	for change := range diff.Changes(copies) {
		for _, node := range change.Added() {
			stores[node].fetch(change.Range, stores[change.Before[0]])
		}
	}
	if err := ring.Add(arrival...); err != nil {
		log.Fatal(err)
	}
	for change := range diff.Changes(copies) {
		for _, node := range change.Removed() {
			stores[node].drop(change.Range)
		}
	}

	missing, total := 0, 0
	for i := range 1000 {
		key := fmt.Sprintf("user:%d", i)
		nodes, err := ring.GetN(key, copies)
		if err != nil {
			log.Fatal(err)
		}
		for _, node := range nodes {
			if stores[node][ring.Position(key)] != "data of "+key {
				missing++
			}
		}
	}
	for _, store := range stores {
		total += len(store)
	}
	fmt.Println(total, "copies,", missing, "missing,", len(stores["f"]), "on f")
	// Output:
	// 3000 copies, 0 missing, 507 on f
}

// A store has what a node holds, by position. One that is kept in the order of
// positions, as on a disk, finds a range without a look at the rest.
type store map[uint64]string

func (s store) fetch(r chash.Range, from store) {
	for position, data := range from {
		if r.Contains(position) {
			s[position] = data
		}
	}
}

func (s store) drop(r chash.Range) {
	maps.DeleteFunc(s, func(position uint64, _ string) bool { return r.Contains(position) })
}

// What must one node fetch, and from whom, and what may it delete then?
func ExampleChange() {
	const self = "c"
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(2))
	if err != nil {
		log.Fatal(err)
	}
	next := ring.Clone()
	if err := next.SetWeight("b", 2); err != nil {
		log.Fatal(err)
	}
	diff, err := ring.Diff(next)
	if err != nil {
		log.Fatal(err)
	}
	for change := range diff.Changes(2) {
		switch {
		case slices.Contains(change.Added(), self):
			fmt.Println("fetch", change.Range, "from one of", change.Before)
		case slices.Contains(change.Removed(), self):
			fmt.Println("delete", change.Range, "once it is on all of", change.After)
		}
	}
	// Output:
	// delete [0x38f8c89003c6dd21, 0x844cd65700ff5858] once it is on all of [b a]
}

// A node lists what it owns, say to scan its keys in the order of their positions.
func ExampleRing_Ranges() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(2))
	if err != nil {
		log.Fatal(err)
	}
	position := ring.Position("user:42")
	fmt.Printf("user:42 is at %#016x\n", position)
	for _, node := range []string{"a", "b", "c"} {
		for r := range ring.Ranges(node, 1) {
			fmt.Println(node, r, r.Contains(position))
		}
	}
	// Output:
	// user:42 is at 0xea3fd43be1e57d62
	// a [0x38f8c89003c6dd21, 0xa090a256cb93456a] false
	// b [0x0000000000000000, 0x0ab14df98e9ade65] false
	// b [0x1362ad7ec170f920, 0x38f8c89003c6dd20] false
	// b [0xe82df9db569b7729, 0xffffffffffffffff] true
	// c [0x0ab14df98e9ade66, 0x1362ad7ec170f91f] false
	// c [0xa090a256cb93456b, 0xe82df9db569b7728] false
}

// Of two copies, each node holds the ranges up to its own points and those up to
// the points of the node before.
func ExampleRing_Ranges_copies() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(1))
	if err != nil {
		log.Fatal(err)
	}
	for _, node := range []string{"a", "b", "c"} {
		for r := range ring.Ranges(node, 2) {
			fmt.Printf("%s %v %.0f %%\n", node, r, 100*r.Share())
		}
	}
	// Output:
	// a [0x0ab14df98e9ade66, 0xa090a256cb93456a] 59 %
	// b [0x0000000000000000, 0x0ab14df98e9ade65] 4 %
	// b [0x1362ad7ec170f920, 0xffffffffffffffff] 92 %
	// c [0x0000000000000000, 0x1362ad7ec170f91f] 8 %
	// c [0xa090a256cb93456b, 0xffffffffffffffff] 37 %
}

// The whole ring at a glance: who holds the two copies of what. Health does not
// count, since the data stay where they are.
func ExampleRing_Holders() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(1))
	if err != nil {
		log.Fatal(err)
	}
	if err := ring.SetState("b", chash.Unhealthy); err != nil {
		log.Fatal(err)
	}
	for r, nodes := range ring.Holders(2) {
		fmt.Println(r, nodes)
	}
	// Output:
	// [0x0000000000000000, 0x0ab14df98e9ade65] [b c]
	// [0x0ab14df98e9ade66, 0x1362ad7ec170f91f] [c a]
	// [0x1362ad7ec170f920, 0xa090a256cb93456a] [a b]
	// [0xa090a256cb93456b, 0xffffffffffffffff] [b c]
}

// A store keeps the position of a key beside it: it does not depend on which
// backends there are.
func ExampleRing_Position() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	position := ring.Position("user:42")
	byKey, err := ring.Get("user:42")
	if err != nil {
		log.Fatal(err)
	}
	byPosition, err := ring.GetHash(position)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%#016x %s %s\n", position, byKey, byPosition)
	// Output:
	// 0xea3fd43be1e57d62 c c
}

// Both ends belong to a range.
func ExampleRange() {
	for _, r := range []chash.Range{{First: 16, Last: 31}, {First: 1 << 63, Last: math.MaxUint64}} {
		fmt.Println(r, r.Contains(31), r.Contains(math.MaxUint64), r.Share())
	}
	// Output:
	// [0x0000000000000010, 0x000000000000001f] true false 8.673617379884035e-19
	// [0x8000000000000000, 0xffffffffffffffff] false true 0.5
}
