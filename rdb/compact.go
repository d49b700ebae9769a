package rdb

import (
	"encoding/binary"
	"strconv"
)

// A ziplist, which listpacks have replaced, is
//
//	bytes u32, all of it · offset of the last entry u32 · entries u16, 65535: unknown · entries · 0xff
//
// An entry begins with the length of the one before it, u8, or 254 and u32. Then comes a head:
//
//	00xxxxxx             a string, 6 bits of length
//	01xxxxxx x1          a string, 14 bits of length, big-endian
//	10000000 x4          a string, 32 bits of length, big-endian
//	11000000 11010000 11100000 11110000 11111110  an integer of 16, 32, 64, 24, 8 bits
//	11110001 … 11111101  an integer from 0 to 12
const (
	zlHeader  = 10
	zlEnd     = 0xff
	zlBigPrev = 254
	zlInt     = 0xc0
	zlInt16   = 0xc0
	zlInt32   = 0xd0
	zlInt64   = 0xe0
	zlInt24   = 0xf0
	zlInt8    = 0xfe
)

// ziplist calls fn for every entry; not ok if the bytes are no ziplist. An error of fn ends it.
func ziplist(b []byte, fn func(item []byte) error) (ok bool, err error) {
	if len(b) < zlHeader+1 || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != zlEnd {
		return false, nil
	}
	count := int(binary.LittleEndian.Uint16(b[8:]))
	read := 0
	for rest := b[zlHeader : len(b)-1]; len(rest) > 0; read++ {
		skip := 1
		if rest[0] == zlBigPrev {
			skip = 5
		}
		if len(rest) <= skip {
			return false, nil
		}
		item, size := ziplistEntry(rest[skip:])
		if size < 0 {
			return false, nil
		}
		if err := fn(item); err != nil {
			return true, err
		}
		rest = rest[skip+size:]
	}
	return count == read || count == 0xffff, nil
}

// ziplistEntry reads an entry from its head on; size is -1 if it can't be read.
func ziplistEntry(b []byte) (item []byte, size int) {
	head, data, length, integer := b[0], 1, 0, false
	switch {
	case head < 0x40:
		length = int(head)
	case head < 0x80 && len(b) > 1:
		data, length = 2, int(head&0x3f)<<8|int(b[1])
	case head == 0x80 && len(b) > 4:
		data, length = 5, int(binary.BigEndian.Uint32(b[1:]))
	case head > zlInt24 && head < zlInt8:
		return strconv.AppendInt(nil, int64(head-zlInt24)-1, 10), 1
	case head >= zlInt:
		length, integer = ziplistIntegerSize(head), true
	default:
		length = -1
	}
	if length < 0 || length > len(b)-data {
		return nil, -1
	}
	item = b[data : data+length : data+length]
	if integer {
		item = strconv.AppendInt(nil, littleEndian(item), 10)
	}
	return item, data + length
}

func ziplistIntegerSize(head byte) int {
	switch head {
	case zlInt8:
		return 1
	case zlInt16:
		return 2
	case zlInt24:
		return 3
	case zlInt32:
		return 4
	case zlInt64:
		return 8
	}
	return -1
}

// A zipmap, the compact hash of Redis before 2.6, is
//
//	fields u8, 254: unknown · for each: length · field · length · free u8 · value · free bytes · 0xff
//
// and a length u8, or 254 and u32.
const (
	zmBigLen = 254
	zmEnd    = 0xff
)

// zipmap calls fn for every field and value in turn; not ok if the bytes are no zipmap. An error of fn ends it.
func zipmap(b []byte, fn func(item []byte) error) (ok bool, err error) {
	if len(b) < 2 || b[len(b)-1] != zmEnd {
		return false, nil
	}
	for rest := b[1 : len(b)-1]; len(rest) > 0; {
		for _, free := range []int{0, 1} {
			length, size := zipmapLen(rest)
			if size < 0 || len(rest) < size+free {
				return false, nil
			}
			unused := 0
			if free > 0 {
				unused = int(rest[size])
			}
			rest = rest[size+free:]
			if length+unused > len(rest) {
				return false, nil
			}
			if err := fn(rest[:length:length]); err != nil {
				return true, err
			}
			rest = rest[length+unused:]
		}
	}
	return true, nil
}

// zipmapLen reads a length and tells how many bytes it takes, -1 if there is none.
func zipmapLen(b []byte) (length, size int) {
	switch {
	case len(b) == 0 || b[0] == zmEnd:
		return 0, -1
	case b[0] < zmBigLen:
		return int(b[0]), 1
	case len(b) < 5:
		return 0, -1
	}
	return int(binary.LittleEndian.Uint32(b[1:])), 5
}

// An intset is
//
//	bytes of each integer u32: 2, 4 or 8 · how many u32 · the integers in ascending order
const intsetHeader = 8

// intset calls fn for every integer; not ok if the bytes are no intset. An error of fn ends it.
func intset(b []byte, fn func(item []byte) error) (ok bool, err error) {
	if len(b) < intsetHeader {
		return false, nil
	}
	width, count := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	if width != 2 && width != 4 && width != 8 || width*count != uint64(len(b)-intsetHeader) {
		return false, nil
	}
	for rest := b[intsetHeader:]; len(rest) > 0; rest = rest[width:] {
		if err := fn(strconv.AppendInt(nil, littleEndian(rest[:width]), 10)); err != nil {
			return true, err
		}
	}
	return true, nil
}

// appendIntset appends an intset of integers that are in ascending order.
func appendIntset(dst []byte, sorted []int64) []byte {
	width := 2
	for _, n := range []int64{sorted[0], sorted[len(sorted)-1]} {
		switch {
		case !fits(n, 32):
			width = 8
		case !fits(n, 16):
			width = max(width, 4)
		}
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(width))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(sorted)))
	for _, n := range sorted {
		dst = appendLittleEndian(dst, n, width)
	}
	return dst
}
