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

// A Table is the part of a *chash.Maglev[*url.URL] or a *chash.Ring[*url.URL] that a
// Transport uses.
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
// key: see the package comment. Make one with NewTransport, and Close it. It is safe
// for concurrent use, and must not be copied.
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
// *chash.Ring[*url.URL]. A value is the address of a backend: a scheme and a host,
// perhaps a path and a query that are joined with those of each request, and perhaps
// a user and a password. Do not change a value; use SetValue. Everything else about
// the table may change at any time.
//
// The errors are ErrNilTable, ErrNilKey, ErrInvalidOption, and ErrNoAddress for a
// value that is no such URL. A wrong value that comes later makes requests for it
// fail with ErrNoAddress.
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

// isNil reports whether v is nil, or a nil pointer or function.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
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

// RoundTrip sends the request to the backend of its key. Without a key, it takes the
// backend whose turn it is. If that fails, it goes on to other backends, as far as
// the request is safe to repeat and MaxAttempts and the budget allow. It returns the
// result of the last attempt: an answer (one with a FailureStatus too), whose Request
// is the one sent to the backend, or a BackendError. Without a backend, the error is
// chash.ErrNoBackends or chash.ErrNoHealthyBackends. For a host that is not the
// Transport's, it is ErrForeignHost.
//
// RoundTrip does not change the request, and closes its body. Do not change the
// header of the request before the body of the answer is closed.
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

// Check probes a URL once, as the options say, and returns nil if the URL passes,
// else the reason. It changes nothing. The URL may be that of a backend that is yet
// to be added. If it does not pass, add the backend as Unhealthy and call Adopt.
func (t *Transport) Check(ctx context.Context, backend *url.URL) error {
	return t.prober.probe(ctx, backend)
}

// Adopt makes the Transport look after an Unhealthy backend as if it had marked the
// backend itself: probes bring the backend back. It reports whether the Transport now
// looks after it. It does not if the backend is unknown or not Unhealthy, after
// Close, and with NoProbe. OnChange is not called.
func (t *Transport) Adopt(name string) bool { return t.health.adopt(name) }

// Stats are counts since a Transport was made.
type Stats struct {
	Retries    uint64 // attempts beyond the first of each request
	Resent     uint64 // times that a closed connection was found, and another taken, before anything was sent
	OverBudget uint64 // retries that the budget did not allow
}

// Stats returns the counts of the Transport.
func (t *Transport) Stats() Stats {
	return Stats{Retries: t.retries.Load(), Resent: t.resent.Load(), OverBudget: t.overBudget.Load()}
}

// CloseIdleConnections closes the idle connections of Options.Base, if Base can.
// http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() { t.pools.closeIdle() }

// Close ends the probes and waits for them. It makes the backends Healthy that the
// Transport has marked and not brought back, since nobody looks after them any more;
// with NoProbe it does not. It closes idle connections. Requests in flight go on.
// Later ones fail with ErrClosed. Close can be called more than once. The error is
// always nil.
func (t *Transport) Close() error {
	if !t.closed.Swap(true) {
		t.moves.close()
	}
	t.health.close()
	t.CloseIdleConnections()
	return nil
}
