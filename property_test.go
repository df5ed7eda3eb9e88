package chash_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// Property tests over random sets. Each round has a seed of its own, which its
// failure names and which alone decides what the round does.

// rounds runs fn for seeds 0 to n-1, or a quarter of them with -short.
func rounds(t *testing.T, n uint64, fn func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	if testing.Short() {
		n = (n + 3) / 4
	}
	for seed := range n {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { fn(t, rand.New(rand.NewPCG(seed, 0))) }) {
			return // one seed to look into is enough
		}
	}
}

// bothStructures runs fn for a Maglev and for a Ring.
func bothStructures(t *testing.T, fn func(t *testing.T, ring bool)) {
	for _, s := range structures {
		t.Run(s.name, func(t *testing.T) { fn(t, s.name == "ring") })
	}
}

// awkwardNames are names that invite confusion: with the separators and digits
// of point labels, with the bytes before a hash key, with each other.
var awkwardNames = []string{
	"a", "a#", "a#1", "a#1#", "a##", "#", "##", "#1", "1#", "0", "00", "1", "1host", "host", "host1", "host 1", " host",
	"host ", "host:80", "host:80#2", "[::1]:443", "http://host/?q=1#top", " ", "\t\n", "\x00", "a\x00", "\xba", "\xbe", "\xbaa",
	"\xbea", "\xff", "h\xe9llo", "héllo", "he\u0301llo", "日本", "日本#1", "🙂",
}

var tableSizes = []int{2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1021}

// randomTwin is an empty twin with random options: of a Maglev with room for
// n placements, or of a Ring.
func randomTwin(rng *rand.Rand, ring bool, n int) *twin {
	hashes := []func(string) uint64{
		nil, nil, nil, // mostly the structure's own
		xxhash.Sum64String,
		func(string) uint64 { return 0 },
		func(string) uint64 { return math.MaxUint64 },
		func(key string) uint64 { return xxhash.Sum64String(key) % 10 },
		func(key string) uint64 { return xxhash.Sum64String(key) % 10 * (math.MaxUint64 / 9) },
	}
	hash, seed := hashes[rng.IntN(len(hashes))], uint64(0)
	if hash == nil && rng.IntN(2) == 0 {
		seed = rng.Uint64()
	}
	if ring {
		w := newTwin(true, []int{1, 2, 3, 5, 8, 20}[rng.IntN(6)], seed, hash)
		if w.size <= 5 && rng.IntN(2) == 0 { // all alike, few different ones, in the top or in the low bits
			w.blind = []uint64{math.MaxUint64, math.MaxUint64 >> 3, ^uint64(7)}[rng.IntN(3)]
		}
		return w
	}
	first := slices.IndexFunc(tableSizes, func(m int) bool { return m >= n })
	w := newTwin(false, tableSizes[first+rng.IntN(len(tableSizes)-first)], seed, hash)
	if rng.IntN(2) == 0 {
		w.slack = randomSlack(rng)
	}
	return w
}

// randomName draws an awkward name or an ordinary one.
func randomName(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return awkwardNames[rng.IntN(len(awkwardNames))]
	}
	return fmt.Sprintf("backend-%d", rng.IntN(200))
}

// randomBackends is n backends in random order with different names, whose
// weights follow one of several patterns and which at times share hash keys.
func randomBackends(rng *rand.Rand, ring bool, n int) []chash.Backend[string] {
	patterns := []func() uint32{
		func() uint32 { return 0 },
		func() uint32 { return 3 },
		func() uint32 { return rng.Uint32N(8) },
		func() uint32 { return 1 + rng.Uint32N(2)*9 },
	}
	if !ring { // whose points would be too many
		patterns = append(patterns,
			func() uint32 { return math.MaxUint32 },
			func() uint32 { return 1 + rng.Uint32N(2)*(math.MaxUint32-1) },
			func() uint32 { return math.MaxUint32 - rng.Uint32N(2) },
			rng.Uint32,
		)
	}
	pattern := patterns[rng.IntN(len(patterns))]
	shared := rng.IntN(3) == 0
	names := map[string]bool{}
	for len(names) < n {
		names[randomName(rng)] = true
	}
	var backends []chash.Backend[string]
	for name := range names {
		backends = append(backends, chash.Backend[string]{Name: name, Value: "value of " + name})
	}
	slices.SortFunc(backends, func(a, b chash.Backend[string]) int { return cmp.Compare(a.Name, b.Name) })
	rng.Shuffle(n, func(i, j int) { backends[i], backends[j] = backends[j], backends[i] })
	for i := range backends {
		backends[i].Weight = pattern()
		if shared && rng.IntN(2) == 0 {
			backends[i].HashKey = backends[rng.IntN(n)].Name // perhaps its own
		}
	}
	return backends
}

