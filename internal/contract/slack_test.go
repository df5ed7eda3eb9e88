package contract_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// A fast fill and a plain sort of all claims agree.
func TestSlack_Twin(t *testing.T) {
	chashtest.Rounds(t, 400, func(t *testing.T, rng *rand.Rand) {
		n := 1 + rng.IntN(30)
		w := chashtest.RandomTwin(rng, false, n)
		w.Slack = chashtest.RandomSlack(rng)
		backends := chashtest.RandomBackends(rng, false, n)
		require.Empty(t, w.Add(backends...))
		m, err := w.Build(backends)
		require.NoError(t, err)
		chashtest.SameAnswers(t, w.Owners, hashKeysOfSlots(t, m, w.Size))
	})
}

// hashKeysOfSlots are the hash keys of the backends that own the slots.
func hashKeysOfSlots(t *testing.T, s chashtest.Structure, m int) []string {
	t.Helper()
	owners := chashtest.SlotOwners(t, s, m)
	keys := map[string]string{}
	for _, b := range s.Backends() {
		keys[b.Value] = chashtest.HashKeyOf(b)
	}
	for slot := range owners {
		owners[slot] = keys[owners[slot]]
	}
	return owners
}

// Whatever changes led to a set of backends, its table is the one that is built of
// it at once. Without a limit most of these changes are made slot by slot.
func TestSlack_History(t *testing.T) {
	chashtest.Rounds(t, 40, func(t *testing.T, rng *rand.Rand) {
		size := []int{251, 1021, 4093, 16381}[rng.IntN(4)]
		opts := []chash.MaglevOption{chash.WithTableSize(size), chash.WithSlack(*chashtest.RandomSlack(rng)), chash.WithSeed(rng.Uint64N(2))}
		weights := []func() uint32{
			func() uint32 { return 1 },
			func() uint32 { return 1 + rng.Uint32N(7) },
			func() uint32 { return 1 + rng.Uint32N(1<<rng.IntN(32)) },
		}
		weight := weights[rng.IntN(len(weights))]
		live := chashtest.Numbered("b", 2+rng.IntN(60))
		for i := range live {
			live[i].Weight = weight()
		}
		m, err := chash.NewMaglev(live, opts...)
		require.NoError(t, err)
		for step := range 12 {
			switch {
			case step == 4: // from one byte a slot to two, and back
				require.NoError(t, m.Add(chashtest.Numbered("many", 240)[:min(240, size-m.Len())]...))
			case rng.IntN(3) == 0 && m.Len()+3 <= size:
				added := chashtest.Numbered(fmt.Sprint("step", step, "-"), 1+rng.IntN(3))
				for i := range added {
					added[i].Weight = weight()
				}
				require.NoError(t, m.Add(added...))
			case rng.IntN(2) == 0:
				backends := m.Backends()
				require.NoError(t, m.SetWeight(backends[rng.IntN(len(backends))].Name, weight()))
			default:
				backends := m.Backends()
				gone := backends[rng.IntN(len(backends))].Name
				if step == 6 {
					for _, b := range backends {
						if b.Weight == 1 && b.Name != gone {
							require.NoError(t, m.Remove(b.Name))
							break
						}
					}
				}
				if m.Len() > 1 {
					require.NoError(t, m.Remove(gone))
				}
			}
			fresh, err := chash.NewMaglev(m.Backends(), opts...)
			require.NoError(t, err)
			require.Equal(t, fresh.AppendTable(nil), m.AppendTable(nil), "step %d", step)
			require.Equal(t, fresh.Shares(), m.Shares(), "step %d", step)
		}
	})
}

// No slot and placement would both rather have each other than what they have, and
// no placement has more slots than its cap.
func TestSlack_NoBlockingPair(t *testing.T) {
	chashtest.Rounds(t, 30, func(t *testing.T, rng *rand.Rand) {
		n := 2 + rng.IntN(40)
		w := chashtest.NewTwin(false, []int{251, 1021, 4093}[rng.IntN(3)], 0, nil)
		w.Slack = chashtest.RandomSlack(rng)
		backends := chashtest.RandomBackends(rng, false, n)
		require.Empty(t, w.Add(backends...))
		m, err := w.Build(backends)
		require.NoError(t, err)
		owners := hashKeysOfSlots(t, m, w.Size)

		weights := chashtest.PlacementsOf(w.Backends)
		caps := w.Caps(weights)
		claims := w.Claims(weights)
		latest := map[string]chashtest.TwinClaim{} // that was won, by placement
		winner := map[uint64]chashtest.TwinClaim{}
		won := map[string]int{}
		for _, c := range claims {
			if owners[c.Slot] == c.HashKey {
				latest[c.HashKey], winner[c.Slot] = c, c
				won[c.HashKey]++
			}
		}
		for _, c := range claims {
			require.LessOrEqual(t, won[c.HashKey], caps[c.HashKey], "slots of %q", c.HashKey)
			wants := won[c.HashKey] < caps[c.HashKey] || c.Compare(latest[c.HashKey]) < 0
			if wants && c.Compare(winner[c.Slot]) < 0 {
				t.Fatalf("slot %d is of %q, but would rather be of %q, which would rather have it", c.Slot, owners[c.Slot], c.HashKey)
			}
		}
	})
}

