package lua

import (
	"testing"
)

// host is a world with as many functions as the tests of the machine need.
func host(t testing.TB) (*Runtime, *Table) {
	rt := NewRuntime(nil)
	rt.Poll = func(*Thread) { rt.Budget = 1 << 12 }
	rt.Reserve = func(*Thread, int) {}
	globals := NewTable(0, 0)
	define := func(name string, fn GoFunc) { globals.SetText(name, NewFunction(fn).Value()) }
	define("error", func(l *Thread) int {
		v := l.Arg(1)
		if text, ok := v.Text(); ok {
			v = String(l.Where(1) + text)
		}
		l.Throw(v)
		return 0
	})
	define("setmetatable", func(l *Thread) int {
		l.Arg(1).Table().SetMetatable(l.Arg(2).Table())
		l.SetTop(1)
		return 1
	})
	next := NewFunction(func(l *Thread) int {
		k, v, _ := l.Arg(1).Table().Next(l.Arg(2))
		l.Push(k)
		l.Push(v)
		return 2
	})
	define("pairs", func(l *Thread) int {
		t := l.Arg(1)
		l.Push(next.Value())
		l.Push(t)
		l.Push(Nil)
		return 3
	})
	define("pcall", func(l *Thread) int {
		if err := l.PCall(l.Top()-1, multiple); err != nil {
			l.Push(False)
			l.Push(err.Value)
			return 2
		}
		l.Insert(1, True)
		return l.Top()
	})
	define("create", func(l *Thread) int {
		l.Push(l.Runtime().NewThread(l.Arg(1).Function()).Value())
		return 1
	})
	define("yield", func(l *Thread) int { return l.Yield(l.Top()) })
	define("resume", func(l *Thread) int {
		n, err := l.Resume(l.Arg(1).Thread(), l.Top()-1)
		if err != nil {
			l.Push(False)
			l.Push(err.Value)
			return 2
		}
		l.Insert(l.Top()-n+1, True)
		return n + 1
	})
	define("status", func(l *Thread) int {
		l.Push(String(l.Arg(1).Thread().Status(l)))
		return 1
	})
	return rt, globals
}

// run runs a program and answers its results as text, or the error.
func run(t testing.TB, rt *Runtime, globals *Table, src string) string {
	t.Helper()
	p, err := Compile(src, "@c")
	if err != nil {
		return err.Error()
	}
	l := rt.Main()
	defer rt.Reset()
	l.Push(NewClosure(p, globals).Value())
	if err := l.PCall(0, multiple); err != nil {
		return "error: " + err.Error()
	}
	text := ""
	for i := 1; i <= l.Top(); i++ {
		if i > 1 {
			text += " "
		}
		v := l.Arg(i)
		if s, ok := v.ToText(); ok {
			text += s
		} else if v.Kind() == KindBool {
			text += map[bool]string{true: "true", false: "false"}[v.Truth()]
		} else {
			text += v.Kind().String()
		}
	}
	return text
}

