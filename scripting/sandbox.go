package scripting

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

const readonlyText = "Attempt to modify a readonly table"

// buildSandbox fills the globals.
func (st *state) buildSandbox() {
	L := st.L
	st.globals = L.NewTable()
	refuse := L.NewFunction(refuseWrite)
	st.library(st.globals, st.baseLibrary())
	st.globals.RawSetString("_VERSION", lua.LString("Lua 5.1"))
	st.null = L.NewUserData()
	st.json = &jsonLibrary{st: st}
	for name, functions := range map[string]map[string]lua.LGFunction{
		"bit":       st.bitLibrary(),
		"cjson":     st.json.functions(),
		"cmsgpack":  st.msgpackLibrary(),
		"struct":    st.structLibrary(),
		"string":    st.stringLibrary(),
		"table":     st.tableLibrary(),
		"math":      st.mathLibrary(),
		"coroutine": st.coroutineLibrary(),
		"redis":     st.redisLibrary(),
	} {
		real := L.NewTable()
		st.library(real, functions)
		st.globals.RawSetString(name, st.facade(real, refuse))
	}
	st.constants()
	st.strings = st.realTables[st.globals.RawGetString("string").(*lua.LTable)]
	redis := st.realTables[st.globals.RawGetString("redis").(*lua.LTable)]
	st.installOperators()
	missing := L.NewTable()
	missing.RawSetString("__index", L.NewFunction(st.missingGlobal))
	st.facade(missing, refuse)
	globals := st.facade(st.globals, refuse)
	st.globals.Metatable = missing
	st.globals.RawSetString("_G", globals)
	visible := L.NewTable() // what getmetatable("") answers
	visible.RawSetString("__index", st.globals.RawGetString("string"))
	st.facade(visible, refuse)
	st.helpers = map[luaparse.Helper]lua.LValue{
		luaparse.Concat:   L.NewFunction(st.concat),
		luaparse.ForInit:  L.NewFunction(loopBound("initial value")),
		luaparse.ForLimit: L.NewFunction(loopBound("limit")),
		luaparse.ForStep:  L.NewFunction(loopBound("step")),
		luaparse.Nothing:  L.NewFunction(nothing),
		luaparse.Plus:     L.NewFunction(operator('+', "__add")),
		luaparse.Less:     L.NewFunction(operator('-', "__sub")),
		luaparse.Times:    L.NewFunction(operator('*', "__mul")),
		luaparse.Over:     L.NewFunction(operator('/', "__div")),
		luaparse.Modulo:   L.NewFunction(operator('%', "__mod")),
		luaparse.Power:    L.NewFunction(operator('^', "__pow")),
		luaparse.Minus:    L.NewFunction(negative),
		luaparse.Call:     redis.RawGetString("call"),
		luaparse.PCall:    redis.RawGetString("pcall"),
	}
	st.textMeta = st.facades[visible]
	L.G.Global = globals
	L.Env = globals
}

func refuseWrite(L *lua.LState) int {
	raise(L, readonlyText)
	return 0
}

func (st *state) library(t *lua.LTable, functions map[string]lua.LGFunction) {
	for name, fn := range functions {
		t.RawSetString(name, st.L.NewFunction(fn))
	}
}

// constants are the libraries' values that are not functions.
func (st *state) constants() {
	set := func(library, name string, v lua.LValue) {
		st.realTables[st.globals.RawGetString(library).(*lua.LTable)].RawSetString(name, v)
	}
	set("math", "pi", lua.LNumber(3.14159265358979323846))
	set("math", "huge", lua.LNumber(infinity))
	for name, v := range map[string]float64{
		"LOG_DEBUG": logDebug, "LOG_VERBOSE": logVerbose, "LOG_NOTICE": logNotice, "LOG_WARNING": logWarning,
		"REPL_NONE": 0, "REPL_AOF": 1, "REPL_REPLICA": 2, "REPL_SLAVE": 2, "REPL_ALL": 3,
		"REDIS_VERSION_NUM": 0x0007000F,
	} {
		set("redis", name, lua.LNumber(v))
	}
	set("redis", "REDIS_VERSION", lua.LString("7.0.15"))
	for name, v := range st.json.constants() {
		set("cjson", name, v)
	}
	for name, v := range map[string]string{
		"_NAME": "cmsgpack", "_VERSION": "lua-cmsgpack 0.4.0", "_COPYRIGHT": "Copyright (C) 2012, Salvatore Sanfilippo",
		"_DESCRIPTION": "MessagePack C implementation for Lua",
	} {
		set("cmsgpack", name, lua.LString(v))
	}
}

// facade makes the empty table through which scripts see a read-only one.
func (st *state) facade(real *lua.LTable, refuse *lua.LFunction) *lua.LTable {
	f, meta := st.L.NewTable(), st.L.NewTable()
	meta.RawSetString("__index", real)
	meta.RawSetString("__newindex", refuse)
	f.Metatable = meta
	st.realTables[f] = real
	st.facades[real] = f
	return f
}

// view answers the table behind a facade, or the table itself.
func (st *state) view(t *lua.LTable) *lua.LTable {
	if t.Metatable == lua.LNil {
		return t
	}
	if real, ok := st.realTables[t]; ok {
		return real
	}
	return t
}

// writable refuses a facade. Library functions call it before they write; the text carries no position, as in Redis.
func (st *state) writable(L *lua.LState, t *lua.LTable) *lua.LTable {
	if t.Metatable != lua.LNil {
		if _, ok := st.realTables[t]; ok {
			throw(L, lua.LString(readonlyText))
		}
	}
	return t
}

func (st *state) missingGlobal(L *lua.LState) int {
	raise(L, "Script attempted to access nonexistent global variable '%s'", globalName(L.Get(2)))
	return 0
}

func globalName(key lua.LValue) string {
	if s, ok := toText(key); ok {
		return s
	}
	return "(null)"
}

// text is tostring without metatables. Facades and functions print as in Lua, by address.
func (st *state) text(v lua.LValue) string {
	switch x := v.(type) {
	case lua.LNumber:
		return numberText(x)
	case *lua.LState:
		return fmt.Sprintf("thread: %p", x)
	case *lua.LUserData: // cjson.null, a null pointer in Redis
		return "userdata: (nil)"
	}
	return v.String()
}
