package scripting

import (
	"encoding/binary"
	"math"
	"strings"

	"codeq/scripting/lua"
)

// structLibrary packs values into binary strings by a format of one-letter options:
//
//	>  <  !n   big endian, little endian (the default), alignment n, which is 1 at first and 8 when n is missing
//	x          a byte of padding
//	b h l T    integers of 1, 2, 8 and 8 bytes; capital letters are the unsigned ones
//	in In      integers of n bytes, 4 by default
//	f d        floating point numbers of 4 and 8 bytes
//	cn         n bytes of a string, 1 by default; c0 is the whole string, or as many bytes as the number before it says
//	s          a string that a zero byte ends
func (st *state) structLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{"pack": st.structPack, "unpack": st.structUnpack, "size": st.structSize}
}

const (
	maxIntegerSize   = 32 // bytes of an option i
	defaultAlignment = 8
)

// structFormat walks through a format.
type structFormat struct {
	L     *lua.Thread
	text  string
	order binary.ByteOrder
	align uint64
}

func checkFormat(L *lua.Thread) structFormat {
	text := checkString(L, 1)
	if end := strings.IndexByte(text, 0); end >= 0 {
		text = text[:end] // the reference implementation's formats are C strings
	}
	return structFormat{L: L, text: text, order: binary.LittleEndian, align: 1}
}

// next cuts off the next option and answers its size in bytes and the padding that aligns it at a position.
func (f *structFormat) next(position uint64) (option byte, size, padding uint64, ok bool) {
	if f.text == "" {
		return 0, 0, 0, false
	}
	option, f.text = f.text[0], f.text[1:]
	size = f.size(option)
	return option, size, f.padding(option, size, position), true
}

func (f *structFormat) size(option byte) uint64 {
	switch option {
	case 'b', 'B', 'x':
		return 1
	case 'h', 'H':
		return 2
	case 'f':
		return 4
	case 'l', 'L', 'T', 'd':
		return 8
	case 'c':
		return f.number(1)
	case 'i', 'I':
		n := f.number(4)
		if n > maxIntegerSize {
			f.L.Raise("integral size %d is larger than limit of %d", n, maxIntegerSize)
		}
		return n
	}
	return 0
}

