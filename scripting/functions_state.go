package scripting

import (
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// A state runs scripts and functions in turn, in two worlds. Functions have globals of their own, without KEYS, ARGV and
// what redis has for scripts only; while a library's code runs, there is nothing but redis, and in it nothing but what registers
// functions and writes to the log. Both are seen through one table, which the functions that the code defines keep. The
// worlds are built on the first load, and a library's code is run on the first call, so that a state has what it needs.
//
// The local variables of a library's code live as long as its state has the library. They are not shared with the library's
// copies on other states, so what a function keeps in them is a cache at best.

// functionWorld is what functions see of a state.
type functionWorld struct {
	globals  *lua.LTable // the facade that all code of libraries has
	behind   *lua.LTable // its metatable, whose __index is one of the following
	loading  *lua.LTable // what a library's code sees
	running  *lua.LTable // what a function sees when it is called
	known    map[*Library][]*lua.LFunction
	register *registration // while a library's code runs
}

// registration is what a library's code has registered so far.
type registration struct {
	functions []*Function
	callbacks []*lua.LFunction
}

// scriptsOnly are the fields of redis that functions lack.
func scriptsOnly(name string) bool {
	return name == "replicate_commands" || name == "breakpoint" || name == "debug"
}

// whileLoading are the fields of redis that a library's code sees, besides register_function.
func whileLoading(name string) bool {
	return name == "log" || strings.HasPrefix(name, "LOG_") || strings.HasPrefix(name, "REDIS_VERSION")
}

// buildFunctionWorld makes the globals of functions from those of scripts.
func (st *state) buildFunctionWorld() {
	L, w := st.L, &st.functions
	refuse := L.NewFunction(refuseWrite)
	missing := st.globals.Metatable // raises an error for what is not there
	w.loading, w.running = L.NewTable(), L.NewTable()
	st.globals.ForEach(func(k, v lua.LValue) { w.running.RawSet(k, v) })
	w.running.RawSetString("KEYS", lua.LNil)
	w.running.RawSetString("ARGV", lua.LNil)
	loading, running := L.NewTable(), L.NewTable()
	st.view(st.globals.RawGetString("redis").(*lua.LTable)).ForEach(func(k, v lua.LValue) {
		name := k.String()
		if !scriptsOnly(name) {
			running.RawSet(k, v)
		}
		if whileLoading(name) {
			loading.RawSet(k, v)
		}
	})
	loading.RawSetString("register_function", L.NewFunction(st.registerFunction))
	loading.Metatable = missing
	w.loading.RawSetString("redis", st.facade(loading, refuse))
	w.running.RawSetString("redis", st.facade(running, refuse))
	w.loading.Metatable, w.running.Metatable = missing, missing
	w.globals = st.facade(w.running, refuse)
	w.behind = w.globals.Metatable.(*lua.LTable)
	w.running.RawSetString("_G", w.globals)
	w.known = map[*Library][]*lua.LFunction{}
}

// runLibrary runs a library's code and answers what it has registered. A run must have begun.
func (st *state) runLibrary(lib *Library) (registration, error) {
	L, w := st.L, &st.functions
	if w.globals == nil {
		st.buildFunctionWorld()
	}
	w.register = new(registration)
	w.behind.RawSetString("__index", w.loading)
	L.Env = w.globals
	err := st.runChunk(lib.proto, lib.helpers, 0)
	L.Env = st.facades[st.globals]
	w.behind.RawSetString("__index", w.running)
	registered := *w.register
	w.register = nil
	return registered, err
}

// learnLibrary runs a library's code for the first time, which tells the library what functions it has. The error's text is
// the reason to refuse the library.
func (st *state) learnLibrary(lib *Library, limit time.Duration) error {
	st.begin(nil)
	defer st.end()
	st.loadLimit = limit
	registered, err := st.runLibrary(lib)
	switch {
	case st.stopped:
		st.tainted = true
		return st.stop
	case err != nil:
		st.tainted = true
		return Error(st.failureText(err))
	}
	lib.functions = registered.functions
	for i, f := range lib.functions {
		f.library, f.index = lib, i
	}
	st.functions.known[lib] = registered.callbacks
	return nil
}

// callback finds a function on this state, after its library's code has run there.
func (st *state) callback(f *Function) (*lua.LFunction, error) {
	callbacks, ok := st.functions.known[f.library]
	if !ok {
		registered, err := st.runLibrary(f.library)
		if err != nil || st.stopped {
			return nil, err
		}
		callbacks = registered.callbacks
		st.functions.known[f.library] = callbacks
	}
	return callbacks[f.index], nil
}

// forgetLibraries forgets what is not in the set.
func (st *state) forgetLibraries(set *Libraries) {
	for lib := range st.functions.known {
		if set.Library(lib.name) != lib {
			delete(st.functions.known, lib)
		}
	}
}

// call calls a function and appends its reply, as eval does for a script.
func (st *state) call(dst []byte, c FunctionCall) (reply []byte, raised bool, err error) {
	st.begin(c.Caller)
	defer st.end()
	st.function, st.words = c.Function, c.Command
	st.random = st.e.callSeed()
	L := st.L
	callback, err := st.callback(c.Function)
	if err == nil && !st.stopped {
		L.Env = st.functions.globals
		L.Push(callback)
		L.Push(st.arguments(c.Keys, &st.keys))
		L.Push(st.arguments(c.Args, &st.argv))
		err = L.PCall(2, 1, nil)
		L.Env = st.facades[st.globals]
		st.keys.table, st.argv.table = nil, nil // the library may have kept them
	}
	return st.finish(dst, err, c.Function.Name, c.Proto)
}

// seedStep spreads the seeds of successive calls over the generator's 48 bits: their golden section, made odd.
const seedStep = 0x9E3779B97F4B

// callSeed is where the random numbers of the next call begin. Redis goes on where the call before has stopped, other than with
// scripts; here calls run side by side, so each gets numbers of its own.
func (e *Engine) callSeed() uint64 { return (randomStart + (e.calls.Add(1)-1)*seedStep) & randomMask }

// lateFunction tells of the function that runs past its limit, if one does.
func (st *state) lateFunction(now time.Time) (LateFunction, bool) {
	st.killMu.Lock()
	defer st.killMu.Unlock()
	if !st.late || st.function == nil {
		return LateFunction{}, false
	}
	return LateFunction{Name: st.function.Name, Command: st.lateCommand, Duration: now.Sub(st.started)}, true
}

// repeats tells whether a library's code runs that has run on another state before. It is not to be noticed.
func (st *state) repeats() bool { return st.functions.register != nil && st.caller != nil }

// registerFunction is redis.register_function.
func (st *state) registerFunction(L *lua.LState) int {
	r := st.functions.register
	if r == nil {
		return st.fail(L, "redis.register_function can only be called on FUNCTION LOAD command")
	}
	var f Function
	var callback *lua.LFunction
	var fault string
	switch L.GetTop() {
	case 1:
		fault = st.namedArguments(L.Get(1), &f, &callback)
	case 2:
		fault = twoArguments(L, &f, &callback)
	default:
		fault = "wrong number of arguments to redis.register_function"
	}
	if fault == "" {
		fault = r.refuses(f.Name)
	}
	if fault != "" {
		return st.fail(L, fault)
	}
	r.functions = append(r.functions, &f)
	r.callbacks = append(r.callbacks, callback)
	return 0
}

// refuses tells why a function can't have the name.
func (r *registration) refuses(name string) string {
	if !isName(name) {
		return badName
	}
	for _, f := range r.functions {
		if f.Name == name {
			return "Function already exists in the library"
		}
	}
	return ""
}

// twoArguments reads register_function(name, callback).
func twoArguments(L *lua.LState, f *Function, callback **lua.LFunction) (fault string) {
	var ok bool
	if f.Name, ok = toText(L.Get(1)); !ok {
		return "first argument to redis.register_function must be a string"
	}
	if *callback, ok = L.Get(2).(*lua.LFunction); !ok {
		return "second argument to redis.register_function must be a function"
	}
	return ""
}

// namedArguments reads register_function{function_name=…, callback=…, flags=…, description=…}.
func (st *state) namedArguments(v lua.LValue, f *Function, callback **lua.LFunction) (fault string) {
	t, ok := v.(*lua.LTable)
	if !ok {
		return "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
	}
	t = st.view(t)
	named := false
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		name, ok := toText(k)
		if !ok {
			return "named argument key given to redis.register_function is not a string"
		}
		switch strings.ToLower(name) {
		case "function_name":
			if f.Name, named = toText(v); !named {
				return "function_name argument given to redis.register_function must be a string"
			}
		case "description":
			text, ok := toText(v)
			if !ok {
				return "description argument given to redis.register_function must be a string"
			}
			f.Description = &text
		case "callback":
			if *callback, ok = v.(*lua.LFunction); !ok {
				return "callback argument given to redis.register_function must be a function"
			}
		case "flags":
			flags, ok := v.(*lua.LTable)
			if !ok {
				return "flags argument to redis.register_function must be a table representing function flags"
			}
			if f.Flags, ok = readFlags(st.view(flags)); !ok {
				return "unknown flag given"
			}
		default:
			return "unknown argument given to redis.register_function"
		}
	}
	switch {
	case !named:
		return "redis.register_function must get a function name argument"
	case *callback == nil:
		return "redis.register_function must get a callback argument"
	}
	return ""
}

// readFlags reads the flags of a list.
func readFlags(list *lua.LTable) (flags Flags, ok bool) {
	for i := 1; list.RawGetInt(i) != lua.LNil; i++ {
		name, _ := list.RawGetInt(i).(lua.LString)
		flag, ok := parseFlag(strings.ToLower(string(name)))
		if !ok {
			return 0, false
		}
		flags |= flag
	}
	return flags, true
}
