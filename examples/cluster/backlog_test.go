package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

func testView(t *testing.T, copies int, names ...string) *view {
	t.Helper()
	ring, err := chash.NewRing[peer](nil, chash.WithReplicas(8))
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, ring.Add(chash.Backend[peer]{Name: name, Value: peer{name: name}}))
	}
	return newView("a", ring, copies)
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	const last = math.MaxUint64
	r := func(first, last uint64) chash.Range { return chash.Range{First: first, Last: last} }
	tests := []struct {
		a, b, want chash.Range
		some       bool
	}{
		{r(0, last), r(0, last), r(0, last), true},
		{r(0, last), r(5, 8), r(5, 8), true},
		{r(5, last), r(0, 8), r(5, 8), true},
		{r(5, last), r(7, last), r(7, last), true},
		{r(5, 8), r(7, 11), r(7, 8), true},
		{r(5, 8), r(8, 9), at(8), true},
		{r(5, 8), r(9, 11), chash.Range{}, false},
		{r(5, 8), r(20, last), chash.Range{}, false},
		{at(last), r(7, last), at(last), true},
		{at(last), r(0, last-1), chash.Range{}, false},
		{at(0), r(0, last), at(0), true},
	}
	for _, test := range tests {
		for _, pair := range [][2]chash.Range{{test.a, test.b}, {test.b, test.a}} {
			got, some := overlap(pair[0], pair[1])
			require.Equal(t, test.some, some, "%v", pair)
			if some {
				require.Equal(t, test.want, got, "%v", pair)
			}
		}
	}
}

// What a backlog says of a position, after any changes, is what the changes one by
// one say of it.
func TestBacklog_GoesOn(t *testing.T) {
	t.Parallel()
	const self = "a"
	for trial := range 20 {
		copies := 1 + trial%3
		v := testView(t, copies)
		var b backlog
		positions := []uint64{0, math.MaxUint64}
		for range 100 {
			positions = append(positions, rand.Uint64())
		}
		sources := map[uint64][]string{} // of positions that are incoming
		out := map[uint64]bool{}
		for range 8 {
			var names []string
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				if rand.N(3) > 0 {
					names = append(names, name)
				}
			}
			next := testView(t, copies, names...)
			diff, err := v.ring.Diff(next.ring)
			require.NoError(t, err)
			after := newBacklog(self, next, diff)
			after.goOn(self, next, b)
			b = after
			for _, p := range positions {
				before, after := heldBy(v, p), heldBy(next, p)
				had, has := slices.Contains(before, self), slices.Contains(after, self)
				switch {
				case !has:
					delete(sources, p)
				case !had:
					sources[p] = before
				}
				grown := slices.ContainsFunc(after, func(s string) bool { return !slices.Contains(before, s) })
				out[p] = out[p] || had && (!has || grown)

				piece, in := b.at(p)
				want, wantIn := sources[p]
				require.Equal(t, wantIn, in, "position %d", p)
				if in {
					require.ElementsMatch(t, want, piece.Sources)
				}
				require.Equal(t, out[p], slices.ContainsFunc(slices.Collect(maps.Keys(b.outgoing)), func(r chash.Range) bool { return r.Contains(p) }))
			}
			v = next
			for i, p := range b.incoming {
				for _, q := range b.incoming[:i] {
					_, some := overlap(p.Range, q.Range)
					require.False(t, some, "%v and %v", p, q)
				}
			}
		}
	}
}

// heldBy returns the names of a position's holders.
func heldBy(v *view, position uint64) (names []string) {
	for r, holders := range v.ring.Holders(v.copies) {
		if r.Contains(position) {
			return holders
		}
	}
	return nil
}

func TestBacklog_Missing(t *testing.T) {
	t.Parallel()
	v := testView(t, 2, "a", "b", "c", "d")
	var held, other chash.Range
	for r, holders := range v.ring.Holders(2) {
		if slices.Contains(holders, "a") {
			held = r
		} else {
			other = r
		}
	}
	var b backlog
	require.Empty(t, b.missing(v, []chash.Range{held}), "what is held and not incoming")
	require.Equal(t, []piece{{Range: other, Sources: heldBy(v, other.First)}}, b.missing(v, []chash.Range{other}))
	half := chash.Range{First: held.First, Last: held.First + (held.Last-held.First)/2}
	b.incoming = []piece{{half, []string{"gone", "b", "c"}, []string{"a", "b"}}}
	require.Equal(t, []piece{{Range: half, Sources: []string{"c"}}}, b.missing(v, []chash.Range{held}))
}

// All sources are asked until one has everything or nobody is left, those that the
// others name included; who is no member is not asked, and nobody is twice.
func TestPiece_Sources(t *testing.T) {
	t.Parallel()
	v := testView(t, 2, "a", "b", "c", "d")
	p := piece{everything, []string{"gone", "b", "c"}, []string{"a"}}
	require.Equal(t, []string{"b", "c"}, p.open(v))
	require.Empty(t, p.rest("b", nil), "b had everything")

	parts := p.rest("b", []piece{
		{Range: chash.Range{First: 10, Last: 19}, Sources: []string{"a", "b", "d"}},
		{Range: chash.Range{First: 30, Last: 39}, Sources: []string{"c"}},
	})
	require.Equal(t, []chash.Range{{First: 10, Last: 19}, {First: 30, Last: 39}}, []chash.Range{parts[0].Range, parts[1].Range})
	var asked []string
	for q := parts[0]; len(q.open(v)) > 0; {
		source := q.open(v)[0]
		asked = append(asked, source)
		q = q.rest(source, []piece{{Range: q.Range, Sources: []string{"a", "b", "c", "d"}}})[0]
	}
	require.Equal(t, []string{"c", "d"}, asked)
}

// What is left of a piece takes its place, and one that is over meanwhile has none.
func TestBacklog_Replace(t *testing.T) {
	t.Parallel()
	of := func(first, end uint64) piece { return piece{Range: chash.Range{First: first, Last: end - 1}} }
	b := backlog{incoming: []piece{of(0, 10), of(10, 20), of(20, 30)}}
	b.replace(of(10, 20), []piece{of(11, 12), of(15, 20)})
	require.Equal(t, []piece{of(0, 10), of(11, 12), of(15, 20), of(20, 30)}, b.incoming)
	b.replace(of(10, 20), []piece{of(13, 14)})
	require.Len(t, b.incoming, 4)
	_, found := b.at(12)
	require.False(t, found)
	p, found := b.at(19)
	require.True(t, found)
	require.Equal(t, of(15, 20), p)
	b.replace(p, nil)
	require.Len(t, b.incoming, 3)
}

// A write that fails while its range is handed over is still to be.
func TestBacklog_HandedOver(t *testing.T) {
	t.Parallel()
	b := backlog{outgoing: map[chash.Range]int{}}
	b.handOver(at(1))
	b.handOver(at(2))
	taken := maps.Clone(b.outgoing)
	b.handOver(at(2))
	b.handOver(at(3))
	require.False(t, b.settled())
	b.handedOver(taken)
	require.ElementsMatch(t, []chash.Range{at(2), at(3)}, slices.Collect(maps.Keys(b.outgoing)))
	b.handedOver(maps.Clone(b.outgoing))
	require.True(t, b.settled())
}
