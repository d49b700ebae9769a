package scripting

import (
	"math"
	"strconv"

	"codeq/scripting/lua"
)

func (j *jsonLibrary) encode(L *lua.Thread) int {
	if L.Top() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	e := jsonEncoder{j.st.newOutput(L), &j.config}
	e.value(L.Arg(1), 0, 1)
	return e.push()
}

type jsonEncoder struct {
	output
	config *jsonConfig
}

// value encodes a value within depth tables. slots is what the reference implementation's stack holds at this point.
func (e *jsonEncoder) value(v lua.Value, depth, slots int) {
	e.st.work(e.L, 1)
	switch v.Kind() {
	case lua.KindString:
		text, _ := v.Text()
		e.text(text)
	case lua.KindNumber:
		number, _ := v.Float()
		e.number(number)
	case lua.KindBool:
		e.buf = strconv.AppendBool(e.buf, v.Truth())
	case lua.KindTable:
		depth++
		if depth > e.config.encodeDepth || slots+3 > maxSlots {
			e.L.Raise("Cannot serialise, excessive nesting (%d)", depth)
		}
		e.table(v.Table(), depth, slots)
	case lua.KindNil, lua.KindLight: // the only light userdata is cjson.null
		e.buf = append(e.buf, "null"...)
	default:
		e.refuse(v.Kind(), "type not supported")
	}
	e.check()
}

func (e *jsonEncoder) refuse(kind lua.Kind, reason string) {
	e.L.Raise("Cannot serialise %s: %s", kind, reason)
}

func (e *jsonEncoder) table(t *lua.Table, depth, slots int) {
	n := e.length(t)
	if n <= 0 {
		e.object(t, depth, slots)
		return
	}
	e.buf = append(e.buf, '[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			e.buf = append(e.buf, ',')
		}
		e.value(t.GetInt(i), depth, slots+1)
	}
	e.buf = append(e.buf, ']')
}

// length answers the highest index of an array, and nothing positive for what is an object. It counts in 32 bits, as Redis does: an
// index beyond them makes an object.
func (e *jsonEncoder) length(t *lua.Table) int {
	highest, items := int32(0), int32(0)
	for k, _, _ := t.Next(lua.Nil); !k.IsNil(); k, _, _ = t.Next(k) {
		e.st.work(e.L, 1)
		v, ok := k.Float()
		if !ok || v < 1 || v != math.Floor(v) {
			return -1
		}
		if v > float64(highest) {
			highest = math.MinInt32
			if v <= math.MaxInt32 {
				highest = int32(v)
			}
		}
		items++
	}
	c := e.config
	if c.sparseRatio > 0 && highest > items*int32(c.sparseRatio) && int(highest) > c.sparseSafe {
		if c.sparseConvert == 0 {
			e.refuse(lua.KindTable, "excessively sparse array")
		}
		return -1
	}
	return int(highest)
}

func (e *jsonEncoder) object(t *lua.Table, depth, slots int) {
	e.buf = append(e.buf, '{')
	first := true
	for k, v, _ := t.Next(lua.Nil); !k.IsNil(); k, v, _ = t.Next(k) {
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		if number, ok := k.Float(); ok {
			e.buf = append(e.buf, '"')
			e.number(number)
			e.buf = append(e.buf, '"')
		} else if text, ok := k.Text(); ok {
			e.text(text)
		} else {
			e.refuse(k.Kind(), "table key must be a number or string")
		}
		e.buf = append(e.buf, ':')
		e.value(v, depth, slots+2)
	}
	e.buf = append(e.buf, '}')
}

func (e *jsonEncoder) number(v float64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		switch {
		case e.config.encodeInvalid == invalidRefused:
			e.refuse(lua.KindNumber, "must not be NaN or Inf")
		case e.config.encodeInvalid == invalidNull:
			e.buf = append(e.buf, "null"...)
		case math.IsNaN(v):
			e.buf = append(e.buf, "nan"...)
		default:
			e.buf = lua.AppendNumber(e.buf, v, lua.TextDigits)
		}
		return
	}
	if e.config.precision < lua.TextDigits {
		// Integers may be longer than the precision.
		e.buf = lua.AppendGeneral(e.buf, v, e.config.precision, false)
		return
	}
	e.buf = lua.AppendNumber(e.buf, v, e.config.precision)
}

// text quotes a string. Bytes that are no UTF-8 pass unchanged.
func (e *jsonEncoder) text(s string) {
	e.buf = append(e.buf, '"')
	plain, checked := 0, 0 // plain is where the bytes begin that need no escape and are not copied yet
	for i := range len(s) {
		if i-checked >= escapeRun {
			e.buf = append(e.buf, s[plain:i]...)
			plain, checked = i, i
			e.check()
		}
		c := s[i]
		if c >= ' ' && c != '"' && c != '/' && c != '\\' && c != 0x7f {
			continue
		}
		e.buf = append(e.buf, s[plain:i]...)
		plain = i + 1
		e.escape(c)
	}
	e.buf = append(append(e.buf, s[plain:]...), '"')
}

// escapeRun is how many bytes of a string are quoted between looks at the limit.
const escapeRun = 4096

func (e *jsonEncoder) escape(c byte) {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '/', '\\':
		e.buf = append(e.buf, '\\', c)
	case '\b':
		e.buf = append(e.buf, '\\', 'b')
	case '\t':
		e.buf = append(e.buf, '\\', 't')
	case '\n':
		e.buf = append(e.buf, '\\', 'n')
	case '\f':
		e.buf = append(e.buf, '\\', 'f')
	case '\r':
		e.buf = append(e.buf, '\\', 'r')
	default:
		e.buf = append(e.buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
	}
}
