package scripting

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"codeq/scripting/lua"
)

// maxReplyDepth bounds how deep a script's reply may nest; the reference implementation runs out of stack there.
const maxReplyDepth = 7995

// appendError encodes an error, which consists of these parts; it stands on one line. The parts are put together here, for one may be as
// large as a string can be.
func appendError(dst []byte, parts ...string) []byte {
	n := len("-\r\n")
	for _, part := range parts {
		n += len(part)
	}
	dst = append(slices.Grow(dst, n), '-')
	mark := len(dst)
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return endLine(dst[:mark+len(bytes.TrimRight(dst[mark:], "\r\n"))], mark)
}

// oneLine replaces line ends by spaces.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// appendLine appends a line, whose own line ends become spaces.
func appendLine(dst []byte, text string) []byte {
	mark := len(dst)
	dst = slices.Grow(dst, len(text)+len("\r\n"))
	return endLine(append(dst, text...), mark)
}

// endLine ends the line that begins at the mark.
func endLine(dst []byte, mark int) []byte {
	for i, c := range dst[mark:] {
		if c == '\r' || c == '\n' {
			dst[mark+i] = ' '
		}
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
func (st *state) appendReply(dst []byte, v lua.Value, name string, proto int) (reply []byte, failed bool) {
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

func (st *state) appendValue(dst []byte, v lua.Value, proto, depth int) []byte {
	if st.rt.Due(1) && st.mustStop() || len(dst) > st.replyEnd {
		return dst
	}
	if depth >= maxReplyDepth {
		return appendError(dst, "ERR reached lua stack limit")
	}
	switch v.Kind() {
	case lua.KindString:
		text, _ := v.Text()
		return appendBulk(dst, text)
	case lua.KindNumber:
		number, _ := v.Float()
		return appendHeader(dst, ':', lua.ToInt(number))
	case lua.KindBool:
		return st.appendBool(dst, v.Truth(), proto)
	case lua.KindTable:
		return st.appendTable(dst, v.Table(), proto, depth)
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
func (st *state) appendTable(dst []byte, t *lua.Table, proto, depth int) []byte {
	if text, ok := t.GetText("err").Text(); ok {
		return appendError(dst, text)
	}
	if text, ok := t.GetText("ok").Text(); ok {
		return appendLine(append(dst, '+'), text)
	}
	if v, ok := t.GetText("double").Float(); ok {
		return appendDouble(dst, v, proto)
	}
	if m := t.GetText("map").Table(); m != nil {
		return st.appendMap(dst, m, proto, depth)
	}
	if s := t.GetText("set").Table(); s != nil {
		return st.appendSet(dst, s, proto, depth)
	}
	if text, ok := t.GetText("big_number").Text(); ok {
		if proto == 3 {
			return appendLine(append(dst, '('), text)
		}
		return appendBulk(dst, oneLine.Replace(text))
	}
	if v := t.GetText("verbatim_string").Table(); v != nil {
		text, isText := v.GetText("string").Text()
		format, isFormat := v.GetText("format").Text()
		if isText && isFormat {
			return appendVerbatim(dst, text, format, proto)
		}
	}
	n := 0
	for !t.GetInt(n + 1).IsNil() {
		n++
	}
	dst = appendHeader(dst, '*', n)
	for i := 1; i <= n; i++ {
		dst = st.appendValue(dst, t.GetInt(i), proto, depth+1)
	}
	return dst
}

func appendDouble(dst []byte, v float64, proto int) []byte {
	text := string(lua.AppendNumber(nil, v, lua.ArgumentDigits))
	if proto == 3 {
		return appendLine(append(dst, ','), text)
	}
	return appendBulk(dst, text)
}

func (st *state) appendMap(dst []byte, m *lua.Table, proto, depth int) []byte {
	if n := countFields(m); proto == 3 {
		dst = appendHeader(dst, '%', n)
	} else {
		dst = appendHeader(dst, '*', 2*n)
	}
	for k, v, _ := m.Next(lua.Nil); !k.IsNil(); k, v, _ = m.Next(k) {
		dst = st.appendValue(dst, k, proto, depth+1)
		dst = st.appendValue(dst, v, proto, depth+1)
	}
	return dst
}

func (st *state) appendSet(dst []byte, s *lua.Table, proto, depth int) []byte {
	kind := byte('*')
	if proto == 3 {
		kind = '~'
	}
	dst = appendHeader(dst, kind, countFields(s))
	for k, _, _ := s.Next(lua.Nil); !k.IsNil(); k, _, _ = s.Next(k) {
		dst = st.appendValue(dst, k, proto, depth+1)
	}
	return dst
}

func countFields(t *lua.Table) int {
	n := 0
	for k, _, _ := t.Next(lua.Nil); !k.IsNil(); k, _, _ = t.Next(k) {
		n++
	}
	return n
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
	L   *lua.Thread
	buf []byte
}

func (st *state) parseReply(L *lua.Thread, reply []byte) lua.Value {
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

func (r *replyReader) value() lua.Value {
	line := r.line()
	switch kind, rest := line[0], line[1:]; kind {
	case '$':
		n := decimal(rest)
		if n < 0 {
			return lua.False
		}
		return lua.String(string(r.blob(n)))
	case ':':
		return lua.Number(float64(decimal(rest)))
	case '+':
		return field("ok", statusText(rest)).Value()
	case '-':
		t := errorTable(string(line))
		t.SetText("ignore_error_stats_update", lua.True)
		return t.Value()
	case '*', '>':
		return r.array(decimal(rest))
	case '_':
		return lua.Nil
	case '#':
		return lua.Bool(rest[0] == 't')
	case ',':
		v, _ := lua.ParseNumber(string(rest))
		return field("double", lua.Number(v)).Value()
	case '(':
		return field("big_number", lua.String(string(rest))).Value()
	case '%':
		return field("map", r.pairs(decimal(rest))).Value()
	case '~':
		return field("set", r.members(decimal(rest))).Value()
	case '=':
		blob := r.blob(decimal(rest))
		t := lua.NewTable(0, 2)
		t.SetText("string", lua.String(string(blob[4:])))
		t.SetText("format", lua.String(string(blob[:3])))
		return field("verbatim_string", t.Value()).Value()
	}
	panic("scripting: a command's reply has an unknown type")
}

// statusText is a status as a value. Most are the same.
func statusText(status []byte) lua.Value {
	if string(status) == "OK" {
		return lua.String("OK")
	}
	return lua.String(string(status))
}

func (r *replyReader) array(n int) lua.Value {
	if n < 0 {
		return lua.False
	}
	t := lua.NewList(n)
	if r.st.resp == 3 {
		t = lua.NewTable(0, 0) // what is nil has no place, so the table grows as it happens
	}
	mark := r.st.hold(t.Value())
	for i := 1; i <= n; i++ {
		r.st.work(r.L, 1)
		t.SetInt(i, r.value())
	}
	r.st.release(mark)
	return t.Value()
}

// key reads a value that is one of a table.
func (r *replyReader) key() lua.Value {
	k := r.value()
	checkKey(r.L, k)
	return k
}

func (r *replyReader) pairs(n int) lua.Value {
	t := lua.NewTable(0, 0)
	mark := r.st.hold(t.Value())
	for range n {
		r.st.work(r.L, 1)
		k := r.key()
		t.Set(k, r.value())
	}
	r.st.release(mark)
	return t.Value()
}

func (r *replyReader) members(n int) lua.Value {
	t := lua.NewTable(0, 0)
	mark := r.st.hold(t.Value())
	for range n {
		r.st.work(r.L, 1)
		t.Set(r.key(), lua.True)
	}
	r.st.release(mark)
	return t.Value()
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
