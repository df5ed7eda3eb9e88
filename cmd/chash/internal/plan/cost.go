package plan

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// A Cost is what a structure takes on this machine.
type Cost struct {
	Memory int64         `json:"memory_bytes"`
	Change time.Duration `json:"change_ns"` // of the change, from the state before
	Build  time.Duration `json:"build_ns"`  // from nothing
	Lookup float64       `json:"lookup_ns"`
}

// rounds is of how many the median is taken.
const rounds = 5

func costOf(spec mapping.Spec, before, after *mapping.Mapping) (Cost, error) {
	c := Cost{}
	backends := after.Structure.Backends()
	var err error
	c.Change, err = medianOf(func() error {
		return before.Clone().Set(backends)
	})
	if err != nil {
		return c, err
	}
	c.Build, err = medianOf(func() error {
		_, err := spec.Build(after.Backends)
		return err
	})
	if err != nil {
		return c, err
	}
	without := liveHeap()
	built, err := spec.Build(after.Backends)
	if err != nil {
		return c, err
	}
	c.Memory = max(0, liveHeap()-without)
	c.Lookup = LookupTime(built)
	runtime.KeepAlive(before) // or they would be counted as freed
	runtime.KeepAlive(after)
	return c, nil
}

func medianOf(do func() error) (time.Duration, error) {
	var times []time.Duration
	for range rounds {
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[rounds/2], nil
}

// liveHeap returns the bytes of heap in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what a pool held is gone only now
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// keys are what is looked up: 16 to 22 bytes each, in order of length, so that
// mispredicted branches of the hash do not hide the rest.
var keys = func() *[1 << 14]string {
	random := rand.New(rand.NewPCG(1, 2))
	keys := new([1 << 14]string)
	for i := range keys {
		key := "/user/" + strconv.FormatUint(random.Uint64()|1<<63, 16) // 22 bytes
		keys[i] = key[:16+i*7/len(keys)]
	}
	return keys
}()

// LookupTime returns the nanoseconds of a lookup, the median of a few rounds. It calls
// the types themselves, as a service does.
func LookupTime(m *mapping.Mapping) float64 {
	var times []float64
	sum := 0
	for range rounds {
		const passes = 8
		began := time.Now()
		for range passes {
			if table := m.Table(); table != nil {
				sum += tableAll(table)
			} else {
				sum += ringAll(m.Ring())
			}
		}
		times = append(times, float64(time.Since(began).Nanoseconds())/float64(passes*len(keys)))
	}
	runtime.KeepAlive(sum)
	slices.Sort(times)
	return times[rounds/2]
}

func tableAll(m *chash.Maglev[int]) (sum int) {
	for i := range keys {
		value, _ := m.Get(keys[i])
		sum += value
	}
	return sum
}

func ringAll(m *chash.Ring[int]) (sum int) {
	for i := range keys {
		value, _ := m.Get(keys[i])
		sum += value
	}
	return sum
}
