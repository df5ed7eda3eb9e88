package chashhttp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/chash-go/chash"
)

// A Table is what a Transport asks of a *chash.Maglev[*url.URL] or a
// *chash.Ring[*url.URL]. Their methods of those names say what each does.
type Table interface {
	Get(key string) (*url.URL, error)
	GetFunc(key string, accept func(*url.URL) bool) (*url.URL, error)
	Next() (*url.URL, error)
	Backends() []chash.Backend[*url.URL]
	Backend(name string) (chash.Backend[*url.URL], bool)
	CompareAndSwapState(name string, old, state chash.State) (swapped bool, err error)
}

// A Transport is an http.RoundTripper that sends each request to the backend of its
// key; the package comment says how. Make one with NewTransport, and Close it. It is
// safe for concurrent use by multiple goroutines and must not be copied.
type Transport struct {
	table       Table
	key         Key
	base        http.RoundTripper
	maxAttempts int
	keepBody    int64
	failing     func(status int) bool
	budget      *budget
	health      *health
	closed      atomic.Bool

	retries    atomic.Uint64
	overBudget atomic.Uint64
}

// NewTransport returns a Transport over a *chash.Maglev[*url.URL] or a
// *chash.Ring[*url.URL]. The values are where the backends are: a scheme and a host,
// perhaps a path and a query that are joined with those of each request, and perhaps
// a user and a password. They must not be changed; give a backend another with
// SetValue. Everything else about the table can change at any time.
//
// The errors are ErrNilTable, ErrNilKey and ErrInvalidOption.
func NewTransport(table Table, key Key, opts Options) (*Transport, error) {
	if v := reflect.ValueOf(table); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, ErrNilTable
	}
	if key == nil {
		return nil, ErrNilKey
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Transport{
		table:       table,
		key:         key,
		base:        opts.Base,
		maxAttempts: opts.MaxAttempts,
		keepBody:    opts.KeepBody,
		failing:     opts.FailureStatus,
		budget:      newBudget(opts.RetryRatio, opts.RetryReserve),
		health:      newHealth(table, opts),
	}, nil
}

// RoundTrip sends the request to the backend of its key or, without a key, to the
// one whose turn it is, and where that fails to others as far as the request is safe
// to repeat, MaxAttempts and the budget allow it, and there are any. It returns what
// came of the last attempt: an answer, also one with a FailureStatus, whose Request
// is what was sent to the backend, or an error of Options.Base or of this package.
// Without a backend to send it to, the error is chash.ErrNoBackends or
// chash.ErrNoHealthyBackends.
//
// As http.RoundTripper asks, it does not change the request and closes its body.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.refuse(req); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	body, err := openBody(req, t.keepBody)
	if err != nil {
		return nil, err
	}
	t.budget.deposit()
	route := route{table: t.table, key: t.key(req)}
	backend, err := route.next()
	if err != nil {
		body.settle()
		return nil, err
	}
	for attempts := 1; ; attempts++ {
		resp, again, err := t.attempt(req, body, backend)
		if !again || attempts == t.maxAttempts {
			body.settle()
			return resp, err
		}
		next, nextErr := route.next()
		if nextErr != nil || !t.spend() || body.rewind() != nil {
			body.settle()
			return resp, err
		}
		t.retries.Add(1)
		discard(resp)
		backend = next
	}
}

// refuse returns why a request cannot be sent anywhere.
func (t *Transport) refuse(req *http.Request) error {
	switch {
	case t.closed.Load():
		return ErrClosed
	case req.URL == nil:
		return fmt.Errorf("%w: it is nil", ErrInvalidURL)
	case req.URL.Opaque != "":
		return fmt.Errorf("%w: %q is opaque", ErrInvalidURL, req.URL.Redacted())
	}
	return nil
}

// spend takes one retry out of the budget and reports whether it was there.
func (t *Transport) spend() bool {
	if !t.budget.withdraw() {
		t.overBudget.Add(1)
		return false
	}
	return true
}

// discard lets go of an answer that the caller does not get. One that is short is
// read, so that its connection can serve again, but nobody waits for one that is slow.
func discard(resp *http.Response) {
	const (
		short = 4 << 10
		slow  = 250 * time.Millisecond
	)
	if resp == nil || resp.Body == nil { // as stand-ins of an http.RoundTripper leave it
		return
	}
	if resp.ContentLength <= short { // also -1, for one that does not say
		late := time.AfterFunc(slow, func() { resp.Body.Close() }) // which ends a Read
		_, _ = io.CopyN(io.Discard, resp.Body, short)
		late.Stop()
	}
	resp.Body.Close()
}

// A route is the order in which one request meets backends. Each is looked up when it
// is needed, so that it is healthy by then and not only when the request began.
type route struct {
	table Table
	key   string // empty for a request without one
	met   []*url.URL
}

// next returns the next backend. Backends with one address are one server, which is
// met once.
func (r *route) next() (*url.URL, error) {
	u, err := r.find()
	if err == nil {
		r.met = append(r.met, u)
	}
	return u, err
}

func (r *route) find() (*url.URL, error) {
	first := len(r.met) == 0
	switch {
	case first && r.key == "":
		return r.table.Next()
	case first:
		return r.table.Get(r.key)
	case r.key == "":
		// An order of the request's own, so that what is meant for a dead backend
		// is spread over all the others.
		r.key = strconv.FormatUint(rand.Uint64(), 36)
	}
	return r.table.GetFunc(r.key, r.unmet)
}

func (r *route) unmet(u *url.URL) bool {
	return !slices.ContainsFunc(r.met, func(met *url.URL) bool { return address(met) == address(u) })
}

// address returns what tells servers apart: a backend's URL as a value, so that one
// that was parsed anew is the same server, and without the user, whose pointer
// would differ. That of nil is the zero one.
func address(u *url.URL) url.URL {
	if u == nil {
		return url.URL{}
	}
	a := *u
	a.User = nil
	return a
}

// Stats are counts since a Transport was made.
type Stats struct {
	Retries    uint64 // attempts beyond the first of each request
	OverBudget uint64 // retries that the budget did not allow
}

// Stats returns what the Transport has counted.
func (t *Transport) Stats() Stats {
	return Stats{Retries: t.retries.Load(), OverBudget: t.overBudget.Load()}
}

// CloseIdleConnections closes the connections of Options.Base that wait for a
// request, if it can. http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Close ends the probes and waits for them, gives back the backends that are
// Unhealthy because of the Transport, as Healthy, since it will not look after them
// any more (unless with NoProbe it never did), and closes idle connections. Requests
// in flight end as they would have; one that is sent later fails with ErrClosed. The
// error is always nil. It can be called more than once.
func (t *Transport) Close() error {
	t.closed.Store(true)
	t.health.close()
	t.CloseIdleConnections()
	return nil
}
