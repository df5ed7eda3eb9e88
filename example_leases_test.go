package chash_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/chash-go/chash"
)

// One video is all that anybody watches. Its backend takes no more than its bound
// of the requests in flight; what overflows goes to the next ones in the key's
// order of preference, always the same, so that few backends need to cache it.
func ExampleMaglev_Acquire() {
	table, err := chash.NewMaglev(chash.Named("cache-0", "cache-1", "cache-2", "cache-3"))
	if err != nil {
		log.Fatal(err)
	}
	var inFlight []*chash.Lease[string]
	for range 5 {
		lease, err := table.Acquire("/video/cat")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("watched on", lease.Value)
		inFlight = append(inFlight, &lease)
	}
	for _, lease := range inFlight {
		lease.Release()
	}
	lease, err := table.Acquire("/video/cat")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	fmt.Println("with nothing else in flight:", lease.Value)

	// Output:
	// watched on cache-2
	// watched on cache-1
	// watched on cache-3
	// watched on cache-2
	// watched on cache-1
	// with nothing else in flight: cache-2
}

// Requests without a key go round, and they too are load: where the third is still
// in flight, a request with a key finds its backend full and goes to the next one.
func ExampleMaglev_AcquireNext() {
	table, err := chash.NewMaglev(chash.Named("cache-0", "cache-1", "cache-2", "cache-3"))
	if err != nil {
		log.Fatal(err)
	}
	var inFlight []*chash.Lease[string]
	for range 3 {
		lease, err := table.AcquireNext()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("without a key:", lease.Value)
		inFlight = append(inFlight, &lease)
	}
	inFlight[0].Release()
	inFlight[1].Release()
	lease, err := table.Acquire("/video/cat") // of cache-2
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("/video/cat:", lease.Value)
	lease.Release()
	inFlight[2].Release()

	// Output:
	// without a key: cache-0
	// without a key: cache-1
	// without a key: cache-2
	// /video/cat: cache-1
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

// Released with defer, a lease is given back whatever comes. A Release before it
// does no harm: only the first of them counts.
func ExampleLease_Release() {
	shards, err := chash.NewRing(chash.Named("shard-0", "shard-1", "shard-2"))
	if err != nil {
		log.Fatal(err)
	}
	store := func(key, value string) error {
		shard, err := shards.Acquire(key)
		if err != nil {
			return err // chash.ErrNoBackends or chash.ErrNoHealthyBackends
		}
		defer shard.Release()
		if value == "" {
			return fmt.Errorf("nothing to store on %s", shard.Value)
		}
		fmt.Printf("%s=%s stored on %s\n", key, value, shard.Value)
		shard.Release() // the shard is done, what follows is not its load
		return nil
	}
	fmt.Println(store("a", "1"))
	fmt.Println(store("a", ""))

	// Output:
	// a=1 stored on shard-1
	// <nil>
	// nothing to store on shard-1
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

// Two of four replicas have the adapter of a model loaded. Requests for it keep to these,
// in the order of the key. Where both have more than their share of all requests, the
// bound is that of these two alone.
func ExampleMaglev_AcquireFunc() {
	replicas, err := chash.NewMaglev(chash.Named("gpu-0", "gpu-1", "gpu-2", "gpu-3"))
	if err != nil {
		log.Fatal(err)
	}
	loaded := map[string]bool{"gpu-1": true, "gpu-3": true}
	var tried []string
	for range 3 {
		lease, err := replicas.AcquireFunc("conversation 7", func(name string) bool { return loaded[name] })
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Release()
		tried = append(tried, lease.Value)
	}
	fmt.Println("with the adapter:", tried)

	clear(loaded)
	_, err = replicas.AcquireFunc("conversation 7", func(name string) bool { return loaded[name] })
	fmt.Println(errors.Is(err, chash.ErrNoneAccepted), errors.Is(err, chash.ErrNoHealthyBackends))

	// Output:
	// with the adapter: [gpu-3 gpu-1 gpu-3]
	// true true
}

// With few requests in flight a fair share is less than one lease, and what overlaps is
// spread. A floor of 2 keeps up to two requests of a key together, whatever the shares.
func ExampleWithLoadFloor() {
	for _, floor := range []float64{0, 2} {
		table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"), chash.WithLoadFloor(floor))
		if err != nil {
			log.Fatal(err)
		}
		var on []string
		for range 3 {
			lease, err := table.Acquire("hot")
			if err != nil {
				log.Fatal(err)
			}
			defer lease.Release()
			on = append(on, lease.Value)
		}
		fmt.Println("floor", floor, on)
	}

	// Output:
	// floor 0 [c b a]
	// floor 2 [c c b]
}

// Leases can be counted in tokens. One long prompt then weighs as much as many short
// ones, and who comes after it goes elsewhere.
func ExampleWithCost() {
	replicas, err := chash.NewRing(chash.Named("gpu-0", "gpu-1", "gpu-2"), chash.WithLoadFloor(1000))
	if err != nil {
		log.Fatal(err)
	}
	for _, tokens := range []int64{300, 600, 8000, 400, 500} {
		lease, err := replicas.Acquire("system prompt 12", chash.WithCost(tokens))
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Release()
		fmt.Println(tokens, "tokens on", lease.Value)
	}
	fmt.Println(replicas.Stats().InFlight, "tokens in flight")
	_, err = replicas.Acquire("system prompt 12", chash.WithCost(0))
	fmt.Println(err)

	// Output:
	// 300 tokens on gpu-1
	// 600 tokens on gpu-1
	// 8000 tokens on gpu-1
	// 400 tokens on gpu-0
	// 500 tokens on gpu-0
	// 9800 tokens in flight
	// chash: invalid option: lease cost 0, the range is from 1 to 4294967295
}
