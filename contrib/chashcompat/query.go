package chashcompat

import "strings"

// RawParam returns the value of a parameter as it stands in the query of a URL, escapes
// and all, and reports whether the query has the parameter; of several the first counts.
func RawParam(rawQuery, name string) (value string, found bool) {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if n, value, found := strings.Cut(pair, "="); found && n == name {
			return value, true
		}
	}
	return "", false
}
