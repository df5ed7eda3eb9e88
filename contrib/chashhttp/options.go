package chashhttp

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/chash-go/chash"
)

// The defaults of Options.
const (
	DefaultMaxAttempts      = 3
	DefaultRetryRatio       = 0.2
	DefaultRetryReserve     = 100
	DefaultFailureThreshold = 5
	DefaultProbeInterval    = time.Second
	DefaultProbeTimeout     = time.Second
)

// MaxRetryRatio is the largest Options.RetryRatio.
const MaxRetryRatio = 1000

// Options are what a Transport can be told. A field of zero means its default, so
// that Options{} is all defaults.
type Options struct {
	// Base sends the requests; it must be one that can be used by many goroutines
	// at once. The default is a clone of http.DefaultTransport that keeps up to 100
	// idle connections to each backend, however many there are, rather than 2 and
	// 100 in all. A backend that accepts requests but never answers is found out by
	// time limits of Base, such as the ResponseHeaderTimeout of an http.Transport,
	// which has none by default.
	Base http.RoundTripper

	// MaxAttempts is how many backends one request is sent to at most, 1 or above: with
	// 1, none is retried. The default is DefaultMaxAttempts.
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

	// FailureThreshold is after how many failures in a row, whoever's requests they
	// were, a backend is marked Unhealthy: 1 or above, math.MaxInt for never. The
	// default is DefaultFailureThreshold.
	FailureThreshold int

	// FailureStatus reports whether an answer of that status is a failure of the
	// backend: it then counts like no answer, and the request is retried if it is
	// safe to repeat. The default is that no answer is a failure.
	FailureStatus func(status int) bool

	// ProbePath is what a backend that was marked Unhealthy is asked for by GET, as
	// if a request of that path and perhaps query were sent to it: it begins with a
	// slash. The default is a slash.
	ProbePath string

	// ProbeStatus reports whether an answer of that status brings a backend back. By
	// default those from 200 to 299 do or, without a ProbePath, all that are not
	// failures of a request.
	ProbeStatus func(status int) bool

	// ProbeInterval is the time from one probe of a backend to the next,
	// ProbeTimeout the limit of one; both are above 0. The defaults are
	// DefaultProbeInterval and DefaultProbeTimeout.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration

	// NoProbe leaves it to checks of the caller's own to bring backends back that were
	// marked Unhealthy.
	NoProbe bool

	// OnChange, if not nil, is called after the Transport has changed the state of a
	// backend, perhaps by several goroutines at once, and by one that has a request
	// to send. Two changes of one backend that follow each other at once may be told
	// in either order; the table has the state. It must not call Close.
	OnChange func(Change)
}

// A Change is one of a backend's state that a Transport has made.
type Change struct {
	Name  string   // of the backend
	URL   *url.URL // its Value
	State chash.State
	Err   error // why it is Unhealthy: the last failure; nil if it is Healthy
}

// withDefaults returns the options with every field filled in, or an
// ErrInvalidOption that names the one out of its range.
func (o Options) withDefaults() (Options, error) {
	if o.Base == nil {
		o.Base = defaultBase()
	}
	setDefault(&o.MaxAttempts, DefaultMaxAttempts)
	setDefault(&o.RetryRatio, DefaultRetryRatio)
	setDefault(&o.RetryReserve, DefaultRetryReserve)
	setDefault(&o.FailureThreshold, DefaultFailureThreshold)
	setDefault(&o.ProbeInterval, DefaultProbeInterval)
	setDefault(&o.ProbeTimeout, DefaultProbeTimeout)
	if o.FailureStatus == nil {
		o.FailureStatus = func(int) bool { return false }
	}
	if o.ProbeStatus == nil {
		o.ProbeStatus = o.defaultProbeStatus()
	}
	setDefault(&o.ProbePath, "/")
	return o, o.validate()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// defaultProbeStatus is a check's usual rule where there is something to check. But
// nobody knows what a backend has at /, and so any answer there which would do for a
// request shows that it is back.
func (o Options) defaultProbeStatus() func(int) bool {
	if failure := o.FailureStatus; o.ProbePath == "" {
		return func(status int) bool { return !failure(status) }
	}
	return func(status int) bool { return status >= 200 && status < 300 }
}

func (o Options) validate() error {
	for _, rule := range []struct {
		kept  bool
		name  string
		value any
		want  string
	}{
		{o.MaxAttempts >= 1, "MaxAttempts", o.MaxAttempts, "1 or above"},
		{o.RetryRatio > 0 && o.RetryRatio <= MaxRetryRatio, "RetryRatio", o.RetryRatio, "above 0, at most MaxRetryRatio"}, // NaN is neither
		{o.RetryReserve >= 1 && o.RetryReserve <= math.MaxInt32, "RetryReserve", o.RetryReserve, "1 to math.MaxInt32"},
		{o.KeepBody >= 0 && o.KeepBody <= math.MaxInt32, "KeepBody", o.KeepBody, "0 to math.MaxInt32"},
		{o.FailureThreshold >= 1, "FailureThreshold", o.FailureThreshold, "1 or above"},
		{validPath(o.ProbePath), "ProbePath", o.ProbePath, "a path that begins with a slash, and perhaps a query"},
		{o.ProbeInterval > 0, "ProbeInterval", o.ProbeInterval, "above 0"},
		{o.ProbeTimeout > 0, "ProbeTimeout", o.ProbeTimeout, "above 0"},
	} {
		if !rule.kept {
			return fmt.Errorf("%w: %s is %v, want %s", ErrInvalidOption, rule.name, rule.value, rule.want)
		}
	}
	return nil
}

func validPath(path string) bool {
	_, err := url.ParseRequestURI(path)
	return err == nil && strings.HasPrefix(path, "/")
}

// defaultBase clones the default, so that its connections are the Transport's own to
// close. The default keeps 2 idle connections to a host and 100 to all, which suits a
// client of many hosts with a few requests each; here the hosts are those of the table
// and the requests many.
func defaultBase() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has replaced it
		return http.DefaultTransport
	}
	base = base.Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 100 // 0 is no limit
	return base
}