// randomStates gives each backend a state: all healthy, some, or hardly any.
func randomStates(rng *rand.Rand, backends []chash.Backend[string]) {
	sick := []int{0, 0, 2, 5, 9, 10}[rng.IntN(6)] // of ten
	for i := range backends {
		backends[i].State = chash.Healthy
		if rng.IntN(10) < sick {
			backends[i].State = chash.Unhealthy
		}
		if sick > 0 && rng.IntN(6) == 0 {
			backends[i].State = chash.Draining
		}
	}
	if sick == 9 {
		backends[rng.IntN(len(backends))].State = chash.Healthy
	}
}

// randomKeys is n keys of all lengths, of which some are names, and some labels
// of a ring's points: their digests are equal to those of the points.
func randomKeys(rng *rand.Rand, n int) []string {
	keys := []string{"", "\xff"}
	for range n {
		switch rng.IntN(4) {
		case 0:
			keys = append(keys, randomName(rng))
		case 1:
			keys = append(keys, fmt.Sprintf("%s#%d", randomName(rng), rng.IntN(4)))
		case 2:
			key := make([]byte, rng.IntN(100))
			for i := range key {
				key[i] = byte(rng.Uint32())
			}
			keys = append(keys, string(key))
		default:
			keys = append(keys, fmt.Sprintf("user:%d", rng.Uint64()))
		}
	}
	return keys
}

// randomHashes is a hash for each owner, or where they are many for some of
// them, and n more.
func (w *twin) randomHashes(rng *rand.Rand, n int) []uint64 {
	hashes := w.hashes()
	rng.Shuffle(len(hashes), func(i, j int) { hashes[i], hashes[j] = hashes[j], hashes[i] })
	hashes = hashes[:min(500, len(hashes))]
	for range n {
		hashes = append(hashes, rng.Uint64())
	}
	return hashes
}

// twins is a structure and its twin with the same backends.
func twins(t *testing.T, w *twin, backends []chash.Backend[string]) structure {
	t.Helper()
	require.Empty(t, w.set(backends))
	s, err := w.build(backends)
	require.NoError(t, err)
	return s
}

// TestProperty_Twin: any set, placed at once, in any state of health.
func TestProperty_Twin(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 64, func(t *testing.T, rng *rand.Rand) {
			n := rng.IntN([]int{4, 14, 60}[rng.IntN(3)])
			w, backends := randomTwin(rng, ring, n), randomBackends(rng, ring, n)
			if n > 0 {
				randomStates(rng, backends)
			}
			s := twins(t, w, backends)
			require.NoError(t, w.differ(s, randomKeys(rng, 10), w.randomHashes(rng, 100)))
			if n == 0 {
				return
			}
			for range 3 { // other outages, one backend's state at a time
				randomStates(rng, backends)
				for _, b := range backends {
					require.NoError(t, s.SetState(b.Name, b.State))
				}
				require.Empty(t, w.set(backends))
				require.NoError(t, w.differ(s, randomKeys(rng, 4), w.randomHashes(rng, 100)))
			}
		})
	})
}

// TestProperty_TwinDefaults: the sizes that users have.
func TestProperty_TwinDefaults(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		n, size := 150, chash.DefaultTableSize
		if ring {
			size = chash.DefaultReplicas
		}
		if testing.Short() {
			n = 20
		}
		rng := rand.New(rand.NewPCG(0, 0))
		w, backends := newTwin(ring, size, 0, nil), chash.Named()
		for i := range n {
			backends = append(backends, chash.Backend[string]{
				Name: fmt.Sprintf("10.0.0.%d:8080", i), Value: fmt.Sprint(i), Weight: 1 + rng.Uint32N(5),
			})
		}
		s := twins(t, w, backends)
		check := func() {
			t.Helper()
			var hashes []uint64
			for range 1000 {
				hashes = append(hashes, rng.Uint64())
			}
			require.NoError(t, w.differ(s, randomKeys(rng, 20), hashes))
		}
		check()
		if !ring {
			for slot, owner := range w.owners { // all are healthy: the owner answers
				if got, err := s.GetHash(uint64(slot)); err != nil || got != w.backends[owner].Value {
					t.Fatalf("GetHash(%d) = %q, %v, want %q", slot, got, err, w.backends[owner].Value)
				}
			}
		}
		for i, b := range backends { // half of them, then all but the last one
			if i%2 == 0 && i < n-1 {
				require.NoError(t, predicted(s.SetState(b.Name, chash.Unhealthy), w.setStateOnly(b.Name, chash.Unhealthy)))
			}
		}
		check()
		for _, b := range backends[:n-1] {
			require.NoError(t, predicted(s.SetState(b.Name, chash.Unhealthy), w.setStateOnly(b.Name, chash.Unhealthy)))
		}
		check()
	})
}

