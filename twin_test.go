package chash_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// twin is what a Maglev and a Ring are to be, written for plainness and from
// their description alone: nothing is indexed, packed, merged or kept from one
// change to the next. The tests hold the fast structures against it.
type twin struct {
	ring  bool                // a Ring, else a Maglev
	size  int                 // the slots of a Maglev, the replicas of a Ring
	seed  uint64              // 0 for none
	hash  func(string) uint64 // the user's, nil for the structure's own
	slack *float64            // of a Maglev, nil for none
	blind uint64              // bits of a Ring's digests that count as 0, so that ties occur

	backends map[string]chash.Backend[string] // by name; every Weight at least 1

	// What follows from these, worked out anew after each change.
	owners    []string                         // hash keys, in the order of slots or points
	idle      []string                         // hash keys without any, sorted
	positions []string                         // of a Ring's points: big-endian bytes, which compare as numbers do
	answering map[string]chash.Backend[string] // the backend of each healthy placement, by hash key
}

// newTwin is an empty twin.
func newTwin(ring bool, size int, seed uint64, hash func(string) uint64) *twin {
	return &twin{ring: ring, size: size, seed: seed, hash: hash}
}

// build makes the structure whose twin w is, holding the backends given.
func (w *twin) build(backends []chash.Backend[string]) (structure, error) {
	var opts []chash.Option
	if w.seed != 0 {
		opts = append(opts, chash.WithSeed(w.seed))
	}
	if w.hash != nil {
		opts = append(opts, chash.WithHash(w.hash))
	}
	if w.ring {
		return newRing(backends, chash.Options(opts...), chash.WithReplicas(w.size), chash.WithBlindDigests(w.blind))
	}
	tableOpts := []chash.MaglevOption{chash.Options(opts...), chash.WithTableSize(w.size)}
	if w.slack != nil {
		tableOpts = append(tableOpts, chash.WithSlack(*w.slack))
	}
	return newMaglev(backends, tableOpts...)
}

// clone is an independent copy.
func (w *twin) clone() *twin {
	c := *w
	c.backends = maps.Clone(w.backends)
	return &c
}

