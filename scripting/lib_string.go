package scripting

import (
	"strings"

	"codeq/scripting/lua"
)

func (st *state) stringLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{
		"byte": stringByte,
		"char": st.stringChar,
		"dump": func(L *lua.Thread) int {
			checkFunction(L, 1)
			L.Raise("unable to dump given function")
			return 0
		},
		"find":    func(L *lua.Thread) int { return st.find(L, true) },
		"format":  st.format,
		"gfind":   st.gmatch,
		"gmatch":  st.gmatch,
		"gsub":    st.gsub,
		"len":     func(L *lua.Thread) int { return pushNumber(L, float64(len(checkString(L, 1)))) },
		"lower":   func(L *lua.Thread) int { return st.mapBytes(L, 'A', 'Z') },
		"upper":   func(L *lua.Thread) int { return st.mapBytes(L, 'a', 'z') },
		"match":   func(L *lua.Thread) int { return st.find(L, false) },
		"rep":     st.stringRep,
		"reverse": st.stringReverse,
		"sub":     st.stringSub,
	}
}

// sharedSource is the length of strings that parts may keep in memory, of which only the part's own length counts as held.
const sharedSource = 64

// substring is a part of a string of so many bytes, as a value. It shares the bytes unless that would keep much else in memory.
func (st *state) substring(L *lua.Thread, part string, source int) lua.Value {
	if source > sharedSource && len(part) < source/2 {
		st.reserve(L, len(part))
		part = strings.Clone(part)
	}
	return lua.String(part)
}

// position turns a position that may count from the end into one from the start.
func position(i, length int) int {
	if i < 0 {
		i += length + 1
	}
	return max(i, 0)
}

func stringByte(L *lua.Thread) int {
	s := checkString(L, 1)
	first := position(optLong(L, 2, 1), len(s))
	last := position(optLong(L, 3, first), len(s))
	first, last = max(first, 1), min(last, len(s))
	if first > last {
		return 0
	}
	n := last - first + 1
	checkSlots(L, L.Top(), n, "string slice too long")
	for i := first - 1; i < last; i++ {
		L.Push(lua.Number(float64(s[i])))
	}
	return n
}

func (st *state) stringChar(L *lua.Thread) int {
	out := st.newOutput(L)
	for i := 1; i <= L.Top(); i++ {
		c := checkInt(L, i)
		if c < 0 || c > 255 {
			argError(L, i, "invalid value")
		}
		out.buf = append(out.buf, byte(c))
	}
	return out.push()
}

// mapBytes changes the case of the letters in a range.
func (st *state) mapBytes(L *lua.Thread, from, to byte) int {
	s := checkString(L, 1)
	st.work(L, len(s)/bytesPerStep)
	same := 0
	for same < len(s) && (s[same] < from || s[same] > to) {
		same++
	}
	if same == len(s) {
		L.Push(lua.String(s))
		return 1
	}
	out := st.newOutput(L)
	out.room(len(s))
	out.buf = append(out.buf, s...)
	for i, c := range out.buf[same:] {
		if c >= from && c <= to {
			out.buf[same+i] = c ^ 0x20
		}
	}
	return out.push()
}

func (st *state) stringRep(L *lua.Thread) int {
	s := checkString(L, 1)
	n := checkInt(L, 2)
	if n <= 0 || s == "" {
		L.Push(lua.String(""))
		return 1
	}
	if n > st.e.opts.MaxStringBytes/len(s) {
		L.Raise("resulting string too large")
	}
	st.reserve(L, n*len(s))
	L.Push(lua.String(strings.Repeat(s, n)))
	return 1
}

func (st *state) stringReverse(L *lua.Thread) int {
	s := checkString(L, 1)
	out := st.newOutput(L)
	out.room(len(s))
	out.buf = append(out.buf, s...)
	reverse(out.buf)
	return out.push()
}

func (st *state) stringSub(L *lua.Thread) int {
	s := checkString(L, 1)
	first := max(position(checkLong(L, 2), len(s)), 1)
	last := min(position(optLong(L, 3, -1), len(s)), len(s))
	if first > last {
		first, last = 1, 0
	}
	L.Push(st.substring(L, s[first-1:last], len(s)))
	return 1
}

