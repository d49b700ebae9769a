package scripting

import (
	"encoding/binary"
	"math"
	"math/bits"

	"codeq/scripting/lua"
)

// msgpackLibrary encodes values as MessagePack, always in the shortest form, and decodes them. Binary and extension types are not
// known. A table whose keys are 1 to n is an array, the empty one too, and any other a map. What MessagePack has no
// word for is nil, and so is a table nested deeper than msgpackMaxDepth.
func (st *state) msgpackLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{
		"pack":         st.msgpackPack,
		"unpack":       func(L *lua.Thread) int { return st.msgpackUnpack(L, 0, 0) },
		"unpack_one":   func(L *lua.Thread) int { return st.msgpackUnpack(L, 1, optLong(L, 2, 0)) },
		"unpack_limit": func(L *lua.Thread) int { return st.msgpackUnpack(L, checkLong(L, 2), optLong(L, 3, 0)) },
	}
}

const (
	msgpackMaxDepth = 16
	// sizeHint bounds what is set aside for the elements that a few hostile bytes announce.
	sizeHint = 32
	// msgpackMaxArgs is how many arguments leave room on the reference implementation's stack for as many results.
	msgpackMaxArgs = maxSlots / 2
)

func (st *state) msgpackPack(L *lua.Thread) int {
	n := L.Top()
	if n == 0 {
		argError(L, 0, "MessagePack pack needs input.")
	}
	if n > msgpackMaxArgs {
		argError(L, 0, "Too many arguments for MessagePack pack.")
	}
	e := msgpackEncoder{st.newOutput(L)}
	for i := 1; i <= n; i++ {
		e.value(L.Arg(i), 0)
	}
	return e.push()
}

type msgpackEncoder struct{ output }

func (e *msgpackEncoder) value(v lua.Value, depth int) {
	e.st.work(e.L, 1)
	switch v.Kind() {
	case lua.KindString:
		s, _ := v.Text()
		e.text(s)
	case lua.KindNumber:
		f, _ := v.Float()
		e.number(f)
	case lua.KindBool:
		if v.Truth() {
			e.buf = append(e.buf, 0xc3)
		} else {
			e.buf = append(e.buf, 0xc2)
		}
	case lua.KindTable:
		if depth < msgpackMaxDepth {
			e.table(v.Table(), depth)
			return
		}
		e.buf = append(e.buf, 0xc0)
	default:
		e.buf = append(e.buf, 0xc0)
	}
	e.check()
}

func (e *msgpackEncoder) text(s string) {
	switch n := len(s); {
	case n < 32:
		e.buf = append(e.buf, 0xa0|byte(n))
	case n <= math.MaxUint8:
		e.buf = append(e.buf, 0xd9, byte(n))
	default:
		e.length(n, 0xda)
	}
	e.room(len(s))
	e.buf = append(e.buf, s...)
}

// length writes a length of 16 bits after a code, or one of 32 bits after the next code.
func (e *msgpackEncoder) length(n int, code byte) {
	if n <= math.MaxUint16 {
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, code), uint16(n))
	} else {
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, code+1), uint32(n))
	}
}

// number encodes as an integer what is one, in range, and anything else as a float if that loses nothing.
func (e *msgpackEncoder) number(v float64) {
	if n := lua.ToInt(v); float64(n) == v {
		e.integer(int64(n))
		return
	}
	if single := float32(v); float64(single) == v {
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, 0xca), math.Float32bits(single))
		return
	}
	e.buf = binary.BigEndian.AppendUint64(append(e.buf, 0xcb), math.Float64bits(v))
}

