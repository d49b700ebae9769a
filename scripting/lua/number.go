package lua

import (
	"math"
	"strconv"
	"strings"

	"codeq/scripting/luaparse"
)

// Lua prints numbers with 14 significant digits; Redis hands them to commands with 17.
const (
	TextDigits     = 14
	ArgumentDigits = 17
)

// ParseNumber reads a number as arithmetic on a string does, up to a NUL.
func ParseNumber(text string) (float64, bool) {
	if end := strings.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return luaparse.Number(text)
}

// NumberText is what tostring and `..` make of a number.
func NumberText(v float64) string {
	var buf [32]byte
	return string(AppendNumber(buf[:0], v, TextDigits))
}

// AppendNumber formats as C's %.<digits>g does.
func AppendNumber(dst []byte, v float64, digits int) []byte {
	if v == math.Trunc(v) && v > -1e14 && v < 1e14 && (v != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return append(dst, specialText(v)...)
	}
	return AppendGeneral(dst, v, digits, false)
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

// AppendGeneral is C's %g: the shorter of %e and %f for the precision, without trailing zeros unless they are kept.
func AppendGeneral(dst []byte, v float64, precision int, keepZeros bool) []byte {
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

// ToInt truncates towards zero; what does not fit becomes the smallest integer, as on x86.
func ToInt(v float64) int {
	if v >= -9.223372036854775808e18 && v < 9.223372036854775808e18 {
		return int(v)
	}
	return math.MinInt
}
