package scripting

import (
	"bytes"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (st *state) stringLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"byte": stringByte,
		"char": stringChar,
		"dump": func(L *lua.LState) int {
			checkFunction(L, 1)
			raise(L, "unable to dump given function")
			return 0
		},
		"find":   func(L *lua.LState) int { return st.find(L, true) },
		"format": st.format,
		"gfind":  st.gmatch,
		"gmatch": st.gmatch,
		"gsub":   st.gsub,
		"len": func(L *lua.LState) int {
			return pushNumber(L, float64(len(checkString(L, 1))))
		},
		"lower":   func(L *lua.LState) int { return st.mapBytes(L, 'A', 'Z') },
		"upper":   func(L *lua.LState) int { return st.mapBytes(L, 'a', 'z') },
		"match":   func(L *lua.LState) int { return st.find(L, false) },
		"rep":     st.stringRep,
		"reverse": st.stringReverse,
		"sub":     stringSub,
	}
}

// position turns a position that may count from the end into one from the start.
func position(i, length int) int {
	if i < 0 {
		i += length + 1
	}
	return max(i, 0)
}

func stringByte(L *lua.LState) int {
	s := checkString(L, 1)
	first := position(optInt(L, 2, 1), len(s))
	last := position(optInt(L, 3, first), len(s))
	first, last = max(first, 1), min(last, len(s))
	if first > last {
		return 0
	}
	n := last - first + 1
	if n+L.GetTop() > maxResults {
		raise(L, "stack overflow (string slice too long)")
	}
	for i := first - 1; i < last; i++ {
		L.Push(lua.LNumber(s[i]))
	}
	return n
}

func stringChar(L *lua.LState) int {
	buf := make([]byte, 0, L.GetTop())
	for i := 1; i <= L.GetTop(); i++ {
		c := checkInt(L, i)
		if c < 0 || c > 255 {
			argError(L, i, "invalid value")
		}
		buf = append(buf, byte(c))
	}
	L.Push(lua.LString(buf))
	return 1
}

func (st *state) mapBytes(L *lua.LState, from, to byte) int {
	s := checkString(L, 1)
	st.reserve(L, len(s))
	buf := []byte(s)
	for i, c := range buf {
		if c >= from && c <= to {
			buf[i] = c ^ 0x20
		}
	}
	L.Push(lua.LString(buf))
	return 1
}

func (st *state) stringRep(L *lua.LState) int {
	s := checkString(L, 1)
	n := checkInt(L, 2)
	if n <= 0 || s == "" {
		L.Push(lua.LString(""))
		return 1
	}
	if n > st.e.opts.MaxStringBytes/len(s) {
		raise(L, "resulting string too large")
	}
	st.reserve(L, n*len(s))
	L.Push(lua.LString(strings.Repeat(s, n)))
	return 1
}

func (st *state) stringReverse(L *lua.LState) int {
	s := checkString(L, 1)
	st.reserve(L, len(s))
	buf := make([]byte, len(s))
	for i := range len(s) {
		buf[len(s)-1-i] = s[i]
	}
	L.Push(lua.LString(buf))
	return 1
}

func stringSub(L *lua.LState) int {
	s := checkString(L, 1)
	first := max(position(checkInt(L, 2), len(s)), 1)
	last := min(position(optInt(L, 3, -1), len(s)), len(s))
	if first > last {
		L.Push(lua.LString(""))
		return 1
	}
	L.Push(lua.LString(s[first-1 : last]))
	return 1
}

