package chashhttp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// Errors of NewTransport, which adds the name of what was wrong. Beside them it
// returns ErrNoAddress for a backend whose URL is not one.
var (
	// ErrNilTable is returned for no table, and for a nil Maglev or Ring.
	ErrNilTable = errors.New("chashhttp: table is nil")

	// ErrNilKey is returned for no Key.
	ErrNilKey = errors.New("chashhttp: key is nil")

	// ErrInvalidOption is returned for an option out of its range, also by Follow.
	ErrInvalidOption = errors.New("chashhttp: invalid option")
)

// Errors of Follow and of Follower.Refresh.
var (
	// ErrNilSource is returned for no Source.
	ErrNilSource = errors.New("chashhttp: source is nil")

	// ErrSource is returned where a Source has no list, with the reason. The table keeps the
	// backends that it has.
	ErrSource = errors.New("chashhttp: no list of backends")
)

// Errors of RoundTrip, beside those of the table, chash.ErrNoBackends and
// chash.ErrNoHealthyBackends, and those of Options.Base. What came of an attempt is
// wrapped in a BackendError, and an http.Client wraps all of them; find them with
// errors.Is.
var (
	// ErrClosed is returned for a request that is sent after Close.
	ErrClosed = errors.New("chashhttp: transport is closed")

	// ErrForeignHost is returned for a request that is not for the backends: for a
	// host that Options.Hosts does not have.
	ErrForeignHost = errors.New("chashhttp: request for another host")

	// ErrNoAddress is returned for a backend whose URL is nil or has no scheme or no
	// host: "localhost:80" is a scheme without a host. It counts as a failure of that
	// backend.
	ErrNoAddress = errors.New("chashhttp: backend has no address")

	// ErrAttemptTimeout is returned where a backend gave no sign for as long as
	// Options.AttemptTimeout. Like the errors of time limits of net/http it is a
	// net.Error whose Timeout is true.
	ErrAttemptTimeout error = timeoutError{}

	// ErrConnectionClosed is returned where a backend closed a connection on which it
	// had answered before, just as a request went out, and the request could not be
	// repeated. It is no failure of the backend.
	ErrConnectionClosed = errors.New("chashhttp: backend closed an idle connection as the request went out")

	// ErrMarked is returned where a request waited for an answer of a backend that was
	// marked Unhealthy meanwhile, and no other could be asked.
	ErrMarked = errors.New("chashhttp: backend was marked unhealthy while the request waited")

	// ErrInvalidStatus is returned for an answer whose status no server may send on,
	// since it is below 100. It is a failure of the backend.
	ErrInvalidStatus = errors.New("chashhttp: invalid status of an answer")

	// ErrUpgrade is returned for a request to upgrade, to WebSocket say, where
	// Options.Base speaks HTTP/2 to the backend, over which net/http upgrades nothing.
	// Give such backends a Base that speaks HTTP/1.
	ErrUpgrade = errors.New("chashhttp: no upgrade over HTTP/2")

	// ErrRequestBody is returned where the body of a request cannot be read to its
	// end, as when the client of a proxy goes away, or is not as long as its
	// ContentLength says. It wraps the reason and is no failure of the backend.
	ErrRequestBody = errors.New("chashhttp: cannot read the request's body")

	// ErrInvalidURL is returned for a request whose URL is nil or has an Opaque part,
	// to which a backend's path cannot be joined and in which its host has no place.
	// A client of a proxy sends one with GET http:path, for example.
	ErrInvalidURL = errors.New("chashhttp: invalid URL of the request")
)

// errRepeated ends an attempt that Options.Base was about to send a second time.
var errRepeated = errors.New("chashhttp: connection was lost before an answer")

// A BackendError is the error of an attempt at a backend. It is a net.Error.
type BackendError struct {
	Name string   // of the backend, empty if it has gone meanwhile
	URL  *url.URL // its Value, perhaps nil
	Err  error
}

// Error implements error. It leaves out the password of the URL.
func (e *BackendError) Error() string {
	where := "nil"
	if e.URL != nil {
		where = e.URL.Redacted()
	}
	return fmt.Sprintf("backend %q at %s: %v", e.Name, where, e.Err)
}

// Unwrap returns Err.
func (e *BackendError) Unwrap() error { return e.Err }

// Timeout reports whether Err is that of a time limit.
func (e *BackendError) Timeout() bool {
	var err net.Error
	return errors.As(e.Err, &err) && err.Timeout()
}

// Temporary completes net.Error. It always returns false.
func (e *BackendError) Temporary() bool { return false }

// A timeoutError is that of Options.AttemptTimeout.
type timeoutError struct{}

// Error implements error.
func (timeoutError) Error() string { return "chashhttp: no sign of the backend within AttemptTimeout" }

// Timeout implements net.Error.
func (timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (timeoutError) Temporary() bool { return true }

// A statusError is an answer that counts as a failure.
type statusError int

// Error implements error.
func (s statusError) Error() string {
	return fmt.Sprintf("chashhttp: status %d %s", int(s), http.StatusText(int(s)))
}
