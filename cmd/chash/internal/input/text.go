package input

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// lines reads a backend a line: its name, its weight and its state, which may be left
// out. What follows a # is a comment.
func (s *source) lines() (*List, error) {
	l := s.lister()
	line := 0
	for text := range strings.Lines(string(s.data)) {
		line++
		text, _, _ = strings.Cut(text, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if len(words) > 3 {
			return nil, s.failf(line, "expected NAME [WEIGHT] [STATE], found %d words", len(words))
		}
		b := mapping.Backend{Name: words[0]}
		var err error
		if len(words) > 1 {
			if b.Weight, err = s.weight(line, words[1]); err != nil {
				return nil, err
			}
		}
		if len(words) > 2 {
			if b.State, err = s.state(line, words[2]); err != nil {
				return nil, err
			}
		}
		if err := l.add(line, b); err != nil {
			return nil, err
		}
	}
	return &List{Backends: l.backends}, nil
}

// columns are those of a CSV file without a line of names.
var columns = []string{"name", "weight", "state", "hash_key"}

// csv reads a backend a record. A first record with a name in it says what the columns
// are.
func (s *source) csv() (*List, error) {
	l := s.lister()
	reader := csv.NewReader(bytes.NewReader(s.data))
	reader.Comment = '#'
	reader.FieldsPerRecord = -1
	reader.TrimLeadingSpace = true
	names := columns
	for first := true; ; first = false {
		record, err := reader.Read()
		if err == io.EOF {
			return &List{Backends: l.backends}, nil
		}
		if parse := new(csv.ParseError); errors.As(err, &parse) {
			return nil, s.failf(parse.Line, "expected CSV: %v", parse.Err)
		}
		if err != nil {
			return nil, s.failf(0, "%v", err)
		}
		line, _ := reader.FieldPos(0)
		if first && slices.Contains(record, "name") {
			for _, name := range record {
				if !slices.Contains(columns, name) {
					return nil, s.failf(line, "column %q; expected some of %s", name, strings.Join(columns, ", "))
				}
			}
			names = record
			continue
		}
		if len(record) > len(names) {
			return nil, s.failf(line, "expected %s, found %d fields", strings.Join(names, ", "), len(record))
		}
		b, err := s.record(line, names, record)
		if err != nil {
			return nil, err
		}
		if err := l.add(line, b); err != nil {
			return nil, err
		}
	}
}

// record returns the backend of a CSV record.
func (s *source) record(line int, names, fields []string) (b mapping.Backend, err error) {
	for i, field := range fields {
		field = strings.TrimSpace(field)
		switch {
		case names[i] == "name":
			b.Name = field
		case names[i] == "hash_key":
			b.HashKey = field
		case field == "":
		case names[i] == "weight":
			b.Weight, err = s.weight(line, field)
		case names[i] == "state":
			b.State, err = s.state(line, field)
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}
