package scripting

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// runaways draws scripts that do not end by themselves: loops, calls, callbacks and metamethods in each other around operations on strings and
// tables that may be large, some of which keep what they make.
type runaways struct{ generator }

// setup makes the values that the operations work on: strings r and s, a pattern p, and tables t and u.
func (g runaways) setup() string {
	size := func() int { return 1 << g.IntN(23) }
	fill := g.pick("t[i] = i", "t[i] = s:sub(1, i % 50)", "t[i] = {i}", "t['k' .. i] = i", "t[i + 0.5] = i", "t[-i] = {}", "t[2 ^ (i % 900)] = i", "t[i * 65536] = t")
	empty := g.pick("", "", "for k in pairs(t) do t[k] = nil end ", "for i = 1, #t do t[i] = nil end ")
	nest := g.pick("local u = t ", "local u = {} for i = 1, 40 do u = {u, u} end ", "local u = {} for i = 1, 900 do u = {u} end ", "local u = setmetatable({}, {__index = t}) ")
	pattern := g.pick("'a'", "('a*'):rep(20) .. 'b'", "'[' .. r .. ']*z'", "'(.*)%1.z'", "'.-.-.-z'", "'%b()'", "('a?'):rep(30)", "'%f[x]'", "r")
	return fmt.Sprintf("local r, s = ('%s'):rep(%d), ('%s'):rep(%d) local t, keep = {}, {} for i = 1, %d do %s end %s%slocal p = %s redis.pcall('ready') ",
		g.pick("a", "x", "1", "(", "%d", "\\\\0"), size(), g.pick("a", "ab", " ", "7"), size(), 1<<g.IntN(18), fill, empty, nest, pattern)
}

// operation is one that ends, at most with an error.
func (g runaways) operation() string {
	value := g.pick("s == r .. ''", "s < r .. ''", "t[s]", "rawequal(s, r)", "s .. r", "r .. 1", "tonumber(s)", "tonumber(r, 16)", "s + 1", "#t", "next(t)", "t[next(t)]",
		"s:find(p)", "s:match(p)", "(s:gsub(p, r))", "(r:gsub('.', '%0%0'))", "s:gmatch(p)()", "s:rep(3)", "s:upper()", "r:reverse()", "s:sub(2)", "s:byte(1, 100)",
		"('%s%5.1f'):format(s, 7)", "('%q'):format(r)", "string.format(r, 1)", "table.concat(t, r)", "table.maxn(t)", "table.getn(t)", "{unpack(t, 1, 7000)}", "{}", "{s, r}",
		"table.foreachi(t, type)", "table.foreach(t, type)", "table.insert(t, 1, 1)", "table.remove(t, 1)", "table.sort(t)", "table.sort(keep, function(a, b) return true end)",
		"cjson.encode(u)", "cjson.encode(t)", "cjson.encode(s)", "cjson.decode('[' .. ('1,'):rep(1000) .. r .. ']')", "cmsgpack.pack(u)", "cmsgpack.pack(t)",
		"cmsgpack.unpack(cmsgpack.pack(t))", "struct.pack('s', s)", "struct.size(s)", "struct.unpack('c0', r)", "bit.tohex(7)", "loadstring('return ' .. r)",
		"loadstring('local a ' .. ('a = a '):rep(5000))", "load(function() return nil end)", "redis.sha1hex(s)", "redis.error_reply(s)", "redis.status_reply(r)",
		"redis.pcall('get', s)", "redis.pcall('echo', r)", "redis.pcall('hgetall', 'h')", "redis.pcall(s)", "redis.call(t)", "error(s)", "error(t)", "assert(false, s)", "nosuch",
		"_G[s]", "tostring(u)", "setmetatable({}, {__index = t})[1]", "coroutine.create(function() end)", "function() return t, s end", "select('#', unpack(t, 1, 7000))")
	switch g.IntN(3) {
	case 0:
		return "keep[#keep + 1] = " + value
	case 1:
		return "keep[1] = " + value
	}
	return "local v = " + value
}

