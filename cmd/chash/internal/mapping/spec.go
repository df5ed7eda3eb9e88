// Package mapping makes structures of chash from what a user says, and asks them what
// the command reports.
package mapping

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash"
)

// The structures of a [Spec].
const (
	Maglev = "maglev"
	Ring   = "ring"
)

// HashXX is the Hash of a ring whose positions are xxHash64.
const HashXX = "xxhash"

// ErrSpec is returned for settings that do not go together.
var ErrSpec = errors.New("not a structure")

// A Spec says which structure to build, with which options. What is 0 or empty is the
// default of chash. It may be copied.
type Spec struct {
	Structure  string `json:"structure"` // Maglev or Ring
	TableSize  int    `json:"table_size,omitempty"`
	Slack      *Slack `json:"slack,omitempty"`
	Replicas   int    `json:"replicas,omitempty"`
	UnitWeight uint32 `json:"unit_weight,omitempty"`
	Seed       uint64 `json:"seed,omitempty"`
	Hash       string `json:"hash,omitempty"` // empty, or HashXX on a ring
	Like       string `json:"like,omitempty"` // another system: see [Systems]
}

// A Slack is that of chash.WithSlack. It is written as a number, or as "inf" for no limit.
type Slack float64

// ParseSlack returns the slack that a text says: a number of 0 or more, a percentage, or
// inf.
func ParseSlack(text string) (Slack, error) {
	if text == "inf" || text == "unlimited" {
		return Slack(math.Inf(1)), nil
	}
	number, percent := strings.CutSuffix(text, "%")
	e, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(e) || e < 0 {
		return 0, fmt.Errorf("%w: slack %q; expected a number from 0 on, a percentage or inf", ErrSpec, text)
	}
	if percent {
		e /= 100
	}
	return Slack(e), nil
}

// String returns the slack as ParseSlack reads it.
func (s Slack) String() string {
	if math.IsInf(float64(s), 1) {
		return "inf"
	}
	return strconv.FormatFloat(float64(s), 'g', -1, 64)
}

// MarshalText implements encoding.TextMarshaler.
func (s Slack) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, by ParseSlack.
func (s *Slack) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSlack(string(text))
	return err
}

// Check returns an ErrSpec for options that are not those of the structure.
func (s Spec) Check() error {
	other := func(option, structure string) error {
		return fmt.Errorf("%w: %s is an option of a %s", ErrSpec, option, structure)
	}
	switch s.Structure {
	case Maglev, "":
		switch {
		case s.Replicas != 0:
			return other("replicas", Ring)
		case s.UnitWeight != 0:
			return other("unit weight", Ring)
		case s.Hash != "":
			return other("hash", Ring)
		}
	case Ring:
		switch {
		case s.TableSize != 0:
			return other("table size", Maglev)
		case s.Slack != nil:
			return other("slack", Maglev)
		case s.Hash != "" && s.Hash != HashXX:
			return fmt.Errorf("%w: hash %q; expected %s, or none for SHA-256", ErrSpec, s.Hash, HashXX)
		}
	default:
		return fmt.Errorf("%w: %q; expected %s or %s", ErrSpec, s.Structure, Maglev, Ring)
	}
	return nil
}

// String returns a short name of the structure, for tables and pictures.
func (s Spec) String() string {
	var b strings.Builder
	switch {
	case s.Like != "":
		b.WriteString(s.Like)
		if s.TableSize != 0 {
			fmt.Fprintf(&b, " %d", s.TableSize)
		}
	case s.Structure == Ring:
		replicas := s.Replicas
		if replicas == 0 {
			replicas = chash.DefaultReplicas
		}
		fmt.Fprintf(&b, "ring %d", replicas)
		if s.Hash != "" {
			b.WriteString(" " + s.Hash)
		}
		if s.UnitWeight > 1 {
			fmt.Fprintf(&b, " unit %d", s.UnitWeight)
		}
	default:
		fmt.Fprintf(&b, "maglev %d", s.Size())
		switch {
		case s.Slack == nil:
		case math.IsInf(float64(*s.Slack), 1):
			b.WriteString(" no limit")
		default:
			fmt.Fprintf(&b, " slack %s", s.Slack)
		}
	}
	if s.Seed != 0 {
		fmt.Fprintf(&b, " seed %d", s.Seed)
	}
	return b.String()
}

// Size returns the number of slots of a table.
func (s Spec) Size() int {
	if s.TableSize == 0 {
		return chash.DefaultTableSize
	}
	return s.TableSize
}

// GoLine returns the call that makes the structure.
func (s Spec) GoLine() string {
	var options []string
	call := "chash.NewMaglev"
	if s.Structure == Ring {
		call = "chash.NewRing"
	}
	add := func(format string, args ...any) { options = append(options, fmt.Sprintf(format, args...)) }
	if s.Like != "" {
		add("%s", systemOf(s.Like).goCall(s.Like))
		if systemOf(s.Like).ring == nil {
			call = "chash.NewMaglev"
		} else {
			call = "chash.NewRing"
		}
	}
	if s.TableSize != 0 {
		add("chash.WithTableSize(%d)", s.TableSize)
	}
	if s.Slack != nil {
		if math.IsInf(float64(*s.Slack), 1) {
			add("chash.WithSlack(math.Inf(1))")
		} else {
			add("chash.WithSlack(%s)", s.Slack)
		}
	}
	if s.Replicas != 0 {
		add("chash.WithReplicas(%d)", s.Replicas)
	}
	if s.UnitWeight != 0 {
		add("chash.WithUnitWeight(%d)", s.UnitWeight)
	}
	if s.Hash != "" {
		add("chash.WithHash(xxhash.Sum64String)")
	}
	if s.Seed != 0 {
		add("chash.WithSeed(%d)", s.Seed)
	}
	return call + "(" + strings.Join(append([]string{"backends"}, options...), ", ") + ")"
}

func (s Spec) maglevOptions() []chash.MaglevOption {
	var options []chash.MaglevOption
	if s.TableSize != 0 {
		options = append(options, chash.WithTableSize(s.TableSize))
	}
	if s.Slack != nil {
		options = append(options, chash.WithSlack(float64(*s.Slack)))
	}
	if s.Seed != 0 {
		options = append(options, chash.WithSeed(s.Seed))
	}
	return options
}

func (s Spec) ringOptions() []chash.RingOption {
	var options []chash.RingOption
	if s.Replicas != 0 {
		options = append(options, chash.WithReplicas(s.Replicas))
	}
	if s.UnitWeight != 0 {
		options = append(options, chash.WithUnitWeight(s.UnitWeight))
	}
	if s.Hash != "" {
		options = append(options, chash.WithHash(xxhash.Sum64String))
	}
	if s.Seed != 0 {
		options = append(options, chash.WithSeed(s.Seed))
	}
	return options
}
