package chashhttp

import "errors"

// Errors of NewTransport, which adds the name of what was wrong.
var (
	// ErrNilTable is returned for no table, and for a nil Maglev or Ring.
	ErrNilTable = errors.New("chashhttp: table is nil")

	// ErrNilKey is returned for no Key.
	ErrNilKey = errors.New("chashhttp: key is nil")

	// ErrInvalidOption is returned for an option out of its range.
	ErrInvalidOption = errors.New("chashhttp: invalid option")
)

// Errors of RoundTrip, beside those of the table, chash.ErrNoBackends and
// chash.ErrNoHealthyBackends, and those of Options.Base. An http.Client wraps
// all of them; find them with errors.Is.
var (
	// ErrClosed is returned for a request that is sent after Close.
	ErrClosed = errors.New("chashhttp: transport is closed")

	// ErrNoAddress is returned for a backend whose URL is nil or has no host. It
	// counts as a failure of that backend.
	ErrNoAddress = errors.New("chashhttp: backend has no address")

	// ErrRequestBody is returned where the body of a request cannot be read to its
	// end, as when the client of a proxy goes away, or is not as long as its
	// ContentLength says. It wraps the reason and is no failure of the backend.
	ErrRequestBody = errors.New("chashhttp: cannot read the request's body")

	// ErrInvalidURL is returned for a request whose URL is nil or has an Opaque part,
	// to which a backend's path cannot be joined and in which its host has no place.
	// A client of a proxy sends one with GET http:path, for example.
	ErrInvalidURL = errors.New("chashhttp: invalid URL of the request")
)
