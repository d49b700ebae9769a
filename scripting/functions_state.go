package scripting

import (
	"strings"
	"time"

	"codeq/scripting/lua"
)

// A state runs scripts and functions in turn, in two worlds. Functions have globals of their own, without KEYS, ARGV and
// what redis has for scripts only; while a library's code runs, there is nothing but redis, and in it nothing but what registers
// functions and writes to the log. Both are one table, which the functions that the code defines keep: its fields change. The
// table is made on the first load, and a library's code is run on the first call, so that a state has what it needs.
//
// The local variables of a library's code live as long as its state has the library. They are not shared with the library's
// copies on other states, so what a function keeps in them is a cache at best.

// functionWorld is what functions see of a state.
type functionWorld struct {
	globals  *lua.Table           // of all code of libraries
	fields   map[string]lua.Value // of globals when a function is called
	loading  lua.Value            // redis while a library's code runs
	known    map[*Library][]*lua.Function
	register *registration // while a library's code runs
}

// registration is what a library's code has registered so far.
type registration struct {
	functions []*Function
	callbacks []*lua.Function
}

// scriptsOnly are the globals, and the fields of redis, that functions lack.
func scriptsOnly(name string) bool {
	switch name {
	case "KEYS", "ARGV", "__redis__err__handler", "replicate_commands", "breakpoint", "debug":
		return true
	}
	return false
}

// whileLoading are the fields of redis that a library's code sees, besides register_function.
func whileLoading(name string) bool {
	return name == "log" || strings.HasPrefix(name, "LOG_") || strings.HasPrefix(name, "REDIS_VERSION")
}

// fields answers the fields of a table that are wanted.
func fields(t *lua.Table, wanted func(name string) bool) map[string]lua.Value {
	all := map[string]lua.Value{}
	for k, v, _ := t.Next(lua.Nil); !k.IsNil(); k, v, _ = t.Next(k) {
		if name, _ := k.Text(); wanted(name) {
			all[name] = v
		}
	}
	return all
}

// buildFunctionWorld makes the globals of functions from those of scripts.
func (st *state) buildFunctionWorld() {
	w := &st.functions
	forFunctions := func(name string) bool { return !scriptsOnly(name) }
	redis := st.globals.GetText("redis").Table()
	w.fields = fields(st.globals, forFunctions)
	w.fields["redis"] = sealed(nil, fields(redis, forFunctions)).Value()
	w.globals = sealed(nil, w.fields)
	w.fields["_G"] = w.globals.Value()
	w.globals.SetText("_G", w.globals.Value())
	w.globals.SetMetatable(st.globals.Metatable())
	loading := sealed(map[string]lua.GoFunc{"register_function": st.registerFunction}, fields(redis, whileLoading))
	loading.SetMetatable(st.globals.Metatable())
	w.loading = loading.Value()
	w.known = map[*Library][]*lua.Function{}
}

// show makes the globals those of a library's code, or those of functions.
func (w *functionWorld) show(loading bool) {
	for name, v := range w.fields {
		if loading {
			v = lua.Nil
		}
		w.globals.SetText(name, v)
	}
	if loading {
		w.globals.SetText("redis", w.loading)
	}
}

// runLibrary runs a library's code and answers what it has registered. A run must have begun.
func (st *state) runLibrary(lib *Library) (registration, *lua.Error) {
	w := &st.functions
	if w.globals == nil {
		st.buildFunctionWorld()
	}
	st.world = w.globals
	w.register = new(registration)
	w.show(true)
	st.L.Push(lua.NewClosure(lib.proto, w.globals).Value())
	thrown := st.L.PCall(0, 0)
	w.show(false)
	registered := *w.register
	w.register = nil
	return registered, thrown
}

