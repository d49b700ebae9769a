package scripting

import (
	"errors"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

func (st *state) baseLibrary() map[string]lua.LGFunction {
	ipairsNext := st.L.NewFunction(st.ipairsNext)
	next := st.L.NewFunction(st.luaNext)
	return map[string]lua.LGFunction{
		"assert":         luaAssert,
		"collectgarbage": collectGarbage,
		"error":          st.luaError,
		"gcinfo":         func(L *lua.LState) int { L.Push(lua.LNumber(0)); return 1 },
		"getmetatable":   st.getMetatable,
		"ipairs": func(L *lua.LState) int {
			t := checkTable(L, 1)
			L.Push(ipairsNext)
			L.Push(t)
			L.Push(lua.LNumber(0))
			return 3
		},
		"load":       st.load,
		"loadstring": st.loadString,
		"next":       st.luaNext,
		"pairs": func(L *lua.LState) int {
			t := checkTable(L, 1)
			L.Push(next)
			L.Push(t)
			L.Push(lua.LNil)
			return 3
		},
		"pcall":        st.pcall,
		"rawequal":     rawEqual,
		"rawget":       st.rawGet,
		"rawset":       st.rawSet,
		"select":       luaSelect,
		"setmetatable": st.setMetatable,
		"tonumber":     luaToNumber,
		"tostring":     st.toString,
		"type": func(L *lua.LState) int {
			L.Push(lua.LString(typeName(checkAny(L, 1))))
			return 1
		},
		"unpack": st.unpack,
		"xpcall": st.xpcall,
	}
}

func luaAssert(L *lua.LState) int {
	if lua.LVIsFalse(checkAny(L, 1)) {
		raise(L, "%s", optString(L, 2, "assertion failed!"))
	}
	return L.GetTop()
}

// collectGarbage answers what a script may expect, and leaves collecting to the process.
func collectGarbage(L *lua.LState) int {
	switch option := optString(L, 1, "collect"); option {
	case "collect", "stop", "restart", "count", "setpause", "setstepmul":
		L.Push(lua.LNumber(0))
	case "step":
		L.Push(lua.LFalse)
	default:
		argError(L, 1, "invalid option '"+option+"'")
	}
	return 1
}

func (st *state) luaError(L *lua.LState) int {
	level := optInt(L, 2, 1)
	v := L.Get(1)
	if text, ok := toText(v); ok && level > 0 {
		v = lua.LString(st.whereBelow(L, level) + text)
	}
	throw(L, v)
	return 0
}

func (st *state) getMetatable(L *lua.LState) int {
	var meta lua.LValue = lua.LNil
	switch v := checkAny(L, 1).(type) {
	case *lua.LTable:
		meta = st.view(v).Metatable
	case lua.LString:
		meta = st.textMeta
	}
	if t, ok := meta.(*lua.LTable); ok {
		if protected := t.RawGetString("__metatable"); protected != lua.LNil {
			meta = protected
		} else if f, ok := st.facades[t]; ok {
			meta = f
		}
	}
	L.Push(meta)
	return 1
}

func (st *state) setMetatable(L *lua.LState) int {
	t := checkTable(L, 1)
	meta := L.Get(2)
	if L.GetTop() < 2 || (meta != lua.LNil && meta.Type() != lua.LTTable) {
		argError(L, 2, "nil or table expected")
	}
	if old, ok := t.Metatable.(*lua.LTable); ok && old.RawGetString("__metatable") != lua.LNil {
		raise(L, "cannot change a protected metatable")
	}
	st.writable(L, t)
	if m, ok := meta.(*lua.LTable); ok {
		meta = st.view(m)
	}
	t.Metatable = meta
	L.SetTop(1)
	return 1
}

func (st *state) ipairsNext(L *lua.LState) int {
	i := checkInt(L, 2) + 1
	v := st.view(checkTable(L, 1)).RawGetInt(i)
	if v == lua.LNil {
		// The array part of a table is bounded; beyond it integers are hashed.
		v = st.view(checkTable(L, 1)).RawGet(lua.LNumber(i))
	}
	if v == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(lua.LNumber(i))
	L.Push(v)
	return 2
}

func (st *state) luaNext(L *lua.LState) int {
	k, v := st.view(checkTable(L, 1)).Next(L.Get(2))
	L.Push(k)
	if k == lua.LNil {
		return 1
	}
	L.Push(v)
	return 2
}

// callable refuses what cannot be called the way a protected call reports it.
func callable(L *lua.LState, v lua.LValue) (lua.LValue, bool) {
	if v.Type() == lua.LTFunction {
		return nil, true
	}
	if v.Type() == lua.LTTable && L.GetMetaField(v, "__call").Type() == lua.LTFunction {
		return nil, true
	}
	return lua.LString("attempt to call a " + typeName(v) + " value"), false
}

// pcall answers the text of an error table that a command raised instead of the table, as Redis does.
func (st *state) pcall(L *lua.LState) int {
	raised, ok := callable(L, L.Get(1))
	if ok {
		raised, ok = st.protected(L, L.GetTop()-1)
	}
	if ok {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	if t, isTable := raised.(*lua.LTable); isTable {
		if text := t.RawGetString("err"); text.Type() == lua.LTString || text.Type() == lua.LTNumber {
			raised = text
		}
	}
	L.Push(lua.LFalse)
	L.Push(raised)
	return 2
}

func (st *state) xpcall(L *lua.LState) int {
	handler := checkAny(L, 2)
	L.SetTop(1)
	raised, ok := callable(L, L.Get(1))
	if ok {
		raised, ok = st.protected(L, 0)
	}
	if ok {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	L.SetTop(0)
	if _, ok := callable(L, handler); ok {
		L.Push(handler)
		L.Push(raised)
		if again, ok := st.protected(L, 1); !ok {
			raised = again
		} else {
			raised = L.Get(1)
		}
	}
	L.Push(lua.LFalse)
	L.Push(raised)
	return 2
}

func rawEqual(L *lua.LState) int {
	L.Push(lua.LBool(checkAny(L, 1) == checkAny(L, 2)))
	return 1
}

func (st *state) rawGet(L *lua.LState) int {
	t := checkTable(L, 1)
	L.Push(st.view(t).RawGet(checkAny(L, 2)))
	return 1
}

func (st *state) rawSet(L *lua.LState) int {
	t := checkTable(L, 1)
	k, v := checkAny(L, 2), checkAny(L, 3)
	st.writable(L, t)
	checkKey(L, k)
	t.RawSet(k, v)
	L.SetTop(1)
	return 1
}

// checkKey refuses the keys that no table can have; the text carries no position, as in Redis.
func checkKey(L *lua.LState, k lua.LValue) {
	if n, ok := k.(lua.LNumber); ok && n != n {
		throw(L, lua.LString("table index is NaN"))
	}
	if k == lua.LNil {
		throw(L, lua.LString("table index is nil"))
	}
}

func luaSelect(L *lua.LState) int {
	n := L.GetTop()
	if s, ok := L.Get(1).(lua.LString); ok && strings.HasPrefix(string(s), "#") {
		L.Push(lua.LNumber(n - 1))
		return 1
	}
	i := checkInt(L, 1)
	if i < 0 {
		i += n
	} else if i > n {
		i = n
	}
	if i < 1 {
		argError(L, 1, "index out of range")
	}
	return n - i
}

func luaToNumber(L *lua.LState) int {
	base := optInt(L, 2, 10)
	if base == 10 {
		if v, ok := toNumber(checkAny(L, 1)); ok {
			L.Push(lua.LNumber(v))
			return 1
		}
		L.Push(lua.LNil)
		return 1
	}
	text := checkString(L, 1)
	if base < 2 || base > 36 {
		argError(L, 2, "base out of range")
	}
	v, ok := unsignedLong(text, base)
	if !ok {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(lua.LNumber(v))
	return 1
}

// unsignedLong reads an integer as C's strtoul does: what is too large becomes the largest one.
func unsignedLong(text string, base int) (uint64, bool) {
	text = strings.ToLower(strings.Trim(cString(text), " \t\n\v\f\r"))
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	if base == 16 {
		text = strings.TrimPrefix(text, "0x")
	}
	v, err := strconv.ParseUint(text, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		// It was given up at the digit that was too many. Those behind it have to be digits, too.
		digit := func(c rune) bool { _, err := strconv.ParseUint(string(c), base, 64); return err == nil }
		return math.MaxUint64, strings.TrimFunc(text, digit) == ""
	}
	if negative {
		v = -v
	}
	return v, err == nil
}

func (st *state) toString(L *lua.LState) int {
	v := checkAny(L, 1)
	if v.Type() == lua.LTTable || v.Type() == lua.LTUserData {
		if method := L.GetMetaField(v, "__tostring"); method != lua.LNil {
			L.Push(method)
			L.Push(v)
			L.Call(1, 1)
			return 1
		}
	}
	if v.Type() == lua.LTString {
		L.Push(v)
	} else {
		L.Push(lua.LString(st.text(v)))
	}
	return 1
}

// maxResults is how many values fit on the reference implementation's stack for library functions.
const maxResults = 8000

func (st *state) unpack(L *lua.LState) int {
	t := st.view(checkTable(L, 1))
	from := optInt(L, 2, 1)
	to := t.Len()
	if L.Get(3) != lua.LNil {
		to = checkInt(L, 3)
	}
	if from > to {
		return 0
	}
	n := to - from + 1
	if n <= 0 || n+L.GetTop() > maxResults {
		raise(L, "too many results to unpack")
	}
	for i := from; i <= to; i++ {
		L.Push(t.RawGetInt(i))
	}
	return n
}

func (st *state) loadString(L *lua.LState) int {
	body := checkString(L, 1)
	return st.loadChunk(L, body, optString(L, 2, body))
}

func (st *state) load(L *lua.LState) int {
	reader := checkFunction(L, 1)
	name := optString(L, 2, "=(load)")
	var body strings.Builder
	top := L.GetTop()
	for {
		L.Push(reader)
		if raised, ok := st.protected(L, 0); !ok {
			L.Push(lua.LNil)
			L.Push(raised)
			return 2
		}
		piece := L.Get(top + 1)
		L.SetTop(top)
		if piece == lua.LNil {
			break
		}
		text, ok := toText(piece)
		if !ok {
			L.Push(lua.LNil)
			L.Push(lua.LString("reader function must return a string"))
			return 2
		}
		if text == "" {
			break
		}
		st.grow(L, body.Len()+len(text), len(text))
		body.WriteString(text)
	}
	return st.loadChunk(L, body.String(), name)
}

// loadChunk compiles source text. Compiled chunks are refused: the machine would have to trust them.
func (st *state) loadChunk(L *lua.LState, body, name string) int {
	chunkname := chunkID(name)
	st.sources[chunkname] = name
	st.reserve(L, len(body))
	st.admit(L, parseFactor*len(body))
	if strings.HasPrefix(body, "\x1b") {
		L.Push(lua.LNil)
		L.Push(lua.LString("attempt to load chunk with wrong mode"))
		return 2
	}
	proto, helpers, err := compileChunk(body, chunkname, luaparse.Function)
	if err != nil {
		L.Push(lua.LNil)
		L.Push(lua.LString(err.Error()))
		return 2
	}
	L.Push(L.NewFunctionFromProto(proto))
	for _, h := range helpers {
		L.Push(st.helpers[h])
	}
	L.Call(len(helpers), 1)
	return 1
}

// maxChunkID is how much of a chunk's name fits into a message.
const maxChunkID = 80

// chunkID shortens a chunk's name for messages: "=name" and "@name" stand for themselves, anything else is source text.
func chunkID(name string) string {
	if rest, ok := strings.CutPrefix(name, "="); ok {
		return rest[:min(len(rest), maxChunkID-1)]
	}
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		const room = maxChunkID - len(" '...' ") - 1
		if len(rest) > room {
			return "..." + rest[len(rest)-room:]
		}
		return rest
	}
	const room = maxChunkID - len(" [string \"...\"] ") - 1
	n := len(name)
	if i := strings.IndexAny(name, "\n\r"); i >= 0 {
		n = i
	}
	if n > room {
		n = room
	}
	if n < len(name) {
		return "[string \"" + name[:n] + "...\"]"
	}
	return "[string \"" + name + "\"]"
}
