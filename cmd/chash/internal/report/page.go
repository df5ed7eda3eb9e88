package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"os"
	"path/filepath"

	"github.com/chash-go/chash/cmd/chash/internal/output"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A Page is a report: words, pictures and tables.
type Page struct {
	Title    string
	Lines    []string
	Go       string
	Pictures []Picture
	Tables   []output.Table
}

// Inline returns the picture for a page. It is safe: gonum escapes what it draws.
func (p Picture) Inline() template.HTML { return template.HTML(p.SVG) }

// A row of a table as the template has it.
type row struct {
	Marked bool
	Cells  []cell
}

type cell struct {
	Left bool
	Text string
}

type pageTable struct {
	Title   string
	Columns []output.Column
	Rows    []row
}

// HTML returns the page as one file that asks for no other.
func (p Page) HTML() ([]byte, error) {
	var tables []pageTable
	for _, t := range p.Tables {
		table := pageTable{Title: t.Title, Columns: t.Columns}
		for i, cells := range t.Rows {
			r := row{Marked: i == t.Marked-1}
			for j, c := range cells {
				r.Cells = append(r.Cells, cell{t.Columns[j].Left, output.Printable(c.Text)})
			}
			table.Rows = append(table.Rows, r)
		}
		tables = append(tables, table)
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		Page
		Tables []pageTable
	}{p, tables})
	return b.Bytes(), err
}

// WriteHTML writes the page to a file.
func (p Page) WriteHTML(path string) error {
	text, err := p.HTML()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// WriteSVG writes each picture to a file in a folder, which is made if it is not there.
func (p Page) WriteSVG(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, picture := range p.Pictures {
		if picture.SVG == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, picture.Name+".svg"), []byte(picture.File()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
