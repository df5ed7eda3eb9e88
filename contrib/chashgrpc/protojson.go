package chashgrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// A service config is the JSON form of a protocol buffer. A number may be a string, and
// a 64-bit number always is. An integer may have an exponent. A duration is a string
// that ends in "s". The name of a field must be exact and may appear once.

// An objectMember is a member of a JSON object.
type objectMember struct {
	name  string
	value json.RawMessage
}

// parseObject returns the members of a JSON object, in order.
func parseObject(text []byte) ([]objectMember, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil {
		return nil, err
	} else if token != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var members []objectMember
	seen := make(map[string]bool)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // always a string
		if seen[name] {
			return nil, fmt.Errorf("field %q is there twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		members = append(members, objectMember{name, value})
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more text after the JSON object")
	}
	return members, nil
}

// number returns the text of a JSON number, with or without quotes.
func number(value json.RawMessage) (string, error) {
	text := string(value)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(value, &text); err != nil {
			return "", err
		}
	}
	var n json.Number
	if err := json.Unmarshal([]byte(text), &n); err != nil || text[0] == '"' {
		return "", fmt.Errorf("%s is not a number", value)
	}
	return text, nil
}

// parseUint64 parses an integer from 0 to 2^64-1.
func parseUint64(value json.RawMessage, to *uint64) error {
	text, err := number(value)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		f, exact := exactly(text)
		if !exact || f < 0 {
			return fmt.Errorf("%s is not an integer from 0 to %d", value, uint64(math.MaxUint64))
		}
		n = uint64(f)
	}
	*to = n
	return nil
}

// parseWeight parses an integer from 1 to 2^32-1.
func parseWeight(value json.RawMessage, to *uint32) error {
	var w uint64
	if err := parseUint64(value, &w); err != nil {
		return err
	}
	if w < 1 || w > math.MaxUint32 {
		return fmt.Errorf("%d is not from 1 to %d", w, uint32(math.MaxUint32))
	}
	*to = uint32(w)
	return nil
}

// parseInt parses an integer that fits an int.
func parseInt(value json.RawMessage, to *int) error {
	text, err := number(value)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, strconv.IntSize)
	if err != nil {
		f, exact := exactly(text)
		if !exact || int64(int(f)) != int64(f) {
			return fmt.Errorf("%s is not an integer that fits %d bits", value, strconv.IntSize)
		}
		n = int64(f)
	}
	*to = int(n)
	return nil
}

// exactly parses a number such as 1e3 or 7.0. It reports whether the number is an
// integer that a float64 holds exactly.
func exactly(text string) (f float64, exact bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// parseFloat parses a number.
func parseFloat(value json.RawMessage, to *float64) error {
	text, err := number(value)
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	*to = f
	return nil
}

// parseDuration parses a time of 0 or more, such as "1.5s".
func parseDuration(value json.RawMessage, to *time.Duration) error {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("%s is negative", text)
	}
	*to = d
	return nil
}
