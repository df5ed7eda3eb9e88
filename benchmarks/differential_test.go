package benchmarks_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dchest/siphash"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// kkdaiHash makes a table of chash hash as kkdai/maglev v0.2.0 does. That module,
// as the module proxy serves it, hashes with SipHash-2-4: under one key for
// offsets and for the keys that are looked up, under another for skips. chash
// tells offsets and skips apart by a first byte, which no string here begins with
// of itself since neither is valid UTF-8.
func kkdaiHash(s string) uint64 {
	const offset, skip = 0xBA, 0xBE
	switch {
	case s != "" && s[0] == offset:
		return siphash.Hash(0xdeadbabe, 0, []byte(s[1:]))
	case s != "" && s[0] == skip:
		return siphash.Hash(0xdeadbeef, 0, []byte(s[1:]))
	}
	return siphash.Hash(0xdeadbabe, 0, []byte(s))
}

// randomNames returns n distinct names of many shapes and lengths.
func randomNames(random *rand.Rand, n int) []string {
	shapes := []string{"backend-%d", "10.0.%d.1:8080", "%d", "a/very/long/name/of/a/backend/in/some/zone/%d", "größe-%d"}
	set := make(map[string]bool, n)
	for len(set) < n {
		set[fmt.Sprintf(shapes[random.IntN(len(shapes))], random.IntN(1<<20))] = true
	}
	names := make([]string, 0, n)
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names) // the order of a map differs from run to run
	random.Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// requireSameTable compares the owners of the slots that random keys lead to: with
// five keys a slot, all but one slot in 150.
func requireSameTable(t *testing.T, random *rand.Rand, size int, ours *chash.Maglev[string], theirs interface {
	Get(key string) (string, error)
},
) {
	t.Helper()
	base := random.IntN(1 << 30)
	for i := range max(1000, 5*size) {
		key := fmt.Sprint(base + i)
		want, err := theirs.Get(key)
		require.NoError(t, err)
		got, err := ours.Get(key)
		require.NoError(t, err)
		if got != want {
			require.Equal(t, want, got, "Get(%q)", key)
		}
	}
}

// Equal weights give plain Maglev: the tables of chash are those of an independent
// implementation, whatever the order of additions, and after removals too.
func TestSameTablesAsKkdai(t *testing.T) {
	for seed, test := range []struct{ size, most, times int }{
		{2, 2, 4},
		{13, 13, 20},
		{251, 251, 10},
		{1009, 300, 5},
		{5003, 100, 2},
		{65537, 20, 1},
	} {
		t.Run(fmt.Sprintf("table=%d", test.size), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 42))
			for time := range test.times {
				n := 1 + random.IntN(test.most)
				if time == 0 {
					n = test.most
				}
				names := randomNames(random, n)
				theirs := newKkdai(t, names, test.size)
				ours := newMaglev(t, chash.Named(names...), chash.WithTableSize(test.size), chash.WithHash(kkdaiHash))
				requireSameTable(t, random, test.size, ours, theirs)

				// Added one after the other and in batches, in another order.
				random.Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
				grown := newMaglev[string](t, nil, chash.WithTableSize(test.size), chash.WithHash(kkdaiHash))
				for rest := names; len(rest) > 0; {
					batch := 1 + random.IntN(len(rest))
					require.NoError(t, grown.Add(chash.Named(rest[:batch]...)...))
					rest = rest[batch:]
				}
				requireSameTable(t, random, test.size, grown, theirs)

				for gone := 1 + random.IntN(3); gone > 0 && n > 1; gone-- {
					n--
					require.NoError(t, theirs.Remove(names[n]))
					require.NoError(t, grown.Remove(names[n]))
					requireSameTable(t, random, test.size, grown, theirs)
				}
			}
		})
	}
}

// With the hash that chash has by default the mapping is another one: it is not
// a drop-in replacement for the served v0.2.0 without the WithHash above.
func TestDefaultHashDiffersFromKkdai(t *testing.T) {
	backends := names(5)
	theirs := newKkdai(t, backends, 13)
	ours := newMaglev(t, chash.Named(backends...), chash.WithTableSize(13))
	same := 0
	for _, key := range keys[:1000] {
		want, err := theirs.Get(key)
		require.NoError(t, err)
		got, err := ours.Get(key)
		require.NoError(t, err)
		if got == want {
			same++
		}
	}
	require.Less(t, same, 500)
}
