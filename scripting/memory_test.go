package scripting

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// bombs are scripts that take memory without end.
func bombs() []string {
	return []string{
		"local t = {} while true do t[#t + 1] = #t end",
		"local t = {} while true do t[#t + 1] = {} end",
		"local t = {} while true do t = {t} end",
		"local t, n = {}, 0 while true do n = n + 1 t['k' .. n] = n end",
		"local t, n = {}, 0 while true do n = n - 1 t[n] = n end",
		"local t, n = {}, 0 while true do n = n + 0.5 t[n] = true end",
		"local t = {} while true do local u = {} u[4194303] = 1 t[#t + 1] = u end",
		"local t = {} while true do local u = {} u[4194303] = 1 u[4194303] = nil t[#t + 1] = u end",
		"local t = {} while true do local u = {} table.insert(u, 4194303, 1) t[#t + 1] = u end",
		"local t = {} while true do local u = {} rawset(u, 4194303, 1) t[#t + 1] = u end",
		"local t = {} while true do t[#t + 1] = cmsgpack.unpack('\\129\\206\\0\\63\\255\\255\\1') end",
		"local t = {} while true do t[#t + 1] = cmsgpack.unpack('\\220\\255\\255' .. ('\\129\\206\\0\\63\\255\\255\\1'):rep(65535)) end",
		"local t = {} while true do local u = {} u.x = 1 t[#t + 1] = u end",
		"local t = {} while true do t[#t + 1] = function() return t end end",
		"local t = {} while true do local v = #t t[#t + 1] = function() v = v + 1 return v end end",
		"local t = {} while true do t[#t + 1] = ('x'):rep(1e3) .. #t end",
		"local t = {} while true do t[#t + 1] = ('x'):rep(3e6) .. #t end",
		"local t, s = {}, 'x' while true do s = s .. s t[#t + 1] = s if #s > 1e6 then s = 'x' .. #t end end",
		"local t = {} while true do t[#t + 1] = table.concat({('x'):rep(1e6), #t}) end",
		"local t = {} while true do t[#t + 1] = ('%s%d'):format(('x'):rep(1e6), #t) end",
		"local t = {} while true do t[#t + 1] = ('xy'):rep(1e6):gsub('x', 'z') end",
		"local t = {} while true do t[#t + 1] = ('xy'):rep(1e6):upper() end",
		"local t = {} while true do t[#t + 1] = redis.call('hgetall', 'h') end",
		"local t = {} while true do t[#t + 1] = redis.call('echo', ('x'):rep(1e6)) end",
		"local t, s = {}, '[' .. ('[],'):rep(1e5) .. '[]]' while true do t[#t + 1] = cjson.decode(s) end",
		"return cjson.decode('[' .. ('[],'):rep(1e6) .. '[]]')",
		"return cjson.decode('[' .. ('{},'):rep(1e6) .. '[]]')",
		"return cmsgpack.unpack('\\221\\0\\152\\150\\128' .. ('\\144'):rep(1e6))",
		"return cmsgpack.unpack('\\221\\0\\152\\150\\128' .. ('\\128'):rep(1e6))",
		"local t = {} while true do t[#t + 1] = cjson.encode({('x'):rep(1e6), #t}) end",
		"local t = {} while true do t[#t + 1] = cmsgpack.pack({('x'):rep(1e6), #t}) end",
		"local t = {} while true do t[#t + 1] = struct.pack('c0', ('x'):rep(1e6)) end",
		"local t = {} while true do t[#t + 1] = loadstring('return ' .. #t) end",
		"local s, t = 'return {' .. ('1,'):rep(1e4) .. '}', {} while true do t[#t + 1] = loadstring(s) end",
		"local s, t = 'return {' .. ('{function() local a a = 1 end},'):rep(1e3) .. '}', {} while true do t[#t + 1] = loadstring(s) end",
		"return loadstring(('x = 1 '):rep(1e5))",
		"return load(function() return (' '):rep(50) end)",
		"return load(function() redis.call('hgetall', 'h') return (' '):rep(1000) end)",
		"return load(function() return ('x = 1 '):rep(1e4) end)",
		"return loadstring('return {' .. ('{},'):rep(1e5) .. '}')",
		"local t = {} for i = 1, 4000 do t[i] = ('x'):rep(1e6) end redis.call('echo', unpack(t))",
		"local s, t = ('x'):rep(1e6), {} for i = 1, 4000 do t[i] = s end redis.call('echo', unpack(t))",
		"local t = {} while true do t[#t + 1] = coroutine.wrap(function() local a, b = {}, {} coroutine.yield() end) t[#t]() end",
		"local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
		"local t = {} while true do t[#t + 1] = (('x'):rep(1e6) .. #t):gmatch('.') end",
		"local t = {} coroutine.wrap(function() while true do t[#t + 1] = {#t} end end)()",
		"pcall(function() local t = {} while true do t[#t + 1] = {#t} end end) return 'caught'",
		"while true do pcall(function() local t = {} while true do t[#t + 1] = {#t} end end) end",
		"local function f(t) return f({t}) end return f()",
		"local function f(n, ...) if n == 0 then return ... end return f(n - 1, {}, ...) end local t = {} while true do t[#t + 1] = {f(150)} end",
		"table.sort({3, 2, 1}, function() local t = {} while true do t[#t + 1] = {} end end)",
		"string.gsub('x', 'x', function() local t = {} while true do t[#t + 1] = {} end end)",
		"local t = {} while true do t[#t + 1] = {" + strings.Repeat("{{},{},{}},", 3000) + "} end",
		"local t = {} while true do " + strings.Repeat("t[#t + 1] = function() return t end ", 3000) + " end",
		"local t = {} while true do " + strings.Repeat("t[#t + 1] = {x = t} ", 3000) + " end",
		"local t = {} local function f() " + strings.Repeat("t[#t + 1] = 'x' ", 3000) + " end while true do f() end",
		"local t = {} local function f(...) local u = {...} t[#t + 1] = u return #u > 200 and f() or f(1, ...) end f()",
		"local t = {} while true do local u = {} for i = 1, 100 do u[2 ^ i] = i end t[#t + 1] = u end",
		"local t = {} while true do t[#t + 1] = {('x'):byte(1, -1), KEYS[1], unpack(t, 1, 100)} end",
		"return setmetatable({}, {__index = function() local t = {} while true do t[#t + 1] = {} end end}).x",
	}
}

