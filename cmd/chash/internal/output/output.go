// Package output prints results for people, as JSON and as CSV.
package output

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// ErrFormat is returned for an unknown format.
var ErrFormat = errors.New("unknown output format")

// A Format is how results are printed.
type Format string

// The formats.
const (
	Text     Format = "table"
	JSON     Format = "json"
	CSV      Format = "csv"
	Markdown Format = "markdown"
)

// ParseFormat returns the format of that name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case Text, JSON, CSV, Markdown:
		return f, nil
	}
	return "", fmt.Errorf("%w: %q; expected table, json, csv or markdown", ErrFormat, name)
}

// A Cell is what a column has in a row: a text for people and a value for programs.
type Cell struct {
	Text  string
	Value any
}

// A Table is rows under names.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]Cell
	Marked  int // the row that stands out, from 1; 0 for none
}

// A Column is the name of a column: for people, and for programs.
type Column struct {
	Name string
	Key  string
	Left bool // of text; numbers stand at the right
}

// A Document is all that a command prints.
type Document struct {
	Data   any      // as JSON
	Head   []string // lines before the tables
	Tables []Table  // CSV has the first
	Foot   []string
}

// A Printer prints documents.
type Printer struct {
	Out    io.Writer
	Format Format
	Color  bool
}

// HasColor reports whether a writer shows colours: it is a terminal, and the environment
// does not ask for none.
func HasColor(out io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	return IsTerminal(out)
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Print prints a document.
func (p Printer) Print(d Document) error {
	switch p.Format {
	case JSON:
		encoder := json.NewEncoder(p.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(d.Data)
	case CSV:
		if len(d.Tables) == 0 {
			return nil
		}
		return writeCSV(p.Out, d.Tables[0])
	}
	var b strings.Builder
	for _, line := range d.Head {
		b.WriteString(line + "\n")
	}
	for i, t := range d.Tables {
		if i > 0 || len(d.Head) > 0 {
			b.WriteString("\n")
		}
		if t.Title != "" {
			b.WriteString(p.bold(t.Title) + "\n")
		}
		b.WriteString(p.render(t) + "\n")
	}
	if len(d.Foot) > 0 && len(d.Tables) > 0 {
		b.WriteString("\n")
	}
	for _, line := range d.Foot {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}

func (p Printer) bold(s string) string {
	if !p.Color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// render returns a table for people.
func (p Printer) render(t Table) string {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	var header table.Row
	var configs []table.ColumnConfig
	for i, c := range t.Columns {
		header = append(header, c.Name)
		align := text.AlignRight
		if c.Left {
			align = text.AlignLeft
		}
		configs = append(configs, table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align})
	}
	w.AppendHeader(header)
	w.SetColumnConfigs(configs)
	for i, cells := range t.Rows {
		var row table.Row
		for _, c := range cells {
			s := printable(c.Text)
			if p.Color && i == t.Marked-1 {
				s = "\x1b[32m" + s + "\x1b[0m"
			}
			row = append(row, s)
		}
		w.AppendRow(row)
	}
	if p.Format == Markdown {
		return w.RenderMarkdown()
	}
	return w.Render()
}

// printable replaces what would move a terminal's cursor or change its colours: names
// and keys come from elsewhere.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || 0x80 <= r && r < 0xA0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Printable is what a name or a key looks like on a terminal.
func Printable(s string) string { return printable(s) }

func writeCSV(out io.Writer, t Table) error {
	w := csv.NewWriter(out)
	var header []string
	for _, c := range t.Columns {
		header = append(header, c.Key)
	}
	records := [][]string{header}
	for _, cells := range t.Rows {
		var record []string
		for _, c := range cells {
			record = append(record, fmt.Sprint(c.Value))
		}
		records = append(records, record)
	}
	return w.WriteAll(records)
}

// String returns the cell of a text.
func String(s string) Cell { return Cell{s, s} }

// Int returns the cell of a number.
func Int[T ~int | ~int64 | ~uint64](n T) Cell { return Cell{Grouped(int64(n)), n} }

// Percent returns the cell of a share.
func Percent(share float64) Cell { return Cell{PercentText(share), share} }

// Ratio returns the cell of a ratio, with three digits after the point.
func Ratio(r float64) Cell { return Cell{fmt.Sprintf("%.3f", r), r} }

// PercentText returns a share as a percentage.
func PercentText(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// Bytes returns the cell of a number of bytes.
func Bytes(n int64) Cell { return Cell{BytesText(n), n} }

// BytesText returns a number of bytes for a reader.
func BytesText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// Duration returns the cell of a time, whose value is in nanoseconds.
func Duration(d time.Duration) Cell {
	text := fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	switch {
	case d < time.Microsecond:
		text = fmt.Sprintf("%d ns", d.Nanoseconds())
	case d >= time.Second:
		text = fmt.Sprintf("%.2f s", d.Seconds())
	}
	return Cell{text, d.Nanoseconds()}
}

// Nanoseconds returns the cell of a time of that many.
func Nanoseconds(ns float64) Cell { return Cell{fmt.Sprintf("%.1f ns", ns), ns} }

// Grouped returns a number with its digits in groups of three.
func Grouped(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var groups []string
	for len(s) > 3 {
		groups = append([]string{s[len(s)-3:]}, groups...)
		s = s[:len(s)-3]
	}
	return sign + strings.Join(append([]string{s}, groups...), ",")
}