// setStateOnly is setState for where placements stay: it keeps the owners, for
// sets that take the twin long to lay out.
func (w *twin) setStateOnly(name string, state chash.State) []error {
	b := w.backends[name]
	b.State = state
	w.backends[name] = b
	w.answering = answeringOf(w.backends)
	return nil
}

// TestProperty_Operations: any sequence of calls, right and wrong ones, leaves
// what the backends left alone decide: the twin lays its owners out anew each
// time, and a structure that is built anew answers alike.
func TestProperty_Operations(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 28, func(t *testing.T, rng *rand.Rand) {
			w := randomTwin(rng, ring, 2+rng.IntN(100))
			s := twins(t, w, nil)
			known := func() string { // mostly
				if list := w.list(); len(list) > 0 && rng.IntN(12) > 0 {
					return list[rng.IntN(len(list))].Name
				}
				return randomName(rng)
			}
			batch := func(n int) []chash.Backend[string] {
				backends := randomBackends(rng, ring, 1+rng.IntN(n))
				if rng.IntN(2) == 0 {
					randomStates(rng, backends)
				}
				if rng.IntN(12) == 0 {
					backends = append(backends, backends[0])
				}
				if rng.IntN(20) == 0 {
					backends[0].Name = ""
				}
				if rng.IntN(20) == 0 {
					backends[0].State = 3
				}
				return backends
			}
			for step := range 30 {
				var call string
				var got error
				var want []error
				switch rng.IntN(12) {
				case 0, 1, 2:
					backends := batch(5)
					call, got, want = fmt.Sprintf("Add(%+v)", backends), s.Add(backends...), w.add(backends...)
				case 3, 4:
					var names []string
					for range rng.IntN(4) {
						names = append(names, known())
					}
					call, got, want = fmt.Sprintf("Remove(%q)", names), s.Remove(names...), w.remove(names...)
				case 5:
					backends := batch(30)
					call, got, want = fmt.Sprintf("Set(%+v)", backends), s.Set(backends), w.set(backends)
				case 6, 7:
					name, state := known(), chash.State(rng.IntN(3))
					call, got, want = fmt.Sprintf("SetState(%q, %d)", name, state), s.SetState(name, state), w.setState(name, state)
				case 8, 9:
					name, weight := known(), rng.Uint32N(8)
					call, got, want = fmt.Sprintf("SetWeight(%q, %d)", name, weight), s.SetWeight(name, weight), w.setWeight(name, weight)
				case 10:
					name, value := known(), fmt.Sprint("value of step ", step)
					call, got, want = fmt.Sprintf("SetValue(%q, %q)", name, value), s.SetValue(name, value), w.setValue(name, value)
				case 11:
					if rng.IntN(4) == 0 {
						call = "Clear()"
						s.Clear()
						w.set(nil)
					}
				}
				require.NoError(t, predicted(got, want), "step %d, %s", step, call)
				require.NoError(t, w.differ(s, randomKeys(rng, 1), w.randomHashes(rng, 10)), "step %d, %s", step, call)
			}
			keys, hashes := randomKeys(rng, 10), w.randomHashes(rng, 100)
			require.NoError(t, w.differ(s, keys, hashes))
			anew, err := w.build(s.Backends())
			require.NoError(t, err)
			require.NoError(t, w.differ(anew, keys, hashes))
		})
	})
}

// TestProperty_AwkwardNames: all of them side by side, and keys equal to the
// labels of their points.
func TestProperty_AwkwardNames(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		for _, seed := range []uint64{0, 1} {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				w := newTwin(ring, 1021, seed, nil)
				if ring {
					w.size = 3
				}
				s := twins(t, w, chash.Named(awkwardNames...))
				var keys []string
				for _, name := range awkwardNames {
					keys = append(keys, name, "\xba"+name, "\xbe"+name)
					for i := range 3 {
						label := fmt.Sprintf("%s#%d", name, i)
						keys = append(keys, label)
						if !ring || seed != 0 {
							continue
						}
						// A key lies on the very point that has the same label.
						if got, err := s.Get(label); err != nil || got != name {
							t.Errorf("Get(%q) = %q, %v, want %q", label, got, err, name)
						}
					}
				}
				for _, key := range keys {
					require.NoError(t, w.differInKey(s, key))
				}
				require.NoError(t, w.differ(s, nil, w.hashes()))
			})
		}
	})
}