func (e *msgpackEncoder) integer(n int64) {
	big := binary.BigEndian
	switch {
	case n >= -32 && n <= math.MaxInt8:
		e.buf = append(e.buf, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		e.buf = append(e.buf, 0xcc, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		e.buf = big.AppendUint16(append(e.buf, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		e.buf = big.AppendUint32(append(e.buf, 0xce), uint32(n))
	case n >= 0:
		e.buf = big.AppendUint64(append(e.buf, 0xcf), uint64(n))
	case n >= math.MinInt8:
		e.buf = append(e.buf, 0xd0, byte(n))
	case n >= math.MinInt16:
		e.buf = big.AppendUint16(append(e.buf, 0xd1), uint16(n))
	case n >= math.MinInt32:
		e.buf = big.AppendUint32(append(e.buf, 0xd2), uint32(n))
	default:
		e.buf = big.AppendUint64(append(e.buf, 0xd3), uint64(n))
	}
}

func (e *msgpackEncoder) table(t *lua.Table, depth int) {
	n, array := e.shape(t)
	if array {
		if n <= 15 {
			e.buf = append(e.buf, 0x90|byte(n))
		} else {
			e.length(n, 0xdc)
		}
		for i := 1; i <= n; i++ {
			e.value(t.GetInt(i), depth+1)
		}
		return
	}
	if n <= 15 {
		e.buf = append(e.buf, 0x80|byte(n))
	} else {
		e.length(n, 0xde)
	}
	for k, v, _ := t.Next(lua.Nil); !k.IsNil(); k, v, _ = t.Next(k) {
		e.value(k, depth+1)
		e.value(v, depth+1)
	}
}

// shape counts a table's entries and says whether their keys are the integers from 1 to their count.
func (e *msgpackEncoder) shape(t *lua.Table) (n int, array bool) {
	array, most := true, 0
	for k, _, _ := t.Next(lua.Nil); !k.IsNil(); k, _, _ = t.Next(k) {
		e.st.work(e.L, 1)
		n++
		v, ok := k.Float()
		i := lua.ToInt(v)
		if !ok || i <= 0 || i > math.MaxInt32 || float64(i) != v {
			array = false
		}
		most = max(most, i)
	}
	return n, array && most == n
}

// msgpackUnpack decodes at most limit values from an offset on and leaves them on the stack, below the offset of what follows, or
// -1 at the end. Without limit and offset it decodes everything and leaves no offset.
func (st *state) msgpackUnpack(L *lua.Thread, limit, offset int) int {
	data := checkString(L, 1)
	switch {
	case offset < 0 || limit < 0:
		// The length stands for the limit, as in Redis.
		L.Raise("Invalid request to unpack with offset of %d and limit of %d.", int32(offset), int32(len(data)))
	case offset > len(data):
		L.Raise("Start offset %d greater than input length %d.", int32(offset), int32(len(data)))
	}
	all := limit == 0 && offset == 0
	d := msgpackDecoder{st: st, L: L, data: data[offset:], size: len(data)}
	args, results := L.Top(), 0
	st.release(0)
	for d.data != "" && (all || results < limit) {
		L.Push(d.value(1 + results))
		results++
	}
	if !all {
		checkSlots(L, 1+results, 1, "in function mp_unpack_full")
		results++
		next := len(data) - len(d.data)
		if d.data == "" {
			next = -1
		}
		L.Insert(args+1, lua.Number(float64(next)))
	}
	return results
}

type msgpackDecoder struct {
	st   *state
	L    *lua.Thread
	data string // what is left
	size int    // of the whole
}

// need ends the script unless so many bytes are left.
func (d *msgpackDecoder) need(n int) {
	if len(d.data) < n {
		d.L.Raise("Missing bytes in input.")
	}
}

func (d *msgpackDecoder) take(n int) string {
	d.need(n)
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken
}

// unsigned takes a code's operand of size bytes, most significant first; the code is taken along.
func (d *msgpackDecoder) unsigned(size int) uint64 {
	v := uint64(0)
	for _, c := range []byte(d.take(1 + size)[1:]) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (d *msgpackDecoder) signed(size int) lua.Value {
	return lua.Number(integerValue(d.unsigned(size), uint64(size), true))
}

func (d *msgpackDecoder) text(n int) lua.Value { return d.st.substring(d.L, d.take(n), d.size) }

// value decodes a value. slots is what the reference implementation's stack holds at this point.
func (d *msgpackDecoder) value(slots int) lua.Value {
	d.need(1)
	d.st.work(d.L, 1)
	checkSlots(d.L, slots, 1, "too many return values at once; use unpack_one or unpack_limit instead.")
	switch code := d.data[0]; {
	case code < 0x80, code >= 0xe0:
		return lua.Number(float64(int8(d.take(1)[0])))
	case code < 0x90:
		return d.pairs(int(d.take(1)[0]&0xf), slots)
	case code < 0xa0:
		return d.array(int(d.take(1)[0]&0xf), slots)
	case code < 0xc0:
		d.take(1)
		return d.text(int(code & 0x1f))
	default:
		return d.coded(code, slots)
	}
}

// coded decodes a value whose type takes the whole first byte.
func (d *msgpackDecoder) coded(code byte, slots int) lua.Value {
	switch code {
	case 0xc0:
		d.take(1)
		return lua.Nil
	case 0xc2, 0xc3:
		return lua.Bool(d.take(1)[0] == 0xc3)
	case 0xca:
		return lua.Number(float64(math.Float32frombits(uint32(d.unsigned(4)))))
	case 0xcb:
		return lua.Number(math.Float64frombits(d.unsigned(8)))
	case 0xcc, 0xcd, 0xce:
		return lua.Number(float64(d.unsigned(1 << (code - 0xcc))))
	case 0xcf, 0xd3: // from 2^63 on an unsigned one turns negative, as in Redis
		return d.signed(8)
	case 0xd0, 0xd1, 0xd2:
		return d.signed(1 << (code - 0xd0))
	case 0xd9, 0xda, 0xdb:
		return d.text(int(d.unsigned(1 << (code - 0xd9))))
	case 0xdc, 0xdd:
		return d.array(int(d.unsigned(2<<(code-0xdc))), slots)
	case 0xde, 0xdf:
		return d.pairs(int(d.unsigned(2<<(code-0xde))), slots)
	}
	d.L.Raise("Bad data format in input.")
	return lua.Nil
}

// array decodes n elements. The table is laid out as if they had been set one after the other, nils included, as Redis does it.
func (d *msgpackDecoder) array(n, slots int) lua.Value {
	t := lua.NewTable(arrayRoom(n), 0)
	checkSlots(d.L, slots+1, 1, "in function mp_decode_to_lua_array")
	mark := d.st.hold(t.Value())
	full := true // up to here
	for i := 1; i <= n; i++ {
		v := d.value(slots + 2)
		if v.IsNil() && full {
			// The room may be too much for a table with holes.
			t, full = oneByOne(t, i-1), false
			d.st.release(mark)
			d.st.hold(t.Value())
		}
		t.SetInt(i, v)
	}
	d.st.release(mark)
	return t.Value()
}

// arrayRoom is the size of an array that has grown to n elements, up to a limit.
func arrayRoom(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(min(n, sizeHint)-1))
}

// oneByOne is a table that has grown to the first n elements of another one.
func oneByOne(t *lua.Table, n int) *lua.Table {
	grown := lua.NewTable(0, 0)
	for i := 1; i <= n; i++ {
		grown.SetInt(i, t.GetInt(i))
	}
	return grown
}

// pairs decodes n pairs. The table grows with them, for its order depends on that.
func (d *msgpackDecoder) pairs(n, slots int) lua.Value {
	t := lua.NewTable(0, 0)
	mark := d.st.hold(t.Value())
	for range n {
		k := d.value(slots + 1)
		d.st.hold(k)
		v := d.value(slots + 2)
		d.st.release(mark + 1)
		checkKey(d.L, k)
		t.Set(k, v)
	}
	d.st.release(mark)
	return t.Value()
}
