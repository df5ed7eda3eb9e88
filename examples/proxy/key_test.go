package main

import (
	"net/http"
	"testing"
)

func TestParseKey(t *testing.T) {
	request := func(remote string, headers ...string) *http.Request {
		r := &http.Request{RemoteAddr: remote, Host: "example.org", Header: http.Header{}}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		return r
	}
	tests := []struct {
		name, flag string
		request    *http.Request
		want       string
	}{
		{"IPv4", "address", request("10.0.0.1:1234"), "10.0.0.1"},
		{"another port", "address", request("10.0.0.1:4321"), "10.0.0.1"},
		{"IPv4 mapped to IPv6", "address", request("[::ffff:10.0.0.1]:1234"), "10.0.0.1"},
		{"IPv6", "address", request("[2001:db8::1]:1234"), "2001:db8::1"},
		{"IPv6 in another spelling", "address", request("[2001:0DB8:0:0::1]:1234"), "2001:db8::1"},
		{"IPv6 with a zone", "address", request("[fe80::1%eth0]:1234"), "fe80::1%eth0"},
		{"no address", "address", request("@"), ""},
		{"header", "header:x-client", request("", "X-Client", "a"), "a"},
		{"header twice", "header:X-Client", request("", "X-Client", "a", "X-Client", "b"), "a,b"},
		{"no header", "header:X-Client", request("", "X-Other", "a"), ""},
		{"Host", "header:host", request(""), "example.org"},
		{"cookie", "cookie:c", request("", "Cookie", "b=1; c=2; c=3"), "2"},
		{"no cookie", "cookie:c", request("", "Cookie", "C=1"), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key, err := parseKey(test.flag)
			if err != nil {
				t.Fatalf("parseKey(%q) = %v, want no error", test.flag, err)
			}
			if got := key(test.request); got != test.want {
				t.Errorf("key of %+v by %s = %q, want %q", test.request, test.flag, got, test.want)
			}
		})
	}
}
