// Package hashing lays out all bytes that are hashed. They decide which backend a key
// belongs to, so they must never change. The vectors in testdata guard them.
package hashing

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
	"strconv"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Hasher is the 64-bit hash of a structure: the caller's function, or xxHash64 with
// the seed mixed in.
type Hasher struct {
	Fn    func(key string) uint64
	Seed  uint64
	Plain bool // neither: the hash is xxHash64 and nothing else
}

func New(fn func(key string) uint64, seed uint64) Hasher {
	return Hasher{fn, seed, fn == nil && seed == 0}
}

func (h *Hasher) Key(key string) uint64 {
	if h.Fn != nil {
		return h.Fn(key)
	}
	return h.seeded(xxhash.Sum64String(key))
}

func (h *Hasher) KeyBytes(key []byte) uint64 {
	if h.Fn != nil {
		// The key must not be copied, for that would allocate. The function may
		// not keep its argument, as WithHash says.
		return h.Fn(StringOf(key))
	}
	return h.seeded(xxhash.Sum64(key))
}

// seeded mixes the seed into a plain sum. xxHash64 with a seed of its own is a
// streaming digest, which takes four times as long for short keys.
func (h *Hasher) seeded(sum uint64) uint64 {
	if h.Seed == 0 {
		return sum
	}
	return Mix(sum ^ h.Seed)
}

// Mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014): a bijection in which each bit
// depends on each.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// The bytes before a hash key that tell a placement's two hashes apart. They
// make them independent of each other and of the key of the same text; no two
// inputs are the same, since the one byte before is of fixed width.
const (
	saltOffset = 0xBA
	saltSkip   = 0xBE
	saltLot    = 0xBC
)

// Placement returns the two hashes that place a hash key in a Maglev table.
func (h *Hasher) Placement(hashKey string, buf []byte) (offset, skip uint64, _ []byte) {
	buf = append(append(buf[:0], saltOffset), hashKey...)
	offset = h.KeyBytes(buf)
	buf[0] = saltSkip
	return offset, h.KeyBytes(buf), buf
}

// Lot returns the hash that decides how the cap of a hash key is rounded in a table
// with slack.
func (h *Hasher) Lot(hashKey string, buf []byte) (lot uint64, _ []byte) {
	buf = append(append(buf[:0], saltLot), hashKey...)
	return h.KeyBytes(buf), buf
}

// Point returns the position of point i of a hash key on a ring of 64-bit
// positions.
func (h *Hasher) Point(hashKey string, i int, buf []byte) (uint64, []byte) {
	buf = appendLabel(buf[:0], hashKey, i)
	return h.KeyBytes(buf), buf
}

// appendLabel appends the bytes of point i of a hash key: the hash key, "#" and i in
// decimal. No two points have the same bytes, since i follows the last "#".
func appendLabel(buf []byte, hashKey string, i int) []byte {
	return strconv.AppendInt(append(append(buf, hashKey...), '#'), int64(i), 10)
}

// Digester is the SHA-256 of a ring. A seed other than 0 is hashed before the string,
// as 8 big-endian bytes.
type Digester struct {
	Seed uint64
	// Mask is all ones outside of tests. Tests clear bits of positions to get equal
	// positions.
	Mask uint64
}

// A Digest is a SHA-256 sum. Its first 64 bits are the position on a ring. The others
// decide between equal positions.
type Digest [sha256.Size]byte

func (d *Digester) Position(sum Digest) uint64 {
	return binary.BigEndian.Uint64(sum[:8]) & d.Mask
}

func (d *Digest) CompareRest(e *Digest) int { return bytes.Compare(d[8:], e[8:]) }

// KeyPosition is Position of Key in one step: each copy of a new sum would stall the
// processor for some nanoseconds.
func (d *Digester) KeyPosition(key string) uint64 {
	if d.Seed != 0 {
		return d.Position(d.Key(key))
	}
	sum := sha256.Sum256(bytesOf(key))
	return binary.BigEndian.Uint64(sum[:8]) & d.Mask
}

// Key returns the digest of a key.
func (d *Digester) Key(key string) Digest {
	if d.Seed == 0 {
		return sha256.Sum256(bytesOf(key))
	}
	var buf [256]byte
	seed := binary.BigEndian.AppendUint64(buf[:0], d.Seed)
	if len(seed)+len(key) <= len(buf) {
		return sha256.Sum256(append(seed, key...))
	}
	h := sha256.New() // on the stack: it does not escape
	h.Write(seed)
	h.Write(bytesOf(key))
	return Digest(h.Sum(buf[:0]))
}

// Point returns the digest of point i of a hash key.
func (d *Digester) Point(hashKey string, i int, buf []byte) (Digest, []byte) {
	buf = appendLabel(d.begin(buf), hashKey, i)
	return sha256.Sum256(buf), buf
}

// begin returns the bytes that are hashed before each string.
func (d *Digester) begin(buf []byte) []byte {
	if d.Seed == 0 {
		return buf[:0]
	}
	return binary.BigEndian.AppendUint64(buf[:0], d.Seed)
}

// LongHashKey is the length from which the points of a hash key share the hashing of
// the hash key. For shorter ones, whole sums are faster.
const LongHashKey = 256

// A LongKey returns the digests of the points of one long hash key. The time for each
// does not depend on the length.
type LongKey struct {
	sum   hash.Hash
	state []byte // of sum after the hash key
	buf   []byte
}

func (d *Digester) LongKey(hashKey string) *LongKey {
	p := &LongKey{sum: sha256.New()}
	p.sum.Write(d.begin(nil))
	p.sum.Write(bytesOf(hashKey))
	p.state, _ = p.sum.(encoding.BinaryMarshaler).MarshalBinary() // SHA-256 always can
	return p
}

// Point returns the same digest as Point of the Digester.
func (p *LongKey) Point(i int) Digest {
	_ = p.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.state) // which is its own
	p.buf = appendLabel(p.buf[:0], "", i)
	p.sum.Write(p.buf)
	p.buf = p.sum.Sum(p.buf[:0])
	return Digest(p.buf)
}

// TrialKey is a key whose hash tells hash functions and seeds apart, since functions
// cannot be compared; TrialKeys are several. What TrialKey hashes to is part of
// fingerprints and of what Marshal writes.
const TrialKey = "chash"

var TrialKeys = [...]string{"", "a", TrialKey, "user:42"}

// StringOf and bytesOf turn one into the other without a copy, which would cost
// lookups an allocation. What is made must be read only while its source lives
// and does not change.

func StringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Scatter is 2^64 divided by the golden ratio, made odd. Hashes with the same home
// slot, multiplied by it, begin the last part of the walk far from each other.
const Scatter = 0x9E3779B97F4A7C15
