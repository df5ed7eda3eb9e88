package chashtest

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// Owners maps the sample keys: key i belongs to owners[i].
func Owners(t *testing.T, s Structure) []string {
	t.Helper()
	got := make([]string, len(SampleKeys))
	for i, key := range SampleKeys {
		owner, err := s.Get(key)
		if err != nil {
			t.Fatalf("Get(%q) = %q, %v, want no error", key, owner, err)
		}
		got[i] = owner
	}
	return got
}

// CheckSameOwners checks that the sample keys map in s as they do in want.
func CheckSameOwners(t *testing.T, s Structure, want []string) {
	t.Helper()
	wrong := 0
	for i, got := range Owners(t, s) {
		if got != want[i] {
			if wrong++; wrong <= 3 {
				t.Errorf("Get(%q) = %q, want %q", SampleKeys[i], got, want[i])
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%d of %d keys on the wrong backend, want 0", wrong, len(SampleKeys))
	}
}

// CheckRebuilds checks how many rebuilds a call costs.
func CheckRebuilds(t *testing.T, s Structure, want int, name string, call func() error) {
	t.Helper()
	before := s.Rebuilds()
	if err := call(); err != nil {
		t.Fatalf("%s = %v, want no error", name, err)
	}
	if got := s.Rebuilds() - before; got != want {
		t.Errorf("rebuilds of %s = %d, want %d", name, got, want)
	}
}

// state is all that a caller can see of a structure but for the turn of Next.
type state struct {
	backends []chash.Backend[string]
	length   int
	Rebuilds int
	Owners   []string   // or the error, for each sample key
	orders   [][]string // of preference, for some sample keys
}

func StateOf(s Structure) state {
	st := state{backends: s.Backends(), length: s.Len(), Rebuilds: s.Rebuilds()}
	for i, key := range SampleKeys {
		owner, err := s.Get(key)
		st.Owners = append(st.Owners, fmt.Sprint(owner, err))
		if i < 100 {
			st.orders = append(st.orders, slices.Collect(s.Candidates(key)))
		}
	}
	return st
}

// CheckState checks that the state of s is still what it was before a call.
func CheckState(t *testing.T, s Structure, call string, want state) {
	t.Helper()
	got := StateOf(s)
	if !slices.Equal(got.backends, want.backends) {
		t.Errorf("Backends() after %s = %v, want %v", call, got.backends, want.backends)
	}
	if got.length != want.length {
		t.Errorf("Len() after %s = %d, want %d", call, got.length, want.length)
	}
	if got.Rebuilds != want.Rebuilds {
		t.Errorf("rebuilds after %s = %d, want %d", call, got.Rebuilds, want.Rebuilds)
	}
	for i := range want.Owners {
		if got.Owners[i] != want.Owners[i] {
			t.Errorf("Get(%q) after %s = %s, want %s", SampleKeys[i], call, got.Owners[i], want.Owners[i])
			break
		}
	}
	for i := range want.orders {
		if !slices.Equal(got.orders[i], want.orders[i]) {
			t.Errorf("Candidates(%q) after %s = %q, want %q", SampleKeys[i], call, got.orders[i], want.orders[i])
			break
		}
	}
}

// Sentinels are all errors of the package.
var Sentinels = map[string]error{
	"ErrNoBackends":        chash.ErrNoBackends,
	"ErrNoHealthyBackends": chash.ErrNoHealthyBackends,
	"ErrNoneAccepted":      chash.ErrNoneAccepted,
	"ErrEmptyName":         chash.ErrEmptyName,
	"ErrBackendExists":     chash.ErrBackendExists,
	"ErrBackendNotFound":   chash.ErrBackendNotFound,
	"ErrInvalidState":      chash.ErrInvalidState,
	"ErrInvalidWeight":     chash.ErrInvalidWeight,
	"ErrInvalidOption":     chash.ErrInvalidOption,
	"ErrTableSizeNotPrime": chash.ErrTableSizeNotPrime,
	"ErrTooManyBackends":   chash.ErrTooManyBackends,
	"ErrRingTooLarge":      chash.ErrRingTooLarge,
	"ErrCorrupt":           chash.ErrCorrupt,
	"ErrOptionsDiffer":     chash.ErrOptionsDiffer,
	"ErrIncomparable":      chash.ErrIncomparable,
}

// CheckError checks that err is want and no other sentinel, and that its text
// has each of the parts.
func CheckError(t *testing.T, call string, err, want error, parts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want an error that is %q", call, err, want)
		return
	}
	for name, other := range Sentinels {
		if other != want && errors.Is(err, other) && !errors.Is(want, other) {
			t.Errorf("%s = %v, which is %s too, want only %q", call, err, name, want)
		}
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s = %v, want %s in its text", call, err, part)
		}
	}
}

// CheckNumbers checks that the text of err names each of the numbers.
func CheckNumbers(t *testing.T, call string, err error, want ...int64) {
	t.Helper()
	if err == nil {
		return // and checkError has said so
	}
	for _, n := range want {
		if got := number.FindAllString(err.Error(), -1); !slices.Contains(got, strconv.FormatInt(n, 10)) {
			t.Errorf("%s = %v, want the number %d in its text", call, err, n)
		}
	}
}

var number = regexp.MustCompile(`-?[0-9]+`)

// lookup is one form of lookup, as the calls that can return an error.
type lookup struct {
	name string
	call func(s Structure) (string, error)
}

