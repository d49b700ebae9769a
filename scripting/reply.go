package scripting

import (
	"bytes"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxReplyDepth bounds how deep a script's reply may nest; the reference implementation runs out of stack there.
const maxReplyDepth = 7995

// appendError encodes an error; it stands on one line.
func appendError(dst []byte, text string) []byte {
	return appendLine(append(dst, '-'), strings.Trim(text, "\r\n"))
}

// oneLine replaces line ends by spaces.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// appendLine appends a line, whose own line ends become spaces.
func appendLine(dst []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\r', '\n')
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

func appendBulk(dst []byte, text string) []byte {
	dst = appendHeader(dst, '$', len(text))
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

func appendNull(dst []byte, proto int) []byte {
	if proto == 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// appendReply encodes what a script returned for a client of the protocol version, unless it is killed meanwhile or the reply is
// larger than a string may be: a small table that is in itself many times over has no end.
func (st *state) appendReply(dst []byte, v lua.LValue, name string, proto int) (reply []byte, failed bool) {
	mark := len(dst)
	st.replyEnd = mark + st.e.opts.MaxStringBytes
	dst = st.appendValue(dst, v, proto, 0)
	switch {
	case st.stopped:
		return appendError(dst[:mark], st.stop.Error()+" script: "+name), true
	case len(dst) > st.replyEnd:
		return appendError(dst[:mark], "ERR the script's reply is too large"), true
	}
	return dst, false
}

func (st *state) appendValue(dst []byte, v lua.LValue, proto, depth int) []byte {
	if st.Done() != nil || len(dst) > st.replyEnd {
		return dst
	}
	if depth >= maxReplyDepth {
		return appendError(dst, "ERR reached lua stack limit")
	}
	switch x := v.(type) {
	case lua.LString:
		return appendBulk(dst, string(x))
	case lua.LNumber:
		return appendHeader(dst, ':', toInt(float64(x)))
	case lua.LBool:
		return st.appendBool(dst, bool(x), proto)
	case *lua.LTable:
		return st.appendTable(dst, st.view(x), proto, depth)
	}
	return appendNull(dst, proto)
}

// appendBool encodes true as 1 and false as null, unless the script has chosen RESP3, which has booleans.
func (st *state) appendBool(dst []byte, v bool, proto int) []byte {
	switch {
	case st.resp == 3 && proto == 3 && v:
		return append(dst, "#t\r\n"...)
	case st.resp == 3 && proto == 3:
		return append(dst, "#f\r\n"...)
	case v:
		return append(dst, ":1\r\n"...)
	case st.resp == 3:
		return append(dst, ":0\r\n"...)
	}
	return appendNull(dst, proto)
}

// appendTable encodes a table by the field that gives it a meaning, or as an array up to its first nil.
func (st *state) appendTable(dst []byte, t *lua.LTable, proto, depth int) []byte {
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return appendError(dst, string(text))
	}
	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return appendLine(append(dst, '+'), string(text))
	}
	if v, ok := t.RawGetString("double").(lua.LNumber); ok {
		return appendDouble(dst, float64(v), proto)
	}
	if m, ok := t.RawGetString("map").(*lua.LTable); ok {
		return st.appendMap(dst, st.view(m), proto, depth)
	}
	if s, ok := t.RawGetString("set").(*lua.LTable); ok {
		return st.appendSet(dst, st.view(s), proto, depth)
	}
	if text, ok := t.RawGetString("big_number").(lua.LString); ok {
		if proto == 3 {
			return appendLine(append(dst, '('), string(text))
		}
		return appendBulk(dst, oneLine.Replace(string(text)))
	}
	if v, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		text, isText := v.RawGetString("string").(lua.LString)
		format, isFormat := v.RawGetString("format").(lua.LString)
		if isText && isFormat {
			return appendVerbatim(dst, string(text), string(format), proto)
		}
	}
	n := 0
	for t.RawGetInt(n+1) != lua.LNil {
		n++
	}
	dst = appendHeader(dst, '*', n)
	for i := 1; i <= n; i++ {
		dst = st.appendValue(dst, t.RawGetInt(i), proto, depth+1)
	}
	return dst
}

func appendDouble(dst []byte, v float64, proto int) []byte {
	text := string(appendNumber(nil, v, argumentDigits))
	if proto == 3 {
		return appendLine(append(dst, ','), text)
	}
	return appendBulk(dst, text)
}

func (st *state) appendMap(dst []byte, m *lua.LTable, proto, depth int) []byte {
	n := 0
	for k, _ := m.Next(lua.LNil); k != lua.LNil; k, _ = m.Next(k) {
		n++
	}
	if proto == 3 {
		dst = appendHeader(dst, '%', n)
	} else {
		dst = appendHeader(dst, '*', 2*n)
	}
	for k, v := m.Next(lua.LNil); k != lua.LNil; k, v = m.Next(k) {
		dst = st.appendValue(dst, k, proto, depth+1)
		dst = st.appendValue(dst, v, proto, depth+1)
	}
	return dst
}

func (st *state) appendSet(dst []byte, s *lua.LTable, proto, depth int) []byte {
	n := 0
	for k, _ := s.Next(lua.LNil); k != lua.LNil; k, _ = s.Next(k) {
		n++
	}
	kind := byte('*')
	if proto == 3 {
		kind = '~'
	}
	dst = appendHeader(dst, kind, n)
	for k, _ := s.Next(lua.LNil); k != lua.LNil; k, _ = s.Next(k) {
		dst = st.appendValue(dst, k, proto, depth+1)
	}
	return dst
}

func appendVerbatim(dst []byte, text, format string, proto int) []byte {
	if proto != 3 {
		return appendBulk(dst, text)
	}
	format = (format + "   ")[:3]
	dst = appendHeader(dst, '=', len(text)+4)
	dst = append(dst, format...)
	dst = append(dst, ':')
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

// replyReader turns an encoded reply into Lua values.
type replyReader struct {
	st  *state
	L   *lua.LState
	buf []byte
}

func (st *state) parseReply(L *lua.LState, reply []byte) lua.LValue {
	st.release(0)
	r := replyReader{st, L, reply}
	return r.value()
}

// line cuts the next line off. The encoder is ours, so a malformed reply is a broken invariant.
func (r *replyReader) line() []byte {
	i := bytes.IndexByte(r.buf, '\r')
	if i < 0 || i+1 >= len(r.buf) {
		panic("scripting: a command's reply is cut off")
	}
	line := r.buf[:i]
	r.buf = r.buf[i+2:]
	return line
}

func (r *replyReader) blob(n int) []byte {
	blob := r.buf[:n]
	r.buf = r.buf[n+2:]
	return blob
}

func (r *replyReader) field(name string, v lua.LValue) lua.LValue {
	t := r.L.CreateTable(0, 1)
	t.RawSetString(name, v)
	return t
}

func (r *replyReader) value() lua.LValue {
	line := r.line()
	switch kind, rest := line[0], line[1:]; kind {
	case '$':
		n := decimal(rest)
		if n < 0 {
			return lua.LFalse
		}
		return lua.LString(r.blob(n))
	case ':':
		return lua.LNumber(decimal(rest))
	case '+':
		return r.field("ok", lua.LString(rest))
	case '-':
		t := r.st.errorTable(string(line))
		t.RawSetString("ignore_error_stats_update", lua.LTrue)
		return t
	case '*', '>':
		return r.array(decimal(rest))
	case '_':
		return lua.LNil
	case '#':
		return lua.LBool(rest[0] == 't')
	case ',':
		v, _ := toNumber(lua.LString(rest))
		return r.field("double", lua.LNumber(v))
	case '(':
		return r.field("big_number", lua.LString(rest))
	case '%':
		return r.field("map", r.pairs(decimal(rest)))
	case '~':
		return r.field("set", r.members(decimal(rest)))
	case '=':
		blob := r.blob(decimal(rest))
		t := r.L.CreateTable(0, 2)
		t.RawSetString("string", lua.LString(blob[4:]))
		t.RawSetString("format", lua.LString(blob[:3]))
		return r.field("verbatim_string", t)
	}
	panic("scripting: a command's reply has an unknown type")
}

func (r *replyReader) array(n int) lua.LValue {
	if n < 0 {
		return lua.LFalse
	}
	t := r.L.CreateTable(n, 0)
	mark := r.st.hold(t)
	for i := 1; i <= n; i++ {
		r.st.work(r.L, 1)
		if v := r.value(); v != lua.LNil {
			t.RawSetInt(i, v)
		}
	}
	r.st.release(mark)
	return t
}

func (r *replyReader) pairs(n int) *lua.LTable {
	t := r.L.CreateTable(0, n)
	mark := r.st.hold(t)
	for range n {
		r.st.work(r.L, 1)
		k := r.value()
		t.RawSet(k, r.value())
	}
	r.st.release(mark)
	return t
}

func (r *replyReader) members(n int) *lua.LTable {
	t := r.L.CreateTable(0, n)
	mark := r.st.hold(t)
	for range n {
		r.st.work(r.L, 1)
		t.RawSet(r.value(), lua.LTrue)
	}
	r.st.release(mark)
	return t
}

// decimal reads an integer that our own encoder wrote.
func decimal(text []byte) int {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	n := 0
	for _, c := range text {
		n = n*10 + int(c-'0')
	}
	if negative {
		return -n
	}
	return n
}
