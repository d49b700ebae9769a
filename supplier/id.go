package supplier

import (
	"encoding/binary"
	"encoding/hex"
)

// The ids that the server makes are UUIDs of version 8 (RFC 9562, 5.8), in
// lower-case text, so that any client takes them for what it knows. The bits,
// counted from the left:
//
//	  0– 31  prefix    random, or the leading digits of Hash64 of a KEY; a
//	                   queue's slots are cut by these digits
//	 32– 47  ordinal   of the shard where the task is at home, big-endian; it is
//	                   the second group of the text, plain to see
//	 48– 51  version   8
//	 52– 63  random
//	 64– 65  variant   binary 10
//	 66– 79  random
//	 80–111  time      in quarters of a unix millisecond, without the higher bits
//	112–127  check     the low 16 bits of Hash64 of the 14 bytes before
//
// The check tells our ids from other people's UUIDv8: one of 65,536 of those
// passes, and is then at home on the shard that its bits name, which is as good
// a home as its hash. What matters is only that every server reads it alike.
//
// 58 bits are random, so that among 1,000 tasks of the same quarter of a millisecond two
// collide with a probability of 2^-39. Of tasks with one KEY it is 26, and 2^-7: who makes
// such an id has to look whether it is taken.
//
// The time is there for the order of rows (TimeOf): tasks of a queue are claimed in the order
// in which they were made, so their rows are read together. It begins anew every 12 days, and
// then rows of old tasks stand among those of new ones, which does no harm. Ids of older
// servers tell the time in steps of 64 ms, and have 8 random bits behind it.

// idLen is the length of a UUID's text.
const idLen = 36

// AppendID appends the id of a task at home on the shard with this ordinal, made
// from random bytes. Where the task has a KEY, SetKeyPrefix prepares them.
func AppendID(dst []byte, ordinal int, rnd [16]byte) []byte {
	id := rnd
	binary.BigEndian.PutUint16(id[4:], uint16(ordinal))
	id[6] = 0x80 | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	binary.BigEndian.PutUint16(id[14:], uint16(Hash64(id[:14])))

	var text [idLen]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return append(dst, text[:]...)
}

// SetKeyPrefix replaces the bytes that become an id's prefix with those of
// Hash64 of key, so that tasks with one KEY share a slot.
func SetKeyPrefix(rnd *[16]byte, key []byte) {
	binary.BigEndian.PutUint32(rnd[:4], uint32(Hash64(key)>>32))
}

// togetherTasks is how many tasks that are made together have the same time.
const togetherTasks = 8

// SetTime replaces the bytes that become an id's time, of the i-th of tasks that are made
// together. Those behind the first few have the times that follow, be they still to come, since
// what has one place among the rows is scanned as one.
func SetTime(rnd *[16]byte, ms int64, i int) {
	binary.BigEndian.PutUint32(rnd[10:], uint32(4*ms)+uint32(i/togetherTasks))
}

// TimeOf is a number by which ids that were made one after the other are near
// each other: the time. It is read off whatever looks like an id of ours.
func TimeOf(id []byte) (at uint32, ok bool) {
	if len(id) != idLen || id[14] != '8' || id[23] != '-' {
		return 0, false
	}
	return hexNumber(binary.BigEndian.Uint64(id[24:32]))
}

// ParseID reads the ordinal off an id that AppendID made; ok is false for every
// other id. The ordinal may be one that the topology does not have.
func ParseID(id []byte) (ordinal int, ok bool) {
	// The version's digit rejects most other ids before any work is done.
	if len(id) != idLen || id[14] != '8' || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return 0, false
	}
	var raw [16]byte
	for i, digits := range [...]uint64{
		binary.BigEndian.Uint64(id[0:]),
		uint64(binary.BigEndian.Uint32(id[9:]))<<32 | uint64(binary.BigEndian.Uint32(id[14:])),
		uint64(binary.BigEndian.Uint32(id[19:]))<<32 | uint64(binary.BigEndian.Uint32(id[24:])),
		binary.BigEndian.Uint64(id[28:]),
	} {
		number, ok := hexNumber(digits)
		if !ok {
			return 0, false
		}
		binary.BigEndian.PutUint32(raw[4*i:], number)
	}
	if raw[8]>>6 != 0b10 || binary.BigEndian.Uint16(raw[14:]) != uint16(Hash64(raw[:14])) {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(raw[4:])), true
}

// Slot is the slot of the task with this id, of a queue that is cut by 1 to 4 hexadecimal digits: the id's first ones, hyphens skipped. An id
// that is not made of digits and hyphens, or has too few, takes them from Hash64 of the id.
func Slot(id []byte, digits int) uint16 {
	var slot uint16
	n := 0
	for _, c := range id {
		if c >= 'A' && c <= 'F' {
			c += 'a' - 'A'
		}
		digit := hexDigit(c)
		switch {
		case digit == 0xff && c != '-':
			return hashSlot(id, digits)
		case digit != 0xff && n < digits:
			slot = slot<<4 | uint16(digit)
			n++
		}
	}
	if n < digits {
		return hashSlot(id, digits)
	}
	return slot
}

func hashSlot(id []byte, digits int) uint16 { return uint16(Hash64(id) >> (64 - 4*digits)) }

// hexDigit is a lower-case digit's value, or 0xff.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// hexNumber is the number that eight lower-case hexadecimal digits are, the first of them in the highest byte; ok is false for any other
// text. Ids are parsed at every step of a task and their digits are random, so a branch for each would be guessed wrong: all eight are
// worked on at once, each in its byte. To tell digits from other bytes, what was read is written as digits again and compared.
func hexNumber(text uint64) (number uint32, ok bool) {
	const each = 0x0101010101010101             // times a byte: it in all eight
	values := text&(0x0f*each) + text>>6&each*9 // bit 6 is set in letters, the first of which ends in 1
	letters := (values + 6*each) >> 4 & each
	if values&(0xf0*each) != 0 || values+'0'*each+letters*('a'-'0'-10) != text {
		return 0, false
	}
	values = (values | values>>4) & 0x00ff00ff00ff00ff
	values = (values | values>>8) & 0x0000ffff0000ffff
	return uint32(values | values>>16), true
}
