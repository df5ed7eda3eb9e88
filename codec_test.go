package chash_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/internal/chashtest"
)

// marshaler is what the tests of Marshal use of both structures.
func encodeString(value string) ([]byte, error)          { return []byte(value), nil }
func decodeString(_ string, data []byte) (string, error) { return string(data), nil }

func marshal(t testing.TB, s chashtest.Structure) []byte {
	t.Helper()
	data, err := s.Marshal(encodeString)
	require.NoError(t, err)
	return data
}

type decoder = func(name string, data []byte) (string, error)

func unmarshalMaglev(data []byte, decode decoder, opts ...chash.MaglevOption) (chashtest.Structure, error) {
	m, err := chash.UnmarshalMaglev(data, decode, opts...)
	if m == nil {
		return nil, err
	}
	return chashtest.MaglevOf[string]{Maglev: m}, err
}

func unmarshalRing(data []byte, decode decoder, opts ...chash.RingOption) (chashtest.Structure, error) {
	r, err := chash.UnmarshalRing(data, decode, opts...)
	if r == nil {
		return nil, err
	}
	return chashtest.RingOf[string]{Ring: r}, err
}

// unmarshal is UnmarshalMaglev or UnmarshalRing, by the name of the structure.
func unmarshal(kind string, data []byte, decode decoder, opts ...chash.Option) (chashtest.Structure, error) {
	if kind == "ring" {
		return unmarshalRing(data, decode, chash.Options(opts...))
	}
	return unmarshalMaglev(data, decode, chash.Options(opts...))
}

// A form is what a marshalled structure says. It is written here from the
// description of the form, not with the code under test.
type form struct {
	kind        byte
	options     []formOption
	fingerprint uint64
	backends    []chash.Backend[string]
}

type formOption struct {
	number byte
	value  uint64
}

func (f form) bytes() []byte {
	data := append([]byte("chash\x00"), f.kind, 1)
	for _, o := range f.options {
		data = binary.BigEndian.AppendUint64(append(data, o.number), o.value)
	}
	data = binary.BigEndian.AppendUint64(append(data, 0), f.fingerprint)
	data = binary.AppendUvarint(data, uint64(len(f.backends)))
	text := func(s string) {
		data = append(binary.AppendUvarint(data, uint64(len(s))), s...)
	}
	for _, b := range f.backends {
		text(b.Name)
		text(b.HashKey)
		data = append(binary.AppendUvarint(data, uint64(b.Weight)), byte(b.State))
		text(b.Value)
	}
	return withSum(data)
}

func withSum(body []byte) []byte {
	return binary.BigEndian.AppendUint64(slices.Clip(body), xxhash.Sum64(body))
}

// formBackends is one of each.
var formBackends = []chash.Backend[string]{
	{Name: "a", Weight: 1, Value: "10.0.0.1"},
	{Name: "b", Weight: 300, HashKey: "c", State: chash.Unhealthy, Value: ""},
	{Name: "c", Weight: 2, HashKey: "c", Value: "\x00\xff"},
	{Name: "dé", Weight: math.MaxUint32, State: chash.Draining, Value: string(make([]byte, 200))},
}

// formOf is the form of a structure of formBackends of size 251 or 2.
func formOf(t *testing.T, kind string) form {
	t.Helper()
	if kind == "ring" {
		s, err := chashtest.NewRing(formBackends, chash.WithReplicas(2))
		return form{'R', []formOption{{1, 2}}, fingerprintOf(t, s, err), slices.Clone(formBackends)}
	}
	s, err := chashtest.NewMaglev(formBackends, chash.WithTableSize(251))
	return form{'M', []formOption{{1, 251}}, fingerprintOf(t, s, err), slices.Clone(formBackends)}
}

// checkSame checks that got is what want is and remains it when both change.
func checkSame(t *testing.T, got, want chashtest.Structure) {
	t.Helper()
	require.True(t, slices.Equal(want.Backends(), got.Backends()), "%v, want %v", got.Backends(), want.Backends())
	require.Equal(t, marshal(t, want), marshal(t, got))
	equal := func() {
		t.Helper()
		require.Equal(t, want.Fingerprint(), got.Fingerprint())
		require.Equal(t, want.LiveFingerprint(), got.LiveFingerprint())
		for _, key := range chashtest.SampleKeys[:100] {
			wanted, wantErr := want.GetN(key, 3)
			values, err := got.GetN(key, 3)
			require.Equal(t, wantErr, err)
			require.Equal(t, wanted, values)
		}
	}
	equal()
	// Seeds, hash functions and sizes show only with several backends.
	for _, s := range []chashtest.Structure{got, want} {
		require.NoError(t, s.Add(chash.Named("new1", "new2", "new3")...))
	}
	equal()
}