// resident is what the process has of the system's memory for its heap.
func resident() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}

// TestMemoryIsBounded runs each bomb until it is stopped. What the process takes meanwhile is more than the limit, for garbage is not
// collected at once, but has a bound.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector takes memory of its own, and there is one goroutine")
	}
	const limit, bound = 8 << 20, 768 << 20
	for _, body := range bombs() {
		debug.FreeOSMemory()
		e := New(Options{MaxMemory: func() int64 { return limit }})
		got, raised, err := e.Eval(nil, []byte(body), nil, nil, newFakeCaller(), 2)
		if taken := resident(); taken > bound {
			t.Errorf("%.200s: took %d MB", body, taken>>20)
		} else if testing.Verbose() {
			t.Logf("%4d MB %.200s", taken>>20, body)
		}
		if err != nil || !raised || !strings.HasPrefix(string(got), "-"+string(errOverMemory)+" script: ") {
			t.Errorf("%.200s: %.200q, %v", body, got, err)
		}
		if got := eval(t, e, "return 1"); got != ":1\r\n" {
			t.Errorf("after %.200s: %q", body, got)
		}
	}
}

// TestLargeErrors raises and answers errors of one large text: what is allocated besides it is its position's copy, if it has one, and the reply.
func TestLargeErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has the compiler copy what it would not copy otherwise")
	}
	const size = 4 << 20
	e := New(Options{})
	for _, c := range []struct {
		body   string
		copies uint64 // the text's own included
	}{
		{"return s", 2},
		{"error(s, 0)", 2},
		{"error(s)", 3},
		{"assert(false, s)", 3},
		{"local f = coroutine.wrap(function() error(s, 0) end) f()", 3},
		{"error({err = s})", 2},
		{"return {err = s}", 2},
		{"return {ok = s}", 2},
		{"return redis.status_reply(s)", 2},
		{"return redis.error_reply('A ' .. s)", 3},
		{"return redis.error_reply(s)", 3},
		{"return _G[s]", 3},
		{"return {pcall(error, s)}", 2},
	} {
		body := fmt.Sprintf("local s = string.rep('x', %d) %s", size, c.body)
		eval(t, e, "return 1") // what an engine allocates at first
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, _, err := e.Eval(nil, []byte(body), nil, nil, newFakeCaller(), 2)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > c.copies*size+size/4 {
			t.Errorf("%s: %.1f copies", c.body, float64(allocated)/size)
		}
		if n := len(got) - size; err != nil || n < 0 || n > 200 {
			t.Errorf("%s: a reply of %d bytes, %v", c.body, len(got), err)
		}
	}
}

