package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// seal makes a payload of a type and a body.
func seal(kind byte, body []byte) []byte {
	b := append([]byte{kind}, body...)
	b = binary.LittleEndian.AppendUint16(b, payloadVersion)
	return binary.LittleEndian.AppendUint64(b, crc64(b))
}

// body collects what write writes.
func body(write func(w *writer)) []byte {
	w := new(writer)
	write(w)
	return w.b
}

func oneString(b []byte) []byte { return body(func(w *writer) { w.str(b) }) }

// ziplistOf builds a ziplist.
func ziplistOf(items [][]byte) []byte {
	b := make([]byte, zlHeader)
	last, tail := 0, zlHeader
	for _, item := range items {
		tail = len(b)
		if last < zlBigPrev {
			b = append(b, byte(last))
		} else {
			b = binary.LittleEndian.AppendUint32(append(b, zlBigPrev), uint32(last))
		}
		b = appendZiplistItem(b, item)
		last = len(b) - tail
	}
	b = append(b, zlEnd)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], uint32(tail))
	binary.LittleEndian.PutUint16(b[8:], uint16(len(items)))
	return b
}

func appendZiplistItem(b, item []byte) []byte {
	n, ok := parseInteger(item)
	switch size := len(item); {
	case ok && n >= 0 && n <= 12:
		return append(b, byte(0xf1+n))
	case ok && fits(n, 8):
		return append(b, zlInt8, byte(n))
	case ok && fits(n, 16):
		return appendLittleEndian(append(b, zlInt16), n, 2)
	case ok && fits(n, 24):
		return appendLittleEndian(append(b, zlInt24), n, 3)
	case ok && fits(n, 32):
		return appendLittleEndian(append(b, zlInt32), n, 4)
	case ok:
		return appendLittleEndian(append(b, zlInt64), n, 8)
	case size < 1<<6:
		b = append(b, byte(size))
	case size < 1<<14:
		b = append(b, 0x40|byte(size>>8), byte(size))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0x80), uint32(size))
	}
	return append(b, item...)
}

// zipmapOf builds a zipmap, with some unused bytes behind every value.
func zipmapOf(pairs [][]byte) []byte {
	const unused = 3
	b := []byte{byte(min(len(pairs)/2, 254))}
	for i, item := range pairs {
		if len(item) < zmBigLen {
			b = append(b, byte(len(item)))
		} else {
			b = binary.LittleEndian.AppendUint32(append(b, zmBigLen), uint32(len(item)))
		}
		if i%2 == 0 {
			b = append(b, item...)
			continue
		}
		b = append(append(b, unused), item...)
		b = append(b, make([]byte, unused)...)
	}
	return append(b, zmEnd)
}

// distinct draws different items.
func distinct(rng *rand.Rand, n int) (items [][]byte) {
	for len(items) < n {
		if items = append(items, []byte(item(rng))); hasRepeats(items, 1) {
			items = items[:len(items)-1]
		}
	}
	return items
}

func scoreItem(score float64) []byte { return strconv.AppendFloat(nil, score, 'g', 17, 64) }

// oldForm writes a value in a form that Encode does not choose.
type oldForm struct {
	name string
	kind Kind
	seal func(v *Value) []byte
}