func TestMarshal_RoundTrip(t *testing.T) {
	options := []struct {
		name string
		opts []chash.Option
		need []chash.Option // to read it
	}{
		{"no options", nil, nil},
		{"seed", []chash.Option{chash.WithSeed(math.MaxUint64)}, nil},
		{"hash", []chash.Option{chash.WithHash(xxhash.Sum64String)}, []chash.Option{nil, chash.WithHash(xxhash.Sum64String)}},
	}
	allDraining := chash.Named("a", "b")
	allDraining[0].State, allDraining[1].State = chash.Draining, chash.Draining
	memberships := []struct {
		name     string
		backends []chash.Backend[string]
	}{
		{"none", nil},
		{"one", chash.Named("a")},
		{"all draining", allDraining},
		{"weights, states, hash keys", []chash.Backend[string]{
			{Name: "z", Weight: 3, Value: "1"},
			{Name: "y", Weight: 2, HashKey: "z", Value: "2"},
			{Name: "x", State: chash.Unhealthy, Value: "3"},
			{Name: "w", State: chash.Draining},
			{Name: "v", HashKey: "v", Value: "5"},
		}},
		{"many", chashtest.Numbered("b", 300)},
	}
	for _, kind := range chashtest.Kinds {
		for _, o := range options {
			for _, m := range memberships {
				t.Run(kind.Name+"/"+o.name+"/"+m.name, func(t *testing.T) {
					want, err := kind.New(m.backends, o.opts...)
					require.NoError(t, err)
					got, err := unmarshal(kind.Name, marshal(t, want), decodeString, o.need...)
					require.NoError(t, err)
					require.LessOrEqual(t, got.Rebuilds(), 1)
					checkSame(t, got, want)
				})
			}
		}
	}
}

func TestMarshal_RandomRoundTrips(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		ring := kind.Ring
		chashtest.Rounds(t, 40, checkRoundTrip(ring))
	})
}

func checkRoundTrip(ring bool) func(t *testing.T, rng *rand.Rand) {
	return func(t *testing.T, rng *rand.Rand) {
		n := 1 + rng.IntN(40)
		w := chashtest.RandomTwin(rng, ring, n+3)
		backends := chashtest.RandomBackends(rng, ring, n)
		chashtest.RandomStates(rng, backends)
		want, err := w.Build(backends)
		require.NoError(t, err)
		var opts []chash.Option
		if w.Hash != nil {
			opts = []chash.Option{chash.WithHash(w.Hash)}
		}
		var got chashtest.Structure
		if ring {
			got, err = unmarshalRing(marshal(t, want), decodeString, chash.Options(opts...), chash.WithBlindDigests(w.Blind))
		} else {
			got, err = unmarshalMaglev(marshal(t, want), decodeString, chash.Options(opts...))
		}
		require.NoError(t, err)
		checkSame(t, got, want)
	}
}

// The bytes depend on what there is, not on how it came about.
func TestMarshal_Deterministic(t *testing.T) {
	for _, kind := range chashtest.Kinds {
		s, err := kind.New(chashtest.Numbered("b", 20))
		require.NoError(t, err)
		other, err := kind.New(chash.Named("gone"))
		require.NoError(t, err)
		backends := chashtest.Numbered("b", 20)
		slices.Reverse(backends)
		require.NoError(t, other.Add(backends...))
		require.NoError(t, other.Remove("gone"))
		require.Equal(t, marshal(t, s), marshal(t, other), kind.Name)
		require.NoError(t, other.SetState("b3", chash.Unhealthy))
		require.NotEqual(t, marshal(t, s), marshal(t, other), "states are in the data")
	}
}

func TestMarshal_Form(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		hash := func(key string) uint64 { return 3 * xxhash.Sum64String(key) }
		for _, more := range []struct {
			opt  chash.Option
			form []formOption
		}{
			{nil, nil},
			{chash.WithSeed(7), []formOption{{2, 7}}},
			{chash.WithHash(hash), []formOption{{3, 3 * xxhash.Sum64String("chash")}}},
		} {
			var s chashtest.Structure
			var err error
			want := form{backends: formBackends}
			if kind.Name == "ring" {
				s, err = chashtest.NewRing(formBackends, more.opt, chash.WithReplicas(2))
				want.kind, want.options = 'R', append([]formOption{{1, 2}}, more.form...)
			} else {
				s, err = chashtest.NewMaglev(formBackends, more.opt, chash.WithTableSize(251))
				want.kind, want.options = 'M', append([]formOption{{1, 251}}, more.form...)
			}
			want.fingerprint = fingerprintOf(t, s, err)
			require.Equal(t, want.bytes(), marshal(t, s))
		}
	})
}