// TestProperty_ManyPlacements: numbers of placements on both sides of what a
// byte and what two bytes can number, up to as many as there are slots.
func TestProperty_ManyPlacements(t *testing.T) {
	for _, c := range []struct{ n, m int }{
		{255, 257}, {256, 257}, {257, 257}, {255, 2053}, {256, 2053}, {257, 2053},
		{65536, 65537}, {65537, 65537}, {65537, 131071},
	} {
		t.Run(fmt.Sprintf("n=%d/M=%d", c.n, c.m), func(t *testing.T) {
			if testing.Short() && c.n > 1000 {
				t.Skip("many slots to claim")
			}
			names := make([]string, c.n)
			for i := range names {
				names[i] = fmt.Sprintf("backend-%d", i)
			}
			s, err := newMaglev(chash.Named(names...), chash.WithTableSize(c.m))
			require.NoError(t, err)
			sameAnswers(t, equalShares(names, c.m), slotOwners(t, s, c.m))
			var more []string
			for i := range c.m - c.n + 1 {
				more = append(more, fmt.Sprintf("more-%d", i))
			}
			require.ErrorIs(t, s.Add(chash.Named(more...)...), chash.ErrTooManyBackends)
			require.Equal(t, c.n, s.Len())

			s, err = newRing(chash.Named(names...), chash.WithReplicas(1))
			require.NoError(t, err)
			for _, name := range names { // each owns the point with its label
				if got, err := s.Get(name + "#0"); err != nil || got != name {
					t.Fatalf("Get(%q) = %q, %v, want %q", name+"#0", got, err, name)
				}
			}
		})
	}
}

// equalShares is the table of backends of equal weight: each in its turn, in the
// order of names, claims the slot that it prefers of those still free.
func equalShares(names []string, m int) []string {
	names = slices.Sorted(slices.Values(names))
	next := make([]uint64, len(names)) // in units of the skip
	owners := make([]string, m)
	for claim := range m {
		i := claim % len(names)
		offset := xxhash.Sum64String("\xba"+names[i]) % uint64(m)
		skip := xxhash.Sum64String("\xbe"+names[i])%uint64(m-1) + 1
		for owners[(offset+next[i]*skip)%uint64(m)] != "" {
			next[i]++
		}
		owners[(offset+next[i]*skip)%uint64(m)] = names[i]
	}
	return owners
}

// slotOwners is the value that answers for each slot of a Maglev of size m.
func slotOwners(t *testing.T, s structure, m int) []string {
	t.Helper()
	owners := make([]string, m)
	for slot := range owners {
		owner, err := s.GetHash(uint64(slot))
		if err != nil {
			t.Fatalf("GetHash(%d): %v", slot, err)
		}
		owners[slot] = owner
	}
	return owners
}

// TestProperty_MaglevShares: every slot is owned, every placement owns at least
// one, and the shares follow the weights as closely as whole slots can.
//
// The bound, for placements of weights w[i] which own n[i] slots each, P of
// them, W the sum of the weights, M that of the slots.
//
// Claim k of placement i has rank 0 for k = 0, and (2k+1)/(2w[i]) after that.
// All M slots are claimed in the order of ranks, so there is a rank r that no
// claim made is above and no claim not made is below. The last claim made by i
// is number n[i]-1, the first not made number n[i]. Hence
//
//	(2n[i]-1) / (2w[i]) <= r, where n[i] >= 2
//	(2n[i]+1) / (2w[i]) >= r
//
// which is (1): the largest of the left sides is at most the smallest of the
// right sides. Write e[i] = n[i] - r*w[i]. Then e[i] >= -1/2 always. Where
// n[i] >= 2, e[i] <= 1/2. Where n[i] = 1, the placement may owe its only slot to
// rank 0, and all that is known is e[i] <= 1.
//
// Summed over all: M = r*W + E with E the sum of all e. So with the share
// s = w[i]/W, and fair = s*M what i should own if slots could be split,
//
//	n[i] - fair = r*w[i] + e[i] - s*(r*W + E) = (1-s)*e[i] - s*(sum of the other e)
//
// and with the bounds of e above, F being the number of other placements which
// own one slot only, this is (2):
//
//	n[i] - fair >= -(1-s)/2 - s*((P-1-F)/2 + F)
//	n[i] - fair <=  (1-s)/2 + s*(P-1)/2, or n[i] = 1
//
// For equal weights, s = 1/P, the second is (P-1)/P: less than one slot.
// The test multiplies (1) by the weights, and (2) by 2W.
func TestProperty_MaglevShares(t *testing.T) {
	rounds(t, 200, func(t *testing.T, rng *rand.Rand) {
		n := 1 + rng.IntN([]int{4, 30, 120}[rng.IntN(3)])
		w, backends := randomTwin(rng, false, n), randomBackends(rng, false, n)
		w.slack = nil // with which shares are less even
		if rng.IntN(4) == 0 {
			w.size = 8191
		}
		for i := range backends {
			backends[i].HashKey = "" // a backend for each placement
			backends[i].Value = backends[i].Name
		}
		s, err := w.build(backends)
		require.NoError(t, err)
		slots := map[string]int64{}
		for _, owner := range slotOwners(t, s, w.size) {
			slots[owner]++
		}

		var sum, single int64
		for _, b := range backends {
			sum += weightOf(b)
			if slots[b.Name] == 1 {
				single++
			}
		}
		p, m := int64(n), int64(w.size)
		for _, b := range backends {
			own, weight := slots[b.Name], weightOf(b)
			require.Positive(t, own, "slots of %+v", b)
			for _, other := range backends {
				// At most 2^14 * 2^32 each.
				if own >= 2 && (2*own-1)*weightOf(other) > (2*slots[other.Name]+1)*weight {
					t.Fatalf("%+v owns %d slots while %+v owns %d: the last one of the former ranks after the next one of the latter",
						b, own, other, slots[other.Name])
				}
			}
			others := single
			if own == 1 {
				others--
			}
			off := 2 * (own*sum - m*weight) // at most 2 * 2^13 * 2^39
			low := -(sum - weight) - weight*(p-1+others)
			high := sum - weight + weight*(p-1)
			if off < low || off > high && own != 1 {
				t.Fatalf("%+v owns %d of %d slots, weights in all %d: off by %d/%d, want from %d to %d of these",
					b, own, m, sum, off, 2*sum, low, high)
			}
		}
	})
}

