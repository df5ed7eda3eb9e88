package chash_test

import (
	"errors"
	"fmt"
	"slices"

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

// The table is chosen for the most backends that there will ever be.
func ExampleTableSizeFor() {
	size := chash.TableSizeFor(1000)
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithTableSize(size))
	if err != nil {
		panic(err)
	}
	fmt.Println(size, table.Stats().Size)
	// Output: 100003 100003
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

// Weights are thousandths of a processor, and one processor has the usual 160 points.
func ExampleWithUnitWeight() {
	ring, err := chash.NewRing([]chash.Backend[string]{
		{Name: "small", Weight: 500},
		{Name: "large", Weight: 4000},
	}, chash.WithUnitWeight(1000))
	if err != nil {
		panic(err)
	}
	fmt.Println(ring.Stats().Size, "points")
	// Output: 720 points
}

// Weights come from elsewhere: no ring of more than 10,000 points is ever built.
func ExampleWithMaxSize() {
	ring, err := chash.NewRing(chash.Named("a", "b"), chash.WithMaxSize(10_000))
	if err != nil {
		panic(err)
	}
	fmt.Println(ring.SetWeight("a", 3_000_000))
	// Output:
	// chash: ring is too large: 160 replicas for each 1 of a total weight of 3000001, the limit is 10000 points
}
