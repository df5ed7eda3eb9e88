package chash

import "errors"

// Every error of this package's own is one of these. Find it with errors.Is: most
// calls wrap it with the name or the number that was wrong. Marshal, UnmarshalMaglev
// and UnmarshalRing also wrap what encode and decode return. A call that fails
// changes nothing, and a lookup that fails returns the zero value of T.
var (
	// ErrNoBackends is returned by lookups on an empty structure: add a backend.
	ErrNoBackends = errors.New("chash: no backends")

	// ErrNoHealthyBackends is returned by lookups where there are backends but
	// every one is Unhealthy or Draining. ErrNoneAccepted is one too.
	ErrNoHealthyBackends = errors.New("chash: no healthy backends")

	// ErrNoneAccepted is returned by GetFunc and AcquireFunc where there are healthy
	// backends but accept takes none. It matches ErrNoHealthyBackends as well.
	ErrNoneAccepted error = noneAccepted{}

	// ErrEmptyName is returned for a backend without a Name.
	ErrEmptyName = errors.New("chash: backend name is empty")

	// ErrBackendExists is returned for a Name that is there already, or twice in
	// one batch.
	ErrBackendExists = errors.New("chash: backend exists")

	// ErrBackendNotFound is returned for a name that is not there, and by Remove
	// for one that is named twice.
	ErrBackendNotFound = errors.New("chash: backend not found")

	// ErrInvalidState is returned for a State other than Healthy, Unhealthy and
	// Draining.
	ErrInvalidState = errors.New("chash: invalid state")

	// ErrInvalidWeight is returned by SetWeight for a weight of 0: a backend that
	// shall have no share is a Draining one.
	ErrInvalidWeight = errors.New("chash: invalid weight")

	// ErrInvalidOption is returned by the constructors, UnmarshalMaglev, UnmarshalRing,
	// SetLoadFactor, SetLoadFloor and the calls that take leases for an option out of its
	// range and for options that exclude each other. Its text says which and what the
	// range is.
	ErrInvalidOption = errors.New("chash: invalid option")

	// ErrTableSizeNotPrime is returned by NewMaglev for a table size that is not a
	// prime. Its text names the nearest primes.
	ErrTableSizeNotPrime = errors.New("chash: table size is not prime")

	// ErrTooManyBackends is returned where a Maglev table would have fewer slots
	// than placements: choose a larger table.
	ErrTooManyBackends = errors.New("chash: more placements than slots")

	// ErrRingTooLarge is returned where a ring would have more points than
	// MaxRingPoints or WithMaxSize allow. A backend has as many points as replicas for
	// each unit of its weight: choose fewer replicas, smaller weights, or a larger unit
	// by WithUnitWeight.
	ErrRingTooLarge = errors.New("chash: ring is too large")

	// ErrInvalidLayout is returned where the function of a RingLayout or a TableLayout
	// returns what is not a ring or a table: no points, the wrong number of slots, or an
	// owner that is no placement.
	ErrInvalidLayout = errors.New("chash: invalid layout")

	// ErrCorrupt is returned by UnmarshalMaglev and UnmarshalRing for data that
	// Marshal did not write for such a structure: damaged, cut short, foreign, or of
	// a later version of the format; and by UnmarshalText of Count.
	ErrCorrupt = errors.New("chash: corrupt data")

	// ErrOptionsDiffer is returned by UnmarshalMaglev and UnmarshalRing for an
	// option that the structure in the data did not have, and where that one had a
	// hash function and none is given: give the options that it had, or only
	// WithHash.
	ErrOptionsDiffer = errors.New("chash: options differ")

	// ErrIncomparable is returned by Diff for two structures that place keys
	// differently whatever their backends are, and for nil: give them the same table
	// size, seed and hash function.
	ErrIncomparable = errors.New("chash: structures cannot be compared")
)

type noneAccepted struct{}

func (noneAccepted) Error() string { return "chash: no healthy backend was accepted" }
func (noneAccepted) Unwrap() error { return ErrNoHealthyBackends }
