package scripting

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"codeq/scripting/lua"
)

func (st *state) baseLibrary() map[string]lua.GoFunc {
	ipairsNext := lua.NewFunction(ipairsNext).Value()
	pairsNext := lua.NewFunction(luaNext).Value()
	return map[string]lua.GoFunc{
		"assert":         st.luaAssert,
		"collectgarbage": collectGarbage,
		"error":          st.luaError,
		"gcinfo":         func(L *lua.Thread) int { return pushNumber(L, 0) },
		"getmetatable":   getMetatable,
		"ipairs":         func(L *lua.Thread) int { return iterate(L, ipairsNext, lua.Number(0)) },
		"load":           st.load,
		"loadstring":     st.loadString,
		"next":           luaNext,
		"pairs":          func(L *lua.Thread) int { return iterate(L, pairsNext, lua.Nil) },
		"pcall":          st.pcall,
		"rawequal":       rawEqual,
		"rawget":         rawGet,
		"rawset":         rawSet,
		"select":         luaSelect,
		"setmetatable":   setMetatable,
		"tonumber":       luaToNumber,
		"tostring":       toString,
		"type": func(L *lua.Thread) int {
			L.Push(lua.String(checkAny(L, 1).Kind().String()))
			return 1
		},
		"unpack":                unpack,
		"xpcall":                st.xpcall,
		"__redis__err__handler": errorHandler,
	}
}

func (st *state) luaAssert(L *lua.Thread) int {
	if !checkAny(L, 1).Truth() {
		st.raiseText(L, 1, optString(L, 2, "assertion failed!"))
	}
	return L.Top()
}

// collectGarbage answers what a script may expect, and leaves collecting to the process.
func collectGarbage(L *lua.Thread) int {
	switch option := optString(L, 1, "collect"); option {
	case "collect", "stop", "restart", "count", "setpause", "setstepmul":
		L.Push(lua.Number(0))
	case "step":
		L.Push(lua.False)
	default:
		argError(L, 1, "invalid option '"+option+"'")
	}
	return 1
}

func (st *state) luaError(L *lua.Thread) int {
	level := optInt(L, 2, 1)
	v := L.Arg(1)
	if text, ok := v.ToText(); ok && level > 0 {
		st.raiseText(L, level, text)
	}
	L.Throw(v)
	return 0
}

// raiseText throws a script's own text, which may be large, behind the position of a level.
func (st *state) raiseText(L *lua.Thread, level int, text string) {
	st.reserve(L, len(text))
	L.Throw(lua.String(L.Where(level) + text))
}

// errorHandler is what Redis makes an uncaught error a table with, which a script can call, too: it notes where the caller is.
func errorHandler(L *lua.Thread) int {
	thrown := L.Arg(1)
	if thrown.Table() == nil {
		thrown = field("err", lua.String("ERR "+plainText(thrown))).Value()
	}
	source, line := L.At(1)
	if source == "=[C]" {
		source, line = L.At(2)
	}
	if source != "" {
		L.SetIndex(thrown, lua.String("source"), lua.String(source))
		L.SetIndex(thrown, lua.String("line"), lua.Number(float64(line)))
	}
	L.Push(thrown)
	return 1
}

func getMetatable(L *lua.Thread) int {
	v := checkAny(L, 1)
	meta := L.Metatable(v)
	switch {
	case meta == nil:
		L.Push(lua.Nil)
	case meta.GetText("__metatable").IsNil():
		L.Push(meta.Value())
	default:
		L.Push(meta.GetText("__metatable"))
	}
	return 1
}

func setMetatable(L *lua.Thread) int {
	t := checkTable(L, 1)
	meta := L.Arg(2)
	if L.Top() < 2 || !meta.IsNil() && meta.Table() == nil {
		argError(L, 2, "nil or table expected")
	}
	if old := t.Metatable(); old != nil && !old.GetText("__metatable").IsNil() {
		L.Raise("cannot change a protected metatable")
	}
	writable(L, t).SetMetatable(meta.Table())
	L.SetTop(1)
	return 1
}

// iterate begins a loop over a table.
func iterate(L *lua.Thread, next, from lua.Value) int {
	t := checkTable(L, 1)
	L.Push(next)
	L.Push(t.Value())
	L.Push(from)
	return 3
}

func ipairsNext(L *lua.Thread) int {
	i := checkInt(L, 2) + 1
	v := checkTable(L, 1).GetInt(i)
	if v.IsNil() {
		L.Push(lua.Nil)
		return 1
	}
	L.Push(lua.Number(float64(i)))
	L.Push(v)
	return 2
}

func luaNext(L *lua.Thread) int {
	k, v, ok := checkTable(L, 1).Next(L.Arg(2))
	if !ok {
		L.Throw(lua.String("invalid key to 'next'"))
	}
	L.Push(k)
	if k.IsNil() {
		return 1
	}
	L.Push(v)
	return 2
}

// pcall answers the text of an error table that a command raised instead of the table, as Redis does, and behind any other table what it has
// instead of the text.
func (st *state) pcall(L *lua.Thread) int {
	if L.Top() == 0 {
		L.Push(lua.False)
		L.Push(lua.String("attempt to call a boolean value"))
		return 2
	}
	thrown := L.PCall(L.Top()-1, -1)
	if thrown == nil {
		L.Insert(1, lua.True)
		return L.Top()
	}
	st.unwind(L)
	L.SetTop(0)
	L.Push(lua.False)
	t := thrown.Value.Table()
	if t == nil {
		L.Push(thrown.Value)
		return 2
	}
	text := t.GetText("err")
	if _, ok := text.ToText(); !ok {
		L.Push(thrown.Value)
	}
	L.Push(text)
	return L.Top()
}

