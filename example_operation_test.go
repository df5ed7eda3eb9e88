package chash_test

import (
	"errors"
	"expvar"
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"slices"
	"text/template"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// A control plane hands out its table without values; each process that reads it
// makes its own connections, for the names.
func ExampleMaglev_Marshal() {
	control, err := chash.NewMaglev(chash.Named("a:80", "b:80", "c:80"))
	if err != nil {
		panic(err)
	}
	data, err := control.Marshal(nil)
	if err != nil {
		panic(err)
	}

	type conn struct{ target string }
	dial := func(name string, _ []byte) (*conn, error) { return &conn{name}, nil }
	table, err := chash.UnmarshalMaglev(data, dial, chash.WithTableSize(chash.DefaultTableSize))
	if err != nil {
		panic(err)
	}
	c, err := table.Get("user:42")
	if err != nil {
		panic(err)
	}
	fmt.Println(c.target)
	fmt.Println(control.Fingerprint() == table.Fingerprint())
	// Output:
	// b:80
	// true
}

// A process writes what it knows to a file, values and states included, and
// starts from it the next time.
func ExampleRing_Marshal() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "shard-0", Value: "10.0.0.1:80"},
		{Name: "shard-1", Value: "10.0.0.2:80", Weight: 2, State: chash.Unhealthy},
	})
	if err != nil {
		panic(err)
	}
	file, err := ring.Marshal(func(address string) ([]byte, error) { return []byte(address), nil })
	if err != nil {
		panic(err)
	}

	read := func(_ string, address []byte) (string, error) { return string(address), nil }
	again, err := chash.UnmarshalRing(file, read)
	if err != nil {
		panic(err)
	}
	for _, b := range again.Backends() {
		fmt.Println(b.Name, b.Value, b.Weight, b.State)
	}
	// Output:
	// shard-0 10.0.0.1:80 1 healthy
	// shard-1 10.0.0.2:80 2 unhealthy
}

// A file that is damaged is told from one that belongs to other options.
func ExampleUnmarshalMaglev() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithSeed(7))
	if err != nil {
		panic(err)
	}
	file, err := table.Marshal(nil)
	if err != nil {
		panic(err)
	}
	name := func(name string, _ []byte) (string, error) { return name, nil }

	_, err = chash.UnmarshalMaglev(file, name, chash.WithSeed(8))
	fmt.Println(err)

	_, err = chash.UnmarshalMaglev(file[:40], name)
	if errors.Is(err, chash.ErrCorrupt) {
		fmt.Println("start from the configuration instead")
	}
	// Output:
	// chash: options differ: seed 8, want 7
	// start from the configuration instead
}

// A hash function is not in the data: it must be given again, and another one is
// noticed.
func ExampleUnmarshalRing() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithHash(xxhash.Sum64String))
	if err != nil {
		panic(err)
	}
	file, err := ring.Marshal(nil)
	if err != nil {
		panic(err)
	}
	name := func(name string, _ []byte) (string, error) { return name, nil }

	_, err = chash.UnmarshalRing(file, name)
	fmt.Println(err)
	again, err := chash.UnmarshalRing(file, name, chash.WithHash(xxhash.Sum64String))
	if err != nil {
		panic(err)
	}
	fmt.Println(again.Get("user:42"))
	// Output:
	// chash: options differ: the structure has a hash function, want WithHash
	// b <nil>
}

// A program in a data plane, which has no Go, finds a backend in the exported
// table by one hash.
func ExampleMaglev_AppendTable() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(13))
	if err != nil {
		panic(err)
	}
	state := table.Clone() // in which nothing changes between the two calls
	backends := state.Backends()
	slots := state.AppendTable(nil)
	fmt.Println(slots)

	hash := xxhash.Sum64String("user:42")
	fmt.Println(backends[slots[hash%uint64(len(slots))]].Value)
	fmt.Println(table.Get("user:42"))
	// Output:
	// [0 2 1 0 0 2 2 1 1 0 0 2 1]
	// a
	// a <nil>
}

