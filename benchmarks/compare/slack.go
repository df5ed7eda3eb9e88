package main

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/chash-go/chash"
)

// tradeoffs are the structures that trade even shares for few moved keys, from the
// one end to the other.
func tradeoffs(slots int) []kind {
	every := func(int) iter.Seq[uint64] { return everySlot(slots) }
	slack := func(name string, e float64) kind { return kind{name, maglevOf(slots, chash.WithSlack(e)), every} }
	return []kind{
		{"Maglev", maglevOf(slots), every},
		slack("slack 0", 0),
		slack("1 %", 0.01),
		slack("2 %", 0.02),
		slack("5 %", 0.05),
		slack("no limit", math.Inf(1)),
		{"Ring", ringOf(), everywhere},
	}
}

// slackReport prints a column for each of the tradeoffs, as rows of a Markdown table.
func slackReport(out io.Writer, p plan) error {
	for _, of := range []struct{ backends, slots int }{{10, 65537}, {100, 65537}, {100, 131071}, {1000, 65537}, {1000, 655373}} {
		var moved strings.Builder
		fmt.Fprintf(&moved, "| %d, %d | moved |", of.backends, of.slots)
		var shares strings.Builder
		shares.WriteString("| | shares |")
		for _, k := range tradeoffs(of.slots) {
			sets := min(p.sets, max(1, p.slotsSum/of.slots))
			b, err := balanceOf(k.make, sets, of.backends)
			if err != nil {
				return err
			}
			d, err := disruptionOf(k.make, k.hashes(p.points), sets, of.backends)
			if err != nil {
				return err
			}
			fmt.Fprintf(&moved, " %.3f |", d.removed.excess())
			fmt.Fprintf(&shares, " %.2f–%.2f |", b.least, b.largest)
		}
		fmt.Fprintf(out, "%s\n%s\n", moved.String(), shares.String())
	}
	return nil
}

// Of the picture, in pixels, and its scales.
const (
	width, height = 560, 300
	left, right   = 60, 540 // of the axes
	top, bottom   = 20, 250
	mostMoved     = 1.6  // times the fewest; the least is 1
	mostAbove     = 0.20 // of the fair share; the least is 0
)

// picture draws, for 100 equal backends, how far the largest share is above the fair
// one against the keys that a removal moves.
func picture(sets int) ([]byte, error) {
	const backends = 100
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&out, `<path d="M%d %dV%dH%d" fill="none" stroke="#888"/>`+"\n", left, top, bottom, right)
	for _, above := range []float64{0, 0.05, 0.10, 0.15, 0.20} {
		text(&out, left-8, y(above)+4, "end", fmt.Sprintf("%.0f %%", 100*above))
	}
	for _, moved := range []float64{1, 1.2, 1.4, 1.6} {
		text(&out, x(moved), bottom+18, "middle", fmt.Sprintf("%.1f", moved))
	}
	text(&out, (left+right)/2, bottom+38, "middle", "keys moved by a removal, times the fewest possible")
	text(&out, right, top+4, "end", "largest share above the fair one, 100 equal backends")
	for _, k := range tradeoffs(chash.DefaultTableSize) {
		b, err := balanceOf(k.make, sets, backends)
		if err != nil {
			return nil, err
		}
		d, err := disruptionOf(k.make, k.hashes(full.points), sets, backends)
		if err != nil {
			return nil, err
		}
		at, up := x(d.removed.excess()), y(b.largest-1)
		fmt.Fprintf(&out, `<circle cx="%.0f" cy="%.0f" r="4" fill="#06c"/>`+"\n", at, up)
		text(&out, at+8, up-4, "start", k.name)
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

// x and y are where values lie in the picture.
func x(moved float64) float64 { return left + (moved-1)/(mostMoved-1)*(right-left) }
func y(above float64) float64 { return bottom - above/mostAbove*(bottom-top) }

func text(out *bytes.Buffer, x, y float64, anchor, text string) {
	fmt.Fprintf(out, `<text x="%.0f" y="%.0f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, text)
}
