package chashcompat

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/chash-go/chash"
)

// An order is the hash keys in the order of a configuration. It may name more hash
// keys than there are backends. If it is empty, the hash keys are in their own order.
type order []string

// arrange returns the indices of the placements in that order. The placements are
// sorted by hash key.
func (o order) arrange(placements []chash.Placement) ([]int, error) {
	arranged := make([]int, len(placements))
	for i := range arranged {
		arranged[i] = i
	}
	if len(o) == 0 {
		return arranged, nil
	}
	ranks := make(map[string]int, len(o))
	for rank, name := range o {
		if _, found := ranks[name]; found {
			return nil, fmt.Errorf("%w: it has %q twice", ErrOrder, name)
		}
		ranks[name] = rank
	}
	for i := range placements {
		if _, found := ranks[placements[i].HashKey]; !found {
			return nil, fmt.Errorf("%w: it lacks %q", ErrOrder, placements[i].HashKey)
		}
	}
	slices.SortFunc(arranged, func(i, j int) int {
		return cmp.Compare(ranks[placements[i].HashKey], ranks[placements[j].HashKey])
	})
	return arranged, nil
}
