package chashhttp

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/chash-go/chash"
)

// The defaults of Options.
const (
	DefaultHost             = "service"
	DefaultAttemptTimeout   = 10 * time.Second
	DefaultMaxAttempts      = 3
	DefaultRetryRatio       = 0.2
	DefaultRetryReserve     = 100
	DefaultFailureThreshold = 5
	DefaultFailureRatio     = 0.5
	DefaultMaxEjected       = 0.5
	DefaultReturnTime       = 10 * time.Second
	DefaultProbeInterval    = time.Second
	DefaultProbeTimeout     = time.Second
	DefaultProbesDown       = 3
	DefaultProbesUp         = 1
)

// NoTimeout is an Options.AttemptTimeout without a limit.
const NoTimeout time.Duration = math.MaxInt64

// MaxRetryRatio is the largest Options.RetryRatio.
const MaxRetryRatio = 1000

// Options are what a Transport can be told. A field of zero means its default, so
// that Options{} is all defaults.
type Options struct {
	// Hosts are the hosts that stand for the backends, as in http://service/path: a
	// name or an address, with a port where the URL has one that is not its scheme's
	// own. Case does not matter. A request for another host, such as one that follows
	// a redirect to another site, is not for the backends: it is refused with
	// ErrForeignHost, or goes to OtherHosts. A request without a host in its URL, as a
	// server reads it, is always for the backends. So is one that a server has read
	// with a host. "*" is every host: take it only where each is yours. The default is
	// DefaultHost alone.
	Hosts []string

	// OtherHosts, if not nil, sends the requests for all other hosts, as they are.
	OtherHosts http.RoundTripper

	// Base sends the requests; it must be one that can be used by many goroutines
	// at once. The default is that of DefaultBase. Of an *http.Transport, the
	// Transport also makes a Clone for requests that cannot be repeated.
	Base http.RoundTripper

	// AttemptTimeout is how long a backend may leave an attempt without a sign: from
	// the search for a connection to the header of the answer. Each piece of the
	// request's body that the backend takes, and each informational answer, begins it
	// anew; time in which the body of the request is waited for does not count, nor
	// does the body of the answer. An attempt that exceeds it has failed with
	// ErrAttemptTimeout. Set it above what the slowest answer needs, such as that of a
	// long poll. It is above 0. The default is DefaultAttemptTimeout; NoTimeout is no
	// limit.
	AttemptTimeout time.Duration

	// MaxAttempts is how many times one request is sent at most, 1 or above: with
	// 1, none is repeated. The default is DefaultMaxAttempts.
	MaxAttempts int

	// RetryRatio and RetryReserve bound the retries of all requests together: of n
	// requests in a row, at most RetryReserve + n*RetryRatio are repeated, each
	// repetition counted. A retry that this does not allow is not made, and the
	// request ends as the attempt before it did. The ratio is above 0 and at most
	// MaxRetryRatio; with a ratio of MaxAttempts there is no bound. The reserve is
	// from 1 to math.MaxInt32, and serves the requests that are in flight at a
	// backend when it fails. The defaults are DefaultRetryRatio and
	// DefaultRetryReserve.
	RetryRatio   float64
	RetryReserve int

	// KeepBody is how many bytes the body of an idempotent request may have, by its
	// ContentLength, to be read before the first attempt and kept for others where
	// the request has no GetBody. Under an httputil.ReverseProxy none has. It is at
	// most math.MaxInt32. The default is 0: no body is kept.
	KeepBody int64

	// FailureStatus reports whether an answer of that status is a failure of the
	// backend: it then counts like no answer, and the request is retried if it is
	// safe to repeat. The default is that no answer is a failure.
	FailureStatus func(status int) bool

	// FailureThreshold is after how many failures in a row, whoever's requests they
	// were, a backend is marked Unhealthy: 1 or above, math.MaxInt for never. Failures
	// with more than a minute between them are not in a row. The default is
	// DefaultFailureThreshold.
	FailureThreshold int

	// FailureRatio is the share of failures, among the results of ten seconds, that
	// marks a backend too, once there are ten results and FailureThreshold failures:
	// above 0, at most 1. It finds a backend whose failures are never in a row. The
	// default is DefaultFailureRatio.
	FailureRatio float64

	// MaxEjected is the share of the backends, rounded up, that failures of requests
	// may have marked at once: above 0, at most 1. So a request that no backend
	// survives does not take out all of them. The default is DefaultMaxEjected.
	MaxEjected float64

	// EjectionTime is how long a backend is left alone after it was marked, before it
	// is probed. The second time it is twice as long, the third time three times, and
	// so on up to MaxEjectionTime, each up to a fifth longer by chance, so that
	// processes do not probe in step. Ten times EjectionTime without a mark count one
	// time less. Both are above 0. The defaults are ProbeInterval, and 60 times
	// EjectionTime.
	EjectionTime    time.Duration
	MaxEjectionTime time.Duration

	// ReturnTime is how long a backend that was brought back is returning: it begins
	// with one request at a time and may have one more with each success, the others
	// of its keys going on to their next backends, and its first failure marks it
	// again. A returning backend is back after this time, or after 32 successes. It is
	// above 0. The default is DefaultReturnTime.
	ReturnTime time.Duration

	// ProbePath is what a backend that was marked Unhealthy is asked for by GET, as
	// if a request of that path and perhaps query were sent to it: it begins with a
	// slash. The default is a slash.
	ProbePath string

	// ProbeStatus reports whether an answer of that status passes. By default those
	// from 200 to 299 do or, without a ProbePath, all that are not failures of a
	// request.
	ProbeStatus func(status int) bool

	// ProbeInterval is the time from one probe of a backend to the next,
	// ProbeTimeout the limit of one; both are above 0. The defaults are
	// DefaultProbeInterval and DefaultProbeTimeout.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration

	// ProbeAll probes all backends at all times, and not only those that are marked:
	// ProbesDown failures in a row mark a backend, however many are marked already,
	// and ProbesUp that pass in a row bring it back. The first probes are made at
	// once, and the first failure of a backend marks it. Both are 1 or above; ProbesUp
	// also counts without ProbeAll. The defaults are DefaultProbesDown and
	// DefaultProbesUp.
	ProbeAll   bool
	ProbesDown int
	ProbesUp   int

	// ProbeBase sends the probes. The default is Base, over whose connections a probe
	// finds what the next request would find. One that keeps no connections, with
	// DisableKeepAlives, finds whether a backend still accepts new ones.
	ProbeBase http.RoundTripper

	// NoProbe leaves it to checks of the caller's own to bring backends back that were
	// marked Unhealthy. It cannot be had with ProbeAll.
	NoProbe bool

	// Backup, if not nil, has the backends that get requests only where the table has
	// no healthy one left for them. A request keeps its key there.
	Backup Table

	// FailOpen sends a request for which every backend is said to be Unhealthy, by
	// whomever, to the backend that its key belongs to, rather than fail with
	// chash.ErrNoHealthyBackends. Backends that a Transport itself has marked are
	// tried after all others in any case.
	FailOpen bool

	// LoadFactor bounds how many requests a backend has at once: that many times its
	// fair share of all that are in flight, as the Acquire of a chash.Maglev says. A
	// request that would exceed it goes to the next backend of its key that has room. It
	// is in flight until the body of its answer was read or closed. The factor is above 1,
	// and is set in the table and in Backup by their SetLoadFactor. The default, 0, is no
	// bound.
	LoadFactor float64

	// LoadFloor is how many requests a backend may always have at once, beside a
	// LoadFactor, so that few requests do not leave their backends for want of others: set
	// by SetLoadFloor, which says more. The default, 0, leaves it as it is in the table.
	LoadFloor float64

	// OnChange, if not nil, is called after the Transport has changed the state of a
	// backend, perhaps by several goroutines at once, and by one that has a request
	// to send. With ProbeAll it is also called with the result of the first probe of
	// each backend. Two changes of one backend that follow each other at once may be
	// told in either order; the table has the state. It must not call Close.
	OnChange func(Change)

	// OnMove, if not nil, is called when a key has moved while an answer to it is still
	// being read: the key now belongs to another backend than the one that answers.
	// The call comes a second later at most, and once for an answer. It must not call
	// Close. Whoever wants the client to come
	// again, and reach the other backend, calls Move.End.
	OnMove func(Move)
}

// A Change is one of a backend's state that a Transport has made, or what the first
// probe of a backend has found.
type Change struct {
	Name  string   // of the backend
	URL   *url.URL // its Value
	State chash.State
	Err   error         // why it is Unhealthy: the last failure; nil if it is Healthy
	For   time.Duration // how long it is left alone before it is probed, 0 if it is Healthy
	First bool          // it is the result of the first probe, and perhaps no change
}

// A Move is told to Options.OnMove.
type Move struct {
	Request *http.Request // the caller's
	Key     string
	From    *url.URL // the backend that answers
	To      *url.URL // the one that the key belongs to now, nil if there is none
	End     func()   // ends the answer: reading it fails from now on
}
