// Peers measures other libraries as chash study measures the structures of chash: how
// evenly keys are shared, how many move when the membership changes, and what a lookup
// takes. It prints rows that chash study reads by --with.
//
// All but times is the same in every run.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"time"

	"github.com/chash-go/chash/benchmarks/peers/internal/peer"
)

func main() {
	log.SetFlags(0)
	backends := flag.Int("backends", 100, "`number` of backends")
	sets := flag.Int("sets", 3, "`number` of sets of names")
	keys := flag.Int("keys", 1_000_000, "`number` of keys whose backends are counted")
	times := flag.Bool("times", true, "measure lookups")
	flag.Parse()
	rows, err := measureAll(*backends, *sets, *keys, *times)
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(rows); err != nil {
		log.Fatal(err)
	}
}

// A row is a line of a study, under the names that chash study gives its fields.
type row struct {
	Name         string  `json:"name"`
	Backends     int     `json:"backends"`
	Least        float64 `json:"least_share"`
	Most         float64 `json:"largest_share"`
	StdDev       float64 `json:"std_dev"`
	Removed      float64 `json:"moved_by_removal"`
	RemovedTimes float64 `json:"moved_by_removal_times"`
	Added        float64 `json:"moved_by_addition"`
	AddedTimes   float64 `json:"moved_by_addition_times"`
	Lookup       float64 `json:"lookup_ns,omitempty"`
}

func measureAll(backends, sets, keys int, times bool) ([]row, error) {
	rows := []row{}
	for _, p := range peer.All {
		r, err := measure(p, backends, sets, keys, times)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// measure sends the same keys through a library with n backends, with one less, and with
// one more. Every set of names is another sample.
func measure(p peer.Peer, n, sets, keys int, times bool) (row, error) {
	r := row{Name: p.Name, Backends: n}
	asked := make([]string, keys)
	for i := range asked {
		asked[i] = fmt.Sprintf("key-%d", i)
	}
	var removed, removedLeast, added, addedLeast int
	for set := range sets {
		names := make([]string, n+1)
		for i := range names {
			names[i] = fmt.Sprintf("set-%d/backend-%d", set, i)
		}
		gone, come := names[n/2], names[n]
		now, err := owners(p, names[:n], asked)
		if err != nil {
			return r, err
		}
		less, err := owners(p, slices.Concat(names[:n/2], names[n/2+1:n]), asked)
		if err != nil {
			return r, err
		}
		more, err := owners(p, names, asked)
		if err != nil {
			return r, err
		}
		counts := map[string]float64{}
		for i, owner := range now {
			counts[owner]++
			removed, removedLeast = tally(removed, removedLeast, owner != less[i], owner == gone)
			added, addedLeast = tally(added, addedLeast, owner != more[i], more[i] == come)
		}
		least, most, variance := math.Inf(1), 0.0, 0.0
		for _, name := range names[:n] {
			ratio := counts[name] * float64(n) / float64(keys)
			least, most = min(least, ratio), max(most, ratio)
			variance += (ratio - 1) * (ratio - 1) / float64(n)
		}
		r.Least += least / float64(sets)
		r.Most += most / float64(sets)
		r.StdDev += math.Sqrt(variance) / float64(sets)
	}
	all := float64(sets * keys)
	r.Removed, r.RemovedTimes = float64(removed)/all, float64(removed)/float64(removedLeast)
	r.Added, r.AddedTimes = float64(added)/all, float64(added)/float64(addedLeast)
	if times {
		lookup, err := lookupTime(p, n, asked[:min(keys, 1<<14)])
		if err != nil {
			return r, err
		}
		r.Lookup = lookup
	}
	return r, nil
}

// tally counts a key that moves, and one that must.
func tally(moved, least int, moves, must bool) (int, int) {
	if moves {
		moved++
	}
	if must {
		least++
	}
	return moved, least
}

// owners returns the backend of each key.
func owners(p peer.Peer, names, keys []string) ([]string, error) {
	get, err := p.New(names)
	if err != nil {
		return nil, err
	}
	owners := make([]string, len(keys))
	for i, key := range keys {
		if owners[i], err = get(key); err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// lookupTime returns the nanoseconds of a lookup, the median of a few rounds.
func lookupTime(p peer.Peer, n int, keys []string) (float64, error) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("set-0/backend-%d", i)
	}
	get, err := p.New(names)
	if err != nil {
		return 0, err
	}
	var times []float64
	for range 5 {
		began := time.Now()
		for _, key := range keys {
			if _, err := get(key); err != nil {
				return 0, err
			}
		}
		times = append(times, float64(time.Since(began).Nanoseconds())/float64(len(keys)))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
