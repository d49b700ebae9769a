package scripting

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

func (j *jsonLibrary) encode(L *lua.LState) int {
	if L.GetTop() != 1 {
		argError(L, 1, "expected 1 argument")
	}
	e := jsonEncoder{j.st.newOutput(L), &j.config}
	e.value(L.Get(1), 0, 1)
	return e.push()
}

type jsonEncoder struct {
	output
	config *jsonConfig
}

// value encodes a value within depth tables. slots is what the reference implementation's stack holds at this point.
func (e *jsonEncoder) value(v lua.LValue, depth, slots int) {
	e.st.work(e.L, 1)
	switch x := v.(type) {
	case lua.LString:
		e.text(string(x))
	case lua.LNumber:
		e.number(x)
	case lua.LBool:
		if x {
			e.buf = append(e.buf, "true"...)
		} else {
			e.buf = append(e.buf, "false"...)
		}
	case *lua.LTable:
		depth++
		if depth > e.config.encodeDepth || slots+3 > maxSlots {
			raise(e.L, "Cannot serialise, excessive nesting (%d)", depth)
		}
		e.table(e.st.view(x), depth, slots)
	case *lua.LNilType, *lua.LUserData: // the only user data is cjson.null
		e.buf = append(e.buf, "null"...)
	default:
		e.refuse(v, "type not supported")
	}
	e.check()
}

func (e *jsonEncoder) refuse(v lua.LValue, reason string) {
	raise(e.L, "Cannot serialise %s: %s", typeName(v), reason)
}

func (e *jsonEncoder) table(t *lua.LTable, depth, slots int) {
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
		e.value(t.RawGet(lua.LNumber(i)), depth, slots+1)
	}
	e.buf = append(e.buf, ']')
}

// length answers the highest index of an array, and nothing positive for what is an object. It counts in 32 bits, as Redis does: an
// index beyond them makes an object.
func (e *jsonEncoder) length(t *lua.LTable) int {
	highest, items := int32(0), int32(0)
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		e.st.work(e.L, 1)
		v, ok := k.(lua.LNumber)
		if !ok || v < 1 || float64(v) != math.Floor(float64(v)) {
			return -1
		}
		if float64(v) > float64(highest) {
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
			e.refuse(t, "excessively sparse array")
		}
		return -1
	}
	return int(highest)
}

func (e *jsonEncoder) object(t *lua.LTable, depth, slots int) {
	e.buf = append(e.buf, '{')
	first := true
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		switch x := k.(type) {
		case lua.LNumber:
			e.buf = append(e.buf, '"')
			e.number(x)
			e.buf = append(e.buf, '"')
		case lua.LString:
			e.text(string(x))
		default:
			e.refuse(k, "table key must be a number or string")
		}
		e.buf = append(e.buf, ':')
		e.value(v, depth, slots+2)
	}
	e.buf = append(e.buf, '}')
}

func (e *jsonEncoder) number(v lua.LNumber) {
	f := float64(v)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		switch {
		case e.config.encodeInvalid == invalidRefused:
			e.refuse(v, "must not be NaN or Inf")
		case e.config.encodeInvalid == invalidNull:
			e.buf = append(e.buf, "null"...)
		case math.IsNaN(f):
			e.buf = append(e.buf, "nan"...)
		default:
			e.buf = append(e.buf, specialText(f)...)
		}
		return
	}
	if e.config.precision < textDigits {
		// Integers may be longer than the precision.
		e.buf = appendGeneral(e.buf, f, e.config.precision, false)
		return
	}
	e.buf = appendNumber(e.buf, f, e.config.precision)
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
