package chashprom_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

var picture = flag.String("picture", "", "`file` to write the picture of the README to, which takes a minute; needs prometheus and chromium")

// The picture of the README: what a real Prometheus has for the panels of the dashboard
// while three processes lose a backend and come to differ, and the alerts then. A page of
// this file draws it, in the place of Grafana.
func TestPrometheus_Picture(t *testing.T) {
	if *picture == "" {
		t.Skip("-picture names no file")
	}
	chromium := program(t, "chromium")
	f := startFleet(t, 3, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")
	began := time.Now()
	done := make(chan struct{})
	go f.load(done)
	story := []func() error{
		func() error { return f.each(func(c *table) error { return c.SetState("10.0.0.2", chash.Unhealthy) }) },
		func() error { return f.each(func(c *table) error { return c.SetState("10.0.0.2", chash.Healthy) }) },
		func() error { return f.tables[0].Add(chash.Named("10.0.0.6")...) }, // the others are not told
		func() error { return f.each(func(c *table) error { return c.SetState("10.0.0.4", chash.Unhealthy) }) },
		func() error { return nil },
	}
	for _, change := range story {
		time.Sleep(12 * time.Second)
		require.NoError(t, change())
	}
	close(done)
	page := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(page, []byte(f.page(t, began, time.Now())), 0o600))
	out, err := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--window-size=1160,730", "--screenshot="+*picture, "file://"+page).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

type table = chash.Maglev[string]

func (f *fleet) each(change func(*table) error) error {
	for _, table := range f.tables {
		if err := change(table); err != nil {
			return err
		}
	}
	return nil
}

// load takes leases and gives them back, until done.
func (f *fleet) load(done <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-tick.C:
			lease, err := f.tables[i%len(f.tables)].Acquire(strconv.Itoa(i))
			if err == nil {
				time.AfterFunc(time.Duration(800+i*37%700)*time.Millisecond, lease.Release)
			}
		}
	}
}

const (
	plotWidth, plotHeight = 350.0, 130.0

	pageStyle = `<meta charset=utf-8><style>
body{font:13px sans-serif;margin:12px;background:#fff;color:#222}.p{display:inline-block;width:350px;height:196px;margin:6px 10px;vertical-align:top}
h2{font-size:14px;margin:0 0 4px}svg{background:#f5f7fa;display:block}.l{font-size:11px;line-height:14px;margin-top:3px}.b{font-size:44px;margin:20px 0}
.a{border-left:5px solid #c22;background:#fdecec;padding:6px 10px;margin:6px 10px;width:1080px}</style>`
)

var colors = []string{"#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"}

// page returns the panels and the alerts as a page.
func (f *fleet) page(t *testing.T, from, to time.Time) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(pageStyle)
	for _, summary := range f.alerts() {
		fmt.Fprintf(&b, "<div class=a><b>pending</b>, firing after 5 minutes: %s</div>", html.EscapeString(summary))
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var kinds struct{ Panels []struct{ Type string } }
	require.NoError(t, json.Unmarshal(text, &kinds))
	for i, p := range panels(t) {
		fmt.Fprintf(&b, "<div class=p><h2>%s</h2>", html.EscapeString(p.Title))
		if kinds.Panels[i].Type == "stat" {
			now := f.query(p.Targets[0].Expr)
			require.Len(t, now, 1)
			fmt.Fprintf(&b, "<div class=b>%s</div><div class=l>%s</div></div>", now[0].Value[1], now[0].Metric["structure"])
			continue
		}
		b.WriteString(f.plot(t, p, from, to))
		b.WriteString("</div>")
	}
	return b.String()
}

// A line is a series to draw.
type line struct {
	name   string
	points [][2]float64
}

// plot returns a panel as lines over time, with the range of its values.
func (f *fleet) plot(t *testing.T, p panel, from, to time.Time) string {
	t.Helper()
	var lines []line
	least, most := 0.0, 0.0
	for _, target := range p.Targets {
		samples, err := f.ask("/api/v1/query_range", url.Values{
			"query": {target.Expr}, "step": {"0.5"},
			"start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(to.Unix())},
		})
		require.NoError(t, err)
		for _, s := range samples {
			l := line{name: target.LegendFormat}
			for label, value := range s.Metric {
				l.name = strings.ReplaceAll(l.name, "{{"+label+"}}", value)
			}
			for _, v := range s.Values {
				y, err := strconv.ParseFloat(v[1].(string), 64)
				require.NoError(t, err)
				l.points = append(l.points, [2]float64{v[0].(float64), y})
				least, most = math.Min(least, y), math.Max(most, y)
			}
			lines = append(lines, l)
		}
	}
	if most == least {
		most = least + 1
	}
	var b, legend strings.Builder
	fmt.Fprintf(&b, `<svg width=%v height=%v>`, plotWidth, plotHeight)
	for i, l := range lines {
		color := colors[i%len(colors)]
		fmt.Fprintf(&legend, `<span style="color:%s">&#9632; %s</span> `, color, html.EscapeString(l.name))
		path, before := "", 0.0
		for _, point := range l.points {
			x := (point[0] - float64(from.Unix())) / to.Sub(from).Seconds() * plotWidth
			y := plotHeight - 4 - (point[1]-least)/(most-least)*(plotHeight-20)
			command := "L"
			if path == "" || point[0]-before > 1 { // a gap is one
				command = "M"
			}
			path += fmt.Sprintf("%s%.1f %.1f", command, x, y)
			before = point[0]
		}
		fmt.Fprintf(&b, `<path d="%s" fill=none stroke="%s" stroke-width=2 />`, path, color)
	}
	fmt.Fprintf(&b, `<text x=4 y=12 font-size=11>%.3g</text></svg><div class=l>%s</div>`, most, &legend)
	return b.String()
}