// find is string.find and string.match.
func (st *state) find(L *lua.LState, find bool) int {
	s, p := checkString(L, 1), checkString(L, 2)
	init := position(optInt(L, 3, 1), len(s)) - 1
	init = min(max(init, 0), len(s))
	if find && (lua.LVAsBool(L.Get(4)) || plain(p)) {
		st.work(L, len(s)/64)
		i := strings.Index(s[init:], p)
		if i < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(init + i + 1))
		L.Push(lua.LNumber(init + i + len(p)))
		return 2
	}
	anchor := strings.HasPrefix(p, "^")
	m := &matcher{st: st, L: L, src: s, pat: strings.TrimPrefix(p, "^")}
	for i := init; i <= len(s); i++ {
		m.level = 0
		if e := m.match(i, 0); e >= 0 {
			if !find {
				return m.push(i, e, true)
			}
			L.Push(lua.LNumber(i + 1))
			L.Push(lua.LNumber(e))
			return m.push(i, e, false) + 2
		}
		if anchor {
			break
		}
	}
	L.Push(lua.LNil)
	return 1
}

func (st *state) gmatch(L *lua.LState) int {
	s, p := checkString(L, 1), checkString(L, 2)
	at := 0
	next := func(L *lua.LState) int {
		m := &matcher{st: st, L: L, src: s, pat: p}
		for i := at; i <= len(s); i++ {
			m.level = 0
			if e := m.match(i, 0); e >= 0 {
				at = e
				if e == i {
					at++
				}
				return m.push(i, e, true)
			}
		}
		at = len(s) + 1
		return 0
	}
	L.Push(L.NewClosure(next, lua.LString(s))) // as an upvalue, so that it is counted with what the run holds
	return 1
}

func (st *state) gsub(L *lua.LState) int {
	s, p := checkString(L, 1), checkString(L, 2)
	replacement := L.Get(3)
	switch replacement.Type() {
	case lua.LTNumber, lua.LTString, lua.LTTable, lua.LTFunction:
	default:
		argError(L, 3, "string/function/table expected")
	}
	most := optInt(L, 4, len(s)+1)
	anchor := strings.HasPrefix(p, "^")
	m := &matcher{st: st, L: L, src: s, pat: strings.TrimPrefix(p, "^")}
	var out bytes.Buffer
	at, n := 0, 0
	for n < most {
		m.level = 0
		e := m.match(at, 0)
		if e >= 0 {
			n++
			st.substitute(m, &out, replacement, at, e)
		}
		switch {
		case e > at:
			at = e
		case at < len(s):
			out.WriteByte(s[at])
			at++
		default:
			at = len(s) + 1
		}
		if anchor || at > len(s) {
			break
		}
	}
	if at < len(s) {
		out.WriteString(s[at:])
	}
	st.reserve(L, out.Len())
	L.Push(lua.LString(out.String()))
	L.Push(lua.LNumber(n))
	return 2
}

// substitute writes what stands for one match.
func (st *state) substitute(m *matcher, out *bytes.Buffer, replacement lua.LValue, s, e int) {
	L, before := m.L, out.Len()
	var v lua.LValue
	switch r := replacement.(type) {
	case *lua.LFunction:
		L.Push(r)
		n := m.push(s, e, true)
		L.Call(n, 1)
		v = L.Get(-1)
		L.Pop(1)
	case *lua.LTable:
		v = L.GetTable(r, m.value(0, s, e))
	default:
		text, _ := toText(replacement)
		expand(m, out, text, s, e)
		st.grow(L, out.Len(), out.Len()-before)
		return
	}
	if lua.LVIsFalse(v) {
		out.WriteString(m.src[s:e])
		return
	}
	text, ok := toText(v)
	if !ok {
		raise(L, "invalid replacement value (a %s)", typeName(v))
	}
	out.WriteString(text)
	st.grow(L, out.Len(), out.Len()-before)
}

// expand writes a replacement string, in which %1 stands for a capture.
func expand(m *matcher, out *bytes.Buffer, text string, s, e int) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.WriteByte(text[i])
			continue
		}
		i++
		switch {
		case i >= len(text):
			out.WriteByte(0)
		case text[i] < '0' || text[i] > '9':
			out.WriteByte(text[i])
		case text[i] == '0':
			out.WriteString(m.src[s:e])
		default:
			v, _ := toText(m.value(int(text[i]-'1'), s, e))
			out.WriteString(v)
		}
	}
}
