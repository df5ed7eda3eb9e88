package chashtest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// Twin is what a Maglev and a Ring are to be, written for plainness and from
// their description alone: nothing is indexed, packed, merged or kept from one
// change to the next. The tests hold the fast structures against it.
type Twin struct {
	Ring  bool                // a Ring, else a Maglev
	Size  int                 // the slots of a Maglev, the replicas of a Ring
	Seed  uint64              // 0 for none
	Hash  func(string) uint64 // the user's, nil for the structure's own
	Slack *float64            // of a Maglev, nil for none
	Blind uint64              // bits of a Ring's digests that count as 0, so that ties occur

	Backends map[string]chash.Backend[string] // by name; every Weight at least 1

	// What follows from these, worked out anew after each change.
	Owners    []string                         // hash keys, in the order of slots or points
	idle      []string                         // hash keys without any, sorted
	positions []string                         // of a Ring's points: big-endian bytes, which compare as numbers do
	Answering map[string]chash.Backend[string] // the backend of each healthy placement, by hash key
}

// BlindDigests makes a ring's positions blind to some bits. The tests of the package chash
// set it, which alone can; elsewhere no twin is blind.
var BlindDigests func(bits uint64) chash.RingOption

// NewTwin is an empty twin.
func NewTwin(ring bool, size int, seed uint64, hash func(string) uint64) *Twin {
	return &Twin{Ring: ring, Size: size, Seed: seed, Hash: hash}
}

// Build makes the structure whose twin w is, holding the backends given.
func (w *Twin) Build(backends []chash.Backend[string]) (Structure, error) {
	var opts []chash.Option
	if w.Seed != 0 {
		opts = append(opts, chash.WithSeed(w.Seed))
	}
	if w.Hash != nil {
		opts = append(opts, chash.WithHash(w.Hash))
	}
	if w.Ring {
		ringOpts := []chash.RingOption{chash.Options(opts...), chash.WithReplicas(w.Size)}
		if w.Blind != 0 {
			ringOpts = append(ringOpts, BlindDigests(w.Blind))
		}
		return NewRing(backends, ringOpts...)
	}
	tableOpts := []chash.MaglevOption{chash.Options(opts...), chash.WithTableSize(w.Size)}
	if w.Slack != nil {
		tableOpts = append(tableOpts, chash.WithSlack(*w.Slack))
	}
	return NewMaglev(backends, tableOpts...)
}

// Clone is an independent copy.
func (w *Twin) Clone() *Twin {
	c := *w
	c.Backends = maps.Clone(w.Backends)
	return &c
}

// List is the backends sorted by name.
func (w *Twin) List() []chash.Backend[string] {
	return slices.SortedFunc(maps.Values(w.Backends), func(a, b chash.Backend[string]) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

func HashKeyOf(b chash.Backend[string]) string {
	if b.HashKey == "" {
		return b.Name
	}
	return b.HashKey
}

// PlacementsOf is the weight of every placement, by hash key: that of the
// heaviest backend which is not draining.
func PlacementsOf(backends map[string]chash.Backend[string]) map[string]uint32 {
	weights := map[string]uint32{}
	for _, b := range backends {
		if b.State != chash.Draining {
			weights[HashKeyOf(b)] = max(weights[HashKeyOf(b)], b.Weight)
		}
	}
	return weights
}

// AnsweringOf is the backend that answers for each placement which has one, by
// hash key: of those which are healthy the heaviest, at equal weights the one
// with the smallest name.
func AnsweringOf(backends map[string]chash.Backend[string]) map[string]chash.Backend[string] {
	answering := map[string]chash.Backend[string]{}
	for _, b := range backends {
		best, found := answering[HashKeyOf(b)]
		outranks := b.Weight > best.Weight || b.Weight == best.Weight && b.Name < best.Name
		if b.State == chash.Healthy && (!found || outranks) {
			answering[HashKeyOf(b)] = b
		}
	}
	return answering
}

// Rebuild works out what follows from the backends.
func (w *Twin) Rebuild() {
	w.Answering = AnsweringOf(w.Backends)
	w.Owners, w.positions, w.idle = nil, nil, nil
	weights := PlacementsOf(w.Backends)
	switch {
	case len(weights) == 0:
	case w.Ring:
		w.layPoints(weights)
	case w.Slack != nil:
		w.fillWithSlack(weights)
	default:
		w.fillTable(weights)
	}
	for hashKey := range weights {
		if !slices.Contains(w.Owners, hashKey) {
			w.idle = append(w.idle, hashKey)
		}
	}
	slices.Sort(w.idle)
}

// sum is H of a string.
func (w *Twin) sum(s string) uint64 {
	if w.Hash != nil {
		return w.Hash(s)
	}
	h := xxhash.Sum64String(s)
	if w.Seed != 0 {
		h = Finalize(h ^ w.Seed)
	}
	return h
}

// Finalize is the finalizer of SplitMix64, in the steps of its paper.
func Finalize(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	z ^= z >> 31
	return z
}

// TwinTurn is a placement that claims slots.
type TwinTurn struct {
	HashKey string
	Weight  uint64
	Claims  uint64 // made so far
	offset  uint64
	skip    uint64
	tried   uint64 // preferences that are known to be taken
}

// Before reports whether t claims its next slot before u: at the lower rank,
// at equal ranks the heavier, at equal weights the smaller hash key.
//
// The rank of claim k is 0 or (2k+1)/(2*weight). Twice the ranks compare as
// well, and as k < 2^31 and weight < 2^32 both products fit in 64 bits.
func (t *TwinTurn) Before(u *TwinTurn) bool {
	rank := func(t *TwinTurn) (num, den uint64) {
		if t.Claims == 0 {
			return 0, 1
		}
		return 2*t.Claims + 1, t.Weight
	}
	tn, td := rank(t)
	un, ud := rank(u)
	if tn*ud != un*td {
		return tn*ud < un*td
	}
	if t.Weight != u.Weight {
		return t.Weight > u.Weight
	}
	return t.HashKey < u.HashKey
}

// fillTable lets the placements claim slots one by one.
func (w *Twin) fillTable(weights map[string]uint32) {
	m := uint64(w.Size)
	var turns []*TwinTurn
	for hashKey, weight := range weights {
		turns = append(turns, &TwinTurn{
			HashKey: hashKey,
			Weight:  uint64(weight),
			offset:  w.sum("\xba"+hashKey) % m,
			skip:    w.sum("\xbe"+hashKey)%(m-1) + 1,
		})
	}
	w.Owners = make([]string, m) // "" is free: no hash key is empty
	for range m {
		next := turns[0]
		for _, t := range turns[1:] {
			if t.Before(next) {
				next = t
			}
		}
		slot := func() uint64 { return (next.offset + next.tried*next.skip) % m }
		for w.Owners[slot()] != "" {
			next.tried++
		}
		w.Owners[slot()] = next.HashKey
		next.Claims++
	}
}

// position is where a string lies on a ring: its SHA-256, or its 64-bit hash
// by the user's function, in bytes.
func (w *Twin) position(s string) string {
	if w.Hash != nil {
		return string(binary.BigEndian.AppendUint64(nil, w.Hash(s)))
	}
	if w.Seed != 0 {
		s = string(binary.BigEndian.AppendUint64(nil, w.Seed)) + s
	}
	digest := sha256.Sum256([]byte(s))
	first := binary.BigEndian.Uint64(digest[:]) &^ w.Blind
	return string(append(binary.BigEndian.AppendUint64(nil, first), digest[8:]...))
}

// layPoints puts all points in order.
func (w *Twin) layPoints(weights map[string]uint32) {
	type point struct {
		position, hashKey string
		index             int
	}
	var points []point
	for hashKey, weight := range weights {
		for i := range w.Size * int(weight) {
			points = append(points, point{w.position(hashKey + "#" + strconv.Itoa(i)), hashKey, i})
		}
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.hashKey, b.hashKey), cmp.Compare(a.index, b.index))
	})
	for _, p := range points {
		w.positions = append(w.positions, p.position)
		w.Owners = append(w.Owners, p.hashKey)
	}
}

