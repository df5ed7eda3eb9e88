package chash_test

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// allocated returns how many bytes a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestNewMaglev_BadTableSize(t *testing.T) {
	tests := []struct {
		size int64
		want error
		text []int64 // the size, and the nearest primes on both sides, or the limit
	}{
		{math.MinInt32, chash.ErrTableSizeNotPrime, []int64{-2147483648, 2}},
		{-7, chash.ErrTableSizeNotPrime, []int64{-7, 2}},
		{-1, chash.ErrTableSizeNotPrime, []int64{-1, 2}},
		{0, chash.ErrTableSizeNotPrime, []int64{0, 2}},
		{1, chash.ErrTableSizeNotPrime, []int64{1, 2}},
		{4, chash.ErrTableSizeNotPrime, []int64{4, 3, 5}},
		{9, chash.ErrTableSizeNotPrime, []int64{9, 7, 11}},
		{25, chash.ErrTableSizeNotPrime, []int64{25, 23, 29}},
		{561, chash.ErrTableSizeNotPrime, []int64{561, 557, 563}}, // a Carmichael number
		{65536, chash.ErrTableSizeNotPrime, []int64{65536, 65521, 65537}},
		{65535, chash.ErrTableSizeNotPrime, []int64{65535, 65521, 65537}},
		{46337 * 46337, chash.ErrTableSizeNotPrime, []int64{2147117569, 2147117563, 2147117617}}, // no small factor
		{1<<31 - 2, chash.ErrTableSizeNotPrime, []int64{2147483646, 2147483629, 2147483647}},
		{1 << 31, chash.ErrInvalidOption, []int64{2147483648, 2147483647}},
		{2147483659, chash.ErrInvalidOption, []int64{2147483659}}, // a prime
		{65539 * 65543, chash.ErrInvalidOption, []int64{4295622677}},
		{math.MaxInt64, chash.ErrInvalidOption, []int64{9223372036854775807}},
		{math.MinInt64, chash.ErrTableSizeNotPrime, []int64{-9223372036854775808, 2}},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			size := int(test.size)
			if int64(size) != test.size {
				t.Skip("int has 32 bits here: the size cannot be given")
			}
			for _, backends := range [][]chash.Backend[string]{nil, chash.Named("a")} {
				s, err := chashtest.NewMaglev(backends, chash.WithTableSize(size))
				call := fmt.Sprintf("NewMaglev(%d backends, WithTableSize(%d))", len(backends), size)
				chashtest.CheckError(t, call, err, test.want)
				chashtest.CheckNumbers(t, call, err, test.text...)
				if s != nil {
					t.Errorf("NewMaglev(WithTableSize(%d)) = %v with an error, want nil", size, s)
				}
			}
		})
	}
}

func TestNewMaglev_GoodTableSize(t *testing.T) {
	for _, size := range []int{2, 3, 5, 7, 251, 257, 65521, 65537} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s, err := chashtest.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(size))
			require.NoError(t, err)
			count := chashtest.CountOf(chashtest.SlotsOf(t, s, size))
			if got, want := count["a"], size-size/2; got != want {
				t.Errorf("slots of a = %d, want %d of %d", got, want, size)
			}
			if got, want := count["b"], size/2; got != want {
				t.Errorf("slots of b = %d, want %d of %d", got, want, size)
			}
		})
	}
	t.Run("the default", func(t *testing.T) {
		names := chash.Named("a", "b", "c")
		if got := chash.DefaultTableSize; got != 65537 {
			t.Errorf("DefaultTableSize = %d, want 65537", got)
		}
		want := chashtest.Owners(t, chashtest.Must(chashtest.NewMaglev(names, chash.WithTableSize(65537))))
		chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewMaglev(names)), want)
		chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewMaglev(names, nil)), want)
		chashtest.CheckSameOwners(t, chashtest.Must(chashtest.NewMaglev(names, chash.WithTableSize(7), chash.WithTableSize(65537))), want)
	})
	t.Run("the largest", func(t *testing.T) {
		if got := chash.MaxTableSize; got != 1<<31-1 {
			t.Errorf("MaxTableSize = %d, want %d", got, 1<<31-1)
		}
		var s chashtest.Structure
		var err error
		// As long as nothing is placed, the slots do not exist.
		used := allocated(func() { s, err = chashtest.NewMaglev[string](nil, chash.WithTableSize(chash.MaxTableSize)) })
		require.NoError(t, err)
		if used > 1<<20 {
			t.Errorf("bytes allocated for an empty table = %d, want under a MiB", used)
		}
		chashtest.CheckLookupsFail(t, s, chash.ErrNoBackends)
	})
}

