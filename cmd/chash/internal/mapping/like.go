package mapping

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/contrib/chashcompat"
)

// A system is another one whose placement chashcompat has. Its settings follow its name,
// each after a colon.
type system struct {
	settings string // for a reader
	about    string
	ring     func(settings, order []string) (chash.RingOption, error)   // nil of a table
	table    func(settings, order []string) (chash.MaglevOption, error) // nil of a ring
	call     string                                                     // of chashcompat
	drains   bool                                                       // a backend that is down has no place
	ids      bool                                                       // hash keys are numbers in the order of the file
}

// systems by name.
var systems = map[string]system{
	"nginx": {
		about: "hash ... consistent",
		call:  "Nginx",
		ring: func(_, order []string) (chash.RingOption, error) {
			return chashcompat.Nginx(order...), nil
		},
	},
	"haproxy": {
		settings: "[:FUNCTION[:avalanche]]", about: "hash-type consistent", call: "HAProxy", drains: true, ids: true,
		ring: func(settings, _ []string) (chash.RingOption, error) {
			var modifiers []chashcompat.HAProxyModifier
			for _, m := range settings[1:] {
				if m != "" {
					modifiers = append(modifiers, chashcompat.HAProxyModifier(m))
				}
			}
			return chashcompat.HAProxy(chashcompat.HAProxyFunction(settings[0]), modifiers...), nil
		},
	},
	"libmemcached": {
		settings: "[:HASH]", about: "consistent, KETAMA", call: "Libmemcached", drains: true,
		ring: func(settings, order []string) (chash.RingOption, error) {
			return chashcompat.Libmemcached(chashcompat.LibmemcachedHash(settings[0]), order...), nil
		},
	},
	"ketama": {
		about: "libmemcached's KETAMA_WEIGHTED", call: "LibmemcachedWeighted", drains: true,
		ring: func(_, order []string) (chash.RingOption, error) {
			return chashcompat.LibmemcachedWeighted(order...), nil
		},
	},
	"spymemcached": {
		about: "libmemcached's CONSISTENT_KETAMA_SPY", call: "Spymemcached", drains: true,
		ring: func(_, order []string) (chash.RingOption, error) {
			return chashcompat.Spymemcached(order...), nil
		},
	},
	"twemproxy": {
		settings: "[:HASH]", about: "distribution: ketama", call: "Twemproxy", drains: true,
		ring: func(settings, order []string) (chash.RingOption, error) {
			return chashcompat.Twemproxy(chashcompat.TwemproxyHash(settings[0]), order...), nil
		},
	},
	"envoy-ring-hash": {
		settings: "[:MIN[:MAX]]", about: "RING_HASH", call: "EnvoyRingHash", drains: true,
		ring: func(settings, order []string) (chash.RingOption, error) {
			size, err := ringSize(settings)
			return chashcompat.EnvoyRingHash(size, order...), err
		},
	},
	"envoy-maglev": {
		about: "MAGLEV", call: "EnvoyMaglev", drains: true,
		table: func(_, _ []string) (chash.MaglevOption, error) { return chashcompat.EnvoyMaglev(), nil },
	},
	"grpc-ring-hash": {
		settings: "[:MIN[:MAX]]", about: "ring_hash_experimental", call: "GRPCRingHash",
		ring: func(settings, _ []string) (chash.RingOption, error) {
			size, err := ringSize(settings)
			return chashcompat.GRPCRingHash(size), err
		},
	},
	"cilium": {
		settings: ":SEED", about: "bpf-lb-algorithm: maglev; keys are slots", call: "Cilium", drains: true,
		table: func(settings, _ []string) (chash.MaglevOption, error) {
			return chashcompat.Cilium(settings[0]), nil
		},
	},
	"katran": {
		settings: "[:2]", about: "Maglev or MaglevV2", call: "KatranV1", drains: true,
		table: func(settings, order []string) (chash.MaglevOption, error) {
			switch settings[0] {
			case "", "1":
				return chashcompat.KatranV1(order...), nil
			case "2":
				return chashcompat.KatranV2(order...), nil
			}
			return nil, fmt.Errorf("%w: katran:%s; expected 1 or 2", ErrSpec, settings[0])
		},
	},
	"thanos": {
		about: "ketama", call: "Thanos",
		ring: func(_, _ []string) (chash.RingOption, error) { return chashcompat.Thanos(), nil },
	},
	"groupcache": {
		about: "NewHTTPPool", call: "Groupcache",
		ring: func(_, order []string) (chash.RingOption, error) {
			return chashcompat.Groupcache(order...), nil
		},
	},
}