func oldForms() []oldForm {
	return []oldForm{
		{"list", List, func(v *Value) []byte {
			return seal(typeList, body(func(w *writer) { w.strings(v.Items, len(v.Items)) }))
		}},
		{"list as ziplist", List, func(v *Value) []byte { return seal(typeListZiplist, oneString(ziplistOf(v.Items))) }},
		{"quicklist of ziplists", List, func(v *Value) []byte {
			half := len(v.Items) / 2
			return seal(typeListQuicklist, body(func(w *writer) {
				w.strings([][]byte{ziplistOf(v.Items[:half]), ziplistOf(nil), ziplistOf(v.Items[half:])}, 3)
			}))
		}},
		{"quicklist with plain nodes", List, func(v *Value) []byte {
			return seal(typeListQuicklist2, body(func(w *writer) {
				w.len(uint64(len(v.Items)))
				for i, item := range v.Items {
					if i%2 == 0 && len(item) > 0 { // no plain node is empty
						w.len(quicklistPlain)
						w.str(item)
						continue
					}
					w.len(quicklistListpack)
					w.str(packed([][]byte{item}))
				}
			}))
		}},
		{"hash as zipmap", Hash, func(v *Value) []byte { return seal(typeHashZipmap, oneString(zipmapOf(v.Items))) }},
		{"hash as ziplist", Hash, func(v *Value) []byte { return seal(typeHashZiplist, oneString(ziplistOf(v.Items))) }},
		{"set as listpack", Set, func(v *Value) []byte { return seal(typeSetListpack, oneString(packed(v.Items))) }},
		{"sorted set as ziplist", ZSet, func(v *Value) []byte {
			var items [][]byte
			for i, member := range v.Items {
				items = append(items, member, scoreItem(v.Scores[i]))
			}
			return seal(typeZSetZiplist, oneString(ziplistOf(items)))
		}},
		{"sorted set with text", ZSet, func(v *Value) []byte {
			return seal(typeZSetText, body(func(w *writer) {
				w.len(uint64(len(v.Items)))
				for i, member := range v.Items {
					w.str(member)
					switch score := v.Scores[i]; {
					case math.IsInf(score, 1):
						w.byte(scoreInfinity)
					case math.IsInf(score, -1):
						w.byte(scoreMinusInfinity)
					default:
						text := scoreItem(score)
						w.byte(byte(len(text)))
						w.b = append(w.b, text...)
					}
				}
			}))
		}},
	}
}

// TestOldForms reads the forms of older and newer versions. redis-server restores the same, but for the newer one.
func TestOldForms(t *testing.T) {
	r := newReference(t)
	rng := rand.New(rand.NewPCG(2, 2))
	for _, form := range oldForms() {
		t.Run(form.name, func(t *testing.T) {
			for range 30 {
				items := distinct(rng, 2*(1+rng.IntN(60)))
				want := &Value{Kind: form.kind, Items: items}
				if form.kind == ZSet {
					for i := range items {
						want.Scores = append(want.Scores, []float64{float64(i), -1.5, math.Inf(1), math.Inf(-1), 1e300}[rng.IntN(5)])
					}
					sortByScore(want)
				}
				payload := form.seal(want)
				got, err := Decode(payload)
				if err != nil {
					t.Fatalf("%q: %v", payload, err)
				}
				if !same(&got, want) {
					t.Fatalf("%q:\n%s, want\n%s", payload, describe(&got), describe(want))
				}
				if form.kind == Set {
					continue
				}
				r.do("RESTORE", "k", "0", string(payload), "REPLACE")
				if restored := r.value("k"); !same(&got, restored) {
					t.Fatalf("%q:\n%s, redis has\n%s", payload, describe(&got), describe(restored))
				}
			}
		})
	}
}

// sortByScore brings a sorted set into its order.
func sortByScore(v *Value) {
	after := func(i, j int) bool {
		if v.Scores[i] != v.Scores[j] {
			return v.Scores[i] > v.Scores[j]
		}
		return bytes.Compare(v.Items[i], v.Items[j]) > 0
	}
	for i := range v.Items {
		for j := i; j > 0 && after(j-1, j); j-- {
			v.Items[j], v.Items[j-1] = v.Items[j-1], v.Items[j]
			v.Scores[j], v.Scores[j-1] = v.Scores[j-1], v.Scores[j]
		}
	}
}

// TestListpackSizes meets the lengths at which a length of an element grows by a byte, as redis-server writes and reads it.
func TestListpackSizes(t *testing.T) {
	r := newReference(t)
	for _, size := range []int{63, 64, 125, 126, 4095, 4096, 16377, 16378, 16379, 1<<21 - 7, 1<<21 - 6, 1<<21 - 5} {
		r.do("DEL", "k")
		r.do("RPUSH", "k", string(bytes.Repeat([]byte{'x'}, size)), "y", "1")
		dump := []byte(r.do("DUMP", "k").Str)
		v, err := Decode(dump)
		if err != nil || len(v.Items) != 3 || len(v.Items[0]) != size {
			t.Errorf("%d bytes: %d items, %v", size, len(v.Items), err)
			continue
		}
		if !bytes.Equal(Encode(&v), dump) {
			t.Errorf("%d bytes: encoded in another way", size)
		}
	}
}

