package chashgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/serviceconfig"
)

// The names of the policies in a service config.
const (
	MaglevName = "chash_maglev"
	RingName   = "chash_ring"
)

// ErrInvalidConfig is wrapped by errors of a policy's configuration for which chash
// has no error: an unknown field, a field of the other policy, an invalid header, or
// text that is not a JSON object of the right types. Change the service config.
// errors.Is finds this error, and the errors of chash, in the result of ParseConfig
// of the registered builder. grpc.NewClient keeps only the text.
var ErrInvalidConfig = errors.New("chashgrpc: invalid configuration")

// A config is the parsed configuration of a policy.
type config struct {
	serviceconfig.LoadBalancingConfig

	text        json.RawMessage // the parsed text
	layout      layout
	header      string        // in lower case, empty for none
	bounded     bool          // whether there is a load factor
	loadFactor  float64       // if bounded
	connectWait time.Duration // unlimited without a limit
	lazy        bool
}

// MarshalJSON returns the parsed text. The policies of xDS above this one write it
// out and parse it again.
func (c *config) MarshalJSON() ([]byte, error) { return c.text, nil }

// unlimited is a connectWait without an end.
const unlimited = time.Duration(math.MaxInt64)

// A field is a field of the configuration.
type field struct {
	name   string
	policy string // empty for both
	set    func(c *config, value json.RawMessage) error
}

// fields are sorted by name, for the error that lists them.
var fields = []field{
	{"connectWait", "", func(c *config, v json.RawMessage) error { return parseDuration(v, &c.connectWait) }},
	{"lazy", "", func(c *config, v json.RawMessage) error { return json.Unmarshal(v, &c.lazy) }},
	{"loadFactor", "", func(c *config, v json.RawMessage) error {
		c.bounded = true
		return parseFloat(v, &c.loadFactor)
	}},
	{"replicas", RingName, func(c *config, v json.RawMessage) error { return parseInt(v, &c.layout.replicas) }},
	{"requestHashHeader", "", func(c *config, v json.RawMessage) error { return parseHeader(v, &c.header) }},
	{"seed", "", func(c *config, v json.RawMessage) error { return parseUint64(v, &c.layout.seed) }},
	{"tableSize", MaglevName, func(c *config, v json.RawMessage) error { return parseInt(v, &c.layout.tableSize) }},
	{"unitWeight", RingName, func(c *config, v json.RawMessage) error { return parseWeight(v, &c.layout.unit) }},
}

// parse returns the configuration in the JSON text. It returns an error if no
// endpoints could ever fit the configuration.
func (b builder) parse(text []byte) (*config, error) {
	c := &config{
		text:        slices.Clone(text),
		layout:      layout{tableSize: chash.DefaultTableSize, replicas: chash.DefaultReplicas},
		loadFactor:  chash.DefaultLoadFactor,
		connectWait: unlimited,
	}
	given, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("%w of %s: %w", ErrInvalidConfig, b.name, err)
	}
	for _, member := range given {
		f, err := b.field(member.name)
		if err == nil && string(member.value) != "null" { // null is the default
			err = f.set(c, member.value)
		}
		if err != nil {
			return nil, fmt.Errorf("%w of %s: %s: %w", ErrInvalidConfig, b.name, member.name, err)
		}
	}
	// An empty mapping costs nothing and checks the rest. A unit would keep it from
	// checking the replicas.
	plain := c.layout
	plain.unit = 0
	m, err := b.newMapping(nil, plain)
	if err == nil {
		err = m.SetLoadFactor(c.loadFactor)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	return c, nil
}

// field returns the field of that name, which the policy must have.
func (b builder) field(name string) (field, error) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i >= 0 && (fields[i].policy == "" || fields[i].policy == b.name) {
		return fields[i], nil
	}
	var known []string
	for _, f := range fields {
		if f.policy == "" || f.policy == b.name {
			known = append(known, f.name)
		}
	}
	what := "unknown field"
	if i >= 0 {
		what = "field of " + fields[i].policy + " only"
	}
	return field{}, fmt.Errorf("%s; the fields are %s", what, strings.Join(known, ", "))
}

// parseHeader follows gRFC A76: a header may be any key of metadata that is not
// binary.
func parseHeader(value json.RawMessage, to *string) error {
	var given string
	if err := json.Unmarshal(value, &given); err != nil {
		return err
	}
	header := strings.ToLower(given)
	for _, r := range header {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', strings.ContainsRune("-_.", r):
		default:
			return fmt.Errorf("%q has a character other than letters, digits, -, _ and .: %q", given, r)
		}
	}
	if strings.HasSuffix(header, "-bin") {
		return fmt.Errorf("%q names binary metadata", given)
	}
	*to = header
	return nil
}
