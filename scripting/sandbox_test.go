package scripting

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func eval(t *testing.T, e *Engine, body string) string {
	t.Helper()
	got, _, err := e.Eval(nil, []byte(body), bytesOf("k"), bytesOf("a"), newFakeCaller(), 2)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return string(got)
}

// TestNothingLeaks runs scripts that try to leave something behind, and after each looks for it on the same state.
func TestNothingLeaks(t *testing.T) {
	const probe = `
local seen = {}
for _, t in ipairs({_G, string, table, math, redis, coroutine, getmetatable(''), getmetatable(_G)}) do
  for k, v in pairs(t) do if tostring(k):find('leak') or v == 'leak' then seen[#seen + 1] = tostring(k) end end
end
if ('x').leak or string.leak or rawget(_G, 'leak') or KEYS.leak or ARGV.leak or getmetatable(KEYS) or KEYS[1] ~= 'k' then seen[#seen + 1] = 'value' end
if ('ab'):upper() ~= 'AB' or redis.call('get', 's') ~= 'v' or #KEYS ~= 1 then seen[#seen + 1] = 'changed' end
return seen`
	for _, attack := range []string{
		"leak = 'leak'", "_G.leak = 'leak'", "rawset(_G, 'leak', 'leak')", "string.leak = 'leak'", "rawset(string, 'leak', 'leak')",
		"getmetatable('').leak = 'leak'", "getmetatable('').__index = {leak = 'leak'}", "getmetatable('').__index.leak = 'leak'",
		"rawset(getmetatable(''), '__index', {leak = 'leak'})", "setmetatable(_G, {__index = {leak = 'leak'}})",
		"getmetatable(_G).__index = function() return 'leak' end", "rawset(getmetatable(_G), 'leak', 'leak')",
		"setmetatable(string, {__index = {leak = 'leak'}})", "table.insert(_G, 'leak')", "table.insert(string, 1, 'leak')",
		"redis.call = function() return 'leak' end", "string.upper = function() return 'leak' end", "table.sort(_G)",
		"KEYS.leak = 'leak'", "ARGV.leak = 'leak'", "KEYS[1] = 'leak'", "setmetatable(KEYS, {__index = {leak = 'leak'}})", "table.insert(KEYS, 'leak')",
		"local t = setmetatable({}, getmetatable('')) getmetatable(t).leak = 'leak'",
		"local t = setmetatable({}, string) getmetatable(t).leak = 'leak'", "local t = setmetatable({}, string) rawset(getmetatable(t), 'leak', 'leak')",
		"loadstring('leak = 1')()", "local f = loadstring('leak = 1') f()", "load(function() return nil end)() leak = 1",
		"for k, v in pairs(_G) do if type(v) == 'table' then pcall(rawset, v, 'leak', 'leak') pcall(function() v.leak = 'leak' end) end end",
		"for k in pairs(string) do pcall(function() string[k] = nil end) end", "for k in pairs(string) do pcall(rawset, string, k, nil) end",
		"coroutine.wrap(function() leak = 'leak' end)()", "xpcall(function() leak = 1 end, function() leak = 1 end)",
		"string.gsub('x', 'x', function() leak = 'leak' end)", "table.remove(string)", "table.foreach(string, function(k) string[k] = nil end)",
		"math.randomseed(5)", "redis.setresp(3)", "error('leak')", "error({err = 'leak'})", "local function f() return 1 + f() end f()",
		"local x = 1 local co = coroutine.wrap(function() local function f() x = x + 1 coroutine.yield(f) end f() end) co() error(co)",
		"coroutine.wrap(function() coroutine.wrap(function() error({}) end)() end)()", "pcall(redis.call, 'nosuch') return nosuch",
		"local t = setmetatable({}, {__index = function(t, k) error(t) end}) table.sort({1, 2, 3}, function(a, b) return t.x end)",
		"local t = {} for i = 1, 7000 do t[i] = i end return (select('#', unpack(t))) .. nil", "KEYS[2] = 'leak' ARGV[3] = 'leak'",
		"getmetatable(_G).__index = nil", "rawset(getmetatable(_G), '__index', nil)", "table.remove(KEYS)", "ARGV[1] = nil", "__redis__err__handler(redis)",
	} {
		e := New(Options{PoolSize: 1})
		eval(t, e, attack)
		if got := eval(t, e, probe); got != "*0\r\n" {
			t.Errorf("%s\n left %q", attack, got)
		}
		if len(e.idle) != 1 {
			t.Errorf("%s\n left %d states", attack, len(e.idle))
		}
		if a, b := eval(t, e, "return tostring(math.random())"), eval(t, e, "return tostring(math.random())"); a != b || a != "$16\r\n0.39646477363839\r\n" {
			t.Errorf("%s\n changed math.random: %q, %q", attack, a, b)
		}
	}
}

