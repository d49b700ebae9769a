package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

// A listpack is
//
//	bytes u32, all of it · elements u16, 65535: unknown · elements · 0xff
//
// and an element is a head, which says what it is, its data, and the length of both, so that it can be walked backwards:
//
//	0xxxxxxx             an integer from 0 to 127
//	10xxxxxx             a string, 6 bits of length
//	110xxxxx x1          an integer of 13 bits, big-endian
//	1110xxxx x1          a string, 12 bits of length, big-endian
//	11110000 x4          a string, 32 bits of length
//	11110001 … 11110100  an integer of 16, 24, 32, 64 bits
const (
	lpHeader  = 6
	lpEnd     = 0xff
	lpUnknown = math.MaxUint16
	lpString6 = 0x80
	lpInt13   = 0xc0
	lpString  = 0xe0
	lpString4 = 0xf0
	lpInt16   = 0xf1
	lpInt24   = 0xf2
	lpInt32   = 0xf3
	lpInt64   = 0xf4
)

// listpack reads the elements of a listpack.
type listpack struct {
	rest  []byte
	count int // as the header says
	read  int
	bad   bool
}

func newListpack(b []byte) *listpack {
	if len(b) < lpHeader+1 || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != lpEnd {
		return &listpack{bad: true}
	}
	return &listpack{rest: b[lpHeader : len(b)-1], count: int(binary.LittleEndian.Uint16(b[4:]))}
}

// more tells whether there is another element. At the end the listpack is bad if the header counts differently.
func (l *listpack) more() bool {
	if l.bad {
		return false
	}
	if len(l.rest) == 0 {
		l.bad = l.count != lpUnknown && l.count != l.read
		return false
	}
	return true
}

// next is the next element: a string, or an integer if str is nil. What is bad reads as 0.
func (l *listpack) next() (str []byte, n int64) {
	if !l.more() {
		l.bad = true
		return nil, 0
	}
	head := l.rest[0]
	data, size, isString := lpShape(l.rest)
	if data < 0 || size > len(l.rest)-data {
		l.bad = true
		return nil, 0
	}
	body := l.rest[data : data+size]
	whole := data + size
	back := lpBackLen(whole)
	if whole+back > len(l.rest) || !lpBackIs(l.rest[whole:whole+back], whole) {
		l.bad = true
		return nil, 0
	}
	if !isString {
		n = lpInteger(head, l.rest[:whole])
	}
	l.rest = l.rest[whole+back:]
	l.read++
	if isString {
		return body[:size:size], 0
	}
	return nil, n
}

// lpShape is where the data of the first element begins, -1 if that is not known, and how long it is. An integer that is
// in its head has no data.
func lpShape(b []byte) (data, size int, isString bool) {
	switch head := b[0]; {
	case head < lpString6:
		return 1, 0, false
	case head < lpInt13:
		return 1, int(head & 0x3f), true
	case head < lpString:
		return 2, 0, false
	case head < lpString4 && len(b) > 1:
		return 2, int(head&0xf)<<8 | int(b[1]), true
	case head == lpString4 && len(b) > 4:
		return 5, int(binary.LittleEndian.Uint32(b[1:])), true
	case head >= lpInt16 && head <= lpInt32:
		return 1, int(head-lpInt16) + 2, false
	case head == lpInt64:
		return 1, 8, false
	}
	return -1, 0, false
}

// lpInteger is the integer that an element with the head is; b is the element.
func lpInteger(head byte, b []byte) int64 {
	switch {
	case head < lpString6:
		return int64(head)
	case head < lpString:
		return int64(int16(uint16(head)<<11|uint16(b[1])<<3) >> 3)
	}
	return littleEndian(b[1:])
}

// littleEndian is the signed integer of up to 8 bytes.
func littleEndian(b []byte) int64 {
	var n uint64
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	unused := 64 - 8*len(b)
	return int64(n<<unused) >> unused
}

