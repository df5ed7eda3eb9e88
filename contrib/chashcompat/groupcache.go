package chashcompat

import (
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/chash-go/chash"
)

// Groupcache is the placement of groupcache, with the defaults of NewHTTPPool:
//
//	pool := groupcache.NewHTTPPool("http://10.0.0.1:8000")
//	pool.Set("http://10.0.0.1:8000", "http://10.0.0.2:8000")
//
// A hash key is a peer as Set is given it. Weights do not count, since groupcache has none.
// The order is that of the peers. It matters where two peers have a point at one position:
// then the last peer has it. Without an order, the one with the larger hash key has it.
//
// A key is the key that the group's Get is given.
//
// The tests compare it with the package consistenthash of groupcache at the commit
// 2c02b8208cf8, for random peers and keys. HTTPPoolOptions with other Replicas or HashFn are
// not covered. groupcache does not know which peers are healthy.
func Groupcache(order ...string) chash.RingOption {
	return ringOption("groupcache", crc32Sum, groupcachePoints, anyName, order)
}

func groupcachePoints(placements []chash.Placement, arranged []int) (ring, error) {
	const perBackend = 50
	r, err := newRing(perBackend * uint64(len(placements)))
	if err != nil {
		return nil, err
	}
	var buf []byte
	for _, p := range slices.Backward(arranged) { // of equal points the last one counts
		for i := range perBackend {
			buf = append(strconv.AppendInt(buf[:0], int64(i), 10), placements[p].HashKey...)
			r.add(crc32.ChecksumIEEE(buf), p)
		}
	}
	return r, nil
}
