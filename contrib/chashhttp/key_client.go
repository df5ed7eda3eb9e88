package chashhttp

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// ForwardedFor returns a Key that is the address of the client in X-Forwarded-For. It
// takes the entry that is hops from the right: 1 is the address that the nearest
// proxy saw. Set hops to the number of your own proxies before this one. Entries
// further left are claims of the client and are ignored. If there are fewer entries,
// or the entry is no IP address, the request has no key. For hops below 1, no request
// has one. Addresses are spelled as in RemoteAddr, without a port.
func ForwardedFor(hops int) Key {
	return func(r *http.Request) string {
		left := hops
		for entry := range forwarded(r) {
			if left--; left == 0 {
				return addressKey(entry)
			}
		}
		return ""
	}
}

// ForwardedForTrusted returns a Key that is the address of the client in
// X-Forwarded-For: the last entry, from the right, that is not in a trusted network.
// RemoteAddr counts as the rightmost entry. So a request that does not come from a
// trusted network has its own address as the key. If all entries are trusted, the key
// is the leftmost one. An entry that is no IP address ends the search: the key is the
// trusted entry to its right.
//
// It panics for an invalid netip.Prefix.
func ForwardedForTrusted(networks ...netip.Prefix) Key {
	for _, network := range networks {
		if !network.IsValid() {
			panic(fmt.Sprintf("chashhttp: ForwardedForTrusted(%v): invalid network", network))
		}
	}
	trusted := func(addr netip.Addr) bool {
		for _, network := range networks {
			if network.Contains(addr.WithZone("")) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) string {
		client, ok := parseAddr(r.RemoteAddr)
		if !ok {
			return ""
		}
		client = client.Unmap()
		for entry := range forwarded(r) {
			if !trusted(client) {
				break
			}
			addr, ok := parseAddr(entry)
			if !ok {
				break
			}
			client = addr.Unmap()
		}
		return client.String()
	}
}

// forwarded returns the entries of X-Forwarded-For, the last one first.
func forwarded(r *http.Request) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		lines := r.Header["X-Forwarded-For"]
		for i := len(lines) - 1; i >= 0; i-- {
			rest, more := lines[i], true
			for more {
				comma := strings.LastIndexByte(rest, ',')
				entry := strings.TrimSpace(rest[comma+1:])
				if more = comma >= 0; more {
					rest = rest[:comma]
				}
				if !yield(entry) {
					return
				}
			}
		}
	}
}

// addressKey returns the one spelling of an IP address, perhaps with a port, or nothing.
func addressKey(s string) string {
	addr, ok := parseAddr(s)
	if !ok {
		return ""
	}
	return addr.Unmap().String()
}

// Network returns a Key that is the network of the address that another Key finds,
// with as many bits. For example, a customer usually has all IPv6 addresses of a /64,
// and a phone takes a new one every day. 32 and 128 bits leave the address as it is.
// A key that is no IP address stays as it is.
//
// It panics for a nil Key and for numbers of bits that no network has.
func Network(key Key, bits4, bits6 int) Key {
	if key == nil || bits4 < 0 || bits4 > 32 || bits6 < 0 || bits6 > 128 {
		panic(fmt.Sprintf("chashhttp: Network(%p, %d, %d): nil key, or bits out of range", key, bits4, bits6))
	}
	return func(r *http.Request) string {
		found := key(r)
		addr, ok := parseAddr(found)
		if !ok {
			return found
		}
		addr = addr.Unmap().WithZone("")
		bits := bits6
		if addr.Is4() {
			bits = bits4
		}
		if bits == addr.BitLen() {
			return addr.String()
		}
		network, _ := addr.Prefix(bits) // which is in range
		return network.String()
	}
}
