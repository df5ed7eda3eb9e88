package chashhttp

import (
	"context"
	"net/url"
	"sync"
	"time"
)

// moveInterval is how often the keys of answers that are being read are looked up.
const moveInterval = time.Second

// moves tells of answers whose key has moved while they are being read: for a client
// that stays connected for hours, no other request says so. A table does not tell when
// it changes, so that the keys are looked up now and then, while there are any.
type moves struct {
	tables tables
	tell   func(Move) // nil if nobody wants to know

	mu      sync.Mutex
	open    map[*attempt]*url.URL // where its key belonged when it was answered
	running bool
	closed  chan struct{}
}

func newMoves(tables tables, tell func(Move)) *moves {
	return &moves{tables: tables, tell: tell, open: make(map[*attempt]*url.URL), closed: make(chan struct{})}
}

func (m *moves) add(a *attempt) {
	if m.tell == nil || a.key == "" {
		return
	}
	home := m.home(a.key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[a] = home
	if !m.running {
		m.running = true
		go m.watch()
	}
}

func (m *moves) remove(a *attempt) {
	if m.tell == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, a)
}

// home returns where a key belongs, nil where nothing is healthy.
func (m *moves) home(key string) *url.URL {
	for _, table := range m.tables {
		if u, err := table.Get(key); err == nil {
			return u
		}
	}
	return nil
}

// watch looks at the open answers until there is none, or close.
func (m *moves) watch() {
	ticker := time.NewTicker(moveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-m.closed:
			return
		case <-ticker.C:
		}
		moved, done := m.look()
		for _, move := range moved {
			m.tell(move)
		}
		if done {
			return
		}
	}
}

// look returns the moves of answers that have not been told, and reports whether
// nothing is left to look at.
func (m *moves) look() (moved []Move, done bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, before := range m.open {
		now := m.home(a.key)
		if addressOf(now) == addressOf(before) || addressOf(now) == addressOf(a.backend) {
			continue
		}
		delete(m.open, a)
		moved = append(moved, Move{Request: a.req, Key: a.key, From: a.backend, To: now, End: a.endMoved})
	}
	m.running = len(m.open) > 0
	return moved, !m.running
}

func (m *moves) close() { close(m.closed) }

// endMoved ends the answer of an attempt whose key has moved.
func (a *attempt) endMoved() {
	a.answer.moved.Store(true)
	a.cancel(context.Canceled)
}
