package chash_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"net/url"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// The first two examples stand in README.md too; readme_test.go checks that they
// are the same there, word for word.

func Example() {
	// Make one and share it: it is safe for concurrent use.
	table, err := chash.NewMaglev(chash.Named("backend-0", "backend-1", "backend-2", "backend-3", "backend-4"))
	if err != nil {
		log.Fatal(err)
	}
	route := func(when string) {
		fmt.Println(when)
		for _, client := range []string{"user:13", "user:14", "user:15", "user:16"} {
			backend, err := table.Get(client) // once per request
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("  ", client, "to", backend)
		}
	}
	route("five backends:")

	// A health check fails. Nothing is rebuilt, and the keys of this backend
	// alone move; they come back when it is Healthy again.
	if err := table.SetState("backend-0", chash.Unhealthy); err != nil {
		log.Fatal(err)
	}
	route("backend-0 is unhealthy:")

	// It is replaced, and its keys move once more, to where they stay. A batch is
	// one rebuild, and each lookup sees the state before it or the state after it.
	if err := table.Set(chash.Named("backend-1", "backend-2", "backend-3", "backend-4", "backend-5")); err != nil {
		log.Fatal(err)
	}
	route("backend-5 instead of backend-0:")

	// Output:
	// five backends:
	//    user:13 to backend-2
	//    user:14 to backend-4
	//    user:15 to backend-0
	//    user:16 to backend-0
	// backend-0 is unhealthy:
	//    user:13 to backend-2
	//    user:14 to backend-4
	//    user:15 to backend-4
	//    user:16 to backend-4
	// backend-5 instead of backend-0:
	//    user:13 to backend-2
	//    user:14 to backend-4
	//    user:15 to backend-3
	//    user:16 to backend-5
}

// A table of 13 slots is small enough to be worked out with pencil and paper.
func ExampleNewMaglev() {
	backends := chash.Named("backend-0", "backend-1", "backend-2", "backend-3", "backend-4")
	table, err := chash.NewMaglev(backends, chash.WithTableSize(13))
	if err != nil {
		log.Fatal(err)
	}
	var owners []string // of the slots
	for slot := range uint64(13) {
		owner, err := table.GetHash(slot)
		if err != nil {
			log.Fatal(err)
		}
		owners = append(owners, strings.TrimPrefix(owner, "backend-"))
	}
	fmt.Println(owners)

	route := func(keys ...string) {
		for _, key := range keys {
			backend, err := table.Get(key)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(key, "on", backend)
		}
	}
	route("10.0.0.1", "10.0.0.3")
	if err := table.Remove("backend-0"); err != nil {
		log.Fatal(err)
	}
	route("10.0.0.1", "10.0.0.3")

	// Output:
	// [1 4 2 0 2 1 3 4 2 0 3 0 1]
	// 10.0.0.1 on backend-4
	// 10.0.0.3 on backend-0
	// 10.0.0.1 on backend-4
	// 10.0.0.3 on backend-4
}

// Values can be what a request needs next, so that no second map is read.
func ExampleNewMaglev_urls() {
	var backends []chash.Backend[*url.URL]
	for _, raw := range []string{"http://10.0.0.1:8080", "http://10.0.0.2:8080", "http://10.0.0.3:8080"} {
		target, err := url.Parse(raw)
		if err != nil {
			log.Fatal(err)
		}
		backends = append(backends, chash.Backend[*url.URL]{Name: target.Host, Value: target})
	}
	table, err := chash.NewMaglev(backends)
	if err != nil {
		log.Fatal(err)
	}

	target, err := table.Get("user:42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(target.JoinPath("cart"))

	// Output:
	// http://10.0.0.2:8080/cart
}

// An empty structure and one without a healthy backend are different errors:
// the first waits for its configuration, the second for a recovery.
func ExampleMaglev_Get_errors() {
	table, err := chash.NewMaglev[string](nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = table.Get("user:42")
	fmt.Println(errors.Is(err, chash.ErrNoBackends), err)

	if err := table.Add(chash.Backend[string]{Name: "a", State: chash.Unhealthy}); err != nil {
		log.Fatal(err)
	}
	_, err = table.Get("user:42")
	fmt.Println(errors.Is(err, chash.ErrNoHealthyBackends), err)

	err = table.Add(chash.Named("a")...)
	fmt.Println(errors.Is(err, chash.ErrBackendExists), err)

	// Output:
	// true chash: no backends
	// true chash: no healthy backends
	// true chash: backend exists: "a"
}

// A caller that has hashed the key anyway need not hash it again.
func ExampleMaglev_GetHash() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	byHash, err := table.GetHash(xxhash.Sum64String("user:42"))
	if err != nil {
		log.Fatal(err)
	}
	byKey, err := table.Get("user:42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(byHash == byKey)

	// Output:
	// true
}

// Weights are relative to each other: of 7 keys the three backends get 1, 2 and
// 4 on average.
func ExampleBackend_weights() {
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "small", Weight: 1, Value: "small"},
		{Name: "medium", Weight: 2, Value: "medium"},
		{Name: "large", Weight: 4, Value: "large"},
	})
	if err != nil {
		log.Fatal(err)
	}

	keys := map[string]int{}
	for i := range 7000 {
		backend, err := table.Get(fmt.Sprint("user:", i))
		if err != nil {
			log.Fatal(err)
		}
		keys[backend]++
	}
	fmt.Println(keys["small"], keys["medium"], keys["large"])

	// Output:
	// 994 1986 4020
}

