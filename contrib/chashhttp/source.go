package chashhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/chash-go/chash"
)

// A Source lists the present backends. SRV, Hosts and File are Sources. SourceFunc
// makes one of any function.
type Source interface {
	// List returns the backends. Their Names are the same each time, whatever else
	// changes, since the mapping follows from them. A Weight of 0 leaves that of a backend
	// which is in the table already. A source that cannot tell an empty list from a failure
	// returns an error for it. List ends soon after ctx does, and is called by one
	// goroutine at a time.
	List(ctx context.Context) ([]chash.Backend[*url.URL], error)
}

// A SourceFunc is a Source that calls the function: for a registry of services, for
// example.
type SourceFunc func(ctx context.Context) ([]chash.Backend[*url.URL], error)

// List implements Source.
func (f SourceFunc) List(ctx context.Context) ([]chash.Backend[*url.URL], error) { return f(ctx) }

// errNoService is what a target of "." says (RFC 2782).
var errNoService = errors.New("the service is decidedly not available at this domain")

// An SRV is a Source of the SRV records of a service in DNS (RFC 2782). The backends
// are those of the lowest priority. With Backup they are those of all other
// priorities: follow these with the table of Options.Backup. The Name of a backend is
// TARGET:PORT in lower case. Its Weight is that of the record, at least 1. For a
// Ring, such weights may need chash.WithUnitWeight.
//
// Options.Base looks up the names of the targets when it makes connections.
type SRV struct {
	Resolver *net.Resolver // nil for net.DefaultResolver
	Scheme   string        // of the URLs, "http" if it is empty

	// Service, Proto and Name are those of net.Resolver.LookupSRV, such as "web", "tcp" and
	// "example.com." for _web._tcp.example.com. With neither a Service nor a Proto, Name
	// is looked up as it is.
	Service, Proto, Name string

	Backup bool
}

// List implements Source.
func (s SRV) List(ctx context.Context) ([]chash.Backend[*url.URL], error) {
	_, records, err := resolverOf(s.Resolver).LookupSRV(ctx, s.Service, s.Proto, s.Name)
	if err != nil {
		return nil, err // also where only some of the records are bad
	}
	least := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	var list []chash.Backend[*url.URL]
	for _, r := range records {
		if r.Target == "." {
			return nil, fmt.Errorf("%s: %w", s.Name, errNoService)
		}
		if (r.Priority > least) != s.Backup {
			continue
		}
		address := net.JoinHostPort(strings.ToLower(strings.TrimSuffix(r.Target, ".")), strconv.Itoa(int(r.Port)))
		list = append(list, chash.Backend[*url.URL]{
			Name:   address,
			Weight: max(1, uint32(r.Weight)),
			Value:  &url.URL{Scheme: cmp.Or(s.Scheme, "http"), Host: address},
		})
	}
	// Records of one priority come in random order. Of two for one target the heavier counts.
	slices.SortFunc(list, func(a, b chash.Backend[*url.URL]) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(b.Weight, a.Weight))
	})
	return slices.CompactFunc(list, func(a, b chash.Backend[*url.URL]) bool { return a.Name == b.Name }), nil
}

// A Hosts is a Source of the addresses of a name: its A and AAAA records, or what
// else the resolver uses. Each address is a backend. Its Value is the URL with the
// address in place of the name. Its Name is the address, with the port of the URL if
// there is one. Set weights with the table's SetWeight.
//
// Servers see the address as the host of a request. For https, Options.Base needs a
// TLS configuration with the ServerName.
type Hosts struct {
	Resolver *net.Resolver // nil for net.DefaultResolver
	URL      *url.URL      // such as http://web.example.com.:8080
	Network  string        // "ip4" or "ip6" for one kind of address, both if it is empty
}

// List implements Source.
func (h Hosts) List(ctx context.Context) ([]chash.Backend[*url.URL], error) {
	if !reachable(h.URL) {
		return nil, &BackendError{"", h.URL, ErrNoAddress}
	}
	found, err := resolverOf(h.Resolver).LookupNetIP(ctx, cmp.Or(h.Network, "ip"), h.URL.Hostname())
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	var list []chash.Backend[*url.URL]
	for _, addr := range slices.Compact(found) {
		at := *h.URL
		at.Host = hostAt(addr, h.URL.Port())
		list = append(list, chash.Backend[*url.URL]{Name: at.Host, Value: &at})
	}
	return list, nil
}

// hostAt returns the host of a URL.
func hostAt(addr netip.Addr, port string) string {
	switch {
	case port != "":
		return net.JoinHostPort(addr.String(), port)
	case addr.Is6():
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

func resolverOf(r *net.Resolver) *net.Resolver {
	if r == nil {
		return net.DefaultResolver
	}
	return r
}

// A File is a Source of the backends in a file: a JSON object by their names. A
// weight is an integer from 1 to 2^32-1. Without a weight, a backend keeps the weight
// that it has in the table. A hashKey is optional.
//
//	{
//		"web-1": {"url": "http://10.0.0.7:8080", "weight": 3},
//		"web-2": {"url": "http://10.0.0.9:8080", "hashKey": "slot-2"}
//	}
//
// A file without a backend is an error, since a file is empty while it is being
// written. Write another file and rename it instead.
type File struct {
	Path string
}

// errEmptyFile is returned for a file without a backend.
var errEmptyFile = errors.New("no backends")

// List implements Source.
func (f File) List(context.Context) ([]chash.Backend[*url.URL], error) {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, err
	}
	list, err := parseList(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return list, nil
}

// parseList returns the backends of a file, sorted by name.
func parseList(text []byte) ([]chash.Backend[*url.URL], error) {
	entries := map[string]struct {
		URL     string  `json:"url"`
		Weight  *uint32 `json:"weight"`
		HashKey string  `json:"hashKey"`
	}{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&entries); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the backends")
	}
	if len(entries) == 0 {
		return nil, errEmptyFile
	}
	list := make([]chash.Backend[*url.URL], 0, len(entries))
	for name, entry := range entries {
		at, err := url.Parse(entry.URL)
		if err != nil {
			return nil, fmt.Errorf("backend %q: %w", name, err)
		}
		b := chash.Backend[*url.URL]{Name: name, HashKey: entry.HashKey, Value: at}
		if entry.Weight != nil {
			if b.Weight = *entry.Weight; b.Weight == 0 {
				return nil, fmt.Errorf("backend %q: weight 0, the least is 1", name)
			}
		}
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b chash.Backend[*url.URL]) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
