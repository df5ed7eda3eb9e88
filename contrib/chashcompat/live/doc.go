// Package live has no code of its own. Its tests compare the placements of
// [github.com/chash-go/chash/contrib/chashcompat] with those of the real systems: nginx,
// HAProxy, twemproxy and memcached as programs on the loopback interface, libmemcached in
// a C program, and grpc-go, Cilium, Thanos and groupcache in this process. They need what
// a user of that package does not, so they are a module of their own, and have the build
// tag live:
//
//	go test -tags live ./...
//
// A test skips itself where its program is not installed.
package live
