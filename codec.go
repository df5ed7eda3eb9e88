package chash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/chash-go/chash/internal/hashing"
	"github.com/chash-go/chash/internal/load"
)

// The form of a marshalled structure, of which files are kept, so that it may
// never change: another form has another version. Numbers are big-endian, lengths
// and counts are varints (as encoding/binary has them) of as few bytes as can be,
// and a text is its length and its bytes.
//
//	"chash", a zero byte
//	'M' for a Maglev, 'R' for a Ring
//	the version: 1
//	the options, by number, each one byte and 8 bytes or, for a layout, a text, and
//	    after them a zero byte
//	the fingerprint: 8 bytes
//	the count of backends
//	the backends, sorted by name:
//	    the name: a text
//	    the hash key as it was given: a text
//	    the weight, 1 and more: a varint
//	    the state: one byte
//	    the value, as it was encoded: a text
//	the xxHash64 of all that: 8 bytes
//
// There is one form only for each structure, so that a form that is read and
// written again is the same.
const (
	magic       = "chash\x00"
	kindMaglev  = 'M'
	kindRing    = 'R'
	formVersion = 1

	headSize  = len(magic) + 2
	sumSize   = 8
	leastSize = 6 // of a backend, whose name has a letter
)

// The numbers of the options.
const (
	optionEnd        = iota
	optionSize       // slots of a table or replicas of a ring, 0 with a layout; always there
	optionSeed       // if it is not 0
	optionHash       // what the hash function returns for TrialKey; if there is one
	optionLoadFactor // a float64, if it is not usualLoadFactor
	optionLoadFloor  // a float64, if it is not 0
	optionUnitWeight // of a ring, if it is not 1
	optionSlack      // of a table, a float64; if there is one
	optionLayout     // the name of the caller's layout; if there is one
)

// usualLoadFactor is that of data without the option, whatever the default may be.
const usualLoadFactor = 1.25

// Marshal returns the options and the backends with their states as bytes.
// UnmarshalMaglev or UnmarshalRing makes the same structure from them, on any
// architecture and in any later release. Of a hash function there is only a check
// value. A checksum protects from damage, not from malice. The function encode
// returns the bytes of a value. Marshal calls it once for each backend, sorted by
// name, without a lock, and wraps its error. A nil encode writes no values. If encode
// is deterministic, equal structures have equal bytes. It takes time for each backend
// and each slot or point.
func (c *core[T, L]) Marshal(encode func(value T) ([]byte, error)) ([]byte, error) {
	var frozen core[T, L]
	c.cloneTo(&frozen)
	s := frozen.now()
	options := s.layout.config()
	options.LoadFactor, options.LoadFloor = s.bound.Factor, s.bound.Floor
	data := appendHead(nil, options)
	data = binary.BigEndian.AppendUint64(data, frozen.Fingerprint())
	members := s.roster.members
	data = binary.AppendUvarint(data, uint64(len(members)))
	for _, b := range members {
		var value []byte
		if encode != nil {
			var err error
			if value, err = encode(b.Value); err != nil {
				return nil, fmt.Errorf("chash: cannot encode the value of backend %q: %w", b.Name, err)
			}
		}
		data = appendText(data, b.Name)
		data = appendText(data, b.HashKey)
		data = binary.AppendUvarint(data, uint64(b.Weight))
		data = append(data, byte(b.State))
		data = appendText(data, value)
	}
	return binary.BigEndian.AppendUint64(data, xxhash.Sum64(data)), nil
}

func appendHead(data []byte, c Config) []byte {
	option := func(number byte, value uint64) {
		data = binary.BigEndian.AppendUint64(append(data, number), value)
	}
	data = append(data, magic...)
	if c.TableSize > 0 {
		data = append(data, kindMaglev, formVersion)
		option(optionSize, uint64(c.TableSize))
	} else {
		data = append(data, kindRing, formVersion)
		option(optionSize, uint64(c.Replicas))
	}
	if c.Seed != 0 {
		option(optionSeed, c.Seed)
	}
	if hash := hashOfKeys(c); hash != nil {
		option(optionHash, hash(hashing.TrialKey))
	}
	if c.LoadFactor != usualLoadFactor {
		option(optionLoadFactor, math.Float64bits(c.LoadFactor))
	}
	if c.LoadFloor != 0 {
		option(optionLoadFloor, math.Float64bits(c.LoadFloor))
	}
	if c.UnitWeight > 1 {
		option(optionUnitWeight, uint64(c.UnitWeight))
	}
	if c.Slack != nil {
		option(optionSlack, math.Float64bits(*c.Slack))
	}
	if name := layoutName(c); name != "" {
		data = appendText(append(data, optionLayout), name)
	}
	return append(data, optionEnd)
}