func TestMaglev_TooManyBackends(t *testing.T) {
	for _, m := range []int{2, 7, 251} {
		full := chash.Named(chashtest.ManyNames("b", m)...)
		more := chash.Named("more")[0]
		drained := more
		drained.State = chash.Draining
		made := func(t *testing.T, backends []chash.Backend[string]) chashtest.Structure {
			t.Helper()
			s, err := chashtest.NewMaglev(backends, chash.WithTableSize(m))
			require.NoError(t, err)
			return s
		}

		t.Run(fmt.Sprintf("M=%d/as many as slots", m), func(t *testing.T) {
			s := made(t, full)
			for name, count := range chashtest.CountOf(chashtest.SlotsOf(t, s, m)) {
				if count != 1 {
					t.Errorf("slots of %s = %d, want 1", name, count)
				}
			}
			// Weights change nothing then: each has one slot and no slot is left.
			weighted := slices.Clone(full)
			for i := range weighted {
				weighted[i].Weight = uint32(1 + i*i)
			}
			for name, count := range chashtest.CountOf(chashtest.SlotsOf(t, made(t, weighted), m)) {
				if count != 1 {
					t.Errorf("slots of %s, weighted = %d, want 1", name, count)
				}
			}
		})
		t.Run(fmt.Sprintf("M=%d/constructor", m), func(t *testing.T) {
			s, err := chashtest.NewMaglev(append(slices.Clone(full), more), chash.WithTableSize(m))
			chashtest.CheckError(t, "NewMaglev", err, chash.ErrTooManyBackends)
			chashtest.CheckNumbers(t, "NewMaglev", err, int64(m+1), int64(m))
			if s != nil {
				t.Errorf("NewMaglev = %v with an error, want nil", s)
			}
		})

		tests := []struct {
			call  string
			start []chash.Backend[string]
			do    func(s chashtest.Structure) error
		}{
			{"Add of one too many", full, func(s chashtest.Structure) error { return s.Add(more) }},
			{"Add of one too many, unhealthy", full, func(s chashtest.Structure) error { return s.Add(chashtest.Backend("more", "", 1, chash.Unhealthy)) }},
			{"Add of all and one", nil, func(s chashtest.Structure) error { return s.Add(append(slices.Clone(full), more)...) }},
			{"Set of one too many", full[:1], func(s chashtest.Structure) error { return s.Set(append(slices.Clone(full), more)) }},
			{"SetState from Draining to Healthy", append(slices.Clone(full), drained), func(s chashtest.Structure) error { return s.SetState("more", chash.Healthy) }},
			{"SetState from Draining to Unhealthy", append(slices.Clone(full), drained), func(s chashtest.Structure) error { return s.SetState("more", chash.Unhealthy) }},
		}
		for _, test := range tests {
			t.Run(fmt.Sprintf("M=%d/%s", m, test.call), func(t *testing.T) {
				s := made(t, test.start)
				before := chashtest.StateOf(s)
				err := test.do(s)
				chashtest.CheckError(t, test.call, err, chash.ErrTooManyBackends)
				chashtest.CheckNumbers(t, test.call, err, int64(m+1), int64(m))
				chashtest.CheckState(t, s, test.call, before)
			})
		}

		t.Run(fmt.Sprintf("M=%d/what takes no slot", m), func(t *testing.T) {
			s := made(t, full)
			want := chashtest.Owners(t, s)
			require.NoError(t, s.Add(drained))
			require.NoError(t, s.Add(chashtest.Backend("sharing", full[0].Name, 1, 0)))
			chashtest.CheckSameOwners(t, s, want)
			require.NoError(t, s.SetState(full[1].Name, chash.Draining))
			require.NoError(t, s.SetState("more", chash.Healthy))
			if err := s.SetState(full[1].Name, chash.Healthy); err == nil {
				t.Errorf("SetState(%q, Healthy) = nil, want an error: its slot is taken", full[1].Name)
			}
			require.NoError(t, s.Remove("more"))
			require.NoError(t, s.SetState(full[1].Name, chash.Healthy))
			chashtest.CheckSameOwners(t, s, want)
		})
	}
}

