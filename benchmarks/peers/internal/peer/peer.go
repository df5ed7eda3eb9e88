// Package peer has the libraries that chash is compared with, each with its defaults or
// with what its manual recommends.
package peer

import (
	"errors"

	"github.com/authzed/consistent/hashring"
	bura "github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
	rendezvous "github.com/dgryski/go-rendezvous"
	"github.com/kkdai/maglev"
	serialx "github.com/serialx/hashring"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// A Peer is a library.
type Peer struct {
	Name string

	// New returns the lookup of a structure with these backends.
	New func(names []string) (get func(key string) (string, error), err error)
}

var errNone = errors.New("no backend")

// All are the peers.
var All = []Peer{
	{"kkdai/maglev", newMaglev},
	{"buraksezer/consistent", newBuraksezer},
	{"serialx/hashring", newSerialx},
	{"authzed/consistent", newAuthzed},
	{"grpc ring_hash", newGRPC},
	{"rendezvous", newRendezvous},
}

func newMaglev(names []string) (func(string) (string, error), error) {
	table, err := maglev.NewMaglev(names, chash.DefaultTableSize)
	if err != nil {
		return nil, err
	}
	return table.Get, nil
}

type member string

func (m member) String() string { return string(m) }

// Key makes a member one of authzed/consistent.
func (m member) Key() string { return string(m) }

type xx struct{}

func (xx) Sum64(data []byte) uint64 { return xxhash.Sum64(data) }

// newBuraksezer takes the replicas and the load of its README. That has 271 partitions for
// 8 members; these are 7,919, more for each member.
func newBuraksezer(names []string) (func(string) (string, error), error) {
	members := make([]bura.Member, len(names))
	for i, name := range names {
		members[i] = member(name)
	}
	c := bura.New(members, bura.Config{PartitionCount: 7919, ReplicationFactor: 20, Load: 1.25, Hasher: xx{}})
	return func(key string) (string, error) {
		found := c.LocateKey([]byte(key))
		if found == nil {
			return "", errNone
		}
		return found.String(), nil
	}, nil
}

func newSerialx(names []string) (func(string) (string, error), error) {
	ring := serialx.New(names)
	return func(key string) (string, error) {
		node, found := ring.GetNode(key)
		if !found {
			return "", errNone
		}
		return node, nil
	}, nil
}

func newAuthzed(names []string) (func(string) (string, error), error) {
	ring, err := hashring.New(xxhash.Sum64, 100)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := ring.Add(member(name)); err != nil {
			return nil, err
		}
	}
	return func(key string) (string, error) {
		found, err := ring.FindN([]byte(key), 1)
		if err != nil {
			return "", err
		}
		return found[0].Key(), nil
	}, nil
}

// newGRPC is the ring of grpc-go's ring_hash, with its default sizes: its package is
// internal, and chashcompat has the same ring, as its tests show against grpc-go.
func newGRPC(names []string) (func(string) (string, error), error) {
	ring, err := chash.NewRing(chash.Named(names...), chashcompat.GRPCRingHash(chashcompat.RingSize{}))
	if err != nil {
		return nil, err
	}
	return ring.Get, nil
}

func newRendezvous(names []string) (func(string) (string, error), error) {
	r := rendezvous.New(names, xxhash.Sum64String)
	return func(key string) (string, error) { return r.Lookup(key), nil }, nil
}
