package chash

import "errors"

// Every error that this package makes matches one of these with errors.Is. Most also
// name the backend or the number that was wrong. A call that fails changes nothing. A
// lookup that fails returns the zero value of T.
var (
	// ErrNoBackends is returned by lookups if there is no backend.
	ErrNoBackends = errors.New("chash: no backends")
	// ErrNoHealthyBackends is returned by lookups if none is Healthy, by Owner if all
	// are Draining.
	ErrNoHealthyBackends = errors.New("chash: no healthy backends")
	// ErrNoneAccepted is returned if accept takes no healthy backend. It matches
	// ErrNoHealthyBackends as well.
	ErrNoneAccepted error = noneAccepted{}
	// ErrEmptyName is returned for a backend without a Name.
	ErrEmptyName = errors.New("chash: backend name is empty")
	// ErrBackendExists is returned for a Name that is there, or twice in one call.
	ErrBackendExists = errors.New("chash: backend exists")
	// ErrBackendNotFound is returned for a name that is not there, or twice in
	// Remove.
	ErrBackendNotFound = errors.New("chash: backend not found")
	// ErrInvalidState is returned for any other State than the three.
	ErrInvalidState = errors.New("chash: invalid state")
	// ErrInvalidWeight is returned by SetWeight for 0. Use Draining instead.
	ErrInvalidWeight = errors.New("chash: invalid weight")
	// ErrInvalidOption is returned for an option out of its range and for options
	// that exclude each other. Its text gives the range.
	ErrInvalidOption = errors.New("chash: invalid option")
	// ErrTableSizeNotPrime is returned for a size that is no prime. Its text names
	// the nearest.
	ErrTableSizeNotPrime = errors.New("chash: table size is not prime")
	// ErrTooManyBackends is returned if a Maglev without a TableLayout would have
	// more placements than slots.
	ErrTooManyBackends = errors.New("chash: more placements than slots")
	// ErrRingTooLarge is returned if a Ring would have more points than MaxRingPoints
	// or WithMaxSize allow. Choose fewer replicas or a larger unit weight.
	ErrRingTooLarge = errors.New("chash: ring is too large")
	// ErrInvalidLayout is returned if a layout gives no points, a wrong number of
	// slots, or a placement that does not exist.
	ErrInvalidLayout = errors.New("chash: invalid layout")
	// ErrCorrupt is returned for data that Marshal did not write: damaged, cut short,
	// or of another structure or a later version.
	ErrCorrupt = errors.New("chash: corrupt data")
	// ErrOptionsDiffer is returned if an option is not the one in the data, or if the
	// structure had a hash function or a layout and none is given.
	ErrOptionsDiffer = errors.New("chash: options differ")
	// ErrIncomparable is returned by Diff for nil and for structures with another
	// table size, seed or hash function.
	ErrIncomparable = errors.New("chash: structures cannot be compared")
)

type noneAccepted struct{}

func (noneAccepted) Error() string { return "chash: no healthy backend was accepted" }
func (noneAccepted) Unwrap() error { return ErrNoHealthyBackends }
