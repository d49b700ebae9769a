package scripting

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// msgpackLibrary encodes values as MessagePack, always in the shortest form, and decodes them. Binary and extension types are not
// known. A table whose keys are 1 to n is an array, the empty one too, and any other a map. What MessagePack has no
// word for is nil, and so is a table nested deeper than msgpackMaxDepth.
func (st *state) msgpackLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"pack":         st.msgpackPack,
		"unpack":       func(L *lua.LState) int { return st.msgpackUnpack(L, 0, 0) },
		"unpack_one":   func(L *lua.LState) int { return st.msgpackUnpack(L, 1, optInt(L, 2, 0)) },
		"unpack_limit": func(L *lua.LState) int { return st.msgpackUnpack(L, checkInt(L, 2), optInt(L, 3, 0)) },
	}
}

const (
	msgpackMaxDepth = 16
	// sizeHint bounds what is set aside for the elements that a few hostile bytes announce.
	sizeHint = 8
	// msgpackMaxArgs is how many arguments leave room on the reference implementation's stack for as many results.
	msgpackMaxArgs = maxSlots / 2
)

func (st *state) msgpackPack(L *lua.LState) int {
	n := L.GetTop()
	if n == 0 {
		argError(L, 0, "MessagePack pack needs input.")
	}
	if n > msgpackMaxArgs {
		argError(L, 0, "Too many arguments for MessagePack pack.")
	}
	e := msgpackEncoder{st.newOutput(L)}
	for i := 1; i <= n; i++ {
		e.value(L.Get(i), 0)
	}
	return e.push()
}

type msgpackEncoder struct{ output }