// A goldenBackend is a backend under the names that files of golden values have.
type goldenBackend struct {
	Name, HashKey string
	Weight        uint32
	State         chash.State
	Value         string
}

func goldenBackends(golden []goldenBackend) []chash.Backend[string] {
	backends := make([]chash.Backend[string], len(golden))
	for i, g := range golden {
		backends[i] = chash.Backend[string](g)
	}
	return backends
}

// Files of old releases stay readable, and new ones are the same.
func TestMarshal_Golden(t *testing.T) {
	file, err := os.ReadFile("testdata/marshalled.json")
	require.NoError(t, err)
	var golden []struct {
		Structure string          `json:"structure"`
		Size      int             `json:"size"`
		Seed      uint64          `json:"seed"`
		Hash      bool            `json:"hash"` // xxHash64 as a function of the caller's
		Backends  []goldenBackend `json:"backends"`
		Data      string          `json:"data"`
	}
	require.NoError(t, json.Unmarshal(file, &golden))
	require.Len(t, golden, 7, "a file of golden values is cut short")
	for i, g := range golden {
		w := chashtest.NewTwin(g.Structure == "ring", g.Size, g.Seed, nil)
		var opts []chash.Option
		if g.Hash {
			w.Hash = xxhash.Sum64String
			opts = append(opts, chash.WithHash(w.Hash))
		}
		want, err := w.Build(goldenBackends(g.Backends))
		require.NoError(t, err)
		require.Equal(t, g.Data, hex.EncodeToString(marshal(t, want)), "entry %d", i)
		data, err := hex.DecodeString(g.Data)
		require.NoError(t, err)
		got, err := unmarshal(g.Structure, data, decodeString, opts...)
		require.NoError(t, err, "entry %d", i)
		checkSame(t, got, want)
	}
}

func checkCorrupt(t *testing.T, kind string, data []byte, parts ...string) {
	t.Helper()
	s, err := unmarshal(kind, data, func(name string, _ []byte) (string, error) {
		t.Errorf("decode called for %q of corrupt data", name)
		return "", nil
	})
	chashtest.CheckError(t, fmt.Sprintf("Unmarshal of a %s from %q", kind, data), err, chash.ErrCorrupt, parts...)
	if s != nil {
		t.Error("Unmarshal returns a structure of corrupt data, want nil")
	}
}

func TestUnmarshal_Damaged(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		data := formOf(t, kind.Name).bytes()
		for n := range data {
			checkCorrupt(t, kind.Name, data[:n:n])
			for bit := range 8 {
				damaged := slices.Clone(data)
				damaged[n] ^= 1 << bit
				checkCorrupt(t, kind.Name, damaged)
			}
		}
		checkCorrupt(t, kind.Name, append(slices.Clone(data), 0))
		checkCorrupt(t, kind.Name, append([]byte{0}, data...))
		checkCorrupt(t, kind.Name, append(slices.Clone(data), data...))
		// Two halves of different files.
		f := formOf(t, kind.Name)
		f.backends[3].Value = string(make([]byte, 199)) + "x"
		other := f.bytes()
		checkCorrupt(t, kind.Name, append(slices.Clone(data[:len(data)-8]), other[len(other)-8:]...))
	})
}

func TestUnmarshal_Foreign(t *testing.T) {
	for _, kind := range chashtest.Kinds {
		for _, data := range []string{"", "\x00", "chash", "chash\x00", "{}", "<?xml version=\"1.0\"?><backends/>", string(make([]byte, 1000))} {
			checkCorrupt(t, kind.Name, []byte(data), fmt.Sprint(len(data), " bytes"))
		}
		checkCorrupt(t, kind.Name, nil, "0 bytes")
	}
	checkCorrupt(t, "maglev", formOf(t, "ring").bytes(), "'R'", "'M'")
	checkCorrupt(t, "ring", formOf(t, "maglev").bytes(), "'M'", "'R'")

	later := formOf(t, "ring").bytes()
	later[7] = 2
	checkCorrupt(t, "ring", withSum(later[:len(later)-8]), "version 2")
}

