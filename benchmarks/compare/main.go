// Compare measures what tells a Maglev table from a ring, and prints it as
// Markdown: how evenly keys are shared, how many move when the membership changes,
// and what memory, time to build and time to look up they take. A second table is
// for choosing the size of a Maglev table.
//
// All but times and memory is the same in every run, on every machine.
//
// With -slack it prints what slack does to balance and disruption, and with -picture it draws balance against moved keys instead, as an SVG file.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
)

func main() {
	log.SetFlags(0)
	slack := flag.Bool("slack", false, "print what slack does to balance and disruption")
	path := flag.String("picture", "", "draw balance against moved keys to this file")
	flag.Parse()
	if *path != "" {
		svg, err := picture(full.sets)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(*path, svg, 0o644); err != nil {
			log.Fatal(err)
		}
		return
	}
	out := bufio.NewWriter(os.Stdout)
	print := report
	if *slack {
		print = slackReport
	}
	if err := print(out, full); err != nil {
		log.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// plan says how much to measure.
type plan struct {
	backends []int // of both structures
	sets     int   // of names, over which balance and disruption are averaged
	points   int   // at which a ring is looked up to see which keys move
	builds   int   // of which the median time is taken
	lookups  int   // of which the median of several such rounds is taken

	sizing   []int // backends of the tables of many sizes
	slots    []int // of those, for each backend
	slotsSum int   // slots to fill for one line of the sizing table: fewer sets of names for larger tables
}

var full = plan{
	backends: []int{10, 100, 1000},
	sets:     10,
	points:   1 << 17,
	builds:   9,
	lookups:  1 << 20,
	sizing:   []int{10, 100, 1000, 10000},
	slots:    []int{10, 100, 1000},
	slotsSum: 10_000_000,
}

// report measures and prints according to a plan.
func report(out io.Writer, p plan) error {
	fmt.Fprintf(out, "Measured with %s on %s/%s, %d processors. Equal weights; averages over %d sets of names.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), p.sets)

	fmt.Fprintln(out, "| backends | structure | least share | largest share | moved by a removal | moved by an addition | memory | build | lookup |")
	fmt.Fprintln(out, "|---:|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, n := range p.backends {
		for _, k := range kinds {
			b, err := balanceOf(k.make, p.sets, n)
			if err != nil {
				return err
			}
			d, err := disruptionOf(k.make, k.hashes(p.points), p.sets, n)
			if err != nil {
				return err
			}
			c, err := costOf(k.make, p, n)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "| %d | %s | %.1f %% | %.1f %% | %s | %s | %s | %s | %.1f ns |\n",
				n, k.name, 100*b.least, 100*b.largest, d.removed, d.added, size(c.memory), milliseconds(c.build), c.lookup)
		}
	}

	fmt.Fprint(out, "\nShares are relative to the mean. Moved keys: of all keys, and relative to the fewest possible.\n\n")
	fmt.Fprintln(out, "| backends | slots | slots per backend | least share | largest share | moved by a removal | moved by an addition |")
	fmt.Fprintln(out, "|---:|---:|---:|---:|---:|---:|---:|")
	for _, n := range p.sizing {
		for _, each := range p.slots {
			slots := primeFrom(n * each)
			sets := min(p.sets, max(1, p.slotsSum/slots))
			b, err := balanceOf(maglevOf(slots), sets, n)
			if err != nil {
				return err
			}
			d, err := disruptionOf(maglevOf(slots), everySlot(slots), sets, n)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "| %d | %d | %d | %.1f %% | %.1f %% | %s | %s |\n",
				n, slots, each, 100*b.least, 100*b.largest, d.removed, d.added)
		}
	}
	return nil
}