// xpcall calls the handler when the stack is unwound already, which no handler can tell. It is called again for what it has thrown itself.
func (st *state) xpcall(L *lua.Thread) int {
	handler := checkAny(L, 2).Function()
	L.SetTop(1)
	thrown := L.PCall(0, -1)
	if thrown == nil {
		L.Insert(1, lua.True)
		return L.Top()
	}
	st.unwind(L)
	L.SetTop(0)
	L.Push(lua.False)
	for handler != nil && !thrown.IsFinal() {
		if thrown = L.Handle(handler, thrown); thrown == nil {
			return 2
		}
		st.unwind(L)
	}
	L.Push(lua.String(lua.HandlerFailed))
	return 2
}

func rawEqual(L *lua.Thread) int {
	L.Push(lua.Bool(lua.Equal(checkAny(L, 1), checkAny(L, 2))))
	return 1
}

func rawGet(L *lua.Thread) int {
	t := checkTable(L, 1)
	L.Push(t.Get(checkAny(L, 2)))
	return 1
}

func rawSet(L *lua.Thread) int {
	t := checkTable(L, 1)
	k, v := checkAny(L, 2), checkAny(L, 3)
	writable(L, t)
	checkKey(L, k)
	t.Set(k, v)
	L.SetTop(1)
	return 1
}

// checkKey refuses the keys that no table can have; the text carries no position, as in Redis.
func checkKey(L *lua.Thread, k lua.Value) {
	if n, ok := k.Float(); ok && n != n {
		L.Throw(lua.String("table index is NaN"))
	}
	if k.IsNil() {
		L.Throw(lua.String("table index is nil"))
	}
}

func luaSelect(L *lua.Thread) int {
	n := L.Top()
	if s, ok := L.Arg(1).Text(); ok && strings.HasPrefix(s, "#") {
		return pushNumber(L, float64(n-1))
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

func luaToNumber(L *lua.Thread) int {
	base := optInt(L, 2, 10)
	if base == 10 {
		v, ok := checkAny(L, 1).ToNumber()
		if !ok {
			L.Push(lua.Nil)
			return 1
		}
		return pushNumber(L, v)
	}
	text := checkString(L, 1)
	if base < 2 || base > 36 {
		argError(L, 2, "base out of range")
	}
	v, ok := unsignedLong(text, base)
	if !ok {
		L.Push(lua.Nil)
		return 1
	}
	return pushNumber(L, float64(v))
}

// unsignedLong reads an integer as C's strtoul does: what is too large becomes the largest one.
func unsignedLong(text string, base int) (uint64, bool) {
	text = strings.Trim(cString(text), " \t\n\v\f\r")
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	if base == 16 && len(text) > 1 && text[0] == '0' && text[1]|0x20 == 'x' {
		text = text[2:]
	}
	v, err := strconv.ParseUint(text, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		// It was given up at the digit that was too many. Those behind it have to be digits, too.
		const lower, upper = "0123456789abcdefghijklmnopqrstuvwxyz", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		return math.MaxUint64, strings.Trim(text, lower[:base]+upper[:base]) == ""
	}
	if negative {
		v = -v
	}
	return v, err == nil
}

func toString(L *lua.Thread) int {
	v := checkAny(L, 1)
	if v.Kind() == lua.KindString {
		L.Push(v)
		return 1
	}
	if method := L.Metafield(v, "__tostring"); !method.IsNil() {
		L.Push(method)
		L.Push(v)
		L.Call(1, 1)
		return 1
	}
	L.Push(lua.String(plainText(v)))
	return 1
}

func unpack(L *lua.Thread) int {
	t := checkTable(L, 1)
	from := optInt(L, 2, 1)
	to := 0
	if L.Arg(3).IsNil() {
		to = t.Len()
	} else {
		to = checkInt(L, 3)
	}
	if from > to {
		return 0
	}
	n := to - from + 1
	if n <= 0 || n+L.Top() > maxSlots {
		L.Raise("too many results to unpack")
	}
	for i := range n {
		L.Push(t.GetInt(from + i))
	}
	return n
}

func (st *state) loadString(L *lua.Thread) int {
	body := checkString(L, 1)
	return st.loadChunk(L, body, optString(L, 2, body))
}

func (st *state) load(L *lua.Thread) int {
	reader := checkFunction(L, 1).Value()
	name := optString(L, 2, "=(load)")
	var body strings.Builder
	for {
		L.Push(reader)
		if thrown := L.PCall(0, 1); thrown != nil {
			st.unwind(L)
			return refuseChunk(L, thrown.Value)
		}
		piece := L.Pop()
		if piece.IsNil() {
			break
		}
		text, ok := piece.ToText()
		if !ok {
			return refuseChunk(L, lua.String(L.Where(1)+"reader function must return a string"))
		}
		if text == "" {
			break
		}
		st.grow(L, body.Len()+len(text), len(text))
		body.WriteString(text)
		st.release(0) // what the reader has built is done
		st.hold(lua.String(body.String()))
	}
	return st.loadChunk(L, body.String(), name)
}

// refuseChunk answers why there is no chunk.
func refuseChunk(L *lua.Thread, why lua.Value) int {
	L.Push(lua.Nil)
	L.Push(why)
	return 2
}

// loadChunk compiles source text. Compiled chunks are none, as in Redis.
func (st *state) loadChunk(L *lua.Thread, body, name string) int {
	st.reserve(L, len(body))
	st.admit(L, parseFactor*len(body))
	proto, err := L.Compile(body, name)
	if err != nil {
		return refuseChunk(L, lua.String(err.Error()))
	}
	L.Push(lua.NewClosure(proto, st.world).Value())
	return 1
}
