package chash

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/probe"
)

// This file lets a caller lay out the owners: the points of a ring, or the slots of a
// table. All else is as with the layouts of this package.

// A Placement is all backends that share a hash key.
type Placement struct {
	HashKey string // not empty
	Weight  uint32 // of the heaviest of its backends, at least 1
}

// A VirtualNode is one point that a RingLayout places.
type VirtualNode struct {
	Position  uint64
	Placement int // the index of the placement that owns it
}

// A RingLayout places the points of a ring as another system does, or as a
// configuration file says.
type RingLayout struct {
	// Name tells the layout and its settings from others. It must not be empty. Stats,
	// Explain and Marshal show it. Rings with different names have different
	// fingerprints, and neither can read the data of the other.
	Name string

	// Hash returns the position of a key. It must be as WithHash requires. Nil means
	// xxHash64.
	Hash func(key string) uint64

	// Points returns the points of the placements, in any order. The placements are
	// sorted by hash key. Of points at one position, the first counts. A placement may
	// have no point, but not all of them may.
	//
	// The result must depend on the placements only, in every process. Changes call
	// Points one at a time. It may keep its argument, and must not call the structure.
	// If it returns an error, the change wraps that error and changes nothing. The
	// constructor calls Points once without placements to find wrong settings early. It
	// must then return no points.
	Points func(placements []Placement) ([]VirtualNode, error)
}

// A TableLayout fills the slots of a table as another system does, or as a
// configuration file says.
type TableLayout struct {
	// Name is as in RingLayout.
	Name string

	// Hash returns the hash of a key, whose slot is the hash modulo the number of slots.
	// It must be as WithHash requires. Nil means xxHash64.
	Hash func(key string) uint64

	// TableSize is the number of slots without WithTableSize. 0 means DefaultTableSize.
	TableSize int

	// Slots returns, for each of size slots, the index of the placement that owns the
	// slot. There may be more placements than slots, and a placement may have no slot.
	// Otherwise the rules are those of Points in RingLayout.
	Slots func(placements []Placement, size int) ([]uint32, error)
}

// WithRingLayout makes a ring place its points as the layout says, all of them at
// each change. It excludes WithReplicas, WithUnitWeight, WithSeed and WithHash. A
// layout without Name or Points is ErrInvalidOption. If the result of Points is
// wrong, the constructor or the change, a removal too, returns ErrInvalidLayout, or
// ErrRingTooLarge for more than MaxRingPoints.
func WithRingLayout(l RingLayout) RingOption {
	return ringOption(func(c *config) { c.RingLayout = &l })
}

// WithTableLayout makes a Maglev fill its slots as the layout says. It excludes
// WithSlack, WithSeed and WithHash. A layout without Name or Slots is
// ErrInvalidOption. If Slots returns a wrong table, the constructor or the change, a
// removal too, returns ErrInvalidLayout.
func WithTableLayout(l TableLayout) MaglevOption {
	return maglevOption(func(c *config) { c.TableLayout = &l })
}

// layoutName returns the name of the caller's layout, or nothing.
func layoutName(c Config) string {
	switch {
	case c.RingLayout != nil:
		return c.RingLayout.Name
	case c.TableLayout != nil:
		return c.TableLayout.Name
	}
	return ""
}

// hashOfKeys returns the hash function of the caller or of the layout, or nil.
func hashOfKeys(c Config) func(key string) uint64 {
	switch {
	case c.RingLayout != nil:
		if c.RingLayout.Hash == nil {
			return xxhash.Sum64String // on a ring it is as any other function
		}
		return c.RingLayout.Hash
	case c.TableLayout != nil:
		return c.TableLayout.Hash
	}
	return c.Hash
}

// validateRingLayout checks the layout of the options, which is set.
func (c *config) validateRingLayout() error {
	l := c.RingLayout
	if err := c.validateLayout(l.Name, l.Points == nil); err != nil {
		return err
	}
	if c.Replicas != DefaultReplicas {
		return invalidOption("layout %q and %d replicas exclude each other", l.Name, c.Replicas)
	}
	if c.UnitWeight != 1 {
		return invalidOption("layout %q and unit weight %d exclude each other", l.Name, c.UnitWeight)
	}
	points, err := l.Points(nil)
	return validateEmpty(l.Name, len(points), err)
}

