package main

import (
	"cmp"
	"sync"
	"time"

	"github.com/chash-go/chash"
)

// A version says which of two writes of a key is the later one. Versions are in a
// total order, so that all nodes agree: by time, and at the same time by node.
type version struct {
	Time int64 // nanoseconds since 1970, but always past every version that the node had seen
	Node string
}

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.Time, w.Time), cmp.Compare(v.Node, w.Node))
}

// An entry is the latest write of a key. A deleted key keeps one, its tombstone,
// without which an older copy that arrives later would bring the key back. An
// entry and its value are never changed.
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
	last   int64 // the highest time of all versions seen
	shards [256]map[string]entry
}

func newStore(position func(key string) uint64) *store {
	s := &store{position: position}
	for i := range s.shards {
		s.shards[i] = map[string]entry{}
	}
	return s
}

func (s *store) shard(position uint64) map[string]entry { return s.shards[position>>56] }

// get returns the entry of a key, which may be a tombstone.
func (s *store) get(key string) (entry, bool) {
	shard := s.shard(s.position(key))
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, found := shard[key]
	return e, found
}

// put gives a write of the named node a version that is past all that this store
// has seen, takes it in, and returns it.
func (s *store) put(node, key string, value []byte, deleted bool) entry {
	e := entry{Key: key, Value: value, Deleted: deleted, position: s.position(key)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, time.Now().UnixNano())
	e.Version = version{s.last, node}
	s.shard(e.position)[key] = e
	return e
}

// merge takes in an entry unless that of its key is as new, and returns the version
// that the key has then.
func (s *store) merge(e entry) version {
	e.position = s.position(e.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, e.Version.Time)
	shard := s.shard(e.position)
	if own, found := shard[e.Key]; found && own.Version.compare(e.Version) >= 0 {
		return own.Version
	}
	shard[e.Key] = e
	return e.Version
}

// observe makes the versions to come later than one.
func (s *store) observe(v version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, v.Time)
}

// scan returns the entries of a range of positions, tombstones included.
func (s *store) scan(r chash.Range) []entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []entry
	for i := r.First >> 56; i <= r.Last>>56; i++ {
		for _, e := range s.shards[i] {
			if r.Contains(e.position) {
				found = append(found, e)
			}
		}
	}
	return found
}

// drop forgets a key if its entry is still this one, which the store has returned.
func (s *store) drop(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shard := s.shard(e.position); shard[e.Key].Version == e.Version {
		delete(shard, e.Key)
	}
}
