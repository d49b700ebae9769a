package rdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// The defaults of Redis 7.0 that decide on the form of a value: up to so many elements of up to so many bytes it is compact.
const (
	hashEntries   = 512 // hash-max-listpack-entries
	hashBytes     = 64  // hash-max-listpack-value
	zsetEntries   = 128 // zset-max-listpack-entries
	zsetBytes     = 64  // zset-max-listpack-value
	intsetEntries = 512 // set-max-intset-entries
	listNodeBytes = 8 << 10
	// listEntryEstimate is what Redis reckons with for an element besides its bytes.
	listEntryEstimate = 8
	// listPlainBytes is the length from which an element is a node of its own.
	listPlainBytes = 1 << 30
	// minCompressed is the length up to which a string is not compressed.
	minCompressed = 20
	// maxIntegerForm is the length of the longest int32.
	maxIntegerForm = 11
)

// Encode writes the payload of the value, which is not empty. The items of a set and a hash may have any order; those of a
// sorted set are in the order of their scores.
func Encode(v *Value) []byte {
	w := new(writer)
	switch v.Kind {
	case String:
		w.byte(typeString)
		w.str(v.Str)
	case List:
		w.list(v.Items)
	case Set:
		w.set(v.Items)
	case ZSet:
		w.sortedSet(v)
	case Hash:
		w.hash(v.Items)
	case StreamKind:
		w.byte(typeStream2)
		w.stream(v.Stream)
	default:
		panic(fmt.Sprintf("rdb: value of kind %d", v.Kind))
	}
	return sealed(w.b)
}

// sealed appends version and checksum.
func sealed(body []byte) []byte {
	dst := binary.LittleEndian.AppendUint16(body, payloadVersion)
	return binary.LittleEndian.AppendUint64(dst, crc64(dst))
}

// writer writes a payload from left to right.
type writer struct {
	b      []byte
	places *lzfPlaces
}

func (w *writer) byte(c byte) { w.b = append(w.b, c) }

// len writes a length.
func (w *writer) len(n uint64) {
	switch {
	case n < 1<<6:
		w.byte(byte(n))
	case n < 1<<14:
		w.b = append(w.b, len14Bits|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, len32Bits), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, len64Bits), n)
	}
}

// str writes a string in its shortest form.
func (w *writer) str(s []byte) {
	if len(s) <= maxIntegerForm {
		if n, ok := parseInteger(s); ok && fits(n, 32) {
			w.integer(n)
			return
		}
	}
	if len(s) > minCompressed && w.compressed(s) {
		return
	}
	w.len(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) integer(n int64) {
	switch {
	case fits(n, 8):
		w.b = append(w.b, formBits|formInt8, byte(n))
	case fits(n, 16):
		w.b = appendLittleEndian(append(w.b, formBits|formInt16), n, 2)
	default:
		w.b = appendLittleEndian(append(w.b, formBits|formInt32), n, 4)
	}
}

// compressed writes a string in compressed form, if that saves more than it costs.
func (w *writer) compressed(s []byte) bool {
	if w.places == nil {
		w.places = new(lzfPlaces)
	}
	out, ok := w.places.compress(s, len(s)-4)
	if !ok {
		return false
	}
	w.byte(formBits | formLZF)
	w.len(uint64(len(out)))
	w.len(uint64(len(s)))
	w.b = append(w.b, out...)
	return true
}

// strings writes strings, their number first.
func (w *writer) strings(items [][]byte, count int) {
	w.len(uint64(count))
	for _, item := range items {
		w.str(item)
	}
}

// list writes the nodes that a list has after all elements were pushed to its tail.
func (w *writer) list(items [][]byte) {
	nodes := listNodes(items)
	w.byte(typeListQuicklist2)
	w.len(uint64(len(nodes)))
	for _, node := range nodes {
		w.len(node.form)
		w.str(node.body)
	}
}

// listNode is a node of a list: its form, and an element or a listpack.
type listNode struct {
	form uint64
	body []byte
}

func listNodes(items [][]byte) (nodes []listNode) {
	var l *listpackWriter
	flush := func() {
		if l != nil {
			nodes = append(nodes, listNode{quicklistListpack, l.finish()})
			l = nil
		}
	}
	for _, item := range items {
		if len(item) >= listPlainBytes {
			flush()
			nodes = append(nodes, listNode{quicklistPlain, item})
			continue
		}
		if l != nil && l.size()+len(item)+listEntryEstimate > listNodeBytes {
			flush()
		}
		if l == nil {
			l = newListpackWriter()
		}
		l.item(item)
	}
	flush()
	return nodes
}

// packed is a listpack of the items.
func packed(items [][]byte) []byte {
	l := newListpackWriter()
	for _, item := range items {
		l.item(item)
	}
	return l.finish()
}

func (w *writer) set(members [][]byte) {
	if sorted, ok := integers(members); ok {
		w.byte(typeSetIntset)
		w.str(appendIntset(nil, sorted))
		return
	}
	w.byte(typeSet)
	w.strings(members, len(members))
}

// integers are the members in ascending order, if they make an intset.
func integers(members [][]byte) ([]int64, bool) {
	if len(members) > intsetEntries {
		return nil, false
	}
	all := make([]int64, len(members))
	for i, member := range members {
		n, ok := parseInteger(member)
		if !ok {
			return nil, false
		}
		all[i] = n
	}
	slices.Sort(all)
	return all, true
}

func (w *writer) hash(pairs [][]byte) {
	if len(pairs) > 2*hashEntries || tooLong(pairs, hashBytes) {
		w.byte(typeHash)
		w.strings(pairs, len(pairs)/2)
		return
	}
	w.byte(typeHashListpack)
	w.str(packed(pairs))
}

func tooLong(items [][]byte, limit int) bool {
	return slices.ContainsFunc(items, func(item []byte) bool { return len(item) > limit })
}

func (w *writer) sortedSet(v *Value) {
	if len(v.Items) > zsetEntries || tooLong(v.Items, zsetBytes) {
		w.byte(typeZSet)
		w.len(uint64(len(v.Items)))
		for i := len(v.Items) - 1; i >= 0; i-- { // the greatest first, which is the cheapest order to insert
			w.str(v.Items[i])
			w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(v.Scores[i]))
		}
		return
	}
	l := newListpackWriter()
	for i, member := range v.Items {
		l.item(member)
		l.score(v.Scores[i])
	}
	w.byte(typeZSetListpack)
	w.str(l.finish())
}

// score adds a score, as an integer if it is a whole number of up to 62 bits.
func (l *listpackWriter) score(score float64) {
	switch {
	case math.Abs(score) <= 1<<62 && score == math.Trunc(score):
		l.integer(int64(score))
	case math.IsInf(score, 1):
		l.item([]byte("inf"))
	case math.IsInf(score, -1):
		l.item([]byte("-inf"))
	default:
		l.item(strconv.AppendFloat(nil, score, 'g', 17, 64))
	}
}