// A right checksum over what no structure can be: crafted or of a bug.
func TestUnmarshal_Inconsistent(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		tests := []struct {
			name   string
			change func(f *form)
			part   string
		}{
			{"no size", func(f *form) { f.options = nil }, "no size"},
			{"size 0", func(f *form) { f.options[0].value = 0 }, " 0"},
			{"size beyond any int", func(f *form) { f.options[0].value = 1 << 63 }, "option 1"},
			{"seed 0", func(f *form) { f.options = append(f.options, formOption{2, 0}) }, "option 2"},
			{"an option twice", func(f *form) { f.options = append(f.options, f.options[0]) }, "option 1 after 1"},
			{"options out of order", func(f *form) { f.options = append([]formOption{{2, 1}}, f.options...) }, "option 1 after 2"},
			{"an unknown option", func(f *form) { f.options = append(f.options, formOption{0xEE, 1}) }, "option 238"},
			{"seed and hash", func(f *form) { f.options = append(f.options, formOption{2, 1}, formOption{3, 1}) }, "seed"},
			{"another size", func(f *form) { f.options[0].value = 3 }, "fingerprint"},
			{"another seed", func(f *form) { f.options = append(f.options, formOption{2, 1}) }, "fingerprint"},
			{"another fingerprint", func(f *form) { f.fingerprint++ }, "fingerprint"},
			{"another weight", func(f *form) { f.backends[0].Weight = 8 }, "fingerprint"},
			{"no longer draining", func(f *form) { f.backends[3].Weight, f.backends[3].State = 1, chash.Healthy }, "fingerprint"},
			{"one missing", func(f *form) { f.backends = f.backends[1:] }, "fingerprint"},
			{"weight 0", func(f *form) { f.backends[0].Weight = 0 }, "weight"},
			{"an unknown state", func(f *form) { f.backends[0].State = 3 }, "State(3)"},
			{"no name", func(f *form) { f.backends[0].Name = "" }, "name is empty"},
			{"a name twice", func(f *form) { f.backends[1].Name = "a" }, `"a" after "a"`},
			{"out of order", func(f *form) { slices.Reverse(f.backends[:2]) }, `"a" after "b"`},
		}
		for _, test := range tests {
			f := formOf(t, kind.Name)
			test.change(&f)
			t.Run(test.name, func(t *testing.T) { checkCorrupt(t, kind.Name, f.bytes(), test.part) })
		}
		t.Run("bytes too many", func(t *testing.T) {
			data := formOf(t, kind.Name).bytes()
			checkCorrupt(t, kind.Name, withSum(append(data[:len(data)-8], 0)), "1 bytes too many")
		})
		t.Run("cut short", func(t *testing.T) {
			data := formOf(t, kind.Name).bytes()
			for n := range len(data) - 8 {
				checkCorrupt(t, kind.Name, withSum(data[:n]))
			}
		})
	})
	composite := formOf(t, "maglev")
	composite.options[0].value = 250
	checkCorrupt(t, "maglev", composite.bytes(), "250")
	large := formOf(t, "maglev")
	large.options[0].value = 1<<31 + 11
	checkCorrupt(t, "maglev", large.bytes())
	crowded := form{'M', []formOption{{1, 3}}, 1, formBackends[:0:0]}
	for _, name := range []string{"a", "b", "c", "d"} {
		crowded.backends = append(crowded.backends, chash.Backend[string]{Name: name, Weight: 1})
	}
	checkCorrupt(t, "maglev", crowded.bytes(), "4 placements, 3 slots")
	heavy := formOf(t, "ring")
	heavy.backends[0].Weight = math.MaxUint32
	_, err := unmarshal("ring", heavy.bytes(), decodeString)
	chashtest.CheckError(t, "UnmarshalRing", err, chash.ErrRingTooLarge, "1048576 points")
}

// Whatever byte is another one under a right checksum: what can be read at all is
// written again as it was.
func TestUnmarshal_AnyByte(t *testing.T) {
	for _, kind := range chashtest.Kinds {
		f := formOf(t, kind.Name)
		f.backends[3].Value = "of a draining one"
		data := f.bytes()
		read := 0
		for n := range len(data) - 8 {
			for _, b := range []byte{0, 1, 2, 3, 0x7f, 0x80, 0xff, data[n] - 1, data[n] + 1} {
				body := slices.Clone(data[:len(data)-8])
				body[n] = b
				changed := withSum(body)
				s, err := unmarshal(kind.Name, changed, decodeString, chash.WithMaxSize(5000))
				switch {
				case err == nil:
					require.Equal(t, changed, marshal(t, s), "%s, byte %d is %#x", kind.Name, n, b)
					read++
				case !isRefusal(err):
					t.Errorf("%s, byte %d is %#x: %v", kind.Name, n, b, err)
				}
			}
		}
		require.Greater(t, read, 100, "values can be any")
	}
}