// TestPrograms runs programs for each part of the language. The parent package compares hundreds of others with a real server.
func TestPrograms(t *testing.T) {
	rt, globals := host(t)
	for src, want := range map[string]string{
		"return 1 + 2 * 3 ^ 2 % 4, -(-2), not nil, #'abc', 7 / 2":                                                                                                                                            "3 2 true 3 3.5",
		"local a, b, c = (function(...) return ... end)(1, 2) return a, b, c":                                                                                                                                "1 2 nil",
		"local t = {1, 2, x = 3, (function() return 4, 5 end)()} return #t, t.x, t[4]":                                                                                                                       "4 3 5",
		"local s = 0 for i = 10, 1, -3 do s = s * 10 + i % 10 end return s":                                                                                                                                  "741",
		"local s = '' for k, v in pairs{a = 1, 'x'} do s = s .. k .. v end return s":                                                                                                                         "1xa1",
		"local i = 0 repeat local j = i i = i + 1 until j == 4 return i":                                                                                                                                     "5",
		"local i = 0 while true do i = i + 1 if i > 6 then break end end return i":                                                                                                                           "7",
		"local f = {} for i = 1, 3 do f[i] = function() i = i + 1 return i end end return f[1](), f[1](), f[3]()":                                                                                            "2 3 4",
		"local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib(15)":                                                                                                 "610",
		"local function loop(n) if n == 0 then return 'done' end return loop(n - 1) end return loop(100000)":                                                                                                 "done",
		"local function f() return 1 + f() end return pcall(f)":                                                                                                                                              "false c:1: stack overflow",
		"local o = {n = 1} function o:add(k) self.n = self.n + k return self end return o:add(2):add(3).n":                                                                                                   "6",
		"local a, b = 1, 2 a, b = b, a return a, b, 1 == 1.0, 'a' < 'b', 2 <= 1, 'x' ~= 'y'":                                                                                                                 "2 1 true true false true",
		"return nil or 'x', false and 1, nil and 1 or 2, 1 and 2, not (1 == 2)":                                                                                                                              "x false 2 2 true",
		"local t = setmetatable({}, {__index = function(_, k) return k .. '!' end}) return t.a, t[1]":                                                                                                        "a! 1!",
		"local t = setmetatable({}, {__add = function(a, b) return 'sum' end, __call = function(self, x) return x end}) return t + 1, 1 + t, t(5)":                                                           "sum sum 5",
		"local t = setmetatable({}, {__concat = function(a, b) return 'cat' end}) return 1 .. t .. 2, t .. 'x' .. 1":                                                                                         "1cat cat",
		"local t = setmetatable({}, {__lt = function() return true end, __le = function() return false end, __eq = function() return true end}) local u = setmetatable({}, {}) return t < t, t <= t, t == u": "true false false",
		"local t = setmetatable({}, {__newindex = function(t, k, v) v.k = k end}) local v = {} t.x = v return v.k, t.x":                                                                                      "x nil",
		"return pcall(error, 'x')":                                     "false x",
		"local ok, e = pcall(function() local t t.x = 1 end) return e": "c:1: attempt to index local 't' (a nil value)",
		"local t = {} return t.x.y":                                    "error: c:1: attempt to index field 'x' (a nil value)",
		"return missing()":                                             "error: c:1: attempt to call global 'missing' (a nil value)",
		"local t = {} return 1 + t":                                    "error: c:1: attempt to perform arithmetic on local 't' (a table value)",
		"return {} < {}":                                               "error: c:1: attempt to compare two table values",
		"return {} .. 'x'":                                             "error: c:1: attempt to concatenate a table value",
		"for i = 'a', 2 do end":                                        "error: c:1: 'for' initial value must be a number",
		"local t = {} t[nil] = 1":                                      "error: c:1: table index is nil",
		"local u local function f() return u.x end f()":                "error: c:1: attempt to index upvalue 'u' (a nil value)",
		"local co = create(function(a) local b = yield(a + 1) local c, d = yield(b * 2) return c, d, 'end' end) " +
			"local _, x = resume(co, 1) local _, y = resume(co, 10) return x, y, status(co), resume(co, 7, 8)": "2 20 suspended true 7 8 end",
		"local co = create(function() error('x') end) local ok, e = resume(co) return ok, e, status(co), resume(co)":                                                        "false c:1: x dead false cannot resume dead coroutine",
		"local co = create(function() for i = 1, 3 do yield(i) end end) local s = '' while true do local _, v = resume(co) if not v then break end s = s .. v end return s": "123",
		"local co = create(function() return pcall(yield, 1) end) return resume(co)":                                                                                        "true false attempt to yield across metamethod/C-call boundary",
		"local function f(...) return arg.n, arg[2] end return f(1, 2, 3)":                                                                                                  "3 2",
		"local function f(a, ...) local b, c = ... return a, b, c end return f(1, 2)":                                                                                       "1 2 nil",
	} {
		if got := run(t, rt, globals, src); got != want {
			t.Errorf("%s\n\tis %s\n\twant %s", src, got, want)
		}
	}
}

// TestRoomsOfCoroutines: what coroutines have left when they ended is seen by none that works there later, and held by nobody.
func TestRoomsOfCoroutines(t *testing.T) {
	rt, globals := host(t)
	for _, program := range [][2]string{
		{"local function f(n) if n > 0 then local a, b, c = {}, {}, n f(n - 1) return a, b, c end yield({}) end local co = create(f) resume(co, 5) resume(co)", ""},
		{"resume(create(function(...) local a, b, c = {}, {}, {} local t t.x = a end), {}, {}, {})", ""},
		{"for i = 1, 30 do local co = create(function(a, b) local c, d return a, b, c, d end) resume(co) end " +
			"return resume(create(function(a, b) local c, d if not a then local e return a, b, c, d, e end end))", "true nil nil nil nil nil"},
		{"local f resume(create(function() local v = 1 f = function() v = v + 1 return v end end)) resume(create(function() local v = 9 error(v) end)) return f(), f()", "2 3"},
		{"local t = {} for i = 1, 20 do t[i] = create(function() local v = i yield() return v end) resume(t[i]) end " +
			"local s = '' for i = 1, 20 do local _, v = resume(t[i]) s = s .. v end return s", "1234567891011121314151617181920"},
		{"resume(create(function() local function f(n) if n == 0 then error({}) end f(n - 1) end f(3) end))", ""},
	} {
		if got := run(t, rt, globals, program[0]); got != program[1] {
			t.Errorf("%s\n\tis %s\n\twant %s", program[0], got, program[1])
		}
	}
	if n := len(rt.rooms); n == 0 || n > maxRooms {
		t.Errorf("%d rooms", n)
	}
	for _, r := range rt.rooms {
		for _, v := range r.stack {
			if !v.IsNil() {
				t.Errorf("a room holds a %s", v.Kind())
			}
		}
		for _, f := range r.frames[:cap(r.frames)] {
			if f.fn != nil {
				t.Error("a room holds a function")
			}
		}
	}
}

// BenchmarkLoop is a loop of arithmetic, comparison, a table and a call.
func BenchmarkLoop(b *testing.B) {
	rt, globals := host(b)
	p, err := Compile("local t, s = {}, 0 local function add(a, b) return a + b end for i = 1, 1000 do t[i % 10 + 1] = i if i > 500 then s = add(s, t[i % 10 + 1]) end end return s", "@c")
	if err != nil {
		b.Fatal(err)
	}
	l := rt.Main()
	b.ReportAllocs()
	for b.Loop() {
		l.Push(NewClosure(p, globals).Value())
		l.Call(0, 1)
		l.Pop()
	}
}
