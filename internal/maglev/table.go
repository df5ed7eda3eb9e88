// Package maglev fills the slots of Maglev tables and finds the slots of a hash.
package maglev

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/modular"
	"github.com/chash-go/chash/internal/probe"
)

// A Table is the slots of a Maglev table and the options that fill them. It is
// immutable.
type Table struct {
	probe.Owners
	slots   modular.Divisor // by the number of slots
	strides modular.Divisor // by one less
	Hash    hashing.Hasher

	// Of a table with slack.
	Slack      *float64
	placements []probe.Placement
	latest     claim // no slot was won later; without a limit only
}

// New returns an empty table of size slots, a prime. Without slack, slack is nil.
func New(size uint32, hash hashing.Hasher, slack *float64) Table {
	return Table{slots: modular.NewDivisor(size), strides: modular.NewDivisor(size - 1), Hash: hash, Slack: slack}
}

// empty returns a table of the same options without owners.
func (t *Table) empty() *Table {
	return &Table{slots: t.slots, strides: t.strides, Hash: t.Hash, Slack: t.Slack}
}

// Size returns the number of slots, also of an empty table.
func (t *Table) Size() uint32 { return t.slots.N }

// Assign returns a table of the same options with the given owner of each slot. The
// number of placements is n. It does not keep slots.
func (t *Table) Assign(slots []uint32, placements int) *Table {
	next := t.empty()
	next.N = t.slots.N
	counts := make([]uint32, placements)
	for _, p := range slots {
		counts[p]++
	}
	next.SetCounts(counts)
	switch {
	case placements <= 1<<8:
		next.Narrow = narrowed[uint8](slots)
	case placements <= 1<<16:
		next.Medium = narrowed[uint16](slots)
	default:
		next.Wide = slices.Clone(slots)
	}
	return next
}

// Digest returns the hash of a key, big-endian.
func (t *Table) Digest(key string) []byte {
	return binary.BigEndian.AppendUint64(nil, t.Hash.Key(key))
}

// Spread returns the share of the slots that each placement owns.
func (t *Table) Spread() []float64 {
	shares := make([]float64, len(t.Counts))
	for p, count := range t.Counts {
		shares[p] = float64(count) / float64(t.N)
	}
	return shares
}

// Print writes the name of the owner of each slot. It gets the hash of a name for
// each placement, or 0 for nobody. It returns 0: there are always several names.
func (t *Table) Print(d *xxhash.Digest, names []uint64) (only uint64) {
	var buf [512]byte
	part := buf[:0]
	for slot := range t.N {
		part = binary.BigEndian.AppendUint64(part, names[t.At(slot)])
		if len(part) == len(buf) || slot == t.N-1 {
			d.Write(part)
			part = buf[:0]
		}
	}
	return 0
}

// HomeOf returns the slot to which a key belongs.
func (t *Table) HomeOf(key string) uint32 { return t.Home(t.Hash.Key(key)) }

// Walk returns the walk of a key.
func (t *Table) Walk(key string) probe.Walk { return t.walkOf(t.Hash.Key(key)) }

// Start returns the walk of a key and its hash, with which WalkAgain makes the walk among
// other slots.
func (t *Table) Start(key string) (probe.Walk, uint64) {
	hash := t.Hash.Key(key)
	return t.walkOf(hash), hash
}

// WalkAgain returns the walk of a hash.
func (t *Table) WalkAgain(hash uint64, _ string, _ bool) probe.Walk { return t.walkOf(hash) }

// Home returns the slot of a hash.
func (t *Table) Home(hash uint64) uint32 {
	_, slot := t.slots.Divmod(hash)
	return slot
}

// probes is how many slots a lookup tries by the key's own stride after the home
// slot. Slots of one placement lie in arithmetic progressions, so that neighbours
// are correlated; a stride of the key's own hands a dead backend's keys out
// evenly. After so many misses few are healthy and the order matters less than an
// end to the search.
const probes = 64

// Hops counts the home slot in.
const Hops = 1 + probes

// Begin returns the home slot of a hash and its stride. The stride depends on all
// bits of the hash: hashes of the caller may differ in few bits, and a quotient of
// the hash would then give most of them the same stride.
func (t *Table) Begin(hash uint64) (home, stride uint32) {
	_, stride = t.strides.Divmod(hashing.Mix(hash))
	return t.Home(hash), stride + 1
}

// Last returns the slot where the last part of the walk begins.
func (t *Table) Last(hash uint64) uint32 { return t.Home(hash * hashing.Scatter) }

func (t *Table) walkOf(hash uint64) probe.Walk {
	home, stride := t.Begin(hash)
	return probe.Walk{
		Pos:    home,
		Stride: stride,
		Hops:   Hops,
		Then:   t.Last(hash),
	}
}

// narrowed returns the slots in a narrower form that holds them.
func narrowed[S uint8 | uint16](slots []uint32) []S {
	list := make([]S, len(slots))
	for i, p := range slots {
		list[i] = S(p)
	}
	return list
}
