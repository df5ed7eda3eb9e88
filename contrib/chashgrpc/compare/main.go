// Command compare puts the policies of chashgrpc and grpc-go's own ring_hash side by
// side, in one run: real servers on loopback for where RPCs go and whether they fail,
// and pickers without gRPC around them for what they cost.
//
//	go run ./compare
//
// It prints a table in Markdown. Counts are of RPCs or keys; times are the least of
// several rounds, in which the policies take turns.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/chash-go/chash/contrib/chashgrpc"
	"google.golang.org/grpc/balancer/ringhash"
)

// A contestant is a policy with a configuration.
type contestant struct {
	title, policy, config string
}

var contestants = []contestant{
	{"ring_hash", ringhash.Name, `{"requestHashHeader": "x-key"}`},
	{"chash_ring", chashgrpc.RingName, `{"requestHashHeader": "x-key"}`},
	{"chash_maglev", chashgrpc.MaglevName, `{"requestHashHeader": "x-key"}`},
	{"chash_maglev, lazy", chashgrpc.MaglevName, `{"requestHashHeader": "x-key", "lazy": true}`},
}

// A scale says how much is measured.
type scale struct {
	keys    int           // of which each scenario makes RPCs
	aging   time.Duration // how long RPCs are made to servers whose connections age
	rounds  int           // of measurements
	updates int           // endpoints of the updates that are measured
	long    bool          // whether long scenarios run too
}

var (
	full  = scale{keys: 1000, aging: 5 * time.Second, rounds: 7, updates: 10_000, long: true}
	short = scale{keys: 200, aging: time.Second, rounds: 1, updates: 500}
)

// A row is one line of the table: a value for each contestant.
type row struct {
	what   string
	values []string
}

func main() {
	if serveIfAsked() {
		return
	}
	bounded := flag.Bool("short", false, "measure less, for a quick look")
	flag.Parse()
	s := full
	if *bounded {
		s = short
	}
	began := time.Now()
	rows, err := run(s)
	if err != nil {
		log.Fatal(err)
	}
	print(os.Stdout, rows)
	fmt.Printf("\nIn %v.\n", time.Since(began).Round(time.Second))
}

// run returns all rows.
func run(s scale) ([]row, error) {
	var rows []row
	for _, scenario := range scenarios {
		if scenario.long && (!s.long || sigstop == nil) {
			continue
		}
		lines := make([]row, len(scenario.lines))
		for i, what := range scenario.lines {
			lines[i].what = what
		}
		for _, c := range contestants {
			counts, err := scenario.run(c, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", c.title, scenario.lines[0], err)
			}
			for i, n := range counts {
				lines[i].values = append(lines[i].values, fmt.Sprint(n))
			}
		}
		rows = append(rows, lines...)
	}
	times, err := measure(s)
	return append(rows, times...), err
}

func print(w io.Writer, rows []row) {
	var titles, rules []string
	for _, c := range contestants {
		titles = append(titles, c.title)
		rules = append(rules, "--:")
	}
	fmt.Fprintf(w, "| | %s |\n|---|%s|\n", strings.Join(titles, " | "), strings.Join(rules, "|"))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s |\n", r.what, strings.Join(r.values, " | "))
	}
}