// list is the backends sorted by name.
func (w *twin) list() []chash.Backend[string] {
	return slices.SortedFunc(maps.Values(w.backends), func(a, b chash.Backend[string]) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

func hashKeyOf(b chash.Backend[string]) string {
	if b.HashKey == "" {
		return b.Name
	}
	return b.HashKey
}

// placementsOf is the weight of every placement, by hash key: that of the
// heaviest backend which is not draining.
func placementsOf(backends map[string]chash.Backend[string]) map[string]uint32 {
	weights := map[string]uint32{}
	for _, b := range backends {
		if b.State != chash.Draining {
			weights[hashKeyOf(b)] = max(weights[hashKeyOf(b)], b.Weight)
		}
	}
	return weights
}

// answeringOf is the backend that answers for each placement which has one, by
// hash key: of those which are healthy the heaviest, at equal weights the one
// with the smallest name.
func answeringOf(backends map[string]chash.Backend[string]) map[string]chash.Backend[string] {
	answering := map[string]chash.Backend[string]{}
	for _, b := range backends {
		best, found := answering[hashKeyOf(b)]
		outranks := b.Weight > best.Weight || b.Weight == best.Weight && b.Name < best.Name
		if b.State == chash.Healthy && (!found || outranks) {
			answering[hashKeyOf(b)] = b
		}
	}
	return answering
}

// The owners.

// rebuild works out what follows from the backends.
func (w *twin) rebuild() {
	w.answering = answeringOf(w.backends)
	w.owners, w.positions, w.idle = nil, nil, nil
	weights := placementsOf(w.backends)
	switch {
	case len(weights) == 0:
	case w.ring:
		w.layPoints(weights)
	case w.slack != nil:
		w.fillWithSlack(weights)
	default:
		w.fillTable(weights)
	}
	for hashKey := range weights {
		if !slices.Contains(w.owners, hashKey) {
			w.idle = append(w.idle, hashKey)
		}
	}
	slices.Sort(w.idle)
}

// sum is H of a string.
func (w *twin) sum(s string) uint64 {
	if w.hash != nil {
		return w.hash(s)
	}
	h := xxhash.Sum64String(s)
	if w.seed != 0 {
		h = finalize(h ^ w.seed)
	}
	return h
}

// finalize is the finalizer of SplitMix64, in the steps of its paper.
func finalize(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	z ^= z >> 31
	return z
}

// twinTurn is a placement that claims slots.
type twinTurn struct {
	hashKey string
	weight  uint64
	claims  uint64 // made so far
	offset  uint64
	skip    uint64
	tried   uint64 // preferences that are known to be taken
}

// before reports whether t claims its next slot before u: at the lower rank,
// at equal ranks the heavier, at equal weights the smaller hash key.
//
// The rank of claim k is 0 or (2k+1)/(2*weight). Twice the ranks compare as
// well, and as k < 2^31 and weight < 2^32 both products fit in 64 bits.
func (t *twinTurn) before(u *twinTurn) bool {
	rank := func(t *twinTurn) (num, den uint64) {
		if t.claims == 0 {
			return 0, 1
		}
		return 2*t.claims + 1, t.weight
	}
	tn, td := rank(t)
	un, ud := rank(u)
	if tn*ud != un*td {
		return tn*ud < un*td
	}
	if t.weight != u.weight {
		return t.weight > u.weight
	}
	return t.hashKey < u.hashKey
}

// fillTable lets the placements claim slots one by one.
func (w *twin) fillTable(weights map[string]uint32) {
	m := uint64(w.size)
	var turns []*twinTurn
	for hashKey, weight := range weights {
		turns = append(turns, &twinTurn{
			hashKey: hashKey,
			weight:  uint64(weight),
			offset:  w.sum("\xba"+hashKey) % m,
			skip:    w.sum("\xbe"+hashKey)%(m-1) + 1,
		})
	}
	w.owners = make([]string, m) // "" is free: no hash key is empty
	for range m {
		next := turns[0]
		for _, t := range turns[1:] {
			if t.before(next) {
				next = t
			}
		}
		slot := func() uint64 { return (next.offset + next.tried*next.skip) % m }
		for w.owners[slot()] != "" {
			next.tried++
		}
		w.owners[slot()] = next.hashKey
		next.claims++
	}
}

// position is where a string lies on a ring: its SHA-256, or its 64-bit hash
// by the user's function, in bytes.
func (w *twin) position(s string) string {
	if w.hash != nil {
		return string(binary.BigEndian.AppendUint64(nil, w.hash(s)))
	}
	if w.seed != 0 {
		s = string(binary.BigEndian.AppendUint64(nil, w.seed)) + s
	}
	digest := sha256.Sum256([]byte(s))
	first := binary.BigEndian.Uint64(digest[:]) &^ w.blind
	return string(append(binary.BigEndian.AppendUint64(nil, first), digest[8:]...))
}

// layPoints puts all points in order.
func (w *twin) layPoints(weights map[string]uint32) {
	type point struct {
		position, hashKey string
		index             int
	}
	var points []point
	for hashKey, weight := range weights {
		for i := range w.size * int(weight) {
			points = append(points, point{w.position(hashKey + "#" + strconv.Itoa(i)), hashKey, i})
		}
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.hashKey, b.hashKey), cmp.Compare(a.index, b.index))
	})
	for _, p := range points {
		w.positions = append(w.positions, p.position)
		w.owners = append(w.owners, p.hashKey)
	}
}

// The lookups.

// metByKey and metByHash are the owners that a lookup meets, one after the other.
func (w *twin) metByKey(key string) iter.Seq[string] {
	if w.ring {
		return w.metOnRing(w.position(key))
	}
	return w.metInTable(w.sum(key))
}

func (w *twin) metByHash(h uint64) iter.Seq[string] {
	if w.ring {
		// These 8 bytes come before every digest that they begin, so the
		// comparison is one with the first 64 bits of the digests.
		return w.metOnRing(string(binary.BigEndian.AppendUint64(nil, h)))
	}
	return w.metInTable(h)
}

func (w *twin) metOnRing(position string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, _ := slices.BinarySearch(w.positions, position) // the first at or after it
		for i := range w.owners {
			if !yield(w.owners[(start+i)%len(w.owners)]) {
				return
			}
		}
	}
}

