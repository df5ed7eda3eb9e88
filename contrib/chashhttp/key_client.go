package chashhttp

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// ForwardedFor returns a Key that is the address of the client which a chain of proxies
// has written into X-Forwarded-For: the entry that was added hops proxies before this
// one, counted from the right, so that 1 is what the nearest proxy has seen. Entries to
// the left are what the client claims, and are not looked at. Set hops to the number of
// proxies of your own before this one. Where there are fewer entries, or the entry is no
// IP address, a request has no key, and for hops below 1 none has. An address has one
// spelling, as that of RemoteAddr, and its port is left out.
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

// ForwardedForTrusted returns a Key that is the address of the client as the proxies in
// trusted networks have passed it on in X-Forwarded-For: the last entry, from the right,
// that is not in one of them. RemoteAddr comes first, as the rightmost of all: where the
// request has not come from a trusted network, its own address is the key. If all are
// trusted, the leftmost is the client. An entry that is no IP address ends the search, and
// the trusted one before it is the key.
//
// It panics for a network that is not valid, as netip.Prefix says.
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

// Network returns a Key that is the network of the address which another Key finds, of
// as many bits: of IPv6, a customer commonly has all addresses of a /64, and a phone
// takes a new one of them every day. Bits of the whole length, 32 and 128, leave the
// address as it is. What is no IP address is left as it is too.
//
// It panics for a nil Key, and for bits that no network has.
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
