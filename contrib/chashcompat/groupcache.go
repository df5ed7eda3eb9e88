package chashcompat

import (
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/chash-go/chash"
)

// Groupcache is the placement of groupcache with the defaults of NewHTTPPool:
//
//	pool := groupcache.NewHTTPPool("http://10.0.0.1:8000")
//	pool.Set("http://10.0.0.1:8000", "http://10.0.0.2:8000")
//
// A hash key is a peer in the form given to Set. Weights do not count: groupcache has
// none. The order is that of the peers. If two peers have a point at the same
// position, the last peer has it; without an order, the peer with the larger hash
// key.
//
// A key is the key given to the group's Get.
//
// groupcache does not know which peers are healthy.
//
// The tests compare with the package consistenthash of groupcache, commit
// 2c02b8208cf8, for random peers and keys. Not covered are HTTPPoolOptions with other
// Replicas or HashFn.
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
	for _, p := range slices.Backward(arranged) { // of points at the same position, the last counts
		for i := range perBackend {
			buf = append(strconv.AppendInt(buf[:0], int64(i), 10), placements[p].HashKey...)
			r.add(crc32.ChecksumIEEE(buf), p)
		}
	}
	return r, nil
}
