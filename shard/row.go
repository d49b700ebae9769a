package shard

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/cespare/xxhash/v2"
)

// The rows of one store. Every key is built from fixed-width big-endian fields, so that byte order is the
// order that the readers want:
//
//	f                              identity of the store (json, see identity)
//	n                              state: commit number, next collection id, databases (see shardState)
//	s name                         system record, such as a persisted script
//	m space hash key               metadata of a key (see object.encode); holds a short string's value too
//	e id index                     chunk of a long string                → bytes
//	e id index                     list element                          → value
//	e id place field               hash field                            → value
//	e id hash member               set member                            → nothing
//	e id place member              sorted-set member                     → score, 8 bytes
//	e id entry                     stream's entry                        → fields and values
//	o id score member              sorted-set member in score order      → nothing
//	l id slot index                list element by slot, see slots.go    → value
//	g id group                     consumer group of a stream            → its collection id and state
//	c group-id consumer            consumer of a group                   → its number and state
//	e group-id entry               entry that is pending in a group      → consumer's number, delivery
//	o group-id number entry        the same by its consumer              → nothing
//	x deadline space key           a key that expires                    → nothing
//	y deadline space key           a lease, in place of x                → nothing
//	q, q space kind name           a key or group that is tracked, see track.go → nothing; q alone says that these are complete
//	d id                           a dead collection, still to be cleared → its kind
//	k space                        a dead keyspace, still to be cleared  → nothing
//
// space is a keyspace id, 4 bytes; id a collection id, 8 bytes; index a list index or the number of a chunk, 8 bytes with
// the sign bit flipped, or in a row by slot all others; slot a slot's number, 2 bytes; score a float64 in sortable form, 8 bytes; deadline unix milliseconds, 8 bytes; entry a stream's
// id, ms and sequence number, 16 bytes; number a consumer's number within its group, 4 bytes; names are as they are. hash
// is 4 bytes of xxHash64 of what follows it: keys, fields and members have no order in Redis, so rows are kept in the order
// of that hash. It is what makes the cursor of SCAN, HSCAN, SSCAN and ZSCAN a plain number that needs no
// memory on the server and keeps Redis' guarantee over restarts (ADR 0004), and lets a random seek find a
// random element. place is that hash, too, or in collections that are ordered what the tracker says (ADR 0015).
const (
	rowIdentity     = 'f'
	rowState        = 'n'
	rowSystem       = 's'
	rowMeta         = 'm'
	rowElement      = 'e'
	rowScore        = 'o'
	rowSlot         = 'l'
	rowGroup        = 'g'
	rowConsumer     = 'c'
	rowDeadline     = 'x'
	rowLapse        = 'y'
	rowRegistry     = 'q'
	rowDead         = 'd'
	rowDeadKeyspace = 'k'
)

const (
	elementPrefixLen  = 1 + 8
	hashLen           = 4
	spacePrefixLen    = 1 + 4
	metaPrefixLen     = spacePrefixLen + hashLen
	deadlinePrefixLen = 1 + 8 + 4
)

var errCorruptRow = errors.New("corrupt row")

// elementHash is the hash that orders the rows of keys, fields and members.
func elementHash(b []byte) uint32 {
	return uint32(xxhash.Sum64(b) >> 32)
}

// appendSpacePrefix begins the metadata rows of a keyspace.
func appendSpacePrefix(dst []byte, space uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, rowMeta), space)
}

func appendMetaKey(dst []byte, space uint32, key string) []byte {
	dst = appendSpacePrefix(dst, space)
	dst = binary.BigEndian.AppendUint32(dst, uint32(xxhash.Sum64String(key)>>32))
	return append(dst, key...)
}

func appendElementPrefix(dst []byte, row byte, id uint64) []byte {
	dst = append(dst, row)
	return binary.BigEndian.AppendUint64(dst, id)
}

func appendFieldKey(dst []byte, id uint64, place uint32, field []byte) []byte {
	dst = appendElementPrefix(dst, rowElement, id)
	dst = binary.BigEndian.AppendUint32(dst, place)
	return append(dst, field...)
}

// placeOf is what orders the rows of a collection's fields or members.
func (s *Shard) placeOf(o *object, element []byte) uint32 {
	if o.ordered {
		if place, ok := s.store.tracker.Order(element); ok {
			return place
		}
	}
	return elementHash(element)
}

// appendField appends the key of the row of a field or member.
func (s *Shard) appendField(dst []byte, o *object, element []byte) []byte {
	return appendFieldKey(dst, o.id, s.placeOf(o, element), element)
}

// fieldOf returns the field or member of an element row's key.
func fieldOf(row []byte) []byte { return row[elementPrefixLen+hashLen:] }

func appendIndexKey(dst []byte, id uint64, index int64) []byte {
	dst = appendElementPrefix(dst, rowElement, id)
	return binary.BigEndian.AppendUint64(dst, uint64(index)^(1<<63))
}

func indexOf(row []byte) int64 {
	return int64(binary.BigEndian.Uint64(row[elementPrefixLen:]) ^ (1 << 63))
}

// appendSlotPrefix begins the rows of a slot.
func appendSlotPrefix(dst []byte, id uint64, slot uint16) []byte {
	return binary.BigEndian.AppendUint16(appendElementPrefix(dst, rowSlot, id), slot)
}

// appendSlotKey is in the order in which a list's slots are popped: from the tail on.
func appendSlotKey(dst []byte, id uint64, slot uint16, index int64) []byte {
	return binary.BigEndian.AppendUint64(appendSlotPrefix(dst, id, slot), ^(uint64(index) ^ (1 << 63)))
}

func slotOf(row []byte) (slot uint16, index int64) {
	return binary.BigEndian.Uint16(row[elementPrefixLen:]), int64(^binary.BigEndian.Uint64(row[elementPrefixLen+2:]) ^ (1 << 63))
}

func appendScoreKey(dst []byte, id uint64, score float64, member []byte) []byte {
	dst = appendElementPrefix(dst, rowScore, id)
	dst = binary.BigEndian.AppendUint64(dst, sortableScore(score))
	return append(dst, member...)
}

func scoreOf(row []byte) (score float64, member []byte) {
	return scoreFromSortable(binary.BigEndian.Uint64(row[elementPrefixLen:])), row[elementPrefixLen+8:]
}

func appendDeadlineKey(dst []byte, deadlineMs int64, space uint32, key string) []byte {
	dst = append(dst, rowDeadline)
	dst = binary.BigEndian.AppendUint64(dst, uint64(deadlineMs))
	dst = binary.BigEndian.AppendUint32(dst, space)
	return append(dst, key...)
}

func appendLapseKey(dst []byte, deadlineMs int64, space uint32, key string) []byte {
	start := len(dst)
	dst = appendDeadlineKey(dst, deadlineMs, space, key)
	dst[start] = rowLapse
	return dst
}

func splitDeadlineKey(row []byte) (deadlineMs int64, space uint32, key []byte) {
	return int64(binary.BigEndian.Uint64(row[1:])), binary.BigEndian.Uint32(row[9:]), row[deadlinePrefixLen:]
}

// sortableScore maps a float64 that is not NaN to a number of the same order. Minus zero counts as zero, as
// it does for Redis.
func sortableScore(score float64) uint64 {
	bits := math.Float64bits(score + 0)
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

func scoreFromSortable(v uint64) float64 {
	if v>>63 == 1 {
		return math.Float64frombits(v &^ (1 << 63))
	}
	return math.Float64frombits(^v)
}

// upperBound returns the least key that is greater than every key with the prefix.
func upperBound(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