// The share of no backend is above the fair one by more than the slack, to a slot
// for rounding and one where the caps would be too few.
func TestSlack_SharesAreBelowTheCap(t *testing.T) {
	chashtest.Rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
		const size = 65537
		slack := []float64{0, 0.01, 0.02, 0.05, 0.5}[rng.IntN(5)]
		backends := chashtest.RandomBackends(rng, false, 1+rng.IntN(200))
		total := int64(0)
		for i := range backends {
			backends[i].HashKey = ""
			total += chashtest.WeightOf(backends[i])
		}
		m, err := chash.NewMaglev(backends, chash.WithSlack(slack))
		require.NoError(t, err)
		weights := map[string]int64{}
		for _, b := range backends {
			weights[b.Name] = chashtest.WeightOf(b)
		}
		for _, share := range m.Shares() {
			fair := new(big.Rat).SetFrac64(weights[share.Name], total)
			most, _ := fair.Mul(fair, big.NewRat(size, 1)).Float64()
			require.LessOrEqual(t, float64(share.Size), max(1, (1+slack+1.0/65536)*most+2), share.Name)
		}
	})
}

// Without a limit a removal moves the slots of the one that goes, an addition those
// that the new one gets, and no other: the fewest possible, every time.
func TestSlack_NoLimitMovesTheFewest(t *testing.T) {
	chashtest.Rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
		size := []int{251, 4093, 65537}[rng.IntN(3)]
		backends := chashtest.RandomBackends(rng, false, 2+rng.IntN(100))
		for i := range backends {
			backends[i].HashKey = ""
		}
		m, err := chashtest.NewMaglev(backends, chash.WithTableSize(size), chash.WithSlack(math.Inf(1)))
		require.NoError(t, err)
		all := chashtest.SlotOwners(t, m, size)
		gone := backends[rng.IntN(len(backends))]
		require.NoError(t, m.Remove(gone.Name))
		without := chashtest.SlotOwners(t, m, size)
		chashtest.MovedOnly(t, all, without, []string{gone.Value}, nil)
		require.NoError(t, m.Add(gone))
		chashtest.SameAnswers(t, all, chashtest.SlotOwners(t, m, size))

		b := m.Backends()[rng.IntN(m.Len())]
		require.NoError(t, m.SetWeight(b.Name, max(1, b.Weight/2)))
		lighter := chashtest.SlotOwners(t, m, size)
		chashtest.MovedOnly(t, all, lighter, []string{b.Value}, nil)
	})
}

// With a slack of 1 %, a removal or an addition among 100 equal backends moves at
// most 1.2 times the fewest slots, on average.
func TestSlack_OnePercentMovesFew(t *testing.T) {
	const n, sets = 100, 5
	var moved, fewest int
	for set := range sets {
		backends := chashtest.Numbered(fmt.Sprintf("set-%d-", set), n+1)
		m, err := chashtest.NewMaglev(backends[:n], chash.WithSlack(0.01))
		require.NoError(t, err)
		before := chashtest.SlotOwners(t, m, chash.DefaultTableSize)
		require.NoError(t, m.Add(backends[n]))
		with := chashtest.SlotOwners(t, m, chash.DefaultTableSize)
		require.NoError(t, m.Remove(backends[n].Name, backends[set].Name))
		without := chashtest.SlotOwners(t, m, chash.DefaultTableSize)
		for slot := range before {
			if before[slot] != with[slot] {
				moved++
			}
			if with[slot] == backends[n].Name {
				fewest++
			}
			if before[slot] != without[slot] {
				moved++
			}
			if before[slot] == backends[set].Name {
				fewest++
			}
		}
	}
	require.LessOrEqual(t, float64(moved), 1.2*float64(fewest))
	require.Greater(t, moved, fewest, "a limit moves some that need not move")
}

