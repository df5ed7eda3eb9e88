package contract_test

import (
	"cmp"
	"crypto/sha256"
	"os"
	"path/filepath"

	"github.com/chash-go/chash/internal/chashtest"

	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

// slackVector is one entry: see testdata/README.md for the fields.
type slackVector struct {
	TableSize int         `json:"table_size"`
	Slack     vectorSlack `json:"slack"`
	Backends  []struct {
		Name   string `json:"name"`
		Weight uint32 `json:"weight"`
	} `json:"backends"`
	Counts      []int  `json:"counts"`
	Slots       []int  `json:"slots"`
	SlotsSHA256 string `json:"slots_sha256"`
}

func (v slackVector) backends() []chash.Backend[string] {
	backends := make([]chash.Backend[string], len(v.Backends))
	for i, b := range v.Backends {
		backends[i] = chash.Backend[string]{Name: b.Name, Weight: b.Weight, Value: b.Name}
	}
	return backends
}

// vectorSlack is a number, or "unlimited".
type vectorSlack float64

func (s *vectorSlack) UnmarshalJSON(text []byte) error {
	if string(text) == `"unlimited"` {
		*s = vectorSlack(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}

func readSlackVectors(t *testing.T) []slackVector {
	t.Helper()
	var vectors []slackVector
	require.NoError(t, json.Unmarshal(testdata(t, "slack.json"), &vectors))
	require.Len(t, vectors, 80, "the file of vectors is cut short")
	return vectors
}

func TestVectors_Slack(t *testing.T) {
	for _, v := range readSlackVectors(t) {
		m, err := chashtest.NewMaglev(v.backends(), chash.WithTableSize(v.TableSize), chash.WithSlack(float64(v.Slack)))
		require.NoError(t, err)
		owners := chashtest.SlotOwners(t, m, v.TableSize)
		name := fmt.Sprintf("%d slots, %d backends, slack %v", v.TableSize, len(v.Backends), v.Slack)
		require.Equal(t, v.SlotsSHA256, sumOfNames(owners), name)
		if v.TableSize <= 251 {
			require.Len(t, v.Slots, v.TableSize, name)
		}
		for slot, owner := range v.Slots {
			require.Equal(t, v.Backends[owner].Name, owners[slot], "slot %d: %s", slot, name)
		}
		counts := map[string]int{}
		for _, owner := range owners {
			counts[owner]++
		}
		for i, want := range v.Counts {
			require.Equal(t, want, counts[v.Backends[i].Name], name)
		}
	}
}

// testdata returns a file of the module's testdata.
func testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", name))
	require.NoError(t, err)
	return data
}

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
	for _, v := range readVectors(t, testdata(t, "maglev.json"), 8) {
		t.Run(fmt.Sprintf("M=%d/N=%d", v.TableSize, len(v.names())), func(t *testing.T) {
			require.NotEmpty(t, v.SlotsSHA256)
			check := func(t *testing.T, s chashtest.Structure) {
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
			checkVector(t, v, check, func(backends []chash.Backend[string]) (chashtest.Structure, error) {
				return chashtest.NewMaglev(backends, chash.WithTableSize(v.TableSize))
			})
		})
	}
}

func TestVectors_Ring(t *testing.T) {
	for _, v := range readVectors(t, testdata(t, "ring.json"), 4) {
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
			check := func(t *testing.T, s chashtest.Structure) {
				t.Helper()
				owners := make([]string, len(points))
				for i, point := range points {
					owners[i], _ = s.GetHash(point)
				}
				if got := sumOfNames(owners); got != v.RingSHA256 {
					t.Errorf("SHA-256 of the points' owners = %s, want %s", got, v.RingSHA256)
				}
			}
			checkVector(t, v, check, func(backends []chash.Backend[string]) (chashtest.Structure, error) {
				return chashtest.NewRing(backends, chash.WithReplicas(v.Replicas))
			})
		})
	}
}

