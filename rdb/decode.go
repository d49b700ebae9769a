package rdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// The types of values, each with one way to write it.
const (
	typeString           = 0
	typeList             = 1
	typeSet              = 2
	typeZSetText         = 3 // scores as text
	typeHash             = 4
	typeZSet             = 5 // scores in 8 bytes
	typeModuleOld        = 6
	typeModule           = 7
	typeHashZipmap       = 9
	typeListZiplist      = 10
	typeSetIntset        = 11
	typeZSetZiplist      = 12
	typeHashZiplist      = 13
	typeListQuicklist    = 14 // of ziplists
	typeStream1          = 15
	typeHashListpack     = 16
	typeZSetListpack     = 17
	typeListQuicklist2   = 18 // of listpacks and plain elements
	typeStream2          = 19 // knows deleted entries and how many were read
	typeSetListpack      = 20
	typeStream3          = 21 // knows when consumers were active
	quicklistPlain       = 1
	quicklistListpack    = 2
	scoreNaN             = 253
	scoreInfinity        = 254
	scoreMinusInfinity   = 255
	formBits             = 0xc0 // a string in another form than length and bytes
	formInt8             = 0
	formInt16            = 1
	formInt32            = 2
	formLZF              = 3
	len14Bits            = 0x40
	len32Bits            = 0x80
	len64Bits            = 0x81
	footerLen            = 10
	payloadVersion       = 10 // what Redis 7.0 writes
	newestPayloadVersion = 12 // of Redis 7.4; its new types are refused one by one
)

// Decode reads a payload. The value refers to it where it can.
func Decode(payload []byte) (Value, error) { return decode(payload, MaxSize) }

// decode is Decode within a budget.
func decode(payload []byte, budget Budget) (Value, error) {
	body, err := unsealed(payload)
	if err != nil {
		return Value{}, err
	}
	r := &reader{rest: body, budget: budget}
	v := r.value()
	if r.err == nil {
		r.err = v.check()
	}
	if r.err != nil {
		return Value{}, r.err
	}
	return v, nil
}

// unsealed checks version and checksum, and answers what stands before them.
func unsealed(payload []byte) ([]byte, error) {
	if len(payload) < footerLen {
		return nil, ErrPayload
	}
	body, footer := payload[:len(payload)-footerLen], payload[len(payload)-footerLen:]
	if binary.LittleEndian.Uint16(footer) > newestPayloadVersion ||
		binary.LittleEndian.Uint64(footer[2:]) != crc64(payload[:len(payload)-8]) {
		return nil, ErrPayload
	}
	return body, nil
}

// check refuses what no database holds.
func (v *Value) check() error {
	switch v.Kind {
	case List, Set, ZSet, Hash:
		if len(v.Items) == 0 {
			return fmt.Errorf("%w: it is empty", ErrFormat)
		}
	case String, StreamKind:
	}
	repeats := false
	switch v.Kind {
	case Set, ZSet:
		repeats = hasRepeats(v.Items, 1)
	case Hash:
		if len(v.Items)%2 != 0 {
			return fmt.Errorf("%w: a field has no value", ErrFormat)
		}
		repeats = hasRepeats(v.Items, 2)
	case String, List, StreamKind:
	}
	if repeats {
		return fmt.Errorf("%w: an element occurs twice", ErrFormat)
	}
	for _, score := range v.Scores {
		if math.IsNaN(score) {
			return fmt.Errorf("%w: a score is not a number", ErrFormat)
		}
	}
	return nil
}

// reader reads a payload from left to right. The first fault sets err, and all that follows reads as zero.
type reader struct {
	rest   []byte
	budget Budget
	err    error
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrFormat, why)
		r.rest = nil
	}
}

// check fails with a reason unless something holds.
func (r *reader) check(ok bool, why string) {
	if !ok {
		r.fail(why)
	}
}

// take is the next n bytes, or nil.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) || r.err != nil {
		r.fail("it ends too early")
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// len is a length.
func (r *reader) len() uint64 {
	n, form := r.lenOrForm()
	r.check(form < 0, "a length is none")
	return n
}

// lenOrForm is a length, or the number of another form of string, which is otherwise -1.
func (r *reader) lenOrForm() (n uint64, form int) {
	head := r.byte()
	switch {
	case head >= formBits:
		return 0, int(head &^ formBits)
	case head == len64Bits:
		if b := r.take(8); b != nil {
			n = binary.BigEndian.Uint64(b)
		}
	case head == len32Bits:
		if b := r.take(4); b != nil {
			n = uint64(binary.BigEndian.Uint32(b))
		}
	case head > len32Bits:
		r.fail("a length is none")
	case head >= len14Bits:
		n = uint64(head&^len14Bits)<<8 | uint64(r.byte())
	default:
		n = uint64(head)
	}
	return n, -1
}

// str is a string in any form.
func (r *reader) str() []byte {
	n, form := r.lenOrForm()
	switch form {
	case -1:
		return r.take(n)
	case formInt8, formInt16, formInt32:
		if b := r.take(1 << form); b != nil {
			return strconv.AppendInt(nil, littleEndian(b), 10)
		}
	case formLZF:
		return r.compressed()
	default:
		r.fail("a string has an unknown form")
	}
	return nil
}

// compressed is a string behind the head of an LZF form.
func (r *reader) compressed() []byte {
	packed, whole := r.len(), r.len()
	in := r.take(packed)
	if r.err != nil {
		return nil
	}
	if whole > packed*lzfMaxRatio {
		r.fail("a string is too short for what it was compressed from")
		return nil
	}
	if r.spend(int(min(whole, MaxSize+1))); r.err != nil {
		return nil
	}
	out, ok := lzfDecompress(in, int(whole))
	r.check(ok, "a compressed string is damaged")
	return out
}

