package scripting

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"codeq/scripting/lua"
)

// conversion is one conversion of string.format: its flags, width, precision (-1 when there is none) and letter.
type conversion struct {
	minus, plus, space, alternate, zero bool
	width, precision                    int
	verb                                byte
}

func (st *state) format(L *lua.Thread) int {
	text := checkString(L, 1)
	out := st.newOutput(L)
	top, arg := L.Top(), 1
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			out.room(len(text))
			out.buf = append(out.buf, text...)
			return out.push()
		}
		out.buf = append(out.buf, text[:i]...)
		text = text[i+1:]
		if text != "" && text[0] == '%' {
			out.buf = append(out.buf, '%')
			text = text[1:]
			continue
		}
		arg++
		if arg > top {
			argError(L, arg, "no value")
		}
		var c conversion
		c, text = parseConversion(L, text)
		c.write(&out, arg)
		out.check()
	}
}

// parseConversion reads what follows a percent sign, and answers what follows that.
func parseConversion(L *lua.Thread, text string) (c conversion, rest string) {
	flags := 0
	for flags < len(text) && c.flag(text[flags]) {
		flags++
	}
	if flags >= 6 {
		L.Raise("invalid format (repeated flags)")
	}
	c.width, text = twoDigits(text[flags:])
	c.precision = -1
	if text != "" && text[0] == '.' {
		c.precision, text = twoDigits(text[1:])
	}
	if text == "" {
		return c, text
	}
	if isDigit(text[0]) {
		L.Raise("invalid format (width or precision too long)")
	}
	c.verb = text[0]
	return c, text[1:]
}

// flag takes a flag, if the letter is one.
func (c *conversion) flag(letter byte) bool {
	switch letter {
	case '-':
		c.minus = true
	case '+':
		c.plus = true
	case ' ':
		c.space = true
	case '#':
		c.alternate = true
	case '0':
		c.zero = true
	default:
		return false
	}
	return true
}

// twoDigits reads a number of so many digits at most.
func twoDigits(text string) (n int, rest string) {
	for k := 0; k < 2 && text != "" && isDigit(text[0]); k++ {
		n = n*10 + int(text[0]-'0')
		text = text[1:]
	}
	return n, text
}

// write converts an argument.
func (c *conversion) write(out *output, arg int) {
	L := out.L
	switch c.verb {
	case 'c':
		char := lua.ToInt(checkNumber(L, arg))
		if char != int(int32(char)) {
			char = 0 // the last byte of the smallest integer, which x86 makes of what does not fit
		}
		start := len(out.buf)
		out.buf = c.pad(out.buf, "", string([]byte{byte(char)}), false)
		if end := bytes.IndexByte(out.buf[start:], 0); end >= 0 {
			out.buf = out.buf[:start+end] // it is a C string
		}
	case 'd', 'i':
		out.buf = c.signed(out.buf, int64(checkLong(L, arg)))
	case 'o', 'u', 'x', 'X':
		out.buf = c.unsigned(out.buf, checkNumber(L, arg))
	case 'e', 'E', 'f', 'g', 'G':
		out.buf = c.float(out.buf, checkNumber(L, arg))
	case 'q':
		s := checkString(L, arg)
		out.room(len(s))
		out.buf = appendQuoted(out.buf, s)
	case 's':
		s := checkString(L, arg)
		if c.precision >= 0 || len(s) < wholeString {
			s = cString(s)
		}
		if c.precision >= 0 && len(s) > c.precision {
			s = s[:c.precision]
		}
		out.room(len(s))
		out.buf = c.pad(out.buf, "", s, false)
	case 0:
		L.Raise("invalid option '%%' to 'format'")
	default:
		L.Raise("invalid option '%%%s' to 'format'", string([]byte{c.verb}))
	}
}

// wholeString is the length from which a string without a precision is not formatted by C, but taken as it is.
const wholeString = 100

// cString is what C sees of a string: it ends at a NUL.
func cString(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// pad writes sign and body in the width; zeros says that zeros may fill it.
func (c *conversion) pad(out []byte, sign, body string, zeros bool) []byte {
	fill := c.width - len(sign) - len(body)
	switch {
	case c.minus:
		out = append(append(out, sign...), body...)
		return appendFill(out, ' ', fill)
	case zeros && c.zero:
		out = appendFill(append(out, sign...), '0', fill)
		return append(out, body...)
	}
	out = appendFill(out, ' ', fill)
	return append(append(out, sign...), body...)
}

func appendFill(out []byte, c byte, n int) []byte {
	for range n {
		out = append(out, c)
	}
	return out
}

func (c *conversion) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case c.plus:
		return "+"
	case c.space:
		return " "
	}
	return ""
}

// digits pads an integer's digits to the precision; the precision 0 writes no digit for zero.
func (c *conversion) digits(text string) string {
	if c.precision == 0 && text == "0" {
		return ""
	}
	if missing := c.precision - len(text); missing > 0 {
		return strings.Repeat("0", missing) + text
	}
	return text
}

func (c *conversion) signed(out []byte, v int64) []byte {
	var buf [24]byte
	text := strings.TrimPrefix(string(strconv.AppendInt(buf[:0], v, 10)), "-")
	return c.pad(out, c.sign(v < 0), c.digits(text), c.precision < 0)
}

func (c *conversion) unsigned(out []byte, v float64) []byte {
	bits := uint64(lua.ToInt(v))
	if v >= 1<<63 {
		bits = uint64(lua.ToInt(v-1<<63)) ^ 1<<63 // as x86 does it; from 2^64 on that is 0
	}
	prefix, text := "", ""
	switch c.verb {
	case 'o':
		text = c.digits(strconv.FormatUint(bits, 8))
		if c.alternate && !strings.HasPrefix(text, "0") {
			text = "0" + text
		}
	case 'u':
		text = c.digits(strconv.FormatUint(bits, 10))
	default:
		text = c.digits(strconv.FormatUint(bits, 16))
		if c.alternate && bits != 0 {
			prefix = "0x"
		}
	}
	if c.verb == 'X' {
		prefix, text = strings.ToUpper(prefix), strings.ToUpper(text)
	}
	return c.pad(out, prefix, text, c.precision < 0)
}

func (c *conversion) float(out []byte, v float64) []byte {
	sign := c.sign(math.Signbit(v))
	upper := c.verb == 'E' || c.verb == 'G'
	if math.IsInf(v, 0) || math.IsNaN(v) {
		text := "inf"
		if math.IsNaN(v) {
			text = "nan"
		}
		if upper {
			text = strings.ToUpper(text)
		}
		return c.pad(out, sign, text, false)
	}
	precision := c.precision
	if precision < 0 {
		precision = 6
	}
	v = math.Abs(v)
	var buf [64]byte
	body := buf[:0]
	switch c.verb {
	case 'f':
		body = strconv.AppendFloat(body, v, 'f', precision, 64)
	case 'e', 'E':
		body = strconv.AppendFloat(body, v, 'e', precision, 64)
	default:
		body = lua.AppendGeneral(body, v, precision, c.alternate)
	}
	text := string(body)
	if c.alternate && !strings.Contains(text, ".") {
		digits := strings.IndexByte(text, 'e')
		if digits < 0 {
			digits = len(text)
		}
		text = text[:digits] + "." + text[digits:]
	}
	if upper {
		text = strings.ToUpper(text)
	}
	return c.pad(out, sign, text, true)
}

// appendQuoted writes a string as a Lua literal.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out = append(out, '\\', c)
		case '\r':
			out = append(out, '\\', 'r')
		case 0:
			out = append(out, '\\', '0', '0', '0')
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
