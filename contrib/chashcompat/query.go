package chashcompat

import "strings"

// RawParam returns the value of the first parameter of that name, as written in the
// query of a URL, with its escapes, and reports whether the query has one.
func RawParam(rawQuery, name string) (value string, found bool) {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if n, value, found := strings.Cut(pair, "="); found && n == name {
			return value, true
		}
	}
	return "", false
}