// checkVector checks keys, owners and the removal of one vector over structures
// that came to its backends, and lost the removed one, in several ways.
func checkVector(t *testing.T, v vector, checkOwners func(*testing.T, chashtest.Structure), make func([]chash.Backend[string]) (chashtest.Structure, error)) {
	backends := chash.Named(v.names()...)
	reversed := slices.Clone(backends)
	slices.Reverse(reversed)
	made := func(t *testing.T, backends []chash.Backend[string]) chashtest.Structure {
		t.Helper()
		s, err := make(backends)
		require.NoError(t, err)
		return s
	}

	ways := []struct {
		name  string
		build func(t *testing.T) chashtest.Structure
	}{
		{"constructor", func(t *testing.T) chashtest.Structure { return made(t, backends) }},
		{"constructor, reversed", func(t *testing.T) chashtest.Structure { return made(t, reversed) }},
		{"Add in batches, last first", func(t *testing.T) chashtest.Structure {
			s := made(t, nil)
			for batch := range slices.Chunk(reversed, (len(reversed)+9)/10) {
				require.NoError(t, s.Add(batch...))
			}
			return s
		}},
		{"Add in batches, odd ones first", func(t *testing.T) chashtest.Structure {
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
		{"Set over another set", func(t *testing.T) chashtest.Structure {
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
		{"Remove and Add again", func(t *testing.T) chashtest.Structure {
			s := made(t, reversed)
			require.NoError(t, s.Remove(backends[0].Name))
			require.NoError(t, s.Add(backends[0]))
			return s
		}},
		{"Clear and Add", func(t *testing.T) chashtest.Structure {
			s := made(t, chash.Named("gone"))
			s.Clear()
			require.NoError(t, s.Add(reversed...))
			return s
		}},
	}
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := way.build(t)
			chashtest.CheckKeys(t, s, v.Keys)
			if i < 2 || v.TableSize < 100_000 { // the largest table would take half the time of all
				checkOwners(t, s)
			}
			if v.Removed == "" {
				return
			}
			require.NoError(t, s.Remove(v.Removed))
			chashtest.CheckKeys(t, s, v.KeysAfterRemoval)
		})
	}
	if v.Removed == "" {
		return
	}

	losses := []struct {
		name string
		lose func(s chashtest.Structure) error
	}{
		{"lost to Draining", func(s chashtest.Structure) error { return s.SetState(v.Removed, chash.Draining) }},
		{"lost to Set", func(s chashtest.Structure) error {
			return s.Set(slices.DeleteFunc(slices.Clone(reversed), func(b chash.Backend[string]) bool {
				return b.Name == v.Removed
			}))
		}},
	}
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			s := made(t, backends)
			require.NoError(t, loss.lose(s))
			chashtest.CheckKeys(t, s, v.KeysAfterRemoval)
		})
	}
}

func sumOfNames(names []string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return hex.EncodeToString(sum[:])
}

// TestTwinRanks holds the twin's ranks against exact rationals.
func TestTwinRanks(t *testing.T) {
	rank := func(t *chashtest.TwinTurn) *big.Rat {
		if t.Claims == 0 {
			return new(big.Rat)
		}
		num := new(big.Int).SetUint64(2*t.Claims + 1)
		den := new(big.Int).SetUint64(2 * t.Weight)
		return new(big.Rat).SetFrac(num, den)
	}
	claims := []uint64{0, 1, 2, 3, 4, 7, 1<<31 - 2, 1<<31 - 1}
	weights := []uint64{1, 2, 3, 5, 6, 1<<31 - 1, 1 << 31, math.MaxUint32 - 1, math.MaxUint32}
	var turns []*chashtest.TwinTurn
	for _, k := range claims {
		for _, weight := range weights {
			for _, hashKey := range []string{"a", "b"} {
				turns = append(turns, &chashtest.TwinTurn{HashKey: hashKey, Weight: weight, Claims: k})
			}
		}
	}
	for _, a := range turns {
		for _, b := range turns {
			want := cmp.Or(rank(a).Cmp(rank(b)), cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.HashKey, b.HashKey)) < 0
			if got := a.Before(b); got != want {
				t.Fatalf("claim %d of (%q, weight %d) before claim %d of (%q, weight %d) = %t, want %t",
					a.Claims, a.HashKey, a.Weight, b.Claims, b.HashKey, b.Weight, got, want)
			}
		}
	}
}

// TestTwinVectors holds the twin itself against the golden vectors, which
// independent programs made.
func TestTwinVectors(t *testing.T) {
	for _, v := range slices.Concat(readVectors(t, testdata(t, "maglev.json"), 8), readVectors(t, testdata(t, "ring.json"), 4)) {
		ring, size, sum := v.Replicas > 0, v.TableSize, v.SlotsSHA256
		if ring {
			size, sum = v.Replicas, v.RingSHA256
		}
		t.Run(fmt.Sprintf("ring=%t/size=%d/N=%d", ring, size, len(v.names())), func(t *testing.T) {
			if !ring && size*len(v.names()) > 10_000_000 {
				t.Skip("the twin is too slow for so many slots and names")
			}
			w := chashtest.NewTwin(ring, size, 0, nil)
			require.Empty(t, w.Add(chash.Named(v.names()...)...))
			require.Equal(t, sum, sumOfNames(w.Owners))
			for key, want := range v.Keys {
				require.Equal(t, want, w.Prefer(w.MetByKey(key), 1)[0].Name, "key %q", key)
			}
			if v.Removed == "" {
				return
			}
			require.Empty(t, w.Remove(v.Removed))
			for key, want := range v.KeysAfterRemoval {
				require.Equal(t, want, w.Prefer(w.MetByKey(key), 1)[0].Name, "key %q without %q", key, v.Removed)
			}
		})
	}
}

// The twin with slack gives the golden vectors, which another program made.
func TestTwinVectors_Slack(t *testing.T) {
	for _, v := range readSlackVectors(t) {
		slack := float64(v.Slack)
		w := chashtest.NewTwin(false, v.TableSize, 0, nil)
		w.Slack = &slack
		require.Empty(t, w.Add(v.backends()...))
		require.Equal(t, v.SlotsSHA256, sumOfNames(w.Owners), "%d slots, %d backends, slack %v", v.TableSize, len(v.Backends), slack)
	}
}
