package chash_test

import (
	"fmt"
	"log"
	"math"

	"github.com/chash-go/chash"
)

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
