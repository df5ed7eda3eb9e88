package chashcompat

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/chash-go/chash"
)

// A form is the form of a system's hash keys.
type form struct {
	system string
	shape  string // for a reader, with an example
	fits   func(name string) bool
}

// check returns an ErrName for the first placement whose hash key does not fit.
func (f form) check(placements []chash.Placement) error {
	for i := range placements {
		if name := placements[i].HashKey; !f.fits(name) {
			return fmt.Errorf("%w: %q, %s has %s", ErrName, name, f.system, f.shape)
		}
	}
	return nil
}

// splitPort splits a name at its last colon, if only digits or nothing follows.
func splitPort(name string) (host, port string, found bool) {
	colon := strings.LastIndexByte(name, ':')
	if colon < 0 || strings.Trim(name[colon+1:], "0123456789") != "" {
		return name, "", false
	}
	return name[:colon], name[colon+1:], true
}

// isHost reports whether a text may be a host: a name or an address. An IPv6 address
// may be in brackets.
func isHost(host string) bool {
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return found && err == nil && addr.Is6()
	}
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	for _, c := range []byte(host) {
		if !isAlphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return host != ""
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isPort reports whether a text is a port in decimal, from 1 to 65535.
func isPort(port string) bool {
	n, ok := parseNumber(port, 16)
	return ok && n > 0
}

// isHostPort reports whether a name is HOST:PORT.
func isHostPort(name string) bool {
	host, port, found := splitPort(name)
	return found && isHost(host) && isPort(port)
}

// parseNumber returns the number in a decimal text, without a sign or leading zeros.
func parseNumber(text string, bits int) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, bits)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

// isPlain reports whether a text has no spaces, quotes or control characters.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7F })
}

// anyName is the form of a system that takes every name.
var anyName = form{"any", "any name", func(string) bool { return true }}