func first(values []string, err error) (string, error) {
	if len(values) == 0 {
		return "", err
	}
	return values[0], err
}

// lookups are all forms that can fail.
func lookups(key string) []lookup {
	return []lookup{
		{"Get", func(s Structure) (string, error) { return s.Get(key) }},
		{"GetBytes", func(s Structure) (string, error) { return s.GetBytes([]byte(key)) }},
		{"GetHash(0)", func(s Structure) (string, error) { return s.GetHash(0) }},
		{"GetHash(max)", func(s Structure) (string, error) { return s.GetHash(math.MaxUint64) }},
		{"GetN(1)", func(s Structure) (string, error) { return first(s.GetN(key, 1)) }},
		{"GetN(max)", func(s Structure) (string, error) { return first(s.GetN(key, math.MaxInt)) }},
		{"AppendN(nil)", func(s Structure) (string, error) { return first(s.AppendN(nil, key, 2)) }},
		{"GetFunc", func(s Structure) (string, error) {
			return s.GetFunc(key, func(string) bool { return true })
		}},
		{"GetFunc(nil)", func(s Structure) (string, error) { return s.GetFunc(key, nil) }},
		{"Next", func(s Structure) (string, error) { return s.Next() }},
	}
}

// CheckLookupsFail checks that every lookup returns exactly want, bare, and
// nothing else.
func CheckLookupsFail(t *testing.T, s Structure, want error) {
	t.Helper()
	for _, key := range []string{"", "\xff", "key"} {
		for _, l := range lookups(key) {
			if got, err := l.call(s); err != want || got != "" {
				t.Errorf("%s of %q = %q, %v, want \"\", %v", l.name, key, got, err, want)
			}
		}
		if got, err := s.GetN(key, 3); len(got) != 0 || err != want {
			t.Errorf("GetN(%q, 3) = %q, %v, want nothing, %v", key, got, err, want)
		}
		dst := []string{"x"}
		if got, err := s.AppendN(dst, key, 3); !slices.Equal(got, dst) || err != want {
			t.Errorf("AppendN([x], %q, 3) = %q, %v, want [x], %v", key, got, err, want)
		}
		for got := range s.Candidates(key) {
			t.Errorf("Candidates(%q) yields %q, want nothing", key, got)
		}
		_, err := s.GetFunc(key, func(value string) bool {
			t.Errorf("GetFunc(%q) offers %q, want nothing offered", key, value)
			return false
		})
		if err != want {
			t.Errorf("GetFunc(%q) = %v, want %v", key, err, want)
		}
	}
}

// SlotOwners is the value that answers for each slot of a Maglev of size m.
func SlotOwners(t *testing.T, s Structure, m int) []string {
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

// Answers is what each hash leads to.
func Answers(t *testing.T, s Structure, hashes []uint64) []string {
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

// SameAnswers fails where the answers to the same keys or slots differ.
func SameAnswers(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("key or slot %d is on %q, want %q", i, got[i], want[i])
		}
	}
}

// MovedOnly fails where keys moved that were not on one of the backends from,
// or moved elsewhere than to one of the backends to. A nil list allows all.
// It returns how many moved.
func MovedOnly(t *testing.T, before, after []string, from, to []string) (moved int) {
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

// KeyAnswers is what each key leads to.
func KeyAnswers(t *testing.T, s Structure, keys []string) []string {
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

// SlotsOf reads the owners of all m slots of a table whose backends are healthy.
func SlotsOf(t *testing.T, s Structure, m int) []string {
	t.Helper()
	slots := make([]string, m)
	for i := range slots {
		owner, err := s.GetHash(uint64(i))
		if err != nil {
			t.Fatalf("GetHash(%d) = %q, %v, want no error", i, owner, err)
		}
		slots[i] = owner
	}
	return slots
}

func CountOf(values []string) map[string]int {
	count := map[string]int{}
	for _, value := range values {
		count[value]++
	}
	return count
}

// Nexts calls Next n times.
func Nexts(t *testing.T, s Structure, n int) []string {
	t.Helper()
	got := make([]string, n)
	for i := range got {
		value, err := s.Next()
		if err != nil {
			t.Fatalf("Next() = %q, %v, want no error", value, err)
		}
		got[i] = value
	}
	return got
}

// CheckRounds checks that Next gives each of want once in every round.
func CheckRounds(t *testing.T, s Structure, want ...string) {
	t.Helper()
	got := Nexts(t, s, 4*len(want))
	for i := range len(got) - len(want) + 1 {
		round := slices.Sorted(slices.Values(got[i : i+len(want)]))
		if !slices.Equal(round, want) {
			t.Errorf("Next() in a row = %q, want each of %q once", got[i:i+len(want)], want)
			return
		}
	}
}

func CheckKeys(t *testing.T, s Structure, want map[string]string) {
	t.Helper()
	require.NotEmpty(t, want)
	for key, want := range want {
		got, err := s.Get(key)
		if err != nil || got != want {
			t.Errorf("Get(%q) = %q, %v, want %q", key, got, err, want)
		}
		got, err = s.GetBytes([]byte(key))
		if err != nil || got != want {
			t.Errorf("GetBytes(%q) = %q, %v, want %q", key, got, err, want)
		}
	}
}

func Agreeing(a, b []string) int {
	same := 0
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	return same
}
