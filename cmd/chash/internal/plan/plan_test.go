package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

func named(n int) []mapping.Backend {
	backends := make([]mapping.Backend, n)
	for i := range backends {
		backends[i].Name = fmt.Sprintf("b-%d", i)
	}
	return backends
}

// TestEvaluate: the figures are those of the library, and those of a hash for every slot.
func TestEvaluate(t *testing.T) {
	change := Change{Before: named(10), After: named(13)[1:]}
	change.After[2].Weight = 3
	for _, spec := range []mapping.Spec{{TableSize: 1009}, {Structure: mapping.Ring, Replicas: 30}} {
		row, err := change.Evaluate(spec, false)
		require.NoError(t, err)
		before, err := spec.Build(change.Before)
		require.NoError(t, err)
		after, err := spec.Build(change.After)
		require.NoError(t, err)
		d, err := before.Diff(after)
		require.NoError(t, err)
		require.InDelta(t, d.Moved, row.Moved, 0)
		require.InDelta(t, d.Least, row.Least, 0)
		require.InDelta(t, d.Moved/d.Least, row.Times, 1e-12)
		require.Equal(t, d.Flows, row.Flows)

		if table := before.Table(); table != nil {
			moved, counts := 0, map[string]float64{}
			for slot := range uint64(1009) {
				a, err := table.GetHash(slot)
				require.NoError(t, err)
				b, err := after.Table().GetHash(slot)
				require.NoError(t, err)
				if before.Name(a) != after.Name(b) {
					moved++
				}
				counts[after.Name(b)]++
			}
			require.InDelta(t, float64(moved)/1009, row.Moved, 1e-12)
			least, most := math.Inf(1), 0.0
			for _, b := range change.After {
				ratio := counts[b.Name] / 1009 * 14 / float64(max(1, b.Weight))
				least, most = min(least, ratio), max(most, ratio)
			}
			require.InDelta(t, least, row.Evenness.Least, 1e-9)
			require.InDelta(t, most, row.Most, 1e-9)
		}
	}
}

func TestEvaluate_Cost(t *testing.T) {
	row, err := Change{Before: named(5), After: named(6)}.Evaluate(mapping.Spec{TableSize: 1000003}, true)
	require.NoError(t, err)
	require.InEpsilon(t, 1000003, row.Cost.Memory, 0.1, "a byte a slot")
	require.Positive(t, row.Cost.Change)
	require.Positive(t, row.Cost.Build)
	require.Positive(t, row.Cost.Lookup)
}

func TestTimes(t *testing.T) {
	require.InDelta(t, 2, Times(0.2, 0.1), 1e-12)
	require.InDelta(t, 1, Times(0, 0), 0)
	require.Zero(t, Times(0.1, 0), "there is no such multiple")
}

// TestRollout_Steps: whatever the change, the steps lead from the state before to the one
// after, no step replaces more than the batch, and Surge adds before it removes.
func TestRollout_Steps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		change := Change{Before: named(1 + random.IntN(12))}
		for _, b := range named(14) {
			if random.IntN(2) == 0 {
				b.Weight = uint32(random.IntN(2))
				change.After = append(change.After, b)
			}
		}
		if len(change.After) == 0 {
			continue
		}
		rollout := Rollout{Batch: random.IntN(4), Surge: random.IntN(2) == 0}
		steps := rollout.Steps(change)
		state := change.Before
		for _, s := range steps {
			require.LessOrEqual(t, max(len(s.Added), len(s.Removed), len(s.Changed)), max(1, rollout.Batch))
			require.NotEmpty(t, append(append(append([]string{}, s.Added...), s.Removed...), s.Changed...))
			if rollout.Surge {
				require.False(t, len(s.Added) > 0 && len(s.Removed) > 0)
			}
			state = s.after
		}
		require.ElementsMatch(t, change.After, state)
		added, removed, changed := change.Names()
		var gotAdded, gotRemoved, gotChanged []string
		for _, s := range steps {
			gotAdded, gotRemoved, gotChanged = append(gotAdded, s.Added...), append(gotRemoved, s.Removed...), append(gotChanged, s.Changed...)
		}
		require.ElementsMatch(t, added, gotAdded)
		require.ElementsMatch(t, removed, gotRemoved)
		require.ElementsMatch(t, changed, gotChanged)
	}
}