// isRefusal reports whether err is one for data that cannot be read without options.
func isRefusal(err error) bool {
	return errors.Is(err, chash.ErrCorrupt) || errors.Is(err, chash.ErrOptionsDiffer) ||
		errors.Is(err, chash.ErrRingTooLarge) || errors.Is(err, chash.ErrInvalidOption)
}

// A length that the data do not have costs no memory, whatever the checksum says.
func TestUnmarshal_Lengths(t *testing.T) {
	head := func(kind string) []byte {
		f := formOf(t, kind)
		f.backends = nil
		data := f.bytes()
		return data[:len(data)-9] // without the count and the checksum
	}
	for _, kind := range chashtest.Kinds {
		for _, n := range []uint64{1, 1 << 20, math.MaxInt32, 1 << 40, math.MaxInt64, math.MaxUint64} {
			count := binary.AppendUvarint(nil, n)
			for _, rest := range [][]byte{
				count,
				append(slices.Clone(count), 1, 'a', 0, 1, 0, 0),
				append([]byte{1}, count...),                  // the length of a name
				append([]byte{1, 1, 'a'}, count...),          // of a hash key
				append([]byte{1, 1, 'a', 0, 1, 0}, count...), // of a value
				append([]byte{1, 1, 'a', 0}, count...),       // a weight
				append(append([]byte{1, 1, 'a', 0, 1, 0}, count...), "value"...),
			} {
				data := withSum(append(head(kind.Name), rest...))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := unmarshal(kind.Name, data, decodeString)
				runtime.ReadMemStats(&after)
				require.ErrorIs(t, err, chash.ErrCorrupt, "%s: % x", kind.Name, rest)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10), "%s: % x", kind.Name, rest)
			}
		}
		// A varint that is longer than it need be, or than any is.
		for _, rest := range []string{"\x80\x00", "\x81\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"} {
			checkCorrupt(t, kind.Name, withSum(append(head(kind.Name), rest...)), "not a number")
		}
		s, err := unmarshal(kind.Name, withSum(append(head(kind.Name), 0)), nil)
		require.Nil(t, s)
		require.ErrorIs(t, err, chash.ErrCorrupt, "the fingerprint is not that of none")
	}
}