func ExampleRing_AppendPoints() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"), chash.WithHash(xxhash.Sum64String))
	if err != nil {
		panic(err)
	}
	state := ring.Clone() // in which nothing changes between the two calls
	backends := state.Backends()
	points := state.AppendPoints(nil)
	fmt.Println(len(points), "points")

	hash := xxhash.Sum64String("user:42")
	at, _ := slices.BinarySearchFunc(points, hash, func(p chash.Point, hash uint64) int {
		if p.Position < hash {
			return -1
		}
		return 1 // also where it is equal, so that the first of several is found
	})
	fmt.Println(backends[points[at%len(points)].Backend].Value)
	fmt.Println(ring.Get("user:42"))
	// Output:
	// 480 points
	// b
	// b <nil>
}

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

// Two processes that have the same fingerprint send every key to the same
// backend, however they came to their membership. Export it as a metric, and
// compare.
func ExampleMaglev_Fingerprint() {
	here, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		panic(err)
	}
	there, err := chash.NewMaglev(chash.Named("c", "b"))
	if err != nil {
		panic(err)
	}
	fmt.Println(here.Fingerprint() == there.Fingerprint())
	if err := there.Add(chash.Backend[string]{Name: "a", Value: "a"}); err != nil {
		panic(err)
	}
	fmt.Println(here.Fingerprint() == there.Fingerprint())
	// Output:
	// false
	// true
}

// LiveFingerprint also tells whether two processes think the same of the health.
func ExampleRing_LiveFingerprint() {
	here, err := chash.NewRing(chash.Named("a", "b", "c"))
	if err != nil {
		panic(err)
	}
	there := here.Clone()
	if err := there.SetState("b", chash.Unhealthy); err != nil {
		panic(err)
	}
	fmt.Println(here.Fingerprint() == there.Fingerprint())
	fmt.Println(here.LiveFingerprint() == there.LiveFingerprint())
	// Output:
	// true
	// false
}

// A writer that must not write to a fallback asks for the owner as well.
func ExampleRing_Owner() {
	ring, err := chash.NewRing(chash.Named("a", "b", "c"))
	if err != nil {
		panic(err)
	}
	owner, err := ring.Owner("user:42")
	if err != nil {
		panic(err)
	}
	if err := ring.SetState(owner.Name, chash.Unhealthy); err != nil {
		panic(err)
	}
	got, err := ring.Get("user:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("owner:", owner.Name)
	fmt.Println("read from:", got)
	// Output:
	// owner: c
	// read from: a
}

// Why is this client where it is?
func ExampleMaglev_Explain() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(13))
	if err != nil {
		panic(err)
	}
	if err := table.SetState("b", chash.Unhealthy); err != nil {
		panic(err)
	}
	fmt.Println(table.Explain("10.0.0.1"))
	// Output:
	// key "10.0.0.1", hash ed16cb68c786e3d7, home 7
	//   7 is of "b": b unhealthy
	//   3 is of "a": a healthy
	// result: a
}

func ExampleRing_Shares() {
	ring, err := chash.NewRing([]chash.Backend[string]{{Name: "small"}, {Name: "large", Weight: 3}})
	if err != nil {
		panic(err)
	}
	for _, share := range ring.Shares() {
		fmt.Printf("%s %.3f\n", share.Name, share.Share)
	}
	// Output:
	// large 0.728
	// small 0.272
}

// Published under a name, the statistics appear among the other variables at
// /debug/vars.
func ExampleMaglev_Stats() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		panic(err)
	}
	expvar.Publish("backends", expvar.Func(func() any { return table.Stats() }))
	stats := table.Stats()
	fmt.Println(stats.Backends, "backends,", stats.Healthy, "healthy")
	fmt.Printf("shares from %.4f to %.4f of the ideal\n", stats.MinShareRatio, stats.MaxShareRatio)
	// Output:
	// 3 backends, 3 healthy
	// shares from 1.0000 to 1.0000 of the ideal
}

