// Package report draws pictures of results: as SVG files, and as one HTML page that needs
// nothing else.
package report

import (
	"bytes"
	"fmt"
	"image/color"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/chash-go/chash/cmd/chash/internal/output"
)

// A Picture is one of a report.
type Picture struct {
	Name    string // of its file, without the ending
	Title   string
	Caption string // what it shows, and how to read it
	SVG     string // an element without colours of its own for text and axes
}

// Sizes of pictures, in points. They are small, so that text is readable on a narrow
// screen, where a picture shrinks.
const (
	width    = 480
	height   = 330
	textSize = 13
)

// palette is of colours that stand out on white and on near black.
var palette = []color.NRGBA{
	{0x3b, 0x82, 0xf6, 0xff}, {0xe8, 0x74, 0x3b, 0xff}, {0x19, 0xa9, 0x79, 0xff}, {0xa0, 0x6c, 0xd5, 0xff}, {0xed, 0x4a, 0x7b, 0xff},
	{0x13, 0xa4, 0xb4, 0xff}, {0xb8, 0x86, 0x0b, 0xff}, {0x80, 0x8f, 0x99, 0xff}, {0x6b, 0x9e, 0x3a, 0xff}, {0xc0, 0x55, 0x55, 0xff},
}

func colorOf(i int) color.NRGBA { return palette[i%len(palette)] }

// faint returns a colour that lets what is below shine through.
func faint(c color.NRGBA) color.NRGBA {
	c.A = 0x66
	return c
}

// newPlot returns an empty plot in the style of all pictures.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = textSize
		axis.Tick.Label.Font.Size = textSize - 1
		axis.Padding = 4
	}
	p.Legend.TextStyle.Font.Size = textSize - 1
	p.Legend.ThumbnailWidth = 14
	p.Legend.Padding = 2
	for _, style := range []*font.Font{
		&p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		style.Variant = "Sans"
	}
	return p
}

// draws draws a plot, with its legend, if it has one, below it.
func render(p *plot.Plot, high vg.Length, legend []legendEntry) string {
	rows := (len(legend) + 1) / 2
	below := vg.Length(rows) * (textSize + 5)
	canvas := vgsvg.New(width, high+below)
	all := draw.New(canvas)
	p.Draw(draw.Crop(all, 0, -12, below, -8))
	for i, entry := range legend {
		at := vg.Point{X: vg.Length(i%2)*width/2 + 8, Y: below - vg.Length(i/2+1)*(textSize+5) + 5}
		all.FillPolygon(entry.color, []vg.Point{at, {X: at.X + 12, Y: at.Y}, {X: at.X + 12, Y: at.Y + 9}, {X: at.X, Y: at.Y + 9}})
		all.FillText(p.Legend.TextStyle, vg.Point{X: at.X + 18, Y: at.Y}, short(entry.text, 32))
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		panic(err) // a buffer takes all
	}
	return adapt(b.String())
}

// A legendEntry says what a colour means.
type legendEntry struct {
	text  string
	color color.Color
}

var (
	header   = regexp.MustCompile(`(?s)^.*?<svg width="[^"]*" height="[^"]*"`)
	families = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;?`)
)

// adapt makes a picture as wide as it may be, with the text's font and colour that stand
// around it.
func adapt(svg string) string {
	svg = header.ReplaceAllString(svg, `<svg role="img" fill="currentColor"`)
	svg = families.ReplaceAllString(svg, "")
	svg = strings.ReplaceAll(svg, "stroke:#000000", "stroke:currentColor")
	return strings.TrimSpace(svg)
}

// File returns the picture as a file of its own, which follows the colours that the reader
// prefers.
func (p Picture) File() string {
	const style = `<style>svg{color:#1b1f24;background:#fff;font-family:system-ui,sans-serif}` +
		`@media(prefers-color-scheme:dark){svg{color:#e6e6e6;background:#14171a}}</style>`
	end := strings.IndexByte(p.SVG, '>') + 1
	return p.SVG[:end] + style + p.SVG[end:] + "\n"
}

// short returns a text of at most n characters that is safe to draw.
func short(text string, n int) string {
	runes := []rune(output.Printable(text))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

// percentTicks are ticks of shares.
type percentTicks struct{}

// Ticks implements plot.Ticker.
func (percentTicks) Ticks(least, most float64) []plot.Tick {
	return labelled(least, most, func(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) + " %" })
}

// timesTicks are ticks of multiples.
type timesTicks struct{}

// Ticks implements plot.Ticker.
func (timesTicks) Ticks(least, most float64) []plot.Tick {
	return labelled(least, most, func(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) })
}

func labelled(least, most float64, text func(float64) string) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i := range ticks {
		if !ticks[i].IsMinor() {
			ticks[i].Label = text(ticks[i].Value)
		}
	}
	return ticks
}

// countTicks are ticks of numbers on a logarithmic scale: those that were measured.
type countTicks []int

// Ticks implements plot.Ticker.
func (c countTicks) Ticks(float64, float64) []plot.Tick {
	var ticks []plot.Tick
	for _, n := range c {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
	}
	return ticks
}
