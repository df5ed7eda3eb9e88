package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
)

// mostBars is how many backends have a bar each. More of them are drawn as a curve.
const mostBars = 48

// Shares draws what each backend has before and after a change, by its fair share.
func Shares(name string, before, after []mapping.Load) (Picture, error) {
	picture := Picture{
		Name: "shares", Title: "Shares before and after",
		Caption: "The share of each backend on " + name + ", relative to its fair share by weight. 1 is perfect.",
	}
	names := []string{}
	ratios := [2]map[string]float64{{}, {}}
	for i, loads := range [][]mapping.Load{before, after} {
		for _, l := range loads {
			if _, seen := ratios[0][l.Name]; !seen || i == 0 {
				names = append(names, l.Name)
			}
			ratios[i][l.Name] = l.Ratio
		}
	}
	if len(names) > mostBars {
		return shareCurves(picture, before, after)
	}
	// Bars lie, so that there is room for names; the first backend is at the top.
	slices.Reverse(names)
	p := newPlot("times the fair share", "")
	const thick = 6
	for i := range ratios {
		values := make(plotter.Values, len(names))
		for j, name := range names {
			values[j] = ratios[i][name]
		}
		bars, err := plotter.NewBarChart(values, thick)
		if err != nil {
			return picture, err
		}
		bars.Horizontal = true
		bars.LineStyle.Width = 0
		bars.Color = colorOf(i)
		bars.Offset = thick/2 - vg.Length(i)*thick
		p.Add(bars)
	}
	labels := make([]string, len(names))
	for i, name := range names {
		labels[i] = short(name, 22)
	}
	p.NominalY(labels...)
	p.X.Min = 0
	p.X.Tick.Marker = timesTicks{}
	picture.SVG = render(p, vg.Length(70+len(names)*20), []legendEntry{{"before", colorOf(0)}, {"after", colorOf(1)}})
	return picture, nil
}

// shareCurves draws the shares of many backends, sorted.
func shareCurves(picture Picture, before, after []mapping.Load) (Picture, error) {
	picture.Caption += " There are too many for bars: the curves have them from the smallest share to the largest."
	p := newPlot("backends, sorted by share", "times the fair share")
	p.Y.Tick.Marker = timesTicks{}
	for i, loads := range [][]mapping.Load{before, after} {
		var ratios []float64
		for _, l := range loads {
			if l.Fair > 0 {
				ratios = append(ratios, l.Ratio)
			}
		}
		slices.Sort(ratios)
		points := make(plotter.XYs, len(ratios))
		for j, r := range ratios {
			points[j] = plotter.XY{X: float64(j + 1), Y: r}
		}
		if err := addLine(p, points, i, false); err != nil {
			return picture, err
		}
	}
	picture.SVG = render(p, height, []legendEntry{{"before", colorOf(0)}, {"after", colorOf(1)}})
	return picture, nil
}

// addLine adds a line, with or without its points marked.
func addLine(p *plot.Plot, points plotter.XYs, number int, marked bool) error {
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = colorOf(number), 2
	if number >= len(palette)/2 {
		line.Dashes = []vg.Length{5, 3}
	}
	p.Add(line)
	if !marked {
		return nil
	}
	scatter, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	scatter.GlyphStyle = draw.GlyphStyle{Color: colorOf(number), Radius: 3, Shape: draw.CircleGlyph{}}
	p.Add(scatter)
	return nil
}

// mostStocks is how many backends the flows have on each side. The others are one.
const mostStocks = 24

// leastStock is how high the smallest of them is to be, so that there is room for a name,
// and mostFlows how high the picture may become for it.
const (
	leastStock = textSize
	mostFlows  = 620
)

