package chashhttp

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// withDefaults returns the options with every field filled in, or an
// ErrInvalidOption that names the one out of its range.
func (o Options) withDefaults() (Options, error) {
	if o.Base == nil {
		o.Base = defaultBase()
	}
	setDefault(&o.ProbeBase, o.Base)
	if o.Hosts == nil {
		o.Hosts = []string{DefaultHost}
	}
	setDefault(&o.AttemptTimeout, DefaultAttemptTimeout)
	setDefault(&o.MaxAttempts, DefaultMaxAttempts)
	setDefault(&o.RetryRatio, DefaultRetryRatio)
	setDefault(&o.RetryReserve, DefaultRetryReserve)
	if o.FailureStatus == nil {
		o.FailureStatus = func(int) bool { return false }
	}
	o.healthDefaults()
	if o.ProbeStatus == nil {
		o.ProbeStatus = o.defaultProbeStatus()
	}
	setDefault(&o.ProbePath, "/")
	return o, o.validate()
}

func (o *Options) healthDefaults() {
	setDefault(&o.FailureThreshold, DefaultFailureThreshold)
	setDefault(&o.FailureRatio, DefaultFailureRatio)
	setDefault(&o.MaxEjected, DefaultMaxEjected)
	setDefault(&o.ReturnTime, DefaultReturnTime)
	setDefault(&o.ProbeInterval, DefaultProbeInterval)
	setDefault(&o.ProbeTimeout, DefaultProbeTimeout)
	setDefault(&o.ProbesDown, DefaultProbesDown)
	setDefault(&o.ProbesUp, DefaultProbesUp)
	setDefault(&o.EjectionTime, o.ProbeInterval)
	if o.MaxEjectionTime == 0 {
		o.MaxEjectionTime = 60 * min(o.EjectionTime, math.MaxInt64/60)
	}
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
	const positive = "above 0"
	for _, rule := range []struct {
		kept  bool
		name  string
		value any
		want  string
	}{
		{len(o.Hosts) > 0, "Hosts", o.Hosts, "one or more hosts, or nil"},
		{o.AttemptTimeout > 0, "AttemptTimeout", o.AttemptTimeout, positive},
		{o.MaxAttempts >= 1, "MaxAttempts", o.MaxAttempts, "1 or above"},
		{o.RetryRatio > 0 && o.RetryRatio <= MaxRetryRatio, "RetryRatio", o.RetryRatio, "above 0, at most MaxRetryRatio"}, // NaN is neither
		{o.RetryReserve >= 1 && o.RetryReserve <= math.MaxInt32, "RetryReserve", o.RetryReserve, "1 to math.MaxInt32"},
		{o.KeepBody >= 0 && o.KeepBody <= math.MaxInt32, "KeepBody", o.KeepBody, "0 to math.MaxInt32"},
		{o.FailureThreshold >= 1, "FailureThreshold", o.FailureThreshold, "1 or above"},
		{share(o.FailureRatio), "FailureRatio", o.FailureRatio, "above 0, at most 1"},
		{share(o.MaxEjected), "MaxEjected", o.MaxEjected, "above 0, at most 1"},
		{o.ProbeInterval > 0, "ProbeInterval", o.ProbeInterval, positive},
		{o.EjectionTime > 0, "EjectionTime", o.EjectionTime, positive},
		{o.MaxEjectionTime > 0, "MaxEjectionTime", o.MaxEjectionTime, positive},
		{o.ReturnTime > 0, "ReturnTime", o.ReturnTime, positive},
		{validPath(o.ProbePath), "ProbePath", o.ProbePath, "a path that begins with a slash, and perhaps a query"},
		{o.ProbeTimeout > 0, "ProbeTimeout", o.ProbeTimeout, positive},
		{o.ProbesDown >= 1, "ProbesDown", o.ProbesDown, "1 or above"},
		{o.ProbesUp >= 1, "ProbesUp", o.ProbesUp, "1 or above"},
		{!o.NoProbe || !o.ProbeAll, "NoProbe", o.NoProbe, "false with ProbeAll"},
		{o.LoadFloor == 0 || o.LoadFactor != 0, "LoadFloor", o.LoadFloor, "0 without a LoadFactor"},
		{o.Backup == nil || !isNil(o.Backup), "Backup", "a nil pointer", "a table, or nil"},
	} {
		if !rule.kept {
			return fmt.Errorf("%w: %s is %v, want %s", ErrInvalidOption, rule.name, rule.value, rule.want)
		}
	}
	for _, host := range o.Hosts {
		if !validHost(host) {
			return fmt.Errorf("%w: Hosts has %q, want a host, perhaps with a port, or *", ErrInvalidOption, host)
		}
	}
	return nil
}

func share(s float64) bool { return s > 0 && s <= 1 } // NaN is not

func validPath(path string) bool {
	_, err := url.ParseRequestURI(path)
	return err == nil && strings.HasPrefix(path, "/")
}

// validHost reports whether that is all that can be between the slashes of a URL
// and its path, without a user.
func validHost(host string) bool {
	if host == "*" {
		return true
	}
	u, err := url.Parse("http://" + host)
	return err == nil && u.Host == host && u.Hostname() != ""
}

// DefaultBase returns a new transport like that of a nil Options.Base, so that you
// can change one thing about it. It is a clone of http.DefaultTransport, if that is
// an *http.Transport. It keeps up to 100 idle connections to each backend, for any
// number of backends, rather than 2 for each and 100 in all.
func DefaultBase() *http.Transport {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has replaced it
		base = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second}
	}
	base = base.Clone()                                  // its connections are the Transport's own to close
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 100 // 0 is no limit
	return base
}

// defaultBase is DefaultBase, unless the program has a default of another kind, which
// is then taken as it is.
func defaultBase() http.RoundTripper {
	if _, ok := http.DefaultTransport.(*http.Transport); !ok {
		return http.DefaultTransport
	}
	return DefaultBase()
}
