package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/segmentio/topk"
)

// sampleRate is in how many requests one is looked at for heavy keys, from sampleAll
// requests of a worker on: the sketch costs ten times what a lookup costs, and more where
// all keys are light. Of 100 million requests, a key of one in 1,000 is counted to within
// some 2 percent.
const (
	sampleAll  = 1 << 16
	sampleRate = 32
)

// tracked is how many keys a sketch follows: more than are asked for, so that the sums
// over all workers miss none of those. It also gives the sketch its width, by which keys
// of less than about one request in 1,000 may be missed among many light ones.
const tracked = 256

// decay is that of HeavyKeeper: how fast light keys make room.
const decay = 0.9

// heavy finds the heaviest keys by a sketch of fixed size: HeavyKeeper (Gong et al., "An
// Accurate Algorithm for Finding Top-k Elephant Flows", USENIX ATC 2018).
type heavy struct {
	sketch *topk.HeavyKeeper // nil if none are wanted
	seen   int
	wait   int // requests to leave out
	rate   int
	random uint64
}

func newHeavy(wanted int) *heavy {
	h := &heavy{rate: 1, random: 1}
	if wanted > 0 {
		h.sketch = topk.New(max(tracked, 4*wanted), decay)
	}
	return h
}

func (h *heavy) add(key []byte) {
	if h.wait > 0 {
		h.wait--
		return
	}
	if h.sketch == nil {
		h.wait = 1 << 62
		return
	}
	h.sketch.Sample(string(key), 1)
	if h.rate > 1 {
		h.wait = h.gap()
		return
	}
	if h.seen++; h.seen == sampleAll {
		h.rate = sampleRate
		h.sketch.DecayAll(1 - 1.0/sampleRate)
	}
}

// gap returns how many requests to leave out: sampleRate-1 on average, and not always the
// same, since logs have periods.
func (h *heavy) gap() int {
	h.random ^= h.random << 13
	h.random ^= h.random >> 7
	h.random ^= h.random << 17
	return int(h.random % (2*sampleRate - 1))
}

// heaviest adds up what sketches have, and returns the first n keys and the largest rate.
func heaviest(sketches []*heavy, n int) ([]Key, int) {
	sums := map[string]int64{}
	rate := 1
	for _, h := range sketches {
		if h.sketch == nil {
			continue
		}
		rate = max(rate, h.rate)
		for _, flow := range h.sketch.Top() {
			sums[flow.Flow] += int64(flow.Count) * int64(h.rate)
		}
	}
	keys := make([]Key, 0, len(sums))
	for key, count := range sums {
		keys = append(keys, Key{key, count})
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Key, b.Key))
	})
	return keys[:min(n, len(keys))], rate
}
