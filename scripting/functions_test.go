package scripting

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// library makes the text of a library with the given code.
func library(name, code string) []byte { return []byte("#!lua name=" + name + "\n" + code) }

// mustAdd adds a library to the engine's.
func mustAdd(t testing.TB, e *Engine, code []byte) *Library {
	t.Helper()
	set, lib, err := e.AddLibrary(e.Libraries(), code, true, LoadLimit)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	e.SetLibraries(set)
	return lib
}

func fcall(t testing.TB, e *Engine, name string) string {
	t.Helper()
	f := e.Libraries().Function([]byte(name))
	if f == nil {
		return "-ERR Function not found\r\n"
	}
	got, _, err := e.Call(nil, FunctionCall{Function: f, Command: bytesOf("FCALL", name), Keys: bytesOf("k1"), Args: bytesOf("a1", "10"),
		Caller: newFakeCaller(), Proto: 2})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(got)
}

// TestFunctionsAsRedis loads every library here and on a real server and calls its function f, for clients of both protocol
// versions. The replies must be equal to the byte.
func TestFunctionsAsRedis(t *testing.T) {
	redis := startRedis(t)
	for proto := 2; proto <= 3; proto++ {
		redis.do("HELLO", strconv.Itoa(proto))
		e := New(Options{Logger: slog.New(slog.DiscardHandler)})
		for _, code := range snippets(t, "functions.txt") {
			redis.do("FLUSHALL")
			redis.do("FUNCTION", "FLUSH")
			redis.do("SET", "s", "v")
			redis.do("RPUSH", "l", "a", "b")
			redis.do("HSET", "h", "f", "v")
			want := redis.do("FUNCTION", "LOAD", code) + redis.do("FCALL", "f", "1", "k1", "a1", "10")
			if got := loadAndCall(t, e, code, proto); got != want {
				t.Errorf("RESP%d: %s\n got  %q\n want %q", proto, code, clip(got), clip(want))
			}
		}
	}
}

func loadAndCall(t *testing.T, e *Engine, code string, proto int) string {
	t.Helper()
	set, lib, err := e.AddLibrary(new(Libraries), []byte(code), false, LoadLimit)
	if err != nil {
		return string(appendError(nil, err.Error())) + "-ERR Function not found\r\n"
	}
	e.SetLibraries(set)
	loaded := appendBulk(nil, lib.Name())
	f := set.Function([]byte("f"))
	if f == nil {
		return string(loaded) + "-ERR Function not found\r\n"
	}
	got, _, err := e.Call(loaded, FunctionCall{Function: f, Keys: bytesOf("k1"), Args: bytesOf("a1", "10"), Caller: newFakeCaller(), Proto: proto})
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return string(got)
}