func TestUnmarshal_Options(t *testing.T) {
	tripled := func(key string) uint64 { return 3 * xxhash.Sum64String(key) }
	cunning := func(key string) uint64 { // agrees with xxHash64 on the key that tells functions apart
		if key == "chash" {
			return xxhash.Sum64String(key)
		}
		return tripled(key)
	}
	hash, seed := chash.WithHash(xxhash.Sum64String), chash.WithSeed(5)
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		tests := []struct {
			name   string
			opts   []chash.Option // of the structure
			given  []chash.Option
			want   error
			reason string
		}{
			{"the same seed", []chash.Option{seed}, []chash.Option{seed}, nil, ""},
			{"no seed said to be none", nil, []chash.Option{chash.WithSeed(0)}, nil, ""},
			{"the last counts", []chash.Option{seed}, []chash.Option{chash.WithSeed(6), seed}, nil, ""},
			{"another seed", []chash.Option{seed}, []chash.Option{chash.WithSeed(6)}, chash.ErrOptionsDiffer, "seed 6, want 5"},
			{"a seed for none", nil, []chash.Option{seed}, chash.ErrOptionsDiffer, "seed 5, want 0"},
			{"no seed for one", []chash.Option{seed}, []chash.Option{chash.WithSeed(0)}, chash.ErrOptionsDiffer, "seed 0, want 5"},
			{"hash", []chash.Option{hash}, []chash.Option{hash}, nil, ""},
			{"no hash for one", []chash.Option{hash}, nil, chash.ErrOptionsDiffer, "want WithHash"},
			{"a hash for none", nil, []chash.Option{hash}, chash.ErrOptionsDiffer, "want no WithHash"},
			{"a hash for a seed", []chash.Option{seed}, []chash.Option{hash}, chash.ErrOptionsDiffer, "want no WithHash"},
			{"a seed for a hash", []chash.Option{hash}, []chash.Option{seed, hash}, chash.ErrOptionsDiffer, "seed 5, want 0"},
			{"another hash", []chash.Option{hash}, []chash.Option{chash.WithHash(tripled)}, chash.ErrOptionsDiffer, `hash function: of "chash"`},
			{"another hash that agrees by chance", []chash.Option{hash}, []chash.Option{chash.WithHash(cunning)}, chash.ErrOptionsDiffer, "fingerprint"},
			{"a nil hash", []chash.Option{hash}, []chash.Option{chash.WithHash(nil)}, chash.ErrInvalidOption, ""},
			{"a nil hash for none", nil, []chash.Option{chash.WithHash(nil)}, chash.ErrOptionsDiffer, "want no WithHash"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				want, err := kind.New(chash.Named("a", "b", "c"), test.opts...)
				require.NoError(t, err)
				decoded := 0
				s, err := unmarshal(kind.Name, marshal(t, want), func(string, []byte) (string, error) {
					decoded++
					return "", nil
				}, test.given...)
				if test.want == nil {
					require.NoError(t, err)
					require.NotNil(t, s)
					return
				}
				chashtest.CheckError(t, "Unmarshal", err, test.want, test.reason)
				require.Nil(t, s)
				require.Zero(t, decoded)
			})
		}
	})

	// Where one backend has every key, no fingerprint tells functions apart.
	for _, kind := range chashtest.Kinds {
		one, err := kind.New(chash.Named("a"), hash)
		require.NoError(t, err)
		_, err = unmarshal(kind.Name, marshal(t, one), decodeString, chash.WithHash(tripled))
		chashtest.CheckError(t, "Unmarshal", err, chash.ErrOptionsDiffer, "hash function")
	}

	m, err := chashtest.NewMaglev(chash.Named("a", "b"), chash.WithTableSize(251))
	require.NoError(t, err)
	_, err = unmarshalMaglev(marshal(t, m), decodeString, chash.WithTableSize(251))
	require.NoError(t, err)
	for _, size := range []int{chash.DefaultTableSize, 250, 0, -1} {
		_, err = unmarshalMaglev(marshal(t, m), decodeString, chash.WithTableSize(size))
		chashtest.CheckError(t, "UnmarshalMaglev", err, chash.ErrOptionsDiffer, fmt.Sprintf("table size %d, want 251", size))
	}
	r, err := chashtest.NewRing(chash.Named("a", "b"), chash.WithReplicas(3))
	require.NoError(t, err)
	_, err = unmarshalRing(marshal(t, r), decodeString, chash.WithReplicas(3))
	require.NoError(t, err)
	_, err = unmarshalRing(marshal(t, r), decodeString, chash.WithReplicas(chash.DefaultReplicas))
	chashtest.CheckError(t, "UnmarshalRing", err, chash.ErrOptionsDiffer, "replicas 160, want 3")
}

// A table that takes gigabytes is refused before it is built.
func TestUnmarshal_SizeIsBoundedByTheOption(t *testing.T) {
	f := formOf(t, "maglev")
	f.options[0].value = chash.MaxTableSize
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := unmarshalMaglev(f.bytes(), decodeString, chash.WithTableSize(251))
	runtime.ReadMemStats(&after)
	chashtest.CheckError(t, "UnmarshalMaglev", err, chash.ErrOptionsDiffer, "251, want 2147483647")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
}

var errCodec = errors.New("codec")

func TestMarshal_Values(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		backends := chash.Named("c", "a", "b")
		backends[0].State, backends[1].State = chash.Draining, chash.Unhealthy
		made, err := kind.New(backends)
		require.NoError(t, err)
		s := made

		// Once each, in order, without a lock.
		var order []string
		data, err := s.Marshal(func(value string) ([]byte, error) {
			order = append(order, value)
			require.NoError(t, s.SetState("a", chash.Healthy))
			return []byte("=" + value), nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, order)

		order = nil
		got, err := unmarshal(kind.Name, data, func(name string, data []byte) (string, error) {
			order = append(order, name)
			return name + string(data), nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, order)
		require.Equal(t, []string{"a=a", "b=b", "c=c"}, chashtest.ValuesOf(got.Backends()))
		b, _ := got.Backend("a")
		require.Equal(t, chash.Unhealthy, b.State, "the state is of the moment of the call")
		for _, key := range chashtest.SampleKeys[:20] {
			value, err := got.Get(key)
			require.NoError(t, err)
			require.Equal(t, "b=b", value)
		}

		// Without a codec.
		got, err = unmarshal(kind.Name, data, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"", "", ""}, chashtest.ValuesOf(got.Backends()))
		bare, err := s.Marshal(nil)
		require.NoError(t, err)
		got, err = unmarshal(kind.Name, bare, func(name string, data []byte) (string, error) {
			require.Empty(t, data)
			return "for " + name, nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"for a", "for b", "for c"}, chashtest.ValuesOf(got.Backends()))

		// Errors.
		order = nil
		data, err = s.Marshal(func(value string) ([]byte, error) {
			order = append(order, value)
			if value == "b" {
				return []byte("half"), errCodec
			}
			return nil, nil
		})
		require.ErrorIs(t, err, errCodec)
		require.ErrorContains(t, err, `"b"`)
		require.Nil(t, data)
		require.Equal(t, []string{"a", "b"}, order)
		order = nil
		got, err = unmarshal(kind.Name, bare, func(name string, _ []byte) (string, error) {
			order = append(order, name)
			if name == "b" {
				return "half", errCodec
			}
			return "", nil
		})
		require.ErrorIs(t, err, errCodec)
		require.NotErrorIs(t, err, chash.ErrCorrupt)
		require.ErrorContains(t, err, `"b"`)
		require.Nil(t, got)
		require.Equal(t, []string{"a", "b"}, order)
	})
}