// body is a few operations, and things that do not end around others.
func (g runaways) body(depth int) string {
	var out []string
	for range 1 + g.IntN(2) {
		out = append(out, g.operation())
	}
	if depth > 0 {
		out = append(out, g.endless(depth-1))
	}
	return strings.Join(out, " ")
}

// endless is something that does not end, unless an operation in it fails.
func (g runaways) endless(depth int) string {
	inner := g.body(depth)
	return fmt.Sprintf(g.pick(
		"while true do %s end", "repeat %s until false", "for i = 1, math.huge do %s end", "for _ in function() return 1 end do %s end", "for i = 2, 1, 0 do %s end",
		"do local function f() %s return f() end f() end", "do local function f() %s return 1 + f() end f() end", "do local function f(...) %s return f(1, ...) end f() end",
		"do local function f(n) if n > 0 then %s f(n - 1) f(n - 1) end end f(100) end", "while true do pcall(function() %s end) end",
		"while true do xpcall(function() %s end, function(e) return e end) end", "while true do coroutine.wrap(function() %s end)() end",
		"do local c = coroutine.wrap(function() while true do %s coroutine.yield(keep) end end) while true do c() end end",
		"do local m = setmetatable({}, {__index = function(m, k) %s return m[k + 1] end}) local v = m[1] end",
		"do local m = setmetatable({}, {__concat = function(a, b) %s return a end}) while true do m = m .. 'x' end end",
		"do local m = setmetatable({}, {__call = function(m) %s return m() end}) m() end",
		"do local w = {} for i = 1, 100 do w[i] = i end while true do table.sort(w, function(a, b) %s return a < b end) end end",
		"while true do s:gsub('.', function() %s end) end", "while true do table.foreach(t, function() %s end) end", "load(function() %s return ' ' end)"), inner)
}

// script is a whole one.
func (g runaways) script() string {
	return g.setup() + "while true do pcall(function() " + g.endless(g.IntN(3)) + " end) end"
}

// TestRandomRunaways kills random scripts as soon as they are past their limit, unless they hold too much before that. That one cannot be stopped shows by
// the test not ending.
func TestRandomRunaways(t *testing.T) {
	const limit, bound = 64 << 20, 1 << 30
	seeds, steps := turns(1, 10)
	steps /= 15
	for seed := uint64(1); seed <= seeds; seed++ {
		g := runaways{generator{rand.New(rand.NewPCG(seed, 0))}}
		for step := range steps {
			body := g.script()
			debug.FreeOSMemory()
			began := time.Now()
			got := killed(t, body, limit)
			took, taken := time.Since(began), resident()
			if taken > bound {
				t.Errorf("seed %d, step %d: %d MB: %s", seed, step, taken>>20, body)
			} else if testing.Verbose() && (took > time.Second || taken > 4*limit) {
				t.Logf("seed %d, step %d: %v, %d MB: %s\n%.100q", seed, step, took, taken>>20, body, got)
			}
			if !strings.HasPrefix(got, "-"+string(errKilled)+" script: ") && !strings.HasPrefix(got, "-"+string(errOverMemory)+" script: ") {
				t.Errorf("seed %d, step %d: %s: %.200q", seed, step, body, got)
			}
		}
	}
}

// killed runs a script that says when it is ready to be killed, and answers its reply.
func killed(t *testing.T, body string, memory int64) string {
	t.Helper()
	var ready atomic.Bool
	e := New(Options{MaxMemory: func() int64 { return memory }, TimeLimit: func() time.Duration {
		if ready.Load() {
			return time.Millisecond
		}
		return 0
	}})
	caller := newFakeCaller()
	caller.hook = func([]string) error { ready.Store(true); return nil }
	ended := make(chan string, 1)
	go func() { // ends when the script is killed
		got, _, err := e.Eval(nil, []byte(body), nil, nil, caller, 2)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		ended <- string(got)
	}()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case got := <-ended:
			return got
		case <-ticker.C:
			_ = e.KillScripts() // until it is late
		}
	}
}