// Pods come and go under names of their own. Their places stay, each under a
// HashKey: a new pod takes over exactly the keys of the pod that it replaces.
func ExampleBackend_hashKey() {
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "web-x7k2p", HashKey: "slot-0", Value: "10.1.0.4:80"},
		{Name: "web-q9d5m", HashKey: "slot-1", Value: "10.1.0.5:80"},
		{Name: "web-b3n8w", HashKey: "slot-2", Value: "10.1.0.6:80"},
	})
	if err != nil {
		log.Fatal(err)
	}
	before := map[string]string{}
	for i := range 1000 {
		key := fmt.Sprint("user:", i)
		if before[key], err = table.Get(key); err != nil {
			log.Fatal(err)
		}
	}

	// The two share the place until the old pod is gone. Nothing is rebuilt.
	err = table.Add(chash.Backend[string]{Name: "web-z4c6t", HashKey: "slot-0", Value: "10.1.0.9:80"})
	if err != nil {
		log.Fatal(err)
	}
	if err := table.Remove("web-x7k2p"); err != nil {
		log.Fatal(err)
	}

	handedOver, others := 0, 0
	for key, was := range before {
		is, err := table.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case was == "10.1.0.4:80" && is == "10.1.0.9:80":
			handedOver++
		case was != is:
			others++
		}
	}
	fmt.Println("handed over:", handedOver, "other keys moved:", others)

	// Output:
	// handed over: 326 other keys moved: 0
}

// A pod is restarted and has another address. Its place follows its name, so
// its keys stay with it.
func ExampleMaglev_SetValue() {
	table, err := chash.NewMaglev([]chash.Backend[string]{
		{Name: "cart-0", Value: "10.1.0.4:80"},
		{Name: "cart-1", Value: "10.1.0.5:80"},
		{Name: "cart-2", Value: "10.1.0.6:80"},
	})
	if err != nil {
		log.Fatal(err)
	}
	route := func(keys ...string) {
		for _, key := range keys {
			address, err := table.Get(key)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(key, "to", address)
		}
	}
	route("user:1", "user:2")
	if err := table.SetValue("cart-0", "10.1.0.23:80"); err != nil {
		log.Fatal(err)
	}
	route("user:1", "user:2")

	// Output:
	// user:1 to 10.1.0.5:80
	// user:2 to 10.1.0.4:80
	// user:1 to 10.1.0.5:80
	// user:2 to 10.1.0.23:80
}

// A list from service discovery has names and weights. What is known of the health
// of the backends that stay outlives it.
func ExampleMaglev_Reconcile() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	if err := table.SetState("a", chash.Unhealthy); err != nil {
		log.Fatal(err)
	}
	if err := table.SetState("b", chash.Draining); err != nil {
		log.Fatal(err)
	}
	if err := table.Reconcile(chash.Named("a", "b", "d")); err != nil {
		log.Fatal(err)
	}
	for _, b := range table.Backends() {
		fmt.Println(b.Name, b.State)
	}

	// Output:
	// a unhealthy
	// b draining
	// d healthy
}