func appendText[S string | []byte](data []byte, text S) []byte {
	return append(binary.AppendUvarint(data, uint64(len(text))), text...)
}

// UnmarshalMaglev makes the structure that Marshal of a Maglev wrote. It costs as
// much as NewMaglev. A table size above WithMaxSize, or above DefaultMaxSize without
// it, is ErrInvalidOption before anything is built. All other options are in the
// data, with the load factor and floor of that moment. Another value for one of them
// is ErrOptionsDiffer. WithHash must be given if the structure had it, with the same
// function. Data that Marshal did not write are ErrCorrupt.
//
// The function decode returns the value of a backend from the bytes that encode
// returned, which are part of data. It is called once for each backend, sorted by
// name, after all checks. Its error is wrapped. With a nil decode, values are zero.
func UnmarshalMaglev[T any](data []byte, decode func(name string, data []byte) (T, error), opts ...MaglevOption) (*Maglev[T], error) {
	f, err := parse[T](data, kindMaglev)
	if err != nil {
		return nil, err
	}
	if _, err := maglevConfig([]MaglevOption{f.options()}); err != nil {
		return nil, corrupt("%v", err)
	}
	opts = append([]MaglevOption{f.options()}, opts...)
	given, _ := maglevConfig(opts)
	if given.MaxSize == 0 {
		opts = append(opts, WithMaxSize(DefaultMaxSize))
	}
	c, err := maglevConfig(opts)
	if err := f.accept(c, err); err != nil {
		return nil, err
	}
	m, err := NewMaglev(f.members, opts...)
	if err != nil {
		return nil, f.refused(err)
	}
	m.current.Load().layout.maxSize = given.MaxSize // nobody has it yet
	if err := restore(&m.core, f, decode); err != nil {
		return nil, err
	}
	return m, nil
}

// UnmarshalRing is UnmarshalMaglev for what Marshal of a Ring wrote. More points than
// WithMaxSize, or than DefaultMaxSize without it, are ErrRingTooLarge before anything
// is built.
func UnmarshalRing[T any](data []byte, decode func(name string, data []byte) (T, error), opts ...RingOption) (*Ring[T], error) {
	f, err := parse[T](data, kindRing)
	if err != nil {
		return nil, err
	}
	if _, err := ringConfig([]RingOption{f.options()}); err != nil {
		return nil, corrupt("%v", err)
	}
	opts = append([]RingOption{f.options()}, opts...)
	given, _ := ringConfig(opts)
	if given.MaxSize == 0 {
		opts = append(opts, WithMaxSize(DefaultMaxSize))
	}
	c, err := ringConfig(opts)
	if err := f.accept(c, err); err != nil {
		return nil, err
	}
	r, err := NewRing(f.members, opts...)
	if errors.Is(err, ErrRingTooLarge) {
		return nil, err
	}
	if err != nil {
		return nil, f.refused(err)
	}
	r.current.Load().layout.maxSize = given.MaxSize // nobody has it yet
	if err := restore(&r.core, f, decode); err != nil {
		return nil, err
	}
	return r, nil
}

// A form is what a marshalled structure says.
type form[T any] struct {
	kind        byte
	size        int
	seed        uint64
	hashed      bool // by a function of the caller's
	hash        uint64
	loadFactor  float64
	loadFloor   float64
	slack       *float64
	layout      string // the name of the caller's
	unit        uint32
	fingerprint uint64
	members     []Backend[T] // without values
	values      [][]byte
}

// options returns what sets the options, all but the hash function.
func (f *form[T]) options() Option {
	return option(func(c *config) {
		if f.kind == kindMaglev {
			c.TableSize, c.sizeGiven = f.size, true
		} else if f.layout == "" {
			c.Replicas = f.size
		}
		c.Seed, c.LoadFactor, c.LoadFloor, c.Slack = f.seed, f.loadFactor, f.loadFloor, f.slack
		c.UnitWeight = f.unit
	})
}