// number cuts off the digits that follow an option.
func (f *structFormat) number(otherwise uint64) uint64 {
	if f.text == "" || !isDigit(f.text[0]) {
		return otherwise
	}
	n := uint64(0)
	for f.text != "" && isDigit(f.text[0]) {
		n = n*10 + uint64(f.text[0]-'0')
		if n > math.MaxInt32 {
			f.L.Raise("integral size overflow")
		}
		f.text = f.text[1:]
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// padding follows the reference implementation's formula also where a size is no power of two.
func (f *structFormat) padding(option byte, size, position uint64) uint64 {
	if size == 0 || option == 'c' {
		return 0
	}
	size = min(size, f.align)
	return (size - position&(size-1)) & (size - 1)
}

// control carries out an option that stands for no bytes, and refuses any other.
func (f *structFormat) control(option byte) {
	switch option {
	case ' ':
	case '>':
		f.order = binary.BigEndian
	case '<':
		f.order = binary.LittleEndian
	case '!':
		n := f.number(defaultAlignment)
		if n == 0 || n&(n-1) != 0 {
			f.L.Raise("alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		argError(f.L, 1, "invalid format option '"+string([]byte{option})+"'")
	}
}

func (st *state) structPack(L *lua.Thread) int {
	f := checkFormat(L)
	L.Push(lua.Nil) // a missing argument is reported as nil, as in Redis
	out := st.newOutput(L)
	arg := 2
	for {
		st.work(L, 1)
		option, size, padding, ok := f.next(uint64(len(out.buf)))
		if !ok {
			return out.push()
		}
		for range padding {
			out.buf = append(out.buf, 0)
		}
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			out.buf = f.appendInteger(out.buf, packedInteger(checkNumber(L, arg)), int(size))
			arg++
		case 'x':
			out.buf = append(out.buf, 0)
		case 'f':
			out.buf = f.appendInteger(out.buf, uint64(math.Float32bits(float32(checkNumber(L, arg)))), 4)
			arg++
		case 'd':
			out.buf = f.appendInteger(out.buf, math.Float64bits(checkNumber(L, arg)), 8)
			arg++
		case 'c', 's':
			text := checkString(L, arg)
			arg++
			if size == 0 {
				size = uint64(len(text))
			}
			if uint64(len(text)) < size {
				argError(L, arg, "string too short") // named by its successor, as in Redis
			}
			out.room(int(size) + 1)
			out.buf = append(out.buf, text[:size]...)
			if option == 's' {
				out.buf = append(out.buf, 0)
			}
		default:
			f.control(option)
		}
		out.check()
	}
}

// packedInteger converts as C does on x86: what does not fit signed is taken as unsigned.
func packedInteger(v float64) uint64 {
	if v >= 1<<63 {
		return uint64(lua.ToInt(v-1<<63)) ^ 1<<63
	}
	return uint64(lua.ToInt(v))
}

func (f *structFormat) appendInteger(dst []byte, v uint64, size int) []byte {
	start := len(dst)
	for range size {
		dst = append(dst, byte(v))
		v >>= 8
	}
	if f.order == binary.BigEndian {
		reverse(dst[start:])
	}
	return dst
}

func reverse(buf []byte) {
	for i, j := 0, len(buf)-1; i < j; i, j = i+1, j-1 {
		buf[i], buf[j] = buf[j], buf[i]
	}
}

// integer reads an integer, of whose bytes the low eight count.
func (f *structFormat) integer(data string) uint64 {
	v := uint64(0)
	for i := range len(data) {
		if f.order == binary.BigEndian {
			v = v<<8 | uint64(data[i])
		} else {
			v = v<<8 | uint64(data[len(data)-1-i])
		}
	}
	return v
}

// integerValue makes a Lua number of an integer's bits. Above 8 bytes the sign is sought where x86 finds it, which takes the distance
// of a shift modulo 64.
func integerValue(bits, size uint64, signed bool) float64 {
	if !signed {
		return float64(bits)
	}
	mask := uint64(math.MaxUint64) << ((8*size - 1) & 63)
	if bits&mask != 0 {
		bits |= mask
	}
	return float64(int64(bits))
}

func (st *state) structUnpack(L *lua.Thread) int {
	f := checkFormat(L)
	data := checkString(L, 2)
	// Positions are unsigned: a negative one lies behind any data.
	position := uint64(optLong(L, 3, 1))
	if position == 0 {
		argError(L, 3, "offset must be 1 or greater")
	}
	position--
	args := L.Top()
	for {
		st.work(L, 1)
		option, size, padding, ok := f.next(position)
		if !ok {
			L.Push(lua.Number(float64(int64(position + 1))))
			return L.Top() - args
		}
		position += padding
		checkData(L, data, position, size)
		checkSlots(L, L.Top(), 2, "too many results")
		field := data[position : position+size]
		switch option {
		case 'b', 'h', 'l', 'i', 'B', 'H', 'L', 'T', 'I':
			L.Push(lua.Number(integerValue(f.integer(field), size, option >= 'a')))
		case 'x':
		case 'f':
			L.Push(lua.Number(float64(math.Float32frombits(uint32(f.integer(field))))))
		case 'd':
			L.Push(lua.Number(math.Float64frombits(f.integer(field))))
		case 'c':
			if size == 0 {
				size = previousSize(L, args)
				checkData(L, data, position, size)
			}
			L.Push(st.substring(L, data[position:position+size], len(data)))
		case 's':
			end := strings.IndexByte(data[position:], 0)
			if end < 0 {
				L.Raise("unfinished string in data")
			}
			st.work(L, end/bytesPerStep)
			L.Push(st.substring(L, data[position:position+uint64(end)], len(data)))
			size = uint64(end) + 1
		default:
			f.control(option)
		}
		position += size
	}
}

func checkData(L *lua.Thread, data string, position, size uint64) {
	length := uint64(len(data))
	if size > length || position > length-size {
		argError(L, 2, "data string too short")
	}
}

// previousSize takes the latest result back, which is the size of what follows.
func previousSize(L *lua.Thread, args int) uint64 {
	n, ok := L.Arg(-1).ToNumber()
	if L.Top() == args || !ok {
		L.Raise("format 'c0' needs a previous size")
	}
	L.Pop()
	return packedInteger(n)
}

func (st *state) structSize(L *lua.Thread) int {
	f := checkFormat(L)
	position := uint64(0)
	for {
		st.work(L, 1)
		option, size, padding, ok := f.next(position)
		if !ok {
			return pushNumber(L, float64(int64(position)))
		}
		position += padding
		switch {
		case option == 's':
			argError(L, 1, "option 's' has no fixed size")
		case option == 'c' && size == 0:
			argError(L, 1, "option 'c0' has no fixed size")
		case !isAlphanumeric(option):
			f.control(option)
		}
		position += size
	}
}

func isAlphanumeric(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