// TestRollout_Evaluate: a step moves what the difference of its states is, and on a table
// without a limit just what must move.
func TestRollout_Evaluate(t *testing.T) {
	unlimited := mapping.Slack(math.Inf(1))
	spec := mapping.Spec{TableSize: 1009, Slack: &unlimited}
	change := Change{Before: named(8), After: Replaced(named(8), "-new", false)}
	steps, err := Rollout{Batch: 2}.Evaluate(change, spec)
	require.NoError(t, err)
	require.Len(t, steps, 4)
	total := 0.0
	for _, s := range steps {
		require.Positive(t, s.Moved)
		total += s.Moved
		require.InDelta(t, total, s.Total, 1e-12)
	}
	kept := Change{Before: named(8), After: Replaced(named(8), "-new", true)}
	require.Equal(t, "b-3", kept.After[3].HashKey)
	steps, err = Rollout{Batch: 2}.Evaluate(kept, spec)
	require.NoError(t, err)
	require.InDelta(t, 1, steps[3].Total, 1e-9, "each key goes once, to the backend that takes the place of its own")
}

func TestRecommend(t *testing.T) {
	row := func(name string, moved, least, most float64) Row {
		return Row{Name: name, Moved: moved, Least: least, Evenness: mapping.Evenness{Most: most}}
	}
	rows := []Row{row("a", 0.12, 0.1, 1.0), row("b", 0.1004, 0.1, 1.01), row("c", 0.09, 0.09, 1.04), row("d", 0.05, 0.05, 1.2)}
	for _, test := range []struct {
		limits Limits
		want   string
	}{
		{Limits{}, "b"},                // c is not better by enough
		{Limits{MaxShare: 1.005}, "a"}, // the only one that is so even
		{Limits{MaxShare: 1.3}, "b"},
		{Limits{MaxMoved: 0.095}, "c"},
		{Limits{MaxMoved: 0.06}, "d"}, // the only one that meets the limit
		{Limits{MaxShare: 0.5}, "a"},  // none does: the most even one
	} {
		best, why := Recommend(rows, test.limits)
		require.Equal(t, test.want, rows[best].Name, "%+v", test.limits)
		require.Contains(t, why, test.want)
	}
	require.True(t, Limits{MaxMoved: 0.1}.Meets(row("", 0.1, 0, 2)))
	require.False(t, Limits{MaxMoved: 0.1}.Meets(row("", 0.11, 0, 2)))
	require.False(t, Limits{MaxShare: 1.5}.Meets(row("", 0, 0, 2)))
	steps := row("", 1, 1, 1)
	steps.Steps = []Step{{Moved: 0.2, Most: 1.1}, {Moved: 0.1, Most: 1.3}}
	require.True(t, Limits{MaxMoved: 0.2, MaxShare: 1.3}.Meets(steps), "the limits are for each step")
	require.False(t, Limits{MaxMoved: 0.19}.Meets(steps))
	require.False(t, Limits{MaxShare: 1.2}.Meets(steps))
}

// TestStudy: a ring moves the fewest keys, and a larger table moves fewer than a small one.
func TestStudy(t *testing.T) {
	ring, err := Study(mapping.Spec{Structure: mapping.Ring}, 10, 2, false)
	require.NoError(t, err)
	require.InDelta(t, 1, ring.RemovedTimes, 1e-9)
	require.InDelta(t, 1, ring.AddedTimes, 1e-9)
	require.Equal(t, 10*chash.DefaultReplicas, ring.Size)
	small, err := Study(mapping.Spec{TableSize: 211}, 20, 3, false)
	require.NoError(t, err)
	large, err := Study(mapping.Spec{TableSize: 2003}, 20, 3, false)
	require.NoError(t, err)
	require.Greater(t, small.RemovedTimes, large.RemovedTimes)
	require.Greater(t, large.RemovedTimes, 1.0)
	require.InDelta(t, 0.05, large.Removed/large.RemovedTimes, 0.001)
	one, err := Study(mapping.Spec{TableSize: 13}, 1, 1, false)
	require.NoError(t, err)
	require.Zero(t, one.Removed, "the last one cannot go")
}

// With 13 slots for 5 backends, three own 3 and two own 2.
func TestStudy_KnownTable(t *testing.T) {
	row, err := Study(mapping.Spec{TableSize: 13}, 5, 3, false)
	require.NoError(t, err)
	require.InDelta(t, 2*5/13.0, row.Least, 1e-9)
	require.InDelta(t, 3*5/13.0, row.Most, 1e-9)
}

func TestCandidates(t *testing.T) {
	for _, n := range []int{1, 100, 10_000, 150_000} {
		for _, spec := range Candidates(n) {
			require.NoError(t, spec.Check())
			if spec.Structure == mapping.Maglev {
				require.GreaterOrEqual(t, spec.Size(), chash.TableSizeFor(n))
			}
		}
	}
}
