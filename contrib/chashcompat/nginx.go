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

// cutUnix returns what follows a leading "unix:", in upper or lower case, and reports
// whether the name begins with it.
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
// A hash key is the address of a server directive as written there: HOST, HOST:PORT
// or unix:PATH. The weight is the server's weight. The order is that of the server
// directives. If two servers have a point at the same position, the first server has
// it; without an order, the server with the smaller hash key.
//
// A key is the value of the directive's first argument. $arg_k is the parameter as
// written in the URL, with its escapes: RawParam returns it. $http_x_key is the value
// of a header. For an empty key, nginx takes the servers in turn.
//
// A server that is down is an Unhealthy backend: its keys go to the next point.
//
// The tests compare with nginx 1.22.1, which forwards random keys to random servers,
// with weights, unix sockets and servers that are down. Not covered are a request
// that met 20 points of failed servers, backup servers, max_conns, slow_start, and
// names with several addresses.
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