// MetByKey and metByHash are the owners that a lookup meets, one after the other.
func (w *Twin) MetByKey(key string) iter.Seq[string] {
	if w.Ring {
		return w.metOnRing(w.position(key))
	}
	return w.metInTable(w.sum(key))
}

func (w *Twin) MetByHash(h uint64) iter.Seq[string] {
	if w.Ring {
		// These 8 bytes come before every digest that they begin, so the
		// comparison is one with the first 64 bits of the digests.
		return w.metOnRing(string(binary.BigEndian.AppendUint64(nil, h)))
	}
	return w.metInTable(h)
}

func (w *Twin) metOnRing(position string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, _ := slices.BinarySearch(w.positions, position) // the first at or after it
		for i := range w.Owners {
			if !yield(w.Owners[(start+i)%len(w.Owners)]) {
				return
			}
		}
	}
}

func (w *Twin) metInTable(h uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		m := uint64(len(w.Owners))
		if m == 0 || !yield(w.Owners[h%m]) {
			return
		}
		stride := Finalize(h)%(m-1) + 1
		for i := range uint64(64) {
			if !yield(w.Owners[(h%m+(i+1)*stride)%m]) {
				return
			}
		}
		for i := range m {
			if !yield(w.Owners[(h*0x9e3779b97f4a7c15%m+i)%m]) {
				return
			}
		}
		for i := range w.idle {
			first := h * 0x9e3779b97f4a7c15 % m % uint64(len(w.idle))
			if !yield(w.idle[(int(first)+i)%len(w.idle)]) {
				return
			}
		}
	}
}

// Prefer is the order of preference, of healthy placements, that a walk over
// owners amounts to: up to n of them, each as the backend that answers for it.
func (w *Twin) Prefer(met iter.Seq[string], n int) []chash.Backend[string] {
	n = min(n, len(w.Answering))
	var preferred []chash.Backend[string]
	if n <= 0 {
		return nil
	}
	for hashKey := range met {
		if b, ok := w.Answering[hashKey]; ok && !slices.Contains(preferred, b) {
			preferred = append(preferred, b)
			if len(preferred) == n {
				break
			}
		}
	}
	return preferred
}

// Err is the error of every lookup that is not by its arguments empty.
func (w *Twin) Err() error {
	switch {
	case len(w.Backends) == 0:
		return chash.ErrNoBackends
	case len(w.Answering) == 0:
		return chash.ErrNoHealthyBackends
	}
	return nil
}

func ValuesOf(backends []chash.Backend[string]) []string {
	var values []string
	for _, b := range backends {
		values = append(values, b.Value)
	}
	return values
}