// TestMaglev_Shares has the number of slots that the ranks give, worked out by
// hand: claim k of weight w has rank 0 for k = 0, else (2k+1)/(2w); at equal
// rank the heavier goes first, then the smaller hash key.
func TestMaglev_Shares(t *testing.T) {
	tests := []struct {
		m       int
		weights string // of a, b, ...
		want    []int
	}{
		{2, "1 1", []int{1, 1}},
		{3, "1 1", []int{2, 1}},
		{2, "1 4294967295", []int{1, 1}},
		// b0 a0 b.75 b1.25 a1.5 b1.75 b2.25
		{3, "1 2", []int{1, 2}},
		{5, "1 2", []int{2, 3}},
		{7, "1 2", []int{2, 5}},
		// b0 a0 b.5 b.83 b1.17 b1.5 a1.5: at equal rank the heavier first
		{2, "1 3", []int{1, 1}},
		{5, "1 3", []int{1, 4}},
		{7, "1 3", []int{2, 5}},
		// c0 a0 b0, c.3 .5 .7 .9 1.1 1.3 1.5, a1.5
		{11, "1 1 5", []int{2, 1, 8}},
		{3, "1 1 5", []int{1, 1, 1}},
		// 13 slots for 1:2:4: ideal shares 1.86, 3.71, 7.43
		{13, "1 2 4", []int{2, 4, 7}},
		{13, "4 2 1", []int{7, 4, 2}},
		{13, "2 4 8", []int{2, 4, 7}},
		{13, "1073741824 2147483648 4294967295", []int{2, 4, 7}},
		// The light one has its one slot, whatever the other weighs.
		{65537, "1 4294967295", []int{1, 65536}},
		{65537, "1 65536", []int{1, 65536}},
		{65537, "1 131072", []int{1, 65536}},
		{65537, "1 4294967295 1", []int{1, 65535, 1}},
		// The light one's second claim, at 3/2 of the weights together, does not come.
		// Those are 2^32 and a little more.
		{13, "1 2863311530", []int{1, 12}},
		{13, "1 2863311537", []int{1, 12}},
		{65537, "4294967295 4294967295", []int{32769, 32768}},
		{65537, "4294967294 4294967295", []int{32768, 32769}},
		{65537, "1 2 3", []int{10923, 21846, 32768}},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("M=%d/%s", test.m, test.weights), func(t *testing.T) {
			var backends []chash.Backend[string]
			for i, w := range strings.Fields(test.weights) {
				var weight uint32
				_, err := fmt.Sscan(w, &weight)
				require.NoError(t, err)
				backends = append(backends, chashtest.Backend(string(rune('a'+i)), "", weight, 0))
			}
			s := chashtest.Must(chashtest.NewMaglev(backends, chash.WithTableSize(test.m)))
			count := chashtest.CountOf(chashtest.SlotsOf(t, s, test.m))
			for i, b := range backends {
				if got := count[b.Name]; got != test.want[i] {
					t.Errorf("slots of %s, weight %d = %d, want %d", b.Name, b.Weight, got, test.want[i])
				}
			}
		})
	}
}

func TestMaglev_WeightsAreRelative(t *testing.T) {
	for name, weights := range map[string][2][]uint32{
		"1:2 and 2:4":         {{1, 2}, {2, 4}},
		"0:0 and 9:9":         {{0, 0}, {9, 9}},
		"1:2:3 and large":     {{1, 2, 3}, {1 << 30, 1 << 31, 3 << 30}},
		"equal, and largest":  {{1, 1, 1}, {math.MaxUint32, math.MaxUint32, math.MaxUint32}},
		"3:5 and 858993459 x": {{3, 5}, {3 * 858993459, 5 * 858993459}},
	} {
		t.Run(name, func(t *testing.T) {
			var slots [2][]string
			for i := range slots {
				backends := chash.Named(chashtest.ManyNames("b", len(weights[i]))...)
				for j := range backends {
					backends[j].Weight = weights[i][j]
				}
				slots[i] = chashtest.SlotsOf(t, chashtest.Must(chashtest.NewMaglev(backends, chash.WithTableSize(1021))), 1021)
			}
			if !slices.Equal(slots[0], slots[1]) {
				t.Errorf("slots for weights %v and %v differ, want the same", weights[0], weights[1])
			}
		})
	}
}

