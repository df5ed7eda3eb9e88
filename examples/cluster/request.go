package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	requestTimeout = 5 * time.Second       // for a client's request, with all attempts
	attemptPause   = 25 * time.Millisecond // between two of them
	largestValue   = 1 << 20

	mostHops   = 3            // that a request makes from node to node
	hopsHeader = "Chash-Hops" // how many it has made
)

// An answer is what a client gets for a key.
type answer struct {
	status int
	value  []byte
}

// A request is one of a client's, as read.
type request struct {
	method string
	key    string
	value  []byte // of a PUT
	hops   int
}

// serveKey answers a client. The node that it came to tries again for a while what
// another may soon be able to do; one that it was passed on to tries once.
func (n *node) serveKey(w http.ResponseWriter, r *http.Request, key string) {
	req, err := readRequest(w, r, key)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	case errors.Is(err, errMethod):
		w.Header().Set("Allow", "DELETE, GET, HEAD, PUT")
		http.Error(w, err.Error(), http.StatusMethodNotAllowed)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	a, err := n.try(ctx, req)
	for err != nil && req.hops == 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(attemptPause):
			a, err = n.try(ctx, req)
		}
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

// errMethod is returned for a request that is none of those for a key.
var errMethod = errors.New("a key can be got, put and deleted")

// readRequest reads a request for a key, which is given as in the path.
func readRequest(w http.ResponseWriter, r *http.Request, key string) (req request, err error) {
	req.method = r.Method
	if req.key, err = url.PathUnescape(key); err != nil {
		return request{}, err
	}
	if h := r.Header.Get(hopsHeader); h != "" {
		if req.hops, err = strconv.Atoi(h); err != nil || req.hops < 0 {
			return request{}, fmt.Errorf("%s: %q is no number of hops", hopsHeader, h)
		}
	}
	switch r.Method {
	case http.MethodHead: // a GET of which the server leaves out the value
		req.method = http.MethodGet
	case http.MethodPut:
		req.value, err = io.ReadAll(http.MaxBytesReader(w, r.Body, largestValue))
	case http.MethodGet, http.MethodDelete:
	default:
		err = fmt.Errorf("%w, not by %s", errMethod, r.Method)
	}
	return req, err
}

// try answers a request for a key: a read if the node holds it, a write if it is
// its first holder, and else by passing it on, by this node's view, to one that is.
// That one may have another view and pass it on in turn; so that this comes to an
// end, a request counts its hops.
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
	if req.hops >= mostHops {
		return answer{}, errHops
	}
	for _, h := range holders {
		if a, err = n.send(ctx, req, h.addr); err == nil {
			return a, nil
		}
	}
	return answer{}, err
}

func (n *node) send(ctx context.Context, req request, addr string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, req.method, "http://"+addr+keyPath+url.PathEscape(req.key), bytes.NewReader(req.value))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set(hopsHeader, strconv.Itoa(req.hops+1))
	status, body, err := do(n.forward, r)
	if err != nil {
		return answer{}, err
	}
	switch status {
	case http.StatusOK, http.StatusNoContent, http.StatusNotFound:
		return answer{status, body}, nil
	}
	return answer{}, fmt.Errorf("%s: %d %s", addr, status, bytes.TrimSpace(body))
}
