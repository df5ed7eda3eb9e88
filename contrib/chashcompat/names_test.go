package chashcompat_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// A system is an option, by the name of its function.
type system struct {
	name  string
	ring  chash.RingOption   // or
	table chash.MaglevOption // with
	slots int
}

// systems returns every option, with the settings that are usual.
func systems() []system {
	return []system{
		{name: "Nginx", ring: chashcompat.Nginx()},
		{name: "HAProxy", ring: chashcompat.HAProxy("")},
		{name: "Libmemcached", ring: chashcompat.Libmemcached("")},
		{name: "LibmemcachedWeighted", ring: chashcompat.LibmemcachedWeighted()},
		{name: "Spymemcached", ring: chashcompat.Spymemcached()},
		{name: "Twemproxy", ring: chashcompat.Twemproxy("")},
		{name: "EnvoyRingHash", ring: chashcompat.EnvoyRingHash(chashcompat.RingSize{})},
		{name: "GRPCRingHash", ring: chashcompat.GRPCRingHash(chashcompat.RingSize{})},
		{name: "Thanos", ring: chashcompat.Thanos()},
		{name: "Groupcache", ring: chashcompat.Groupcache()},
		{name: "EnvoyMaglev", table: chashcompat.EnvoyMaglev(), slots: 251},
		{name: "Cilium", table: chashcompat.Cilium("JLfvgnHc2kaSUFaI"), slots: 251},
		{name: "KatranV1", table: chashcompat.KatranV1(), slots: 251},
		{name: "KatranV2", table: chashcompat.KatranV2(), slots: 251},
	}
}

// A structure is a ring or a table.
type structure interface {
	Get(key string) (string, error)
	GetN(key string, n int) ([]string, error)
	Add(backends ...chash.Backend[string]) error
	Len() int
}

// of returns the structure of a system with those backends.
func (s system) of(backends ...chash.Backend[string]) (structure, error) {
	if s.ring != nil {
		return chash.NewRing(backends, s.ring)
	}
	return chash.NewMaglev(backends, s.table, chash.WithTableSize(s.slots))
}

// good and bad are hash keys that each system takes and does not take.
var good, bad = map[string][]string{
	"Nginx":                {"10.0.0.1:80", "10.0.0.1", "a.example:8080", "A_b-c", "[::1]:80", "[::1]", "unix:/run/a", "UNIX:/run/a:1"},
	"HAProxy":              {"1", "7", "2147483647"},
	"Libmemcached":         {"10.0.0.1:11211", "a.example:1", "::1:11211", "[::1]:11211", "/run/memcached"},
	"LibmemcachedWeighted": {"10.0.0.1:11211", "a.example:65535", "/run/memcached"},
	"Spymemcached":         {"10.0.0.1:11211", "/run/memcached"},
	"Twemproxy":            {"10.0.0.1:11211", "alpha", "/run/memcached", "::1:11211", "a:b", strings.Repeat("x", 261)},
	"EnvoyRingHash":        {"10.0.0.1:80", "a b", "\x00", "90"},
	"GRPCRingHash":         {"10.0.0.1:80", "pod 1", "\xFF"},
	"Thanos":               {"thanos-receive-0.thanos:10901", "10.0.0.1:1"},
	"Groupcache":           {"http://10.0.0.1:8000", "x"},
	"EnvoyMaglev":          {"10.0.0.1:80", "90"},
	"Cilium":               {"10.0.0.1:8080/TCP", "[fd00::1]:53/UDP", "10.0.0.1:0/ANY", "10.0.0.1:1/SCTP"},
	"KatranV1":             {"0", "6238072747940578789", "18446744073709551615"},
	"KatranV2":             {"15839785061582574730"},
}, map[string][]string{
	"Nginx":                {":80", "a:", "a:0", "a:65536", "a:080", "http://a:80", "a b", "::1", "[::1", "[::1:80", "[a]:80", "unix:", "a:80;", "a:80 weight=2"},
	"HAProxy":              {"0", "s1", "-1", "+1", "01", "2147483648", "1 ", "10.0.0.1:80"},
	"Libmemcached":         {"a", "a:", "a:0", ":11211", "a:65536", "a:1:2", "http://a:1", "a b:1", "/run/a b"},
	"LibmemcachedWeighted": {"a", "a:11211:1"},
	"Spymemcached":         {"a", "host/10.0.0.1:11211"},
	"Twemproxy":            {"10.0.0.1:11211:1", "a:1:", "a b", "10.0.0.1:11211:1 alpha", "\t", "/run/memcached:1", strings.Repeat("x", 262)},
	"Thanos":               {"thanos-receive-0", "http://a:1", "a:0"},
	"Cilium":               {"10.0.0.1:8080", "10.0.0.1/TCP", "10.0.0.1:80/tcp", "[FD00::1]:1/TCP", "fd00::1:1/TCP", "[fd00:0::1]:1/TCP", "a:1/TCP", "10.0.0.1:80/TCP/i", "010.0.0.1:80/TCP"},
	"KatranV1":             {"a", "-1", "18446744073709551616", "00", "10.0.0.1", " 1"},
	"KatranV2":             {"0x1"},
}

