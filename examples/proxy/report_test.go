package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// A demonstration that must be found fault with is one of three backends of one
// letter, and of two clients, a's and b's; b is stopped and d added.
func TestReport_Verdict(t *testing.T) {
	tests := []struct {
		name    string
		answers string // by request, 4 a phase; a dot is a failure
		want    string
	}{
		{"as it must be", "abab acac acac", ""},
		{"in flight at the stop", "abac acac acac", ""},
		{"in flight at the addition", "abab acad adad", "1 clients moved without a reason"},
		{"a failure", "abab acac aca.", "1 requests failed"},
		{"two failures", "abab .cac aca.", "2 requests failed\n1 clients moved without a reason"},
		{"one that was not stopped moves", "abab cccc cccc", "1 clients moved without a reason"},
		{"a stray", "cbab acac acac", "1 clients moved without a reason"},
		{"a stray that comes back", "abcb acac acac", "1 clients moved without a reason"},
		{"both", "abca caca acac", "2 clients moved without a reason"},
	}
	// Tables that agree on every client: nobody has a reason to move to d.
	table, err := chash.NewMaglev([]chash.Backend[*url.URL]{{Name: "a", Value: new(url.URL)}})
	require.NoError(t, err)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newReport(12, 2, "b", "d")
			r.before, r.after = table, table
			var answers []string
			for _, c := range strings.ReplaceAll(test.answers, " ", "") {
				answers = append(answers, strings.Trim(string(c), "."))
			}
			// A quarter of 12 is 3: make the phases 4 long each.
			for i := range r.phases {
				r.phases[i].begin, r.phases[i].end = 4*i, 4*i+4
			}
			r.take(answers)
			got := ""
			if err := r.verdict(); err != nil {
				got = err.Error()
			}
			require.Equal(t, test.want, got)
		})
	}
}