// learnLibrary runs a library's code for the first time, which tells the library what functions it has. The error's text is
// the reason to refuse the library.
func (st *state) learnLibrary(lib *Library, limit time.Duration) error {
	st.begin(nil)
	defer st.end()
	st.loadLimit = limit
	registered, thrown := st.runLibrary(lib)
	st.ended = true
	switch {
	case st.stopped:
		return st.stop
	case thrown != nil:
		code, text := failureText(thrown.Value)
		return Error(code + text)
	}
	lib.functions = registered.functions
	for i, f := range lib.functions {
		f.library, f.index = lib, i
	}
	st.functions.known[lib] = registered.callbacks
	return nil
}

// callback finds a function on this state, after its library's code has run there.
func (st *state) callback(f *Function) (*lua.Function, *lua.Error) {
	callbacks, ok := st.functions.known[f.library]
	if !ok {
		registered, thrown := st.runLibrary(f.library)
		if thrown != nil {
			return nil, thrown
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
	callback, thrown := st.callback(c.Function)
	if thrown == nil {
		st.world = st.functions.globals
		keys, _ := st.keys.of(c.Keys)
		args, _ := st.argv.of(c.Args)
		st.L.Push(callback.Value())
		st.L.Push(keys.Value())
		st.L.Push(args.Value())
		thrown = st.L.PCall(2, 1)
		st.keys.table, st.argv.table = nil, nil // the library may have kept them
	}
	reply, raised, err = st.finish(dst, thrown, c.Function.Name, c.Proto)
	st.ended = true
	return reply, raised, err
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
func (st *state) registerFunction(L *lua.Thread) int {
	r := st.functions.register
	if r == nil {
		return fail(L, "redis.register_function can only be called on FUNCTION LOAD command")
	}
	var f Function
	var callback *lua.Function
	var fault string
	switch L.Top() {
	case 1:
		fault = namedArguments(L.Arg(1), &f, &callback)
	case 2:
		fault = twoArguments(L, &f, &callback)
	default:
		fault = "wrong number of arguments to redis.register_function"
	}
	if fault == "" {
		fault = r.refuses(f.Name)
	}
	if fault != "" {
		return fail(L, fault)
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
func twoArguments(L *lua.Thread, f *Function, callback **lua.Function) (fault string) {
	var ok bool
	if f.Name, ok = L.Arg(1).ToText(); !ok {
		return "first argument to redis.register_function must be a string"
	}
	if *callback = L.Arg(2).Function(); *callback == nil {
		return "second argument to redis.register_function must be a function"
	}
	return ""
}

// namedArguments reads register_function{function_name=…, callback=…, flags=…, description=…}.
func namedArguments(v lua.Value, f *Function, callback **lua.Function) (fault string) {
	t := v.Table()
	if t == nil {
		return "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
	}
	named := false
	for k, v, _ := t.Next(lua.Nil); !k.IsNil(); k, v, _ = t.Next(k) {
		name, ok := k.ToText()
		if !ok {
			return "named argument key given to redis.register_function is not a string"
		}
		switch strings.ToLower(name) {
		case "function_name":
			if f.Name, named = v.ToText(); !named {
				return "function_name argument given to redis.register_function must be a string"
			}
		case "description":
			text, ok := v.ToText()
			if !ok {
				return "description argument given to redis.register_function must be a string"
			}
			f.Description = &text
		case "callback":
			if *callback = v.Function(); *callback == nil {
				return "callback argument given to redis.register_function must be a function"
			}
		case "flags":
			flags := v.Table()
			if flags == nil {
				return "flags argument to redis.register_function must be a table representing function flags"
			}
			if f.Flags, ok = readFlags(flags); !ok {
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
func readFlags(list *lua.Table) (flags Flags, ok bool) {
	for i := 1; !list.GetInt(i).IsNil(); i++ {
		name, _ := list.GetInt(i).Text()
		flag, ok := parseFlag(strings.ToLower(name))
		if !ok {
			return 0, false
		}
		flags |= flag
	}
	return flags, true
}
