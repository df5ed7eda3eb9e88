package chashgrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/chash-go/chash"
	"google.golang.org/grpc/serviceconfig"
)

// The names of the policies, as a service config has them.
const (
	MaglevName = "chash_maglev"
	RingName   = "chash_ring"
)

// ErrInvalidConfig is wrapped by the errors of a policy's configuration that chash
// itself has no error for: a field of the other policy, a header that cannot be
// a key, or no JSON object of the right types. Change the service config. errors.Is
// finds it, and the errors of chash, in what ParseConfig of the registered builder
// returns; grpc.NewClient keeps only the text.
var ErrInvalidConfig = errors.New("chashgrpc: invalid configuration")

// A config is the parsed configuration of a policy.
type config struct {
	serviceconfig.LoadBalancingConfig

	layout     layout
	header     string  // in lower case, empty for none
	bounded    bool    // a load factor was given
	loadFactor float64 // if so
}

// A layout is what a mapping is made with: another layout needs another mapping.
type layout struct {
	tableSize int // of chash_maglev
	replicas  int // of chash_ring
	seed      uint64
}

// A mapping is what the policies need of a chash.Maglev or a chash.Ring.
type mapping interface {
	Get(key string) (*endpoint, error)
	Next() (*endpoint, error)
	Acquire(key string) (chash.Lease[*endpoint], error)
	AcquireNext() (chash.Lease[*endpoint], error)
	Set(backends []chash.Backend[*endpoint]) error
	SetState(name string, state chash.State) error
	SetLoadFactor(factor float64) error
}

type backends = []chash.Backend[*endpoint]

func newMaglev(b backends, l layout) (mapping, error) {
	return chash.NewMaglev(b, chash.WithTableSize(l.tableSize), chash.WithSeed(l.seed))
}

func newRing(b backends, l layout) (mapping, error) {
	return chash.NewRing(b, chash.WithReplicas(l.replicas), chash.WithSeed(l.seed))
}

// parse returns the configuration in the JSON text, or an error for one that no
// endpoints could be used with.
func (b builder) parse(text []byte) (*config, error) {
	var given struct {
		TableSize         *int     `json:"tableSize"`
		Replicas          *int     `json:"replicas"`
		Seed              uint64   `json:"seed"`
		RequestHashHeader string   `json:"requestHashHeader"`
		LoadFactor        *float64 `json:"loadFactor"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, fmt.Errorf("%w of %s: %w", ErrInvalidConfig, b.name, err)
	}
	switch {
	case given.Replicas != nil && b.name == MaglevName:
		return nil, fmt.Errorf("%w of %s: replicas is a field of %s", ErrInvalidConfig, b.name, RingName)
	case given.TableSize != nil && b.name == RingName:
		return nil, fmt.Errorf("%w of %s: tableSize is a field of %s", ErrInvalidConfig, b.name, MaglevName)
	}
	c := &config{
		layout: layout{
			tableSize: or(given.TableSize, chash.DefaultTableSize),
			replicas:  or(given.Replicas, chash.DefaultReplicas),
			seed:      given.Seed,
		},
		header:     strings.ToLower(given.RequestHashHeader),
		bounded:    given.LoadFactor != nil,
		loadFactor: or(given.LoadFactor, chash.DefaultLoadFactor),
	}
	if err := validateHeader(c.header); err != nil {
		return nil, fmt.Errorf("%w of %s: requestHashHeader %q %w", ErrInvalidConfig, b.name, given.RequestHashHeader, err)
	}
	// An empty mapping costs nothing, and checks the rest.
	m, err := b.newMapping(nil, c.layout)
	if err == nil {
		err = m.SetLoadFactor(c.loadFactor)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	return c, nil
}

func or[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

// validateHeader follows gRFC A76: what can be a key of metadata, but no binary
// one.
func validateHeader(header string) error {
	for _, r := range header {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', strings.ContainsRune("-_.", r):
		default:
			return fmt.Errorf("has a character other than letters, digits, -, _ and .: %q", r)
		}
	}
	if strings.HasSuffix(header, "-bin") {
		return errors.New("names binary metadata")
	}
	return nil
}
