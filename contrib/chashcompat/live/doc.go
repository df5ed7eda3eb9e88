// Package live has only tests. They compare the placements of
// [github.com/chash-go/chash/contrib/chashcompat] with the real systems. nginx,
// HAProxy, twemproxy and memcached run as programs on the loopback interface,
// libmemcached in a C program, and grpc-go, Cilium, Thanos and groupcache in this
// process. The users of chashcompat do not need these systems, so live is a module of
// its own. The tests have the build tag live:
//
//	go test -tags live ./...
//
// A test skips itself if its program is not installed.
package live
