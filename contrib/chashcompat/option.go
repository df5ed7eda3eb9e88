package chashcompat

import "github.com/chash-go/chash"

// A pointsFunc returns the points of placements. The indices in arranged are in the
// order of the configuration.
type pointsFunc func(placements []chash.Placement, arranged []int) (ring, error)

// ringOption returns the option for a ring of 32 bits.
func ringOption(name string, hash func(key string) uint32, points pointsFunc, names form, o order) chash.RingOption {
	return wideOption(name, wide(hash), points, names, o)
}

// wideOption returns the option for a ring of 64 bits.
func wideOption(name string, hash func(key string) uint64, points pointsFunc, names form, o order) chash.RingOption {
	return chash.WithRingLayout(chash.RingLayout{
		Name: name,
		Hash: hash,
		Points: func(placements []chash.Placement) ([]chash.VirtualNode, error) {
			arranged, err := arrange(placements, names, o)
			if err != nil || len(placements) == 0 {
				return nil, err
			}
			return points(placements, arranged)
		},
	})
}

// A slotsFunc fills the slots of a table of a size.
type slotsFunc func(placements []chash.Placement, arranged []int, size int) ([]uint32, error)

// tableOption returns the option for a table. The size is the system's default.
func tableOption(name string, size int, slots slotsFunc, names form, o order) chash.MaglevOption {
	return chash.WithTableLayout(chash.TableLayout{
		Name:      name,
		TableSize: size,
		Slots: func(placements []chash.Placement, size int) ([]uint32, error) {
			arranged, err := arrange(placements, names, o)
			if err != nil || len(placements) == 0 {
				return nil, err
			}
			return slots(placements, arranged, size)
		},
	})
}

// arrange checks the hash keys and returns the placements in order.
func arrange(placements []chash.Placement, names form, o order) ([]int, error) {
	if err := names.check(placements); err != nil {
		return nil, err
	}
	return o.arrange(placements)
}

// badRing returns an option that makes every call return an error.
func badRing(name string, err error) chash.RingOption {
	return chash.WithRingLayout(chash.RingLayout{
		Name:   name,
		Points: func([]chash.Placement) ([]chash.VirtualNode, error) { return nil, err },
	})
}

// badTable is badRing for a table.
func badTable(name string, err error) chash.MaglevOption {
	return chash.WithTableLayout(chash.TableLayout{
		Name:  name,
		Slots: func([]chash.Placement, int) ([]uint32, error) { return nil, err },
	})
}