// The news that a pod is gone often comes after another pod has taken its place. With
// the pod as the Name and the place as the HashKey it cannot take the new one out: the
// two are backends of their own, and the place keeps its keys throughout.
func ExampleMaglev_Remove() {
	pod := func(name, place string) chash.Backend[string] {
		return chash.Backend[string]{Name: name, HashKey: place, Value: name}
	}
	table, err := chash.NewMaglev([]chash.Backend[string]{pod("web-0-7f9c", "web-0"), pod("web-1-4d2a", "web-1")})
	if err != nil {
		log.Fatal(err)
	}
	show := func(event string) {
		backend, err := table.Get("user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s of %d\n", event, backend, table.Len())
	}

	show("at first")
	if err := table.SetState("web-1-4d2a", chash.Unhealthy); err != nil {
		log.Fatal(err)
	}
	if err := table.Add(pod("web-1-b81e", "web-1")); err != nil {
		log.Fatal(err)
	}
	show("the new pod has come")
	if err := table.Remove("web-1-4d2a"); err != nil {
		log.Fatal(err)
	}
	show("the old pod is gone, late")

	// Output:
	// at first: web-1-4d2a of 2
	// the new pod has come: web-1-b81e of 3
	// the old pod is gone, late: web-1-b81e of 2
}

// Service discovery hands over the whole list each time. The same backends in
// another order cost no rebuild, a backend more or less costs one.
func ExampleMaglev_Set() {
	table, err := chash.NewMaglev[string](nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, discovered := range [][]string{
		{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"},
		{"10.0.0.3:80", "10.0.0.1:80", "10.0.0.2:80"},
		{"10.0.0.1:80", "10.0.0.3:80", "10.0.0.4:80"},
	} {
		if err := table.Set(chash.Named(discovered...)); err != nil {
			log.Fatal(err)
		}
		fmt.Println(discovered)
		for _, key := range []string{"user:1", "user:2"} {
			backend, err := table.Get(key)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("  ", key, "to", backend)
		}
	}

	// Output:
	// [10.0.0.1:80 10.0.0.2:80 10.0.0.3:80]
	//    user:1 to 10.0.0.1:80
	//    user:2 to 10.0.0.2:80
	// [10.0.0.3:80 10.0.0.1:80 10.0.0.2:80]
	//    user:1 to 10.0.0.1:80
	//    user:2 to 10.0.0.2:80
	// [10.0.0.1:80 10.0.0.3:80 10.0.0.4:80]
	//    user:1 to 10.0.0.1:80
	//    user:2 to 10.0.0.3:80
}

// What a health checker does with what it finds.
func ExampleMaglev_SetState_health() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	for _, check := range []struct {
		backend string
		state   chash.State
	}{
		{"a", chash.Healthy}, // as before: nothing happens
		{"a", chash.Unhealthy},
		{"b", chash.Unhealthy},
		{"a", chash.Healthy},
		{"b", chash.Healthy},
	} {
		if err := table.SetState(check.backend, check.state); err != nil {
			log.Fatal(err)
		}
		fmt.Print(check.backend, " is ", check.state, ":")
		for _, key := range []string{"user:1", "user:2", "user:3", "user:4"} {
			backend, err := table.Get(key)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(" ", backend)
		}
		fmt.Println()
	}

	// Output:
	// a is healthy: b a c a
	// a is unhealthy: b b c c
	// b is unhealthy: c c c c
	// a is healthy: a a c a
	// b is healthy: b a c a
}

// A health check takes its time, and an operator may begin a drain meanwhile. What
// the check found counts only if the backend is still as it was.
func ExampleMaglev_CompareAndSwapState() {
	table, err := chash.NewMaglev(chash.Named("a", "b"))
	if err != nil {
		log.Fatal(err)
	}
	recovered := func(name string) {
		swapped, err := table.CompareAndSwapState(name, chash.Unhealthy, chash.Healthy)
		if err != nil {
			log.Fatal(err) // chash.ErrBackendNotFound: it was removed
		}
		backend, _ := table.Backend(name)
		fmt.Println(name, swapped, backend.State)
	}
	for _, name := range []string{"a", "b"} {
		if err := table.SetState(name, chash.Unhealthy); err != nil {
			log.Fatal(err)
		}
	}
	if err := table.SetState("b", chash.Draining); err != nil {
		log.Fatal(err)
	}
	recovered("a")
	recovered("b")

	// Output:
	// a true healthy
	// b false draining
}

// Before a backend is switched off it drains: it gets no new requests, while
// those that it has can end. The Remove afterwards moves no key.
func ExampleMaglev_SetState_drain() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"))
	if err != nil {
		log.Fatal(err)
	}
	owners := func() (all string) {
		for i := range 10 {
			backend, err := table.Get(fmt.Sprint("user:", i))
			if err != nil {
				log.Fatal(err)
			}
			all += backend
		}
		return all
	}
	fmt.Println("healthy: ", owners())

	if err := table.SetState("a", chash.Draining); err != nil {
		log.Fatal(err)
	}
	fmt.Println("draining:", owners())
	a, known := table.Backend("a")
	fmt.Println("still known:", known, a.State)

	if err := table.Remove("a"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed: ", owners())

	// Output:
	// healthy:  abacacbcac
	// draining: cbccccbccc
	// still known: true draining
	// removed:  cbccccbccc
}

// A request that is safe to repeat goes to the key's next backend if the first
// one fails: each time the same one, which may have the key's data already.
func ExampleMaglev_Candidates() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	send := func(backend string) error {
		if backend == "c" {
			return errors.New("connection refused")
		}
		return nil
	}

	attempts := 0
	for backend := range table.Candidates("user:42") {
		err := send(backend)
		if err == nil {
			fmt.Println("answered by", backend)
			break
		}
		fmt.Println(backend, "failed:", err)
		if attempts++; attempts == 3 {
			break
		}
	}

	// Output:
	// c failed: connection refused
	// answered by b
}