// spend takes from the budget.
func (r *reader) spend(n int) {
	if r.err == nil {
		r.err = r.budget.spend(n)
	}
}

// add adds an element to the value.
func (r *reader) add(v *Value, item []byte) error {
	if r.spend(len(item) + elementCost); r.err == nil {
		v.Items = append(v.Items, item)
	}
	return r.err
}

// value is the whole value, its type first.
func (r *reader) value() (v Value) {
	switch kind := r.byte(); kind {
	case typeString:
		v.Kind, v.Str = String, r.str()
	case typeList, typeSet, typeHash, typeListQuicklist, typeListQuicklist2:
		r.sequence(&v, kind)
	case typeZSet, typeZSetText:
		r.sortedSet(&v, kind == typeZSetText)
	case typeHashZipmap, typeListZiplist, typeHashZiplist, typeZSetZiplist, typeSetIntset,
		typeHashListpack, typeZSetListpack, typeSetListpack:
		r.compact(&v, kind)
	case typeStream1, typeStream2, typeStream3:
		v.Kind, v.Stream = StreamKind, r.stream(kind)
	case typeModule, typeModuleOld:
		r.fail("its type belongs to a module")
	default:
		r.fail("its type is unknown")
	}
	return v
}

// sequence is a value with a count in front.
func (r *reader) sequence(v *Value, kind byte) {
	n := r.len()
	v.Kind = List
	switch kind {
	case typeSet:
		v.Kind = Set
	case typeHash:
		v.Kind = Hash
		if n > math.MaxUint64/2 {
			r.fail("a length is too great")
		}
		n *= 2
	}
	for range n {
		switch kind {
		case typeListQuicklist:
			r.compactItems(v, ziplist)
		case typeListQuicklist2:
			r.quicklistNode(v)
		default:
			if item := r.str(); r.err == nil {
				_ = r.add(v, item) // r.err has it
			}
		}
		if r.err != nil {
			return
		}
	}
}

// quicklistNode is one node of a list: a single element or a listpack.
func (r *reader) quicklistNode(v *Value) {
	switch r.len() {
	case quicklistPlain:
		if item := r.str(); r.err == nil {
			_ = r.add(v, item) // r.err has it
		}
	case quicklistListpack:
		r.compactItems(v, listpackItems)
	default:
		r.fail("a list's node has an unknown form")
	}
}

// sortedSet is a sorted set whose scores stand beside the members.
func (r *reader) sortedSet(v *Value, text bool) {
	v.Kind = ZSet
	for range r.len() {
		member := r.str()
		score := 0.0
		if text {
			score = r.textScore()
		} else {
			score = math.Float64frombits(r.uint64())
		}
		if r.err != nil || r.add(v, member) != nil {
			return
		}
		v.Scores = append(v.Scores, score)
	}
}

// textScore is a score in the form of old versions: a length u8 that may stand for a special value, and text.
func (r *reader) textScore() float64 {
	switch n := r.byte(); n {
	case scoreNaN:
		return math.NaN()
	case scoreInfinity:
		return math.Inf(1)
	case scoreMinusInfinity:
		return math.Inf(-1)
	default:
		return r.parseScore(r.take(uint64(n)))
	}
}

func (r *reader) parseScore(text []byte) float64 {
	score, err := strconv.ParseFloat(string(text), 64)
	r.check(err == nil, "a score is no number")
	return score
}

// walk calls fn for all items of a compact form; not ok if the bytes are none.
type walk func(b []byte, fn func(item []byte) error) (ok bool, err error)

// listpackItems is the walk over a listpack.
func listpackItems(b []byte, fn func(item []byte) error) (ok bool, err error) {
	l := newListpack(b)
	for l.more() {
		item := l.item()
		if l.bad {
			break
		}
		if err := fn(item); err != nil {
			return true, err
		}
	}
	return !l.bad, nil
}

// compact is a value that is one string in a compact form.
func (r *reader) compact(v *Value, kind byte) {
	items := walk(listpackItems)
	switch kind {
	case typeHashZipmap:
		v.Kind, items = Hash, zipmap
	case typeHashZiplist:
		v.Kind, items = Hash, ziplist
	case typeListZiplist:
		v.Kind, items = List, ziplist
	case typeZSetZiplist:
		v.Kind, items = ZSet, ziplist
	case typeSetIntset:
		v.Kind, items = Set, intset
	case typeHashListpack:
		v.Kind = Hash
	case typeZSetListpack:
		v.Kind = ZSet
	case typeSetListpack:
		v.Kind = Set
	}
	r.compactItems(v, items)
	if v.Kind == ZSet {
		r.splitScores(v)
	}
}

// compactItems adds the items of a compact form.
func (r *reader) compactItems(v *Value, items walk) {
	b := r.str()
	if r.err != nil {
		return
	}
	ok, err := items(b, func(item []byte) error { return r.add(v, item) })
	if err == nil {
		r.check(ok, "a compact form is damaged")
	}
}

// splitScores takes the scores, which stand behind their members, out of the items.
func (r *reader) splitScores(v *Value) {
	r.check(len(v.Items)%2 == 0, "a member has no score")
	if r.err != nil {
		return
	}
	members := v.Items[:0]
	for i := 0; i < len(v.Items); i += 2 {
		v.Scores = append(v.Scores, r.parseScore(v.Items[i+1]))
		members = append(members, v.Items[i])
	}
	v.Items = members
}