// TestHostile wants an error for each payload that is whole and means nothing.
func TestHostile(t *testing.T) {
	listpackOf := func(b ...byte) []byte {
		lp := append(make([]byte, lpHeader), b...)
		lp = append(lp, lpEnd)
		binary.LittleEndian.PutUint32(lp, uint32(len(lp)))
		binary.LittleEndian.PutUint16(lp[4:], lpUnknown)
		return oneString(lp)
	}
	for _, c := range []struct {
		name string
		kind byte
		body []byte
		want error
	}{
		{"no value", typeString, nil, ErrFormat},
		{"string cut", typeString, []byte{5, 'a'}, ErrFormat},
		{"string of 2^63 bytes", typeString, []byte{len64Bits, 0x80, 0, 0, 0, 0, 0, 0, 0}, ErrFormat},
		{"unknown length", typeString, []byte{0x82}, ErrFormat},
		{"unknown form", typeString, []byte{0xc4}, ErrFormat},
		{"form as a length", typeSet, []byte{0xc0, 1}, ErrFormat},
		{"empty list", typeList, []byte{0}, ErrFormat},
		{"empty quicklist", typeListQuicklist2, append([]byte{1, quicklistListpack}, oneString(packed(nil))...), ErrFormat},
		{"node of another form", typeListQuicklist2, []byte{1, 3, 0}, ErrFormat},
		{"2^64 elements", typeList, []byte{len64Bits, 255, 255, 255, 255, 255, 255, 255, 255, 1, 'a'}, ErrFormat},
		{"2^63 fields", typeHash, []byte{len64Bits, 128, 0, 0, 0, 0, 0, 0, 0, 1, 'a'}, ErrFormat},
		{"member twice", typeSet, []byte{2, 1, 'a', 1, 'a'}, ErrFormat},
		{"field twice", typeHash, []byte{2, 1, 'a', 1, 'b', 1, 'a', 1, 'c'}, ErrFormat},
		{"field without value", typeHashListpack, oneString(packed([][]byte{{'a'}})), ErrFormat},
		{"member without score", typeZSetListpack, oneString(packed([][]byte{{'a'}})), ErrFormat},
		{"score is text", typeZSetListpack, oneString(packed([][]byte{{'a'}, {'b'}})), ErrFormat},
		{"score is not a number", typeZSet, []byte{1, 1, 'a', 0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, ErrFormat},
		{"old score is not a number", typeZSetText, []byte{1, 1, 'a', scoreNaN}, ErrFormat},
		{"module", typeModule, []byte{1, 2, 3}, ErrFormat},
		{"unknown type", 99, []byte{1, 2, 3}, ErrFormat},
		{"listpack without end", typeHashListpack, oneString([]byte{7, 0, 0, 0, 0, 0, 1}), ErrFormat},
		{"listpack of another length", typeHashListpack, oneString([]byte{9, 0, 0, 0, 0, 0, lpEnd}), ErrFormat},
		{"listpack counts wrong", typeSetListpack, oneString([]byte{9, 0, 0, 0, 2, 0, 1, 1, lpEnd}), ErrFormat},
		{"element leaves its listpack", typeSetListpack, listpackOf(0x85, 'a', 2), ErrFormat},
		{"element's length at its end is wrong", typeSetListpack, listpackOf(0x81, 'a', 3), ErrFormat},
		{"element of an unknown kind", typeSetListpack, listpackOf(0xf5, 1), ErrFormat},
		{"element of 4 GiB", typeSetListpack, listpackOf(0xf0, 255, 255, 255, 255, 5), ErrFormat},
		{"ziplist entry leaves it", typeHashZiplist, oneString([]byte{13, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 5, zlEnd}), ErrFormat},
		{"zipmap value leaves it", typeHashZipmap, oneString([]byte{1, 1, 'a', 200, 0, 'b', zmEnd}), ErrFormat},
		{"intset of another length", typeSetIntset, oneString([]byte{2, 0, 0, 0, 2, 0, 0, 0, 1, 0}), ErrFormat},
		{"intset of odd integers", typeSetIntset, oneString([]byte{3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}), ErrFormat},
		{"growth that LZF can't have", typeString, []byte{0xc3, 3, len32Bits, 0x10, 0, 0, 0, 0xe0, 0, 0}, ErrFormat},
		{"copy from before the beginning", typeString, []byte{0xc3, 4, 4, 0, 'a', 0x20, 5}, ErrFormat},
	} {
		if v, err := Decode(seal(c.kind, c.body)); !errors.Is(err, c.want) {
			t.Errorf("%s: %s, %v", c.name, describe(&v), err)
		}
	}
}

// TestBudget refuses payloads that take more memory than they may, however short they are.
func TestBudget(t *testing.T) {
	w := new(writer)
	w.compressed(make([]byte, 1<<10)) // some thirty bytes
	many := append(body(func(w *writer) { w.len(200) }), bytes.Repeat(w.b, 200)...)
	for name, c := range map[string]struct {
		payload []byte
		fits    Budget
	}{
		"compressed strings": {seal(typeList, many), 200 * (2<<10 + elementCost)},
		"short elements":     {seal(typeSetListpack, oneString(packed([][]byte{{'1'}, {'2'}, {'3'}}))), 3 * (1 + elementCost)},
		"a stream":           {Encode(&Value{Kind: StreamKind, Stream: sampleStream()}), 1 << 12},
	} {
		if _, err := decode(c.payload, c.fits); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, less := range []Budget{0, c.fits / 16} {
			if _, err := decode(c.payload, less); !errors.Is(err, ErrTooBig) {
				t.Errorf("%s within %d: %v", name, less, err)
			}
		}
	}
}

func TestFooter(t *testing.T) {
	good := Encode(&Value{Kind: String, Str: []byte("abc")})
	if string(good) != "\x00\x03abc\n\x00\xd9\xac0=Ar\xa2\xe2" { // as redis-server dumps it
		t.Errorf("%q", good)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := Decode(bad); !errors.Is(err, ErrPayload) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := Decode(good[:i]); !errors.Is(err, ErrPayload) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	newer := append(bytes.Clone(good[:5]), newestPayloadVersion+1, 0)
	newer = binary.LittleEndian.AppendUint64(newer, crc64(newer))
	if _, err := Decode(newer); !errors.Is(err, ErrPayload) {
		t.Errorf("a newer version: %v", err)
	}
}

// FuzzDecode reads anything, and what it can read it can write and read again.
func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, form := range oldForms() {
		v := &Value{Kind: form.kind, Items: distinct(rng, 6), Scores: []float64{1, 2, 3, 4, 5, 6}}
		sealed := form.seal(v)
		f.Add(sealed[:len(sealed)-footerLen])
	}
	for _, v := range []*Value{
		{Kind: String, Str: []byte("123")}, {Kind: String, Str: bytes.Repeat([]byte("abc"), 30)},
		{Kind: Set, Items: [][]byte{{'1'}, []byte("-70000")}}, {Kind: Hash, Items: [][]byte{{'1'}, {'b'}}},
		{Kind: ZSet, Items: [][]byte{{'1'}, {'b'}}, Scores: []float64{1, 1.5}}, {Kind: StreamKind, Stream: sampleStream()},
	} {
		encoded := Encode(v)
		f.Add(encoded[:len(encoded)-footerLen])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		v, err := Decode(seal(b[0], b[1:]))
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooBig) {
				t.Fatal(err)
			}
			return
		}
		encoded := Encode(&v)
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("%q is encoded as %q, which can't be read: %v", b, encoded, err)
		}
		if second := Encode(&again); v.Kind != ZSet && !bytes.Equal(encoded, second) {
			t.Fatalf("%q is encoded as %q and then as %q", b, encoded, second)
		}
	})
}
