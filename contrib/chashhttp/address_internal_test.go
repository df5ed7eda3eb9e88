package chashhttp

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) { // not parallel: it counts allocations
	for spelling, want := range map[string]address{
		"http://h":                    {"http", "h", "", ""},
		"HTTP://H:80/":                {"http", "h", "", ""},
		"https://h:443/a/?q":          {"https", "h", "/a", "q"},
		"https://h:80/a//":            {"https", "h:80", "/a/", ""},
		"http://[0::A]:80":            {"http", "[::a]", "", ""},
		"http://[::1]:81":             {"http", "[::1]:81", "", ""},
		"http://h/%7ea%2fb%2F?%7e%3d": {"http", "h", "/~a%2Fb%2F", "~%3D"},
		"http://h/a/./b/../../c":      {"http", "h", "/c", ""},
		"http://h/../../a/..":         {"http", "h", "", ""},
		"http://h/.a/..b":             {"http", "h", "/.a/..b", ""},
		"localhost:80":                {"localhost", "80", "", ""},
	} {
		u, err := url.Parse(spelling)
		require.NoError(t, err)
		require.Equal(t, want, addressOf(u), spelling)
	}
	require.Equal(t, address{}, addressOf(nil))
	u := &url.URL{Scheme: "http", Host: "10.0.0.1:8080", Path: "/base"}
	require.Zero(t, testing.AllocsPerRun(10, func() { addressOf(u) }))
}