// lpBackLen is how many bytes the length of an element takes. The bounds are Redis', which leave out the last number that
// would fit.
func lpBackLen(size int) int {
	switch {
	case size <= 127:
		return 1
	case size < 1<<14-1:
		return 2
	case size < 1<<21-1:
		return 3
	case size < 1<<28-1:
		return 4
	}
	return 5
}

// lpBackIs tells whether the bytes are the length of an element: 7 bits in each, the first one on top and alone
// without its top bit.
func lpBackIs(b []byte, size int) bool {
	n := 0
	for i, c := range b {
		if (c >= 0x80) != (i > 0) {
			return false
		}
		n = n<<7 | int(c&0x7f)
	}
	return n == size
}

// item is the next element as a string.
func (l *listpack) item() []byte {
	str, n := l.next()
	if str == nil && !l.bad {
		return strconv.AppendInt(nil, n, 10)
	}
	return str
}

// integer is the next element, which has to be an integer.
func (l *listpack) integer() int64 {
	str, n := l.next()
	if str != nil {
		l.bad = true
	}
	return n
}

// listpackWriter builds a listpack.
type listpackWriter struct {
	b     []byte
	count int
}

func newListpackWriter() *listpackWriter { return &listpackWriter{b: make([]byte, lpHeader, 64)} }

// size is the length of the finished listpack.
func (l *listpackWriter) size() int { return len(l.b) + 1 }

// item adds a string, as an integer if it is one.
func (l *listpackWriter) item(s []byte) {
	if n, ok := parseInteger(s); ok {
		l.integer(n)
		return
	}
	begin := len(l.b)
	switch n := len(s); {
	case n < 1<<6:
		l.b = append(l.b, lpString6|byte(n))
	case n < 1<<12:
		l.b = append(l.b, lpString|byte(n>>8), byte(n))
	default:
		l.b = binary.LittleEndian.AppendUint32(append(l.b, lpString4), uint32(n))
	}
	l.b = append(l.b, s...)
	l.end(begin)
}

// integer adds an integer.
func (l *listpackWriter) integer(n int64) {
	begin := len(l.b)
	switch {
	case n >= 0 && n < 1<<7:
		l.b = append(l.b, byte(n))
	case fits(n, 13):
		l.b = append(l.b, lpInt13|byte(n>>8)&0x1f, byte(n))
	case fits(n, 16):
		l.b = appendLittleEndian(append(l.b, lpInt16), n, 2)
	case fits(n, 24):
		l.b = appendLittleEndian(append(l.b, lpInt24), n, 3)
	case fits(n, 32):
		l.b = appendLittleEndian(append(l.b, lpInt32), n, 4)
	default:
		l.b = appendLittleEndian(append(l.b, lpInt64), n, 8)
	}
	l.end(begin)
}

// end adds the length of the element that began there.
func (l *listpackWriter) end(begin int) {
	size := len(l.b) - begin
	bytes := lpBackLen(size)
	for i := range bytes {
		c := byte(size>>(7*(bytes-1-i))) & 0x7f
		if i > 0 {
			c |= 0x80
		}
		l.b = append(l.b, c)
	}
	l.count++
}

// finish returns the listpack.
func (l *listpackWriter) finish() []byte {
	l.b = append(l.b, lpEnd)
	binary.LittleEndian.PutUint32(l.b, uint32(len(l.b)))
	binary.LittleEndian.PutUint16(l.b[4:], uint16(min(l.count, lpUnknown)))
	return l.b
}

// fits tells whether the integer has no more bits than that.
func fits(n int64, bits int) bool { return n >= -1<<(bits-1) && n < 1<<(bits-1) }

func appendLittleEndian(dst []byte, n int64, size int) []byte {
	for range size {
		dst = append(dst, byte(n))
		n >>= 8
	}
	return dst
}

// maxDigits is the length of the longest int64.
const maxDigits = 20

// parseInteger reads an int64 in its one canonical spelling, so that it reads back as the same string.
func parseInteger(s []byte) (int64, bool) {
	if len(s) == 0 || len(s) > maxDigits {
		return 0, false
	}
	digits := s
	if s[0] == '-' {
		digits = s[1:]
	}
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(s), 10, 64)
	return n, err == nil
}