// The caller's own subset of the healthy backends, here those of a zone, needs no
// table of its own.
func ExampleMaglev_GetFunc() {
	type server struct{ name, zone string }
	var backends []chash.Backend[server]
	for _, s := range []server{{"a", "east"}, {"b", "west"}, {"c", "east"}, {"d", "west"}} {
		backends = append(backends, chash.Backend[server]{Name: s.name, Value: s})
	}
	table, err := chash.NewMaglev(backends)
	if err != nil {
		log.Fatal(err)
	}
	inZone := func(zone string) func(server) bool {
		return func(s server) bool { return s.zone == zone }
	}

	for _, zone := range []string{"east", "west", "north"} {
		chosen, err := table.GetFunc("user:42", inZone(zone))
		if errors.Is(err, chash.ErrNoHealthyBackends) { // in this zone, so one of any zone
			chosen, err = table.Get("user:42")
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("client in %s: server %s in %s\n", zone, chosen.name, chosen.zone)
	}

	// Output:
	// client in east: server c in east
	// client in west: server b in west
	// client in north: server c in east
}

// What would a change move? A clone shows it, and the original goes on as it is.
func ExampleMaglev_Clone() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	whatIf := table.Clone()
	if err := whatIf.Add(chash.Named("e")...); err != nil {
		log.Fatal(err)
	}

	moved := 0
	for i := range 10000 {
		key := fmt.Sprint("user:", i)
		now, err := table.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		then, err := whatIf.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		if now != then {
			moved++
		}
	}
	fmt.Printf("a fifth backend moves %d of 10000 keys\n", moved)
	fmt.Println("backends:", table.Len(), "and", whatIf.Len())

	// Output:
	// a fifth backend moves 2003 of 10000 keys
	// backends: 4 and 5
}

// A request without a key goes to each healthy backend in turn.
func ExampleMaglev_Next() {
	table, err := chash.NewMaglev(chash.Named("a", "b", "c", "d"))
	if err != nil {
		log.Fatal(err)
	}
	if err := table.SetState("b", chash.Unhealthy); err != nil {
		log.Fatal(err)
	}
	var chosen []string
	for range 6 {
		backend, err := table.Next()
		if err != nil {
			log.Fatal(err)
		}
		chosen = append(chosen, backend)
	}
	fmt.Println(chosen)

	// Output:
	// [a c d a c d]
}