// TestMaglev_ReadmeExample is the mapping that the README shows.
func TestMaglev_ReadmeExample(t *testing.T) {
	s := chashtest.Must(chashtest.NewMaglev(chash.Named("backend-0", "backend-1", "backend-2", "backend-3", "backend-4"), chash.WithTableSize(13)))
	chashtest.CheckKeys(t, s, map[string]string{"10.0.0.1": "backend-4", "10.0.0.3": "backend-0"})
	require.NoError(t, s.Remove("backend-0"))
	chashtest.CheckKeys(t, s, map[string]string{"10.0.0.1": "backend-4", "10.0.0.3": "backend-4"})
}

// plainTable fills a table for equal weights in the plainest way.
func plainTable(names []string, m int, hash func(string) uint64) []string {
	names = slices.Sorted(slices.Values(names))
	slots := make([]string, m)
	taken := make([]bool, m)
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = int(hash("\xba"+name) % uint64(m))
	}
	for filled := 0; filled < m; {
		for i, name := range names {
			if filled == m {
				break
			}
			skip := int(hash("\xbe"+name)%uint64(m-1)) + 1
			for taken[at[i]] {
				at[i] = (at[i] + skip) % m
			}
			taken[at[i]], slots[at[i]] = true, name
			filled++
		}
	}
	return slots
}

func seededHash(seed uint64) func(string) uint64 {
	return func(key string) uint64 {
		x := xxhash.Sum64String(key) ^ seed
		x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
		x = (x ^ x>>27) * 0x94D049BB133111EB
		return x ^ x>>31
	}
}

// TestMaglev_Slots compares whole tables, at the numbers of backends where the
// width of a slot changes, and of each kind of hash.
func TestMaglev_Slots(t *testing.T) {
	tests := []struct {
		name string
		m, n int
		opts []chash.MaglevOption
		hash func(string) uint64
	}{
		{"one backend", 13, 1, nil, xxhash.Sum64String},
		{"smallest table", 2, 2, nil, xxhash.Sum64String},
		{"255 backends", 1021, 255, nil, xxhash.Sum64String},
		{"256 backends", 1021, 256, nil, xxhash.Sum64String},
		{"257 backends", 1021, 257, nil, xxhash.Sum64String},
		{"as many backends as slots", 1021, 1021, nil, xxhash.Sum64String},
		{"65,535 backends", 65537, 65535, nil, xxhash.Sum64String},
		{"65,536 backends", 65537, 65536, nil, xxhash.Sum64String},
		{"65,537 backends", 65537, 65537, nil, xxhash.Sum64String},
		{"seeded", 1021, 10, []chash.MaglevOption{chash.WithSeed(0x0123456789ABCDEF)}, seededHash(0x0123456789ABCDEF)},
		{"largest seed", 1021, 10, []chash.MaglevOption{chash.WithSeed(math.MaxUint64)}, seededHash(math.MaxUint64)},
		{"own hash", 1021, 10, []chash.MaglevOption{chash.WithHash(chashtest.UpsideDown)}, chashtest.UpsideDown},
		{"a hash of few values", 251, 10, []chash.MaglevOption{chash.WithHash(chashtest.Clumsy["ten values"])}, chashtest.Clumsy["ten values"]},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.n > 60000 && testing.Short() {
				t.Skip("slow")
			}
			names := chashtest.ManyNames("b", test.n)
			opts := append([]chash.MaglevOption{chash.WithTableSize(test.m)}, test.opts...)
			s := chashtest.Must(chashtest.NewMaglev(chash.Named(names...), opts...))
			got, want := chashtest.SlotsOf(t, s, test.m), plainTable(names, test.m, test.hash)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("GetHash(%d) = %q, want %q", i, got[i], want[i])
				}
			}
			for _, key := range chashtest.SampleKeys {
				want := want[test.hash(key)%uint64(test.m)]
				if got := chashtest.Must(s.Get(key)); got != want {
					t.Fatalf("Get(%q) = %q, want %q", key, got, want)
				}
				if got := chashtest.Must(s.GetBytes([]byte(key))); got != want {
					t.Fatalf("GetBytes(%q) = %q, want %q", key, got, want)
				}
				if got := chashtest.Must(s.GetHash(test.hash(key))); got != want {
					t.Fatalf("GetHash(%#x) = %q, want %q", test.hash(key), got, want)
				}
			}
		})
	}
}

