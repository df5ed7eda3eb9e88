package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	requestTimeout = 5 * time.Second       // for a client's request, with all attempts
	attemptPause   = 25 * time.Millisecond // between two of them
	largestValue   = 1 << 20

	keyPath        = "/kv/"
	passedOnHeader = "Chash-Passed-On" // set by the node that a request came to
)

// A request is one of a client's.
type request struct {
	method   string
	key      string
	value    []byte // of a PUT
	passedOn bool
}

// An answer is what a client gets for a key.
type answer struct {
	status int
	value  []byte
}

// serveKey answers a client. The node that it came to tries again for a while what
// another may soon be able to do; one that it was passed on to tries once.
func (n *node) serveKey(w http.ResponseWriter, r *http.Request, key string) {
	req := request{method: r.Method, key: key, passedOn: r.Header.Get(passedOnHeader) != ""}
	switch r.Method {
	case http.MethodHead:
		req.method = http.MethodGet // of which the server leaves out the value
	case http.MethodPut:
		var err error
		if req.value, err = io.ReadAll(http.MaxBytesReader(w, r.Body, largestValue)); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge) // or it broke off, and nobody is there
			return
		}
	case http.MethodGet, http.MethodDelete:
	default:
		w.Header().Set("Allow", "DELETE, GET, HEAD, PUT")
		http.Error(w, "a key can be got, put and deleted", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	a, err := n.try(ctx, req)
	for err != nil && !req.passedOn && pause(ctx, attemptPause) {
		a, err = n.try(ctx, req)
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.value) // fails only if the client has gone
}

// try answers a request for a key: a read if the node holds it, a write if it is
// its first holder, and else by passing it on, by this node's view, to one that is.
// That one may have another view; it does not pass the request on again.
func (n *node) try(ctx context.Context, req request) (answer, error) {
	v := n.current()
	holders := v.holders(req.key)
	if len(holders) == 0 {
		return answer{}, errNoNode
	}
	if req.method != http.MethodGet {
		holders = holders[:1]
	}
	if !slices.ContainsFunc(holders, isNode(n.name)) {
		return n.passOn(ctx, req, holders)
	}
	if req.method != http.MethodGet {
		err := n.write(ctx, v, req.key, req.value, req.method == http.MethodDelete)
		return answer{status: http.StatusNoContent}, err
	}
	e, found, err := n.read(ctx, v, req.key)
	if !found {
		return answer{status: http.StatusNotFound}, err
	}
	return answer{http.StatusOK, e.Value}, err
}

// passOn returns the answer of the first of the holders that gives one.
func (n *node) passOn(ctx context.Context, req request, holders []peer) (a answer, err error) {
	if req.passedOn {
		return answer{}, errOtherView
	}
	for _, h := range holders {
		target := "http://" + h.addr + keyPath + url.PathEscape(req.key)
		a.status, a.value, err = do(ctx, n.forward, req.method, target, http.Header{passedOnHeader: {n.name}}, req.value)
		if err == nil && a.status >= 500 {
			err = fmt.Errorf("%s: %d %s", h.name, a.status, bytes.TrimSpace(a.value))
		}
		if err == nil {
			return a, nil
		}
	}
	return answer{}, err
}
