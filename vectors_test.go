package chash_test

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// The vectors are embedded so that the test binary needs no files beside it,
// under an emulator of another architecture say.
var (
	//go:embed testdata/maglev.json
	maglevVectors []byte
	//go:embed testdata/ring.json
	ringVectors []byte
)

// vector is one entry of either file: see testdata/README.md for the fields.
type vector struct {
	TableSize      int      `json:"table_size"`
	Backends       []string `json:"backends"`
	BackendPattern string   `json:"backend_pattern"`
	BackendCount   int      `json:"backend_count"`
	Slots          []string `json:"slots"`
	SlotsSHA256    string   `json:"slots_sha256"`

	Replicas   int      `json:"replicas"`
	Nodes      []string `json:"nodes"`
	RingSHA256 string   `json:"ring_sha256"`

	Keys             map[string]string `json:"keys"`
	Removed          string            `json:"removed"`
	KeysAfterRemoval map[string]string `json:"keys_after_removal"`
}

func (v vector) names() []string {
	names := slices.Concat(v.Backends, v.Nodes)
	for i := range v.BackendCount {
		names = append(names, fmt.Sprintf(v.BackendPattern, i))
	}
	return names
}

func readVectors(t *testing.T, file []byte, entries int) []vector {
	t.Helper()
	var vectors []vector
	require.NoError(t, json.Unmarshal(file, &vectors))
	require.Len(t, vectors, entries, "a file of vectors is cut short")
	return vectors
}

func TestVectors_Maglev(t *testing.T) {
	for _, v := range readVectors(t, maglevVectors, 8) {
		t.Run(fmt.Sprintf("M=%d/N=%d", v.TableSize, len(v.names())), func(t *testing.T) {
			require.NotEmpty(t, v.SlotsSHA256)
			check := func(t *testing.T, s structure) {
				t.Helper()
				slots := make([]string, v.TableSize)
				for i := range slots {
					slots[i], _ = s.GetHash(uint64(i))
				}
				for i, want := range v.Slots {
					if slots[i] != want {
						t.Errorf("GetHash(%d) = %q, want %q", i, slots[i], want)
					}
				}
				if got := sumOfNames(slots); got != v.SlotsSHA256 {
					t.Errorf("SHA-256 of the slots = %s, want %s", got, v.SlotsSHA256)
				}
			}
			checkVector(t, v, check, func(backends []chash.Backend[string]) (structure, error) {
				return newMaglev(backends, chash.WithTableSize(v.TableSize))
			})
		})
	}
}

func TestVectors_Ring(t *testing.T) {
	for _, v := range readVectors(t, ringVectors, 4) {
		t.Run(fmt.Sprintf("replicas=%d/N=%d", v.Replicas, len(v.names())), func(t *testing.T) {
			require.NotEmpty(t, v.RingSHA256)
			// The first 64 bits of each point, in order: no two are equal, so
			// that GetHash of one answers with the owner of that very point.
			var points []uint64
			for _, name := range v.names() {
				for i := range v.Replicas {
					sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d", name, i))
					points = append(points, binary.BigEndian.Uint64(sum[:]))
				}
			}
			slices.Sort(points)
			require.Len(t, slices.Compact(points), len(points))
			check := func(t *testing.T, s structure) {
				t.Helper()
				owners := make([]string, len(points))
				for i, point := range points {
					owners[i], _ = s.GetHash(point)
				}
				if got := sumOfNames(owners); got != v.RingSHA256 {
					t.Errorf("SHA-256 of the points' owners = %s, want %s", got, v.RingSHA256)
				}
			}
			checkVector(t, v, check, func(backends []chash.Backend[string]) (structure, error) {
				return newRing(backends, chash.WithReplicas(v.Replicas))
			})
		})
	}
}

// checkVector checks keys, owners and the removal of one vector over structures
// that came to its backends, and lost the removed one, in several ways.
func checkVector(t *testing.T, v vector, checkOwners func(*testing.T, structure), make func([]chash.Backend[string]) (structure, error)) {
	backends := chash.Named(v.names()...)
	reversed := slices.Clone(backends)
	slices.Reverse(reversed)
	made := func(t *testing.T, backends []chash.Backend[string]) structure {
		t.Helper()
		s, err := make(backends)
		require.NoError(t, err)
		return s
	}

	ways := []struct {
		name  string
		build func(t *testing.T) structure
	}{
		{"constructor", func(t *testing.T) structure { return made(t, backends) }},
		{"constructor, reversed", func(t *testing.T) structure { return made(t, reversed) }},
		{"Add in batches, last first", func(t *testing.T) structure {
			s := made(t, nil)
			for batch := range slices.Chunk(reversed, (len(reversed)+9)/10) {
				require.NoError(t, s.Add(batch...))
			}
			return s
		}},
		{"Add in batches, odd ones first", func(t *testing.T) structure {
			var odd, even []chash.Backend[string]
			for i, b := range backends {
				if i%2 == 1 {
					odd = append(odd, b)
				} else {
					even = append(even, b)
				}
			}
			s := made(t, odd)
			require.NoError(t, s.Add(even...))
			return s
		}},
		{"Set over another set", func(t *testing.T) structure {
			// Half of the set stays, under other weights; the other half is new.
			before := []chash.Backend[string]{{Name: "gone", Value: "gone"}}
			for _, b := range reversed[:len(reversed)/2] {
				b.Weight = 3
				before = append(before, b)
			}
			s := made(t, before)
			require.NoError(t, s.Set(reversed))
			return s
		}},
		{"Remove and Add again", func(t *testing.T) structure {
			s := made(t, reversed)
			require.NoError(t, s.Remove(backends[0].Name))
			require.NoError(t, s.Add(backends[0]))
			return s
		}},
		{"Clear and Add", func(t *testing.T) structure {
			s := made(t, chash.Named("gone"))
			s.Clear()
			require.NoError(t, s.Add(reversed...))
			return s
		}},
	}
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := way.build(t)
			checkKeys(t, s, v.Keys)
			if i < 2 || v.TableSize < 100_000 { // the largest table would take half the time of all
				checkOwners(t, s)
			}
			if v.Removed == "" {
				return
			}
			require.NoError(t, s.Remove(v.Removed))
			checkKeys(t, s, v.KeysAfterRemoval)
		})
	}
	if v.Removed == "" {
		return
	}

	losses := []struct {
		name string
		lose func(s structure) error
	}{
		{"lost to Draining", func(s structure) error { return s.SetState(v.Removed, chash.Draining) }},
		{"lost to Set", func(s structure) error {
			return s.Set(slices.DeleteFunc(slices.Clone(reversed), func(b chash.Backend[string]) bool {
				return b.Name == v.Removed
			}))
		}},
	}
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			s := made(t, backends)
			require.NoError(t, loss.lose(s))
			checkKeys(t, s, v.KeysAfterRemoval)
		})
	}
}

func checkKeys(t *testing.T, s structure, want map[string]string) {
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

func sumOfNames(names []string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return hex.EncodeToString(sum[:])
}
