package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/chash-go/chash/contrib/chashhttp"
)

// parseKey parses header:name, cookie:name or address.
func parseKey(s string) (chashhttp.Key, error) {
	kind, name, named := strings.Cut(s, ":")
	switch {
	case kind == "header" && name != "":
		return chashhttp.Header(name), nil
	case kind == "cookie" && name != "":
		return chashhttp.Cookie(name), nil
	case kind == "address" && !named:
		return chashhttp.RemoteAddr(), nil
	}
	return nil, fmt.Errorf("%q is none of header:name, cookie:name and address", s)
}

// parseBackend parses name=url[,weight].
func parseBackend(s string) (spec, error) {
	name, rest, found := strings.Cut(s, "=")
	if !found {
		return spec{}, errors.New("want name=url[,weight]")
	}
	address, weight := rest, uint64(1)
	if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
		var err error
		if weight, err = strconv.ParseUint(rest[comma+1:], 10, 32); err != nil || weight == 0 {
			return spec{}, fmt.Errorf("weight %q is not a number from 1 to 4294967295", rest[comma+1:])
		}
		address = rest[:comma]
	}
	u, err := parseURL(address)
	return spec{name, u, uint32(weight)}, err
}

// parseURL parses where a backend is: scheme, host and perhaps a path, below
// which it has what the proxy is asked for.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("url %q is not http://host or https://host", s)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("url %q has more than a scheme, a host and a path", u.Redacted())
	}
	return u, nil
}

// parseToken returns the token itself, or what the file has after an @.
func parseToken(s string) (string, error) {
	if path, found := strings.CutPrefix(s, "@"); found {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		s = strings.TrimSpace(string(text))
	}
	if s == "" {
		return "", errors.New("the token is empty")
	}
	return s, nil
}

// readRoots reads certificates in PEM.
func readRoots(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return roots, nil
}

func newTLSConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