// TestMaglev_HashIsUsedThroughout records what the caller's hash is asked for.
func TestMaglev_HashIsUsedThroughout(t *testing.T) {
	var asked []string
	s := chashtest.Must(chashtest.NewMaglev(chash.Named("b", "a"), chash.WithHash(func(key string) uint64 {
		asked = append(asked, strings.Clone(key))
		return xxhash.Sum64String(key)
	})))
	slices.Sort(asked)
	if want := []string{"\xbaa", "\xbab", "\xbea", "\xbeb"}; !slices.Equal(asked, want) {
		t.Errorf("NewMaglev(b, a) hashes %q, want %q", asked, want)
	}
	for call, do := range map[string]func(){
		"Get":        func() { _, _ = s.Get("key") },
		"GetBytes":   func() { _, _ = s.GetBytes([]byte("key")) },
		"GetN":       func() { _, _ = s.GetN("key", 2) },
		"AppendN":    func() { _, _ = s.AppendN(nil, "key", 2) },
		"GetFunc":    func() { _, _ = s.GetFunc("key", nil) },
		"Candidates": func() { _ = slices.Collect(s.Candidates("key")) },
	} {
		asked = nil
		do()
		if want := []string{"key"}; !slices.Equal(asked, want) {
			t.Errorf("%s(key) hashes %q, want %q", call, asked, want)
		}
	}
	for call, do := range map[string]func(){
		"Next":      func() { _, _ = s.Next() },
		"GetHash":   func() { _, _ = s.GetHash(7) },
		"Backends":  func() { s.Backends() },
		"Unhealthy": func() { _ = s.SetState("a", chash.Unhealthy) },
		"SetValue":  func() { _ = s.SetValue("a", "x") },
		"Clone":     func() { s.Clone() },
	} {
		asked = nil
		do()
		if len(asked) != 0 {
			t.Errorf("%s hashes %q, want nothing", call, asked)
		}
	}
}

// edgyHashes are hashes at which a division or a sum goes wrong first.
func edgyHashes(m uint64) []uint64 {
	hashes := []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 1<<63 - 1, 1 << 32, 1<<32 - 1}
	for _, multiple := range []uint64{1, 2, m - 1, m, m + 1, math.MaxUint32, math.MaxUint64/m - 1, math.MaxUint64 / m} {
		if high, product := bits.Mul64(multiple, m); high == 0 {
			hashes = append(hashes, product-1, product, product+1)
		}
	}
	for i := range uint64(500) {
		hashes = append(hashes, seededHash(i)("hash"))
	}
	return hashes
}

// probeSequence is the sequence of slots of a hash as the package comment has it.
func probeSequence(hash, m uint64, yield func(slot uint64) (more bool)) {
	home, stride := hash%m, chashtest.Finalize(hash)%(m-1)+1
	for i := range uint64(65) {
		if !yield((home + i*stride) % m) {
			return
		}
	}
	start := hash * 0x9E3779B97F4A7C15 % m
	for i := range m {
		if !yield((start + i) % m) {
			return
		}
	}
}

// TestMaglev_WideSlots is TestMaglev_ProbeSequence with so many backends that a slot
// takes four bytes.
func TestMaglev_WideSlots(t *testing.T) {
	const m = 131071
	backends := chash.Named(chashtest.ManyNames("b", 1<<16+1)...)
	slots := chashtest.SlotsOf(t, chashtest.Must(chashtest.NewMaglev(backends, chash.WithTableSize(m))), m)
	well := map[string]bool{}
	for i := range backends {
		well[backends[i].Name] = i%5 < 2
		backends[i].State = chash.State(min(i%5/2, 1))
	}
	s := chashtest.Must(chashtest.NewMaglev(backends, chash.WithTableSize(m)))
	for _, hash := range edgyHashes(m) {
		var want string
		probeSequence(hash, m, func(slot uint64) bool {
			want = slots[slot]
			return !well[want]
		})
		if got, err := s.GetHash(hash); got != want || err != nil {
			t.Fatalf("GetHash(%#x) = %q, %v, want %q", hash, got, err, want)
		}
	}
}