func (w *twin) metInTable(h uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		m := uint64(len(w.owners))
		if m == 0 || !yield(w.owners[h%m]) {
			return
		}
		stride := finalize(h)%(m-1) + 1
		for i := range uint64(64) {
			if !yield(w.owners[(h%m+(i+1)*stride)%m]) {
				return
			}
		}
		for i := range m {
			if !yield(w.owners[(h*0x9e3779b97f4a7c15%m+i)%m]) {
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

// prefer is the order of preference, of healthy placements, that a walk over
// owners amounts to: up to n of them, each as the backend that answers for it.
func (w *twin) prefer(met iter.Seq[string], n int) []chash.Backend[string] {
	n = min(n, len(w.answering))
	var preferred []chash.Backend[string]
	if n <= 0 {
		return nil
	}
	for hashKey := range met {
		if b, ok := w.answering[hashKey]; ok && !slices.Contains(preferred, b) {
			preferred = append(preferred, b)
			if len(preferred) == n {
				break
			}
		}
	}
	return preferred
}

// err is the error of every lookup that is not by its arguments empty.
func (w *twin) err() error {
	switch {
	case len(w.backends) == 0:
		return chash.ErrNoBackends
	case len(w.answering) == 0:
		return chash.ErrNoHealthyBackends
	}
	return nil
}

func valuesOf(backends []chash.Backend[string]) []string {
	var values []string
	for _, b := range backends {
		values = append(values, b.Value)
	}
	return values
}

// The membership. Each call answers with the errors that it may give: none
// where it succeeds, and several where a batch is wrong in several ways.

func (w *twin) add(backends ...chash.Backend[string]) []error {
	next := maps.Clone(w.backends)
	if next == nil {
		next = map[string]chash.Backend[string]{}
	}
	var errs []error
	for _, b := range backends {
		if b.Name == "" {
			errs = append(errs, chash.ErrEmptyName)
		}
		if b.State > chash.Draining {
			errs = append(errs, chash.ErrInvalidState)
		}
		if _, ok := next[b.Name]; ok {
			errs = append(errs, chash.ErrBackendExists)
		}
		b.Weight = max(b.Weight, 1)
		next[b.Name] = b
	}
	return w.commit(next, errs)
}

func (w *twin) set(backends []chash.Backend[string]) []error {
	next := w.clone()
	next.backends = nil
	errs := next.add(backends...)
	if len(errs) == 0 {
		*w = *next
	}
	return errs
}

func (w *twin) remove(names ...string) []error {
	next := maps.Clone(w.backends)
	var errs []error
	for _, name := range names {
		if _, ok := next[name]; !ok {
			errs = append(errs, chash.ErrBackendNotFound)
		}
		delete(next, name)
	}
	return w.commit(next, errs)
}

func (w *twin) setState(name string, state chash.State) []error {
	var errs []error
	if state > chash.Draining {
		errs = append(errs, chash.ErrInvalidState)
	}
	return w.setOne(name, errs, func(b *chash.Backend[string]) { b.State = state })
}

func (w *twin) setWeight(name string, weight uint32) []error {
	var errs []error
	if weight == 0 {
		errs = append(errs, chash.ErrInvalidWeight)
	}
	return w.setOne(name, errs, func(b *chash.Backend[string]) { b.Weight = weight })
}

func (w *twin) setValue(name, value string) []error {
	return w.setOne(name, nil, func(b *chash.Backend[string]) { b.Value = value })
}

func (w *twin) setOne(name string, errs []error, change func(*chash.Backend[string])) []error {
	b, ok := w.backends[name]
	if !ok {
		return append(errs, chash.ErrBackendNotFound)
	}
	change(&b)
	next := maps.Clone(w.backends)
	next[name] = b
	return w.commit(next, errs)
}

// commit takes the backends over if nothing is wrong with them.
func (w *twin) commit(next map[string]chash.Backend[string], errs []error) []error {
	if len(errs) > 0 {
		return errs
	}
	weights := placementsOf(next)
	if w.ring {
		points := uint64(0) // cannot overflow: few placements, few replicas
		for _, weight := range weights {
			points += uint64(w.size) * uint64(weight)
		}
		if points > 1<<26 {
			return []error{chash.ErrRingTooLarge}
		}
	} else if len(weights) > w.size {
		return []error{chash.ErrTooManyBackends}
	}
	w.backends = next
	w.rebuild()
	return nil
}

// predicted reports, as an error, that a call did not give one of the errors
// which the twin's call says that it may give.
func predicted(got error, want []error) error {
	if len(want) == 0 {
		if got != nil {
			return fmt.Errorf("error %v, want none", got)
		}
		return nil
	}
	for _, err := range want {
		if errors.Is(got, err) {
			return nil
		}
	}
	return fmt.Errorf("error %v, want one of %v", got, want)
}

// The comparison.

// hashes is a hash for every owner: in a table one that leads to each slot, on
// a ring the first bits of each point, and those just after.
func (w *twin) hashes() []uint64 {
	hashes := []uint64{0, math.MaxUint64}
	for i := range w.owners {
		if w.ring {
			h := binary.BigEndian.Uint64([]byte(w.positions[i]))
			hashes = append(hashes, h, h+1)
		} else {
			hashes = append(hashes, uint64(i))
		}
	}
	return hashes
}

// differ says where s is not what w is: in its backends, or in a lookup of any
// form by one of the keys or hashes.
func (w *twin) differ(s structure, keys []string, hashes []uint64) error {
	if err := w.differInBackends(s); err != nil {
		return err
	}
	for _, h := range hashes {
		got, err := s.GetHash(h)
		if err := w.differInOne(w.metByHash(h), got, err); err != nil {
			return fmt.Errorf("GetHash(%#x) %w", h, err)
		}
	}
	for _, key := range keys {
		if err := w.differInKey(s, key); err != nil {
			return err
		}
	}
	return w.differInNext(s)
}

func (w *twin) differInBackends(s structure) error {
	list := w.list()
	if got := s.Backends(); !slices.Equal(got, list) {
		return fmt.Errorf("Backends() = %+v, want %+v", got, list)
	}
	if got := s.Len(); got != len(list) {
		return fmt.Errorf("Len() = %d, want %d", got, len(list))
	}
	for _, b := range list {
		if got, ok := s.Backend(b.Name); !ok || got != b {
			return fmt.Errorf("Backend(%q) = %+v, %t, want %+v", b.Name, got, ok, b)
		}
	}
	for _, name := range []string{"", "no such backend"} {
		if got, ok := s.Backend(name); ok || got != (chash.Backend[string]{}) {
			return fmt.Errorf("Backend(%q) = %+v, %t, want none", name, got, ok)
		}
	}
	return nil
}

// differInOne compares the answer of a lookup that gives one value.
func (w *twin) differInOne(met iter.Seq[string], got string, gotErr error) error {
	want, wantErr := "", w.err()
	if wantErr == nil {
		want = w.prefer(met, 1)[0].Value
	}
	if got != want || gotErr != wantErr {
		return fmt.Errorf("= %q, %v, want %q, %v", got, gotErr, want, wantErr)
	}
	return nil
}

func (w *twin) differInKey(s structure, key string) error {
	got, err := s.Get(key)
	if err := w.differInOne(w.metByKey(key), got, err); err != nil {
		return fmt.Errorf("Get(%q) %w", key, err)
	}
	got, err = s.GetBytes([]byte(key))
	if err := w.differInOne(w.metByKey(key), got, err); err != nil {
		return fmt.Errorf("GetBytes(%q) %w", key, err)
	}
	if !w.ring || w.hash != nil {
		got, err = s.GetHash(w.sum(key))
		if err := w.differInOne(w.metByKey(key), got, err); err != nil {
			return fmt.Errorf("GetHash of %q %w", key, err)
		}
	}

	all := valuesOf(w.prefer(w.metByKey(key), math.MaxInt))
	if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, all) {
		return fmt.Errorf("Candidates(%q) = %q, want %q", key, got, all)
	}
	for first := range s.Candidates(key) { // a range that ends early
		if first != all[0] {
			return fmt.Errorf("Candidates(%q) begins with %q, want %q", key, first, all[0])
		}
		break
	}

	for _, n := range []int{math.MinInt, -1, 0, 1, 2, 3, len(all) - 1, len(all), len(all) + 1, math.MaxInt} {
		want, wantErr := all[:max(0, min(n, len(all)))], w.err()
		if n <= 0 {
			wantErr = nil
		}
		got, err := s.GetN(key, n)
		if !slices.Equal(got, want) || err != wantErr || n <= 0 && got != nil {
			return fmt.Errorf("GetN(%q, %d) = %#v, %v, want %q, %v", key, n, got, err, want, wantErr)
		}
		want = append([]string{"kept"}, want...)
		got, err = s.AppendN([]string{"kept"}, key, n)
		if !slices.Equal(got, want) || err != wantErr {
			return fmt.Errorf("AppendN([kept], %q, %d) = %q, %v, want %q, %v", key, n, got, err, want, wantErr)
		}
	}

	// GetFunc: nobody's, everybody's, and each candidate's turn in its order.
	got, err = s.GetFunc(key, nil)
	if err := w.differInOne(w.metByKey(key), got, err); err != nil {
		return fmt.Errorf("GetFunc(%q, nil) %w", key, err)
	}
	for accepted := 0; accepted <= len(all); accepted++ {
		var asked []string
		got, err := s.GetFunc(key, func(value string) bool {
			asked = append(asked, value)
			return len(asked) == accepted+1
		})
		want, wantErr := "", cmp.Or(w.err(), chash.ErrNoneAccepted)
		if accepted < len(all) {
			want, wantErr = all[accepted], nil
		}
		if got != want || err != wantErr {
			return fmt.Errorf("GetFunc(%q, the one after %d) = %q, %v, want %q, %v", key, accepted, got, err, want, wantErr)
		}
		if want := all[:min(accepted+1, len(all))]; !slices.Equal(asked, want) {
			return fmt.Errorf("GetFunc(%q, the one after %d) asked for %q, want %q", key, accepted, asked, want)
		}
	}
	return nil
}

// differInNext compares what follows from the turns of equal weights, whatever the
// count that they have come to: each healthy placement once in a round, in the order of
// hash keys. Weights that differ are TestNext_Weights'.
func (w *twin) differInNext(s structure) error {
	if err := w.err(); err != nil {
		if value, got := s.Next(); value != "" || got != err {
			return fmt.Errorf("Next() = %q, %v, want %v", value, got, err)
		}
		return nil
	}
	var want []string
	weights := map[uint32]bool{}
	for _, hashKey := range slices.Sorted(maps.Keys(w.answering)) {
		want = append(want, w.answering[hashKey].Value)
		weights[w.answering[hashKey].Weight] = true
	}
	var got []string
	for range 2 * len(want) {
		value, err := s.Next()
		if err != nil || !slices.Contains(want, value) {
			return fmt.Errorf("Next() = %q, %v, want one of %q", value, err, want)
		}
		got = append(got, value)
	}
	if len(weights) > 1 {
		return nil
	}
	want = slices.Concat(want, want, want)
	for begin := range len(want) / 3 {
		if slices.Equal(want[begin:begin+len(got)], got) {
			return nil
		}
	}
	return fmt.Errorf("%d calls of Next gave %q, want each of %q in turn", len(got), got, want[:len(got)/2])
}

// The twin's own tests.

// TestTwinRanks holds the twin's ranks against exact rationals.
func TestTwinRanks(t *testing.T) {
	rank := func(t *twinTurn) *big.Rat {
		if t.claims == 0 {
			return new(big.Rat)
		}
		num := new(big.Int).SetUint64(2*t.claims + 1)
		den := new(big.Int).SetUint64(2 * t.weight)
		return new(big.Rat).SetFrac(num, den)
	}
	claims := []uint64{0, 1, 2, 3, 4, 7, 1<<31 - 2, 1<<31 - 1}
	weights := []uint64{1, 2, 3, 5, 6, 1<<31 - 1, 1 << 31, math.MaxUint32 - 1, math.MaxUint32}
	var turns []*twinTurn
	for _, k := range claims {
		for _, weight := range weights {
			for _, hashKey := range []string{"a", "b"} {
				turns = append(turns, &twinTurn{hashKey: hashKey, weight: weight, claims: k})
			}
		}
	}
	for _, a := range turns {
		for _, b := range turns {
			want := cmp.Or(rank(a).Cmp(rank(b)), cmp.Compare(b.weight, a.weight), cmp.Compare(a.hashKey, b.hashKey)) < 0
			if got := a.before(b); got != want {
				t.Fatalf("claim %d of (%q, weight %d) before claim %d of (%q, weight %d) = %t, want %t",
					a.claims, a.hashKey, a.weight, b.claims, b.hashKey, b.weight, got, want)
			}
		}
	}
}

// TestTwinVectors holds the twin itself against the golden vectors, which
// independent programs made.
func TestTwinVectors(t *testing.T) {
	for _, v := range slices.Concat(readVectors(t, maglevVectors, 8), readVectors(t, ringVectors, 4)) {
		ring, size, sum := v.Replicas > 0, v.TableSize, v.SlotsSHA256
		if ring {
			size, sum = v.Replicas, v.RingSHA256
		}
		t.Run(fmt.Sprintf("ring=%t/size=%d/N=%d", ring, size, len(v.names())), func(t *testing.T) {
			if !ring && size*len(v.names()) > 10_000_000 {
				t.Skip("the twin is too slow for so many slots and names")
			}
			w := newTwin(ring, size, 0, nil)
			require.Empty(t, w.add(chash.Named(v.names()...)...))
			require.Equal(t, sum, sumOfNames(w.owners))
			for key, want := range v.Keys {
				require.Equal(t, want, w.prefer(w.metByKey(key), 1)[0].Name, "key %q", key)
			}
			if v.Removed == "" {
				return
			}
			require.Empty(t, w.remove(v.Removed))
			for key, want := range v.KeysAfterRemoval {
				require.Equal(t, want, w.prefer(w.metByKey(key), 1)[0].Name, "key %q without %q", key, v.Removed)
			}
		})
	}
}
