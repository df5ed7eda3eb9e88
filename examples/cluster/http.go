package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	requestTimeout = 10 * time.Second      // for a client's request, with all attempts
	attemptPause   = 25 * time.Millisecond // between two of them
	idleTimeout    = 2 * time.Minute       // of a connection between two requests
	largestValue   = 1 << 20

	keyPath = "/kv/"
)

// newServer returns the server of a node:
//
//	GET, PUT, DELETE /kv/{key}   the key's value
//	GET /status                  how the node is
//	/internal/...                what nodes say to each other
//
// All that follows /kv/ is the key, which a mux would clean like a path.
func newServer(n *node) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.status()) // fails only if the client has gone
	})
	mux.HandleFunc("POST "+askPath, handle(n, n.serveAsk))
	mux.HandleFunc("POST "+storePath, handle(n, n.serveStore))
	mux.HandleFunc("POST "+fetchPath, handle(n, n.serveFetch))
	mux.HandleFunc("POST "+joinPath, handle(n, n.serveJoin))
	mux.Handle(raftPath, n.streams)
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

// serveKey answers a client. It tries again for a while what fails: the members may be
// about to change.
func (n *node) serveKey(w http.ResponseWriter, r *http.Request, key string) {
	e := entry{Key: key, Deleted: r.Method == http.MethodDelete}
	attempt := func(ctx context.Context) error { return n.write(ctx, &e) }
	switch r.Method {
	case http.MethodGet, http.MethodHead: // of which the server leaves out the value
		attempt = func(ctx context.Context) (err error) {
			e, err = n.read(ctx, key)
			return err
		}
	case http.MethodPut:
		var err error
		if e.Value, err = io.ReadAll(http.MaxBytesReader(w, r.Body, largestValue)); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge) // or it broke off, and nobody is there
			return
		}
	case http.MethodDelete:
	default:
		w.Header().Set("Allow", "DELETE, GET, HEAD, PUT")
		http.Error(w, "a key can be got, put and deleted", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	err := attempt(ctx)
	for err != nil && pause(ctx, attemptPause) {
		err = attempt(ctx)
	}
	switch {
	case err != nil:
		w.Header().Set("Retry-After", "1")
		http.Error(w, errors.Join(err, ctx.Err()).Error(), http.StatusServiceUnavailable)
	case r.Method == http.MethodPut || r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case e.Deleted || e.Version == version{}:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(e.Value) // fails only if the client has gone
	}
}
