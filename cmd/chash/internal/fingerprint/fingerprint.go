// Package fingerprint reads the fingerprints that running processes show: in the
// Prometheus metrics of contrib/chashprom, or in JSON.
package fingerprint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ErrFetch is returned where a process does not show a fingerprint.
var ErrFetch = errors.New("no fingerprint")

// MaxBytes is how much of an answer is read.
const MaxBytes = 16 << 20

// A Fingerprint is what a process shows of one structure.
type Fingerprint struct {
	Structure string // its name in the process, which may be empty
	Home      Value  // of the mapping with all backends healthy
	Live      Value  // of the mapping as it is now
}

// A Value is a fingerprint, where it is known.
type Value struct {
	Sum   uint64
	Known bool
}

// Whole returns the value of a fingerprint.
func Whole(sum uint64) Value { return Value{sum, true} }

// Same reports whether two values are known and equal.
func (v Value) Same(other Value) bool { return v.Known && other == v }

// String returns the value in hexadecimal.
func (v Value) String() string {
	if !v.Known {
		return "none"
	}
	return fmt.Sprintf("%016x", v.Sum)
}

// IsURL reports whether an argument is a URL to fetch.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// Fetch asks a process for its fingerprints, and returns its answer too.
func Fetch(ctx context.Context, url string, timeout time.Duration) ([]Fingerprint, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFetch, err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4, application/json;q=0.9, */*;q=0.1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFetch, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%w: %s answered %s", ErrFetch, url, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrFetch, url, err)
	}
	if len(body) > MaxBytes {
		return nil, nil, fmt.Errorf("%w: %s answered more than %d MiB", ErrFetch, url, MaxBytes>>20)
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	found, err := Parse(body, kind == "application/json")
	if err != nil {
		return nil, body, fmt.Errorf("%w: %s: %w", ErrFetch, url, err)
	}
	return found, body, nil
}

// Parse returns the fingerprints in an answer, in the order of the names of structures.
func Parse(body []byte, isJSON bool) ([]Fingerprint, error) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); isJSON || len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return parseJSON(body)
	}
	return parseMetrics(body)
}

// collector gathers the fingerprints by the name of the structure.
type collector map[string]*Fingerprint

func (c collector) of(structure string) *Fingerprint {
	if c[structure] == nil {
		c[structure] = &Fingerprint{Structure: structure}
	}
	return c[structure]
}

func (c collector) list() []Fingerprint {
	var list []Fingerprint
	for _, f := range c {
		if f.Home.Known || f.Live.Known {
			list = append(list, *f)
		}
	}
	slices.SortFunc(list, func(a, b Fingerprint) int { return strings.Compare(a.Structure, b.Structure) })
	return list
}

// parseMetrics reads chash_fingerprint_info and chash_live_fingerprint_info, whose label
// "fingerprint" has the digits: a number of a metric would hold 53 bits of them.
func parseMetrics(body []byte) ([]Fingerprint, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("expected Prometheus metrics or JSON: %w", err)
	}
	found := collector{}
	for name, of := range map[string]func(*Fingerprint) *Value{
		"chash_fingerprint_info":      func(f *Fingerprint) *Value { return &f.Home },
		"chash_live_fingerprint_info": func(f *Fingerprint) *Value { return &f.Live },
	} {
		for _, m := range families[name].GetMetric() {
			if sum, ok := parseHex(label(m, "fingerprint")); ok {
				*of(found.of(label(m, "structure"))) = Whole(sum)
			}
		}
	}
	list := found.list()
	if len(list) == 0 {
		return nil, errors.New("expected the metric chash_fingerprint_info, found none")
	}
	return list, nil
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// parseJSON looks for objects with a field "fingerprint", at any depth. The name of a
// structure is the field "structure_name" or "name" beside it, or the name of the object.
func parseJSON(body []byte) ([]Fingerprint, error) {
	var root any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("expected JSON: %w", err)
	}
	found := collector{}
	var visit func(name string, value any)
	visit = func(name string, value any) {
		switch v := value.(type) {
		case []any:
			for _, item := range v {
				visit(name, item)
			}
		case map[string]any:
			for _, key := range []string{"name", "structure_name"} {
				if text, ok := v[key].(string); ok {
					name = text
				}
			}
			for key, item := range v {
				sum, ok := parseHex(fmt.Sprint(item))
				switch {
				case ok && key == "fingerprint":
					found.of(name).Home = Whole(sum)
				case ok && key == "live_fingerprint":
					found.of(name).Live = Whole(sum)
				default:
					visit(key, item)
				}
			}
		}
	}
	visit("", root)
	list := found.list()
	if len(list) == 0 {
		return nil, errors.New(`expected JSON with a field "fingerprint" of 16 hexadecimal digits, found none`)
	}
	return list, nil
}

// parseHex returns the fingerprint that a text is in hexadecimal, with 0x or without.
func parseHex(text string) (uint64, bool) {
	text = strings.TrimPrefix(text, "0x")
	if text == "" || len(text) > 16 {
		return 0, false
	}
	sum, err := strconv.ParseUint(text, 16, 64)
	return sum, err == nil
}
