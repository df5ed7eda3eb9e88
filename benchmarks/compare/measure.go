package main

import (
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// structure is what is measured of a Maglev or a Ring. Values are numbers of
// backends.
type structure interface {
	Add(backends ...chash.Backend[int]) error
	Remove(names ...string) error
	Get(key string) (int, error)
	GetHash(hash uint64) (int, error)
	Shares() []chash.Share
}

type maker func(backends []chash.Backend[int]) (structure, error)

func maglevOf(slots int, opts ...chash.MaglevOption) maker {
	return func(backends []chash.Backend[int]) (structure, error) {
		return chash.NewMaglev(backends, append(opts, chash.WithTableSize(slots))...)
	}
}

func ringOf(opts ...chash.RingOption) maker {
	return func(backends []chash.Backend[int]) (structure, error) {
		return chash.NewRing(backends, opts...)
	}
}

// A kind is a structure with its options.
type kind struct {
	name   string
	make   maker
	hashes func(points int) iter.Seq[uint64]
}

// kinds are the structures as they come without options, and the ring with a hash as
// fast as the table's.
var kinds = []kind{
	{"`Maglev`", maglevOf(chash.DefaultTableSize), func(int) iter.Seq[uint64] { return everySlot(chash.DefaultTableSize) }},
	{"`Ring`", ringOf(), everywhere},
	{"`Ring`, xxHash64", ringOf(chash.WithHash(xxhash.Sum64String)), everywhere},
}

// everySlot yields a hash for each slot of a table, so that its keys are counted
// exactly.
func everySlot(slots int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for slot := range uint64(slots) {
			if !yield(slot) {
				return
			}
		}
	}
}

// everywhere yields hashes that are spread evenly over a ring.
func everywhere(points int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		step := ^uint64(0)/uint64(points) + 1
		for i := range uint64(points) {
			if !yield(i*step + step/2) {
				return
			}
		}
	}
}

// named returns n backends of a set of names; each set has other names.
func named(set, n int) []chash.Backend[int] {
	backends := make([]chash.Backend[int], n)
	for i := range backends {
		backends[i] = chash.Backend[int]{Name: fmt.Sprintf("set-%d/backend-%d", set, i), Value: i}
	}
	return backends
}

// balance is the least and the largest share of a backend, relative to the mean.
type balance struct{ least, largest float64 }

func balanceOf(make maker, sets, n int) (balance, error) {
	var mean balance
	for set := range sets {
		s, err := make(named(set, n))
		if err != nil {
			return balance{}, err
		}
		least, largest := 1.0, 0.0
		for _, share := range s.Shares() {
			least, largest = min(least, share.Share), max(largest, share.Share)
		}
		mean.least += least * float64(n) / float64(sets)
		mean.largest += largest * float64(n) / float64(sets)
	}
	return mean, nil
}

// moved is how many keys go to another backend: of all, and the fewest possible,
// which are those of the backend that went or that came.
type moved struct{ keys, fewest, all int }

func (m moved) String() string {
	return fmt.Sprintf("%.2f %% (%.2f times)", 100*float64(m.keys)/float64(m.all), m.excess())
}

func (m moved) excess() float64 { return float64(m.keys) / float64(m.fewest) }

// count compares who owns keys before and after a change of one backend, which
// has none on one of the sides.
func (m *moved) count(before, after []int, changed int) {
	for i := range before {
		if before[i] == changed || after[i] == changed {
			m.fewest++
		}
		if before[i] != after[i] {
			m.keys++
		}
	}
	m.all += len(before)
}

// disruption is what one backend of n moves when it goes and when another comes.
type disruption struct{ removed, added moved }

func disruptionOf(make maker, hashes iter.Seq[uint64], sets, n int) (disruption, error) {
	var d disruption
	for set := range sets {
		all := named(set, n+1)
		come, gone := n, n/2
		s, err := make(all[:n])
		if err != nil {
			return d, err
		}
		before, err := owners(s, hashes)
		if err != nil {
			return d, err
		}
		if err := s.Add(all[come]); err != nil {
			return d, err
		}
		after, err := owners(s, hashes)
		if err != nil {
			return d, err
		}
		d.added.count(before, after, come)
		if err := s.Remove(all[come].Name, all[gone].Name); err != nil {
			return d, err
		}
		after, err = owners(s, hashes)
		if err != nil {
			return d, err
		}
		d.removed.count(before, after, gone)
	}
	return d, nil
}

func owners(s structure, hashes iter.Seq[uint64]) ([]int, error) {
	var owners []int
	for hash := range hashes {
		owner, err := s.GetHash(hash)
		if err != nil {
			return nil, err
		}
		owners = append(owners, owner)
	}
	return owners, nil
}

// cost is what a structure takes.
type cost struct {
	memory int // bytes
	build  time.Duration
	lookup float64 // ns
}

func costOf(make maker, p plan, n int) (cost, error) {
	backends := named(0, n)
	s, err := make(backends)
	if err != nil {
		return cost{}, err
	}
	with := liveHeap()
	lookup, err := lookupTime(s, p.lookups)
	if err != nil {
		return cost{}, err
	}
	s = nil
	c := cost{memory: with - liveHeap(), lookup: lookup}
	times := []time.Duration{}
	for range p.builds {
		start := time.Now()
		if _, err := make(backends); err != nil {
			return cost{}, err
		}
		times = append(times, time.Since(start))
	}
	c.build = median(times)
	runtime.KeepAlive(backends)
	return c, nil
}

// liveHeap returns the bytes of heap in use.
func liveHeap() int {
	runtime.GC()
	runtime.GC() // what a pool held is gone only now
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
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

// lookupTime returns the nanoseconds of a lookup: the median of a few rounds. It
// tells the types apart so that they are called as a service calls them.
func lookupTime(s structure, lookups int) (float64, error) {
	times := []time.Duration{}
	sum := 0
	for range 7 {
		start := time.Now()
		var err error
		switch s := s.(type) {
		case *chash.Maglev[int]:
			for i := range lookups {
				value, failed := s.Get(keys[i&(len(keys)-1)])
				if failed != nil {
					err = failed
				}
				sum += value
			}
		case *chash.Ring[int]:
			for i := range lookups {
				value, failed := s.Get(keys[i&(len(keys)-1)])
				if failed != nil {
					err = failed
				}
				sum += value
			}
		default:
			err = fmt.Errorf("a %T cannot be measured", s)
		}
		times = append(times, time.Since(start))
		if err != nil {
			return 0, err
		}
	}
	runtime.KeepAlive(sum)
	return float64(median(times).Nanoseconds()) / float64(lookups), nil
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// primeFrom returns the smallest prime that is at least n.
func primeFrom(n int) int {
	for !big.NewInt(int64(n)).ProbablyPrime(0) { // certain below 2^64
		n++
	}
	return n
}

// size formats bytes.
func size(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%.0f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.2f MiB", float64(bytes)/(1<<20))
}

// milliseconds formats a time.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
