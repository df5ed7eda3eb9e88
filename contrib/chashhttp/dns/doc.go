// Package dns has no code: its tests run the sources SRV and Hosts of
// [github.com/chash-go/chash/contrib/chashhttp] against a DNS server on loopback. It is a
// module of its own, since that package needs nothing but the standard library and chash.
package dns
