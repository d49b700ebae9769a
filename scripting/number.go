package scripting

import (
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

// Lua prints numbers with 14 significant digits and hands them to commands with 17.
const (
	textDigits     = 14
	argumentDigits = 17
)

// numberText is what tostring and `..` make of a number.
func numberText(v lua.LNumber) string {
	var buf [32]byte
	return string(appendNumber(buf[:0], float64(v), textDigits))
}

// appendNumber formats as C's %.<digits>g does.
func appendNumber(dst []byte, v float64, digits int) []byte {
	if v == math.Trunc(v) && v > -1e14 && v < 1e14 && (v != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return append(dst, specialText(v)...)
	}
	return appendGeneral(dst, v, digits, false)
}

func specialText(v float64) string {
	text := "inf"
	if math.IsNaN(v) {
		text = "nan"
	}
	if math.Signbit(v) {
		return "-" + text
	}
	return text
}

// appendGeneral is C's %g: the shorter of %e and %f for the precision, without trailing zeros unless they are kept.
func appendGeneral(dst []byte, v float64, precision int, keepZeros bool) []byte {
	if precision == 0 {
		precision = 1
	}
	var buf [128]byte
	scientific := strconv.AppendFloat(buf[:0], v, 'e', precision-1, 64)
	e := len(scientific) - 1
	for scientific[e] != 'e' {
		e--
	}
	exponent, _ := strconv.Atoi(string(scientific[e+1:]))
	if exponent < -4 || exponent >= precision {
		mantissa := scientific[:e]
		if !keepZeros {
			mantissa = trimZeros(mantissa)
		}
		dst = append(dst, mantissa...)
		return append(dst, scientific[e:]...)
	}
	fixed := strconv.AppendFloat(buf[:0], v, 'f', precision-1-exponent, 64)
	if !keepZeros {
		fixed = trimZeros(fixed)
	}
	return append(dst, fixed...)
}

func trimZeros(text []byte) []byte {
	dot := false
	for _, c := range text {
		dot = dot || c == '.'
	}
	if !dot {
		return text
	}
	n := len(text)
	for text[n-1] == '0' {
		n--
	}
	if text[n-1] == '.' {
		n--
	}
	return text[:n]
}

// toNumber is the coercion of arithmetic: numbers, and strings that spell one.
func toNumber(v lua.LValue) (float64, bool) {
	switch x := v.(type) {
	case lua.LNumber:
		return float64(x), true
	case lua.LString:
		return luaparse.Number(cString(string(x)))
	}
	return 0, false
}

// toText is the coercion of concatenation: strings, and numbers as text.
func toText(v lua.LValue) (string, bool) {
	switch x := v.(type) {
	case lua.LString:
		return string(x), true
	case lua.LNumber:
		return numberText(x), true
	}
	return "", false
}

// toInt truncates towards zero; what does not fit becomes the smallest integer, as on x86.
func toInt(v float64) int {
	if v >= -9.223372036854775808e18 && v < 9.223372036854775808e18 {
		return int(v)
	}
	return math.MinInt
}
