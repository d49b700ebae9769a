package shard

import (
	"cmp"
	"encoding/binary"
	"math"
)

// StreamID is the id of a stream's entry. The zero value stands before all entries, for no entry may have it.
type StreamID struct{ Ms, Seq uint64 }

// LastStreamID is the greatest id there is.
func LastStreamID() StreamID { return StreamID{math.MaxUint64, math.MaxUint64} }

// Compare orders ids: -1, 0 or 1.
func (a StreamID) Compare(b StreamID) int {
	if a.Ms != b.Ms {
		return cmp.Compare(a.Ms, b.Ms)
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// Less tells whether a comes before b.
func (a StreamID) Less(b StreamID) bool { return a.Ms < b.Ms || a.Ms == b.Ms && a.Seq < b.Seq }

// IsZero tells whether a is the zero value.
func (a StreamID) IsZero() bool { return a == StreamID{} }

// Next returns the id after a; there is none after the last.
func (a StreamID) Next() (next StreamID, ok bool) {
	if a.Seq++; a.Seq == 0 {
		a.Ms++
	}
	return a, !a.IsZero()
}

// Previous returns the id before a; there is none before the zero value.
func (a StreamID) Previous() (previous StreamID, ok bool) {
	if a.Seq--; a.Seq == math.MaxUint64 {
		a.Ms--
	}
	return a, a != LastStreamID()
}

func laterID(a, b StreamID) StreamID {
	if a.Less(b) {
		return b
	}
	return a
}

func earlierID(a, b StreamID) StreamID {
	if b.Less(a) {
		return b
	}
	return a
}

// streamIDLen is the length of an id in a row's key.
const streamIDLen = 16

func appendStreamID(dst []byte, id StreamID) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id.Ms)
	return binary.BigEndian.AppendUint64(dst, id.Seq)
}

// streamIDOf reads the id at the end of a row's key.
func streamIDOf(row []byte) StreamID {
	at := row[len(row)-streamIDLen:]
	return StreamID{binary.BigEndian.Uint64(at), binary.BigEndian.Uint64(at[8:])}
}

func appendVarID(dst []byte, id StreamID) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, id.Ms), id.Seq)
}

func (r *varintReader) streamID() StreamID { return StreamID{r.uvarint(), r.uvarint()} }

// Fields are the fields and values of a stream's entry, in turn, in the form in which they are stored: their number, then
// each with its length before it, all numbers as uvarints. They are valid until the call ends that yields them.
type Fields struct {
	rest []byte
	left int
}

func appendFields(dst []byte, fields [][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(fields)))
	for _, f := range fields {
		dst = binary.AppendUvarint(dst, uint64(len(f)))
		dst = append(dst, f...)
	}
	return dst
}

func fieldsOf(raw []byte) Fields {
	n, size := binary.Uvarint(raw)
	return Fields{raw[max(size, 0):], int(n)}
}

// Len is how many fields and values are left.
func (f *Fields) Len() int { return f.left }

// Next takes the next field or value.
func (f *Fields) Next() []byte {
	n, size := binary.Uvarint(f.rest)
	if f.left == 0 || size <= 0 || uint64(len(f.rest)-size) < n {
		return nil
	}
	val := f.rest[size : size+int(n)]
	f.rest = f.rest[size+int(n):]
	f.left--
	return val
}
