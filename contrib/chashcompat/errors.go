package chashcompat

import "errors"

// Every error of this package wraps one of these, with the wrong name or number. Find
// them with errors.Is. The constructors and the calls that change a structure return
// them. Such a call changes nothing.
var (
	// ErrName is returned for a hash key in a form that the system does not have. The
	// text shows the right form.
	ErrName = errors.New("chashcompat: not a name of this system")

	// ErrWeight is returned for a weight that the system cannot have, or a sum of all
	// weights that is too large for the system.
	ErrWeight = errors.New("chashcompat: not a weight of this system")

	// ErrOrder is returned for an order that names a hash key twice, or lacks the
	// hash key of a backend.
	ErrOrder = errors.New("chashcompat: the order of the configuration does not fit")

	// ErrSetting is returned for a setting that the system does not have, such as an
	// unknown hash function.
	ErrSetting = errors.New("chashcompat: not a setting of this system")
)
