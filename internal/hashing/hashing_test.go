package hashing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// The digests of points are plain sums of what is hashed, at lengths around those where
// SHA-256 begins another block, and where a saved state takes the place of whole sums.
func TestPoint_IsAPlainSum(t *testing.T) {
	var lengths []int
	for _, about := range []int{60, 124, 188, LongHashKey} {
		for n := about - 14; n <= about+8; n++ {
			lengths = append(lengths, n)
		}
	}
	for n := 200; n <= 330; n++ {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, 1, 1023, 1024, 1025, 100_000)
	for _, seed := range []uint64{0, 7} {
		d := Digester{Seed: seed, Mask: ^uint64(0)}
		var prefix []byte
		if seed != 0 {
			prefix = binary.BigEndian.AppendUint64(nil, seed)
		}
		for _, n := range lengths {
			hashKey := strings.Repeat("long-", n/5+1)[:n]
			long := d.LongKey(hashKey)
			for _, i := range []int{0, 9, 10, 99, 12345, 67108863, 0} {
				want := Digest(sha256.Sum256(fmt.Appendf(prefix[:len(prefix):len(prefix)], "%s#%d", hashKey, i)))
				if got, _ := d.Point(hashKey, i, nil); got != want {
					t.Errorf("seed %d, %d bytes: Point(%d) = %x, want %x", seed, n, i, got, want)
				}
				if got := long.Point(i); got != want {
					t.Errorf("seed %d, %d bytes: LongKey.Point(%d) = %x, want %x", seed, n, i, got, want)
				}
			}
		}
	}
}