// accept checks the options that result together with the caller's, and whether
// they are valid, against the error of that.
func (f *form[T]) accept(c config, err error) error {
	differ := func(what string, got, want any) error {
		return fmt.Errorf("%w: %s %v, want %v", ErrOptionsDiffer, what, got, want)
	}
	hash := hashOfKeys(c.Config)
	switch {
	case layoutName(c.Config) != f.layout:
		return differ("layout", strconv.Quote(layoutName(c.Config)), strconv.Quote(f.layout))
	case f.kind == kindMaglev && c.TableSize != f.size:
		return differ("table size", c.TableSize, f.size)
	case f.kind == kindRing && c.Replicas != f.size:
		return differ("replicas", c.Replicas, f.size)
	case f.kind == kindRing && c.UnitWeight != f.unit:
		return differ("unit weight", c.UnitWeight, f.unit)
	case c.Seed != f.seed:
		return differ("seed", c.Seed, f.seed)
	case c.LoadFactor != f.loadFactor:
		return differ("load factor", c.LoadFactor, f.loadFactor)
	case c.LoadFloor != f.loadFloor:
		return differ("load floor", c.LoadFloor, f.loadFloor)
	case !sameSlack(c.Slack, f.slack):
		return differ("slack", slackText(c.Slack), slackText(f.slack))
	case f.layout == "" && f.hashed && !c.hashGiven:
		return fmt.Errorf("%w: the structure has a hash function, want WithHash", ErrOptionsDiffer)
	case f.layout == "" && !f.hashed && c.hashGiven:
		return fmt.Errorf("%w: the structure has no hash function, want no WithHash", ErrOptionsDiffer)
	case err != nil:
		return err
	}
	if f.hashed != (hash != nil) { // by layouts of one name
		return fmt.Errorf("%w: only one layout %q has a hash function", ErrOptionsDiffer, f.layout)
	}
	if f.hashed {
		if got := hash(hashing.TrialKey); got != f.hash {
			return differ(fmt.Sprintf("hash function: of %q", hashing.TrialKey), got, f.hash)
		}
	}
	return nil
}

// refused returns the error for backends that the options do not take. The data are
// corrupt, unless the layout of the caller's is not the one that they had.
func (f *form[T]) refused(err error) error {
	if f.layout != "" {
		return fmt.Errorf("%w: %w", ErrOptionsDiffer, err)
	}
	return corrupt("%v", err)
}

