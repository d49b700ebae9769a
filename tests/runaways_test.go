package tests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"codeq/internal/peer"
)

// runaway is a script that does not end by itself, or not within hours. Its first key is "left"; what it writes must not be seen by anybody.
type runaway struct {
	name   string
	body   string
	writes bool     // before or while it runs away
	ours   bool     // redis-server does not look for SCRIPT KILL where it spins
	call   []string // how it is run, with BODY for its text; empty: by EVAL
	first  []string // what is sent before, on the same connection
}

// function runs a library's function that runs away.
func function(name, body, flags, command string) runaway {
	return runaway{
		name:   name,
		writes: strings.Contains(body, "'set'"),
		first:  []string{"FUNCTION", "LOAD", "REPLACE", "#!lua name=away\nredis.register_function{function_name='away', callback=function(KEYS) " + body + " end" + flags + "}"},
		call:   []string{command, "away", "1", "left"},
	}
}

// runaways are all of them.
func runaways() []runaway {
	return slices.Concat(plainRunaways(), deepRunaways(), writers(), otherCalls())
}

// plainRunaways are in turn: loops, recursion, errors that are caught, metamethods, coroutines, what functions of the libraries call back, texts that
// are compiled, commands.
func plainRunaways() []runaway {
	return []runaway{
		{name: "while", body: "while true do end"},
		{name: "repeat", body: "repeat local x = 1 until false"},
		{name: "for", body: "for i = 1, math.huge do end"},
		{name: "for without a step", body: "for i = 2, 1, 0 do end"},
		{name: "for in", body: "for _ in function() return 1 end do end"},
		{name: "for in pairs", body: "while true do for _ in pairs(_G) do end end"},
		{name: "tail calls", body: "local function f() return f() end return f()"},
		{name: "recursion", body: "local function f() return 1 + f() end while true do pcall(f) end"},
		{name: "recursion that branches", body: "local function f(n) if n > 0 then f(n - 1) f(n - 1) end end f(150)"},
		{name: "pcall", body: "while true do pcall(function() while true do end end) end"},
		{name: "pcall in pcall", body: "local function f() while true do pcall(f) end end f()"},
		{name: "xpcall", ours: true, body: "while true do xpcall(function() while true do end end, function() while true do end end) end"},
		{name: "error", body: "while true do pcall(error, {}) end"},
		{name: "__index", body: "return setmetatable({}, {__index = function() while true do end end}).x"},
		{name: "__index of itself", body: "local t = {} setmetatable(t, {__index = t}) while true do pcall(function() return t.x end) end"},
		{name: "__newindex", body: "setmetatable({}, {__newindex = function(t) while true do rawset(t, 1, nil) end end}).x = 1"},
		{name: "__call", body: "local t = setmetatable({}, {__call = function(f, n) return f(n) end}) return t(1)"},
		{name: "__concat", body: "local t = setmetatable({}, {__concat = function() while true do end end}) return 'x' .. t"},
		{name: "__add", body: "local t = setmetatable({}, {__add = function(a) return a end}) while true do t = t + 1 end"},
		{name: "__eq", body: "local m = {__eq = function() while true do end end} return setmetatable({}, m) == setmetatable({}, m)"},
		{name: "__lt", body: "local m = {__lt = function() while true do end end} return setmetatable({}, m) < setmetatable({}, m)"},
		{name: "__le", body: "local m = {__lt = function() while true do end end} return setmetatable({}, m) <= setmetatable({}, m)"},
		{name: "__unm", body: "return -setmetatable({}, {__unm = function() while true do end end})"},
		{name: "__tostring", body: "return tostring(setmetatable({}, {__tostring = function() while true do end end}))"},
		{name: "in a coroutine", body: "coroutine.wrap(function() while true do end end)()"},
		{name: "resume", body: "local co = coroutine.create(function() while true do coroutine.yield() end end) while true do coroutine.resume(co) end"},
		{name: "wrap in wrap", body: "local function f(n) if n > 90 then while true do end end coroutine.wrap(f)(n + 1) end f(1)"},
		{name: "sort", body: "local t = {} for i = 1, 9 do t[i] = i end table.sort(t, function() while true do end end)"},
		{name: "sort again", body: "local t = {} for i = 1, 20 do t[i] = i % 7 end while true do table.sort(t, function(a, b) return a > b end) end"},
		{name: "sort out of order", body: "local t = {} for i = 1, 20 do t[i] = i end while true do pcall(table.sort, t, function() return true end) end"},
		{name: "foreach", body: "table.foreach({1}, function() while true do end end)"},
		{name: "gsub with a function", body: "return (('x'):gsub('x', function() while true do end end))"},
		{name: "gsub with a table", body: "return (('x'):gsub('x', setmetatable({}, {__index = function() while true do end end})))"},
		{name: "load", ours: true, body: "load(function() while true do end end)"},
		{name: "loadstring", body: "while true do loadstring('local a = 1 return a + 1')() end"},
		{name: "loadstring of itself", body: "local s = 'local s = ... return loadstring(s)(s)' return loadstring(s)(s)"},
		{name: "concat", body: "while true do local s = '' for i = 1, 9 do s = s .. i end end"},
		{name: "table.concat", body: "local t = {} for i = 1, 9 do t[i] = i end while true do table.concat(t, ', ') end"},
		{name: "table.insert", body: "while true do local t = {} for i = 1, 9 do table.insert(t, 1, i) end end"},
		{name: "string.rep", body: "while true do local s = ('x'):rep(100) end"},
		{name: "string.format", body: "while true do local s = ('%s %99.99f %q'):format('x', 1e300, 'y') end"},
		{name: "cjson", body: "local t = {} for i = 1, 9 do t[i] = {i} end while true do cjson.decode(cjson.encode(t)) end"},
		{name: "cmsgpack", body: "local t = {} for i = 1, 9 do t[i] = {i} end while true do cmsgpack.unpack(cmsgpack.pack(t)) end"},
		{name: "struct and bit", body: "while true do bit.bxor(struct.unpack('I4', struct.pack('I4', 7)), 7) end"},
		{name: "redis.call", body: "while true do redis.call('get', KEYS[1]) end"},
		{name: "redis.call of an error", body: "while true do pcall(redis.call, 'lrange', 'kept', 0, -1) end"},
		{name: "redis.pcall", body: "while true do redis.pcall('nosuch', KEYS[1]) end"},
		{name: "redis.sha1hex", body: "while true do redis.sha1hex(redis.error_reply('x').err) end"},
		{name: "a reply that is large", body: "while true do redis.call('lrange', 'list', 0, -1) end"},
	}
}

