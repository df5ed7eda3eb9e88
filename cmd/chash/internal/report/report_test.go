package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
	"github.com/chash-go/chash/cmd/chash/internal/output"
	"github.com/chash-go/chash/cmd/chash/internal/plan"
)

// hostile are names that would be something else in a picture or a page.
var hostile = []string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "a\x00\x1b[2Jb", "&amp;", strings.Repeat("long", 40), "ünï-😀", "\n"}

func loadsOf(names []string) []mapping.Load {
	var loads []mapping.Load
	for i, name := range names {
		loads = append(loads, mapping.Load{Name: name, Share: 1 / float64(len(names)), Fair: 1 / float64(len(names)), Ratio: 0.9 + float64(i%3)/10})
	}
	return loads
}

// samples are pictures of every kind, of many backends and few, and of names of all kinds.
func samples(t *testing.T) []Picture {
	t.Helper()
	var pictures []Picture
	add := func(p Picture, err error) {
		require.NoError(t, err)
		pictures = append(pictures, p)
	}
	for _, n := range []int{1, 7, mostBars, mostBars + 1, 500} {
		names := append([]string{}, hostile[:min(n, len(hostile))]...)
		for len(names) < n {
			names = append(names, fmt.Sprintf("b-%d", len(names)))
		}
		add(Shares("s", loadsOf(names), loadsOf(names[1:])))
		var flows []chash.Flow
		for i, from := range names {
			flows = append(flows, chash.Flow{From: from, To: names[(i*7+1)%n] + "'", Share: 0.01 * float64(i%5+1)}, chash.Flow{From: from, To: "", Share: 1e-9})
		}
		add(Flows("s", flows))
	}
	add(Flows("s", nil))
	var rows []plan.StudyRow
	var planned []plan.Row
	for _, spec := range plan.Candidates(10) {
		for _, n := range []int{3, 30, 300} {
			rows = append(rows, plan.StudyRow{Name: spec.String(), Spec: &spec, Backends: n, RemovedTimes: 1 + float64(n)/100, Evenness: mapping.Evenness{Most: 1.01}})
		}
		planned = append(planned, plan.Row{Name: spec.String(), Steps: []plan.Step{{Total: 0.1}, {Total: 0.3}}})
	}
	rows = append(rows, plan.StudyRow{Name: hostile[0], Backends: 30, RemovedTimes: 40, Evenness: mapping.Evenness{Most: 2}})
	add(Disruption(rows))
	add(Disruption(rows[:1]))
	add(Trade(rows, 30))
	add(Rollout(planned))
	return pictures
}

// TestPictures: each is well-formed, has no elements but those of a drawing, and takes its
// colour and its font from around it.
func TestPictures(t *testing.T) {
	for _, p := range samples(t) {
		if p.SVG == "" {
			require.Contains(t, p.Caption, "No key moves")
			continue
		}
		for _, text := range []string{p.SVG, p.File()} {
			decoder := xml.NewDecoder(strings.NewReader(text))
			for {
				token, err := decoder.Token()
				if err == io.EOF {
					break
				}
				require.NoError(t, err, p.Name)
				if element, ok := token.(xml.StartElement); ok {
					require.Contains(t, []string{"svg", "g", "path", "text", "style", "defs", "rect", "circle"}, element.Name.Local)
					for _, a := range element.Attr {
						require.False(t, strings.HasPrefix(a.Name.Local, "on"), a.Name.Local)
					}
				}
			}
			require.NotContains(t, text, "NaN")
			require.NotContains(t, text, "Inf")
			require.NotContains(t, text, "Liberation")
			require.NotContains(t, text, "#000000")
		}
		require.Contains(t, p.SVG, "viewBox")
	}
}

// TestGroup: nothing is lost where backends are put together.
func TestGroup(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var flows []chash.Flow
	total := 0.0
	for i := range 400 {
		f := chash.Flow{From: fmt.Sprint(i % 40), To: fmt.Sprint(i % 30), Share: random.Float64()}
		total += f.Share
		flows = append(flows, f)
	}
	sum, from, to := 0.0, map[string]bool{}, map[string]bool{}
	for _, f := range group(flows) {
		sum += f.Share
		from[f.From], to[f.To] = true, true
	}
	require.InDelta(t, total, sum, 1e-9)
	require.Len(t, from, mostStocks)
	require.Len(t, to, mostStocks)
	require.True(t, from["17 others"])
	require.True(t, to["7 others"])
}

// samplePage is a page of all pictures.
func samplePage(t *testing.T) Page {
	page := Page{Title: "A <page>", Lines: []string{"One & all", hostile[0]}, Go: "chash.NewMaglev(backends)", Tables: []output.Table{{
		Title: "T", Columns: []output.Column{{Name: "name", Left: true}, {Name: "n"}}, Marked: 1,
	}}}
	for _, name := range hostile {
		page.Tables[0].Rows = append(page.Tables[0].Rows, []output.Cell{output.String(name), output.Int(1)})
	}
	page.Pictures = samples(t)
	return page
}

// TestPage: what comes from elsewhere is text in the page, and the page asks for nothing.
func TestPage(t *testing.T) {
	text, err := samplePage(t).HTML()
	require.NoError(t, err)
	page := string(text)
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, "<img")
	require.Contains(t, page, "&lt;script&gt;alert(1)")
	for _, asks := range []string{"http://", "https://", "src=", "@import", "url("} {
		require.NotContains(t, strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(page, "http://www.w3.org/", ""), "&lt;img src=x", ""), "https://www.w3.org/", ""), asks)
	}
	require.Contains(t, page, `<tr class="marked">`)
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	page := samplePage(t)
	require.NoError(t, page.WriteSVG(dir))
	for _, name := range []string{"shares", "flows", "disruption", "trade", "rollout"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		require.NoError(t, err)
		require.Contains(t, string(text), "prefers-color-scheme")
	}
	path := filepath.Join(dir, "page.html")
	require.NoError(t, page.WriteHTML(path))
	require.FileExists(t, path)
	require.Error(t, page.WriteHTML(dir))
	require.Error(t, page.WriteSVG(path))
}