func (e *msgpackEncoder) value(v lua.LValue, depth int) {
	e.st.work(e.L, 1)
	switch x := v.(type) {
	case lua.LString:
		e.text(string(x))
	case lua.LNumber:
		e.number(float64(x))
	case lua.LBool:
		if x {
			e.buf = append(e.buf, 0xc3)
		} else {
			e.buf = append(e.buf, 0xc2)
		}
	case *lua.LTable:
		if depth < msgpackMaxDepth {
			e.table(e.st.view(x), depth)
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
	if n := toInt(v); float64(n) == v {
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

func (e *msgpackEncoder) table(t *lua.LTable, depth int) {
	n, array := e.shape(t)
	if array {
		if n <= 15 {
			e.buf = append(e.buf, 0x90|byte(n))
		} else {
			e.length(n, 0xdc)
		}
		for i := 1; i <= n; i++ {
			e.value(t.RawGet(lua.LNumber(i)), depth+1)
		}
		return
	}
	if n <= 15 {
		e.buf = append(e.buf, 0x80|byte(n))
	} else {
		e.length(n, 0xde)
	}
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		e.value(k, depth+1)
		e.value(v, depth+1)
	}
}

// shape counts a table's entries and says whether their keys are the integers from 1 to their count.
func (e *msgpackEncoder) shape(t *lua.LTable) (n int, array bool) {
	array, most := true, 0
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		e.st.work(e.L, 1)
		n++
		v, ok := k.(lua.LNumber)
		i := toInt(float64(v))
		if !ok || i <= 0 || i > math.MaxInt32 || lua.LNumber(i) != v {
			array = false
		}
		most = max(most, i)
	}
	return n, array && most == n
}

// msgpackUnpack decodes at most limit values from an offset on and leaves them on the stack, below the offset of what follows, or
// -1 at the end. Without limit and offset it decodes everything and leaves no offset.
func (st *state) msgpackUnpack(L *lua.LState, limit, offset int) int {
	data := checkString(L, 1)
	switch {
	case offset < 0 || limit < 0:
		// The length stands for the limit, as in Redis.
		raise(L, "Invalid request to unpack with offset of %d and limit of %d.", int32(offset), int32(len(data)))
	case offset > len(data):
		raise(L, "Start offset %d greater than input length %d.", int32(offset), int32(len(data)))
	}
	all := limit == 0 && offset == 0
	d := msgpackDecoder{st: st, L: L, data: data[offset:]}
	var values []lua.LValue
	st.release(0)
	for d.data != "" && (all || len(values) < limit) {
		values = append(values, d.value(1+len(values)))
		st.hold(values[len(values)-1])
	}
	st.release(0)
	L.SetTop(0)
	results := len(values)
	if !all {
		checkSlots(L, 1+len(values), 1, "in function mp_unpack_full")
		results++
		next := len(data) - len(d.data)
		if d.data == "" {
			next = -1
		}
		L.Push(lua.LNumber(next))
	}
	for _, v := range values {
		L.Push(v)
	}
	return results
}

type msgpackDecoder struct {
	st   *state
	L    *lua.LState
	data string // what is left
}

// need ends the script unless so many bytes are left.
func (d *msgpackDecoder) need(n int) {
	if len(d.data) < n {
		raise(d.L, "Missing bytes in input.")
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

func (d *msgpackDecoder) signed(size int) lua.LNumber {
	return integerValue(d.unsigned(size), uint64(size), true)
}

// value decodes a value. slots is what the reference implementation's stack holds at this point.
func (d *msgpackDecoder) value(slots int) lua.LValue {
	d.need(1)
	d.st.work(d.L, 1)
	checkSlots(d.L, slots, 1, "too many return values at once; use unpack_one or unpack_limit instead.")
	switch code := d.data[0]; {
	case code < 0x80, code >= 0xe0:
		return lua.LNumber(int8(d.take(1)[0]))
	case code < 0x90:
		return d.pairs(int(d.take(1)[0]&0xf), slots)
	case code < 0xa0:
		return d.array(int(d.take(1)[0]&0xf), slots)
	case code < 0xc0:
		return lua.LString(d.take(1 + int(code&0x1f))[1:])
	default:
		return d.coded(code, slots)
	}
}

// coded decodes a value whose type takes the whole first byte.
func (d *msgpackDecoder) coded(code byte, slots int) lua.LValue {
	switch code {
	case 0xc0:
		d.take(1)
		return lua.LNil
	case 0xc2, 0xc3:
		return lua.LBool(d.take(1)[0] == 0xc3)
	case 0xca:
		return lua.LNumber(math.Float32frombits(uint32(d.unsigned(4))))
	case 0xcb:
		return lua.LNumber(math.Float64frombits(d.unsigned(8)))
	case 0xcc, 0xcd, 0xce:
		return lua.LNumber(d.unsigned(1 << (code - 0xcc)))
	case 0xcf, 0xd3: // from 2^63 on an unsigned one turns negative, as in Redis
		return d.signed(8)
	case 0xd0, 0xd1, 0xd2:
		return d.signed(1 << (code - 0xd0))
	case 0xd9, 0xda, 0xdb:
		return lua.LString(d.take(int(d.unsigned(1 << (code - 0xd9)))))
	case 0xdc, 0xdd:
		return d.array(int(d.unsigned(2<<(code-0xdc))), slots)
	case 0xde, 0xdf:
		return d.pairs(int(d.unsigned(2<<(code-0xde))), slots)
	}
	raise(d.L, "Bad data format in input.")
	return nil
}

func (d *msgpackDecoder) array(n, slots int) lua.LValue {
	t := d.L.CreateTable(min(n, sizeHint), 0)
	checkSlots(d.L, slots+1, 1, "in function mp_decode_to_lua_array")
	mark := d.st.hold(t)
	for i := 1; i <= n; i++ {
		if v := d.value(slots + 2); v != lua.LNil {
			t.RawSetInt(i, v)
		}
	}
	d.st.release(mark)
	return t
}

func (d *msgpackDecoder) pairs(n, slots int) lua.LValue {
	t := d.L.CreateTable(0, min(n, sizeHint))
	mark := d.st.hold(t)
	for range n {
		k := d.value(slots + 1)
		d.st.hold(k)
		v := d.value(slots + 2)
		d.st.release(mark + 1)
		checkKey(d.L, k)
		t.RawSet(k, v)
	}
	d.st.release(mark)
	return t
}
