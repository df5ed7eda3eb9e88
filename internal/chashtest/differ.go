package chashtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// Hashes is a hash for every owner: in a table one that leads to each slot, on
// a ring the first bits of each point, and those just after.
func (w *Twin) Hashes() []uint64 {
	hashes := []uint64{0, math.MaxUint64}
	for i := range w.Owners {
		if w.Ring {
			h := binary.BigEndian.Uint64([]byte(w.positions[i]))
			hashes = append(hashes, h, h+1)
		} else {
			hashes = append(hashes, uint64(i))
		}
	}
	return hashes
}

// Differ says where s is not what w is: in its backends, or in a lookup of any
// form by one of the keys or hashes.
func (w *Twin) Differ(s Structure, keys []string, hashes []uint64) error {
	if err := w.differInBackends(s); err != nil {
		return err
	}
	for _, h := range hashes {
		got, err := s.GetHash(h)
		if err := w.DifferInOne(w.MetByHash(h), got, err); err != nil {
			return fmt.Errorf("GetHash(%#x) %w", h, err)
		}
	}
	for _, key := range keys {
		if err := w.DifferInKey(s, key); err != nil {
			return err
		}
	}
	return w.DifferInNext(s)
}

func (w *Twin) differInBackends(s Structure) error {
	list := w.List()
	if got := s.Backends(); !slices.Equal(got, list) {
		return fmt.Errorf("Backends() = %+v, want %+v", got, list)
	}
	if got := s.Len(); got != len(list) {
		return fmt.Errorf("Len() = %d, want %d", got, len(list))
	}
	for _, b := range list {
		if got, ok := s.Backend(b.Name); !ok || got != b {
			return fmt.Errorf("Backend(%q) = %+v, %t, want %+v", b.Name, got, ok, b)
		}
	}
	for _, name := range []string{"", "no such backend"} {
		if got, ok := s.Backend(name); ok || got != (chash.Backend[string]{}) {
			return fmt.Errorf("Backend(%q) = %+v, %t, want none", name, got, ok)
		}
	}
	return nil
}

// DifferInOne compares the answer of a lookup that gives one value.
func (w *Twin) DifferInOne(met iter.Seq[string], got string, gotErr error) error {
	want, wantErr := "", w.Err()
	if wantErr == nil {
		want = w.Prefer(met, 1)[0].Value
	}
	if got != want || gotErr != wantErr {
		return fmt.Errorf("= %q, %v, want %q, %v", got, gotErr, want, wantErr)
	}
	return nil
}

