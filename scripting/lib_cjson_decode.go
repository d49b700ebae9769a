package scripting

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"codeq/scripting/lua"
)

// The kinds of tokens, by the names that messages give them. A bad token is what the message says instead.
type jsonKind string

const (
	jsonObjectBegin jsonKind = "T_OBJ_BEGIN"
	jsonObjectEnd   jsonKind = "T_OBJ_END"
	jsonArrayBegin  jsonKind = "T_ARR_BEGIN"
	jsonArrayEnd    jsonKind = "T_ARR_END"
	jsonString      jsonKind = "T_STRING"
	jsonNumber      jsonKind = "T_NUMBER"
	jsonBoolean     jsonKind = "T_BOOLEAN"
	jsonNull        jsonKind = "T_NULL"
	jsonColon       jsonKind = "T_COLON"
	jsonComma       jsonKind = "T_COMMA"
	jsonEnd         jsonKind = "T_END"

	jsonBadToken    jsonKind = "invalid token"
	jsonBadNumber   jsonKind = "invalid number"
	jsonBadEscape   jsonKind = "invalid escape code"
	jsonBadUnicode  jsonKind = "invalid unicode escape code"
	jsonOpenedQuote jsonKind = "unexpected end of string"
)

func (j *jsonLibrary) decode(L *lua.Thread) int {
	if L.Top() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	d := jsonDecoder{st: j.st, L: L, config: &j.config, data: checkString(L, 1)}
	d.st.release(0)
	if len(d.data) >= 2 && (d.data[0] == 0 || d.data[1] == 0) {
		L.Raise("JSON parser does not support UTF-16 or UTF-32")
	}
	d.next()
	v := d.value(1)
	d.next()
	d.expect(jsonEnd, "the end")
	L.Push(v)
	return 1
}

// jsonDecoder reads a text up to its end or its first zero byte, and holds the latest token.
type jsonDecoder struct {
	st     *state
	L      *lua.Thread
	config *jsonConfig
	data   string
	at     int // what is read
	depth  int

	kind   jsonKind
	index  int // where the token begins, or what is bad
	text   string
	number float64
	yes    bool
}

// peek answers a byte after the current one, and zero beyond the end.
func (d *jsonDecoder) peek(ahead int) byte {
	if i := d.at + ahead; i < len(d.data) {
		return d.data[i]
	}
	return 0
}

func (d *jsonDecoder) expect(kind jsonKind, what string) {
	if d.kind != kind {
		d.fail(what)
	}
}

// fail reports the token where something else was expected.
func (d *jsonDecoder) fail(expected string) {
	d.L.Raise("Expected %s but found %s at character %d", expected, d.kind, d.index+1)
}

// next reads a token.
func (d *jsonDecoder) next() {
	d.st.work(d.L, 1)
	start := d.at
	for c := d.peek(0); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = d.peek(0) {
		d.at++
	}
	if skipped := d.at - start; skipped >= bytesPerStep {
		d.st.work(d.L, skipped/bytesPerStep)
	}
	d.index = d.at
	c := d.peek(0)
	switch c {
	case '{':
		d.single(jsonObjectBegin)
	case '}':
		d.single(jsonObjectEnd)
	case '[':
		d.single(jsonArrayBegin)
	case ']':
		d.single(jsonArrayEnd)
	case ',':
		d.single(jsonComma)
	case ':':
		d.single(jsonColon)
	case '"':
		d.quoted()
	case 0:
		d.kind = jsonEnd
	default:
		d.word(c)
	}
}

func (d *jsonDecoder) single(kind jsonKind) {
	d.at++
	d.kind = kind
}

// word reads a number or a name.
func (d *jsonDecoder) word(c byte) {
	rest := d.data[d.at:]
	switch {
	case c == '-' || isDigit(c):
		if d.config.decodeInvalid == 0 && laxNumber(rest) {
			d.kind = jsonBadNumber
			return
		}
		d.numeral(rest)
	case strings.HasPrefix(rest, "true"), strings.HasPrefix(rest, "false"):
		d.kind, d.yes = jsonBoolean, c == 't'
		d.at += len("true")
		if c == 'f' {
			d.at++
		}
	case strings.HasPrefix(rest, "null"):
		d.kind = jsonNull
		d.at += len("null")
	case d.config.decodeInvalid != 0 && laxNumber(rest):
		d.numeral(rest)
	default:
		d.kind = jsonBadToken
	}
}

