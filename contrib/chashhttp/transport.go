package chashhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
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
	Owner(key string) (chash.Backend[*url.URL], error)
	Acquire(key string, opts ...chash.LeaseOption) (chash.Lease[*url.URL], error)
	AcquireFunc(key string, accept func(*url.URL) bool, opts ...chash.LeaseOption) (chash.Lease[*url.URL], error)
	AcquireNext(opts ...chash.LeaseOption) (chash.Lease[*url.URL], error)
	SetLoadFactor(factor float64) error
	SetLoadFloor(n float64) error
	Backends() []chash.Backend[*url.URL]
	Backend(name string) (chash.Backend[*url.URL], bool)
	CompareAndSwapState(name string, old, state chash.State) (swapped bool, err error)
}

// A Transport is an http.RoundTripper that sends each request to the backend of its
// key; the package comment says how. Make one with NewTransport, and Close it. It is
// safe for concurrent use by multiple goroutines and must not be copied.
type Transport struct {
	tables         tables // the caller's, and Options.Backup
	key            Key
	hosts          hosts
	others         http.RoundTripper
	pools          *pools
	attemptTimeout time.Duration
	maxAttempts    int
	keepBody       int64
	failing        func(status int) bool
	failOpen       bool
	bounded        bool // a request has a lease of its backend
	budget         *budget
	health         *health
	prober         *prober
	moves          *moves
	closed         atomic.Bool

	retries    atomic.Uint64
	overBudget atomic.Uint64
	resent     atomic.Uint64
}

// NewTransport returns a Transport over a *chash.Maglev[*url.URL] or a
// *chash.Ring[*url.URL]. The values are where the backends are: a scheme and a host,
// perhaps a path and a query that are joined with those of each request, and perhaps
// a user and a password. They must not be changed; give a backend another with
// SetValue. Everything else about the table can change at any time.
//
// The errors are ErrNilTable, ErrNilKey, ErrInvalidOption, and ErrNoAddress where a
// value is no such URL. One that comes into the table later is not looked at before it
// is needed: then requests fail with ErrNoAddress.
func NewTransport(table Table, key Key, opts Options) (*Transport, error) {
	if isNil(table) {
		return nil, ErrNilTable
	}
	if key == nil {
		return nil, ErrNilKey
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	tables := tables{table}
	if opts.Backup != nil {
		tables = append(tables, opts.Backup)
	}
	if err := tables.validate(); err != nil {
		return nil, err
	}
	if err := tables.bound(opts); err != nil {
		return nil, err
	}
	return &Transport{
		tables:         tables,
		key:            key,
		hosts:          newHosts(opts.Hosts),
		others:         opts.OtherHosts,
		pools:          newPools(opts.Base),
		attemptTimeout: opts.AttemptTimeout,
		maxAttempts:    opts.MaxAttempts,
		keepBody:       opts.KeepBody,
		failing:        opts.FailureStatus,
		failOpen:       opts.FailOpen,
		bounded:        opts.LoadFactor != 0,
		budget:         newBudget(opts.RetryRatio, opts.RetryReserve),
		health:         newHealth(tables, opts),
		prober:         newProber(opts),
		moves:          newMoves(tables, opts.OnMove),
	}, nil
}

// isNil reports whether a table is nil, or a nil pointer.
func isNil(table any) bool {
	v := reflect.ValueOf(table)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// bound sets the bounds of the loads.
func (t tables) bound(opts Options) error {
	if opts.LoadFactor == 0 {
		return nil
	}
	for _, table := range t {
		err := table.SetLoadFactor(opts.LoadFactor)
		if err == nil && opts.LoadFloor != 0 {
			err = table.SetLoadFloor(opts.LoadFloor)
		}
		if err != nil {
			return fmt.Errorf("%w: LoadFactor and LoadFloor: %w", ErrInvalidOption, err)
		}
	}
	return nil
}

// validate returns the error for the first backend that has no address.
func (t tables) validate() error {
	for _, table := range t {
		for _, b := range table.Backends() {
			if !reachable(b.Value) {
				return &BackendError{b.Name, b.Value, ErrNoAddress}
			}
		}
	}
	return nil
}

// RoundTrip sends the request to the backend of its key or, without a key, to the
// one whose turn it is, and where that fails to others as far as the request is safe
// to repeat, MaxAttempts and the budget allow it, and there are any. It returns what
// came of the last attempt: an answer, also one with a FailureStatus, whose Request
// is what was sent to the backend, or a BackendError. Without a backend to send it to,
// the error is chash.ErrNoBackends or chash.ErrNoHealthyBackends, and for a request
// that is not the Transport's ErrForeignHost.
//
// As http.RoundTripper asks, it does not change the request and closes its body. The
// header of the request must not be changed before the body of the answer is closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	err := t.refuse(req)
	if err == nil && !t.hosts.have(req) {
		if t.others != nil {
			return t.others.RoundTrip(req)
		}
		err = foreign(req)
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	req, key := t.keyOf(req)
	body, err := openBody(req, t.keepBody)
	if err != nil {
		return nil, err
	}
	t.budget.deposit()
	d := delivery{
		t:     t,
		req:   req,
		body:  body,
		key:   key,
		route: route{tables: t.tables, health: t.health, failOpen: t.failOpen, bounded: t.bounded, key: key},
	}
	return d.run()
}

// keyOf returns the key of a request, and the request to go on with: its body may have
// been read to find the key, and put together again.
func (t *Transport) keyOf(req *http.Request) (*http.Request, string) {
	if req.Body != nil && req.Body != http.NoBody {
		req = req.WithContext(req.Context()) // a copy, since a Key of a body changes it
	}
	return req, t.key(req)
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

// Check probes a URL once, as ProbePath and the other options say, and returns why it
// does not pass, nil if it does. It need not be that of a backend, and nothing is
// changed: it is for a backend that is yet to be added. One that does not pass can be
// added Unhealthy, and left to Adopt.
func (t *Transport) Check(ctx context.Context, backend *url.URL) error {
	return t.prober.probe(ctx, backend)
}

// Adopt looks after a backend that is Unhealthy, as if the Transport itself had marked
// it: probes bring it back. It reports whether the backend is now looked after. It is
// not if it is unknown or not Unhealthy, after Close, and with NoProbe. OnChange is not
// called.
func (t *Transport) Adopt(name string) bool { return t.health.adopt(name) }

// Stats are counts since a Transport was made.
type Stats struct {
	Retries    uint64 // attempts beyond the first of each request
	Resent     uint64 // times that a closed connection was found, and another taken, before anything was sent
	OverBudget uint64 // retries that the budget did not allow
}

// Stats returns what the Transport has counted.
func (t *Transport) Stats() Stats {
	return Stats{Retries: t.retries.Load(), Resent: t.resent.Load(), OverBudget: t.overBudget.Load()}
}

// CloseIdleConnections closes the connections of Options.Base that wait for a
// request, if it can. http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() { t.pools.closeIdle() }

// Close ends the probes and waits for them, gives back the backends that are
// Unhealthy because of the Transport, as Healthy, since it will not look after them
// any more (unless with NoProbe it never did), and closes idle connections. Requests
// in flight end as they would have; one that is sent later fails with ErrClosed. The
// error is always nil. It can be called more than once.
func (t *Transport) Close() error {
	if !t.closed.Swap(true) {
		t.moves.close()
	}
	t.health.close()
	t.CloseIdleConnections()
	return nil
}