// Three replicas of each object on a ring of five nodes. When a node goes, the
// other two copies are where they were, and one more node is told to take one.
func ExampleRing_GetN() {
	ring, err := chash.NewRing(chash.Named("node-a", "node-b", "node-c", "node-d", "node-e"))
	if err != nil {
		log.Fatal(err)
	}
	nodes, err := ring.GetN("photo.jpg", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(nodes)

	if err := ring.Remove(nodes[0]); err != nil {
		log.Fatal(err)
	}
	nodes, err = ring.GetN("photo.jpg", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(nodes)

	// Output:
	// [node-a node-d node-c]
	// [node-d node-c node-b]
}

// A service that names only the calls it uses can have either structure. Both
// move what they must to a new backend; the ring moves nothing else.
func Example_swap() {
	type router interface {
		Get(key string) (string, error)
		Add(backends ...chash.Backend[string]) error
	}
	names := chash.Named("a", "b", "c")
	table, err := chash.NewMaglev(names)
	if err != nil {
		log.Fatal(err)
	}
	ring, err := chash.NewRing(names)
	if err != nil {
		log.Fatal(err)
	}

	for _, r := range []router{table, ring} {
		const keys = 20000
		var before [keys]string
		for i := range before {
			if before[i], err = r.Get(fmt.Sprint("user:", i)); err != nil {
				log.Fatal(err)
			}
		}
		if err := r.Add(chash.Named("d")...); err != nil {
			log.Fatal(err)
		}
		toNew, others := 0, 0
		for i := range before {
			after, err := r.Get(fmt.Sprint("user:", i))
			if err != nil {
				log.Fatal(err)
			}
			switch {
			case after == before[i]:
			case after == "d":
				toNew++
			default:
				others++
			}
		}
		fmt.Printf("%T: of %d keys %d moved to d, %d elsewhere\n", r, keys, toNew, others)
	}

	// Output:
	// *chash.Maglev[string]: of 20000 keys 4971 moved to d, 25 elsewhere
	// *chash.Ring[string]: of 20000 keys 4912 moved to d, 0 elsewhere
}

// Two tiers that use the same names need different mappings. Else each server of
// the second tier has all its requests from one server of the first.
func ExampleWithSeed() {
	names := chash.Named("a", "b", "c")
	first, err := chash.NewMaglev(names)
	if err != nil {
		log.Fatal(err)
	}
	for _, seed := range []uint64{0, 2} { // 0 is the default
		second, err := chash.NewMaglev(names, chash.WithSeed(seed))
		if err != nil {
			log.Fatal(err)
		}
		from := map[string]int{} // where a of the second tier has its requests from
		for i := range 9000 {
			key := fmt.Sprint("user:", i)
			frontend, err := first.Get(key)
			if err != nil {
				log.Fatal(err)
			}
			backend, err := second.Get(key)
			if err != nil {
				log.Fatal(err)
			}
			if backend == "a" {
				from[frontend]++
			}
		}
		fmt.Printf("seed %d: a has %d from a, %d from b, %d from c\n", seed, from["a"], from["b"], from["c"])
	}

	// Output:
	// seed 0: a has 2943 from a, 0 from b, 0 from c
	// seed 2: a has 974 from a, 1061 from b, 998 from c
}

// With a keyed hash nobody without the secret can compute keys that all lead to
// one backend. Processes that shall agree on the mapping share the secret.
func ExampleWithHash() {
	secret := []byte("read this from where secrets are kept")
	keyed := func(key string) uint64 {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		return binary.BigEndian.Uint64(mac.Sum(nil))
	}
	table, err := chash.NewMaglev(chash.Named("a", "b", "c"), chash.WithHash(keyed))
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"user:1", "user:2", "user:3", "user:4"} {
		backend, err := table.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key, backend)
	}

	// Output:
	// user:1 c
	// user:2 a
	// user:3 b
	// user:4 b
}

// Slack lets shares be a little uneven, so that fewer keys move when a backend comes
// or goes. Diff says how many, before the change is made.
func ExampleWithSlack() {
	backends := chash.Named()
	for i := range 100 {
		backends = append(backends, chash.Named(fmt.Sprintf("cache-%d", i))...)
	}
	for _, slack := range []struct {
		name   string
		option chash.MaglevOption // nil for none
	}{
		{"no slack", nil},
		{"slack of 1 %", chash.WithSlack(0.01)},
		{"no limit", chash.WithSlack(math.Inf(1))},
	} {
		table, err := chash.NewMaglev(backends, slack.option)
		if err != nil {
			log.Fatal(err)
		}
		without := table.Clone()
		if err := without.Remove("cache-42"); err != nil {
			log.Fatal(err)
		}
		diff, err := table.Diff(without)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: moved %.2f times the fewest possible, largest share %.2f times the fair one\n",
			slack.name, diff.Moved/diff.Least, table.Stats().MaxShareRatio)
	}
	// Output:
	// no slack: moved 1.55 times the fewest possible, largest share 1.00 times the fair one
	// slack of 1 %: moved 1.18 times the fewest possible, largest share 1.01 times the fair one
	// no limit: moved 1.00 times the fewest possible, largest share 1.08 times the fair one
}

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