// TestMaglev_ProbeSequence compares all that is found along the sequence of a hash,
// at every depth of outage.
func TestMaglev_ProbeSequence(t *testing.T) {
	for _, c := range []struct{ m, n int }{{2, 2}, {3, 3}, {7, 5}, {251, 100}, {1021, 40}, {65537, 300}} {
		names := chashtest.ManyNames("b", c.n)
		slots := chashtest.SlotsOf(t, chashtest.Must(chashtest.NewMaglev(chash.Named(names...), chash.WithTableSize(c.m))), c.m)
		for _, healthy := range []int{c.n, c.n - 1, (c.n + 1) / 2, c.n/17 + 1, 3, 2, 1} {
			if healthy > c.n {
				continue
			}
			t.Run(fmt.Sprintf("M=%d/%d of %d healthy", c.m, healthy, c.n), func(t *testing.T) {
				s := chashtest.Must(chashtest.NewMaglev(chash.Named(names...), chash.WithTableSize(c.m)))
				well := map[string]bool{}
				for i, name := range names {
					if well[name] = i < healthy; i >= healthy {
						require.NoError(t, s.SetState(name, chash.Unhealthy))
					}
				}
				for _, hash := range edgyHashes(uint64(c.m)) {
					var want string
					probeSequence(hash, uint64(c.m), func(slot uint64) bool {
						want = slots[slot]
						return !well[want]
					})
					if got, err := s.GetHash(hash); got != want || err != nil {
						t.Fatalf("GetHash(%#x) = %q, %v, want %q", hash, got, err, want)
					}
				}
				for _, key := range chashtest.SampleKeys[:50] {
					var want []string
					met := map[string]bool{}
					probeSequence(xxhash.Sum64String(key), uint64(c.m), func(slot uint64) bool {
						if owner := slots[slot]; well[owner] && !met[owner] {
							met[owner] = true
							want = append(want, owner)
						}
						return len(want) < healthy
					})
					if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, want) {
						t.Fatalf("Candidates(%q) = %q, want %q", key, got, want)
					}
				}
			})
		}
	}
}

// TestMaglev_CandidatesDoesNotAllocate has the range over the type itself, for
// only then the compiler can see into it.
func TestMaglev_CandidatesDoesNotAllocate(t *testing.T) {
	for _, c := range chashtest.AllocationCases() {
		t.Run(c.Name, func(t *testing.T) {
			m, err := chash.NewMaglev(c.Backends, chash.Options(c.Opts...))
			require.NoError(t, err)
			for _, key := range chashtest.AllocationKeys {
				if got := testing.AllocsPerRun(20, func() {
					left := 3
					for range m.Candidates(key) {
						if left--; left == 0 {
							break
						}
					}
				}); got != 0 {
					t.Errorf("allocations of a range over Candidates with a key of %d bytes = %v, want 0", len(key), got)
				}
			}
		})
	}
}

func TestMaglev_LookupsOfPointersDoNotAllocate(t *testing.T) {
	checkPointerAllocations(t, chashtest.Must(chashtest.NewMaglev(halfOfNodes())))
}

func FuzzMaglev(f *testing.F) {
	chashtest.AddFuzzOperations(f)
	f.Fuzz(func(t *testing.T, data []byte) { chashtest.FuzzOperations(t, false, data) })
}

func TestTableSizeFor(t *testing.T) {
	tests := []struct{ backends, want int }{
		{math.MinInt, 65537},
		{math.MinInt/2 + 1000, 65537}, // a hundred times that wraps to 100,000
		{-1, 65537},
		{0, 65537},
		{1, 65537},
		{655, 65537},
		{656, 65609}, // 65,600 slots are too few in the default table
		{1000, 100003},
		{10_000, 1_000_003},
		{21_474_836, 2_147_483_629}, // the last with 100 slots each
		{21_474_837, chash.MaxTableSize},
		{math.MaxInt32, chash.MaxTableSize},
		{math.MaxInt, chash.MaxTableSize},
	}
	for _, test := range tests {
		if got := chash.TableSizeFor(test.backends); got != test.want {
			t.Errorf("TableSizeFor(%d) = %d, want %d", test.backends, got, test.want)
		}
	}
}

