package chash

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chash-go/chash/internal/probe"
)

// A roster is a membership with its placements. The roster and its members are
// immutable. A change makes another roster, which shares what stays.
type roster[T any] struct {
	members    []*Backend[T]     // sorted by name, with every Weight filled in
	ranked     []uint32          // indices of the members that are not draining: by hash key, then heavier, then name
	placements []probe.Placement // by hash key
	starts     []uint32          // by placement: where its members begin in ranked
	owners     []uint32          // by placement: the member that outranks the others
}

// newRoster takes over members, which are valid and sorted by name.
func newRoster[T any](members []*Backend[T]) *roster[T] {
	ranked := make([]uint32, 0, len(members))
	for i, b := range members {
		if b.State != Draining {
			ranked = append(ranked, uint32(i))
		}
	}
	slices.SortFunc(ranked, func(i, j uint32) int {
		a, b := members[i], members[j]
		if c := strings.Compare(a.hashKey(), b.hashKey()); c != 0 {
			return c
		}
		if c := cmp.Compare(b.Weight, a.Weight); c != 0 {
			return c
		}
		return cmp.Compare(i, j) // members are sorted by name
	})
	placements := make([]probe.Placement, 0, len(ranked))
	starts := make([]uint32, 0, len(ranked))
	owners := make([]uint32, 0, len(ranked))
	for at, i := range ranked {
		b := members[i]
		if n := len(placements); n == 0 || placements[n-1].HashKey != b.hashKey() {
			placements = append(placements, probe.Placement{HashKey: b.hashKey(), Weight: b.Weight})
			starts = append(starts, uint32(at))
			owners = append(owners, i)
		}
	}
	return &roster[T]{members, ranked, placements, starts, owners}
}

// locate returns the index of the member with that name, and whether there is one.
func (r *roster[T]) locate(name string) (member int, found bool) {
	return slices.BinarySearchFunc(r.members, name, compareName[T])
}

// member is locate that returns an error if there is none.
func (r *roster[T]) member(name string) (int, error) {
	i, found := r.locate(name)
	if !found {
		return 0, fmt.Errorf("%w: %q", ErrBackendNotFound, name)
	}
	return i, nil
}

func compareName[T any](b *Backend[T], name string) int { return strings.Compare(b.Name, name) }

// list returns a copy of the members.
func (r *roster[T]) list() []Backend[T] {
	list := make([]Backend[T], len(r.members))
	for i, b := range r.members {
		list[i] = *b
	}
	return list
}

// placementOf returns the placement of member i, which is not draining.
func (r *roster[T]) placementOf(i int) int {
	p, _ := slices.BinarySearchFunc(r.placements, r.members[i].hashKey(), func(p probe.Placement, key string) int {
		return strings.Compare(p.HashKey, key)
	})
	return p
}

// group returns the members of placement p, by rank.
func (r *roster[T]) group(p int) []uint32 {
	end := len(r.ranked)
	if p+1 < len(r.placements) {
		end = int(r.starts[p+1])
	}
	return r.ranked[r.starts[p]:end]
}

// owner returns the member with the highest rank of placement p, whatever its health.
func (r *roster[T]) owner(p int) int { return int(r.owners[p]) }

// lead returns the healthy member with the highest rank of placement p, and true. If
// there is none, it returns the owner and false.
func (r *roster[T]) lead(p int) (member int, healthy bool) {
	for _, i := range r.group(p) {
		if r.members[i].State == Healthy {
			return int(i), true
		}
	}
	return r.owner(p), false
}

// leader returns the backend whose value lookups return for placement p, and whether
// it is healthy.
func (r *roster[T]) leader(p int) (b *Backend[T], healthy bool) {
	i, healthy := r.lead(p)
	return r.members[i], healthy
}

// holder returns the leader of placement p for the ledger. The name is empty if the
// leader is not healthy.
func (r *roster[T]) holder(p int) (name string, weight uint32) {
	if b, healthy := r.leader(p); healthy {
		return b.Name, b.Weight
	}
	return "", 0
}

// replacing returns the roster with b in place of member i. Both have the same
// placement.
func (r *roster[T]) replacing(i int, b Backend[T]) *roster[T] {
	next := *r
	next.members = r.changed(i, b)
	return &next
}

// changed returns the members with b in place of member i.
func (r *roster[T]) changed(i int, b Backend[T]) []*Backend[T] {
	members := slices.Clone(r.members)
	members[i] = &b
	return members
}

// batch returns a copy of backends, validated and sorted by name. Backends with the
// same name keep their order.
func batch[T any](backends []Backend[T]) ([]*Backend[T], error) {
	// One copy of them all is one allocation, whatever their number.
	copies := slices.Clone(backends)
	sorted := make([]*Backend[T], len(copies))
	for i := range copies {
		b := &copies[i]
		if b.Name == "" {
			return nil, fmt.Errorf("%w: number %d of %d", ErrEmptyName, i+1, len(backends))
		}
		if err := b.State.validate(b.Name); err != nil {
			return nil, err
		}
		sorted[i] = b
	}
	slices.SortStableFunc(sorted, func(a, b *Backend[T]) int { return strings.Compare(a.Name, b.Name) })
	return sorted, nil
}

// unique sets every weight of a batch. It returns an error if a name is twice in the
// batch.
func unique[T any](batch []*Backend[T]) ([]*Backend[T], error) {
	for i, b := range batch {
		if i > 0 && b.Name == batch[i-1].Name {
			return nil, fmt.Errorf("%w: %q twice in one batch", ErrBackendExists, b.Name)
		}
		b.Weight = max(b.Weight, 1)
	}
	return batch, nil
}

// reconciled returns the first backend of each name in a batch. One that is a member
// keeps its State, and its weight if none is given.
func (r *roster[T]) reconciled(batch []*Backend[T]) []*Backend[T] {
	batch = slices.CompactFunc(batch, func(a, b *Backend[T]) bool { return a.Name == b.Name })
	for _, b := range batch {
		if i, found := r.locate(b.Name); found {
			b.State = r.members[i].State
			if b.Weight == 0 {
				b.Weight = r.members[i].Weight
			}
		}
		b.Weight = max(b.Weight, 1)
	}
	return batch
}

// with returns the members and those of added, which are sorted and unique.
func (r *roster[T]) with(added []*Backend[T]) ([]*Backend[T], error) {
	old := r.members
	members := make([]*Backend[T], 0, len(old)+len(added))
	for _, b := range added {
		at, found := slices.BinarySearchFunc(old, b.Name, compareName[T])
		if found {
			return nil, fmt.Errorf("%w: %q", ErrBackendExists, b.Name)
		}
		members = append(append(members, old[:at]...), b)
		old = old[at:]
	}
	return append(members, old...), nil
}

// without returns the members without the named ones.
func (r *roster[T]) without(names []string) ([]*Backend[T], error) {
	names = slices.Clone(names)
	slices.Sort(names)
	old := r.members
	members := make([]*Backend[T], 0, max(len(old)-len(names), 0))
	for i, name := range names {
		at, found := slices.BinarySearchFunc(old, name, compareName[T])
		if !found {
			if i > 0 && names[i-1] == name { // it is behind us
				return nil, fmt.Errorf("%w: %q named twice", ErrBackendNotFound, name)
			}
			return nil, fmt.Errorf("%w: %q", ErrBackendNotFound, name)
		}
		members = append(members, old[:at]...)
		old = old[at+1:]
	}
	return append(members, old...), nil
}