func weightOf(b chash.Backend[string]) int64 { return int64(max(b.Weight, 1)) }

// TestProperty_MaglevWeightScale: weights count relative to each other only.
func TestProperty_MaglevWeightScale(t *testing.T) {
	rounds(t, 60, func(t *testing.T, rng *rand.Rand) {
		n := 1 + rng.IntN(30)
		w, backends := randomTwin(rng, false, n), randomBackends(rng, false, n)
		top := uint32(1)
		for i := range backends {
			backends[i].Weight = 1 + rng.Uint32N(7)
			if n == 2 {
				backends[i].Weight = uint32(1 + i)
			}
			top = max(top, backends[i].Weight)
		}
		s, err := w.build(backends)
		require.NoError(t, err)
		want := slotOwners(t, s, w.size)
		for _, factor := range []uint32{2, 3, 1000, math.MaxUint32 / top} {
			scaled := slices.Clone(backends)
			for i := range scaled {
				scaled[i].Weight *= factor
			}
			require.NoError(t, s.Set(scaled))
			sameAnswers(t, want, slotOwners(t, s, w.size))
		}
	})
}

// answers is what each hash leads to.
func answers(t *testing.T, s structure, hashes []uint64) []string {
	t.Helper()
	answers := make([]string, len(hashes))
	for i, h := range hashes {
		answer, err := s.GetHash(h)
		if err != nil {
			t.Fatalf("GetHash(%#x): %v", h, err)
		}
		answers[i] = answer
	}
	return answers
}

// sameAnswers fails where the answers to the same keys or slots differ.
func sameAnswers(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("key or slot %d is on %q, want %q", i, got[i], want[i])
		}
	}
}

// movedOnly fails where keys moved that were not on one of the backends from,
// or moved elsewhere than to one of the backends to. A nil list allows all.
// It returns how many moved.
func movedOnly(t *testing.T, before, after []string, from, to []string) (moved int) {
	t.Helper()
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		moved++
		if from != nil && !slices.Contains(from, before[i]) {
			t.Fatalf("key %d moved from %q to %q, want moves from %q only", i, before[i], after[i], from)
		}
		if to != nil && !slices.Contains(to, after[i]) {
			t.Fatalf("key %d moved from %q to %q, want moves to %q only", i, before[i], after[i], to)
		}
	}
	return moved
}

// TestProperty_HealthMovesOwnKeysOnly: at every depth of an outage the loss of
// a backend moves its keys and no other, and its return moves them back.
func TestProperty_HealthMovesOwnKeysOnly(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 24, func(t *testing.T, rng *rand.Rand) {
			n := 2 + rng.IntN(40)
			w, backends := randomTwin(rng, ring, n), randomBackends(rng, ring, n)
			for i := range backends {
				backends[i].Value = backends[i].Name
			}
			s, err := w.build(backends)
			require.NoError(t, err)
			hashes := make([]uint64, 2000)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			rebuilds := s.Rebuilds()
			first := answers(t, s, hashes)
			last := first
			order := rng.Perm(n)
			for i, victim := range order[1:] { // order[0] survives
				name := backends[victim].Name
				require.NoError(t, s.SetState(name, chash.Unhealthy))
				now := answers(t, s, hashes)
				moved := movedOnly(t, last, now, []string{name}, nil)
				lost := 0
				for _, answer := range last {
					if answer == name {
						lost++
					}
				}
				require.Equal(t, lost, moved, "keys moved off %q, unhealthy number %d", name, i)
				last = now
			}
			rng.Shuffle(n-1, func(i, j int) { order[1+i], order[1+j] = order[1+j], order[1+i] })
			for _, victim := range order[1:] {
				name := backends[victim].Name
				require.NoError(t, s.SetState(name, chash.Healthy))
				now := answers(t, s, hashes)
				movedOnly(t, last, now, nil, []string{name})
				last = now
			}
			sameAnswers(t, first, last)
			require.Equal(t, rebuilds, s.Rebuilds())
		})
	})
}

