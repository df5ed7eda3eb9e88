package chashcompat

import (
	"crypto/md5"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"unsafe"
)

// This file has the systems' 32-bit hashes of keys.

// bytesOf returns the bytes of a string without a copy. A copy would cost each lookup
// an allocation. The bytes must not be written.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func crc32Sum(key string) uint32 { return crc32.ChecksumIEEE(bytesOf(key)) }

// md5Word is the first word of the MD5 sum.
func md5Word(key string) uint32 {
	sum := md5.Sum(bytesOf(key))
	return binary.LittleEndian.Uint32(sum[:])
}

// signed returns a byte as a C program sees it on x86, where characters are signed.
func signed(c byte) uint32 { return uint32(int8(c)) }

// oneAtATime is Bob Jenkins' one-at-a-time hash, over signed characters.
func oneAtATime[S string | []byte](key S) uint32 {
	h := uint32(0)
	for i := range len(key) {
		h += signed(key[i])
		h += h << 10
		h ^= h >> 6
	}
	h += h << 3
	h ^= h >> 11
	return h + h<<15
}

// sdbm is the hash of the database library sdbm, in HAProxy's form.
func sdbm(key string) uint32 {
	h := uint32(0)
	for i := range len(key) {
		h = uint32(key[i]) + h<<6 + h<<16 - h
	}
	return h
}

// djb2 is Dan Bernstein's hash.
func djb2(key string) uint32 {
	h := uint32(5381)
	for i := range len(key) {
		h = h*33 + uint32(key[i])
	}
	return h
}

// wt6 is HAProxy's hash wt6.
func wt6(key string) uint32 {
	h0, h1 := uint32(0xA53C965A), uint32(0x5CA6953A)
	s0, s1 := 6, 18
	for i := range len(key) {
		c := uint32(key[i])
		h0, h1 = bits.RotateLeft32(^(h1+c), s0), bits.RotateLeft32(^(h0^c), s1)
		t := (h0>>16 ^ h1) & 0xFFFF
		s0, s1 = int(t&31), int(t>>11)
	}
	return h0 ^ h1
}

// avalanche is HAProxy's hash from 32 bits to 32 bits: Bob Jenkins' hash with six
// shifts, then a multiplication. It is a bijection.
func avalanche(a uint32) uint32 {
	a = (a + 0x7ED55D16) + a<<12
	a = (a ^ 0xC761C23C) ^ a>>19
	a = (a + 0x165667B1) + a<<5
	a = (a + 0xD3A2646C) ^ a<<9
	a = (a + 0xFD7046C5) + a<<3
	a = (a ^ 0xB55A4F09) ^ a>>16
	return a * 3221225473
}

// The numbers of the hashes by Fowler, Noll and Vo.
const (
	fnvOffset32 = 0x811C9DC5
	fnvPrime32  = 0x01000193
	fnvOffset64 = 0xCBF29CE484222325
	fnvPrime64  = 0x00000100000001B3
)

func fnv1(key string) uint32 {
	h := uint32(fnvOffset32)
	for i := range len(key) {
		h = h*fnvPrime32 ^ signed(key[i])
	}
	return h
}

func fnv1a(key string) uint32 {
	h := uint32(fnvOffset32)
	for i := range len(key) {
		h = (h ^ signed(key[i])) * fnvPrime32
	}
	return h
}

// fnv1Low is the low half of 64-bit FNV-1. The low half of each step depends on low
// halves only, so 32-bit arithmetic is enough.
func fnv1Low(key string) uint32 {
	h := uint32(fnvOffset64 & 0xFFFFFFFF)
	for i := range len(key) {
		h = h*(fnvPrime64&0xFFFFFFFF) ^ signed(key[i])
	}
	return h
}

// fnv1aLow is the low half of 64-bit FNV-1a, as twemproxy computes it.
func fnv1aLow(key string) uint32 {
	h := uint32(fnvOffset64 & 0xFFFFFFFF)
	for i := range len(key) {
		h = (h ^ signed(key[i])) * (fnvPrime64 & 0xFFFFFFFF)
	}
	return h
}