// TestManyCoroutines makes coroutines that end or that nobody can reach any more, far more than the limit has room for at a time.
func TestManyCoroutines(t *testing.T) {
	const count = 50_000
	for _, body := range []string{
		"coroutine.create(function() end)",
		"coroutine.wrap(function() coroutine.yield() end)()",
		"local co = coroutine.wrap(function() coroutine.yield() end) co() co()",
		"pcall(coroutine.wrap(function() error('x') end))",
		"coroutine.resume(coroutine.create(function() coroutine.wrap(function() coroutine.yield() end)() end))",
	} {
		e := New(Options{MaxMemory: func() int64 { return 8 << 20 }})
		body = fmt.Sprintf("local n = 0 for i = 1, %d do n = n + 1 %s end return n", count, body)
		if got := eval(t, e, body); got != fmt.Sprintf(":%d\r\n", count) {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// TestLibraryHoldsTooMuch has a library keep more with each call, until it is stopped and begins anew.
func TestLibraryHoldsTooMuch(t *testing.T) {
	e := New(Options{PoolSize: 1, MaxMemory: func() int64 { return 8 << 20 }})
	mustAdd(t, e, library("lib", "local t = {} redis.register_function('f', function() for i = 1, 1e4 do t[#t + 1] = {} end return #t end)"))
	replies := map[string]int{}
	for range 100 {
		replies[fcall(t, e, "f")]++
	}
	if first, second := replies[":10000\r\n"], replies[":20000\r\n"]; first < 2 || second < 2 || first+second > 50 {
		t.Errorf("replies %v", replies)
	}
}

// TestLongSources sends texts that take more than the limit to compile. Those that the server has already are not refused.
func TestLongSources(t *testing.T) {
	const small = 50 << 20
	limit := int64(small)
	e := New(Options{MaxMemory: func() int64 { return limit }})
	blank := strings.Repeat(" ", shortSource)
	if got := eval(t, e, "return 1"+blank[8:]); got != ":1\r\n" {
		t.Errorf("a short one: %q", got)
	}
	long := "return 2" + blank
	if got := eval(t, e, long); got != "-"+string(errLongSource)+"\r\n" {
		t.Errorf("EVAL: %q", got)
	}
	if _, err := e.Load([]byte(long)); err != errLongSource {
		t.Errorf("SCRIPT LOAD: %v", err)
	}
	library := []byte("#!lua name=l\nredis.register_function('f', function() end)" + blank)
	if _, _, err := e.AddLibrary(e.Libraries(), library, false, LoadLimit); err != errLongSource {
		t.Errorf("FUNCTION LOAD: %v", err)
	}
	if _, _, err := e.AddLibrary(e.Libraries(), library, false, 0); err != nil {
		t.Errorf("a library that is kept: %v", err)
	}
	limit = int64(len(long)) * parseFactor
	if got := eval(t, e, long); got != ":2\r\n" {
		t.Errorf("with a higher limit: %q", got)
	}
	limit = small
	if got := eval(t, e, long); got != ":2\r\n" {
		t.Errorf("one that is compiled: %q", got)
	}
}
