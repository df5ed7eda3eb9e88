package chashcompat

import (
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/chash-go/chash"
)

var nginxNames = form{"nginx", `HOST, HOST:PORT or unix:PATH, such as "10.0.0.1:80"`, func(name string) bool {
	if path, found := cutUnix(name); found {
		return path != "" && isPlain(path)
	}
	host, port, found := splitPort(name)
	return isHost(host) && (!found || isPort(port))
}}

// cutUnix returns what follows the unix: of a name, in capitals or not, and reports
// whether it begins so.
func cutUnix(name string) (path string, found bool) {
	const prefix = "unix:"
	if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return "", false
	}
	return name[len(prefix):], true
}

// Nginx is the placement of an nginx upstream with this directive:
//
//	hash $arg_k consistent;
//
// A hash key is the address of a server directive, as it stands there: HOST, HOST:PORT or
// unix:PATH. The weight is its weight. The order is that of the server directives. It
// matters where two servers have a point at one position: then the first server has it.
// Without an order, the server with the smaller hash key has it.
//
// A key is the value of the directive's first argument. $arg_k is the parameter as it stands
// in the URL, with its escapes: RawParam returns it. $http_x_key is the value of a header. An
// empty key has no place: nginx takes the servers in turn.
//
// A server that is down is an Unhealthy backend: its keys go to the next point.
//
// The tests compare it with nginx 1.22.1, which forwards random keys to random servers,
// with weights, unix sockets and servers that are down. It is not promised where nginx sends
// a request after 20 points of servers that are down or have failed, or what it does with
// backup servers, max_conns, slow_start, and names that have several addresses.
func Nginx(order ...string) chash.RingOption {
	return ringOption("nginx", crc32Sum, nginxPoints, nginxNames, order)
}

func nginxPoints(placements []chash.Placement, arranged []int) (ring, error) {
	const perWeight = 160
	r, err := newRing(perWeight * totalWeight(placements))
	if err != nil {
		return nil, err
	}
	var buf []byte
	for _, p := range arranged {
		host, port, _ := splitPort(placements[p].HashKey)
		if path, found := cutUnix(placements[p].HashKey); found {
			host, port = path, ""
		}
		buf = append(append(append(buf[:0], host...), 0), port...)
		base := crc32.ChecksumIEEE(buf)
		var previous [4]byte
		for range perWeight * uint64(placements[p].Weight) {
			point := crc32.Update(base, crc32.IEEETable, previous[:])
			binary.LittleEndian.PutUint32(previous[:], point)
			r.add(point, p)
		}
	}
	return r, nil
}
