package chash

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

// Every layout of bytes that is hashed stands in this file. They decide which
// backend a key belongs to, so none of them may ever change: the vectors in
// testdata guard them.

// hasher is the 64-bit hash of a structure: the caller's function, or xxHash64
// with the seed mixed in.
type hasher struct {
	fn    func(key string) uint64
	seed  uint64
	plain bool // neither: the hash is xxHash64 and nothing else
}

func newHasher(fn func(key string) uint64, seed uint64) hasher {
	return hasher{fn, seed, fn == nil && seed == 0}
}

func (h *hasher) key(key string) uint64 {
	if h.fn != nil {
		return h.fn(key)
	}
	return h.seeded(xxhash.Sum64String(key))
}

func (h *hasher) keyBytes(key []byte) uint64 {
	if h.fn != nil {
		// The key must not be copied, for that would allocate. The function may
		// not keep its argument, as WithHash says.
		return h.fn(stringOf(key))
	}
	return h.seeded(xxhash.Sum64(key))
}

// seeded leaves the plain sum the one pass over a key: xxHash64 with a seed of
// its own, as a streaming digest, costs four times as much for short keys.
func (h *hasher) seeded(sum uint64) uint64 {
	if h.seed == 0 {
		return sum
	}
	return mix(sum ^ h.seed)
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014): a bijection in which each bit
// depends on each.
func mix(x uint64) uint64 {
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

// placement returns the two hashes that place a hash key in a Maglev table.
func (h *hasher) placement(hashKey string, buf []byte) (offset, skip uint64, _ []byte) {
	buf = append(append(buf[:0], saltOffset), hashKey...)
	offset = h.copied(buf)
	buf[0] = saltSkip
	return offset, h.copied(buf), buf
}

// lot returns the hash that decides how a hash key's cap is rounded in a table with
// slack.
func (h *hasher) lot(hashKey string, buf []byte) (lot uint64, _ []byte) {
	buf = append(append(buf[:0], saltLot), hashKey...)
	return h.copied(buf), buf
}

// point returns the position of point i of a hash key on a ring of 64-bit
// positions.
func (h *hasher) point(hashKey string, i int, buf []byte) (uint64, []byte) {
	buf = appendLabel(buf[:0], hashKey, i)
	return h.copied(buf), buf
}

// copied hashes bytes that will be overwritten.
func (h *hasher) copied(b []byte) uint64 {
	if h.fn != nil {
		return h.fn(string(b))
	}
	return h.keyBytes(b)
}

// appendLabel appends what is hashed for point i of a hash key: the hash key,
// "#" and i in decimal. No two points have the same label, since what follows
// the last "#" is always i.
func appendLabel(buf []byte, hashKey string, i int) []byte {
	return strconv.AppendInt(append(append(buf, hashKey...), '#'), int64(i), 10)
}

// digester is the SHA-256 of a ring, over the seed as 8 big-endian bytes, unless
// it is 0, and the string.
type digester struct {
	seed uint64
	// mask is all ones but in tests, where it clears bits of positions so that
	// digests which are alike in the rest can be had.
	mask uint64
}

// A digest is a SHA-256 sum. Its first 64 bits are the position on a ring, the
// rest decides between equal positions.
type digest [sha256.Size]byte

func (d *digester) position(sum digest) uint64 {
	return binary.BigEndian.Uint64(sum[:8]) & d.mask
}

func (d *digest) compareRest(e *digest) int { return bytes.Compare(d[8:], e[8:]) }

// keyPosition is the position of key(key). Lookups call it, since each copy of a
// sum just written stalls the processor for some nanoseconds.
func (d *digester) keyPosition(key string) uint64 {
	if d.seed != 0 {
		return d.position(d.key(key))
	}
	sum := sha256.Sum256(bytesOf(key))
	return binary.BigEndian.Uint64(sum[:8]) & d.mask
}

// key returns the digest of a key.
func (d *digester) key(key string) digest {
	if d.seed == 0 {
		return sha256.Sum256(bytesOf(key))
	}
	var buf [256]byte
	seed := binary.BigEndian.AppendUint64(buf[:0], d.seed)
	if len(seed)+len(key) <= len(buf) {
		return sha256.Sum256(append(seed, key...))
	}
	h := sha256.New() // on the stack: it does not escape
	h.Write(seed)
	h.Write(bytesOf(key))
	return digest(h.Sum(buf[:0]))
}

// point returns the digest of point i of a hash key.
func (d *digester) point(hashKey string, i int, buf []byte) (digest, []byte) {
	buf = appendLabel(d.begin(buf), hashKey, i)
	return sha256.Sum256(buf), buf
}

// begin returns what stands before each string that is hashed.
func (d *digester) begin(buf []byte) []byte {
	if d.seed == 0 {
		return buf[:0]
	}
	return binary.BigEndian.AppendUint64(buf[:0], d.seed)
}

// longHashKey is the length from which on the points of a hash key share the work of
// hashing it. Below that, whole sums are faster.
const longHashKey = 256

// A pointer returns the digests of the points of one long hash key, each in a time
// that does not depend on its length.
type pointer struct {
	sum   hash.Hash
	state []byte // of sum after the hash key
	buf   []byte
}

func (d *digester) pointer(hashKey string) *pointer {
	p := &pointer{sum: sha256.New()}
	p.sum.Write(d.begin(nil))
	p.sum.Write(bytesOf(hashKey))
	p.state, _ = p.sum.(encoding.BinaryMarshaler).MarshalBinary() // SHA-256 always can
	return p
}

// point returns what digester.point does.
func (p *pointer) point(i int) digest {
	_ = p.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(p.state) // which is its own
	p.buf = appendLabel(p.buf[:0], "", i)
	p.sum.Write(p.buf)
	p.buf = p.sum.Sum(p.buf[:0])
	return digest(p.buf)
}

// trialKey is a key whose hash tells hash functions and seeds apart, since functions
// cannot be compared; trialKeys are several. What trialKey hashes to is part of
// fingerprints and of what Marshal writes.
const trialKey = "chash"

var trialKeys = [...]string{"", "a", trialKey, "user:42"}

// stringOf and bytesOf turn one into the other without a copy, which would cost
// lookups an allocation. What is made must be read only while its source lives
// and does not change.

func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
