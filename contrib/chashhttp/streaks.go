package chashhttp

import (
	"maps"
	"net/url"
	"sync"
	"sync/atomic"
)

// streaks are the failures in a row of each server that has any. Nearly always there
// are none, and then a success costs one read.
type streaks struct {
	servers atomic.Int64 // len(lengths)

	mu      sync.Mutex
	lengths map[url.URL]int
}

// add counts a failure and returns how many there are in a row.
func (s *streaks) add(server url.URL) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lengths == nil {
		s.lengths = make(map[url.URL]int)
	}
	s.lengths[server]++
	s.servers.Store(int64(len(s.lengths)))
	return s.lengths[server]
}

// end ends the streak of a server, if it has one.
func (s *streaks) end(u *url.URL) {
	if s.servers.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lengths, address(u))
	s.servers.Store(int64(len(s.lengths)))
}

// retain forgets all servers but some.
func (s *streaks) retain(some map[url.URL]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.lengths, func(server url.URL, _ int) bool { return !some[server] })
	s.servers.Store(int64(len(s.lengths)))
}