// TestProperty_RareHealth: one or two healthy backends among hundreds, each with
// a single slot or point, are found by every lookup, wherever they lie, and in
// the right order.
func TestProperty_RareHealth(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		const n = 127
		rng := rand.New(rand.NewPCG(0, 0))
		w := newTwin(ring, n, 0, nil)
		if ring {
			w.size = 1
		}
		var backends []chash.Backend[string]
		for i := range n {
			name := fmt.Sprintf("backend-%d", i)
			backends = append(backends, chash.Backend[string]{Name: name, Value: name, State: chash.Unhealthy})
		}
		s := twins(t, w, backends)
		require.Len(t, w.owners, n)
		for i, owner := range w.owners {
			with := w.owners[rng.IntN(n)] // perhaps itself
			for _, name := range []string{owner, with} {
				require.NoError(t, s.SetState(name, chash.Healthy))
				w.setStateOnly(name, chash.Healthy)
				if err := w.differ(s, randomKeys(rng, 1), w.randomHashes(rng, 1)[rng.IntN(n):]); err != nil {
					t.Fatalf("healthy are %q of slot or point %d, %q: %v", owner, i, with, err)
				}
			}
			for _, name := range []string{owner, with} {
				require.NoError(t, s.SetState(name, chash.Unhealthy))
				w.setStateOnly(name, chash.Unhealthy)
			}
		}
	})
}

// TestProperty_SurvivorsShareEvenly: of three backends of a Maglev one dies.
// The two that are left get its keys evenly, within 2 % of a half each.
//
// Why 2 % is two-sided and safe. Each survivor must get between 0.98 and 1.02
// of half the dead one's keys, so neither too many nor too few pass. The first
// probe goes to home + stride, where the test draws the stride evenly from all
// M-1, so it hits each other slot alike: of what it hits alive, each survivor
// has its half to within one slot in 21,845, and what it hits dead goes on to
// the next. What remains is chance in drawing: some 175,000 keys of the dead
// one, of which a survivor gets half with a standard deviation of
// sqrt(175,000)/2 = 209, that is 0.24 % of a half. 2 % is eight of those; and
// with seeds that are fixed the test does the same each time. With the same
// stride for all keys (a walk from slot to slot) a survivor is tens of per cent
// off, as the slots of one placement lie in arithmetic progressions.
func TestProperty_SurvivorsShareEvenly(t *testing.T) {
	const m, draws = chash.DefaultTableSize, 8
	rounds(t, 8, func(t *testing.T, rng *rand.Rand) {
		names := make([]string, 3)
		for i := range names {
			names[i] = fmt.Sprintf("host-%x:8080", rng.Uint32())
		}
		s, err := newMaglev(chash.Named(names...))
		require.NoError(t, err)
		owners := slotOwners(t, s, m)
		for _, dead := range names {
			require.NoError(t, s.SetState(dead, chash.Unhealthy))
			got := map[string]int{}
			total := 0
			for slot, owner := range owners {
				if owner != dead {
					continue
				}
				for range draws {
					answer, err := s.GetHash(uint64(slot) + m*rng.Uint64N(math.MaxUint64/m))
					if err != nil {
						t.Fatal(err)
					}
					got[answer]++
					total++
				}
			}
			require.Greater(t, total, 170_000)
			require.Len(t, got, 2)
			for name, keys := range got {
				require.NotEqual(t, dead, name)
				require.InEpsilon(t, float64(total)/2, float64(keys), 0.02, "keys of %q that went to %q", dead, name)
			}
			require.NoError(t, s.SetState(dead, chash.Healthy))
		}
	})
}