// Flows draws which backends give keys to which.
func Flows(name string, flows []chash.Flow) (Picture, error) {
	picture := Picture{
		Name: "flows", Title: "Who gives keys to whom",
		Caption: "The keys that move on " + name + ": from the backends at the left to those at the right. The thickness is their share.",
	}
	grouped := group(flows)
	if len(grouped) == 0 {
		picture.Caption = "No key moves on " + name + "."
		return picture, nil
	}
	colors := map[string]int{}
	var drawn []plotter.Flow
	for _, f := range grouped {
		if _, found := colors[f.To]; !found {
			colors[f.To] = len(colors)
		}
		drawn = append(drawn, plotter.Flow{SourceLabel: f.From, ReceptorLabel: f.To, ReceptorCategory: 1, Value: f.Share, Group: f.To})
	}
	sankey, err := plotter.NewSankey(drawn...)
	if err != nil {
		return picture, err
	}
	sankey.StockBarWidth = 10
	total, left, right := 0.0, map[string]float64{}, map[string]float64{}
	for _, f := range grouped {
		total, left[f.From], right[f.To] = total+f.Share, left[f.From]+f.Share, right[f.To]+f.Share
	}
	least := total
	for _, side := range []map[string]float64{left, right} {
		for _, share := range side {
			least = min(least, share)
		}
	}
	high := max(220, min(mostFlows, leastStock*total/least+40))
	room := func(share float64) bool { return share/total*(high-40) >= leastStock-4 }
	sankey.FlowStyle = func(group string) (color.Color, draw.LineStyle) {
		return faint(colorOf(colors[group])), draw.LineStyle{}
	}
	p := newPlot("", "")
	sankey.StockStyle = func(label string, category int) (string, draw.TextStyle, vg.Length, vg.Length, color.Color, draw.LineStyle) {
		style := text.Style{Color: color.Black, Font: p.X.Tick.Label.Font, Handler: plot.DefaultTextHandler, XAlign: draw.XRight, YAlign: draw.YCenter}
		offset := vg.Length(-9)
		shade, share := colorOf(7), left[label]
		if category == 1 {
			style.XAlign, offset = draw.XLeft, 9
			shade, share = colorOf(colors[label]), right[label]
		}
		if !room(share) {
			label = ""
		}
		return short(label, 18), style, offset, 0, shade, draw.LineStyle{}
	}
	p.Add(sankey)
	p.HideAxes()
	p.X.Min, p.X.Max = -0.45, 1.45
	picture.SVG = render(p, vg.Length(high), nil)
	return picture, nil
}

// group returns the flows between the backends that give or get the most, with all others
// as one.
func group(flows []chash.Flow) []chash.Flow {
	gives, gets := map[string]float64{}, map[string]float64{}
	for _, f := range flows {
		gives[f.From] += f.Share
		gets[f.To] += f.Share
	}
	rename := func(sums map[string]float64) map[string]string {
		names := make([]string, 0, len(sums))
		for name := range sums {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			switch {
			case sums[a] > sums[b]:
				return -1
			case sums[a] < sums[b]:
				return 1
			case a < b:
				return -1
			}
			return 1
		})
		renamed := map[string]string{}
		for i, name := range names {
			renamed[name] = name
			if name == "" {
				renamed[name] = "(nobody)"
			}
			if len(names) > mostStocks && i >= mostStocks-1 {
				renamed[name] = fmt.Sprintf("%d others", len(names)-mostStocks+1)
			}
		}
		return renamed
	}
	from, to := rename(gives), rename(gets)
	var grouped []chash.Flow
	at := map[[2]string]int{}
	for _, f := range flows {
		pair := [2]string{from[f.From], to[f.To]}
		i, found := at[pair]
		if !found {
			i = len(grouped)
			at[pair] = i
			grouped = append(grouped, chash.Flow{From: pair[0], To: pair[1]})
		}
		grouped[i].Share += f.Share
	}
	return grouped
}