func TestWithSlack_Invalid(t *testing.T) {
	for _, e := range []float64{-1, -1e-300, math.Inf(-1), math.NaN()} {
		_, err := chash.NewMaglev(chashtest.Numbered("b", 3), chash.WithSlack(e))
		chashtest.CheckError(t, fmt.Sprintf("NewMaglev with a slack of %v", e), err, chash.ErrInvalidOption, fmt.Sprint(e))
	}
}

func TestWithSlack(t *testing.T) {
	backends := chashtest.Numbered("b", 20)
	plain, err := chash.NewMaglev(backends, chash.WithTableSize(251))
	require.NoError(t, err)
	require.Nil(t, plain.Config().Slack)
	require.Nil(t, plain.Clone().Config().Slack)
	even, err := chash.NewMaglev(backends, chash.WithTableSize(251), chash.WithSlack(0.3), chash.WithSlack(math.Copysign(0, -1)))
	require.NoError(t, err)
	require.NotEqual(t, plain.AppendTable(nil), even.AppendTable(nil))
	require.False(t, math.Signbit(*even.Config().Slack), "the last one counts, and -0 is 0")

	e := 0.25
	m, err := chash.NewMaglev(backends[:19], chash.WithTableSize(251), chash.Config{Slack: &e})
	require.NoError(t, err)
	e = 0
	*m.Config().Slack = 7
	require.InDelta(t, 0.25, *m.Config().Slack, 0, "what the caller has is the caller's")
	clone := m.Clone()
	require.NoError(t, clone.Add(backends[19]))
	alike, err := chash.NewMaglev(backends, clone.Config())
	require.NoError(t, err)
	require.Equal(t, alike.AppendTable(nil), clone.AppendTable(nil))
	require.Equal(t, alike.Fingerprint(), clone.Fingerprint())
	require.NotEqual(t, even.Fingerprint(), clone.Fingerprint())

	r, err := chash.NewRing(backends, clone.Config())
	require.NoError(t, err)
	require.Nil(t, r.Config().Slack)
}

// Diff answers what another slack would move.
func TestSlack_Diff(t *testing.T) {
	backends := chashtest.Numbered("b", 20)
	var tables []*chash.Maglev[string]
	for _, opts := range [][]chash.MaglevOption{nil, {chash.WithSlack(0)}, {chash.WithSlack(0.1)}, {chash.WithSlack(math.Inf(1))}} {
		m, err := chash.NewMaglev(backends, append(opts, chash.WithTableSize(1021))...)
		require.NoError(t, err)
		tables = append(tables, m)
	}
	for _, before := range tables {
		for _, after := range tables {
			d, err := before.Diff(after)
			require.NoError(t, err)
			moved := 0
			a, b := before.AppendTable(nil), after.AppendTable(nil)
			for slot := range a {
				if a[slot] != b[slot] {
					moved++
				}
			}
			require.Equal(t, before != after, moved > 0)
			require.InDelta(t, float64(moved)/1021, d.Moved, 1e-12)
		}
	}
}

func TestSlack_Marshal(t *testing.T) {
	build := func(opts ...chash.MaglevOption) []byte {
		m, err := chash.NewMaglev(chashtest.Numbered("b", 5), append(opts, chash.WithTableSize(61))...)
		require.NoError(t, err)
		data, err := m.Marshal(nil)
		require.NoError(t, err)
		return data
	}
	for _, e := range []float64{0, 0.01, 1e-12, 5, math.Inf(1)} {
		data := build(chash.WithSlack(e))
		m, err := chash.UnmarshalMaglev[string](data, nil)
		require.NoError(t, err)
		require.InDelta(t, e, *m.Config().Slack, 0)
		again, err := m.Marshal(nil)
		require.NoError(t, err)
		require.Equal(t, data, again)
		_, err = chash.UnmarshalMaglev[string](data, nil, chash.WithSlack(e))
		require.NoError(t, err)
		for _, other := range []float64{e + 1, -1, math.NaN()} {
			if other == e {
				continue
			}
			_, err = chash.UnmarshalMaglev[string](data, nil, chash.WithSlack(other))
			chashtest.CheckError(t, "UnmarshalMaglev with another slack", err, chash.ErrOptionsDiffer, fmt.Sprint(other), fmt.Sprint(e))
		}
		_, err = chash.UnmarshalMaglev[string](build(), nil, chash.WithSlack(e))
		chashtest.CheckError(t, "UnmarshalMaglev with a slack that was not there", err, chash.ErrOptionsDiffer, "none", fmt.Sprint(e))
	}

	// The option is number 7, after the others, and of 8 bytes.
	data := build(chash.WithSlack(0.5))
	at := bytes.Index(data, binary.BigEndian.AppendUint64([]byte{7}, math.Float64bits(0.5)))
	require.Equal(t, 8+1+8, at)
	plain := build()
	require.Equal(t, append(bytes.Clone(plain[:at]), data[at:at+9]...), data[:at+9])
	for _, bad := range []float64{-1, math.Copysign(0, -1), math.NaN(), math.Inf(-1)} {
		damaged := bytes.Clone(data)
		binary.BigEndian.PutUint64(damaged[at+1:], math.Float64bits(bad))
		body := damaged[:len(damaged)-8]
		binary.BigEndian.PutUint64(damaged[len(body):], xxhash.Sum64(body))
		_, err := chash.UnmarshalMaglev[string](damaged, nil)
		chashtest.CheckError(t, fmt.Sprintf("UnmarshalMaglev of a slack of %v", bad), err, chash.ErrCorrupt)
	}
}

