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

// Options are the options of a Transport. Zero means the default.
type Options struct {
	// Hosts are the hosts that stand for the backends, as in http://service/path:
	// names or addresses, with the port if it is not that of the scheme. Case does
	// not matter. A request for another host, for example after a redirect to another
	// site, is refused with ErrForeignHost, or goes to OtherHosts. A request that a
	// server has read is always for the backends. "*" is every host: use it only if
	// each is yours. The default is DefaultHost alone.
	Hosts []string

	// OtherHosts, if not nil, sends the requests for other hosts, unchanged.
	OtherHosts http.RoundTripper

	// Base sends the requests. It must be safe for concurrent use. The default is
	// that of DefaultBase. If Base is an *http.Transport, the Transport also makes a
	// Clone for requests that cannot be repeated.
	Base http.RoundTripper

	// AttemptTimeout is how long a backend may give no sign during an attempt: from
	// the search for a connection to the header of the answer. It begins again with
	// each piece of the request's body that the backend takes, and with each
	// informational answer. Time spent waiting for the request's body does not count.
	// The body of the answer does not count either. A late attempt fails with
	// ErrAttemptTimeout. Set it above the time of the slowest answer, such as that of
	// a long poll. The default is DefaultAttemptTimeout; NoTimeout is no limit.
	AttemptTimeout time.Duration

	// MaxAttempts is how many times a request is sent at most. 1 means no retry. The
	// default is DefaultMaxAttempts.
	MaxAttempts int

	// RetryRatio and RetryReserve limit the retries of all requests together: of n
	// requests in a row, at most RetryReserve + n*RetryRatio attempts are retries.
	// Without budget, the request ends as the attempt before did. The ratio is above
	// 0 and at most MaxRetryRatio; a ratio of MaxAttempts is no limit. The reserve is
	// from 1 to math.MaxInt32, for the requests in flight at a backend that fails.
	// The defaults are DefaultRetryRatio and DefaultRetryReserve.
	RetryRatio   float64
	RetryReserve int

	// KeepBody is the largest body, by its ContentLength, that is read before the
	// first attempt and kept for retries. It is for idempotent requests without
	// GetBody, as all are under an httputil.ReverseProxy. It is at most
	// math.MaxInt32. The default is 0: no body is kept.
	KeepBody int64

	// FailureStatus reports whether an answer with that status is a failure of the
	// backend. Such an answer counts like none, and the request is retried if that is
	// safe. By default no answer is a failure.
	FailureStatus func(status int) bool

	// FailureThreshold is the number of failures in a row, of any requests, that
	// marks a backend Unhealthy: 1 or above, math.MaxInt for never. Failures more
	// than a minute apart are not in a row. The default is DefaultFailureThreshold.
	FailureThreshold int

	// FailureRatio is the share of failures among the results of ten seconds that
	// marks a backend too, above 0 and at most 1. It needs ten results and
	// FailureThreshold failures. It finds backends whose failures are never in a row.
	// The default is DefaultFailureRatio.
	FailureRatio float64

	// MaxEjected is the share of the backends, rounded up, that failed requests may
	// have marked at once: above 0, at most 1. So a request that breaks every backend
	// does not take out all of them. The default is DefaultMaxEjected.
	MaxEjected float64

	// EjectionTime is the time from the mark of a backend to its first probe. It is
	// twice as long the second time, three times the third time, and so on up to
	// MaxEjectionTime. Each is up to a fifth longer by chance, so that processes do
	// not probe at the same time. Ten times EjectionTime without a mark count one
	// time less. Both are above 0. The defaults are ProbeInterval, and 60 times
	// EjectionTime.
	EjectionTime    time.Duration
	MaxEjectionTime time.Duration

	// ReturnTime is how long a backend that comes back gets only a part of its
	// requests. It begins with one request at a time, and may have one more after
	// each success. The others of its keys go on to their next backends. Its first
	// failure marks it again. The backend is back after this time or after 32
	// successes. It is above 0. The default is DefaultReturnTime.
	ReturnTime time.Duration

	// ProbePath is the path, and perhaps the query, of probes: GET requests to marked
	// backends. It begins with a slash. The default is a slash.
	ProbePath string

	// ProbeStatus reports whether an answer with that status passes the probe. By
	// default 200 to 299 pass. Without a ProbePath, all pass that are no failure of a
	// request.
	ProbeStatus func(status int) bool

	// ProbeInterval is the time from one probe of a backend to the next. ProbeTimeout
	// limits one probe. Both are above 0. The defaults are DefaultProbeInterval and
	// DefaultProbeTimeout.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration

	// ProbeAll probes all backends at all times, not only marked ones. ProbesDown
	// failures in a row mark a backend, however many are marked already. ProbesUp
	// passes in a row bring it back, also without ProbeAll. The first probes are made
	// at once, and one failure then marks a backend. Both numbers are 1 or above. The
	// defaults are DefaultProbesDown and DefaultProbesUp.
	ProbeAll   bool
	ProbesDown int
	ProbesUp   int

	// ProbeBase sends the probes. The default is Base: a probe then uses the
	// connections that requests use. A ProbeBase with DisableKeepAlives shows whether
	// a backend still accepts new connections.
	ProbeBase http.RoundTripper

	// NoProbe leaves marked backends to your own health checks. It excludes ProbeAll.
	NoProbe bool

	// Backup, if not nil, has backends that get requests only if the table has no
	// healthy backend for them. A request keeps its key there.
	Backup Table

	// FailOpen sends a request to the backend of its key if every backend is
	// Unhealthy, whoever said so. Otherwise the request fails with
	// chash.ErrNoHealthyBackends. Backends that a Transport itself has marked are
	// tried last in any case.
	FailOpen bool

	// LoadFactor limits how many requests a backend has at once: that many times its
	// fair share of all requests in flight, as in Acquire of a chash.Maglev. Other
	// requests go to the next backend of their key that has room. A request is in
	// flight until the body of its answer is read or closed. The factor is above 1;
	// it is set in the table and in Backup by SetLoadFactor. The default, 0, is no
	// limit.
	LoadFactor float64

	// LoadFloor is how many requests a backend of weight 1 may always have at once,
	// with a LoadFactor. So few requests do not leave their backends. It is set by
	// SetLoadFloor. The default, 0, leaves the floor of the table as it is.
	LoadFloor float64

	// OnChange, if not nil, is called after the Transport has changed the state of a
	// backend. Several goroutines may call it at once, also one that has a request to
	// send. With ProbeAll it is also called with the result of the first probe of
	// each backend. Two quick changes of one backend may come in either order; the
	// table has the state. It must not call Close.
	OnChange func(Change)

	// OnMove, if not nil, is called when a key has moved to another backend while an
	// answer to it is being read: at most a second later, and once for an answer. To
	// make the client come again, and reach the other backend, call Move.End. OnMove
	// must not call Close.
	OnMove func(Move)
}

// A Change is a change of state that a Transport has made, or the result of the first
// probe of a backend.
type Change struct {
	Name  string   // of the backend
	URL   *url.URL // its Value
	State chash.State
	Err   error         // why it is Unhealthy: the last failure; nil if it is Healthy
	For   time.Duration // how long it is left alone before it is probed, 0 if it is Healthy
	First bool          // it is the result of the first probe, and perhaps no change
}

// A Move is the argument of Options.OnMove.
type Move struct {
	Request *http.Request // the caller's
	Key     string
	From    *url.URL // the backend that answers
	To      *url.URL // the one that the key belongs to now, nil if there is none
	End     func()   // ends the answer: reading it fails from now on
}
