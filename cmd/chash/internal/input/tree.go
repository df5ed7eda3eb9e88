package input

import (
	"slices"
	"strconv"
	"strings"

	"github.com/chash-go/chash"
	"github.com/chash-go/chash/cmd/chash/internal/mapping"
)

// tree reads JSON or YAML: a list of backends, a state, or a configuration of Envoy.
func (s *source) tree(format Format) (*List, error) {
	read := s.parseYAML
	if trimmed := strings.TrimLeft(string(s.data[:min(len(s.data), 4096)]), " \t\r\n"); format == JSON ||
		format == Envoy && (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) {
		read = s.parseJSON
	}
	root, err := read()
	if err != nil {
		return nil, err
	}
	if root.kind == mapOf && root.get("backends") == nil || format == Envoy {
		return s.envoy(root)
	}
	from := root
	result := &List{}
	if root.kind == mapOf {
		from = root.get("backends")
		if result.Spec, err = s.spec(root); err != nil {
			return nil, err
		}
	}
	if from.kind != list {
		return nil, s.failf(from.line, "expected a list of backends, or a mapping with one under backends, found %s", from.kind)
	}
	l := s.lister()
	for _, n := range from.values {
		b, err := s.backend(n)
		if err != nil {
			return nil, err
		}
		if err := l.add(n.line, b); err != nil {
			return nil, err
		}
	}
	result.Backends = l.backends
	return result, nil
}

// fieldsOf are those of a backend. Value is of no use here.
var fieldsOf = []string{"name", "hash_key", "weight", "state", "value"}

// backend returns the backend of a node: its name alone, or its fields.
func (s *source) backend(n *node) (b mapping.Backend, err error) {
	switch n.kind {
	case scalar:
		return mapping.Backend{Name: n.text}, nil
	case mapOf:
	default:
		return b, s.failf(n.line, "expected a name or the fields of a backend, found %s", n.kind)
	}
	for i, value := range n.values {
		name := n.names[i]
		if !slices.Contains(fieldsOf, name) {
			return b, s.failf(value.line, "field %q of a backend; expected some of %s", name, strings.Join(fieldsOf[:4], ", "))
		}
		if name == "value" || value.kind == nothing {
			continue
		}
		if value.kind != scalar {
			return b, s.failf(value.line, "expected a value for %s, found %s", name, value.kind)
		}
		switch name {
		case "name":
			b.Name = value.text
		case "hash_key":
			b.HashKey = value.text
		case "weight":
			if value.text != "0" { // which is 1
				b.Weight, err = s.weight(value.line, value.text)
			}
		case "state":
			b.State, err = s.state(value.line, value.text)
		}
		if err != nil {
			return b, err
		}
	}
	if b.Name == "" {
		return b, s.failf(n.line, "expected a backend with a name, found one without")
	}
	return b, nil
}

