package chash_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
)

//go:embed testdata/slack.json
var slackVectors []byte

// slackVector is one entry: see testdata/README.md for the fields.
type slackVector struct {
	TableSize int   `json:"table_size"`
	Slack     slack `json:"slack"`
	Backends  []struct {
		Name   string `json:"name"`
		Weight uint32 `json:"weight"`
	} `json:"backends"`
	Counts      []int  `json:"counts"`
	Slots       []int  `json:"slots"`
	SlotsSHA256 string `json:"slots_sha256"`
}

// slack is a number, or "unlimited".
type slack float64

func (s *slack) UnmarshalJSON(text []byte) error {
	if string(text) == `"unlimited"` {
		*s = slack(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}

func TestVectors_Slack(t *testing.T) {
	var vectors []slackVector
	require.NoError(t, json.Unmarshal(slackVectors, &vectors))
	require.Len(t, vectors, 80, "the file of vectors is cut short")
	for i, v := range vectors {
		t.Run(fmt.Sprintf("%d/M=%d/N=%d/slack=%v", i, v.TableSize, len(v.Backends), v.Slack), func(t *testing.T) {
			backends := make([]chash.Backend[int], len(v.Backends))
			names := make([]string, len(v.Backends))
			for i, b := range v.Backends {
				backends[i] = chash.Backend[int]{Name: b.Name, Weight: b.Weight, Value: i}
				names[i] = b.Name
			}
			m, err := chash.NewMaglev(backends, chash.WithTableSize(v.TableSize), chash.WithSlack(float64(v.Slack)))
			require.NoError(t, err)
			counts := make([]int, len(backends))
			slots := make([]int, v.TableSize)
			owners := make([]string, v.TableSize)
			for slot := range slots {
				slots[slot], err = m.GetHash(uint64(slot))
				require.NoError(t, err)
				counts[slots[slot]]++
				owners[slot] = names[slots[slot]]
			}
			require.Equal(t, v.Counts, counts)
			if v.TableSize <= 251 {
				require.Equal(t, v.Slots, slots)
			}
			require.Equal(t, v.SlotsSHA256, sumOfNames(owners))
		})
	}
}