// deepRunaways spin within one function of a library.
func deepRunaways() []runaway {
	const halves = "local t = {} for i = 1, 40 do t = {t, t} end "
	return []runaway{
		{name: "find", ours: true, body: "return string.find(('a'):rep(40), ('a*'):rep(30) .. 'b')"},
		{name: "match", ours: true, body: "return string.match(('a'):rep(40), ('a-'):rep(30) .. 'b')"},
		{name: "gmatch", ours: true, body: "for _ in string.gmatch(('a'):rep(40), ('a*'):rep(30) .. 'b') do end"},
		{name: "gsub", ours: true, body: "return (('a'):rep(40):gsub(('a?'):rep(40) .. ('a'):rep(41), ''))"},
		{name: "cjson of tables in themselves", ours: true, body: halves + "return cjson.encode(t)"},
		{name: "cmsgpack of tables in themselves", ours: true, body: "local t = {} for i = 1, 16 do t = {t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)"},
		{name: "a reply in itself", ours: true, body: halves + "return t"},
	}
}

// writers have written, which SCRIPT KILL refuses to undo.
func writers() []runaway {
	return []runaway{
		{name: "a write", writes: true, body: "redis.call('set', KEYS[1], 1) while true do end"},
		{name: "a write that is caught", writes: true, body: "pcall(function() redis.call('rpush', KEYS[1], 1) error('x') end) while true do end"},
		{name: "a write that fails", writes: true, body: "while true do pcall(redis.call, 'incr', 'list') end"},
		{name: "writes", writes: true, body: "while true do redis.call('incr', KEYS[1]) redis.call('incrby', 'kept', 1) end"},
		{name: "undeclared writes", writes: true, body: "for i = 1, 1000 do redis.call('set', 'u' .. i, i) end while true do redis.pcall('get', 'u1') end"},
		{name: "a write to what is kept", writes: true, body: "redis.call('del', 'kept', 'list') while true do end"},
		{name: "FLUSHALL", writes: true, body: "redis.call('flushall') while true do end"},
	}
}

