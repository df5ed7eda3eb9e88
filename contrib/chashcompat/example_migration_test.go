package chashcompat_test

import (
	"fmt"
	"log"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// A memcached stands for a client of one memcached server.
type memcached map[string]string

// A pool is memcached servers that move from one placement to another. At first both are
// the same.
type pool struct {
	old, next *chash.Ring[memcached]
}

// get looks for a key where it belongs. Where it is not there yet, it is where it belonged
// before, and moves.
func (p *pool) get(key string) (string, bool) {
	server, err := p.next.Get(key)
	if err != nil {
		return "", false
	}
	if value, found := server[key]; found {
		return value, true
	}
	before, err := p.old.Get(key)
	if err != nil {
		return "", false
	}
	value, found := before[key]
	if found {
		server[key] = value
	}
	return value, found
}

// set stores a key where it belongs, and where it belonged before if others still look
// there.
func (p *pool) set(key, value string, others bool) {
	if server, err := p.next.Get(key); err == nil {
		server[key] = value
	}
	if server, err := p.old.Get(key); err == nil && others {
		server[key] = value
	}
}

// A PHP application has filled three memcached servers, through libmemcached with
// OPT_LIBKETAMA_COMPATIBLE. A Go service takes over. A cold cache would send all its
// requests to the database, so the service goes in three steps.
//
// First it runs beside the application, with the placement of libmemcached: each finds what
// the other has stored. Then the application is gone, and the service moves to a ring of
// chash, on which a change of the servers moves as few keys as can be: it reads a key from
// where it was if it is not yet where it belongs. Last, when the old keys have expired, it
// forgets the old placement.
func Example_memcachedMigration() {
	// What libmemcached is configured with, in that order.
	servers := []chash.Backend[memcached]{
		{Name: "cache-1:11211", Value: memcached{}},
		{Name: "cache-2:11211", Value: memcached{}, Weight: 2},
		{Name: "cache-3:11211", Value: memcached{}},
	}
	libmemcached, err := chash.NewRing(servers,
		chashcompat.LibmemcachedWeighted("cache-1:11211", "cache-2:11211", "cache-3:11211"))
	if err != nil {
		log.Fatal(err)
	}
	for i := range 1000 { // what the application has stored
		key := fmt.Sprintf("user:%d", i)
		server, err := libmemcached.Get(key)
		if err != nil {
			log.Fatal(err)
		}
		server[key] = "of PHP"
	}
	hits := func(p *pool) (n int) {
		for i := range 1000 {
			if _, found := p.get(fmt.Sprintf("user:%d", i)); found {
				n++
			}
		}
		return n
	}

	together := &pool{old: libmemcached, next: libmemcached}
	together.set("user:0", "of Go", true)
	fmt.Println("beside the application:", hits(together), "of 1000 keys found")

	ring, err := chash.NewRing(servers)
	if err != nil {
		log.Fatal(err)
	}
	cold := &pool{old: ring, next: ring}
	fmt.Println("on a ring of chash at once:", hits(cold), "of 1000 keys found")

	moving := &pool{old: libmemcached, next: ring}
	fmt.Println("moving to a ring of chash:", hits(moving), "of 1000 keys found")

	moved := &pool{old: ring, next: ring}
	fmt.Println("with the ring of chash alone:", hits(moved), "of 1000 keys found")
	// Output:
	// beside the application: 1000 of 1000 keys found
	// on a ring of chash at once: 397 of 1000 keys found
	// moving to a ring of chash: 1000 of 1000 keys found
	// with the ring of chash alone: 1000 of 1000 keys found
}