// spec returns the structure that a state names, or nil.
func (s *source) spec(root *node) (*mapping.Spec, error) {
	var spec mapping.Spec
	named := false
	for i, value := range root.values {
		if value.kind != scalar {
			continue
		}
		wrong := func(expected string) error {
			return s.failf(value.line, "%s %q; expected %s", root.names[i], value.text, expected)
		}
		number := func(bits int) (uint64, error) {
			n, err := strconv.ParseUint(value.text, 10, bits)
			if err != nil {
				return 0, wrong("a whole number from 0 on")
			}
			return n, nil
		}
		var err error
		var n uint64
		switch root.names[i] {
		case "structure":
			spec.Structure = strings.ToLower(value.text)
		case "table_size":
			n, err = number(31)
			spec.TableSize = int(n)
		case "replicas":
			n, err = number(31)
			spec.Replicas = int(n)
		case "unit_weight":
			n, err = number(32)
			spec.UnitWeight = uint32(n)
		case "seed":
			spec.Seed, err = number(64)
		case "slack":
			slack, bad := mapping.ParseSlack(value.text)
			if bad != nil {
				err = wrong("a number from 0 on, or inf")
			}
			spec.Slack = &slack
		case "hash":
			spec.Hash = value.text
		case "like":
			spec.Like = value.text
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		named = true
	}
	if !named {
		return nil, nil
	}
	if err := spec.Check(); err != nil {
		return nil, s.failf(root.line, "%v", err)
	}
	return &spec, nil
}

// envoy reads the endpoints of a cluster: of a whole configuration, of a list of clusters,
// of a cluster, or of a load assignment.
func (s *source) envoy(root *node) (*List, error) {
	clusters := root.get("static_resources", "clusters")
	switch {
	case root.kind == list:
		clusters = root
	case clusters == nil:
		clusters = root.get("resources") // of a discovery response
	}
	var found []*node
	var names []string
	consider := func(n *node) {
		name := n.get("name")
		assignment := n.get("load_assignment")
		if assignment == nil {
			assignment = n
		}
		if name == nil {
			name = assignment.get("cluster_name")
		}
		if assignment.get("endpoints") == nil {
			return
		}
		text := ""
		if name != nil {
			text = name.text
		}
		if s.pool == "" || s.pool == text {
			found = append(found, assignment)
		}
		names = append(names, text)
	}
	if clusters != nil {
		for _, c := range clusters.values {
			consider(c)
		}
	} else {
		consider(root)
	}
	switch {
	case len(names) == 0:
		return nil, s.failf(root.line, "expected a list of backends under backends, or the endpoints of an Envoy cluster")
	case len(found) == 0:
		return nil, s.failf(0, "cluster %q; expected one of %s", s.pool, quoted(names))
	case len(found) > 1:
		return nil, s.failf(0, "expected one cluster, found %s: say which by --pool", quoted(names))
	}
	l := s.lister()
	for _, locality := range found[0].get("endpoints").values {
		endpoints := locality.get("lb_endpoints")
		if endpoints == nil {
			continue
		}
		for _, e := range endpoints.values {
			b, err := s.endpoint(e)
			if err != nil {
				return nil, err
			}
			if err := l.add(e.line, b); err != nil {
				return nil, err
			}
		}
	}
	pool := names[0]
	if s.pool != "" {
		pool = s.pool
	}
	return &List{Backends: l.backends, Format: Envoy, Pool: pool}, nil
}

// endpoint returns the backend of an Envoy endpoint: by its hash key, else by its address.
func (s *source) endpoint(e *node) (b mapping.Backend, err error) {
	address := e.get("endpoint", "address", "socket_address")
	host, port := address.get("address"), address.get("port_value")
	if pipe := e.get("endpoint", "address", "pipe", "path"); pipe != nil {
		b.Name = pipe.text
	} else if host == nil || port == nil {
		return b, s.failf(e.line, "expected an endpoint with address.socket_address (address and port_value)")
	} else {
		b.Name = host.text + ":" + port.text
		if strings.Contains(host.text, ":") {
			b.Name = "[" + host.text + "]:" + port.text
		}
	}
	if key := e.get("metadata", "filter_metadata", "envoy.lb", "hash_key"); key != nil {
		b.HashKey = key.text
	}
	if weight := e.get("load_balancing_weight"); weight != nil {
		if weight.kind == mapOf { // as protobuf's JSON of a wrapper
			weight = weight.get("value")
		}
		if weight == nil {
			return b, s.failf(e.line, "load_balancing_weight; expected a number")
		}
		if b.Weight, err = s.weight(weight.line, weight.text); err != nil {
			return b, err
		}
	}
	if health := e.get("health_status"); health != nil {
		switch strings.ToUpper(health.text) {
		case "UNHEALTHY", "TIMEOUT":
			b.State = chash.Unhealthy
		case "DRAINING":
			b.State = chash.Draining
		case "HEALTHY", "UNKNOWN", "DEGRADED":
		default:
			return b, s.failf(health.line, "health_status %q; expected HEALTHY, UNHEALTHY, DRAINING, TIMEOUT, DEGRADED or UNKNOWN", health.text)
		}
	}
	return b, nil
}

// quoted joins names for a reader, ten of them at most.
func quoted(names []string) string {
	var parts []string
	for _, name := range names[:min(len(names), 10)] {
		parts = append(parts, strconv.Quote(name))
	}
	if len(names) > 10 {
		parts = append(parts, "and "+strconv.Itoa(len(names)-10)+" more")
	}
	return strings.Join(parts, ", ")
}
