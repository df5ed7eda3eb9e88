package chashcompat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash/contrib/chashcompat"
)

func TestRawParam(t *testing.T) {
	for _, test := range []struct {
		query, name, want string
		found             bool
	}{
		{"", "k", "", false},
		{"k=", "k", "", true},
		{"a=1&k=x%20y+z&k=2", "k", "x%20y+z", true},
		{"kk=1&k=a=b", "k", "a=b", true},
		{"k", "k", "", false},
		{"K=1", "k", "", false},
	} {
		got, found := chashcompat.RawParam(test.query, test.name)
		require.Equal(t, test.want, got, "RawParam(%q, %q)", test.query, test.name)
		require.Equal(t, test.found, found, "RawParam(%q, %q)", test.query, test.name)
	}
}

func TestTwemproxyKey(t *testing.T) {
	for _, test := range []struct{ key, tag, want string }{
		{"a{b}c", "{}", "b"},
		{"a{b}c{d}", "{}", "b"},
		{"a{}b", "{}", "a{}b"},
		{"a}b{c", "{}", "a}b{c"},
		{"a{{b}}", "{}", "{b"},
		{"a$b$c", "$$", "b"},
		{"a{b}c", "", "a{b}c"},
		{"a{b}c", "{", "a{b}c"},
		{"", "{}", ""},
	} {
		require.Equal(t, test.want, chashcompat.TwemproxyKey(test.key, test.tag), "TwemproxyKey(%q, %q)", test.key, test.tag)
	}
}

func TestThanosKey(t *testing.T) {
	require.Equal(t, "\xFF", chashcompat.ThanosKey(""))
	require.Equal(t, "t\xFFa\xFF1\xFFb\xFF\xFF", chashcompat.ThanosKey("t",
		chashcompat.ThanosLabel{Name: "a", Value: "1"}, chashcompat.ThanosLabel{Name: "b"}))
}