// Systems returns a line for each system that a Like may name: its name with its
// settings, and what it is.
func Systems() [][2]string {
	var lines [][2]string
	for name, s := range systems {
		lines = append(lines, [2]string{name + s.settings, s.about})
	}
	slices.SortFunc(lines, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return lines
}

// systemOf returns the system of a Like, or the zero one.
func systemOf(like string) system {
	name, _, _ := strings.Cut(like, ":")
	return systems[name]
}

// goCall returns the call of chashcompat.
func (s system) goCall(like string) string {
	_, settings, found := strings.Cut(like, ":")
	switch {
	case s.call == "KatranV1" && settings == "2":
		return "chashcompat.KatranV2(order...)"
	case strings.Contains(s.settings, "MIN"):
		return fmt.Sprintf("chashcompat.%s(chashcompat.RingSize{})", s.call)
	case found && s.call == "HAProxy":
		return fmt.Sprintf("chashcompat.HAProxy(%q)", strings.ReplaceAll(settings, ":", `", "`))
	case s.settings != "" && s.call != "KatranV1":
		return fmt.Sprintf("chashcompat.%s(%q)", s.call, settings)
	}
	return "chashcompat." + s.call + "(order...)"
}

// ringSize returns the bounds that settings say.
func ringSize(settings []string) (size chashcompat.RingSize, err error) {
	for i, to := range []*uint64{&size.Min, &size.Max} {
		if i >= len(settings) || settings[i] == "" {
			continue
		}
		if *to, err = strconv.ParseUint(settings[i], 10, 64); err != nil {
			return size, fmt.Errorf("%w: ring size %q; expected a number", ErrSpec, settings[i])
		}
	}
	return size, nil
}

// likeOptions returns the option of the other system for backends in the order of its
// configuration: one of the two is nil.
func (s Spec) likeOptions(backends []Backend) (chash.RingOption, chash.MaglevOption, error) {
	name, rest, _ := strings.Cut(s.Like, ":")
	system, found := systems[name]
	if !found {
		var names []string
		for _, line := range Systems() {
			names = append(names, line[0])
		}
		return nil, nil, fmt.Errorf("%w: like %q; expected one of %s", ErrSpec, s.Like, strings.Join(names, ", "))
	}
	var order []string
	seen := map[string]bool{}
	for _, b := range backends {
		key := b.HashKey
		if key == "" {
			key = b.Name
		}
		if !seen[key] {
			seen[key] = true
			order = append(order, key)
		}
	}
	settings := strings.Split(rest, ":")
	if system.ring != nil {
		option, err := system.ring(settings, order)
		return option, nil, err
	}
	option, err := system.table(settings, order)
	return nil, option, err
}

// adapted returns the backends as the other system has them: those that are down are
// without a place where it takes them out, and their hash keys are numbers where it has
// numbers.
func (s Spec) adapted(backends []Backend) []Backend {
	system := systemOf(s.Like)
	adapted := slices.Clone(backends)
	for i := range adapted {
		if system.drains && adapted[i].State == chash.Unhealthy {
			adapted[i].State = chash.Draining
		}
		if system.ids {
			adapted[i].HashKey = adapted[i].ID
			if adapted[i].HashKey == "" {
				adapted[i].HashKey = strconv.Itoa(i + 1)
			}
		}
	}
	return adapted
}
