package live

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// Each test compares at least as many random keys.
const leastKeys = 20_000

// A Source draws what a test is made of.
type Source struct{ *rand.Rand }

// NewSource returns a source whose seed is that of the variable CHASH_SEED or a random
// one, which a test that fails prints.
func NewSource(t testing.TB) Source {
	seed := rand.Uint64()
	if text := os.Getenv("CHASH_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run it again with CHASH_SEED=%d", seed)
		}
	})
	return Source{rand.New(rand.NewPCG(seed, 0))}
}

// Between returns a number from low to high.
func (s Source) Between(low, high int) int { return low + s.IntN(high-low+1) }

// Loopback returns an address of the loopback interface, which has 2^24 of them.
func (s Source) Loopback() string {
	return fmt.Sprintf("127.%d.%d.%d", s.Between(1, 254), s.IntN(256), s.Between(1, 254))
}

// Text returns up to n bytes, at least one, for which allowed holds.
func (s Source) Text(n int, allowed func(c byte) bool) string {
	text := make([]byte, 0, n)
	for want := s.Between(1, n); len(text) < want; {
		if c := byte(s.Uint32()); allowed(c) {
			text = append(text, c)
		}
	}
	return string(text)
}

// Bounds of the length of keys: that of memcached, less what tests put around one, and a
// large one.
const (
	Short = 120
	Long  = 300
)

// Key returns a key of one of several kinds, of up to longest bytes, without control
// characters and spaces.
func (s Source) Key(longest int) string {
	switch s.IntN(4) {
	case 0:
		return "user:" + strconv.Itoa(s.IntN(1_000_000_000))
	case 1:
		return fmt.Sprintf("%016x", s.Uint64())
	case 2:
		return s.Text(30, func(c byte) bool { return c > ' ' && c < 0x7F })
	default:
		return s.Text(longest, func(c byte) bool { return c > ' ' && c != 0x7F })
	}
}

// Keys returns n different keys of up to longest bytes, none of them empty.
func (s Source) Keys(n, longest int) []string {
	keys := make([]string, 0, n)
	met := map[string]bool{}
	for len(keys) < n {
		if key := s.Key(longest); !met[key] {
			met[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// A Pool is the backends of one configuration.
type Pool []chash.Backend[string]

// Pool returns a few of the names, in any order, with weights up to the given one. The
// values are the names.
func (s Source) Pool(names []string, most int, maxWeight int) Pool {
	names = slices.Clone(names)
	s.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	p := Pool(chash.Named(names[:s.Between(1, min(most, len(names)))]...))
	if weighted := s.IntN(3) > 0; weighted {
		for i := range p {
			p[i].Weight = uint32(s.Between(1, maxWeight))
		}
	}
	return p
}

// Weight returns the weight of a backend as a configuration has it.
func Weight(b chash.Backend[string]) uint32 { return max(1, b.Weight) }

// Names returns the names of a pool in its order.
func (p Pool) Names() []string {
	names := make([]string, len(p))
	for i := range p {
		names[i] = p[i].Name
	}
	return names
}

// Down puts one of the backends into a state, unless there is none beside it or most keys
// are its own.
func (s Source) Down(p Pool, state chash.State) {
	total := uint32(0)
	for i := range p {
		total += Weight(p[i])
	}
	if i := s.IntN(len(p)); len(p) > 1 && 5*Weight(p[i]) < 2*total {
		p[i].State = state
	}
}

// A Tally counts the decisions that were compared.
type Tally struct {
	Keys, Pools int
}

// Done checks at the end that there were enough.
func (c *Tally) Done(t testing.TB, what string) {
	t.Helper()
	require.GreaterOrEqual(t, c.Keys, leastKeys)
	t.Logf("%s: %d keys in %d configurations, no difference", what, c.Keys, c.Pools)
}