// find is string.find and string.match.
func (st *state) find(L *lua.Thread, find bool) int {
	s, p := checkString(L, 1), checkString(L, 2)
	init := position(optLong(L, 3, 1), len(s)) - 1
	init = min(max(init, 0), len(s))
	if find && (L.Arg(4).Truth() || plain(p)) {
		st.work(L, len(s)/bytesPerStep)
		i := strings.Index(s[init:], p)
		if i < 0 {
			L.Push(lua.Nil)
			return 1
		}
		L.Push(lua.Number(float64(init + i + 1)))
		L.Push(lua.Number(float64(init + i + len(p))))
		return 2
	}
	m := matcher{st: st, L: L, src: s}
	m.compile(p, true)
	start, end := m.search(init)
	if start < 0 {
		L.Push(lua.Nil)
		return 1
	}
	if !find {
		return m.push(start, end, true)
	}
	L.Push(lua.Number(float64(start + 1)))
	L.Push(lua.Number(float64(end)))
	return m.push(start, end, false) + 2
}

func (st *state) gmatch(L *lua.Thread) int {
	s, p := checkString(L, 1), checkString(L, 2)
	at := 0
	next := func(L *lua.Thread) int {
		m := matcher{st: st, L: L, src: s}
		m.compile(p, false)
		start, end := m.search(at)
		if start < 0 {
			at = len(s) + 1
			return 0
		}
		at = max(end, start+1)
		return m.push(start, end, true)
	}
	L.Push(lua.NewFunction(next, lua.String(s), lua.String(p)).Value())
	return 1
}

func (st *state) gsub(L *lua.Thread) int {
	s, p := checkString(L, 1), checkString(L, 2)
	most := optInt(L, 4, len(s)+1)
	r := replacement{value: L.Arg(3)}
	switch r.value.Kind() {
	case lua.KindNumber, lua.KindString:
		r.text, _ = r.value.ToText()
	case lua.KindTable, lua.KindFunction:
	default:
		argError(L, 3, "string/function/table expected")
	}
	m := matcher{st: st, L: L, src: s}
	m.compile(p, true)
	out := st.newOutput(L)
	at, copied, n := 0, 0, 0 // where to go on, what of the subject has been written, and how many matches
	for at <= len(s) && n < most {
		start, end := m.search(at)
		if start < 0 {
			break
		}
		n++
		out.buf = append(out.buf, s[copied:start]...)
		r.write(&m, &out, start, end)
		out.check()
		copied, at = end, max(end, start+1)
		if m.anchored {
			break
		}
	}
	if n == 0 {
		L.Push(lua.String(s))
		st.keepScratch(out.buf)
	} else {
		out.room(len(s) - copied)
		out.buf = append(out.buf, s[copied:]...)
		out.push()
	}
	L.Push(lua.Number(float64(n)))
	return 2
}

// replacement is what gsub puts in place of matches.
type replacement struct {
	value lua.Value
	text  string // of a string or number
}

// write writes what stands for one match.
func (r *replacement) write(m *matcher, out *output, s, e int) {
	L := m.L
	var v lua.Value
	switch r.value.Kind() {
	case lua.KindFunction:
		L.Push(r.value)
		n := m.push(s, e, true)
		L.Call(n, 1)
		v = L.Pop()
	case lua.KindTable:
		v = L.Index(r.value, m.value(0, s, e))
	default:
		r.expand(m, out, s, e)
		return
	}
	if !v.Truth() {
		out.buf = append(out.buf, m.src[s:e]...)
		return
	}
	text, ok := v.ToText()
	if !ok {
		L.Raise("invalid replacement value (a %s)", v.Kind())
	}
	out.room(len(text))
	out.buf = append(out.buf, text...)
}

// expand writes a replacement string, in which %1 stands for a capture.
func (r *replacement) expand(m *matcher, out *output, s, e int) {
	text := r.text
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			break
		}
		out.buf = append(out.buf, text[:i]...)
		c := byte(0) // for a sign at the end, as in Redis
		if text = text[i+1:]; text != "" {
			c, text = text[0], text[1:]
		}
		switch {
		case !isDigit(c):
			out.buf = append(out.buf, c)
		case c == '0':
			out.buf = append(out.buf, m.src[s:e]...)
		default:
			out.buf = m.appendValue(out.buf, int(c-'1'), s, e)
		}
		out.check()
	}
	out.buf = append(out.buf, text...)
}