func TestTableSizeFor_IsTheSmallestPrime(t *testing.T) {
	for _, n := range []int{1, 600, 655, 656, 657, 700, 999, 1234, 5000, 77_777, 1_000_000, 21_474_835} {
		least := max(65537, 100*n)
		got := chash.TableSizeFor(n)
		require.GreaterOrEqual(t, got, least)
		require.LessOrEqual(t, got, chash.MaxTableSize)
		require.True(t, big.NewInt(int64(got)).ProbablyPrime(0), "%d", got)
		for smaller := least; smaller < got; smaller++ {
			require.False(t, big.NewInt(int64(smaller)).ProbablyPrime(0), "%d", smaller)
		}
	}
}

// The shares of as many backends as asked for are within 1 % of each other.
func TestTableSizeFor_Shares(t *testing.T) {
	for _, n := range []int{10, 655, 1500} {
		m, err := chash.NewMaglev(chashtest.Numbered("b", n), chash.WithTableSize(chash.TableSizeFor(n)))
		require.NoError(t, err)
		stats := m.Stats()
		require.LessOrEqual(t, stats.MaxShareRatio-stats.MinShareRatio, 0.0101, "%d backends", n)
	}
}

// placed is a membership in which indices, placements and ranks all differ.
var placed = []chash.Backend[string]{
	{Name: "a", State: chash.Draining, Value: "1"}, // has an index, but no slot
	{Name: "b", HashKey: "z", Value: "2"},
	{Name: "c", HashKey: "y", Weight: 2, Value: "3"}, // behind d
	{Name: "d", HashKey: "y", Weight: 3, Value: "4"},
	{Name: "e", Value: "5"},
}

func TestAppendTable(t *testing.T) {
	m, err := chash.NewMaglev(placed, chash.WithTableSize(251), chash.WithSeed(3))
	require.NoError(t, err)
	backends := m.Backends()
	table := m.AppendTable(nil)
	require.Len(t, table, 251)
	met := map[string]bool{}
	for slot, i := range table {
		want, err := m.GetHash(uint64(slot))
		require.NoError(t, err)
		require.Equal(t, want, backends[i].Value, "slot %d", slot)
		met[backends[i].Name] = true
	}
	require.Equal(t, map[string]bool{"b": true, "d": true, "e": true}, met)

	// It is appended, and health does not change it.
	for _, name := range []string{"b", "d", "e"} {
		require.NoError(t, m.SetState(name, chash.Unhealthy))
	}
	require.NoError(t, m.SetState("c", chash.Healthy))
	require.Equal(t, append([]uint32{7, 8}, table...), m.AppendTable([]uint32{7, 8}))

	require.NoError(t, m.Remove("a")) // moves no key, but indices
	require.Equal(t, table[0]-1, m.AppendTable(nil)[0])
}

func TestAppendPoints(t *testing.T) {
	r, err := chash.NewRing(placed, chash.WithReplicas(20), chash.WithSeed(3))
	require.NoError(t, err)
	backends := r.Backends()
	points := r.AppendPoints(nil)
	require.Len(t, points, 100)
	met := map[string]bool{}
	for i, point := range points {
		want, err := r.GetHash(point.Position)
		require.NoError(t, err)
		require.Equal(t, want, backends[point.Backend].Value, "point %d", i)
		want, err = r.GetHash(point.Position + 1)
		require.NoError(t, err)
		next := points[(i+1)%len(points)]
		require.Equal(t, want, backends[next.Backend].Value, "after point %d", i)
		if i > 0 {
			require.Less(t, points[i-1].Position, point.Position)
		}
		met[backends[point.Backend].Name] = true
	}
	require.Equal(t, map[string]bool{"b": true, "d": true, "e": true}, met)

	for _, name := range []string{"b", "d", "e"} {
		require.NoError(t, r.SetState(name, chash.Unhealthy))
	}
	first := chash.Point{Position: 1, Backend: 2}
	require.Equal(t, append([]chash.Point{first}, points...), r.AppendPoints([]chash.Point{first}))

	require.NoError(t, r.Remove("a"))
}

