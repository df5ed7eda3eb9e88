package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chash-go/chash"
)

const (
	requestTimeout = 5 * time.Second       // for a client's request, with all attempts
	attemptPause   = 25 * time.Millisecond // between two of them
	forwardTimeout = 3 * time.Second       // for one at another node
	peerTimeout    = time.Second           // for a message that it waits for
	bulkTimeout    = 10 * time.Second      // for one of migration
	headerTimeout  = 10 * time.Second      // for a request's header to arrive
	idleTimeout    = 2 * time.Minute       // of a connection between two requests
	largestValue   = 1 << 20
	mostHops       = 3 // from node to node

	hopsHeader = "Chash-Hops" // how often a request was passed on
	ringHeader = "Chash-Ring" // by which a node sends a message to another

	keyPath   = "/kv/"
	pullPath  = "/internal/pull"
	applyPath = "/internal/apply"
)

// newServer returns the server of a node:
//
//	GET, PUT, DELETE /kv/{key}   the key's value
//	GET /status                  how the node is
//	GET /keys                    which keys it has a copy of
//	POST /internal/...           what nodes say to each other
//
// All that follows /kv/ is the key. That is no path for a mux, which would clean it.
func newServer(n *node) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.status()) })
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, n.keys()) })
	mux.HandleFunc("POST "+pullPath, handle(n, n.servePull))
	mux.HandleFunc("POST "+applyPath, handle(n, n.serveApply))
	keys := func(w http.ResponseWriter, r *http.Request) {
		if key, found := strings.CutPrefix(r.URL.EscapedPath(), keyPath); found {
			n.serveKey(w, r, key)
			return
		}
		mux.ServeHTTP(w, r)
	}
	return &http.Server{Handler: http.HandlerFunc(keys), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
}

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

func do(client *http.Client, r *http.Request) (status int, body []byte, err error) {
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// A status is how a node sees the cluster and itself.
type status struct {
	Name     string   `json:"name"`
	Members  []string `json:"members"`
	Draining bool     `json:"draining"` // it is about to leave
	Ring     string   `json:"ring"`     // its fingerprint, equal on nodes that agree on who holds what
	Settled  bool     `json:"settled"`  // everything that this node holds is here, and nothing else
	Incoming int      `json:"incoming"` // ranges that have not arrived
	Outgoing int      `json:"outgoing"` // ranges that others were not seen to have
	Unsent   int      `json:"unsent"`   // writes that may not be at all holders
	Received int64    `json:"received"` // copies that migration has brought here
}

func (n *node) status() status {
	n.mu.RLock()
	defer n.mu.RUnlock()
	s := status{
		Name:     n.name,
		Ring:     n.view.id,
		Settled:  n.backlog.settled(),
		Incoming: len(n.backlog.incoming),
		Outgoing: len(n.backlog.outgoing),
		Unsent:   len(n.backlog.unsent),
		Received: n.received.Load(),
	}
	for _, b := range n.view.ring.Backends() {
		s.Members = append(s.Members, b.Name)
		s.Draining = s.Draining || b.Name == n.name && b.State == chash.Draining
	}
	return s
}

// keys returns the keys of which the node has a copy, in no order.
func (n *node) keys() []string {
	keys := []string{}
	for _, e := range n.store.scan(chash.Range{}) {
		if !e.Deleted {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has gone
}

// call sends a message to another node and reads its answer. Messages are gobs,
// which keep any string as it is. They carry the sender's view, and are refused by
// a node that has another one.
func (n *node) call(ctx context.Context, client *http.Client, v *view, name, path string, in, out any) error {
	to, found := v.ring.Backend(name)
	if !found {
		return fmt.Errorf("%w called %q", errNoNode, name)
	}
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(in); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to.Value.addr+path, &body)
	if err != nil {
		return err
	}
	r.Header.Set(ringHeader, v.id)
	status, answer, err := do(client, r)
	if err != nil {
		return err
	}
	switch status {
	case http.StatusOK:
		return gob.NewDecoder(bytes.NewReader(answer)).Decode(out)
	case http.StatusConflict:
		return fmt.Errorf("%w: %s", errOtherView, name)
	}
	return fmt.Errorf("%s: %d %s", name, status, bytes.TrimSpace(answer))
}

// handle returns the handler of a message. The view does not change while serve
// runs, so what that does is done by a view that both nodes have.
func handle[In, Out any](n *node, serve func(In) Out) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := gob.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n.mu.RLock()
		agreed := n.view.id == r.Header.Get(ringHeader)
		var out Out
		if agreed {
			out = serve(in)
		}
		n.mu.RUnlock()
		if !agreed {
			http.Error(w, errOtherView.Error(), http.StatusConflict)
			return
		}
		_ = gob.NewEncoder(w).Encode(out) // fails only if the other node has gone
	}
}