func TestForbiddenGlobals(t *testing.T) {
	e := New(Options{})
	for _, name := range strings.Fields("print os io debug package require dofile loadfile module newproxy setfenv getfenv channel") {
		if got := eval(t, e, "return "+name); !strings.Contains(got, "nonexistent global variable '"+name+"'") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := eval(t, e, "return loadstring('\\27Lua') == nil and 'refused'"); got != "$7\r\nrefused\r\n" {
		t.Errorf("bytecode: %q", got)
	}
}

func TestLimitsAreErrors(t *testing.T) {
	e := New(Options{MaxStringBytes: 1 << 20})
	for body, want := range map[string]string{
		"return string.rep('x', 1e9)":                                                            "resulting string too large",
		"local s = 'x' while true do s = s .. s end":                                             "resulting string too large",
		"local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e5) end return table.concat(t)":        "resulting string too large",
		"return (('x'):rep(1e5):gsub('x', ('y'):rep(100)))":                                      "resulting string too large",
		"local function f() return 1 + f() end return f()":                                       "stack overflow",
		"local function f() return (pcall(f)) and 1 end local function g() g() g() end g()":      "stack overflow",
		"return string.match(('x'):rep(300000), ('(x'):rep(33))":                                 "too many captures",
		"local t = {('x'):rep(1e5)} for i = 1, 6 do t = {t, t} end return t":                     "the script's reply is too large",
		"return string.format('%99.99f', 1e300):rep(1e5)":                                        "resulting string too large",
		"local t = {} for i = 1, 8000 do t[i] = 1 end return unpack(t)":                          "too many results to unpack",
		"local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]": "stack overflow",
		"local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)":                     "excessive nesting",
		"return cjson.decode(('['):rep(2000))":                                                   "too many nested data structures",
		"return cmsgpack.unpack(('\\145'):rep(1e6))":                                             "stack overflow",
		"return cmsgpack.unpack('\\221\\255\\255\\255\\255')":                                    "Missing bytes",
		"return struct.unpack('c2147483647', 'x')":                                               "data string too short",
		"return " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300):                    "too many syntax levels",
		"return " + strings.Repeat("{", 300) + strings.Repeat("}", 300):                          "too many syntax levels",
		"return 1" + strings.Repeat("<2", 1e6):                                                   "too many syntax levels",
		"return a" + strings.Repeat("()", 1e6):                                                   "too many syntax levels",
		strings.Repeat("local a ", 201):                                                          "more than 200 local variables",
	} {
		if got := eval(t, e, body); !strings.HasPrefix(got, "-") || !strings.Contains(got, want) {
			t.Errorf("%.80s: %.200q, want %q", body, got, want)
		}
	}
	for _, body := range []string{"return loadstring('return 1' .. ('<2'):rep(1e5)) or 'ok'", "return loadstring('return a' .. ('\"x\"'):rep(1e5)) or 'ok'",
		"return loadstring('return a' .. (' + a'):rep(1e5)) or 'ok'", "local t = {} t[60000000] = 1 return 'ok'", "local t = {} t[2^40] = 1 t[-1] = 1 return 'ok'"} {
		if got := eval(t, e, body); got != "$2\r\nok\r\n" {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// tickingClock moves a millisecond each time it is read, so that a limit passes without any waiting.
type tickingClock struct{ ms atomic.Int64 }

func (c *tickingClock) now() time.Time { return time.UnixMilli(c.ms.Add(1)) }

// endlessReply returns a small table that takes a thousand million elements to write.
const endlessReply = "local t = {} for i = 1, 30 do t = {t, t} end return t"

// TestRunawayScriptsCanBeKilled kills each script as soon as the clock has run past the limit. The kill comes from the clock
// itself, which the script's own goroutine reads: nothing depends on time or scheduling.
func TestRunawayScriptsCanBeKilled(t *testing.T) {
	for _, body := range []string{
		"while true do end",
		"while true do pcall(function() while true do end end) end",
		"while true do xpcall(function() while true do end end, function() while true do end end) end",
		"local function f() return f() end return f()",
		"return string.find(('a'):rep(40), ('a*'):rep(30) .. 'b')",
		"return pcall(string.match, ('a'):rep(40), ('a-'):rep(30) .. 'b')",
		"return (('a'):rep(40):gsub(('a*'):rep(30) .. 'b', ''))",
		"for _ in string.gmatch(('a'):rep(40), ('a*'):rep(30) .. 'b') do end",
		"local t = {} for i = 1, 1000 do t[i] = i % 7 end table.sort(t, function() while true do end end)",
		"while true do string.rep('x', 1e6) end",
		"coroutine.wrap(function() while true do end end)()",
		"load(function() return ' ' end)",
		"while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
		"while true do redis.call('get', 's') end",
		"local t = {} for i = 1, 999 do t = {t, t} end return cjson.encode(t)",
		"return cjson.decode('[' .. ('[],'):rep(1e6) .. '[]]')",
		"local t = {} for i = 1, 16 do t = {t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)",
		"return cmsgpack.unpack(('\\221\\0\\15\\66\\64' .. ('\\144'):rep(1e6)))",
		"return struct.size((' '):rep(1e8))",
		"while true do bit.band(1, 2) end",
		"local t = {} for i = 1, 30 do t = {t, t} end return cjson.encode(t)",
		"return (('x'):rep(1e6):gsub('x', function() return ('y'):rep(1e3) end))",
		"local t = {} for i = 1, 1e5 do t[i] = 0 end table.sort(t, function(a, b) return true end) while true do end",
		"while true do pcall(loadstring, ('x = 1 '):rep(1000)) end",
		"while true do pcall(error, setmetatable({}, {__index = function() while true do end end})) end",
		"local co = coroutine.wrap(function() while true do coroutine.yield(1) end end) while true do co() end",
		endlessReply,
		"setmetatable({}, {__index = function() while true do end end}).x = nil local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
	} {
		clock := &tickingClock{}
		var e *Engine
		killed := errors.New("not asked")
		e = New(Options{TimeLimit: func() time.Duration { return 5 * time.Millisecond }, Now: func() time.Time {
			now := clock.now()
			if e.Busy() && killed != nil {
				// The clock is read under the state's lock only after the script is known to be late.
				killed = e.KillScripts()
			}
			return now
		}})
		got := eval(t, e, body)
		if body == endlessReply {
			if killed != nil || !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL... script: ") {
				t.Errorf("%s: %.200q, kill: %v", body, got, killed)
			}
		} else if killed != nil || !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL... script: ") || !strings.HasSuffix(got, ", on @user_script:1.\r\n") {
			t.Errorf("%s: %q, kill: %v", body, got, killed)
		}
		if e.Busy() {
			t.Errorf("%s: still busy", body)
		}
		if got := eval(t, e, "return 1"); got != ":1\r\n" {
			t.Errorf("after %s: %q", body, got)
		}
	}
}

// TestCostlySteps kills scripts of which a single step takes milliseconds: the steps that are granted at once would take minutes.
func TestCostlySteps(t *testing.T) {
	const (
		long  = "local s, r = ('x'):rep(3e7) .. 'y', ('x'):rep(3e7) .. 'y' "
		empty = "local t = {} for i = 1, 1e6 do t[i] = 1 end for i = 1, 1e6 do t[i] = nil end "
	)
	for _, body := range []string{
		long + "redis.pcall('ready') while true do local same = s == r end", long + "redis.pcall('ready') while true do local less = s < r end",
		long + "local t = {[s] = 1} redis.pcall('ready') while true do local v = t[r] end", long + "redis.pcall('ready') while true do tonumber(s) end",
		long + "redis.pcall('ready') while true do pcall(error, s) end", long + "redis.pcall('ready') while true do pcall(assert, false, s) end",
		long + "redis.pcall('ready') while true do ('x'):find(s) end", long + "redis.pcall('ready') while true do for _ in ('x'):gmatch(s) do end end",
		long + "redis.pcall('ready') while true do redis.error_reply(s) end", long + "redis.pcall('ready') while true do redis.pcall(s) end",
		long + "redis.pcall('ready') while true do ('%.1s'):format(s) end", "local s = ('z'):rep(3e7) redis.pcall('ready') while true do tonumber(s, 36) end",
		empty + "redis.pcall('ready') while true do next(t) end", empty + "redis.pcall('ready') while true do for k in pairs(t) do end end",
		empty + "redis.pcall('ready') while true do cjson.encode(t) end", empty + "redis.pcall('ready') while true do table.maxn(t) end",
		"local t = {} for i = 1, 1e6 do t[i] = 1 end redis.pcall('ready') while true do table.foreachi(t, function() end) end",
		"local t = {} for i = 1, 2^18 - 1 do t[i + .5] = i end t.x = 1 redis.pcall('ready') while true do t.x = nil t.y = 1 t.y = nil t.x = 1 end",
		"redis.pcall('ready') return (('b'):rep(1e7):find('[' .. ('a'):rep(1e5) .. 'b]*c'))",
		"redis.pcall('ready') return (('b'):rep(1e7):find('[' .. ('a'):rep(1e6) .. ']'))",
		"redis.pcall('ready') return (('a'):rep(1e7) .. 'b'):find('^(.*)%1.c')",
		"redis.pcall('ready') local function f(...) return f(1, ...) end f()",
	} {
		if got := killed(t, body, defaultMaxMemory); !strings.HasPrefix(got, "-"+string(errKilled)+" script: ") {
			t.Errorf("%s: %.200q", body, got)
		}
	}
}

func TestKillAnswers(t *testing.T) {
	e := New(Options{})
	if err := e.KillScripts(); err != ErrNotBusy {
		t.Errorf("nothing runs: %v", err)
	}
	clock := &tickingClock{}
	var answer error
	asked := 0
	e = New(Options{TimeLimit: func() time.Duration { return 5 * time.Millisecond }, Now: func() time.Time {
		if e.Busy() {
			asked++
			answer = e.KillScripts()
		}
		return clock.now()
	}})
	got := eval(t, e, "redis.call('set', 'x', 1) for i = 1, 1e6 do end return 'done'")
	if asked == 0 || answer != ErrUnkillable || got != "$4\r\ndone\r\n" {
		t.Errorf("a script that has written: asked %d times, %v, %q", asked, answer, got)
	}
}

// TestServerEnds stops what runs past the limit, though it has written, and nothing else.
func TestServerEnds(t *testing.T) {
	clock := &tickingClock{}
	var e *Engine
	e = New(Options{TimeLimit: func() time.Duration { return 5 * time.Millisecond }, Now: func() time.Time {
		if e.Busy() {
			e.StopLate()
		}
		return clock.now()
	}})
	if got := eval(t, e, "redis.call('set', 'x', 1) while true do pcall(function() while true do end end) end"); !strings.HasPrefix(got, "-"+string(errServerEnds)+" script: ") {
		t.Errorf("a script that has written: %q", got)
	}
	if got := eval(t, e, "redis.call('set', 'x', 1) return 'done'"); got != "$4\r\ndone\r\n" {
		t.Errorf("one that is within its time: %q", got)
	}
}

// TestParallelRuns kills all of several scripts that run at once.
func TestParallelRuns(t *testing.T) {
	clock := &tickingClock{}
	e := New(Options{TimeLimit: func() time.Duration { return time.Millisecond }, Now: clock.now})
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			got, _, err := e.Eval(nil, []byte("while true do end"), nil, nil, newFakeCaller(), 2)
			if err != nil || !strings.Contains(string(got), "SCRIPT KILL") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	for {
		select {
		case <-ended: // Kill is repeated until the slowest starter has been late, too.
			return
		default:
			if err := e.KillScripts(); err != nil && err != ErrNotBusy {
				t.Fatal(err)
			}
		}
	}
}

// TestFaultsOfOurs has a run end with a panic that is none of Lua's: its state is given up.
func TestFaultsOfOurs(t *testing.T) {
	e := New(Options{})
	mustAdd(t, e, library("lib", "redis.register_function('f', function() redis.call('get', 's') end)"))
	eval(t, e, "return 1")
	caller := newFakeCaller()
	caller.hook = func([]string) error { panic("a fault") }
	for name, run := range map[string]func(){
		"script": func() { _, _, _ = e.Eval(nil, []byte("pcall(redis.call, 'get', 's')"), nil, nil, caller, 2) },
		"function": func() {
			_, _, _ = e.Call(nil, FunctionCall{Function: e.Libraries().Function([]byte("f")), Caller: caller, Proto: 2})
		},
	} {
		func() {
			defer func() {
				if recover() != "a fault" {
					t.Errorf("%s: the fault does not pass", name)
				}
			}()
			run()
		}()
		if len(e.states) != 0 || len(e.idle) != 0 {
			t.Errorf("%s: %d states, %d of them idle", name, len(e.states), len(e.idle))
		}
		if got := eval(t, e, "return 1"); got != ":1\r\n" {
			t.Errorf("after the %s: %q", name, got)
		}
	}
}

func TestAbortCannotBeCaught(t *testing.T) {
	e := New(Options{})
	caller := newFakeCaller()
	caller.hook = func(args []string) error {
		if args[0] == "set" {
			return errRetry
		}
		return nil
	}
	for _, body := range []string{"redis.call('set', 'a', 1)", "redis.pcall('set', 'a', 1) return 1", "pcall(redis.call, 'set', 'a', 1) redis.call('echo', 'x') return 1",
		"while true do pcall(function() redis.call('set', 'a', 1) end) end", "coroutine.wrap(function() redis.call('set', 'a', 1) end)() return 1",
		"coroutine.resume(coroutine.create(function() redis.call('set', 'a', 1) end)) redis.call('echo', 'x') return 1",
		"string.gsub('x', 'x', function() redis.call('set', 'a', 1) end)"} {
		caller.calls = 0
		dst, _, err := e.Eval([]byte("before"), []byte(body), nil, nil, caller, 2)
		if err != errRetry || string(dst) != "before" || caller.calls != 1 {
			t.Errorf("%s: %q, %v, %d calls", body, dst, err, caller.calls)
		}
	}
}

func TestCache(t *testing.T) {
	e := New(Options{})
	sha := loaded(t, e, "return 7")
	upper := []byte(strings.ToUpper(string(sha)))
	body, ok := e.Body(upper)
	if !e.Exists(upper) || !ok || string(body) != "return 7" {
		t.Errorf("%s: %v %q", sha, ok, body)
	}
	if n, size := e.Len(); n != 1 || size != 8 {
		t.Errorf("%d scripts, %d bytes", n, size)
	}
	if got, _, _ := e.EvalSHA(nil, upper, nil, nil, newFakeCaller(), 2); string(got) != ":7\r\n" {
		t.Errorf("%q", got)
	}
	e.Flush()
	if got, _, _ := e.EvalSHA(nil, sha, nil, nil, newFakeCaller(), 2); string(got) != "-NOSCRIPT No matching script. Please use EVAL.\r\n" {
		t.Errorf("%q", got)
	}
	if _, err := e.Load([]byte("return (")); err == nil || err.Error() != "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'" {
		t.Errorf("%v", err)
	}
}