// otherCalls are no scripts of EVAL.
func otherCalls() []runaway {
	return []runaway{
		{name: "EVAL_RO", body: "while true do redis.call('get', KEYS[1]) end", call: []string{"EVAL_RO", "BODY", "1", "left"}},
		{name: "no-writes", body: "#!lua flags=no-writes\nwhile true do redis.pcall('set', KEYS[1], 1) end"},
		function("FCALL", "while true do pcall(function() while true do end end) end", "", "FCALL"),
		function("FCALL_RO", "while true do redis.call('get', KEYS[1]) end", ", flags={'no-writes'}", "FCALL_RO"),
		function("FCALL that writes", "redis.call('set', KEYS[1], 1) while true do end", "", "FCALL"),
	}
}

// isFunction tells whether it is a function, so that FUNCTION KILL ends it.
func (r runaway) isFunction() bool { return len(r.call) > 0 && strings.HasPrefix(r.call[0], "FCALL") }

// args is the command that runs it.
func (r runaway) args() []string {
	if len(r.call) == 0 {
		return []string{"EVAL", r.body, "1", "left"}
	}
	args := slices.Clone(r.call)
	if i := slices.Index(args, "BODY"); i >= 0 {
		args[i] = r.body
	}
	return args
}

// busy is what other clients are told while it runs.
func (r runaway) busy() string {
	kill := "SCRIPT"
	if r.isFunction() {
		kill = "FUNCTION"
	}
	return "-BUSY Redis is busy running a script. You can only call " + kill + " KILL or SHUTDOWN NOSAVE.\r\n"
}

// scene is a server with data that a runaway must not change.
type scene struct {
	server *peer.Server
	admin  *peer.Conn
	runner *peer.Conn
}

// seen tells what a client finds of the data.
var seen = [][]string{{"DBSIZE"}, {"GET", "kept"}, {"LRANGE", "list", "0", "-1"}, {"EXISTS", "left", "u1", "u1000"}}

const untouched = ":2\r\n" + "$2\r\n17\r\n" + "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n" + ":0\r\n"

func newScene(t *testing.T, opts peer.Options) *scene {
	t.Helper()
	s := &scene{server: peer.ForTest(t, opts)}
	s.dial(t)
	call(t, s.admin, "SET", "kept", "17")
	call(t, s.admin, "RPUSH", "list", "a", "b", "c")
	return s
}

// dial connects to a server that has just begun.
func (s *scene) dial(t *testing.T) {
	t.Helper()
	s.admin, s.runner = s.server.DialForTest(t), s.server.DialForTest(t)
	call(t, s.admin, "CONFIG", "SET", "busy-reply-threshold", "5")
}

// begin starts it and waits until others are told that the server is busy.
func (s *scene) begin(ctx context.Context, t *testing.T, r runaway) {
	t.Helper()
	if len(r.first) > 0 {
		call(t, s.runner, r.first...)
	}
	if err := s.runner.Send(r.args()...); err != nil {
		t.Fatal(err)
	}
	err := peer.Poll(ctx, pollInterval, func() (bool, error) {
		raw, err := s.admin.Do("PING")
		return string(raw) == r.busy(), err
	})
	if err != nil {
		t.Fatalf("%s: nobody was told that it runs: %v", r.name, err)
	}
}