func (w *Twin) DifferInKey(s Structure, key string) error {
	got, err := s.Get(key)
	if err := w.DifferInOne(w.MetByKey(key), got, err); err != nil {
		return fmt.Errorf("Get(%q) %w", key, err)
	}
	got, err = s.GetBytes([]byte(key))
	if err := w.DifferInOne(w.MetByKey(key), got, err); err != nil {
		return fmt.Errorf("GetBytes(%q) %w", key, err)
	}
	if !w.Ring || w.Hash != nil {
		got, err = s.GetHash(w.sum(key))
		if err := w.DifferInOne(w.MetByKey(key), got, err); err != nil {
			return fmt.Errorf("GetHash of %q %w", key, err)
		}
	}

	all := ValuesOf(w.Prefer(w.MetByKey(key), math.MaxInt))
	if got := slices.Collect(s.Candidates(key)); !slices.Equal(got, all) {
		return fmt.Errorf("Candidates(%q) = %q, want %q", key, got, all)
	}
	for first := range s.Candidates(key) { // a range that ends early
		if first != all[0] {
			return fmt.Errorf("Candidates(%q) begins with %q, want %q", key, first, all[0])
		}
		break
	}

	for _, n := range []int{math.MinInt, -1, 0, 1, 2, 3, len(all) - 1, len(all), len(all) + 1, math.MaxInt} {
		want, wantErr := all[:max(0, min(n, len(all)))], w.Err()
		if n <= 0 {
			wantErr = nil
		}
		got, err := s.GetN(key, n)
		if !slices.Equal(got, want) || err != wantErr || n <= 0 && got != nil {
			return fmt.Errorf("GetN(%q, %d) = %#v, %v, want %q, %v", key, n, got, err, want, wantErr)
		}
		want = append([]string{"kept"}, want...)
		got, err = s.AppendN([]string{"kept"}, key, n)
		if !slices.Equal(got, want) || err != wantErr {
			return fmt.Errorf("AppendN([kept], %q, %d) = %q, %v, want %q, %v", key, n, got, err, want, wantErr)
		}
	}

	// GetFunc: nobody's, everybody's, and each candidate's turn in its order.
	got, err = s.GetFunc(key, nil)
	if err := w.DifferInOne(w.MetByKey(key), got, err); err != nil {
		return fmt.Errorf("GetFunc(%q, nil) %w", key, err)
	}
	for accepted := 0; accepted <= len(all); accepted++ {
		var asked []string
		got, err := s.GetFunc(key, func(value string) bool {
			asked = append(asked, value)
			return len(asked) == accepted+1
		})
		want, wantErr := "", cmp.Or(w.Err(), chash.ErrNoneAccepted)
		if accepted < len(all) {
			want, wantErr = all[accepted], nil
		}
		if got != want || err != wantErr {
			return fmt.Errorf("GetFunc(%q, the one after %d) = %q, %v, want %q, %v", key, accepted, got, err, want, wantErr)
		}
		if want := all[:min(accepted+1, len(all))]; !slices.Equal(asked, want) {
			return fmt.Errorf("GetFunc(%q, the one after %d) asked for %q, want %q", key, accepted, asked, want)
		}
	}
	return nil
}

// DifferInNext compares what follows from the turns of equal weights, whatever the
// count that they have come to: each healthy placement once in a round, in the order of
// hash keys. Weights that differ are TestNext_Weights'.
func (w *Twin) DifferInNext(s Structure) error {
	if err := w.Err(); err != nil {
		if value, got := s.Next(); value != "" || got != err {
			return fmt.Errorf("Next() = %q, %v, want %v", value, got, err)
		}
		return nil
	}
	var want []string
	weights := map[uint32]bool{}
	for _, hashKey := range slices.Sorted(maps.Keys(w.Answering)) {
		want = append(want, w.Answering[hashKey].Value)
		weights[w.Answering[hashKey].Weight] = true
	}
	var got []string
	for range 2 * len(want) {
		value, err := s.Next()
		if err != nil || !slices.Contains(want, value) {
			return fmt.Errorf("Next() = %q, %v, want one of %q", value, err, want)
		}
		got = append(got, value)
	}
	if len(weights) > 1 {
		return nil
	}
	want = slices.Concat(want, want, want)
	for begin := range len(want) / 3 {
		if slices.Equal(want[begin:begin+len(got)], got) {
			return nil
		}
	}
	return fmt.Errorf("%d calls of Next gave %q, want each of %q in turn", len(got), got, want[:len(got)/2])
}

// RandomHashes is a hash for each owner, or where they are many for some of
// them, and n more.
func (w *Twin) RandomHashes(rng *rand.Rand, n int) []uint64 {
	hashes := w.Hashes()
	rng.Shuffle(len(hashes), func(i, j int) { hashes[i], hashes[j] = hashes[j], hashes[i] })
	hashes = hashes[:min(500, len(hashes))]
	for range n {
		hashes = append(hashes, rng.Uint64())
	}
	return hashes
}

// Twins is a structure and its twin with the same backends.
func Twins(t *testing.T, w *Twin, backends []chash.Backend[string]) Structure {
	t.Helper()
	require.Empty(t, w.Set(backends))
	s, err := w.Build(backends)
	require.NoError(t, err)
	return s
}
