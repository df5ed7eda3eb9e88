package chashcompat

import "errors"

// Every error of this package's own is one of these, wrapped with the name or the number
// that was wrong. Find it with errors.Is. The constructors and the calls that change a
// structure return it, and such a call then changes nothing.
var (
	// ErrName is returned for a hash key that is not of the form that the system has.
	// Its text shows the form.
	ErrName = errors.New("chashcompat: not a name of this system")

	// ErrWeight is returned for a weight that the system cannot have, or where all weights
	// together are too large for it.
	ErrWeight = errors.New("chashcompat: not a weight of this system")

	// ErrOrder is returned where the order that an option was given names a hash key twice
	// or lacks that of a backend.
	ErrOrder = errors.New("chashcompat: the order of the configuration does not fit")

	// ErrSetting is returned for a setting that the system does not have, such as an unknown
	// hash function.
	ErrSetting = errors.New("chashcompat: not a setting of this system")
)