// validateTableLayout checks the layout of the options, if one is set.
func (c *config) validateTableLayout() error {
	l := c.TableLayout
	if l == nil {
		return nil
	}
	if err := c.validateLayout(l.Name, l.Slots == nil); err != nil {
		return err
	}
	if c.Slack != nil {
		return invalidOption("layout %q and slack %v exclude each other", l.Name, *c.Slack)
	}
	slots, err := l.Slots(nil, c.TableSize)
	return validateEmpty(l.Name, len(slots), err)
}

// validateLayout checks what both kinds of layouts have.
func (c *config) validateLayout(name string, lacksFunction bool) error {
	switch {
	case name == "":
		return invalidOption("the layout has no name")
	case lacksFunction:
		return invalidOption("layout %q has no function", name)
	case c.hashGiven:
		return invalidOption("layout %q has the hash function, none can be given beside it", name)
	case c.Seed != 0:
		return invalidOption("layout %q and seed %d exclude each other", name, c.Seed)
	}
	return nil
}

// validateEmpty checks what a function returned for no placements.
func validateEmpty(name string, owners int, err error) error {
	if err == nil && owners > 0 {
		err = fmt.Errorf("%w: %d owners without a placement", ErrInvalidLayout, owners)
	}
	return inLayout(name, err)
}

// inLayout wraps the error of a layout, or nil.
func inLayout(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("chash: layout %q: %w", name, err)
}

// exported returns the placements in the form that layouts get.
func exported(placements []probe.Placement) []Placement {
	list := make([]Placement, len(placements))
	for i, p := range placements {
		list[i] = Placement{p.HashKey, p.Weight}
	}
	return list
}

// layCustom is lay with the caller's layout, for at least one placement.
func (r *points) layCustom(placements []probe.Placement) (*points, error) {
	points, err := r.custom.Points(exported(placements))
	if err == nil {
		err = r.validatePoints(points, len(placements))
	}
	if err != nil {
		return nil, inLayout(r.custom.Name, err)
	}
	return r.with(r.Assign(placements, len(points), func(yield func(position uint64, placement int) bool) {
		for i := range points {
			if !yield(points[i].Position, points[i].Placement) {
				return
			}
		}
	})), nil
}

func (r *points) validatePoints(points []VirtualNode, placements int) error {
	options := r.config()
	limit := options.sizeLimit(MaxRingPoints)
	switch {
	case len(points) == 0:
		return fmt.Errorf("%w: no points for %d placements", ErrInvalidLayout, placements)
	case len(points) > limit:
		return fmt.Errorf("%w: %d points, the limit is %d", ErrRingTooLarge, len(points), limit)
	}
	for i, point := range points {
		if uint(point.Placement) >= uint(placements) {
			return fmt.Errorf("%w: point %d is of placement %d of %d", ErrInvalidLayout, i, point.Placement, placements)
		}
	}
	return nil
}

// layCustom is lay with the caller's layout, for at least one placement.
func (t *table) layCustom(placements []probe.Placement) (*table, error) {
	slots, err := t.custom.Slots(exported(placements), int(t.Size()))
	if err == nil {
		err = validateSlots(slots, int(t.Size()), len(placements))
	}
	if err != nil {
		return nil, inLayout(t.custom.Name, err)
	}
	return t.with(t.Assign(slots, len(placements))), nil // the function may keep slots
}

func validateSlots(slots []uint32, size, placements int) error {
	if len(slots) != size {
		return fmt.Errorf("%w: %d slots, want %d", ErrInvalidLayout, len(slots), size)
	}
	for i, p := range slots {
		if uint64(p) >= uint64(placements) {
			return fmt.Errorf("%w: slot %d is of placement %d of %d", ErrInvalidLayout, i, p, placements)
		}
	}
	return nil
}