// What decode is given may be appended to without harm to the rest.
func TestUnmarshal_DataIsNotOverwritten(t *testing.T) {
	s, err := chashtest.NewRing(chash.Named("a", "b"))
	require.NoError(t, err)
	data := marshal(t, s)
	before := slices.Clone(data)
	_, err = unmarshalRing(data, func(_ string, value []byte) (string, error) {
		return string(append(value, "................"...)), nil
	})
	require.NoError(t, err)
	require.Equal(t, before, data)
}

// A value can be of another type for the reader.
func TestUnmarshal_AnotherType(t *testing.T) {
	type server struct{ weight int }
	servers, err := chash.NewMaglev([]chash.Backend[*server]{{Name: "a", Value: &server{1}}, {Name: "b", Value: &server{2}}})
	require.NoError(t, err)
	data, err := servers.Marshal(func(s *server) ([]byte, error) { return json.Marshal(s.weight) })
	require.NoError(t, err)
	weights, err := chash.UnmarshalMaglev(data, func(_ string, data []byte) (weight int, err error) {
		err = json.Unmarshal(data, &weight)
		return weight, err
	})
	require.NoError(t, err)
	require.Equal(t, []chash.Backend[int]{{Name: "a", Weight: 1, Value: 1}, {Name: "b", Weight: 1, Value: 2}}, weights.Backends())
	none, err := chash.UnmarshalMaglev[struct{}](data, nil)
	require.NoError(t, err)
	require.Equal(t, servers.Fingerprint(), none.Fingerprint())
}

// While others change the structure, what is written is one of its states.
func TestMarshal_WhileOthersChange(t *testing.T) {
	chashtest.OnBoth(t, func(t *testing.T, kind chashtest.Kind) {
		made, err := kind.New(chash.Named("a", "b", "c"))
		require.NoError(t, err)
		s := made
		var wait sync.WaitGroup
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range 40 {
				name := fmt.Sprint("new", i)
				_ = s.Add(chash.Named(name)...)
				_ = s.SetValue("a", name)
				_ = s.SetState("b", chash.State(i%2))
				_ = s.Remove(name)
			}
		}()
		for range 20 {
			_, err := unmarshal(kind.Name, marshal(t, s), decodeString)
			require.NoError(t, err)
		}
		wait.Wait()
	})
}

