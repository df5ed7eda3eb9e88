// Package input reads backends from lists and from the configurations of nginx, HAProxy
// and Envoy.
package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// ErrInput is returned for what is not a list of backends. Its text has the file, the
// line and what was expected.
var ErrInput = errors.New("not a list of backends")

// Limits of what is read.
const (
	MaxBytes    = 64 << 20 // of a file
	MaxBackends = 1 << 20
)

// A Format is how backends are written.
type Format string

// The formats. Auto finds out which of the others it is.
const (
	Auto    Format = "auto"
	Lines   Format = "lines"
	CSV     Format = "csv"
	JSON    Format = "json"
	YAML    Format = "yaml"
	Nginx   Format = "nginx"
	HAProxy Format = "haproxy"
	Envoy   Format = "envoy"
)

// Formats are all of them.
var Formats = []Format{Auto, Lines, CSV, JSON, YAML, Nginx, HAProxy, Envoy}

// A List is what a file says.
type List struct {
	Backends []mapping.Backend
	Format   Format
	Pool     string        // of the upstream, the backend or the cluster
	Spec     *mapping.Spec // nil where the file does not say
}

// An Error says where something is wrong. It matches ErrInput.
type Error struct {
	File string
	Line int // from 1; 0 for the whole file
	What string
}

// Error returns FILE:LINE: WHAT.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.What
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.What
}

// Is reports whether the target is ErrInput.
func (e *Error) Is(target error) bool { return target == ErrInput }

// A source is a file being read.
type source struct {
	file string
	pool string
	data []byte
}

// failf returns an Error about a line.
func (s *source) failf(line int, format string, args ...any) error {
	return &Error{s.file, line, fmt.Sprintf(format, args...)}
}

// Read reads a file, or standard input for "-". The pool is the name of the upstream,
// the backend section or the cluster that is meant; it may be empty if there is only one.
func Read(path string, stdin io.Reader, format Format, pool string) (*List, error) {
	name, in := path, stdin
	if path == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Parse(name, data, format, pool)
}

// Parse is Read of data that are there already; the name of the file is for errors and,
// with Auto, for its ending.
func Parse(file string, data []byte, format Format, pool string) (*List, error) {
	s := &source{file: file, pool: pool, data: bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))}
	if len(data) > MaxBytes {
		return nil, s.failf(0, "it is longer than %d MiB", MaxBytes>>20)
	}
	if err := s.checkText(); err != nil {
		return nil, err
	}
	if format == Auto || format == "" {
		format = detect(file, s.data)
	}
	var list *List
	var err error
	switch format {
	case Lines:
		list, err = s.lines()
	case CSV:
		list, err = s.csv()
	case JSON, YAML, Envoy:
		list, err = s.tree(format)
	case Nginx:
		list, err = s.nginx()
	case HAProxy:
		list, err = s.haproxy()
	default:
		return nil, fmt.Errorf("%w: format %q; expected one of %v", ErrInput, format, Formats)
	}
	if err != nil {
		return nil, err
	}
	if list.Format == "" {
		list.Format = format
	}
	return list, s.checkBackends(list)
}

// checkText returns an error for what is not text.
func (s *source) checkText() error {
	valid := s.data
	for line := 1; len(valid) > 0; line++ {
		text, rest, _ := bytes.Cut(valid, []byte{'\n'})
		if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
			return s.failf(line, "expected text in UTF-8, found other bytes")
		}
		valid = rest
	}
	return nil
}

// checkBackends returns an error for names that are missing or there twice.
func (s *source) checkBackends(list *List) error {
	if len(list.Backends) == 0 {
		return s.failf(0, "expected backends (%s), found none", list.Format)
	}
	if len(list.Backends) > MaxBackends {
		return s.failf(0, "it has %d backends, the limit is %d", len(list.Backends), MaxBackends)
	}
	return nil
}

// A lister collects backends and refuses what cannot be one.
type lister struct {
	*source
	backends []mapping.Backend
	lines    map[string]int // by name
}

func (s *source) lister() *lister { return &lister{source: s, lines: map[string]int{}} }

// add adds a backend that stands on a line.
func (l *lister) add(line int, b mapping.Backend) error {
	if b.Name == "" {
		return l.failf(line, "expected the name of a backend, found an empty one")
	}
	if first, found := l.lines[b.Name]; found {
		return l.failf(line, "the backend %q is there already, on line %d", b.Name, first)
	}
	if len(l.backends) == MaxBackends {
		return l.failf(line, "it has more than %d backends", MaxBackends)
	}
	l.lines[b.Name] = line
	l.backends = append(l.backends, b)
	return nil
}

// weight returns the weight that a text says.
func (s *source) weight(line int, text string) (uint32, error) {
	w, err := strconv.ParseUint(text, 10, 32)
	if err != nil || w == 0 {
		return 0, s.failf(line, "weight %q; expected a whole number from 1 to 4294967295", text)
	}
	return uint32(w), nil
}

// state returns the state that a text says.
func (s *source) state(line int, text string) (chash.State, error) {
	var state chash.State
	if err := state.UnmarshalText([]byte(text)); err != nil {
		return 0, s.failf(line, "state %q; expected healthy, unhealthy or draining", text)
	}
	return state, nil
}

var (
	upstreamLine = regexp.MustCompile(`(?m)^\s*upstream\s+\S+\s*(\{|$)`)
	sectionLine  = regexp.MustCompile(`(?m)^(backend|listen|global|defaults|frontend)(\s|$)`)
	serverLine   = regexp.MustCompile(`(?m)^\s+server\s+\S+\s+\S+`)
	yamlLine     = regexp.MustCompile(`(?m)^\s*(-\s+\S|-$|[A-Za-z_"'][\w"'-]*:(\s|$)|---)`)
	csvLine      = regexp.MustCompile(`(?m)^[^#\n]*,`)
)

// detect finds out the format, from the ending of the name and else from the contents.
func detect(file string, data []byte) Format {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv":
		return CSV
	case ".json":
		return JSON
	case ".yaml", ".yml":
		return YAML
	}
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '['):
		return JSON
	case upstreamLine.Match(data):
		return Nginx
	case sectionLine.Match(data) && serverLine.Match(data):
		return HAProxy
	case yamlLine.Match(data):
		return YAML
	case csvLine.Match(data):
		return CSV
	}
	return Lines
}
