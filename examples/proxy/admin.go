package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/chash-go/chash"
)

// largestMember bounds the body of a request to add a backend.
const largestMember = 64 << 10

// An admin is the API that shows and changes the backends:
//
//	GET    /members                  all of them
//	POST   /members                  add one: {"name": ..., "url": ..., "weight": ...}
//	GET    /members/{name}           one of them
//	DELETE /members/{name}           remove it
//	POST   /members/{name}/drain     give its keys to the others
//	POST   /members/{name}/undrain   and back
//	GET    /metrics                  counts, in Prometheus' text format
type admin struct {
	pool *pool
	log  *slog.Logger
}

func newAdmin(p *pool, h *proxy, c config, log *slog.Logger) http.Handler {
	a := &admin{p, log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /members", a.list)
	mux.HandleFunc("POST /members", a.add)
	mux.HandleFunc("GET /members/{name}", a.show)
	mux.HandleFunc("DELETE /members/{name}", a.remove)
	mux.HandleFunc("POST /members/{name}/drain", a.change("drain", p.drain))
	mux.HandleFunc("POST /members/{name}/undrain", a.change("undrain", p.undrain))
	mux.HandleFunc("GET /metrics", h.serveMetrics)
	return newGuard(mux, c)
}

// note logs what somebody has changed, or tried to.
func (a *admin) note(r *http.Request, change, name string, err error) {
	if err != nil {
		a.log.Warn("admin request failed", "change", change, "name", name, "client", r.RemoteAddr, "error", err)
		return
	}
	a.log.Info("admin request", "change", change, "name", name, "client", r.RemoteAddr)
}

func (a *admin) list(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, a.pool.members())
}

func (a *admin) show(w http.ResponseWriter, r *http.Request) {
	a.writeMember(w, r.PathValue("name"), http.StatusOK)
}

// add checks a backend and adds it as it was found, so that the answer says how it
// is and the backend, if healthy, has its keys by then.
func (a *admin) add(w http.ResponseWriter, r *http.Request) {
	s, err := readSpec(http.MaxBytesReader(w, r.Body, largestMember))
	if err != nil {
		writeError(w, err)
		return
	}
	err = a.pool.add(r.Context(), s)
	a.note(r, "add", s.name, err)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/members/"+url.PathEscape(s.name))
	a.writeMember(w, s.name, http.StatusCreated)
}

func (a *admin) remove(w http.ResponseWriter, r *http.Request) {
	err := a.pool.remove(r.Context(), r.PathValue("name"))
	a.note(r, "remove", r.PathValue("name"), err)
	if err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// change returns a handler that does something to one backend and shows it.
func (a *admin) change(what string, do func(ctx context.Context, name string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		err := do(r.Context(), name)
		a.note(r, what, name, err)
		if err != nil {
			writeError(w, err)
			return
		}
		a.writeMember(w, name, http.StatusOK)
	}
}

// writeMember answers with one backend as it is now.
func (a *admin) writeMember(w http.ResponseWriter, name string, status int) {
	members := a.pool.members()
	i := slices.IndexFunc(members, func(m member) bool { return m.Name == name })
	if i < 0 {
		writeError(w, fmt.Errorf("%w: %q", chash.ErrBackendNotFound, name))
		return
	}
	writeJSON(w, status, members[i])
}

// errBadMember is returned for a request to add what is no backend.
var errBadMember = errors.New("bad member")

// readSpec reads the backend to add: one JSON object and nothing after it. The
// name is for the table to judge.
func readSpec(r io.Reader) (spec, error) {
	in := struct {
		Name   string  `json:"name"`
		URL    string  `json:"url"`
		Weight *uint32 `json:"weight"`
	}{}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return spec{}, fmt.Errorf("%w: %w", errBadMember, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return spec{}, fmt.Errorf("%w: more than one JSON value", errBadMember)
	}
	u, err := parseURL(in.URL)
	if err != nil {
		return spec{}, fmt.Errorf("%w: %w", errBadMember, err)
	}
	s := spec{in.Name, u, 1}
	if in.Weight != nil {
		s.weight = *in.Weight
	}
	if s.weight == 0 {
		return spec{}, fmt.Errorf("%w: 0, drain it instead", chash.ErrInvalidWeight)
	}
	return s, nil
}

// adminStatus returns the status that tells a client what to do about an error.
func adminStatus(err error) int {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errBadMember), errors.Is(err, chash.ErrEmptyName),
		errors.Is(err, chash.ErrInvalidWeight), errors.Is(err, chash.ErrInvalidState):
		return http.StatusBadRequest
	case errors.Is(err, chash.ErrBackendNotFound):
		return http.StatusNotFound
	case errors.Is(err, chash.ErrBackendExists), errors.Is(err, chash.ErrTooManyBackends):
		return http.StatusConflict
	case errors.Is(err, context.Canceled): // nobody is there to read it
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func writeError(w http.ResponseWriter, err error) {
	writeJSON(w, adminStatus(err), map[string]string{"error": err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // fails only if the client has gone
}
