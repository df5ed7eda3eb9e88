package chash_test

import (
	"expvar"
	"fmt"
	"os"
	"text/template"

	"github.com/chash-go/chash"
)

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
