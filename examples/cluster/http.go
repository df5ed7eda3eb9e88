package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/chash-go/chash"
)

const (
	forwardTimeout = 3 * time.Second  // for a client's request at another node
	peerTimeout    = time.Second      // for a message that it waits for
	bulkTimeout    = 10 * time.Second // for a message of migration
	idleTimeout    = 2 * time.Minute  // of a connection between two requests
)

// newServer returns the server of a node:
//
//	GET, PUT, DELETE /kv/{key}   the key's value
//	GET /status                  how the node is
//	POST /internal/...           what nodes say to each other
//
// All that follows /kv/ is the key, which a mux would clean like a path.
func newServer(n *node) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.status()) // fails only if the client has gone
	})
	mux.HandleFunc("POST "+pullPath, handle(n, n.servePull))
	mux.HandleFunc("POST "+applyPath, handle(n, n.serveApply))
	handler := func(w http.ResponseWriter, r *http.Request) {
		if key, found := strings.CutPrefix(r.URL.Path, keyPath); found {
			n.serveKey(w, r, key)
		} else {
			mux.ServeHTTP(w, r)
		}
	}
	return &http.Server{
		Handler:      http.HandlerFunc(handler),
		ReadTimeout:  bulkTimeout,
		WriteTimeout: 2 * bulkTimeout, // from the header on, so the reading is a part of it
		IdleTimeout:  idleTimeout,
	}
}

// A status is how a node sees the cluster and itself.
type status struct {
	Name     string   `json:"name"`
	Members  []string `json:"members"`
	Draining bool     `json:"draining"` // it is about to leave
	Ring     string   `json:"ring"`     // its fingerprint, equal on nodes that agree on who holds what
	Settled  bool     `json:"settled"`  // everything that this node holds is here, and nothing else
	Incoming int      `json:"incoming"` // ranges that have not arrived
	Outgoing int      `json:"outgoing"` // ranges, of single keys too, that others were not seen to have
	Moved    int64    `json:"moved"`    // copies that this node has fetched and handed over
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
		Moved:    n.moved.Load(),
	}
	for _, b := range n.view.ring.Backends() {
		s.Members = append(s.Members, b.Name)
		s.Draining = s.Draining || b.Name == n.name && b.State == chash.Draining
	}
	return s
}

// do sends a request and reads the whole answer. The header may be nil.
func do(ctx context.Context, client *http.Client, method, url string, header http.Header, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = header
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
