package chashhttp

import (
	"context"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// reachable reports whether a backend's URL says where it is.
func reachable(backend *url.URL) bool {
	return backend != nil && backend.Scheme != "" && backend.Host != ""
}

// outgoing returns a copy of the request that is addressed to the backend. It has the
// header of the request itself, which Base may read but not change, except where there
// is something to add.
func outgoing(ctx context.Context, req *http.Request, backend *url.URL) *http.Request {
	out := req.WithContext(ctx)
	target := *req.URL
	out.URL = &target
	host := req.Host
	// Of a request that was made here, this is only the default for the URL that is
	// replaced. One that a server has read has a RequestURI, and a Host of its own
	// although its client may have put the same into the URL.
	if host == req.URL.Host && req.RequestURI == "" {
		host = ""
	}
	(&httputil.ProxyRequest{In: req, Out: out}).SetURL(backend)
	out.Host = host
	out.URL.User = nil // an http.Client has made a header of it
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	if backend.User != nil && out.Header.Get("Authorization") == "" {
		out.Header = maps.Clone(out.Header)
		password, _ := backend.User.Password()
		out.SetBasicAuth(backend.User.Username(), password)
	}
	return out
}