// The text that Prometheus reads takes a few lines. For the real client library
// there is the collector in contrib/chashprom.
func ExampleMaglev_Stats_prometheus() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		panic(err)
	}
	if err := table.SetState("b", chash.Unhealthy); err != nil {
		panic(err)
	}
	metrics := template.Must(template.New("metrics").Parse(`# TYPE chash_backends gauge
chash_backends{state="healthy"} {{.Healthy}}
chash_backends{state="unhealthy"} {{.Unhealthy}}
chash_backends{state="draining"} {{.Draining}}
# TYPE chash_rebuilds_total counter
chash_rebuilds_total {{.Rebuilds}}
`))
	if err := metrics.Execute(os.Stdout, table.Stats()); err != nil {
		panic(err)
	}
	// Output:
	// # TYPE chash_backends gauge
	// chash_backends{state="healthy"} 2
	// chash_backends{state="unhealthy"} 1
	// chash_backends{state="draining"} 0
	// # TYPE chash_rebuilds_total counter
	// chash_rebuilds_total 1
}

// Bounds follow the weights. All requests are of one key, which belongs to the
// small backend: of 90 in flight it takes ceil(1.25 * 90 * 1/3) = 38.
func ExampleRing_Acquire() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "large", Weight: 2, Value: "10.0.0.1"},
		{Name: "small", Weight: 1, Value: "10.0.0.2"},
	})
	if err != nil {
		log.Fatal(err)
	}
	requests := map[string]int{}
	for range 90 {
		lease, err := ring.Acquire("the same user each time")
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Release()
		requests[lease.Value]++
	}
	fmt.Println(requests)

	// Output:
	// map[10.0.0.1:52 10.0.0.2:38]
}

// With a factor of 2 the backend of a hot key may have up to twice its fair share
// in flight: fewer requests leave it, and the load is less even.
func ExampleWithLoadFactor() {
	for _, factor := range []float64{chash.DefaultLoadFactor, 2} {
		table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"), chash.WithLoadFactor(factor))
		if err != nil {
			log.Fatal(err)
		}
		requests := map[string]int{}
		for range 100 {
			lease, err := table.Acquire("hot")
			if err != nil {
				log.Fatal(err)
			}
			defer lease.Release()
			requests[lease.Value]++
		}
		fmt.Println(factor, requests)
	}
	_, err := chash.NewMaglev(chash.Named("a"), chash.WithLoadFactor(0.5))
	fmt.Println(err)

	// Output:
	// 1.25 map[a:31 b:31 c:32 d:6]
	// 2 map[b:50 c:50]
	// chash: invalid option: load factor 0.5, want a number above 1
}

// The factor can follow a configuration that is read again. Leases in flight stay.
func ExampleMaglev_SetLoadFactor() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	onB := 0
	for _, factor := range []float64{1.25, 2, 1} {
		if err := table.SetLoadFactor(factor); err != nil {
			fmt.Println(err)
			continue
		}
		for range 100 {
			lease, err := table.Acquire("hot")
			if err != nil {
				log.Fatal(err)
			}
			defer lease.Release()
			if lease.Value == "b" {
				onB++
			}
		}
		fmt.Printf("factor %v: %d of %d on b\n", table.Stats().LoadFactor, onB, table.Stats().InFlight)
	}

	// Output:
	// factor 1.25: 31 of 100 on b
	// factor 2: 63 of 200 on b
	// chash: invalid option: load factor 1, want a number above 1
}

// A table is made again with another seed, whatever its other options are.
func ExampleMaglev_Config() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(1009), chash.WithSeed(7))
	if err != nil {
		panic(err)
	}
	fmt.Println(table.Config().Seed)
	second, err := chash.NewMaglev(table.Backends(), table.Config(), chash.WithSeed(8))
	if err != nil {
		panic(err)
	}
	fmt.Println(second.Config().TableSize, second.Config().Seed)
	// Output:
	// 7
	// 1009 8
}

// The structure is chosen at run time, with options that both have.
func ExampleOptions() {
	opts := []chash.Option{chash.WithSeed(7), chash.WithLoadFactor(1.5)}
	var s interface {
		Get(key string) (string, error)
	}
	s, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.Options(opts...))
	if ring := true; ring {
		s, err = chash.NewRing(chash.Named("a", "b", "c"), chash.Options(opts...))
	}
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Get("user:42"))
	// Output: c <nil>
}