// laxNumber says whether a text begins like a number that strtod takes and JSON does not.
func laxNumber(text string) bool {
	if text[0] == '+' {
		return true
	}
	text = strings.TrimPrefix(text, "-")
	if len(text) >= 2 && text[0] == '0' {
		return isDigit(text[1]) || text[1]|0x20 == 'x'
	}
	return len(text) >= 3 && (strings.EqualFold(text[:3], "inf") || strings.EqualFold(text[:3], "nan"))
}

func (d *jsonDecoder) numeral(text string) {
	v, n := leadingNumber(text)
	if n == 0 {
		d.kind = jsonBadNumber
		return
	}
	d.kind, d.number = jsonNumber, v
	d.at += n
	if n >= bytesPerStep {
		d.st.work(d.L, n/bytesPerStep)
	}
}

// quoted reads a string. One without escapes is a part of the text.
func (d *jsonDecoder) quoted() {
	d.at++
	var buf []byte
	copied := d.at
	for {
		switch d.peek(0) {
		case '"':
			d.kind, d.text = jsonString, d.data[copied:d.at]
			if buf != nil {
				buf = append(buf, d.text...)
				d.text = string(buf)
			}
			d.at++
			d.st.work(d.L, (d.at-d.index)/bytesPerStep)
			return
		case 0:
			d.bad(jsonOpenedQuote)
			return
		case '\\':
			buf = append(buf, d.data[copied:d.at]...)
			if buf = d.escape(buf); buf == nil {
				return
			}
			copied = d.at
		default:
			d.at++
		}
	}
}

func (d *jsonDecoder) bad(kind jsonKind) {
	d.kind, d.index = kind, d.at
}

// escape appends what an escape stands for. It answers nil when that is nothing.
func (d *jsonDecoder) escape(buf []byte) []byte {
	c := d.peek(1)
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 't':
		c = '\t'
	case 'n':
		c = '\n'
	case 'f':
		c = '\f'
	case 'r':
		c = '\r'
	case 'u':
		r, n := d.codePoint()
		if n == 0 {
			d.bad(jsonBadUnicode)
			return nil
		}
		d.at += n
		return utf8.AppendRune(buf, r)
	default:
		d.bad(jsonBadEscape)
		return nil
	}
	d.at += 2
	return append(buf, c)
}

// codePoint reads an escape such as \u00e9, or two that are a surrogate pair, and answers their length.
func (d *jsonDecoder) codePoint() (r rune, n int) {
	const escape = len(`\u0000`)
	high, ok := d.hex4(2)
	if !ok || high&0xfc00 == 0xdc00 {
		return 0, 0
	}
	if high&0xfc00 != 0xd800 {
		return high, escape
	}
	if d.peek(escape) != '\\' || d.peek(escape+1) != 'u' {
		return 0, 0
	}
	low, ok := d.hex4(escape + 2)
	if !ok || low&0xfc00 != 0xdc00 {
		return 0, 0
	}
	return 0x10000 + (high&0x3ff)<<10 + low&0x3ff, 2 * escape
}

func (d *jsonDecoder) hex4(ahead int) (rune, bool) {
	v := rune(0)
	for i := range 4 {
		digit, ok := hexDigit(d.peek(ahead + i))
		if !ok {
			return 0, false
		}
		v = v<<4 | rune(digit)
	}
	return v, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return (c | 0x20) - 'a' + 10, true
	}
	return 0, false
}

// value makes the value that begins with the latest token. slots is what the reference implementation's stack holds at this point.
func (d *jsonDecoder) value(slots int) lua.Value {
	switch d.kind {
	case jsonString:
		return lua.String(d.text)
	case jsonNumber:
		return lua.Number(d.number)
	case jsonBoolean:
		return lua.Bool(d.yes)
	case jsonNull:
		return lua.Null
	case jsonObjectBegin:
		return d.object(slots)
	case jsonArrayBegin:
		return d.array(slots)
	}
	d.fail("value")
	return lua.Nil
}