// want sends a command and compares its reply.
func (s *scene) want(t *testing.T, r runaway, want string, args ...string) {
	t.Helper()
	if got, err := s.admin.Do(args...); err != nil || string(got) != want {
		t.Errorf("%s: %q: %q, %v; want %q", r.name, args, got, err, want)
	}
}

// wantUntouched looks at the data.
func (s *scene) wantUntouched(t *testing.T, r runaway) {
	t.Helper()
	var got []byte
	for _, args := range seen {
		raw, err := s.admin.Do(args...)
		if err != nil {
			t.Fatalf("%s: %q: %v", r.name, args, err)
		}
		got = append(got, raw...)
	}
	if string(got) != untouched {
		t.Errorf("%s left %q", r.name, got)
	}
}

// eachRunaway shares the runaways out among servers of a kind and plays each in which such a server looks for SCRIPT KILL.
func eachRunaway(t *testing.T, play func(ctx context.Context, t *testing.T, s *scene, r runaway)) {
	eachTargetAtOnce(t, plainTargets(), func(t *testing.T, opts peer.Options) {
		for part := range runawayParts {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				s := newScene(t, opts)
				for i, r := range runaways() {
					if i%runawayParts == part && !(r.ours && opts.Kind == peer.Redis) {
						play(testContext(t), t, s, r)
					}
				}
			})
		}
	})
}

// runawayParts is how many servers share the runaways.
const runawayParts = 2

// TestRunawaysKilled ends each by SCRIPT KILL or FUNCTION KILL. What has written is played by TestRunawaysShutdown.
func TestRunawaysKilled(t *testing.T) {
	eachRunaway(t, func(ctx context.Context, t *testing.T, s *scene, r runaway) {
		if r.writes {
			return
		}
		s.begin(ctx, t, r)
		kill, other := "SCRIPT", "FUNCTION"
		if r.isFunction() {
			kill, other = other, kill
		}
		s.want(t, r, r.busy(), other, "KILL")
		s.want(t, r, "+OK\r\n", kill, "KILL")
		raw, err := s.runner.Read()
		if err != nil || !bytes.HasPrefix(raw, []byte("-ERR Script killed by user with SCRIPT KILL... script: ")) {
			t.Errorf("%s: the reply is %.200q, %v", r.name, raw, err)
		}
		s.wantUntouched(t, r)
		if got := call(t, s.runner, "EVAL", "return 7", "0"); got.Str != "7" {
			t.Errorf("after %s: %+v", r.name, got)
		}
	})
}

// TestRunawaysShutdown ends the server while each runs. Only SHUTDOWN NOSAVE does that; what the script has written is not there afterwards, and all
// that was acknowledged is.
func TestRunawaysShutdown(t *testing.T) {
	eachRunaway(t, func(ctx context.Context, t *testing.T, s *scene, r runaway) {
		s.begin(ctx, t, r)
		for _, how := range [][]string{{"SHUTDOWN"}, {"SHUTDOWN", "SAVE"}, {"SHUTDOWN", "NOW", "FORCE"}} {
			s.want(t, r, r.busy(), how...)
		}
		s.want(t, r, "-ERR No shutdown in progress.\r\n", "SHUTDOWN", "ABORT")
		if r.writes {
			const unkillable = "-UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script " +
				"termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.\r\n"
			s.want(t, r, unkillable, "SCRIPT", "KILL")
			s.want(t, r, unkillable, "FUNCTION", "KILL")
		}
		if raw, err := s.admin.Do("SHUTDOWN", "NOSAVE"); !errors.Is(err, io.EOF) {
			t.Errorf("%s: SHUTDOWN NOSAVE: %q, %v", r.name, raw, err)
		}
		if err := s.server.Wait(ctx); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		if raw, err := s.runner.Read(); err == nil && raw[0] != '-' {
			t.Errorf("%s: its reply is %.200q", r.name, raw)
		}
		if err := s.server.Restart(ctx); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		s.dial(t)
		s.wantUntouched(t, r)
	})
}
