package chashgrpc

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/ringhash"
)

type (
	hashKeyAttribute struct{}
	weightAttribute  struct{}
)

// SetHashKey returns the endpoint with a hash key. The hash key decides which keys
// belong to the endpoint, so a server keeps its keys when its address changes. An
// empty hash key counts as none: then the hash key is that of grpc-go's
// resolver/ringhash or, without one, the first of the endpoint's addresses in byte
// order. Other attributes stay.
func SetHashKey(endpoint resolver.Endpoint, hashKey string) resolver.Endpoint {
	endpoint.Attributes = endpoint.Attributes.WithValue(hashKeyAttribute{}, hashKey)
	return endpoint
}

// SetWeight returns the endpoint with a weight: its share of the keys relative to
// others. A weight of 0 counts as none: then the weight is that of grpc-go's
// experimental/balancer/weight, which xDS sets, or 1 without one. Other attributes
// stay.
func SetWeight(endpoint resolver.Endpoint, weight uint32) resolver.Endpoint {
	endpoint.Attributes = endpoint.Attributes.WithValue(weightAttribute{}, weight)
	return endpoint
}

// A member is the part of an endpoint that the mapping depends on, without its name.
type member struct {
	hashKey string
	weight  uint32
}

// A membership has the endpoints of an update that count.
type membership struct {
	order   []string // their names, in the order of the update
	at      map[string]resolver.Endpoint
	members map[string]member
}

// newMembership returns the endpoints that count. Of several with the same addresses,
// the first counts. An endpoint without an address does not.
func newMembership(all []resolver.Endpoint) membership {
	m := membership{
		order:   make([]string, 0, len(all)),
		at:      make(map[string]resolver.Endpoint, len(all)),
		members: make(map[string]member, len(all)),
	}
	for _, e := range all {
		if len(e.Addresses) == 0 {
			continue
		}
		name := nameOf(e)
		if _, found := m.members[name]; found {
			continue
		}
		m.order = append(m.order, name)
		m.at[name] = e
		m.members[name] = memberOf(e)
	}
	return m
}

func memberOf(e resolver.Endpoint) member {
	hashKey, _ := e.Attributes.Value(hashKeyAttribute{}).(string)
	if hashKey == "" {
		hashKey = ringhash.HashKey(e)
	}
	if hashKey == "" {
		hashKey = firstAddress(e)
	}
	w, _ := e.Attributes.Value(weightAttribute{}).(uint32)
	if w == 0 {
		w = weight.FromEndpoint(e).Weight
	}
	return member{hashKey, max(w, 1)}
}

// firstAddress returns the endpoint's first address in byte order. So the resolver's
// order of addresses moves no key. IPv4 addresses come before IPv6 addresses, which
// are in brackets.
func firstAddress(e resolver.Endpoint) string {
	first := e.Addresses[0].Addr
	for _, a := range e.Addresses[1:] {
		first = min(first, a.Addr)
	}
	return first
}

// nameOf returns the name of an endpoint. Endpoints have the same name if they have
// the same addresses in any order, as in resolver.EndpointMap. One address is its own
// name: this saves an allocation for most endpoints. The names of several addresses
// begin with a quotation mark. A single address that does so too is quoted.
func nameOf(e resolver.Endpoint) string {
	if len(e.Addresses) == 1 {
		if name := e.Addresses[0].Addr; name != "" && name[0] != '"' {
			return name
		}
	}
	quoted := make([]string, len(e.Addresses))
	for i, a := range e.Addresses {
		quoted[i] = strconv.Quote(a.Addr)
	}
	slices.Sort(quoted)
	return strings.Join(quoted, ",")
}

// sameAddresses reports whether two endpoints have the same connections.
func sameAddresses(a, b resolver.Endpoint) bool {
	return slices.EqualFunc(a.Addresses, b.Addresses, func(x, y resolver.Address) bool {
		return x.Addr == y.Addr && x.ServerName == y.ServerName && x.Attributes == y.Attributes
	})
}
