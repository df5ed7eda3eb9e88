// Command proxy compares examples/proxy with a bare httputil.ReverseProxy, nginx and
// HAProxy before the same backends: throughput, CPU time per request, and latency. It
// starts all of them on loopback, loads them with wrk, by turns, and prints a table in
// Markdown. It runs on Linux, and needs wrk; nginx and haproxy are left out where they are
// not installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// setup is what the flags say.
type setup struct {
	rounds      int
	time        time.Duration
	connections int
	body        int
}

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		play(role)
		return
	}
	var s setup
	flag.IntVar(&s.rounds, "rounds", 15, "`number` of turns of each; the table has medians")
	flag.DurationVar(&s.time, "time", time.Second, "`time` of a turn, whole seconds")
	flag.IntVar(&s.connections, "connections", 32, "`number` of connections that wrk keeps busy")
	flag.IntVar(&s.body, "body", 1024, "`bytes` of an answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// run compares and prints the table.
func run(ctx context.Context, s setup) error {
	if s.time < time.Second || s.rounds < 1 {
		return errors.New("want one round or more, of one second or more")
	}
	folder, err := os.MkdirTemp("", "proxy-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	f := &field{folder: folder, body: s.body}
	defer f.stop()
	if err := f.start(ctx); err != nil {
		return err
	}
	for _, p := range f.proxies { // warm
		if _, err := p.turn(ctx, s, folder); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for round := range s.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, s.rounds)
		turns := slices.Clone(f.proxies)
		if round%2 == 1 { // so that none always follows the same one
			slices.Reverse(turns)
		}
		for _, p := range turns {
			r, err := p.turn(ctx, s, folder)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.results = append(p.results, r)
		}
	}
	print(f.proxies, s)
	return nil
}

// columns are those of the table.
var columns = []struct {
	title string
	unit  float64
	of    func(result) float64
}{
	{"requests per second", 1, func(r result) float64 { return r.throughput }},
	{"CPU per request, µs", 1e6, func(r result) float64 { return r.cpu.Seconds() }},
	{"p50, ms", 1e3, func(r result) float64 { return r.p50.Seconds() }},
	{"p99, ms", 1e3, func(r result) float64 { return r.p99.Seconds() }},
}

// print prints the medians of each, and in brackets the median of the ratios to the bare
// one in the same round.
func print(proxies []*contender, s setup) {
	fmt.Printf("%s on %s/%s, %d processors; %d connections, answers of %d bytes, %d rounds of %v.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.connections, s.body, s.rounds, s.time)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprint(t, "| ")
	for _, c := range columns {
		fmt.Fprintf(t, "\t| %s", c.title)
	}
	fmt.Fprint(t, "\t|\n|---")
	for range columns {
		fmt.Fprint(t, "\t|---:")
	}
	fmt.Fprintln(t, "\t|")
	bare := proxies[0].results
	for _, p := range proxies {
		fmt.Fprintf(t, "| %s", p.name)
		for _, c := range columns {
			var values, ratios []float64
			for i, r := range p.results {
				values = append(values, c.of(r)*c.unit)
				ratios = append(ratios, c.of(r)/c.of(bare[i]))
			}
			fmt.Fprintf(t, "\t| %.4g (%.2f)", median(values), median(ratios))
		}
		fmt.Fprintln(t, "\t|")
	}
	t.Flush()
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
