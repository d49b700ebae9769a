package scripting

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// conversion is one conversion of string.format: its flags, width, precision (-1 when there is none) and letter.
type conversion struct {
	minus, plus, space, alternate, zero bool
	width, precision                    int
	verb                                byte
}

func (st *state) format(L *lua.LState) int {
	text := checkString(L, 1)
	out := make([]byte, 0, len(text)+16)
	arg := 1
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out = append(out, text[i])
			continue
		}
		i++
		if i < len(text) && text[i] == '%' {
			out = append(out, '%')
			continue
		}
		arg++
		if arg > L.GetTop() {
			argError(L, arg, "no value")
		}
		var c conversion
		c, i = parseConversion(L, text, i)
		before := len(out)
		out = st.convert(L, out, c, arg)
		st.grow(L, len(out), len(out)-before)
	}
	L.Push(lua.LString(out))
	return 1
}

func parseConversion(L *lua.LState, text string, i int) (conversion, int) {
	c := conversion{precision: -1}
	at := func() byte {
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	start := i
	for strings.IndexByte("-+ #0", at()) >= 0 && at() != 0 {
		switch at() {
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
		}
		i++
	}
	if i-start >= 6 {
		raise(L, "invalid format (repeated flags)")
	}
	digits := func() (n int) {
		for k := 0; k < 2 && at() >= '0' && at() <= '9'; k++ {
			n = n*10 + int(at()-'0')
			i++
		}
		return n
	}
	c.width = digits()
	if at() == '.' {
		i++
		c.precision = digits()
	}
	if at() >= '0' && at() <= '9' {
		raise(L, "invalid format (width or precision too long)")
	}
	c.verb = at()
	return c, i
}

func (st *state) convert(L *lua.LState, out []byte, c conversion, arg int) []byte {
	switch c.verb {
	case 'c':
		char := toInt(checkNumber(L, arg))
		if char != int(int32(char)) {
			char = 0 // the last byte of the smallest integer, which x86 makes of what does not fit
		}
		return append(out, cString(string(c.pad(nil, "", string([]byte{byte(char)}), false)))...)
	case 'd', 'i':
		return c.signed(out, int64(toInt(checkNumber(L, arg))))
	case 'o', 'u', 'x', 'X':
		return c.unsigned(out, checkNumber(L, arg))
	case 'e', 'E', 'f', 'g', 'G':
		return c.float(out, checkNumber(L, arg))
	case 'q':
		return appendQuoted(out, checkString(L, arg))
	case 's':
		s := checkString(L, arg)
		if c.precision >= 0 || len(s) < wholeString {
			s = cString(s)
		}
		if c.precision >= 0 && len(s) > c.precision {
			s = s[:c.precision]
		}
		return c.pad(out, "", s, false)
	}
	letter := ""
	if c.verb != 0 {
		letter = string([]byte{c.verb})
	}
	raise(L, "invalid option '%%%s' to 'format'", letter)
	return nil
}

// wholeString is the length from which a string without a precision is not formatted by C, but taken as it is.
const wholeString = 100

// cString is what C sees of a string: it ends at a NUL.
func cString(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// pad writes sign and body in the width; zeros says that zeros may fill it.
func (c conversion) pad(out []byte, sign, body string, zeros bool) []byte {
	fill := c.width - len(sign) - len(body)
	switch {
	case fill <= 0:
		return append(append(out, sign...), body...)
	case c.minus:
		out = append(append(out, sign...), body...)
		return append(out, strings.Repeat(" ", fill)...)
	case zeros && c.zero:
		out = append(append(out, sign...), strings.Repeat("0", fill)...)
		return append(out, body...)
	}
	out = append(out, strings.Repeat(" ", fill)...)
	return append(append(out, sign...), body...)
}

func (c conversion) sign(negative bool) string {
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
func (c conversion) digits(text string) string {
	if c.precision == 0 && text == "0" {
		return ""
	}
	if missing := c.precision - len(text); missing > 0 {
		return strings.Repeat("0", missing) + text
	}
	return text
}

func (c conversion) signed(out []byte, v int64) []byte {
	text := strconv.FormatInt(v, 10)
	text = strings.TrimPrefix(text, "-")
	return c.pad(out, c.sign(v < 0), c.digits(text), c.precision < 0)
}

func (c conversion) unsigned(out []byte, v float64) []byte {
	bits := uint64(toInt(v))
	if v >= 1<<63 {
		bits = uint64(toInt(v-1<<63)) ^ 1<<63 // as x86 does it; from 2^64 on that is 0
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

func (c conversion) float(out []byte, v float64) []byte {
	sign := c.sign(math.Signbit(v))
	upper := c.verb == 'E' || c.verb == 'G'
	if math.IsInf(v, 0) || math.IsNaN(v) {
		text := strings.TrimPrefix(specialText(v), "-")
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
	var body []byte
	switch c.verb {
	case 'f':
		body = strconv.AppendFloat(nil, v, 'f', precision, 64)
	case 'e', 'E':
		body = strconv.AppendFloat(nil, v, 'e', precision, 64)
	default:
		body = appendGeneral(nil, v, precision, c.alternate)
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