// Disruption draws what a removal moves over the number of backends, for each structure.
func Disruption(rows []plan.StudyRow) (Picture, error) {
	picture := Picture{
		Name: "disruption", Title: "Keys moved over the number of backends",
		Caption: "The keys that the removal of one of N equal backends moves, by the fewest possible. 1 is perfect.",
	}
	var names []string
	byName := map[string]plotter.XYs{}
	counts := countTicks{}
	for _, r := range rows {
		if byName[r.Name] == nil {
			names = append(names, r.Name)
		}
		byName[r.Name] = append(byName[r.Name], plotter.XY{X: float64(r.Backends), Y: r.RemovedTimes})
		if !slices.Contains(counts, r.Backends) {
			counts = append(counts, r.Backends)
		}
	}
	p := newPlot("backends", "keys moved, by the fewest possible")
	if len(counts) > 1 {
		p.X.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = counts, timesTicks{}
	var legend []legendEntry
	for i, name := range names {
		if err := addLine(p, byName[name], i, true); err != nil {
			return picture, err
		}
		legend = append(legend, legendEntry{name, colorOf(i)})
	}
	p.Y.Min = min(p.Y.Min, 1)
	p.Y.Max = max(p.Y.Max, 1.1)
	picture.SVG = render(p, height, legend)
	return picture, nil
}

// Rollout draws what the steps of a rollout move in all, for each structure.
func Rollout(rows []plan.Row) (Picture, error) {
	picture := Picture{
		Name: "rollout", Title: "Keys moved by the rollout",
		Caption: "The keys moved by all steps together, as a share of all keys: above 100 % keys move more than once.",
	}
	p := newPlot("steps", "keys moved in all")
	p.Y.Tick.Marker, p.X.Tick.Marker = percentTicks{}, timesTicks{}
	var legend []legendEntry
	for i, r := range rows {
		points := plotter.XYs{{}}
		for j, s := range r.Steps {
			points = append(points, plotter.XY{X: float64(j + 1), Y: s.Total})
		}
		if err := addLine(p, points, i, false); err != nil {
			return picture, err
		}
		legend = append(legend, legendEntry{r.Name, colorOf(i)})
	}
	p.Y.Min = 0
	picture.SVG = render(p, height, legend)
	return picture, nil
}

// Trade draws the largest share against the keys that a removal moves, a point for each
// structure or library.
func Trade(rows []plan.StudyRow, backends int) (Picture, error) {
	picture := Picture{
		Name: "trade", Title: "Evenness and disruption",
		Caption: fmt.Sprintf("%d equal backends: the largest share, by the mean, and the keys that a removal moves, by the fewest possible. The best place is at the lower left.", backends),
	}
	p := newPlot("keys moved by a removal, by the fewest possible", "largest share, by the mean")
	p.X.Scale, p.Y.Scale = spread{}, spread{}
	p.X.Tick.Marker = tradeTicks{1, 1.01, 1.05, 1.1, 1.2, 1.5, 2, 5, 10, 50}
	p.Y.Tick.Marker = tradeTicks{1, 1.01, 1.05, 1.1, 1.2, 1.5, 2, 3}
	var legend []legendEntry
	for i, r := range rows {
		scatter, err := plotter.NewScatter(plotter.XYs{{X: max(1, r.RemovedTimes), Y: max(1, r.Most)}})
		if err != nil {
			return picture, err
		}
		var shape draw.GlyphDrawer = draw.CircleGlyph{}
		if r.Spec == nil {
			shape = draw.BoxGlyph{} // another library
		}
		scatter.GlyphStyle = draw.GlyphStyle{Color: tradeColor(i), Radius: 5, Shape: shape}
		p.Add(scatter)
		name := r.Name
		legend = append(legend, legendEntry{name, tradeColor(i)})
	}
	p.X.Min, p.Y.Min = 1, 1
	p.X.Max *= 1.2
	p.Y.Max *= 1.1
	p.Add(plotter.NewGrid())
	picture.SVG = render(p, height+40, legend)
	return picture, nil
}

// tradeColor tells the points of one picture apart, also where there are more than the
// palette has: then the colours are lighter.
func tradeColor(i int) color.NRGBA {
	c := colorOf(i)
	if i >= len(palette) {
		c.R, c.G, c.B = c.R/2+100, c.G/2+100, c.B/2+100
	}
	return c
}

// spread is a scale of ratios from 1 on that shows small differences from 1: that of the
// logarithm of how far a ratio is from 1, straight below a hundredth.
type spread struct{}

// Normalize implements plot.Normalizer.
func (spread) Normalize(least, most, x float64) float64 {
	at := func(v float64) float64 { return math.Asinh(max(0, v-1) / 0.01) }
	return (at(x) - at(least)) / (at(most) - at(least))
}

// tradeTicks are ticks at these values.
type tradeTicks []float64

// Ticks implements plot.Ticker.
func (t tradeTicks) Ticks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range t {
		if v >= least && v <= most {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprint(v)})
		}
	}
	return ticks
}
