package main

import (
	"cmp"
	"sync"

	"github.com/chash-go/chash"
)

// A version says which of two writes of a key is the later one. See write.
type version struct {
	View   uint64
	Ticket uint64
	Writer string // a number of the write that no other has
}

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.View, w.View), cmp.Compare(v.Ticket, w.Ticket), cmp.Compare(v.Writer, w.Writer))
}

// An entry is a write of a key. A deleted key keeps one, its tombstone, without which
// an older write that arrives later would bring the key back. An entry and its value
// are never changed.
type entry struct {
	Key     string
	Value   []byte
	Deleted bool
	Version version

	position uint64 // of the key, set by the store
}

// A store is a node's share of the data. It is safe for concurrent use.
//
// The entries are in shards by the first byte of their positions, so that the scan
// of a range looks at its own part of the ring and not at all keys.
type store struct {
	position func(key string) uint64

	mu     sync.RWMutex
	shards [256]map[string]entry
}

func newStore(position func(key string) uint64) *store {
	s := &store{position: position}
	for i := range s.shards {
		s.shards[i] = map[string]entry{}
	}
	return s
}

// get returns the latest entry of a key, which may be a tombstone. It has the zero
// version if there is none.
func (s *store) get(key string) entry {
	shard := s.shards[s.position(key)>>56]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return shard[key]
}

// merge takes in an entry if it is later than that of its key.
func (s *store) merge(e entry) {
	e.position = s.position(e.Key)
	shard := s.shards[e.position>>56]
	s.mu.Lock()
	defer s.mu.Unlock()
	if shard[e.Key].Version.compare(e.Version) < 0 {
		shard[e.Key] = e
	}
}

// scan returns the entries of a range of positions, tombstones included.
func (s *store) scan(r chash.Range) (found []entry) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := r.First >> 56; i <= r.Last>>56; i++ {
		for _, e := range s.shards[i] {
			if r.Contains(e.position) {
				found = append(found, e)
			}
		}
	}
	return found
}

// keep forgets the entries of all keys but those.
func (s *store) keep(holds func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shard := range s.shards {
		for key := range shard {
			if !holds(key) {
				delete(shard, key)
			}
		}
	}
}
