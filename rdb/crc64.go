package rdb

import (
	"math/bits"
	"sync"
)

// crcPolynomial is the Jones polynomial of CRC-64: reflected in and out, with no initial value and no final complement,
// which is why hash/crc64 can't compute it.
const crcPolynomial = 0xad93d23594c935a9

var crcTable = sync.OnceValue(func() *[256]uint64 {
	reflected := bits.Reverse64(crcPolynomial)
	table := new([256]uint64)
	for i := range table {
		c := uint64(i)
		for range 8 {
			if c&1 == 1 {
				c = c>>1 ^ reflected
			} else {
				c >>= 1
			}
		}
		table[i] = c
	}
	return table
})

// crc64 is the checksum of a payload.
func crc64(b []byte) (crc uint64) {
	table := crcTable()
	for _, c := range b {
		crc = table[byte(crc)^c] ^ crc>>8
	}
	return crc
}
