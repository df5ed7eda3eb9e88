package contract_test

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

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
	chashtest.Rounds(t, 200, func(t *testing.T, rng *rand.Rand) {
		n := 1 + rng.IntN([]int{4, 30, 120}[rng.IntN(3)])
		w, backends := chashtest.RandomTwin(rng, false, n), chashtest.RandomBackends(rng, false, n)
		w.Slack = nil // with which shares are less even
		if rng.IntN(4) == 0 {
			w.Size = 8191
		}
		for i := range backends {
			backends[i].HashKey = "" // a backend for each placement
			backends[i].Value = backends[i].Name
		}
		s, err := w.Build(backends)
		require.NoError(t, err)
		slots := map[string]int64{}
		for _, owner := range chashtest.SlotOwners(t, s, w.Size) {
			slots[owner]++
		}

		var sum, single int64
		for _, b := range backends {
			sum += chashtest.WeightOf(b)
			if slots[b.Name] == 1 {
				single++
			}
		}
		p, m := int64(n), int64(w.Size)
		for _, b := range backends {
			own, weight := slots[b.Name], chashtest.WeightOf(b)
			require.Positive(t, own, "slots of %+v", b)
			for _, other := range backends {
				// At most 2^14 * 2^32 each.
				if own >= 2 && (2*own-1)*chashtest.WeightOf(other) > (2*slots[other.Name]+1)*weight {
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

// TestProperty_MaglevWeightScale: weights count relative to each other only.
func TestProperty_MaglevWeightScale(t *testing.T) {
	chashtest.Rounds(t, 60, func(t *testing.T, rng *rand.Rand) {
		n := 1 + rng.IntN(30)
		w, backends := chashtest.RandomTwin(rng, false, n), chashtest.RandomBackends(rng, false, n)
		top := uint32(1)
		for i := range backends {
			backends[i].Weight = 1 + rng.Uint32N(7)
			if n == 2 {
				backends[i].Weight = uint32(1 + i)
			}
			top = max(top, backends[i].Weight)
		}
		s, err := w.Build(backends)
		require.NoError(t, err)
		want := chashtest.SlotOwners(t, s, w.Size)
		for _, factor := range []uint32{2, 3, 1000, math.MaxUint32 / top} {
			scaled := slices.Clone(backends)
			for i := range scaled {
				scaled[i].Weight *= factor
			}
			require.NoError(t, s.Set(scaled))
			chashtest.SameAnswers(t, want, chashtest.SlotOwners(t, s, w.Size))
		}
	})
}

// TestProperty_HealthMovesOwnKeysOnly: at every depth of an outage the loss of
// a backend moves its keys and no other, and its return moves them back.
func TestProperty_HealthMovesOwnKeysOnly(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		chashtest.Rounds(t, 24, func(t *testing.T, rng *rand.Rand) {
			n := 2 + rng.IntN(40)
			w, backends := chashtest.RandomTwin(rng, ring, n), chashtest.RandomBackends(rng, ring, n)
			for i := range backends {
				backends[i].Value = backends[i].Name
			}
			s, err := w.Build(backends)
			require.NoError(t, err)
			hashes := make([]uint64, 2000)
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			rebuilds := s.Rebuilds()
			first := chashtest.Answers(t, s, hashes)
			last := first
			order := rng.Perm(n)
			for i, victim := range order[1:] { // order[0] survives
				name := backends[victim].Name
				require.NoError(t, s.SetState(name, chash.Unhealthy))
				now := chashtest.Answers(t, s, hashes)
				moved := chashtest.MovedOnly(t, last, now, []string{name}, nil)
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
				now := chashtest.Answers(t, s, hashes)
				chashtest.MovedOnly(t, last, now, nil, []string{name})
				last = now
			}
			chashtest.SameAnswers(t, first, last)
			require.Equal(t, rebuilds, s.Rebuilds())
		})
	})
}

// TestProperty_RareHealth: one or two healthy backends among hundreds, each with
// a single slot or point, are found by every lookup, wherever they lie, and in
// the right order.
func TestProperty_RareHealth(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		const n = 127
		rng := rand.New(rand.NewPCG(0, 0))
		w := chashtest.NewTwin(ring, n, 0, nil)
		if ring {
			w.Size = 1
		}
		var backends []chash.Backend[string]
		for i := range n {
			name := fmt.Sprintf("backend-%d", i)
			backends = append(backends, chash.Backend[string]{Name: name, Value: name, State: chash.Unhealthy})
		}
		s := chashtest.Twins(t, w, backends)
		require.Len(t, w.Owners, n)
		for i, owner := range w.Owners {
			with := w.Owners[rng.IntN(n)] // perhaps itself
			for _, name := range []string{owner, with} {
				require.NoError(t, s.SetState(name, chash.Healthy))
				w.SetStateOnly(name, chash.Healthy)
				if err := w.Differ(s, chashtest.RandomKeys(rng, 1), w.RandomHashes(rng, 1)[rng.IntN(n):]); err != nil {
					t.Fatalf("healthy are %q of slot or point %d, %q: %v", owner, i, with, err)
				}
			}
			for _, name := range []string{owner, with} {
				require.NoError(t, s.SetState(name, chash.Unhealthy))
				w.SetStateOnly(name, chash.Unhealthy)
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
	chashtest.Rounds(t, 8, func(t *testing.T, rng *rand.Rand) {
		names := make([]string, 3)
		for i := range names {
			names[i] = fmt.Sprintf("host-%x:8080", rng.Uint32())
		}
		s, err := chashtest.NewMaglev(chash.Named(names...))
		require.NoError(t, err)
		owners := chashtest.SlotOwners(t, s, m)
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
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		chashtest.Rounds(t, 24, func(t *testing.T, rng *rand.Rand) {
			n := 2 + rng.IntN(30)
			w, backends := chashtest.RandomTwin(rng, ring, n), chashtest.RandomBackends(rng, ring, n)
			for i := 1; i < n; i++ { // the first stays healthy, so there is always an answer
				backends[i].State = chash.State(rng.IntN(2))
			}
			backends[0].HashKey = ""
			s := chashtest.Twins(t, w, backends)
			hashes := w.RandomHashes(rng, 1000)
			for _, i := range rng.Perm(n - 1) {
				b := backends[i+1]
				removed := s.Clone()
				require.NoError(t, removed.Remove(b.Name))
				require.NoError(t, s.SetState(b.Name, chash.Draining))
				drained := chashtest.Answers(t, s, hashes)
				chashtest.SameAnswers(t, chashtest.Answers(t, removed, hashes), drained)
				rebuilds := s.Rebuilds()
				require.NoError(t, s.Remove(b.Name))
				chashtest.SameAnswers(t, drained, chashtest.Answers(t, s, hashes))
				require.Equal(t, rebuilds, s.Rebuilds())
			}
		})
	})
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
			chashtest.Rounds(t, 4, func(t *testing.T, rng *rand.Rand) {
				n := 3 + rng.IntN(20)
				backends := chashtest.RandomBackends(rng, true, n)
				w := chashtest.NewTwin(true, 1+rng.IntN(100), 0, options.hash) // without ties: each costs a lookup too much for so many keys
				switch {
				case options.hash == nil:
					w.Seed = rng.Uint64N(2) * rng.Uint64()
				case !options.even: // few points, or one placement would have all positions
					w.Size = 1 + rng.IntN(3)
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
				s, err := w.Build(left)
				require.NoError(t, err)
				without := chashtest.KeyAnswers(t, s, keys)
				require.NoError(t, s.Add(added))
				moved := chashtest.MovedOnly(t, without, chashtest.KeyAnswers(t, s, keys), nil, []string{added.Name})
				require.NoError(t, s.Remove(added.Name))
				chashtest.SameAnswers(t, without, chashtest.KeyAnswers(t, s, keys))

				// The other way round: where the weight of a placement grows, keys move
				// to it only; where it shrinks, from it only.
				name := left[0].Name
				b, _ := s.Backend(name)
				require.NoError(t, s.SetWeight(name, b.Weight+1+rng.Uint32N(5)))
				grown := chashtest.MovedOnly(t, without, chashtest.KeyAnswers(t, s, keys), nil, []string{name})
				require.NoError(t, s.SetWeight(name, b.Weight))
				chashtest.SameAnswers(t, without, chashtest.KeyAnswers(t, s, keys))
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
// prefers it most: no other slot would move. But the slots of
// the removed backend are among the preferences of each other one: about M/n^2 until the
// table of n backends is full, give or take the square root of that, sqrt(M)/n. By so
// many preferences a backend gets ahead of others or falls behind. The two that prefer a slot most
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
	chashtest.Rounds(t, 40, func(t *testing.T, rng *rand.Rand) {
		m := []int{1021, 8191, 65537}[rng.IntN(3)]
		n := []int{2, 3, 5, 10, 30, 100}[rng.IntN(6)]
		var backends []chash.Backend[string]
		most := 1 + 6*rng.Uint32N(2)
		for i := range n {
			b := chash.Backend[string]{Name: fmt.Sprintf("host-%d-%x", i, rng.Uint32()), Weight: 1 + rng.Uint32N(most)}
			b.Value = b.Name
			backends = append(backends, b)
		}
		s, err := chashtest.NewMaglev(backends, chash.WithTableSize(m))
		require.NoError(t, err)
		before := chashtest.SlotOwners(t, s, m)
		lost := backends[rng.IntN(n)]
		require.NoError(t, s.Remove(lost.Name))
		after := chashtest.SlotOwners(t, s, m)
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
		chashtest.SameAnswers(t, before, chashtest.SlotOwners(t, s, m))
	})
	slices.Sort(all)
	slices.Sort(many)
	require.Less(t, all[len(all)/2], 1.5, "median of the slots moved between other backends, by sqrt(M)")
	require.Greater(t, many[len(many)/2], 0.4, "median for ten backends and more")
	require.LessOrEqual(t, all[len(all)*95/100], 3.0, "nineteen in twenty")
}

// TestFailover_IsEven: the keys of a dead backend are spread over the others to within
// 10 % of evenly, for hashes of the caller's of which few bits differ. Each of the nine
// others gets some 2,200 to 3,300 of its keys: 10 % is 4.7 standard deviations of 2,200,
// of which there are 900 here; and the hashes are the same each time.
func TestFailover_IsEven(t *testing.T) {
	const keys = 300_000
	s := chashtest.Must(chashtest.NewMaglev(chashtest.Numbered("b", 10)))
	hashes := map[string]func(i uint64) uint64{
		"crc32 in the lower half": func(i uint64) uint64 { return uint64(crc32.ChecksumIEEE(fmt.Appendf(nil, "key-%d", i))) },
		"crc32 in the upper half": func(i uint64) uint64 { return uint64(crc32.ChecksumIEEE(fmt.Appendf(nil, "key-%d", i))) << 32 },
		"integers":                func(i uint64) uint64 { return i },
		"integers << 10":          func(i uint64) uint64 { return i << 10 },
		"integers << 20":          func(i uint64) uint64 { return i << 20 },
		// Milliseconds, 10 bits of a machine, 12 of a sequence that mostly is 0.
		"Snowflake ids": func(i uint64) uint64 { return (1_700_000_000_000+7*i)<<22 | (i%5)<<12 | i%16/15 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			for dead := range 10 {
				down := fmt.Sprint("b", dead)
				homes := make([]bool, keys)
				for i := range homes {
					homes[i] = chashtest.Must(s.GetHash(hash(uint64(i)))) == down
				}
				require.NoError(t, s.SetState(down, chash.Unhealthy))
				got, total := map[string]int{}, 0
				for i, home := range homes {
					if home {
						got[chashtest.Must(s.GetHash(hash(uint64(i))))]++
						total++
					}
				}
				require.NoError(t, s.SetState(down, chash.Healthy))
				require.Greater(t, total, 20_000)
				for i := range 10 {
					if i != dead {
						require.InEpsilon(t, float64(total)/9, float64(got[fmt.Sprint("b", i)]), 0.1, "keys of b%d that went to b%d", dead, i)
					}
				}
			}
		})
	}
}