// TestProperty_DrainThenRemove: Draining gives the placement up at once, exactly
// as Remove does, so that the Remove which follows moves nothing.
func TestProperty_DrainThenRemove(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 24, func(t *testing.T, rng *rand.Rand) {
			n := 2 + rng.IntN(30)
			w, backends := randomTwin(rng, ring, n), randomBackends(rng, ring, n)
			for i := 1; i < n; i++ { // the first stays healthy, so there is always an answer
				backends[i].State = chash.State(rng.IntN(2))
			}
			backends[0].HashKey = ""
			s := twins(t, w, backends)
			hashes := w.randomHashes(rng, 1000)
			for _, i := range rng.Perm(n - 1) {
				b := backends[i+1]
				removed := s.Clone()
				require.NoError(t, removed.Remove(b.Name))
				require.NoError(t, s.SetState(b.Name, chash.Draining))
				drained := answers(t, s, hashes)
				sameAnswers(t, answers(t, removed, hashes), drained)
				rebuilds := s.Rebuilds()
				require.NoError(t, s.Remove(b.Name))
				sameAnswers(t, drained, answers(t, s, hashes))
				require.Equal(t, rebuilds, s.Rebuilds())
			}
		})
	})
}

// keyAnswers is what each key leads to.
func keyAnswers(t *testing.T, s structure, keys []string) []string {
	t.Helper()
	answers := make([]string, len(keys))
	for i, key := range keys {
		answer, err := s.Get(key)
		if err != nil {
			t.Fatalf("Get(%q): %v", key, err)
		}
		answers[i] = answer
	}
	return answers
}

// TestProperty_RingDisruption: on a Ring exactly the fewest possible keys move,
// whatever the weights, the health of others, and the hash.
func TestProperty_RingDisruption(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 10_000
	}
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d", i)
	}
	for _, options := range []struct {
		name string
		hash func(string) uint64 // nil for SHA-256
		even bool                // points lie everywhere, so that whoever comes takes some keys
	}{
		{"SHA-256", nil, true},
		{"xxhash", xxhash.Sum64String, true},
		{"64 positions", func(key string) uint64 { return xxhash.Sum64String(key) >> 58 << 58 }, false},
	} {
		t.Run(options.name, func(t *testing.T) {
			keys := keys
			if !options.even { // the ways past the unhealthy are long
				keys = keys[:count/10]
			}
			total := 0
			rounds(t, 4, func(t *testing.T, rng *rand.Rand) {
				n := 3 + rng.IntN(20)
				backends := randomBackends(rng, true, n)
				w := newTwin(true, 1+rng.IntN(100), 0, options.hash) // without ties: each costs a lookup too much for so many keys
				switch {
				case options.hash == nil:
					w.seed = rng.Uint64N(2) * rng.Uint64()
				case !options.even: // few points, or one placement would have all positions
					w.size = 1 + rng.IntN(3)
				}
				for i := range backends {
					backends[i].Value = backends[i].Name
					if backends[i].HashKey == "" && i > 1 && rng.IntN(4) == 0 {
						backends[i].State = chash.Unhealthy
					}
				}
				if options.even { // those that change have places of their own
					backends[0].HashKey, backends[1].HashKey = "first", "second"
				}
				added, left := backends[0], backends[1:]
				s, err := w.build(left)
				require.NoError(t, err)
				without := keyAnswers(t, s, keys)
				require.NoError(t, s.Add(added))
				moved := movedOnly(t, without, keyAnswers(t, s, keys), nil, []string{added.Name})
				require.NoError(t, s.Remove(added.Name))
				sameAnswers(t, without, keyAnswers(t, s, keys))

				// The other way round: where the weight of a placement grows, keys move
				// to it only; where it shrinks, from it only.
				name := left[0].Name
				b, _ := s.Backend(name)
				require.NoError(t, s.SetWeight(name, b.Weight+1+rng.Uint32N(5)))
				grown := movedOnly(t, without, keyAnswers(t, s, keys), nil, []string{name})
				require.NoError(t, s.SetWeight(name, b.Weight))
				sameAnswers(t, without, keyAnswers(t, s, keys))
				if options.even {
					require.Positive(t, moved)
					require.Positive(t, grown)
				}
				total += moved + grown
			})
			require.Positive(t, total)
		})
	}
}