// One that weighs more than all others together comes and goes, with claims that are
// all earlier than those of the others.
func TestSlack_HeavyComesAndGoes(t *testing.T) {
	for _, weight := range []uint32{2, 1000, math.MaxUint32} {
		opts := []chash.MaglevOption{chash.WithTableSize(1021), chash.WithSlack(math.Inf(1))}
		m, err := chash.NewMaglev(chashtest.Numbered("b", 3), opts...)
		require.NoError(t, err)
		before := m.AppendTable(nil)
		require.NoError(t, m.Add(chash.Backend[string]{Name: "heavy", Weight: weight}))
		fresh, err := chash.NewMaglev(m.Backends(), opts...)
		require.NoError(t, err)
		require.Equal(t, fresh.AppendTable(nil), m.AppendTable(nil))
		require.NoError(t, m.Remove("heavy"))
		require.Equal(t, before, m.AppendTable(nil))
	}
}

// Tiny tables, in which caps are 0 and 1, ties are many, and every rule of the caps
// counts.
func TestSlack_TwinOfTinyTables(t *testing.T) {
	chashtest.Rounds(t, 3000, func(t *testing.T, rng *rand.Rand) {
		size := []int{2, 3, 5, 7, 13, 31}[rng.IntN(6)]
		n := 1 + rng.IntN(size)
		w := chashtest.NewTwin(false, size, rng.Uint64(), nil)
		slack := []float64{0, 0, 0, 1.0 / 65536, 0.1, 0.5}[rng.IntN(6)]
		w.Slack = &slack
		backends := chashtest.Numbered("b", n)
		for i := range backends {
			backends[i].Weight = 1 + rng.Uint32N(1<<rng.IntN(10))
		}
		require.Empty(t, w.Add(backends...))
		m, err := w.Build(backends)
		require.NoError(t, err)
		chashtest.SameAnswers(t, w.Owners, chashtest.SlotOwners(t, m, size))
	})
}

// A slack is rounded to the nearest multiple of 1/65536.
func TestSlack_IsRounded(t *testing.T) {
	const size = 1000003
	table := func(units float64) []uint32 {
		m, err := chash.NewMaglev(chashtest.Numbered("b", 10), chash.WithTableSize(size), chash.WithSlack(units/65536))
		require.NoError(t, err)
		return m.AppendTable(nil)
	}
	three := table(3)
	require.True(t, slices.Equal(three, table(2.5)))
	require.True(t, slices.Equal(three, table(3.4)))
	require.False(t, slices.Equal(three, table(2.4)))
	require.False(t, slices.Equal(three, table(3.5)))
}

// The smallest change of a weight counts.
func TestSlack_OneUnitOfWeight(t *testing.T) {
	opts := []chash.MaglevOption{chash.WithTableSize(4093), chash.WithSlack(math.Inf(1))}
	m, err := chash.NewMaglev(chashtest.Numbered("b", 30), opts...)
	require.NoError(t, err)
	for _, weight := range []uint32{2, 3, 4, 3, 2, 1} {
		require.NoError(t, m.SetWeight("b7", weight))
		fresh, err := chash.NewMaglev(m.Backends(), opts...)
		require.NoError(t, err)
		require.Equal(t, fresh.AppendTable(nil), m.AppendTable(nil), "weight %d", weight)
	}
}
