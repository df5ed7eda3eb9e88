package chashgrpc

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/resolver"
)

type (
	hashKeyAttribute struct{}
	weightAttribute  struct{}
)

// SetHashKey returns the endpoint with a hash key: what decides which keys are its
// own, so that a server keeps them when its address changes. It is by default
// the endpoint's first address, as it is for an empty key. The attributes that the
// endpoint has are kept.
func SetHashKey(endpoint resolver.Endpoint, hashKey string) resolver.Endpoint {
	endpoint.Attributes = endpoint.Attributes.WithValue(hashKeyAttribute{}, hashKey)
	return endpoint
}

// SetWeight returns the endpoint with a weight: its share of the keys relative to
// the others. It is 1 by default, as it is for a weight of 0. The attributes that
// the endpoint has are kept.
func SetWeight(endpoint resolver.Endpoint, weight uint32) resolver.Endpoint {
	endpoint.Attributes = endpoint.Attributes.WithValue(weightAttribute{}, weight)
	return endpoint
}

// A member is what the mapping depends on of an endpoint, apart from its name.
type member struct {
	hashKey string
	weight  uint32
}

// membership returns the endpoints that count, in their order, and what the mapping
// depends on of them, by name.
func membership(all []resolver.Endpoint) ([]resolver.Endpoint, map[string]member) {
	endpoints := make([]resolver.Endpoint, 0, len(all))
	members := make(map[string]member, len(all))
	for _, e := range all {
		if len(e.Addresses) == 0 {
			continue
		}
		name := nameOf(e)
		if _, found := members[name]; found {
			continue
		}
		endpoints = append(endpoints, e)
		members[name] = memberOf(e)
	}
	return endpoints, members
}

func memberOf(e resolver.Endpoint) member {
	hashKey, _ := e.Attributes.Value(hashKeyAttribute{}).(string)
	weight, _ := e.Attributes.Value(weightAttribute{}).(uint32)
	if hashKey == "" {
		hashKey = e.Addresses[0].Addr
	}
	return member{hashKey, max(weight, 1)}
}

// nameOf returns a name that an endpoint has in common with those which have the
// same addresses in any order, and with no others: it is as resolver.EndpointMap
// tells endpoints apart. One address is its own name, which saves an allocation
// for most endpoints whenever one of them changes its state; the names of several
// begin with a quotation mark, and such an address is quoted as well.
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