// TestProperty_MaglevDisruption: the removal of a backend moves its keys and, as a
// rule, few others; adding it again restores the table.
//
// Why few. Left alone, the backends would go through their preferences as before, only
// with fewer claims taken away from them by others, and each slot would go to whoever
// prefers it most: no other slot would move. But a backend meets the slots of the
// removed one as they fall in its own preferences, about M/n^2 of them until the table
// of n backends is full, give or take the square root of that: sqrt(M)/n. By so many
// preferences it gets ahead of others or falls behind. The two that prefer a slot most
// lie M/n preferences apart on average, so a slot changes hands with a chance of the
// order of sqrt(M)/n / (M/n) = 1/sqrt(M): that is some sqrt(M) slots.
//
// Why not always. Two backends with one skip, or with skips of a simple ratio, meet
// each other's slots one after the other, and what gets one ahead of the other then
// moves whole stretches of slots. So there is no bound for every set: of 8,000 random
// sets of three in a table of 65,537 slots, five moved more than 3*sqrt(M), which is
// 1.2 % of the table, and the worst moved 2.8 %; of 8,000 of ten, three, and 8.0 %. What
// holds is the median, and that the exceptions are rare.
func TestProperty_MaglevDisruption(t *testing.T) {
	var all, many []float64 // slots moved beyond those that must, by sqrt(M); many: of ten backends and more
	rounds(t, 40, func(t *testing.T, rng *rand.Rand) {
		m := []int{1021, 8191, 65537}[rng.IntN(3)]
		n := []int{2, 3, 5, 10, 30, 100}[rng.IntN(6)]
		var backends []chash.Backend[string]
		most := 1 + 6*rng.Uint32N(2)
		for i := range n {
			b := chash.Backend[string]{Name: fmt.Sprintf("host-%d-%x", i, rng.Uint32()), Weight: 1 + rng.Uint32N(most)}
			b.Value = b.Name
			backends = append(backends, b)
		}
		s, err := newMaglev(backends, chash.WithTableSize(m))
		require.NoError(t, err)
		before := slotOwners(t, s, m)
		lost := backends[rng.IntN(n)]
		require.NoError(t, s.Remove(lost.Name))
		after := slotOwners(t, s, m)
		extra := 0.0
		for slot := range before {
			if after[slot] == lost.Name {
				t.Fatalf("slot %d is on %q, which was removed", slot, lost.Name)
			}
			if before[slot] != lost.Name && before[slot] != after[slot] {
				extra++
			}
		}
		if n == 2 {
			require.Zero(t, extra, "there is nobody else to move to")
		} else {
			all = append(all, extra/math.Sqrt(float64(m)))
		}
		if n >= 10 {
			many = append(many, extra/math.Sqrt(float64(m)))
		}
		require.NoError(t, s.Add(lost))
		sameAnswers(t, before, slotOwners(t, s, m))
	})
	slices.Sort(all)
	slices.Sort(many)
	require.Less(t, all[len(all)/2], 1.5, "median of the slots moved between other backends, by sqrt(M)")
	require.Greater(t, many[len(many)/2], 0.4, "median for ten backends and more")
	require.LessOrEqual(t, all[len(all)*95/100], 3.0, "nineteen in twenty")
}

// TestProperty_GetN: the first n are a prefix of the first n+1, distinct, begin
// with Get, and are complete when n is the number of healthy placements; the
// candidates and what GetFunc asks for come in the same order.
func TestProperty_GetN(t *testing.T) {
	bothStructures(t, func(t *testing.T, ring bool) {
		rounds(t, 40, func(t *testing.T, rng *rand.Rand) {
			n := 1 + rng.IntN(40)
			w, backends := randomTwin(rng, ring, n), randomBackends(rng, ring, n)
			randomStates(rng, backends)
			backends[0].State = chash.Healthy
			s := twins(t, w, backends)
			healthy := len(w.answering)
			for _, key := range randomKeys(rng, 20) {
				all, err := s.GetN(key, n)
				require.NoError(t, err)
				require.Len(t, all, healthy)
				first, err := s.Get(key)
				require.NoError(t, err)
				require.Equal(t, first, all[0])
				seen := map[string]bool{}
				for _, value := range all {
					require.False(t, seen[value], "%q twice in GetN(%q, %d)", value, key, n)
					seen[value] = true
				}
				for k := range healthy {
					prefix, err := s.GetN(key, k+1)
					require.NoError(t, err)
					require.Equal(t, all[:k+1], prefix)
				}
				require.Equal(t, all, slices.Collect(s.Candidates(key)))
				var asked []string
				_, err = s.GetFunc(key, func(value string) bool {
					asked = append(asked, value)
					return false
				})
				require.ErrorIs(t, err, chash.ErrNoneAccepted)
				require.Equal(t, all, asked)
			}
		})
	})
}

// TestProperty_Hash: GetHash of the documented hash is Get.
func TestProperty_Hash(t *testing.T) {
	rng := rand.New(rand.NewPCG(0, 0))
	m, err := newMaglev(chash.Named(awkwardNames...))
	require.NoError(t, err)
	ring, err := newRing(chash.Named(awkwardNames...), chash.WithHash(xxhash.Sum64String))
	require.NoError(t, err)
	for _, key := range randomKeys(rng, 2000) {
		for _, s := range []structure{m, ring} {
			want, err := s.Get(key)
			require.NoError(t, err)
			if got, err := s.GetHash(xxhash.Sum64String(key)); err != nil || got != want {
				t.Fatalf("GetHash of %q = %q, %v, want %q", key, got, err, want)
			}
		}
	}
}