// restore checks the core that was made from a form and gives it the values.
func restore[T any, L layout[L]](c *core[T, L], f *form[T], decode func(string, []byte) (T, error)) error {
	if got := c.Fingerprint(); got != f.fingerprint {
		if f.hashed || f.layout != "" { // by a function that agreed by chance, since the checksum is right
			return fmt.Errorf("%w: hash function or layout: fingerprint %#016x, want %#016x", ErrOptionsDiffer, got, f.fingerprint)
		}
		return corrupt("fingerprint %#016x, want %#016x", got, f.fingerprint)
	}
	if decode == nil {
		return nil
	}
	for i := range f.members {
		b := &f.members[i]
		var err error
		if b.Value, err = decode(b.Name, f.values[i]); err != nil {
			return fmt.Errorf("chash: cannot decode the value of backend %q: %w", b.Name, err)
		}
	}
	return c.Set(f.members) // without a rebuild
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// parse reads a form and checks all of it that does not take building.
func parse[T any](data []byte, kind byte) (*form[T], error) {
	if len(data) < headSize+sumSize || string(data[:len(magic)]) != magic {
		return nil, corrupt("%d bytes that do not begin as a marshalled structure", len(data))
	}
	if got := data[len(magic)]; got != kind {
		return nil, corrupt("a structure of kind %q, want %q", got, kind)
	}
	if got := data[len(magic)+1]; got != formVersion {
		return nil, corrupt("version %d, want %d", got, formVersion)
	}
	body, sum := data[:len(data)-sumSize], data[len(data)-sumSize:]
	if got, want := xxhash.Sum64(body), binary.BigEndian.Uint64(sum); got != want {
		return nil, corrupt("checksum %#016x, want %#016x", got, want)
	}
	f := &form[T]{kind: kind, loadFactor: usualLoadFactor, unit: 1}
	r := reader(body[headSize:])
	if err := f.read(&r); err != nil {
		return nil, corrupt("%v at byte %d of %d", err, len(body)-len(r), len(data))
	}
	return f, nil
}

func (f *form[T]) read(r *reader) error {
	if err := f.readOptions(r); err != nil {
		return err
	}
	var err error
	if f.fingerprint, err = r.number(); err != nil {
		return err
	}
	n, err := r.varint(uint64(len(*r) / leastSize))
	if err != nil {
		return fmt.Errorf("the count of backends: %w", err)
	}
	f.members = make([]Backend[T], n)
	f.values = make([][]byte, n)
	for i := range f.members {
		b := &f.members[i]
		if err := f.readBackend(r, b, &f.values[i]); err != nil {
			return fmt.Errorf("backend %d: %w", i, err)
		}
		if i > 0 && b.Name <= f.members[i-1].Name {
			return fmt.Errorf("backend %d: %q after %q", i, b.Name, f.members[i-1].Name)
		}
	}
	if len(*r) > 0 {
		return fmt.Errorf("%d bytes too many", len(*r))
	}
	return nil
}

func (f *form[T]) readOptions(r *reader) error {
	sized := false
	for last := byte(optionEnd); ; {
		number, err := r.byte()
		if err != nil {
			return err
		}
		if number == optionEnd {
			break
		}
		if number == optionLayout {
			if err := f.readLayout(r); err != nil {
				return err
			}
			last = number
			continue
		}
		value, err := r.number()
		switch {
		case err != nil:
			return err
		case number <= last:
			return fmt.Errorf("option %d after %d", number, last)
		case number == optionSize && value <= math.MaxInt32: // more is no structure's size
			f.size, sized = int(value), true
		case number == optionSeed && value != 0:
			f.seed = value
		case number == optionHash:
			f.hashed, f.hash = true, value
		case number == optionUnitWeight && f.kind == kindRing && value > 1 && value <= math.MaxUint32:
			f.unit = uint32(value)
		case number == optionLoadFactor && f.setLoadFactor(math.Float64frombits(value)):
		case number == optionLoadFloor && f.setLoadFloor(math.Float64frombits(value)):
		case number == optionSlack && f.setSlack(math.Float64frombits(value)):
		default:
			return fmt.Errorf("option %d of value %#x", number, value)
		}
		last = number
	}
	switch {
	case !sized:
		return errors.New("no size")
	case f.hashed && f.seed != 0:
		return errors.New("a seed and a hash function")
	case f.layout != "" && f.seed != 0:
		return errors.New("a seed and a layout")
	case f.layout != "" && f.kind == kindRing && f.size != 0:
		return errors.New("replicas and a layout")
	case f.layout != "" && f.unit != 1:
		return errors.New("a unit weight and a layout")
	case f.layout != "" && f.slack != nil:
		return errors.New("a slack and a layout")
	}
	return nil
}

// readLayout reads the name of the caller's layout. The numbers of options ascend, so that
// a second one or another option after it is none.
func (f *form[T]) readLayout(r *reader) error {
	name, err := r.text()
	switch {
	case err != nil:
		return err
	case len(name) == 0 || f.layout != "":
		return fmt.Errorf("option %d of name %q", optionLayout, name)
	}
	f.layout = string(name)
	return nil
}

// setLoadFactor sets a load factor and reports whether it is one to be written.
func (f *form[T]) setLoadFactor(c float64) bool {
	f.loadFactor = c
	return load.ValidFactor(c) && c != usualLoadFactor
}

// setLoadFloor is setLoadFactor for a load floor.
func (f *form[T]) setLoadFloor(n float64) bool {
	f.loadFloor = n
	return load.ValidFloor(n) && n != 0
}

// setSlack sets a slack and reports whether it is one to be written.
func (f *form[T]) setSlack(e float64) bool {
	f.slack = &e
	return f.kind == kindMaglev && validSlack(e) && !math.Signbit(e)
}

func (f *form[T]) readBackend(r *reader, b *Backend[T], value *[]byte) error {
	name, err := r.text()
	if err != nil {
		return err
	}
	hashKey, err := r.text()
	if err != nil {
		return err
	}
	weight, err := r.varint(math.MaxUint32)
	if err != nil {
		return err
	}
	if weight == 0 {
		return errors.New("a weight of 0")
	}
	state, err := r.byte()
	if err != nil {
		return err
	}
	if *value, err = r.text(); err != nil {
		return err
	}
	// Its name and state are validated with the others.
	*b = Backend[T]{Name: string(name), HashKey: string(hashKey), Weight: uint32(weight), State: State(state)}
	return nil
}

// A reader is what is left to read.
type reader []byte

var errShort = errors.New("cut short")

// bytes returns the next n bytes.
func (r *reader) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(*r)) {
		return nil, errShort
	}
	taken := (*r)[:n:n]
	*r = (*r)[n:]
	return taken, nil
}

func (r *reader) byte() (byte, error) {
	b, err := r.bytes(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (r *reader) number() (uint64, error) {
	b, err := r.bytes(8)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// varint returns the next varint, which is at most limit.
func (r *reader) varint(limit uint64) (uint64, error) {
	x, n := binary.Uvarint(*r)
	switch {
	case n == 0:
		return 0, errShort
	case n < 0 || n > 1 && (*r)[n-1] == 0: // ends in bits that say nothing
		return 0, errors.New("not a number")
	case x > limit:
		return 0, fmt.Errorf("%d, the limit is %d", x, limit)
	}
	*r = (*r)[n:]
	return x, nil
}

func (r *reader) text() ([]byte, error) {
	n, err := r.varint(uint64(len(*r)))
	if err != nil {
		return nil, err
	}
	return r.bytes(n)
}