func TestNames(t *testing.T) {
	for _, s := range systems() {
		require.NotEmpty(t, good[s.name], s.name)
		for _, name := range good[s.name] {
			built, err := s.of(chash.Named(name)...)
			require.NoError(t, err, "%s: %q", s.name, name)
			got, err := built.Get("key")
			require.NoError(t, err)
			require.Equal(t, name, got)
		}
		for _, name := range bad[s.name] {
			_, err := s.of(chash.Named(name)...)
			require.ErrorIs(t, err, chashcompat.ErrName, "%s: %q", s.name, name)
			require.ErrorContains(t, err, strconv.Quote(name), "the error names it")
			require.ErrorContains(t, err, "such as", "the error shows the form")
		}
	}
}

// A name of the wrong form changes nothing.
func TestNames_ChangeNothing(t *testing.T) {
	for _, s := range systems() {
		if bad[s.name] == nil {
			continue
		}
		built, err := s.of(chash.Named(good[s.name][0])...)
		require.NoError(t, err)
		require.ErrorIs(t, built.Add(chash.Named(bad[s.name][0])...), chashcompat.ErrName, s.name)
		require.Equal(t, 1, built.Len())
		got, err := built.Get("key")
		require.NoError(t, err)
		require.Equal(t, good[s.name][0], got)
	}
}

// The hash key is what is checked, and not the name.
func TestNames_HashKeys(t *testing.T) {
	ring, err := chash.NewRing([]chash.Backend[int]{{Name: "web 1", HashKey: "1"}, {Name: "web 2", HashKey: "2"}}, chashcompat.HAProxy(""))
	require.NoError(t, err)
	require.Equal(t, 2, ring.Len())
}

// forms are the forms once more, as regular expressions. Hosts and addresses in brackets
// are looked at apart.
var (
	hostForm = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	portForm = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
	numbers  = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
)

// plainHost is isHost in another way.
func plainHost(host string) bool {
	if hostForm.MatchString(host) {
		return true
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(bare); err == nil && addr.Is6() {
		return bare == host || "["+bare+"]" == host
	}
	return false
}

func plainHostPort(name string) bool {
	i := strings.LastIndex(name, ":")
	if i < 0 || !plainHost(name[:i]) || !portForm.MatchString(name[i+1:]) {
		return false
	}
	port, err := strconv.Atoi(name[i+1:])
	return err == nil && port <= 65535
}

// plainForm says of a few systems whether a name has their form.
func plainForm(system, name string) (fits, known bool) {
	switch system {
	case "Thanos":
		return plainHostPort(name), true
	case "HAProxy":
		n, err := strconv.ParseInt(name, 10, 32)
		return err == nil && n > 0 && numbers.MatchString(name), true
	case "KatranV1", "KatranV2":
		_, err := strconv.ParseUint(name, 10, 64)
		return err == nil && numbers.MatchString(name), true
	case "Cilium":
		address, protocol, _ := strings.Cut(name, "/")
		a, err := netip.ParseAddrPort(address)
		return err == nil && fmt.Sprint(a) == address && regexp.MustCompile(`^(TCP|UDP|SCTP|ANY|NONE)$`).MatchString(protocol), true
	case "EnvoyRingHash", "GRPCRingHash", "Groupcache", "EnvoyMaglev":
		return true, true
	}
	return false, false
}

// Any name is either of the form of the system, and then leads to a backend, or an
// ErrName that shows it.
func FuzzNames(f *testing.F) {
	for _, lists := range []map[string][]string{good, bad} {
		for _, names := range lists {
			for _, name := range names {
				f.Add(name)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			return // an ErrEmptyName
		}
		for _, s := range systems() {
			built, err := s.of(chash.Named(name)...)
			fits, known := plainForm(s.name, name)
			if known {
				require.Equal(t, fits, err == nil, "%s: %q: %v", s.name, name, err)
			}
			if err != nil {
				require.ErrorIs(t, err, chashcompat.ErrName, "%s: %q", s.name, name)
				require.ErrorContains(t, err, strconv.Quote(name))
				continue
			}
			got, err := built.Get(name)
			require.NoError(t, err)
			require.Equal(t, name, got)
		}
	})
}
