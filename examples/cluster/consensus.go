package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	raftTimeout = time.Second            // of a message
	raftSilence = 750 * time.Millisecond // of a leader, after which the others elect a new one
)

// startRaft starts the node's part of the consensus about the members. The log is in
// memory like all the rest, and short: a few entries for each change of the members.
func (n *node) startRaft() (err error) {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.self.id())
	c.HeartbeatTimeout, c.ElectionTimeout = raftSilence, raftSilence
	c.ShutdownOnRemove = false           // a node that leaves has data to hand over
	c.SnapshotThreshold = math.MaxUint64 // the log is the history
	c.Logger = hclog.NewNullLogger()
	log := raft.NewInmemStore()
	n.network = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.streams, MaxPool: 2, Timeout: raftTimeout, Logger: c.Logger,
	})
	snapshots := raft.NewDiscardSnapshotStore()
	if len(n.config.join) == 0 {
		founder := raft.Configuration{Servers: []raft.Server{{ID: c.LocalID, Address: n.network.LocalAddr()}}}
		if err := raft.BootstrapCluster(c, log, log, snapshots, n.network, founder); err != nil {
			return err
		}
	}
	n.raft, err = raft.NewRaft(c, machine{n}, log, log, snapshots, n.network)
	return err
}

// A machine is what Raft's log does to a node. Each committed configuration is a view.
// Each command is the version of a view in which all data are where they belong.
type machine struct{ *node }

// StoreConfiguration makes a configuration the current view.
func (m machine) StoreConfiguration(version uint64, c raft.Configuration) {
	v, err := newView(version, m.copies, c)
	if err != nil {
		panic(err) // names are there, and no id twice
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.views) == 0 {
		m.founder = string(c.Servers[0].ID)
	}
	m.views = append(m.views[:len(m.views):len(m.views)], v)
	if m.lacks, err = m.views.lacking(m.self.id()); err != nil {
		panic(err) // all rings are alike
	}
}

// Apply begins the history with a view, if it is the current one. What a node does not
// hold in it nobody needs from there any more.
func (m machine) Apply(entry *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.views.current(); v.version == binary.BigEndian.Uint64(entry.Data) {
		m.views = history{v}
		m.store.keep(func(key string) bool { return slices.Contains(v.holders(key), m.self) })
	}
	return nil
}

// settle returns the command.
func settle(v *view) []byte { return binary.BigEndian.AppendUint64(nil, v.version) }

var errNoSnapshots = errors.New("there are no snapshots")

func (m machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errNoSnapshots }
func (m machine) Restore(io.ReadCloser) error         { return errNoSnapshots }

// streams are the connections of Raft. They come in at the node's HTTP address, as
// requests that name the peer: what is for an earlier run of the node, which has given
// its vote, must not get to this one.
type streams struct {
	self     peer
	accepted chan net.Conn
	closed   chan struct{}
}

const raftPath = "/internal/raft/" // and the birth of the peer

// A stream reads what came with the request, and then from the connection.
type stream struct {
	net.Conn
	reader *bufio.Reader
}

func (s stream) Read(p []byte) (int, error) { return s.reader.Read(p) }

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != raftPath+s.self.birth {
		http.Error(w, errGone.Error(), http.StatusGone)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // as when the connection has broken
	}
	_ = conn.SetDeadline(time.Time{}) // that of a request
	select {
	case s.accepted <- stream{conn, buffered.Reader}:
	case <-s.closed:
		_ = conn.Close()
	}
}

// Dial waits for no answer: one that is not of Raft ends the connection as well.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to := parsePeer(string(address))
	conn, err := net.DialTimeout("tcp", to.addr, timeout)
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: %s\r\n\r\n", raftPath, to.birth, to.addr)
	}
	return conn, err
}

func (s *streams) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *streams) Close() error   { close(s.closed); return nil }
func (s *streams) Addr() net.Addr { return s } // the peer

func (s *streams) Network() string { return "raft" }
func (s *streams) String() string  { return s.self.id() }
