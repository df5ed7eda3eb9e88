package replay

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// An Extractor returns the key in a line, or false if the line has none. The line is
// without its end; the key may be a part of it.
type Extractor func(line []byte) (key []byte, ok bool)

// ErrExtract is returned for a field or a pattern that cannot be.
var ErrExtract = errors.New("no such key")

// Line takes the whole line. An empty one has no key.
func Line(line []byte) ([]byte, bool) {
	line = trimReturn(line)
	return line, len(line) > 0
}

// trimReturn cuts off the first half of the line end that Windows has.
func trimReturn(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// Field takes a field of a line, counted from 1. Without a separator, spaces and tabs
// separate fields, as many as there are.
func Field(number int, separator string) (Extractor, error) {
	if number < 1 {
		return nil, fmt.Errorf("%w: field %d; expected a number from 1 on", ErrExtract, number)
	}
	if separator != "" {
		by := []byte(separator)
		return func(line []byte) ([]byte, bool) {
			line = trimReturn(line)
			for range number - 1 {
				_, rest, found := bytes.Cut(line, by)
				if !found {
					return nil, false
				}
				line = rest
			}
			field, _, _ := bytes.Cut(line, by)
			return field, len(field) > 0
		}, nil
	}
	return func(line []byte) ([]byte, bool) {
		for n := 1; ; n++ {
			for len(line) > 0 && isSpace(line[0]) {
				line = line[1:]
			}
			end := 0
			for end < len(line) && !isSpace(line[end]) {
				end++
			}
			if end == 0 || n == number {
				return line[:end], end > 0
			}
			line = line[end:]
		}
	}, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// CSV takes a field of a record of CSV, counted from 1. A record is one line.
func CSV(number int) (Extractor, error) {
	if number < 1 {
		return nil, fmt.Errorf("%w: field %d; expected a number from 1 on", ErrExtract, number)
	}
	plain, err := Field(number, ",")
	if err != nil {
		return nil, err
	}
	return func(line []byte) ([]byte, bool) {
		if bytes.IndexByte(line, '"') < 0 {
			return plain(line)
		}
		record, err := csv.NewReader(bytes.NewReader(line)).Read()
		if err != nil || len(record) < number {
			return nil, false
		}
		return []byte(record[number-1]), record[number-1] != ""
	}, nil
}

// CSVColumn returns the number of a column, counted from 1, in a line of names.
func CSVColumn(header []byte, name string) (int, error) {
	record, err := csv.NewReader(bytes.NewReader(header)).Read()
	if err != nil {
		return 0, fmt.Errorf("%w: the first line is no CSV: %w", ErrExtract, err)
	}
	if i := slices.Index(record, name); i >= 0 {
		return i + 1, nil
	}
	return 0, fmt.Errorf("%w: column %q; the first line has %s", ErrExtract, name, strings.Join(record, ", "))
}

// JSON takes a field of an object of JSON in each line: a name, or several with points,
// as user.id. A string is taken without its quotes, and a number or a boolean as it
// stands.
func JSON(path string) (Extractor, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: expected the name of a JSON field", ErrExtract)
	}
	return func(line []byte) ([]byte, bool) {
		if len(line) == 0 || !gjson.ValidBytes(line) {
			return nil, false
		}
		switch value := gjson.GetBytes(line, path); value.Type {
		case gjson.String:
			return []byte(value.Str), value.Str != ""
		case gjson.Number, gjson.True, gjson.False:
			return []byte(value.Raw), true
		}
		return nil, false
	}, nil
}

// Patterns are those that have a name: the fields of the common and combined formats of
// access logs.
var Patterns = map[string]string{
	"address": `^(?P<key>\S+) `,
	"user":    `^\S+ \S+ (?P<key>\S+) \[`,
	"path":    `^[^"]*"[A-Z]+ (?P<key>[^ ?"]+)`,
	"url":     `^[^"]*"[A-Z]+ (?P<key>[^ "]+)`,
	"agent":   `"(?P<key>[^"]*)"$`,
}

// Pattern takes the group "key" of a regular expression, or else its first group, or else
// all that it matches. The name of one of the Patterns stands for that.
func Pattern(text string) (Extractor, error) {
	if named, found := Patterns[text]; found {
		text = named
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExtract, err)
	}
	group := pattern.SubexpIndex("key")
	if group < 0 {
		group = min(1, pattern.NumSubexp())
	}
	return func(line []byte) ([]byte, bool) {
		line = trimReturn(line)
		match := pattern.FindSubmatchIndex(line)
		if match == nil || match[2*group] < 0 {
			return nil, false
		}
		key := line[match[2*group]:match[2*group+1]]
		return key, len(key) > 0
	}, nil
}