// FuzzUnmarshal reads any bytes: what can be read is written again as it was, and
// all else is one of the two errors. The first byte says whether the checksum is
// put right before.
func FuzzUnmarshal(f *testing.F) {
	for _, data := range []string{"", "chash\x00M\x01", "chash\x00R\x01"} {
		f.Add(false, []byte(data))
		f.Add(true, []byte(data))
	}
	hash := chash.WithHash(xxhash.Sum64String)
	for _, opts := range [][]chash.Option{nil, {chash.WithSeed(9)}, {hash}} {
		m, err := chashtest.NewMaglev(formBackends, chash.Options(opts...), chash.WithTableSize(13))
		require.NoError(f, err)
		r, err := chashtest.NewRing(formBackends, chash.Options(opts...), chash.WithReplicas(1))
		require.NoError(f, err)
		none, err := chashtest.NewMaglev[string](nil, chash.Options(opts...))
		require.NoError(f, err)
		for _, s := range []chashtest.Structure{m, r, none} {
			data := marshal(f, s)
			f.Add(false, data)
			f.Add(true, data[:len(data)-8])
		}
	}
	f.Fuzz(func(t *testing.T, sum bool, data []byte) {
		if sum {
			data = withSum(data)
		}
		before := slices.Clone(data)
		for _, kind := range chashtest.Kinds {
			for _, opts := range [][]chash.Option{nil, {hash}} {
				s, err := unmarshal(kind.Name, data, decodeString, append(opts, chash.WithMaxSize(5000))...)
				if !slices.Equal(before, data) {
					t.Fatal("the data are written to")
				}
				if err != nil {
					if s != nil || !isRefusal(err) {
						t.Fatalf("%v, %v, want no other error", s, err)
					}
					continue
				}
				if got := marshal(t, s); !slices.Equal(got, data) {
					t.Fatalf("% x\nis written again as\n% x", data, got)
				}
				if _, err := s.Get("key"); err != nil && !errors.Is(err, chash.ErrNoBackends) && !errors.Is(err, chash.ErrNoHealthyBackends) {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzMarshal writes and reads any membership.
func FuzzMarshal(f *testing.F) {
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(3, 0))
	for size := range byte(6) {
		for hash := range byte(8) {
			tape := []byte{size, hash}
			for range 60 {
				tape = append(tape, byte(rng.Uint32()))
			}
			f.Add(tape)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, ring := range []bool{false, true} {
			tape := chashtest.FuzzTape(data)
			w := chashtest.FuzzTwin(&tape, ring)
			s, err := w.Build(tape.Backends(len(chashtest.FuzzNames), 0))
			if err != nil {
				continue
			}
			var opts []chash.Option
			if w.Hash != nil {
				opts = []chash.Option{chash.WithHash(w.Hash)}
			}
			data := marshal(t, s)
			var got chashtest.Structure
			if ring {
				got, err = unmarshalRing(data, decodeString, chash.Options(opts...), chash.WithBlindDigests(w.Blind))
			} else {
				got, err = unmarshalMaglev(data, decodeString, chash.Options(opts...))
			}
			if err != nil {
				t.Fatalf("%+v: %v", s.Backends(), err)
			}
			if !slices.Equal(marshal(t, got), data) {
				t.Fatalf("%+v is read as %+v", s.Backends(), got.Backends())
			}
			if got.LiveFingerprint() != s.LiveFingerprint() {
				t.Fatalf("%+v: the mapping differs", s.Backends())
			}
		}
	})
}

// The load factor and the load floor are options of the form: there if they are not the
// default, never if they are, and valid.
func TestMarshal_Bound(t *testing.T) {
	type numbers = []float64
	for _, test := range []struct {
		name    string
		number  byte
		set     func(float64) chash.Option
		usual   float64
		invalid numbers
	}{
		{"factor", 4, chash.WithLoadFactor, 1.25, numbers{1.25, 1, 0, -2, math.NaN(), math.Inf(1), math.Inf(-1)}},
		{"floor", 5, chash.WithLoadFloor, 0, numbers{0, math.Copysign(0, -1), -2, math.NaN(), math.Inf(1), math.Inf(-1)}},
	} {
		for _, kind := range chashtest.Kinds {
			t.Run(test.name+"/"+kind.Name, func(t *testing.T) {
				s, err := kind.New(chashtest.Numbered("b", 1), test.set(2.5))
				require.NoError(t, err)
				data := marshal(t, s)
				back, err := unmarshal(kind.Name, data, decodeString)
				require.NoError(t, err)
				require.Equal(t, data, marshal(t, back), "the number is lost")

				size := uint64(chash.DefaultTableSize)
				letter := byte('M')
				if kind.Name == "ring" {
					size, letter = chash.DefaultReplicas, 'R'
				}
				with := func(x float64) []byte {
					return form{letter, []formOption{{1, size}, {test.number, math.Float64bits(x)}}, s.Fingerprint(), s.Backends()}.bytes()
				}
				require.Equal(t, data, with(2.5))
				for _, x := range test.invalid {
					_, err := unmarshal(kind.Name, with(x), decodeString)
					require.ErrorIs(t, err, chash.ErrCorrupt, "%v", x)
				}

				_, err = unmarshal(kind.Name, data, decodeString, test.set(2.5))
				require.NoError(t, err)
				for _, x := range []float64{test.usual, 1, -1} {
					_, err = unmarshal(kind.Name, data, decodeString, test.set(x))
					require.ErrorIs(t, err, chash.ErrOptionsDiffer, "%v", x)
				}
			})
		}
	}
}
