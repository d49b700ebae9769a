package scripting

import (
	"fmt"
	"maps"
	"slices"

	"codeq/scripting/lua"
)

const readonlyText = "Attempt to modify a readonly table"

// buildSandbox fills the globals. All tables that scripts find there are read-only, so that nothing they do outlives them.
func (st *state) buildSandbox() {
	st.json = &jsonLibrary{st: st}
	text := sealed(st.stringLibrary(), nil)
	st.rt.TextMeta = lua.NewTable(0, 1)
	st.rt.TextMeta.SetText("__index", text.Value())
	st.rt.TextMeta.SetReadonly(true)
	missing := lua.NewTable(0, 1)
	missing.SetText("__index", lua.NewFunction(missingGlobal).Value())
	missing.SetReadonly(true)
	globals := sealed(st.baseLibrary(), map[string]lua.Value{
		"_VERSION":  lua.String("Lua 5.1"),
		"string":    text.Value(),
		"bit":       sealed(st.bitLibrary(), nil).Value(),
		"cjson":     sealed(st.json.functions(), jsonConstants()).Value(),
		"cmsgpack":  sealed(st.msgpackLibrary(), msgpackConstants()).Value(),
		"struct":    sealed(st.structLibrary(), nil).Value(),
		"table":     sealed(st.tableLibrary(), nil).Value(),
		"math":      sealed(st.mathLibrary(), map[string]lua.Value{"pi": lua.Number(3.14159265358979323846), "huge": lua.Number(infinity)}).Value(),
		"coroutine": sealed(st.coroutineLibrary(), nil).Value(),
		"redis":     sealed(st.redisLibrary(), redisConstants()).Value(),
	})
	globals.SetText("_G", globals.Value())
	globals.SetMetatable(missing)
	st.globals = globals
}

// sealed makes a read-only table.
func sealed(functions map[string]lua.GoFunc, constants map[string]lua.Value) *lua.Table {
	t := newLibrary(functions, constants)
	t.SetReadonly(true)
	return t
}

// newLibrary makes a table of functions and constants. Its fields are added in order, so that pairs visits those of each such table alike.
func newLibrary(functions map[string]lua.GoFunc, constants map[string]lua.Value) *lua.Table {
	t := lua.NewTable(0, len(functions)+len(constants))
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		t.SetText(name, lua.NewFunction(functions[name]).Value())
	}
	for _, name := range slices.Sorted(maps.Keys(constants)) {
		t.SetText(name, constants[name])
	}
	return t
}

func redisConstants() map[string]lua.Value {
	return map[string]lua.Value{
		"LOG_DEBUG": lua.Number(logDebug), "LOG_VERBOSE": lua.Number(logVerbose),
		"LOG_NOTICE": lua.Number(logNotice), "LOG_WARNING": lua.Number(logWarning),
		"REPL_NONE": lua.Number(0), "REPL_AOF": lua.Number(1), "REPL_REPLICA": lua.Number(2), "REPL_SLAVE": lua.Number(2), "REPL_ALL": lua.Number(3),
		"REDIS_VERSION": lua.String("7.0.15"), "REDIS_VERSION_NUM": lua.Number(0x0007000F),
	}
}

func msgpackConstants() map[string]lua.Value {
	return map[string]lua.Value{
		"_NAME": lua.String("cmsgpack"), "_VERSION": lua.String("lua-cmsgpack 0.4.0"),
		"_COPYRIGHT":   lua.String("Copyright (C) 2012, Salvatore Sanfilippo"),
		"_DESCRIPTION": lua.String("MessagePack C implementation for Lua"),
	}
}

// writable refuses a read-only table. Library functions call it before they write; the text carries no position, as in Redis.
func writable(L *lua.Thread, t *lua.Table) *lua.Table {
	if t.Readonly() {
		L.Throw(lua.String(readonlyText))
	}
	return t
}

// missingGlobal is what the globals' metatable has for names that are not there.
func missingGlobal(L *lua.Thread) int {
	if L.Top() != 2 {
		L.Raise("Wrong number of arguments to luaProtectedTableError")
	}
	name, ok := L.Arg(-1).ToText()
	if !ok {
		L.Raise("Second argument to luaProtectedTableError must be a string or number")
	}
	L.Throw(lua.String(L.Where(1) + "Script attempted to access nonexistent global variable '" + cString(name) + "'"))
	return 0
}

// plainText is tostring without metatables.
func plainText(v lua.Value) string {
	switch v.Kind() {
	case lua.KindNil:
		return "nil"
	case lua.KindBool:
		if v.Truth() {
			return "true"
		}
		return "false"
	case lua.KindTable:
		return fmt.Sprintf("table: %p", v.Table())
	case lua.KindFunction:
		return fmt.Sprintf("function: %p", v.Function())
	case lua.KindThread:
		return fmt.Sprintf("thread: %p", v.Thread())
	case lua.KindLight: // cjson.null, a null pointer in Redis
		return "userdata: (nil)"
	}
	text, _ := v.ToText()
	return text
}