// descend enters an object or an array, which needs so many slots.
func (d *jsonDecoder) descend(slots, needed int) {
	d.depth++
	if d.depth > d.config.decodeDepth || slots+needed > maxSlots {
		d.L.Raise("Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
}

func (d *jsonDecoder) object(slots int) lua.Value {
	d.descend(slots, 3)
	d.next()
	t := lua.NewTable(0, 0)
	if d.kind == jsonObjectEnd {
		d.depth--
		return t.Value()
	}
	mark := d.st.hold(t.Value())
	for {
		d.expect(jsonString, "object key string")
		key := d.text
		d.next()
		d.expect(jsonColon, "colon")
		d.next()
		t.SetText(key, d.value(slots+2))
		d.next()
		if d.kind == jsonObjectEnd {
			d.depth--
			d.st.release(mark)
			return t.Value()
		}
		d.expect(jsonComma, "comma or object end")
		d.next()
	}
}

func (d *jsonDecoder) array(slots int) lua.Value {
	d.descend(slots, 2)
	d.next()
	t := lua.NewTable(0, 0)
	if d.kind == jsonArrayEnd {
		d.depth--
		return t.Value()
	}
	mark := d.st.hold(t.Value())
	for i := 1; ; i++ {
		t.SetInt(i, d.value(slots+1))
		d.next()
		if d.kind == jsonArrayEnd {
			d.depth--
			d.st.release(mark)
			return t.Value()
		}
		d.expect(jsonComma, "comma or array end")
		d.next()
	}
}

// leadingNumber reads the longest number that a text begins with, as C's strtod does, and answers its length. The text begins with
// no white space.
func leadingNumber(text string) (v float64, n int) {
	sign := 0
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign = 1
	}
	body := text[sign:]
	v, n = leadingName(body)
	if n == 0 {
		v, n = leadingDigits(body)
	}
	if n == 0 {
		return 0, 0
	}
	if sign == 1 && text[0] == '-' {
		v = math.Copysign(v, -1)
	}
	return v, sign + n
}

// leadingName reads inf, infinity, nan or nan(letters).
func leadingName(text string) (v float64, n int) {
	has := func(name string) bool { return len(text) >= len(name) && strings.EqualFold(text[:len(name)], name) }
	switch {
	case has("infinity"):
		return infinity, len("infinity")
	case has("inf"):
		return infinity, len("inf")
	case has("nan"):
		n = len("nan")
		if len(text) > n && text[n] == '(' {
			end := n + 1
			for end < len(text) && (isAlphanumeric(text[end]) || text[end] == '_') {
				end++
			}
			if end < len(text) && text[end] == ')' {
				n = end + 1
			}
		}
		return math.NaN(), n
	}
	return 0, 0
}

// leadingDigits reads a decimal or hexadecimal number without a sign.
func leadingDigits(text string) (v float64, n int) {
	if len(text) >= 2 && text[0] == '0' && text[1]|0x20 == 'x' {
		if digits := span(text[2:], isHexDigit); digits > 0 {
			n = 2 + digits
			if exponent := exponentLength(text[n:], 'p'); exponent > 0 {
				n += exponent
				return parsedNumber(text[:n]), n
			}
			return parsedNumber(text[:n] + "p0"), n
		}
		return 0, 1
	}
	n = span(text, isDigit)
	if n == 0 {
		return 0, 0
	}
	n += exponentLength(text[n:], 'e')
	return parsedNumber(text[:n]), n
}

// span answers the length of digits with at most one point among them, of which at least one is a digit.
func span(text string, digit func(byte) bool) int {
	n, point := 0, 0
	for n < len(text) && (digit(text[n]) || text[n] == '.' && point == 0) {
		if text[n] == '.' {
			point = 1
		}
		n++
	}
	if n == point {
		return 0
	}
	return n
}

func isHexDigit(c byte) bool {
	_, ok := hexDigit(c)
	return ok
}

// exponentLength answers the length of an exponent such as e-5, or zero.
func exponentLength(text string, letter byte) int {
	if text == "" || text[0]|0x20 != letter {
		return 0
	}
	n := 1
	if n < len(text) && (text[n] == '-' || text[n] == '+') {
		n++
	}
	digits := n
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	if n == digits {
		return 0
	}
	return n
}

// parsedNumber parses what is known to be a number. One that is too large becomes infinite, as in C.
func parsedNumber(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64)
	return v
}
