package scripting

import (
	"math"
	"math/bits"
	"strconv"

	"codeq/scripting/lua"
)

// bitLibrary holds the operations on 32-bit integers. Their results are signed.
func (st *state) bitLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{
		"tobit":   func(L *lua.Thread) int { return pushBits(L, checkBits(L, 1)) },
		"tohex":   bitToHex,
		"bnot":    func(L *lua.Thread) int { return pushBits(L, ^checkBits(L, 1)) },
		"band":    bitFold(func(a, b uint32) uint32 { return a & b }),
		"bor":     bitFold(func(a, b uint32) uint32 { return a | b }),
		"bxor":    bitFold(func(a, b uint32) uint32 { return a ^ b }),
		"lshift":  bitShift(func(v uint32, n int) uint32 { return v << n }),
		"rshift":  bitShift(func(v uint32, n int) uint32 { return v >> n }),
		"arshift": bitShift(func(v uint32, n int) uint32 { return uint32(int32(v) >> n) }),
		"rol":     bitShift(bits.RotateLeft32),
		"ror":     bitShift(func(v uint32, n int) uint32 { return bits.RotateLeft32(v, -n) }),
		"bswap":   func(L *lua.Thread) int { return pushBits(L, bits.ReverseBytes32(checkBits(L, 1))) },
	}
}

// roundToBits is 2^52+2^51. Added to a number of less than 2^51, it leaves the number, rounded to the nearest integer with
// halves to even, in the sum's low bits.
const roundToBits = 6755399441055744.0

func checkBits(L *lua.Thread, n int) uint32 {
	return uint32(math.Float64bits(checkNumber(L, n) + roundToBits))
}

func pushBits(L *lua.Thread, v uint32) int { return pushNumber(L, float64(int32(v))) }

// bitFold combines all arguments, from the last to the second: the order decides which bad argument is reported.
func bitFold(combine func(a, b uint32) uint32) lua.GoFunc {
	return func(L *lua.Thread) int {
		v := checkBits(L, 1)
		for i := L.Top(); i > 1; i-- {
			v = combine(v, checkBits(L, i))
		}
		return pushBits(L, v)
	}
}

func bitShift(shift func(v uint32, n int) uint32) lua.GoFunc {
	return func(L *lua.Thread) int {
		v := checkBits(L, 1)
		return pushBits(L, shift(v, int(checkBits(L, 2)&31)))
	}
}

// bitToHex writes the low digits of a number, in capitals when their count is negative.
func bitToHex(L *lua.Thread) int {
	v, n := checkBits(L, 1), 8
	if L.Top() >= 2 {
		n = int(int32(checkBits(L, 2)))
	}
	var buf [9]byte
	text := strconv.AppendUint(buf[:0], 1<<32|uint64(v), 16)[1:]
	if n < 0 {
		n = -n
		for i, c := range text {
			if c >= 'a' {
				text[i] = c - 'a' + 'A'
			}
		}
	}
	L.Push(lua.String(string(text[8-min(n, 8):])))
	return 1
}
