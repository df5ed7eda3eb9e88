package chash_test

import (
	"errors"
	"fmt"
	"log"
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
		fmt.Printf("%s to %s: %v slots\n", flow.From, flow.To, flow.Count)
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

// A sharded store of one copy moves its data when a node arrives: range by range,
// and nothing but what has to go.
func ExampleRingDiff_Moves() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	// Each node keeps its keys in the order of their positions, so that those of a
	// range lie side by side.
	type entry struct {
		position   uint64
		key, value string
	}
	byPosition := func(e entry, position uint64) int {
		switch {
		case e.position < position:
			return -1
		case e.position > position:
			return 1
		}
		return 0
	}
	store := map[string][]entry{}
	insert := func(node string, entries ...entry) {
		store[node] = append(store[node], entries...)
		slices.SortFunc(store[node], func(a, b entry) int { return byPosition(a, b.position) })
	}
	for i := range 1000 {
		key := fmt.Sprintf("user:%d", i)
		node, err := ring.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		insert(node, entry{ring.Position(key), key, fmt.Sprintf("data of %s", key)})
	}

	// Node d arrives. The ring that serves requests changes after the data has
	// moved.
	next := ring.Clone()
	if err := next.Add(chash.Named("d")...); err != nil {
		log.Fatal(err)
	}
	diff, err := ring.Diff(next)
	if err != nil {
		log.Fatal(err)
	}
	moved := 0
	for move := range diff.Moves() {
		from := store[move.From]
		start, _ := slices.BinarySearchFunc(from, move.Start, byPosition)
		end := start
		for end < len(from) && move.Contains(from[end].position) {
			end++
		}
		insert(move.To, from[start:end]...)
		store[move.From] = slices.Delete(from, start, end)
		moved += end - start
	}
	if err := ring.Set(next.Backends()); err != nil {
		log.Fatal(err)
	}

	found := 0
	for i := range 1000 {
		key := fmt.Sprintf("user:%d", i)
		node, err := ring.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		at, ok := slices.BinarySearchFunc(store[node], ring.Position(key), byPosition)
		if ok && store[node][at].value == "data of "+key {
			found++
		}
	}
	fmt.Printf("%.1f %% of the positions moved, and %d of 1000 keys\n", 100*diff.Moved, moved)
	fmt.Printf("found %d of 1000 keys, %d of them on d\n", found, len(store["d"]))
	// Output:
	// 24.5 % of the positions moved, and 238 of 1000 keys
	// found 1000 of 1000 keys, 238 of them on d
}

// With three copies of each key, a node that arrives fetches the ranges that it
// gains from the nodes that held them, and then the others drop what they lose.
func ExampleRingDiff_Gains() {
	const copies = 3
	ring, err := chash.NewRing(chash.Named("a", "b", "c", "d", "e"))
	if err != nil {
		log.Fatal(err)
	}
	before := ring.Clone()
	stores := map[string]map[string]bool{"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}}
	for i := range 1000 {
		key := fmt.Sprintf("user:%d", i)
		nodes, err := ring.GetN(key, copies)
		if err != nil {
			log.Fatal(err)
		}
		for _, node := range nodes {
			stores[node][key] = true
		}
	}

	if err := ring.Add(chash.Named("f")...); err != nil {
		log.Fatal(err)
	}
	diff, err := before.Diff(ring)
	if err != nil {
		log.Fatal(err)
	}
	for node, store := range stores {
		for gain, holders := range diff.Gains(node, copies) {
			for key := range stores[holders[0]] {
				if gain.Contains(ring.Position(key)) {
					store[key] = true
				}
			}
		}
	}
	for node, store := range stores {
		for loss := range diff.Losses(node, copies) {
			for key := range store {
				if loss.Contains(ring.Position(key)) {
					delete(store, key)
				}
			}
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
			if !stores[node][key] {
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

// When a backend grows heavier, others lose copies to it: a node may delete its own
// once the holders of now have theirs.
func ExampleRingDiff_Losses() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(2))
	if err != nil {
		log.Fatal(err)
	}
	before := ring.Clone()
	if err := ring.SetWeight("b", 2); err != nil {
		log.Fatal(err)
	}
	diff, err := before.Diff(ring)
	if err != nil {
		log.Fatal(err)
	}
	for _, node := range []string{"a", "b", "c"} {
		for loss, holders := range diff.Losses(node, 2) {
			fmt.Println(node, "loses", loss, "to", holders)
		}
	}
	// Output:
	// c loses [0x38f8c89003c6dd21, 0x844cd65700ff5859) to [b a]
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
		for r := range ring.Ranges(node) {
			fmt.Println(node, r, r.Contains(position))
		}
	}
	// Output:
	// user:42 is at 0xea3fd43be1e57d62
	// a [0x38f8c89003c6dd21, 0xa090a256cb93456b) false
	// b [0x0000000000000000, 0x0ab14df98e9ade66) false
	// b [0x1362ad7ec170f920, 0x38f8c89003c6dd21) false
	// b [0xe82df9db569b7729, 0x10000000000000000) true
	// c [0x0ab14df98e9ade66, 0x1362ad7ec170f920) false
	// c [0xa090a256cb93456b, 0xe82df9db569b7729) false
}

// Of two copies, each node holds the ranges up to its own points and those up to
// the points of the node before.
func ExampleRing_RangesN() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(1))
	if err != nil {
		log.Fatal(err)
	}
	for _, node := range []string{"a", "b", "c"} {
		for r := range ring.RangesN(node, 2) {
			fmt.Println(node, r)
		}
	}
	// Output:
	// a [0x0ab14df98e9ade66, 0xa090a256cb93456b)
	// b [0x0000000000000000, 0x0ab14df98e9ade66)
	// b [0x1362ad7ec170f920, 0x10000000000000000)
	// c [0x0000000000000000, 0x1362ad7ec170f920)
	// c [0xa090a256cb93456b, 0x10000000000000000)
}

// The whole ring at a glance: who holds the two copies of what.
func ExampleRing_Holders() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithReplicas(1))
	if err != nil {
		log.Fatal(err)
	}
	for r, nodes := range ring.Holders(2) {
		fmt.Println(r, nodes)
	}
	// Output:
	// [0x0000000000000000, 0x0ab14df98e9ade66) [b c]
	// [0x0ab14df98e9ade66, 0x1362ad7ec170f920) [c a]
	// [0x1362ad7ec170f920, 0xa090a256cb93456b) [a b]
	// [0xa090a256cb93456b, 0x10000000000000000) [b c]
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

// The zero Range is the whole ring.
func ExampleRange() {
	for _, r := range []chash.Range{{Start: 16, End: 32}, {}} {
		fmt.Println(r, r.Size(), r.Contains(31), r.Contains(32))
	}
	// Output:
	// [0x0000000000000010, 0x0000000000000020) 16 true false
	// [0x0000000000000000, 0x10000000000000000) 18446744073709551616 true true
}