// Points at one position come in the order in which lookups prefer them.
func TestAppendPoints_Ties(t *testing.T) {
	positions := map[string]uint64{"a#0": 5, "b#0": 5, "c#0": 9, "a#1": 9, "b#1": 1, "c#1": 5}
	r, err := chash.NewRing(chash.Named("c", "b", "a"), chash.WithReplicas(2),
		chash.WithHash(func(label string) uint64 { return positions[label] }))
	require.NoError(t, err)
	want := []chash.Point{{1, 1}, {5, 0}, {5, 1}, {5, 2}, {9, 0}, {9, 2}}
	require.Equal(t, want, r.AppendPoints(nil))
}

// A program that has only the exported table finds the owner of every key.
func TestAppendTable_LookupByHand(t *testing.T) {
	chashtest.Rounds(t, 20, func(t *testing.T, rng *rand.Rand) {
		backends := chashtest.RandomBackends(rng, true, 1+rng.IntN(20))
		chashtest.RandomStates(rng, backends)
		backends[0].State = chash.Unhealthy // one at least is not draining
		m, err := chash.NewMaglev(backends, chash.WithTableSize(1021))
		require.NoError(t, err)
		r, err := chash.NewRing(backends, chash.WithReplicas(5), chash.WithHash(xxhash.Sum64String))
		require.NoError(t, err)
		table, points := m.AppendTable(nil), r.AppendPoints(nil)
		for _, key := range chashtest.SampleKeys[:200] {
			hash := xxhash.Sum64String(key)
			owner, err := m.Owner(key)
			require.NoError(t, err)
			require.Equal(t, owner, m.Backends()[table[hash%uint64(len(table))]])

			owner, err = r.Owner(key)
			require.NoError(t, err)
			i := slices.IndexFunc(points, func(p chash.Point) bool { return p.Position >= hash })
			require.Equal(t, owner, r.Backends()[points[max(i, 0)].Backend])
		}
	})
}

func TestAppendTable_Empty(t *testing.T) {
	for _, backends := range [][]chash.Backend[string]{nil, {{Name: "a", State: chash.Draining}}} {
		m, err := chash.NewMaglev(backends)
		require.NoError(t, err)
		require.Empty(t, m.AppendTable(nil))
		require.Equal(t, []uint32{1}, m.AppendTable([]uint32{1}))
		r, err := chash.NewRing(backends)
		require.NoError(t, err)
		require.Empty(t, r.AppendPoints(nil))
		require.Equal(t, []chash.Point{{}}, r.AppendPoints([]chash.Point{{}}))
	}
}

func TestAppendTable_Allocs(t *testing.T) {
	m, err := chash.NewMaglev(placed, chash.WithTableSize(251))
	require.NoError(t, err)
	r, err := chash.NewRing(placed)
	require.NoError(t, err)
	table, points := m.AppendTable(nil), r.AppendPoints(nil)
	for name, call := range map[string]func(){
		"AppendTable":  func() { table = m.AppendTable(table[:0]) },
		"AppendPoints": func() { points = r.AppendPoints(points[:0]) },
	} {
		if got := testing.AllocsPerRun(10, call); got != 0 {
			t.Errorf("%s with room allocates %v times, want none", name, got)
		}
	}
}

// While others change the structure, a table is that of one state.
func TestAppendTable_WhileOthersChange(t *testing.T) {
	m, err := chash.NewMaglev(placed, chash.WithTableSize(251))
	require.NoError(t, err)
	r, err := chash.NewRing(placed, chash.WithReplicas(20))
	require.NoError(t, err)
	few, some := m.AppendTable(nil), r.AppendPoints(nil)
	last := chash.Backend[string]{Name: "last"} // so that no other index changes
	require.NoError(t, m.Add(last))
	require.NoError(t, r.Add(last))
	more, all := m.AppendTable(nil), r.AppendPoints(nil)
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		for i := range 200 {
			_ = m.SetState("e", chash.State(i%2))
			_ = r.SetState("e", chash.State(i%2))
			_, _ = m.SetValue("b", "new"), r.SetValue("b", "new")
			_, _ = m.Remove("last"), r.Remove("last")
			_, _ = m.Add(last), r.Add(last)
		}
	}()
	for range 200 {
		table, points := m.AppendTable(nil), r.AppendPoints(nil)
		require.True(t, slices.Equal(table, few) || slices.Equal(table, more))
		require.True(t, slices.Equal(points, some) || slices.Equal(points, all))
	}
	wait.Wait()
}