// TestLibrariesAsSets checks what sets of libraries do with names.
func TestLibrariesAsSets(t *testing.T) {
	e := New(Options{})
	register := func(names ...string) string {
		var code strings.Builder
		for _, name := range names {
			fmt.Fprintf(&code, "redis.register_function('%s', function() return '%s' end) ", name, name)
		}
		return code.String()
	}
	empty := new(Libraries)
	a, first, err := e.AddLibrary(empty, library("a", register("F1", "f2")), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	both, _, err := e.AddLibrary(a, library("B", register("g")), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(empty.All()) != 0 || len(a.All()) != 1 || len(both.All()) != 2 || both.CountFunctions() != 3 {
		t.Errorf("%d, %d and %d libraries, %d functions", len(empty.All()), len(a.All()), len(both.All()), both.CountFunctions())
	}
	if both.Library("a") != first || both.Library("A") != nil || both.Library("b") != nil {
		t.Error("the case of a library's name does not count")
	}
	if f := both.Function([]byte("f1")); f == nil || f.Name != "F1" {
		t.Errorf("f1 is %v", f)
	}
	for _, c := range []struct {
		code    []byte
		replace bool
		want    string
	}{
		{library("a", register("h")), false, "ERR Library 'a' already exists"},
		{library("a", register("h", "G")), true, "ERR Function G already exists"},
		{library("c", register("f2")), true, "ERR Function f2 already exists"},
		{library("a", ""), true, "ERR No functions registered"},
	} {
		if set, _, err := e.AddLibrary(both, c.code, c.replace, 0); err == nil || err.Error() != c.want || set != nil {
			t.Errorf("%s: %v, want %s", c.code, err, c.want)
		}
	}
	replaced, second, err := e.AddLibrary(both, library("a", register("f2", "f3")), true, 0)
	if err != nil || replaced.Function([]byte("F1")) != nil || replaced.Function([]byte("f3")) == nil || replaced.Library("a") != second {
		t.Errorf("replaced: %v", err)
	}
	if _, err := both.Join(replaced, false); err == nil || err.Error() != "ERR Library B already exists" {
		t.Errorf("joined: %v", err)
	}
	joined, err := both.Join(replaced, true)
	if err != nil || joined.Library("a") != second || len(joined.All()) != 2 || joined.CountFunctions() != 3 {
		t.Errorf("joined and replaced: %v", err)
	}
	rest := joined.Without("a")
	if rest.Library("a") != nil || rest.Function([]byte("f2")) != nil || rest.Function([]byte("g")) == nil || rest.CountFunctions() != 1 {
		t.Error("a is still there")
	}
}

// TestLibraryVersions checks that a state calls the present version of a library and forgets the others.
func TestLibraryVersions(t *testing.T) {
	e := New(Options{PoolSize: 1})
	version := func(n int) []byte {
		return library("lib", fmt.Sprintf("redis.register_function('f', function() return %d end)", n))
	}
	mustAdd(t, e, version(1))
	old := e.Libraries().Function([]byte("f"))
	for n := 2; n < 5; n++ {
		mustAdd(t, e, version(n))
		if got := fcall(t, e, "f"); got != fmt.Sprintf(":%d\r\n", n) {
			t.Errorf("version %d: %q", n, got)
		}
		if known := len(e.idle[0].functions.known); known != 1 {
			t.Errorf("a state knows %d libraries", known)
		}
	}
	// A transaction that began earlier still calls what it saw.
	got, _, err := e.Call(nil, FunctionCall{Function: old, Caller: newFakeCaller(), Proto: 2})
	if err != nil || string(got) != ":1\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	e.SetLibraries(new(Libraries))
	if known := len(e.idle[0].functions.known); known != 0 {
		t.Errorf("a state knows %d libraries that were deleted", known)
	}
	if _, _, err := e.AddLibrary(e.Libraries(), version(5), false, 0); err != nil {
		t.Error(err)
	}
	if known := len(e.idle[0].functions.known); known != 0 {
		t.Errorf("a state knows %d libraries that nobody took", known)
	}
}

// TestLibraryLoadsOnEachState calls a function on several states at once, and on one that follows a failure.
func TestLibraryLoadsOnEachState(t *testing.T) {
	var log bytes.Buffer
	e := New(Options{PoolSize: 4, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mustAdd(t, e, library("lib", `
redis.log(redis.LOG_WARNING, 'the code runs')
local answer = ('x'):rep(3)
redis.register_function('f', function(keys) return answer .. keys[1] end)
redis.register_function('fail', function() error('no') end)`))
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 100 {
				if got := fcall(t, e, "f"); got != "$5\r\nxxxk1\r\n" {
					t.Errorf("%q", got)
					return
				}
			}
		})
	}
	running.Wait()
	if got := fcall(t, e, "fail"); !strings.HasPrefix(got, "-ERR user_function:6: no script: fail, on @user_function:6.") {
		t.Errorf("%q", got)
	}
	if got := fcall(t, e, "f"); got != "$5\r\nxxxk1\r\n" {
		t.Errorf("after a failure: %q", got)
	}
	if n := strings.Count(log.String(), "the code runs"); n != 1 {
		t.Errorf("the library's code was noticed %d times", n)
	}
}

// TestFunctionsAndScriptsApart looks for what one leaves for the other on the same state.
func TestFunctionsAndScriptsApart(t *testing.T) {
	e := New(Options{PoolSize: 1})
	mustAdd(t, e, library("lib", `
local kept = {}
redis.register_function('globals', function()
  local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) return table.concat(t, ' ')
end)
redis.register_function('attack', function(keys)
  keys.leak = 'leak'
  for _, t in ipairs({_G, redis, string, cjson, getmetatable(''), getmetatable(_G), getmetatable(redis) or {}}) do
    pcall(rawset, t, 'leak', 'leak') pcall(function() t.leak = 'leak' end)
    pcall(setmetatable, t, {__index = {leak = 'leak'}})
  end
  redis.setresp(3)
  math.randomseed(7)
end)
redis.register_function('look', function(keys)
  return {type(keys.leak), type(rawget(_G, 'leak')), type(redis.leak), type(string.leak)}
end)`))
	names := fcall(t, e, "globals")
	const lookup = "return {type(rawget(_G, 'leak')), type(redis.leak), type(string.leak), " +
		"type(redis.register_function), type(redis.breakpoint), KEYS[1], tostring(math.random())}"
	const none = "$3\r\nnil\r\n"
	for range 2 {
		if got := eval(t, e, lookup); got != "*7\r\n"+none+none+none+none+"$8\r\nfunction\r\n$1\r\nk\r\n$16\r\n0.39646477363839\r\n" {
			t.Errorf("a script sees %q", got)
		}
		if got := fcall(t, e, "look"); got != "*4\r\n"+none+none+none+none {
			t.Errorf("a function sees %q", got)
		}
		fcall(t, e, "attack")
		if got := fcall(t, e, "globals"); got != names || strings.Contains(got, "KEYS") || strings.Contains(got, "leak") {
			t.Errorf("globals of a function: %q, before %q", got, names)
		}
	}
	if len(e.idle) != 1 {
		t.Error("the runs were not on one state")
	}
}

// TestLoadTimeout lets the code of libraries run for ever.
func TestLoadTimeout(t *testing.T) {
	for _, code := range []string{
		"while true do end", "local function f() return f() end return f()", "while true do local s = ('x'):rep(1e6) end",
		"redis.register_function('f', function() end) while true do end", "local s = ('a'):rep(40):find(('a*'):rep(30) .. 'b')",
	} {
		clock := &tickingClock{}
		e := New(Options{Now: clock.now})
		set, _, err := e.AddLibrary(e.Libraries(), library("lib", code), false, LoadLimit)
		if err == nil || err.Error() != "ERR Error registering functions: ERR FUNCTION LOAD timeout" || set != nil {
			t.Errorf("%s: %v", code, err)
		}
		if got := eval(t, e, "return {type(redis.call), type(redis.register_function), type(rawget(_G, 'pairs'))}"); e.Busy() ||
			got != "*3\r\n$8\r\nfunction\r\n$3\r\nnil\r\n$8\r\nfunction\r\n" {
			t.Errorf("%s: busy: %v, a script then sees %q", code, e.Busy(), got)
		}
	}
	clock := &tickingClock{}
	e := New(Options{Now: clock.now, TimeLimit: func() time.Duration { return time.Millisecond }})
	const long = "redis.register_function('f', function() end) local n = 0 for i = 1, 1e6 do n = n + i end"
	if _, _, err := e.AddLibrary(e.Libraries(), library("lib", long), false, 0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// TestFunctionKill asks for the end of a function that runs past its limit in the ways that others have.
func TestFunctionKill(t *testing.T) {
	clock := &tickingClock{}
	var e *Engine
	var late LateFunction
	var answers []error
	e = New(Options{TimeLimit: func() time.Duration { return 5 * time.Millisecond }, Now: func() time.Time {
		now := clock.now()
		if e.Busy() && len(answers) == 0 {
			answers = []error{errors.New("being asked")} // LateFunction asks for the time
			late, _ = e.LateFunction()
			answers = []error{e.BusyError(), e.KillScripts(), e.KillFunctions()}
		}
		return now
	}})
	mustAdd(t, e, library("lib", `redis.register_function('spin', function() while true do pcall(function() while true do end end) end end)
redis.register_function('write', function() redis.call('set', 'x', 1) for i = 1, 1e6 do end return 'done' end)`))
	if got := fcall(t, e, "SPIN"); !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL... script: spin, on @user_function:2.") {
		t.Errorf("%q", got)
	}
	if want := []error{ErrBusyFunction, ErrBusyFunction, nil}; !slices.Equal(answers, want) {
		t.Errorf("answers %v, want %v", answers, want)
	}
	if late.Name != "spin" || !slices.Equal(late.Command, []string{"FCALL", "SPIN"}) || late.Duration <= 0 {
		t.Errorf("late: %+v", late)
	}
	if _, found := e.LateFunction(); found || e.Busy() {
		t.Error("the function is still late")
	}
	answers = nil
	if got := fcall(t, e, "write"); got != "$4\r\ndone\r\n" {
		t.Errorf("%q", got)
	}
	if want := []error{ErrBusyFunction, ErrUnkillable, ErrUnkillable}; !slices.Equal(answers, want) {
		t.Errorf("of a function that has written: %v, want %v", answers, want)
	}
	answers = nil
	e.opts.TimeLimit = func() time.Duration { return 50 * time.Millisecond }
	if got := eval(t, e, "local n = 0 for i = 1, 3e6 do n = n + i end return 1"); got != ":1\r\n" {
		// The order of the questions leaves the script alive: the last one is about functions.
		if !strings.Contains(got, "SCRIPT KILL") {
			t.Errorf("%q", got)
		}
	}
	if want := []error{ErrBusyScript, nil, ErrBusyScript}; !slices.Equal(answers, want) {
		t.Errorf("of a script: %v, want %v", answers, want)
	}
}

// TestFunctionRandom checks that calls draw different numbers, the first one those of Redis' first call.
func TestFunctionRandom(t *testing.T) {
	e := New(Options{})
	mustAdd(t, e, library("lib", "redis.register_function('f', function() return tostring(math.random()) end)"))
	seen := map[string]bool{}
	if got := fcall(t, e, "f"); got != "$16\r\n0.39646477363839\r\n" {
		t.Errorf("the first number is %q", got)
	}
	for range 1000 {
		seen[fcall(t, e, "f")] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1000 calls drew %d numbers", len(seen))
	}
}

// TestFunctionAbort checks that a function ends with the error of its transaction, and that the next call is as if nothing were.
func TestFunctionAbort(t *testing.T) {
	e := New(Options{})
	mustAdd(t, e, library("lib", "redis.register_function('f', function() pcall(redis.call, 'set', 'a', 1) return 1 end)"))
	caller := newFakeCaller()
	caller.hook = func([]string) error { return errRetry }
	f := e.Libraries().Function([]byte("f"))
	got, raised, err := e.Call([]byte("before"), FunctionCall{Function: f, Caller: caller, Proto: 2})
	if err != errRetry || raised || string(got) != "before" {
		t.Errorf("%q, %v, %v", got, raised, err)
	}
	if got := fcall(t, e, "f"); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
}

// flagsCaller notes the flags that a run begins with, and may refuse it.
type flagsCaller struct {
	cannedCaller
	flags   Flags
	refusal error
}

func (c *flagsCaller) Begin(flags Flags) error {
	c.flags = flags
	return c.refusal
}

func TestFlags(t *testing.T) {
	e := New(Options{})
	mustAdd(t, e, library("lib", "redis.register_function{function_name='f', callback=function() end, flags={'no-writes', 'allow-oom'}}"))
	c := &flagsCaller{}
	for body, want := range map[string]Flags{
		"return 1": Undeclared, "#!lua\nreturn 1": 0, "#!lua flags=no-writes\nreturn 1": NoWrites,
		"#!lua flags=allow-stale,no-cluster flags=allow-cross-slot-keys\nreturn 1": AllowStale | NoCluster | AllowCrossSlotKeys,
	} {
		if got, _, _ := e.Eval(nil, []byte(body), nil, nil, c, 2); string(got) != ":1\r\n" || c.flags != want {
			t.Errorf("%q: %q with flags %v, want %v", body, got, c.flags, want)
		}
	}
	f := e.Libraries().Function([]byte("f"))
	if _, _, err := e.Call(nil, FunctionCall{Function: f, Caller: c, Proto: 2}); err != nil || c.flags != NoWrites|AllowOOM {
		t.Errorf("a function: %v with flags %v", err, c.flags)
	}
	if names := f.Flags.Names(); !slices.Equal(names, []string{"no-writes", "allow-oom"}) {
		t.Errorf("names %q", names)
	}
	c.refusal = Error("ERR refused")
	if got, raised, err := e.Call(nil, FunctionCall{Function: f, Caller: c, Proto: 2}); string(got) != "-ERR refused\r\n" || raised || err != nil {
		t.Errorf("%q, %v, %v", got, raised, err)
	}
	if got, raised, err := e.Eval(nil, []byte("return 1"), nil, nil, c, 2); string(got) != "-ERR refused\r\n" || raised || err != nil {
		t.Errorf("%q, %v, %v", got, raised, err)
	}
}

func BenchmarkFunctionCall(b *testing.B) {
	e := New(Options{})
	mustAdd(b, e, library("lib", "redis.register_function('claim', function(KEYS) "+strings.ReplaceAll(olderClaimBody, "\n", " ")+" end)"))
	f := e.Libraries().Function([]byte("claim"))
	keys := bytesOf("pending", "inprog")
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _, _ = e.Call(dst[:0], FunctionCall{Function: f, Keys: keys, Caller: cannedCaller{}, Proto: 2})
	}
}

// TestShebangsAsRedis runs a script behind every kind of first line here and on a real server.
func TestShebangsAsRedis(t *testing.T) {
	redis := startRedis(t)
	e := New(Options{})
	for _, line := range []string{
		"#!lua\n", "#!lua", "#!lua flags=\n", "#!lua flags=no-writes\n", "#!lua flags=no-writes,\n", "#!lua flags=,no-writes\n", "#!lua flags=,\n",
		"#!lua flags=no-writes,,allow-oom\n", "#!lua flags=allow-stale,allow-oom,no-cluster,allow-cross-slot-keys\n", "#!lua flags=NO-WRITES\n",
		"#!lua FLAGS=no-writes\n", "#!lua flags=nosuch\n", "#!lua flags=no-writes flags=allow-oom\n", "#!lua x\n", "#!lua name=x\n", "#!LUA\n", "#!luax\n",
		"#! lua\n", "#!\n", "#!js x\n", "#!lua\r\n", "#!lua\tflags=no-writes\r\n", "#!lua \v\fflags=no-writes\n", "#!lua\vflags=no-writes\n",
		`#!lua "flags=no-writes"` + "\n", `#!lua "flags=no-writes` + "\n", `#!lua fl"ags=no-writes"` + "\n", `#!lua flags='no-writes'x` + "\n", `#!"lua"` + "\n",
		`#!lua 'a\'b'` + "\n", `#!lua "a\"b"` + "\n", `#!lua 'a\"b\n'` + "\n", `#!lua "\x41\x4g\q\\\x4"` + "\n", `#!lua "\t\b\a"` + "\n", `#!lua \x41` + "\n", `#!lua ""` + "\n",
		`#!lua "x"'y'` + "\n", "#!lua\x00\n", "#!lua x\x00y\n", "#!lua 'x\n",
	} {
		body := line + "return 1"
		want := redis.do("EVAL", body, "0")
		got, _, err := e.Eval(nil, []byte(body), nil, nil, newFakeCaller(), 2)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", line, got, err, want)
		}
	}
}
